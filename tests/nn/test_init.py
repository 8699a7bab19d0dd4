"""Initialisers: their distributions, their bounds and their refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import init


def drawn(function, *shape: int, **options) -> np.ndarray:
    rl.manual_seed(0)
    return function(rl.empty(*shape), **options).numpy()


def test_uniform_and_normal() -> None:
    x = drawn(init.uniform_, 10000, a=-1, b=3)
    assert -1 <= x.min() < -0.9
    assert 2.9 < x.max() < 3
    x = drawn(init.normal_, 10000, mean=2, std=3)
    assert abs(x.mean() - 2) < 0.1
    assert abs(x.std() - 3) < 0.1


@pytest.mark.parametrize(
    ("function", "options", "std"),
    [
        (init.xavier_uniform_, {}, math.sqrt(2 / 300)),
        (init.xavier_normal_, {"gain": 2}, 2 * math.sqrt(2 / 300)),
        (init.kaiming_uniform_, {}, math.sqrt(2 / 200)),
        (init.kaiming_normal_, {"mode": "fan_out"}, math.sqrt(2 / 100)),
        (init.kaiming_normal_, {"nonlinearity": "tanh"}, 5 / 3 / math.sqrt(200)),
    ],
)
def test_the_spread_depends_on_the_fan(function, options: dict, std: float) -> None:
    assert drawn(function, 100, 200, **options).std() == pytest.approx(std, rel=0.05)


@pytest.mark.parametrize(
    "options", [{}, {"std": 3.0, "a": -1, "b": 1}, {"mean": 5.0, "a": -1, "b": 1}]
)
@pytest.mark.filterwarnings("ignore:mean is more than 2 std")
def test_truncated_normal_stays_in_its_bounds(options: dict) -> None:
    x = drawn(init.trunc_normal_, 5000, **options)
    bound = options.get("b", 2)
    assert -bound <= x.min()
    assert x.max() <= bound
    assert x.std() > 0.1


def test_a_mean_outside_warns() -> None:
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        init.trunc_normal_(rl.empty(3), mean=9.0)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (6, 2, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = drawn(init.orthogonal_, *shape, gain=2).reshape(shape[0], -1)
    w = w if len(w) <= w.shape[1] else w.T
    np.testing.assert_allclose(w @ w.T, 4 * np.eye(len(w)), atol=1e-5)


def test_sparse_eye_dirac_and_constants() -> None:
    assert ((drawn(init.sparse_, 10, 4, sparsity=0.31) == 0).sum(0) == 4).all()
    np.testing.assert_array_equal(drawn(init.eye_, 2, 3), np.eye(2, 3))
    w = drawn(init.dirac_, 4, 2, 3, 3, groups=2)
    assert w.sum() == 4
    assert (w[[0, 1, 2, 3], [0, 1, 0, 1], 1, 1] == 1).all()
    assert (drawn(init.constant_, 3, val=0.5) == 0.5).all()
    assert drawn(init.ones_, 3).sum() == 3
    assert drawn(init.zeros_, 3).sum() == 0


def test_parameters_are_written_and_returned() -> None:
    p = rl.nn.Parameter(rl.empty(3, 3))
    assert init.kaiming_uniform_(p) is p
    assert p.requires_grad
    assert p.is_leaf


def test_a_generator_leaves_the_stream_alone() -> None:
    generator = rl.Generator().manual_seed(5)
    rl.manual_seed(1)
    a = rl.rand(1)
    rl.manual_seed(1)
    init.normal_(rl.empty(4), generator=generator)
    assert rl.equal(a, rl.rand(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.xavier_normal_(rl.empty(3)), "fewer than 2 dimensions"),
        (lambda: init.kaiming_normal_(rl.empty(3, 3), mode="x"), "Mode x not supported"),
        (lambda: init.calculate_gain("x"), "Unsupported nonlinearity x"),
        (lambda: init.calculate_gain("leaky_relu", True), "True not a valid number"),
        (lambda: init.eye_(rl.empty(3)), "Only tensors with 2 dimensions"),
        (lambda: init.sparse_(rl.empty(3), 0.5), "Only tensors with 2 dimensions"),
        (lambda: init.dirac_(rl.empty(3, 3)), "Only tensors with 3, 4, or 5 dimensions"),
        (lambda: init.dirac_(rl.empty(3, 3, 3), 2), "dim 0 must be divisible by groups"),
        (lambda: init.orthogonal_(rl.empty(3)), "Only tensors with 2 or more dimensions"),
    ],
)
def test_wrong_tensors_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_old_names_warn() -> None:
    with pytest.warns(FutureWarning, match=r"`nn.init.uniform` is now deprecated"):
        init.uniform(rl.empty(2))
    with pytest.warns(UserWarning, match="zero-element tensors is a no-op"):
        init.kaiming_uniform_(rl.empty(0, 3))
