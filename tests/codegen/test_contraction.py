"""Parts of a contraction: any of them can be run by itself, in any order."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from rushlight.codegen.tiling import matrix, plan
from rushlight.runtime.natives import address, registers
from tests.codegen.products import run


@pytest.mark.parametrize(("m", "n", "k"), [(100, 300, 700), (6, 1000, 1000), (200, 20, 900)])
def test_parts_in_any_order(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    operands = matrix((m, k), (k, 1), [0], [1]), matrix((k, n), (n, 1), [1], [0])
    works = plan(*operands, matrix((m, n), (n, 1), [0], []), "f64", registers())
    right = np.full((m, n), np.nan)
    run(works, {"a": a, "b": b, "y": right})
    memory = {"a": a, "b": b, "y": np.full((m, n), np.nan)}
    memory |= {name: np.full(size, np.nan) for name, size in works.space.items()}
    for work in works.list:
        arrays = [work.table if name == "table" else memory[name] for name in work.buffers]
        addresses = np.array([x.ctypes.data for x in arrays], np.int64)
        word = ctypes.c_int64
        function = ctypes.CFUNCTYPE(None, word, word, word)(address(work.name))
        for part in rng.permutation(work.parts).tolist():
            function(addresses.ctypes.data, part, part + 1)
    np.testing.assert_array_equal(memory["y"], right)


def test_whole_rows_are_cut_into_rows_alone() -> None:
    operands = matrix((96, 500), (500, 1), [0], [1]), matrix((500, 900), (900, 1), [1], [0])
    target = matrix((96, 900), (900, 1), [0], [])
    for whole in (False, True):
        works = plan(*operands, target, "f32", registers(), whole_rows=whole)
        _, _, column_parts = works.list[-1].table[:3]
        assert (column_parts == 1) == whole
