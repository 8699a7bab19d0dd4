"""Running sums and extrema: the same as NumPy's accumulate, along any axis."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels.running import running


@pytest.mark.parametrize("shape", [(0, 3), (5,), (200_000,), (40, 30, 20), (3, 500, 90), (1, 7)])
@pytest.mark.parametrize("combine", [np.add, np.maximum])
def test_accumulates_along_each_axis(shape: tuple[int, ...], combine: np.ufunc) -> None:
    x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    for look in (x, x[..., ::-1], x.T):
        for dim in range(look.ndim):
            expected = combine.accumulate(look.astype(np.float64), dim)
            y = running(combine, look, dim, np.float64)
            assert y.dtype == np.float32
            np.testing.assert_array_equal(y, expected.astype(np.float32))
