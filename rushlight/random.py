"""The random numbers of a program: its default generator, and seeding and restoring it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight import generator as streams
from rushlight.autograd.modes import local as modes
from rushlight.device import device, require
from rushlight.errors import kind
from rushlight.symbol import refuse_in_trace
from rushlight.tensor import Tensor, wrap


class Generator(streams.Generator):
    """A stream of random numbers of its own, equal to PyTorch's for the same seed.

    >>> generator = rl.Generator().manual_seed(0)
    >>> rl.rand(2, generator=generator)
    tensor([0.4963, 0.7682])
    """

    __slots__ = ()

    def __init__(self, device: device | str = "cpu") -> None:
        super().__init__(require(device))

    def get_state(self) -> Tensor:  # type: ignore[override]
        """The position in the stream, as a tensor of bytes that PyTorch reads too."""
        trace = modes.state.trace
        return wrap(super().get_state() if trace is None else trace.random.state(self))

    def set_state(self, new_state: Tensor) -> Generator:  # type: ignore[override]
        """Continues from a position that :meth:`get_state` gave, here or in PyTorch."""
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a rushlight.ByteTensor, but got {kind(new_state)}")
        trace = modes.state.trace
        if trace is None:
            super().set_state(new_state._array)
        else:
            trace.random.set_state(self, new_state._array)
        return self

    def manual_seed(self, seed: int) -> Generator:
        """Starts the stream of ``seed``."""
        refuse_in_trace("Generator.manual_seed()")
        super().manual_seed(seed)
        return self

    def clone_state(self) -> Generator:
        """A generator that continues from here on its own."""
        return _restored(self.get_state())

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get_state(),)


def _restored(state: Tensor) -> Generator:
    return Generator().set_state(state)


default_generator = Generator()
default_generator.seed()  # unforeseeable until the program seeds it, as PyTorch's


class Local(threading.local):
    """``generator`` is what the calling thread draws from by default."""

    generator: Generator = default_generator


local = Local()


def draw_from(generator: Generator) -> None:
    """From now on the calling thread draws from ``generator`` by default, and seeds it."""
    local.generator = generator


def chosen(generator: Generator | None) -> Generator:
    """The generator that an argument ``generator=`` means: None is the thread's default one."""
    if generator is None:
        return local.generator
    if not isinstance(generator, Generator):
        raise TypeError(f"argument 'generator' must be rushlight.Generator, not {kind(generator)}")
    return generator


def manual_seed(seed: int) -> Generator:
    """Starts the default generator anew from ``seed``, and returns it.

    The same seed gives the numbers that PyTorch draws on the CPU.

    >>> rl.manual_seed(0) is rl.default_generator
    True
    >>> rl.rand(2)
    tensor([0.4963, 0.7682])
    """
    local.generator.manual_seed(whole_seed(seed))
    return local.generator


def whole_seed(seed: Any) -> int:
    """A seed as an int: numbers and 0-d tensors are taken, as PyTorch does."""
    try:
        return int(seed)
    except (TypeError, ValueError) as error:
        message = f"manual_seed(): the seed must be an int, not {kind(seed)}"
        raise type(error)(message) from None


def seed() -> int:
    """Starts the default generator anew from a seed nobody can foresee, and returns that seed."""
    refuse_in_trace("seed()")
    return local.generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last started from."""
    return local.generator.initial_seed()


def get_rng_state() -> Tensor:
    """The position of the default generator, for :func:`set_rng_state`.

    >>> state = rl.get_rng_state()
    >>> first = rl.rand(2)
    >>> rl.set_rng_state(state)
    >>> bool((rl.rand(2) == first).all())
    True
    """
    return local.generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continues the default generator from a position that :func:`get_rng_state` gave."""
    local.generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """Inside, random numbers may be drawn and seeds set without an effect on what comes after.

    >>> before = rl.get_rng_state()
    >>> with rl.random.fork_rng():
    ...     _ = rl.rand(10)
    >>> bool((rl.get_rng_state() == before).all())
    True
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)
