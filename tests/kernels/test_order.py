"""Sorting and selection: stable, NaN last, the same by every way."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels.order import kth, order, top

KINDS = [np.bool_, np.uint8, np.int8, np.int32, np.int64, np.uint64, np.float32, np.float64]


def lines(kind: type, n: int, ties: bool = True) -> np.ndarray:
    random = np.random.default_rng(n)
    x = random.integers(0, 9, (7, n)) if ties else random.permutation(7 * n).reshape(7, n)
    return (x - 4 * np.issubdtype(kind, np.floating)).astype(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_order_is_a_stable_argsort(kind: type, n: int) -> None:
    x = lines(kind, n)
    np.testing.assert_array_equal(order(x), np.argsort(x, -1, kind="stable"))
    backward = n - 1 - np.argsort(x[:, ::-1], -1, kind="stable")[:, ::-1]
    np.testing.assert_array_equal(order(x, descending=True), backward)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_nan_is_the_largest_and_zeros_are_equal(kind: type) -> None:
    x = np.tile(np.array([0.0, np.nan, -0.0, np.inf, -np.inf, np.copysign(np.nan, -1)], kind), 60)
    np.testing.assert_array_equal(order(x), np.argsort(x, kind="stable"))
    first = order(x, descending=True)[:120]
    np.testing.assert_array_equal(first, np.flatnonzero(np.isnan(x)))


def test_integers_too_far_apart_for_keys() -> None:
    x = np.tile(np.array([2**62, -(2**62), 0, 7], np.int64), 100)
    np.testing.assert_array_equal(order(x), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [0, 1, 3, 40, 300])
@pytest.mark.parametrize("largest", [True, False])
def test_top_is_the_beginning_of_the_order(kind: type, k: int, largest: bool) -> None:
    for ties in (True, kind in (np.bool_, np.uint8, np.int8)):
        x = lines(kind, 300, ties)
        np.testing.assert_array_equal(top(x, k, largest), order(x, largest)[:, :k])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("largest", [True, False])
def test_top_of_many_is_the_beginning_of_the_order(kind: type, largest: bool) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((4, 3000)).astype(kind)
    other = x.copy()
    other[0, [5, 70]], other[1, :9] = np.nan, np.inf
    for values in (x, other, x.round(1)):
        for k in (1, 8, 9, 100, 1400):
            np.testing.assert_array_equal(top(values, k, largest), order(values, largest)[:, :k])


@pytest.mark.parametrize("largest", [True, False])
def test_top_where_infinities_and_nan_stand_in_the_way(largest: bool) -> None:
    x = np.full((2, 600), -np.inf if largest else np.inf, np.float32)
    x[0, 7], x[1, 9] = np.nan, 1.0
    np.testing.assert_array_equal(top(x, 4, largest), order(x, largest)[:, :4])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [5, 300])
def test_kth_is_an_element_of_that_rank(kind: type, n: int) -> None:
    x = lines(kind, n)
    for k in (0, n // 2, n - 1):
        np.testing.assert_array_equal(kth(x, k), order(x)[:, k : k + 1])
