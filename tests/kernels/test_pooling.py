"""Windows against plain loops: values, places, and the transpose of sums."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from rushlight.kernels import pooling
from rushlight.kernels.pooling import Window

WINDOWS = {
    "single": [Window(4, 1, 4, 4), Window(5, 1, 3, 3)],
    "disjoint": [Window(5, 2, 2, 2), Window(6, 3, 2, 2, 1)],
    "inside": [Window(14, 2, 7, 7), Window(15, 2, 7, 7)],
    "overlapping": [Window(7, 4, 3, 2, 1), Window(6, 6, 3, 1, 1)],
    "dilated": [Window(9, 3, 3, 2, 0, 2), Window(8, 3, 2, 3, 1, 3)],
    "trivial": [Window(3, 3, 1), Window(4, 2, 2, 2)],
    "row": [Window(11, 5, 4, 2, 1)],
    "volume": [Window(3, 2, 2), Window(4, 2, 2, 2), Window(5, 3, 3, 2, 1)],
}


def elements(windows: list[Window], place: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The elements of the window at ``place``, row by row, by the definition."""
    sides = []
    for w, i in zip(windows, place, strict=True):
        side = [i * w.stride - w.padding + k * w.dilation for k in range(w.size)]
        sides.append([e for e in side if 0 <= e < w.length])
    return list(itertools.product(*sides))


def planes(windows: list[Window], seed: int = 0) -> np.ndarray:
    """Two by three planes of few different values, so that many are equal."""
    shape = (2, 3, *[w.length for w in windows])
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def each_window(windows: list[Window]) -> list[tuple[int, ...]]:
    return list(np.ndindex(*[w.outputs for w in windows]))


@pytest.mark.parametrize("name", WINDOWS)
def test_folds_are_those_of_the_definition(name: str) -> None:
    windows = WINDOWS[name]
    x = planes(windows)
    most = pooling.fold(np.maximum, x, tuple(windows), -np.inf)
    total = pooling.fold(np.add, x, tuple(windows), 0)
    for place in each_window(windows):
        held = np.stack([x[(..., *e)] for e in elements(windows, place)])
        np.testing.assert_array_equal(most[(..., *place)], held.max(0))
        np.testing.assert_array_equal(total[(..., *place)], held.sum(0))


@pytest.mark.parametrize("special", [None, np.nan, -np.inf])
@pytest.mark.parametrize("name", WINDOWS)
def test_the_first_largest_element_and_the_last_nan_are_found(
    name: str, special: float | None
) -> None:
    windows = WINDOWS[name]
    x = planes(windows)
    if special is not None:
        x[np.random.default_rng(1).random(x.shape) < 0.4] = special
    y, index = pooling.largest(x, tuple(windows), -np.inf)
    plane = [w.length for w in windows]
    for place in each_window(windows):
        for lead in np.ndindex(2, 3):
            best, found = -math.inf, None
            for e in elements(windows, place):
                value = x[(*lead, *e)]
                if found is None or value > best or np.isnan(value):
                    best, found = value, e
            assert found is not None
            assert index[(*lead, *place)] == np.ravel_multi_index(found, plane)
            np.testing.assert_equal(y[(*lead, *place)], best)


@pytest.mark.parametrize("name", WINDOWS)
def test_spreading_is_the_transpose_of_summing(name: str) -> None:
    windows = tuple(WINDOWS[name])
    x = planes(WINDOWS[name]).astype(np.float64)
    y = pooling.fold(np.add, x, windows, 0)
    g = np.random.default_rng(2).standard_normal(y.shape)
    np.testing.assert_allclose((g * y).sum(), (pooling.spread(g, windows) * x).sum())


def test_results_are_never_the_input_itself() -> None:
    x, windows = np.ones((1, 2, 3)), (Window(3, 3, 1),)
    for y in (pooling.fold(np.maximum, x, windows, -np.inf), pooling.spread(x, windows)):
        assert not np.shares_memory(x, y)


def test_holdings_count_the_padding_or_not() -> None:
    window = (Window(5, 3, 3, 2, 1),)
    kind = np.dtype(np.float32)
    assert pooling.holdings(window, True, kind).tolist() == 3
    assert pooling.holdings(window, False, kind).tolist() == [2, 3, 2]
    beyond = (Window(5, 3, 2, 2),)  # the last window reaches over the end, which is no padding
    assert pooling.holdings(beyond, True, kind).tolist() == [2, 2, 1]


def test_values_that_meet_are_added_up_or_the_last_counts() -> None:
    y, index = np.array([[1.0, 2.0]]), np.array([[1, 1]])
    assert pooling.put(y, index, (3,), once=False).tolist() == [[0, 3, 0]]
    assert pooling.put(y, index, (3,), once=True).tolist() == [[0, 2, 0]]
    assert pooling.pick(np.array([[5.0, 6.0, 7.0]]), index, 1).tolist() == [[6, 6]]
