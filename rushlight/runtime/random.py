"""Large draws of random numbers by native code, in place on the state of NumPy's generator."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.codegen.random import DRAWS, LENGTH, Draw, module
from rushlight.generator import NativeDraw, Twister
from rushlight.runtime import threads
from rushlight.runtime.cache import object_code
from rushlight.runtime.host import put_aside
from rushlight.runtime.jit import load, target

WORTH_WAKING = 16  # chunks that take longer than waking the workers does
FIELDS = [
    ("turn", ctypes.c_int64),
    ("state", ctypes.c_void_p),
    ("out", ctypes.c_void_p),
    ("count", ctypes.c_int64),
]
TYPES: dict[np.dtype, Any] = {
    np.dtype(np.float64): ctypes.c_double,
    np.dtype(np.int64): ctypes.c_int64,
}


def draw(
    bits: Any,
    what: str,
    count: int,
    dtype: np.dtype,
    *numbers: float,
    out: np.ndarray | None = None,
) -> np.ndarray | None:
    """``count`` samples from the live state of an ``MT19937``; None if no function makes such ones.

    They are in ``out`` if it is given, and contiguous and of that type; else in a new array.

    >>> from rushlight.generator import Twister
    >>> draw(Twister(0).bits, "uniform", 3, np.dtype(np.float32), -1.0, 1.0)
    array([-0.00748682,  0.5364436 , -0.82304513], dtype=float32)
    """
    known = function(what, dtype)
    if known is None:
        return None
    if out is None or out.dtype != dtype or not out.flags.c_contiguous:
        out = np.empty(count, dtype)
    chunks = known.draw.chunks(count)
    with bits.lock:
        context = known.context(0, bits.ctypes.state_address, out.ctypes.data, count, *numbers)
        if chunks == 1:
            known.call(ctypes.addressof(context), 0)
        else:
            share(known, context, chunks)
    return out


class Function:
    """A function of :data:`rushlight.codegen.random.DRAWS`, as Python calls it."""

    __slots__ = ("address", "call", "context", "draw", "library")

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.library = load([object_code(module(draw))], threads.symbols())
        put_aside()
        self.address = self.library.address(draw.name)
        numbers = [(f"n{i}", TYPES[kind]) for i, kind in enumerate(draw.numbers)]
        self.context = type("Context", (ctypes.Structure,), {"_fields_": [*FIELDS, *numbers]})
        self.call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(self.address)


@functools.cache
def function(what: str, dtype: np.dtype) -> Function | None:
    """The function that makes such samples, made on first use; None if there is none."""
    draw = DRAWS.get((what, dtype))
    return None if draw is None else Function(draw)


def share(function: Function, context: ctypes.Structure, chunks: int) -> None:
    """Runs all chunks, by several threads if there are enough for that."""
    pool = threads.pool()
    wakes = chunks >= WORTH_WAKING and pool.threads > 1
    if wakes:
        pool.begin()
    try:
        in_order()(pool.address, function.address, ctypes.addressof(context), chunks)
    finally:
        if wakes:
            pool.end()


@functools.cache
def in_order() -> Callable[[int, int, int, int], None]:
    address = threads.symbols()["rl_in_order"]
    kinds = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    return ctypes.CFUNCTYPE(None, *kinds)(address)


@functools.cache
def functions() -> NativeDraw | None:
    """:func:`draw`, if native code can be made here and NumPy keeps its state where it is sought.

    Otherwise None: NumPy then draws the same numbers itself, sooner than a processor without the
    fused multiply-add would.
    """
    try:
        return draw if target().has_fma and state_is_found() and words_agree() else None
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
