"""Unfold and Fold."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def test_columns_times_a_weight_are_a_convolution() -> None:
    x, w = rl.randn(2, 3, 10, 12), rl.randn(4, 3, 4, 5)
    columns = F.unfold(x, (4, 5), padding=1, stride=2)
    y = (w.view(4, -1) @ columns).view(2, 4, 5, 5)
    assert rl.allclose(y, F.conv2d(x, w, padding=1, stride=2), atol=1e-4)


def test_folding_back_counts_the_windows() -> None:
    x = rl.ones(1, 1, 4, 4)
    counts = F.fold(F.unfold(x, 2), 4, 2)
    rows = np.array([1, 2, 2, 1])
    np.testing.assert_array_equal(counts[0, 0].numpy(), np.outer(rows, rows))


def test_elements_that_no_window_sees_are_zero() -> None:
    y = F.fold(rl.ones(1, 1, 4), 5, 1, stride=3)
    assert y.sum() == 4
    assert y[0, 0, 4].sum() == 0


def test_layers_are_the_functions() -> None:
    x = rl.randn(2, 3, 5, 6)
    unfold = nn.Unfold((2, 3), dilation=(2, 1), padding=(0, 1), stride=1)
    columns = unfold(x)
    assert rl.equal(columns, F.unfold(x, (2, 3), (2, 1), (0, 1), 1))
    fold = nn.Fold((5, 6), (2, 3), dilation=(2, 1), padding=(0, 1), stride=1)
    assert rl.equal(fold(columns), F.fold(columns, (5, 6), (2, 3), (2, 1), (0, 1), 1))
    assert repr(unfold) == "Unfold(kernel_size=(2, 3), dilation=(2, 1), padding=(0, 1), stride=1)"
    assert repr(nn.Fold(4, 2)) == (
        "Fold(output_size=4, kernel_size=2, dilation=1, padding=0, stride=1)"
    )


def test_a_result_is_contiguous() -> None:
    assert F.fold(rl.ones(1, 4, 25), 4, 2, padding=1).is_contiguous()
    assert F.unfold(rl.ones(1, 3, 4, 4), 1).is_contiguous()


def test_a_bool_image_has_bool_columns() -> None:
    assert F.unfold(rl.ones(1, 1, 2, 2, dtype=rl.bool), 2).dtype is rl.bool


@pytest.mark.parametrize("layer", [nn.Unfold(3), nn.Fold(4, 3)])
def test_wrong_inputs_are_refused(layer: nn.Module) -> None:
    with pytest.raises(RuntimeError, match=r"Expected \dD or \dD"):
        layer(rl.ones(2))
