"""Large draws of random numbers by native code, in place on the state of NumPy's generator."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.codegen.random import DRAWS, LENGTH, module
from rushlight.generator import NativeDraw, Twister
from rushlight.runtime.cache import object_code
from rushlight.runtime.jit import Library, load

TYPES: dict[np.dtype, Any] = {
    np.dtype(np.float64): ctypes.c_double,
    np.dtype(np.int64): ctypes.c_int64,
}


def draw(bits: Any, what: str, count: int, dtype: np.dtype, *numbers: float) -> np.ndarray | None:
    """``count`` samples from the live state of an ``MT19937``; None if no function makes such ones.

    >>> from rushlight.generator import Twister
    >>> draw(Twister(0).bits, "uniform", 3, np.dtype(np.float32), -1.0, 1.0)
    array([-0.00748682,  0.5364436 , -0.82304513], dtype=float32)
    """
    call = function(what, dtype)
    if call is None:
        return None
    out = np.empty(count, dtype)
    with bits.lock:
        call(bits.ctypes.state_address, out.ctypes.data, count, *numbers)
    return out


@functools.cache
def function(what: str, dtype: np.dtype) -> Callable[..., None] | None:
    """A function of :data:`rushlight.codegen.random.DRAWS`, as Python calls it."""
    known = DRAWS.get((what, dtype))
    if known is None:
        return None
    numbers = [TYPES[kind] for kind in known.numbers]
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, *numbers)
    return signature(address(what, dtype))


def address(what: str, dtype: np.dtype) -> int:
    """Where that function is, for programs that call it.

    Its first argument is a generator's ``twister.bits.ctypes.state_address``, which lasts until
    the generator is seeded anew; the caller holds ``twister.bits.lock``.
    """
    return library(what, dtype).address(DRAWS[what, dtype].name)


@functools.cache
def library(what: str, dtype: np.dtype) -> Library:
    """The code of that function, made on first use."""
    return load([object_code(module(DRAWS[what, dtype]))])


@functools.cache
def functions() -> NativeDraw | None:
    """:func:`draw`, if native code can be made here and NumPy keeps its state where it is sought.

    Otherwise None: NumPy then draws the same numbers itself.
    """
    try:
        return draw if state_is_found() and words_agree() else None
    except (ImportError, OSError, RuntimeError):
        return None


def state_is_found() -> bool:
    """Whether the words of a state and its position lie in memory as native code expects."""
    bits = Twister(1).bits
    memory = (ctypes.c_uint32 * (LENGTH + 1)).from_address(bits.ctypes.state_address)
    state = bits.state["state"]
    return list(memory) == [*state["key"].tolist(), state["pos"]]


def words_agree() -> bool:
    """Whether words drawn by native code are NumPy's, as are those drawn after them."""
    ours, theirs, count = Twister(1).bits, Twister(1).bits, LENGTH + 1
    words: list[Any] = [draw(ours, "words", count, np.dtype(np.uint32)), ours.random_raw(count)]
    return all([np.array_equal(part, theirs.random_raw(count)) for part in words])
