"""Products and sums that are rounded once, checked by exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from rushlight.kernels.multiply_add import affine, multiply_add

# Times one of these, SCALE is a little more or less than half a unit of 1 in the last place.
X = np.float32([64 * (1 + k * 2.0**-23) for k in range(-200, 200)])
SCALE = float(np.float32(2.0**-30 + 2.0**-50))


def nearest(exact: Fraction) -> np.float32:
    """The float32 next to a fraction; the even one of two."""
    near = np.float32(float(exact))
    candidates = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(9))]
    return min(
        candidates, key=lambda y: (abs(Fraction(float(y)) - exact), int(y.view(np.int32)) & 1)
    )


@pytest.mark.parametrize("shift", [1.0, 1 + 2.0**-23, -1.0, -1 - 2.0**-23])
@pytest.mark.parametrize("scale", [SCALE, -SCALE])
def test_affine_rounds_once_beside_the_middle(scale: float, shift: float) -> None:
    exact = [Fraction(float(x)) * Fraction(scale) + Fraction(shift) for x in X]
    expected = np.array([nearest(y) for y in exact])
    np.testing.assert_array_equal(affine(X.copy(), scale, shift), expected)


def test_the_samples_would_show_a_second_rounding() -> None:
    shifts = (1.0, 1 + 2.0**-23)
    assert any((affine(X.copy(), -SCALE, c) != multiply_add(X, -SCALE, c)).any() for c in shifts)
