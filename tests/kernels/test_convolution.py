"""The kernels of convolution: blocks, layouts and both ways back give one result."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from rushlight.kernels import convolution as kernels
from rushlight.kernels.windows import Geometry, folded, unfolded

CASES = [
    ((5, 4, 13, 11), (6, 2, 3, 2), Geometry((1, 1), (1, 0), (1, 2), 2)),
    ((5, 4, 13, 11), (6, 4, 3, 2), Geometry((2, 3), (2, 1), (1, 1))),
    ((3, 2, 600), (4, 1, 5), Geometry((1,), (2,), (3,), 2)),
    ((3, 2, 600), (4, 2, 5), Geometry((4,), (0,), (1,))),
    ((2, 3, 5, 4, 6), (2, 1, 2, 2, 3), Geometry((1, 2, 1), (1, 1, 0), (1, 1, 2), 1)),
]


def family(x: tuple[int, ...], w: tuple[int, ...], geometry: Geometry) -> list[np.ndarray]:
    """A convolution and both of its gradients."""
    random = np.random.default_rng(0)
    channels = w[1] * geometry.groups
    a, b = random.standard_normal((x[0], channels, *x[2:])), random.standard_normal(w)
    y = kernels.convolve(a, b, geometry, geometry.counts(w[2:], x[2:]))
    return [
        y,
        kernels.convolve_transposed(y, b, geometry, x[2:]),
        kernels.convolve_weight(a, y, geometry, w[2:]),
    ]


@pytest.mark.parametrize(("x", "w", "geometry"), CASES)
@pytest.mark.parametrize(
    "limits", [{"BLOCK": 1, "COLUMNS": 1}, {"BLOCK": 1, "COLUMNS": 40}, {"BLOCK": 1 << 30}]
)
@pytest.mark.parametrize("narrow", [0, 1 << 30])
def test_blocks_and_layouts_do_not_matter(
    monkeypatch: Any, x: Any, w: Any, geometry: Geometry, limits: dict[str, int], narrow: int
) -> None:
    expected = family(x, w, geometry)
    for name, value in (*limits.items(), ("NARROW", narrow)):
        monkeypatch.setattr(kernels, name, value)
    kernels.blocks.cache_clear()
    try:
        for a, b in zip(family(x, w, geometry), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    finally:
        kernels.blocks.cache_clear()


@pytest.mark.parametrize(("x", "w", "geometry"), CASES)
def test_the_three_are_one_form(x: Any, w: Any, geometry: Geometry) -> None:
    """⟨conv(x, w), y⟩ = ⟨x, transposed(y, w)⟩ = ⟨w, weight(x, y)⟩."""
    random = np.random.default_rng(0)
    count = geometry.counts(w[2:], x[2:])
    a = random.standard_normal((x[0], w[1] * geometry.groups, *x[2:]))
    b, g = random.standard_normal(w), random.standard_normal((x[0], w[0], *count))
    form = np.vdot(kernels.convolve(a, b, geometry, count), g)
    assert np.vdot(a, kernels.convolve_transposed(g, b, geometry, x[2:])) == pytest.approx(form)
    assert np.vdot(b, kernels.convolve_weight(a, g, geometry, w[2:])) == pytest.approx(form)


@pytest.mark.parametrize("count", [(1,), (7,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("most", [1, 2, 5, 6, 100])
def test_parts_cover_every_place_once(count: tuple[int, ...], most: int) -> None:
    seen = np.zeros(count, int)
    for place in kernels.divided(count, most):
        seen[place] += 1
        assert seen[place].size <= most
    assert (seen == 1).all()


def test_unfolding_and_folding_are_transposed() -> None:
    random = np.random.default_rng(0)
    for stride, padding, dilation in itertools.product((1, 2), (0, 2), (1, 2)):
        geometry = Geometry((stride,) * 2, (padding,) * 2, (dilation,) * 2)
        x = random.standard_normal((2, 3, 6, 7))
        count = geometry.counts((2, 3), (6, 7))
        windows = unfolded(x, 2, (2, 3), geometry, count)
        g = random.standard_normal(windows.shape)
        back = folded(g, 2, geometry, (6, 7))
        assert np.vdot(windows, g) == pytest.approx(np.vdot(x, back))
