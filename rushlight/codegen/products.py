"""Products of tensors as works of the contraction engine.

An op that is a product says by letters which dimensions it multiplies and which it sums
(``Op.subscripts``), as in ``"bmk", "bkn", "bmn"``: letters of both operands and the result are
batches, of one operand and the result rows or columns, and those the result lacks are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rushlight.codegen.microkernel import Registers
from rushlight.codegen.tiling import Matrix, Works, matrix, plan

KINDS = ("f32", "f64", "f16", "bf16")
LONGEST = 1 << 13  # rows of a table
EXCHANGED = {"a": "b", "b": "a"}


class Place(NamedTuple):
    """Where the elements of a tensor are, in elements from the beginning of its memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


def product_works(
    subscripts: tuple[str, str, str],
    a: Place,
    b: Place,
    c: Place,
    kind: str,
    registers: Registers,
    whole_rows: bool = False,
    still: str = "",
) -> Works | None:
    """The works of a product; None if the engine has none for it.

    The operands ``still`` ("a", "b" or both) are packed once for many calls.
    """
    if kind not in KINDS or 0 in c.shape:
        return None
    of_a, of_b, of_c = subscripts
    if of_c and of_c[-1] not in of_b:  # columns of the result must lie beside each other
        other = "".join([EXCHANGED[name] for name in still])
        works = product_works((of_b, of_a, of_c), b, a, c, kind, registers, whole_rows, other)
        return works and swapped(works)
    batch = [x for x in of_c if x in of_a and x in of_b]
    rows = [x for x in of_c if x not in batch and x in of_a]
    rows.sort(key=lambda x: -a.strides[of_a.index(x)])  # what lies beside each other comes last
    columns = [x for x in of_c if x not in batch and x in of_b]
    inner = [x for x in of_a if x in of_b and x not in of_c]
    first = seen(of_a, a, rows, inner, batch, c, of_c)
    while len(rows) > 1 and len(first.rows) > LONGEST:
        batch.append(rows.pop(0))  # so that the other rows are fewer
        first = seen(of_a, a, rows, inner, batch, c, of_c)
    second = seen(of_b, b, columns, inner, batch, c, of_c)
    target = seen(of_c, c, rows, [], batch, c, of_c)
    if not seen(of_c, c, columns, [], [], c, of_c).beside:
        return None
    return plan(first, second, target, kind, registers, whole_rows=whole_rows, still=still)


def seen(
    letters: str,
    place: Place,
    rows: Sequence[str],
    inner: Sequence[str],
    batch: Sequence[str],
    result: Place,
    of_result: str,
) -> Matrix:
    """A tensor as a matrix; what is broadcast has steps of zero."""
    sizes = dict(zip(of_result, result.shape, strict=True))
    shape = [sizes.get(x, n) for x, n in zip(letters, place.shape, strict=True)]
    strides = [0 if n == 1 else s for n, s in zip(place.shape, place.strides, strict=True)]
    lacking = [x for x in batch if x not in letters]
    shape += [sizes[x] for x in lacking]
    strides += [0] * len(lacking)
    at = {x: d for d, x in enumerate([*letters, *lacking])}
    found = matrix(
        shape, strides, [at[x] for x in rows], [at[x] for x in inner], [at[x] for x in batch]
    )
    return Matrix(found.rows, found.taps, found.inner, found.step, found.batches + place.offset)


def swapped(works: Works) -> Works:
    """The same works with their operands' names exchanged."""
    works.list = [
        work._replace(buffers=tuple([EXCHANGED.get(name, name) for name in work.buffers]))
        for work in works.list
    ]
    return works


def place_of(array: np.ndarray, memory: np.ndarray) -> Place:
    """Where the elements of a view are in the memory it looks at."""
    size = array.itemsize
    offset = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return Place(array.shape, tuple([s // size for s in array.strides]), offset // size)
