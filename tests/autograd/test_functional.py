"""autograd.functional and func against closed forms; PyTorch's answers are in tests/peers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.autograd import functional


def near(t: Any, expected: Any) -> None:
    np.testing.assert_allclose(t.numpy(), expected, rtol=1e-6, atol=1e-6)


A = np.array([[2.0, -1.0, 0.5], [0.25, 3.0, 1.0], [1.0, 0.0, -2.0]])
X = np.array([0.5, -1.0, 2.0])


def quadratic(x: Any) -> Any:
    return x @ rl.tensor(A) @ x


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_the_jacobian_of_a_linear_map_is_its_matrix(strategy: str) -> None:
    x = rl.tensor(X)
    near(functional.jacobian(lambda x: rl.tensor(A) @ x, x, strategy=strategy), A)
    near(functional.jacobian(lambda x: rl.tensor(A) @ x, x, vectorize=True), A)


def test_the_hessian_of_a_quadratic_form() -> None:
    x = rl.tensor(X)
    near(functional.hessian(quadratic, x), A + A.T)
    near(functional.vhp(quadratic, x, rl.tensor(X))[1], (A + A.T) @ X)
    near(functional.hvp(quadratic, x, rl.tensor(X))[1], (A + A.T) @ X)
    near(rl.func.hessian(quadratic)(x), A + A.T)
    near(rl.func.jacfwd(rl.func.grad(quadratic))(x), A + A.T)


def test_the_jacobian_of_nothing_is_empty() -> None:
    x = rl.zeros(0)
    assert functional.jacobian(lambda x: x * 2, x).shape == (0, 0)
    assert functional.jacobian(lambda x: x.sum(), x).shape == (0,)


def test_forward_mode_takes_all_options() -> None:
    x = rl.tensor(X, requires_grad=True)
    j = functional.jacobian(lambda x: x**2, x, create_graph=True, strategy="forward-mode")
    j.sum().backward()
    near(x.grad, [2, 2, 2])
    with pytest.raises(RuntimeError, match="strict mode"):
        functional.jacobian(lambda x: rl.ones(2), x, strict=True, strategy="forward-mode")


def test_the_inputs_are_not_touched() -> None:
    x = rl.tensor(X, requires_grad=True)
    functional.jacobian(lambda x: x * 2, x)
    functional.hessian(quadratic, x)
    rl.func.grad(quadratic)(x)
    assert x.grad is None
    plain = rl.tensor(X)
    rl.func.grad(quadratic)(plain)
    assert not plain.requires_grad


def test_orders_nest() -> None:
    f: Any = rl.sin
    signs = [1, 1, -1, -1]
    for order in range(1, 5):
        f = rl.func.grad(f)
        expected = (np.cos if order % 2 else np.sin)(0.3) * signs[order % 4]
        near(f(rl.tensor(0.3, dtype=rl.float64)), expected)


def test_samples_are_mapped_in_trees() -> None:
    data = {"x": rl.arange(6.0).view(3, 2), "scale": rl.tensor([1.0, 10.0, 100.0])}
    answer = rl.vmap(lambda d: {"sum": (d["x"] * d["scale"]).sum(), "x": [d["x"]]})(data)
    assert answer["sum"].tolist() == [1, 50, 900]
    assert answer["x"][0].tolist() == data["x"].tolist()
    named = rl.vmap(lambda x: x.sort(), out_dims=1)(data["x"])
    assert named.values.shape == (2, 3)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            "same size in the mapped dimension",
            lambda: rl.vmap(rl.dot)(rl.ones(2, 3), rl.ones(3, 3)),
        ),
        ("out of range", lambda: rl.vmap(rl.sin, in_dims=2)(rl.ones(2, 2))),
        ("must only return Tensors, got int", lambda: rl.vmap(lambda x: 1)(rl.ones(2))),
        ("does not have the structure", lambda: rl.vmap(rl.dot, (0, 0, 0))(rl.ones(2), rl.ones(2))),
        ("size 0", lambda: rl.vmap(rl.sin)(rl.ones(0))),
        ("at least one", lambda: rl.vmap(rl.sin, None)(rl.ones(2))),
    ],
)
def test_vmap_explains_what_is_wrong(message: str, call: Any) -> None:
    with pytest.raises(ValueError, match=message):
        call()
