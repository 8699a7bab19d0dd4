"""The native driver: it finds arrays by itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rushlight.runtime.driver import COUNT, GROW, JUMP, ROW, WORDS, driver

WHOLE = np.arange(4.0)
FIXED = WHOLE[1:]
FIXED.setflags(write=False)


@pytest.mark.parametrize(
    "array",
    [WHOLE, FIXED, WHOLE[::2], np.empty(0), np.array(1.0), np.ones(2, ml_dtypes.bfloat16)],
    ids=["plain", "read-only", "strided", "empty", "0-d", "bfloat16"],
)
def test_arrays_are_found_where_they_are(array: np.ndarray) -> None:
    table = np.zeros(3, np.int64)
    pairs = np.array([(2, table.ctypes.data), (0, table.ctypes.data + 16)], np.int64)
    driver().place((WHOLE, None, array), pairs.ctypes.data, len(pairs))
    assert table.tolist() == [array.ctypes.data, 0, WHOLE.ctypes.data]


def test_loops_of_steps_copy_rows_until_a_counter_says_so() -> None:
    source, target, counter = np.arange(6.0).reshape(3, 2), np.zeros((3, 2)), np.zeros(1, np.int64)
    tables = np.array([x.ctypes.data for x in (source, target, counter)], np.int64)
    at, last = tables.ctypes.data, tables.ctypes.data + 16
    steps = np.array(
        [[0, at, 16, 16, ROW, 16], [0, last, 1, 0, COUNT, 0], [0, last, 3, 0, JUMP, 0]], np.int64
    )
    error = np.zeros(WORDS, np.int64)
    assert driver().run(steps.ctypes.data, len(steps), 0, error.ctypes.data) == len(steps)
    assert counter[0] == 3
    assert np.array_equal(source, target)


def test_steps_go_on_after_room_was_made() -> None:
    counter = np.full(1, 4, np.int64)
    table = np.array([counter.ctypes.data], np.int64)
    at = table.ctypes.data
    steps = np.array([[0, at, 1, 0, COUNT, 0], [0, at, 5, 0, GROW, 0], [0, at, 7, 0, COUNT, 0]])
    error = np.zeros(WORDS, np.int64)
    assert driver().run(steps.ctypes.data, 3, 0, error.ctypes.data) == 1
    steps[1, 2] = 10
    assert driver().run_from(steps.ctypes.data, 1, 3, 0, error.ctypes.data) == 3
    assert counter[0] == 12


def test_loops_stop_now_and_then_and_go_on() -> None:
    counter = np.zeros(1, np.int64)
    table = np.array([counter.ctypes.data], np.int64)
    at, rounds = table.ctypes.data, 20_000_000
    steps = np.array([[0, at, 1, 0, COUNT, 0], [0, at, rounds, 0, JUMP, 0]])
    error = np.zeros(WORDS, np.int64)
    done = driver().run(steps.ctypes.data, 2, 0, error.ctypes.data)
    assert done == 1  # after a twentieth of a second
    assert 0 < counter[0] < rounds
    while done != 2:
        done = driver().run_from(steps.ctypes.data, done, 2, 0, error.ctypes.data)
    assert counter[0] == rounds
