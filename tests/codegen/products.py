"""Running the works of a product, for tests."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.codegen.products import place_of, product_works
from rushlight.codegen.tiling import Works
from rushlight.runtime.driver import STEP, driver
from rushlight.runtime.natives import address, registers
from rushlight.runtime.threads import pool

KINDS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
PRECISION = {  # relative to the sum of magnitudes, and absolute
    "float32": (2**-19, 0.0),
    "float64": (2**-48, 0.0),
    "float16": (2**-10, 2.0**-24),
    "bfloat16": (2**-7, 0.0),
}
SPACES = {"f32": np.float32, "f64": np.float64}


def run(works: Works, buffers: dict[str, np.ndarray]) -> None:
    """Runs works over memory; what lies between them begins as NaN."""
    memory = {name: np.full(n, np.nan, SPACES[works.kind]) for name, n in works.space.items()}
    memory |= buffers
    steps = np.zeros((len(works.list), STEP), np.int64)
    keep = []
    for row, work in zip(steps, works.list, strict=True):
        arrays = [work.table if name == "table" else memory[name] for name in work.buffers]
        addresses = np.array([array.ctypes.data for array in arrays], np.int64)
        keep.append((arrays, addresses))
        chunks = -(-work.parts // work.chunk)
        row[:] = address(work.name), addresses.ctypes.data, work.parts, work.chunk, chunks, 0
    error = np.zeros(2, np.int64)
    threads = pool()
    threads.begin()
    driver().run(steps.ctypes.data, len(steps), threads.address, error.ctypes.data)
    threads.end()


def memory_of(array: np.ndarray) -> np.ndarray:
    """The memory that a view looks at."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def product(letters: str, a: np.ndarray, b: np.ndarray, threads: int = 1) -> np.ndarray:
    """``np.einsum`` of two operands by the contraction engine."""
    operands, of_c = letters.split("->")
    of_a, of_b = operands.split(",")
    sizes: dict[str, int] = {}
    for letter, n in zip(of_a + of_b, a.shape + b.shape, strict=True):
        sizes[letter] = max(n, sizes.get(letter, n)) if n else 0
    c = np.full([sizes[x] for x in of_c], np.nan, a.dtype)
    places = [place_of(x, memory_of(x)) for x in (a, b, c)]
    kind = KINDS[a.dtype.name]
    works = product_works((of_a, of_b, of_c), *places, kind, registers())
    assert works is not None
    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        run(works, {"a": memory_of(a), "b": memory_of(b), "y": c})
    finally:
        rl.set_num_threads(before)
    return c


def expected(letters: str, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product in float64, and how large its terms are."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        sizes = np.einsum(letters, np.abs(x), np.abs(y), optimize=True)
        return np.einsum(letters, x, y, optimize=True), sizes


def check(letters: str, a: np.ndarray, b: np.ndarray, threads: int = 1) -> np.ndarray:
    """A product against float64; the result."""
    c = product(letters, a, b, threads)
    right, sizes = expected(letters, a, b)
    relative, absolute = PRECISION[a.dtype.name]
    found = c.astype(np.float64)
    assert (np.abs(found - right) <= relative * sizes + absolute).all(), (a.shape, b.shape)
    return c


def laid(x: np.ndarray, how: str) -> np.ndarray:
    """The elements of a matrix in another order of memory.

    Args:
        x: a matrix.
        how: ``"rows"`` or ``"columns"`` beside each other, ``"apart"`` (with gaps), ``"back"``
            (from the end to the beginning) or ``"same"`` (all rows are the first one).
    """
    if how == "same":
        return np.broadcast_to(x[:1], x.shape)
    y = np.empty(x.shape, x.dtype, order="F" if how == "columns" else "C")
    if how == "apart":
        y = np.empty((2 * x.shape[0] + 1, 3 * x.shape[1] + 2), x.dtype)[1::2, 2::3]
    elif how == "back":
        y = y[::-1, ::-1]
    y[...] = x
    return y
