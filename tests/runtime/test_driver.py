"""The native driver: it finds arrays by itself."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rushlight.runtime.driver import driver

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
