"""Floats among the arguments of an exported function."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import Tensor, nn
from tests.c.building import assert_close, check

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def scaled(x: Tensor, k: float, y: Tensor, clip: float = 1.0) -> Tensor:
    z = (x * k + (1 - k) / 2) @ y
    if k > 1:
        z = z - k
    return z.clamp(-clip, clip * 2)


def test_floats_are_arguments_of_a_run(tmp_path: Path) -> None:
    rl.manual_seed(0)
    x, y = rl.randn(3, 4), rl.randn(4, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = check(scaled, x, 2.0, y, 0.5, folder=tmp_path)
    header = " ".join((tmp_path / "scaled.h").read_text().split())
    assert "const float *x, double k, const float *y, double clip, float *y_out);" in header
    for k, clip in ((2.0, 0.5), (-1.5, 3.0), (1.0, 0.0), (0.1, np.inf)):
        ((found,),) = built.run([x, k, y, clip])
        assert_close(found, scaled(x, k, y, clip).numpy())
    main = (tmp_path / "scaled_main.c").read_text()
    assert "x_data, 2.0, y_data, 0.5, " in main


class Weighted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor, weight: float, rate: float) -> Tensor:
        return self.linear(x) * weight + nn.functional.dropout(x, rate, False).sum()


def test_a_float_whose_value_is_needed_is_a_constant(tmp_path: Path) -> None:
    net = Weighted().eval()
    with pytest.warns(UserWarning, match="export_c: rate is a constant of the program"):
        path = rl.export_c(net, rl.ones(1, 3), 0.5, 0.25, dir=tmp_path)
    text = path.with_suffix(".h").read_text()
    assert "double weight" in text
    assert "double rate" not in text
    assert "WEIGHTED_WEIGHTED_LINEAR_BIAS" in text


def test_a_float_in_a_training_step(tmp_path: Path) -> None:
    rl.manual_seed(0)
    w = rl.ones(3, requires_grad=True)

    def step(x: Tensor, rate: float) -> Tensor:
        loss = (w * x).square().sum()
        (g,) = rl.autograd.grad(loss, w)
        with rl.no_grad():
            w.sub_(g * rate)
        return loss

    x = rl.randn(3)
    built = check(step, x, 0.01, folder=tmp_path)
    (first,), (second,) = built.run([x, 0.0], [x, 0.1])
    assert first == second
