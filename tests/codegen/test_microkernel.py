"""Tiles of every height and width, on registers of every size."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen.contraction import tile_rows
from rushlight.codegen.microkernel import Registers, Tile
from rushlight.codegen.tiling import Matrix, matrix, plan
from rushlight.config import config
from rushlight.runtime.host import WIDTHS, target
from rushlight.runtime.jit import compile_ir
from rushlight.runtime.natives import registers
from tests.codegen.products import check, laid, product, run


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("columns", range(1, 36, 3))
def test_all_heights(kind: type, columns: int) -> None:
    rng = np.random.default_rng(columns)
    for rows in range(1, 20):
        a = rng.integers(-4, 5, (rows, 5)).astype(kind)
        b = rng.integers(-4, 5, (5, columns)).astype(kind)
        np.testing.assert_array_equal(product("mk,kn->mn", a, b), a @ b)


@pytest.mark.parametrize("other", [Registers(16, 16, False, False), Registers(32, 16, True)])
def test_compiles_for_other_processors(other: Registers) -> None:
    for height in tile_rows(other):
        tile = Tile("f32", other, height, 2, True)
        text = tile.text().replace("define internal", "define")
        assert compile_ir("\n".join([*tile.declared.values(), text]))


@pytest.mark.parametrize("shape", [(1, 9), (4, 20), (17, 33)])
def test_accumulates(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    (m, n), k = shape, 900
    a, b, c = rng.standard_normal((m, k)), rng.standard_normal((n, k)), rng.standard_normal((m, n))
    right = c + a @ b.T
    for order in "CF":
        x, y, target = np.asarray(a, order="C"), np.asarray(b, order=order), c.copy()
        operands: list[Matrix] = [
            matrix(z.shape, [s // 8 for s in z.strides], [0], [1]) for z in (x, y)
        ]
        rows = matrix(target.shape, [n, 1], [0], [])
        works = plan(*operands, rows, "f64", registers(), accumulate=True)
        run(works, {"a": x, "b": y.T if order == "F" else y, "y": target})
        np.testing.assert_allclose(target, right, atol=1e-10)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("order", ["rows", "columns"])
def test_registers_of_all_widths(
    width: int, kind: type, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if width > target().vector_bytes:
        pytest.skip(f"this processor has no registers of {width} bytes")
    monkeypatch.setattr(config, "vector_bytes", width)
    rng = np.random.default_rng(width)
    for m, n, k in [(30, 5, 40), (25, 13, 7), (50, 100, 600), (200, 70, 33), (800, 40, 20)]:
        a = laid(rng.standard_normal((m, k)).astype(kind), order)
        b = laid(rng.standard_normal((k, n)).astype(kind), order)
        check("mk,kn->mn", a, b)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("columns", [64, 75, 97])
def test_packed_rows_of_all_counts(kind: type, columns: int) -> None:
    """Strips of a packed A are not full, are read by tiles of both heights, or do not exist."""
    rng = np.random.default_rng(columns)
    for rows in [*range(1, 34), 101, 220]:
        for inner in (1, 3, 4, 5, 9, 66):
            a = laid(rng.integers(-4, 5, (rows, inner)).astype(kind), "columns")
            b = rng.integers(-4, 5, (inner, columns)).astype(kind)
            right = a.astype(np.float64) @ b.astype(np.float64)
            np.testing.assert_array_equal(product("mk,kn->mn", a, b), right)


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_share_sets_of_a_cache(threads: int) -> None:
    rng = np.random.default_rng(0)
    for rows in (5, 50, 193):
        a = rng.integers(-4, 5, (rows, 1024)).astype(np.float32)
        b = rng.integers(-4, 5, (1024, 300)).astype(np.float32)
        np.testing.assert_array_equal(product("mk,kn->mn", a, b, threads), a @ b)
