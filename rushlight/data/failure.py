"""What went wrong, and in which item: exceptions with a place, exceptions from a worker."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from types import TracebackType

from rushlight.errors import PACKAGE


class Place(str):
    """Which item an exception was raised in: the note that we put on it."""

    __slots__ = ()


class Text(str):
    """A message that keeps its lines in a ``KeyError``, which shows the ``repr`` of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def note(error: BaseException, place: Place) -> None:
    """Notes the place of ``error``, unless an inner one is known already."""
    if place_of(error) is None:
        error.__notes__ = [*getattr(error, "__notes__", ()), place]  # type: ignore[attr-defined]
        if sys.version_info < (3, 11):  # which does not print notes
            error.args = (Text(f"{error}\n{place}"),)


def place_of(error: BaseException) -> Place | None:
    notes = getattr(error, "__notes__", ())
    return next((text for text in notes if isinstance(text, Place)), None)


@dataclass(frozen=True)
class Failure:
    """An exception as it travels from a worker: its class and its text."""

    kind: type[BaseException]
    text: str

    @classmethod
    def of(cls, error: BaseException, worker: str) -> Failure:
        """``worker`` is how the message calls the one that caught ``error``."""
        name, place = type(error).__name__, place_of(error)
        where = worker if place is None else f"{worker}, {place}"
        lines = traceback.format_exception(type(error), error, users_part(error.__traceback__))
        return cls(type(error), f"Caught {name} in {where}.\nOriginal {''.join(lines)}")

    def error(self) -> Exception:
        """An exception of that class, or a ``RuntimeError`` where none can be made of a text."""
        text = Text(self.text)
        if not issubclass(self.kind, Exception) or issubclass(self.kind, StopIteration):
            return RuntimeError(text)
        try:
            return self.kind(text)
        except Exception:
            return RuntimeError(text)


def users_part(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame on that is not ours; all of it if all frames are."""
    part = trace
    while part is not None and part.tb_frame.f_code.co_filename.startswith(PACKAGE):
        part = part.tb_next
    return part or trace
