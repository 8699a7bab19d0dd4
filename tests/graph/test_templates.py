"""Arrays that stand for values in a trace have no memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.templates import SMALL, hollow


@pytest.mark.parametrize(
    "array",
    [
        np.empty((300, 200), np.float32),
        np.empty((300, 200), np.float32).T,
        np.empty((40, 30, 20), np.complex64).transpose(2, 0, 1),
        np.empty((SMALL, 1), np.uint8),
    ],
    ids=["rows", "columns", "permuted", "bytes"],
)
def test_large_arrays_become_hollow(array: np.ndarray) -> None:
    made = hollow(array)
    assert (made.shape, made.strides, made.dtype) == (array.shape, array.strides, array.dtype)
    assert made.flags.writeable
    assert not np.may_share_memory(made, array)


@pytest.mark.parametrize(
    "array",
    [np.empty(()), np.empty((0, 1000)), np.empty(10), np.empty(5000)[::-1], np.empty(9999)[::2]],
    ids=["number", "nothing", "few", "reversed", "every other"],
)
def test_others_stay_as_they_are(array: np.ndarray) -> None:
    assert hollow(array) is array


@pytest.mark.skipif(sys.platform != "linux", reason="where memory can be asked for")
def test_a_trace_of_large_tensors_needs_no_memory() -> None:
    def many(x: rl.Tensor) -> rl.Tensor:
        y = x.expand(1 << 13, 1 << 13)
        for _ in range(40):
            y = y.t() * 2.0 + x
        return y.sum()

    def pages() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    before = pages()
    kept = rl.graph(many, rl.ones(1))
    assert "f32[8192,8192]" in str(kept)
    assert (pages() - before) * 4096 < 100 << 20
