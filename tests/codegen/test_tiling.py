"""What plans choose."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.codegen.microkernel import Registers
from rushlight.codegen.products import Place, product_works
from rushlight.codegen.tiling import balanced, blocks_of, matrix, text_of

HERE = Registers(32, 16, True)


def names(m: int, n: int, k: int, layouts: str = "NN", kind: str = "f32") -> list[str]:
    """The functions of a product, as BLAS calls its layouts."""
    a = Place((m, k), (k, 1) if layouts[0] == "N" else (1, m))
    b = Place((k, n), (n, 1) if layouts[1] == "N" else (1, k))
    works = product_works(("mk", "kn", "mn"), a, b, Place((m, n), (n, 1)), kind, HERE)
    assert works is not None
    return [work.name for work in works.list]


@pytest.mark.parametrize(
    ("shape", "layouts", "expected"),
    [
        ((1, 1000, 300), "NN", ["scaled_f32"]),
        ((1, 1000, 300), "NT", ["dots_f32_1"]),
        ((1000, 1, 300), "NN", ["dots_f32_1"]),
        ((1000, 1, 300), "TN", ["scaled_f32"]),
        ((4, 1000, 300), "NT", ["dots_f32_2"]),
        ((1000, 2, 300), "NN", ["pack_f32_f32_1_any", "dots_f32_2"]),
        ((20, 1000, 300), "NN", ["contract_f32"]),
        ((64, 64, 64), "NN", ["contract_f32"]),
        ((90, 1000, 1000), "NN", ["contract_f32"]),
        ((300, 300, 300), "NN", ["pack_f32_f32_16_rows", "contract_f32"]),
        ((300, 300, 300), "NT", ["pack_f32_f32_16_inner", "contract_f32"]),
        ((16, 16, 400000), "NN", ["contract_f32", "fold_f32_f32"]),
        ((1000, 3, 300), "TN", ["contract_f32", "fold_f32_f32"]),
    ],
)
def test_forms(shape: tuple[int, int, int], layouts: str, expected: list[str]) -> None:
    assert names(*shape, layouts) == expected


def test_half_types_are_converted_while_they_are_packed() -> None:
    expected = ["pack_f32_bf16_16_rows", "pack_f32_bf16_6_inner", "contract_f32", "fold_f32_bf16"]
    assert names(50, 60, 70, kind="bf16") == expected


@pytest.mark.parametrize(
    ("taps", "inner"), [(1, 10), (1, 1000), (9, 64), (9, 3), (25, 1), (3, 700)]
)
def test_blocks_cover_what_is_summed(taps: int, inner: int) -> None:
    a = matrix((4, taps, inner), (10**6, 10**4, 1), [0], [1, 2])
    seen = np.zeros(taps * inner, int)
    for tap, count, begin, size, before in blocks_of(a):
        assert before == tap * inner + begin
        for t in range(tap, tap + count):
            seen[t * inner + begin : t * inner + begin + size] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize(
    "name", ["contract_f64", "dots_f32_3", "scaled_f64", "fold_f32_bf16", "pack_f32_f16_6_inner"]
)
def test_functions_by_name(name: str) -> None:
    assert f"define void @{name}(ptr %buffers, i64 %begin, i64 %end)" in text_of(name, HERE)


@pytest.mark.parametrize("parts", [1, 2, 3, 6, 11, 17, 21, 33])
@pytest.mark.parametrize("m", [36, 49, 64, 196, 784, 1000])
@pytest.mark.parametrize("others", [1, 2, 5])
def test_parts_of_rows_are_balanced(m: int, parts: int, others: int) -> None:
    def time(parts: int, rows: int, threads: int) -> int:
        ends = [0] * threads  # a tile has four rows, however few are needed
        for size in [max(4, min(rows, m - n * rows)) for n in range(parts)] * others:
            ends[ends.index(min(ends))] += size
        return max(ends)

    plain = -(-m // (parts * 6)) * 6
    given = -(-m // plain)
    found, rows = balanced(m, given, others, HERE)
    assert (found - 1) * rows < m <= found * rows
    assert abs(found - given) <= 1 + given // 2
    if found * others <= 32:
        assert time(found, rows, 2) <= 1.05 * time(given, plain, 2)
