"""Panels of packed matrices."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rushlight.codegen.packing import Packing
from rushlight.codegen.tiling import Works, matrix, packed_form, plan
from rushlight.runtime.natives import registers
from tests.codegen.products import KINDS, laid, run


def packed(x: np.ndarray, works: Works) -> np.ndarray:
    """What the first work of a plan leaves in memory."""
    kind = np.float64 if works.kind == "f64" else np.float32
    place = works.list[0].buffers[-1]
    target = np.full(works.space[place], np.nan, kind)
    alone = Works(works.kind, works.list[:1])
    run(alone, {"b": x, place: target})
    return target


@pytest.mark.parametrize("order", ["rows", "columns", "apart"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("n", "k"), [(1, 200), (16, 64), (100, 130), (61, 200)])
def test_panels(order: str, kind: type, n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    whole = laid(rng.standard_normal((n, k)).astype(kind), order)
    name = KINDS[np.dtype(kind).name]
    strides = [s // whole.itemsize for s in whole.strides]
    b = matrix(whole.shape, strides, [0], [1])
    a = matrix((1000, k), (2 * k, 2), [0], [1])
    target = matrix((1000, n), (n, 1), [0], [])
    works = plan(a, b, target, name, registers(), whole_rows=True)
    first = works.list[0]
    assert first.name.startswith("pack_")
    assert first.buffers[0] == "b"
    memory = whole if whole.base is None else whole.base
    begin = (whole.ctypes.data - memory.ctypes.data) // whole.itemsize
    found = packed(memory.reshape(-1, order="A")[begin:], works)
    wide = int(first.name.split("_")[3])
    form = packed_form(b, wide)
    for r in range(n):
        places = form.rows[r] + np.arange(k) * form.step
        np.testing.assert_array_equal(found[places], whole[r].astype(found.dtype))
    assert not np.isnan(found).any()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("taps", [4, 5, 9, 25])
@pytest.mark.parametrize("turned", [False, True])
def test_panels_of_windows(kind: type, taps: int, turned: bool) -> None:
    n, c = 37, 21
    shape = (c, n, taps) if turned else (n, c, taps)
    memory = np.random.default_rng(taps).standard_normal(shape).astype(kind)
    whole = memory.swapaxes(0, 1) if turned else memory
    strides = [s // whole.itemsize for s in whole.strides]
    b = matrix(whole.shape, strides, [0], [2, 1])
    a = matrix((1000, taps, c), (2 * taps * c, 2 * c, 2), [0], [1, 2])
    target = matrix((1000, n), (n, 1), [0], [])
    works = plan(a, b, target, KINDS[np.dtype(kind).name], registers(), whole_rows=True)
    name = works.list[0].name
    assert name.endswith("_taps")
    found = packed(memory, works)
    form = packed_form(b, int(name.split("_")[3]))
    for t in range(taps):
        places = form.rows[:, None] + form.taps[t] + np.arange(c) * form.step
        np.testing.assert_array_equal(found[places], whole[:, :, t].astype(found.dtype))
    assert not np.isnan(found).any()


def test_names_tell_functions_apart() -> None:
    names = {
        Packing("f32", source, width, access).name
        for source in ("f32", "bf16")
        for width in (1, 6, 16)
        for access in ("rows", "inner", "taps", "any")
    }
    assert len(names) == 24
