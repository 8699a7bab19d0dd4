"""What reading a file that cannot be trusted raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CheckpointError(RuntimeError):
    """A file that is damaged, foreign, or holds more than data."""


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turns whatever a damaged file makes the parsers raise into an error that names the file."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from None
    except MemoryError:
        raise CheckpointError(f"{name}: it describes more data than fits into memory") from None
    except OSError:
        raise
    except Exception as error:  # parsers raise all kinds, a tokenizer's error among them
        raise CheckpointError(f"{name}: the file is damaged ({error!r})") from error
