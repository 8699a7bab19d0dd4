"""``func`` in PyTorch and here: values, nesting, trees and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Body, Scenarios, attempt, compare

scenarios = Scenarios()


def t(lib: Any, values: Any, requires_grad: bool = False) -> Any:
    return lib.tensor(values, dtype=lib.float64, requires_grad=requires_grad)


def loss(params: dict[str, Any], x: Any, y: Any) -> Any:
    return ((x @ params["w"] + params["b"]).tanh() - y).pow(2).sum()


def problem(lib: Any) -> tuple[dict[str, Any], Any, Any]:
    w, b = t(lib, [[1.0, 2.0], [0.5, -1.0], [0.25, 0.0]]), t(lib, [0.1, -0.2])
    return {"w": w, "b": b}, t(lib, [[1.0, 2.0, 3.0], [0.0, 1.0, -1.0]]), t(lib, [[1.0, 0.0]] * 2)


@scenarios
def gradients(lib: Any) -> Iterator[Any]:
    f = lib.func
    x = t(lib, 2.0)
    yield f.grad(lambda x: x**3)(x), f.grad(f.grad(f.grad(lambda x: x**5)))(x)
    yield f.grad_and_value(lambda x: x.sin())(x), f.grad(lambda x, y: x * y)(x, t(lib, 3.0))
    yield f.grad(lambda x, y: x * y, argnums=1)(x, t(lib, 3.0))
    yield f.grad(lambda x, y: x * y, argnums=(0, 1))(x, t(lib, 3.0))
    yield f.grad(lambda x, y: x * y, argnums=-1)(x, t(lib, 3.0))
    yield f.grad(lambda x: (x * x, x + 1), has_aux=True)(x)
    yield f.grad_and_value(lambda x: (x * x, {"a": x + 1}), has_aux=True)(x)[1][0]
    g = f.grad(lambda x: x**3)(x)
    yield g.requires_grad, x.requires_grad
    yield attempt(f.grad(lambda x: x * x), t(lib, [1.0, 2.0])), attempt(f.grad(lambda x: 3.0), x)
    yield attempt(f.grad(lambda x: x, argnums=3), x)
    yield f.grad(lambda x: lib.zeros((), dtype=lib.float64))(x)
    yield f.grad(lambda x, scale=1.0: x * scale)(x, scale=5.0)


@scenarios
def gradients_of_trees(lib: Any) -> Iterator[Any]:
    params, x, y = problem(lib)
    g = lib.func.grad(loss)(params, x, y)
    yield sorted(g), g["w"], g["b"]
    g = lib.func.grad(lambda pair: (pair[0] * pair[1][0]).sum())((x, [x + 1]))
    yield g, type(g[1]).__name__


@scenarios
def what_requires_a_gradient_outside(lib: Any) -> Iterator[Any]:
    w, x = t(lib, 3.0, True), t(lib, 2.0)
    g = lib.func.grad(lambda x: w * x**3)(x)
    yield g, g.requires_grad
    g.backward()
    yield w.grad
    x = t(lib, 2.0, True)
    g = lib.func.grad(lambda x: x**3)(x)
    g.backward()
    yield g, x.grad
    with lib.no_grad():
        g = lib.func.grad(lambda x: w * x**3)(x)
    yield g, g.requires_grad


@scenarios
def products(lib: Any) -> Iterator[Any]:
    f, x = lib.func, t(lib, [1.0, 2.0])
    y, pull = f.vjp(lambda x: x * x, x)
    yield y, pull(t(lib, [1.0, 0.5])), pull(t(lib, [0.0, 1.0]))
    y, pull, aux = f.vjp(lambda x, z: (x * z, z), x, x + 1, has_aux=True)
    yield y, pull(x), aux
    y, pull = f.vjp(lambda x: (x.sum(), {"s": x.sin()}), x)
    yield pull((t(lib, 1.0), {"s": t(lib, [1.0, 2.0])}))
    yield f.jvp(lambda x: x * x, (x,), (t(lib, [1.0, 0.5]),))
    yield f.jvp(lambda x, z: (x * z, z.sin()), (x, x + 1), (x, x))
    yield f.jvp(lambda x: (x * x, x), (x,), (x,), has_aux=True)
    yield f.jvp(lambda x: f.jvp(lambda x: x**3, (x,), (x * 0 + 1,))[1], (x,), (x * 0 + 1,))
    yield attempt(f.vjp(lambda x: x * x, x)[1], t(lib, [1.0])), attempt(f.jvp, lambda x: x, x, x)


@scenarios
def jacobians(lib: Any) -> Iterator[Any]:
    f, x = lib.func, t(lib, [1.0, 2.0])
    w = t(lib, [[1.0, 2.0], [0.5, -1.0], [0.25, 0.0]])
    for jacobian in (f.jacrev, f.jacfwd):
        yield jacobian(lambda x: x * x)(x), jacobian(lambda x: x.sum())(x)
        yield jacobian(lambda w, x: (w @ x).tanh(), argnums=(0, 1))(w, x)
        yield jacobian(lambda x: (x, x.sin()))(x), jacobian(lambda x: (x * x, x), has_aux=True)(x)
        yield jacobian(jacobian(lambda x: x.pow(3).sum()))(x)
        g = jacobian(lambda d: d["a"] * d["b"])({"a": x, "b": x + 1})
        yield g["a"], g["b"]
    yield f.hessian(lambda x: x.pow(3).prod())(x)
    yield f.hessian(lambda w, x: (w @ x).tanh().sum(), argnums=1)(w, x)


@scenarios
def batches(lib: Any) -> Iterator[Any]:
    x, w = t(lib, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), t(lib, [0.5, -1.0])
    vmap = lib.vmap
    yield vmap(lib.dot)(x, x), vmap(lib.dot, (0, None))(x, w), vmap(lambda x: x * 2)(x)
    yield vmap(lambda x: x.sum(), 1)(x), vmap(lambda x: x * 2, 1, 1)(x), vmap(lambda x: x, -1)(x)
    yield vmap(lambda x: (x.sum(), x), out_dims=(0, 1))(x)
    yield vmap(lambda d, y: d["a"] * y, ({"a": 0}, None))({"a": x}, w)
    yield vmap(vmap(lambda a, b: a * b, (None, 0)), (0, None))(w, w)
    yield vmap(lambda x, scale=1.0: x * scale)(x, scale=3.0), vmap(lib.dot, chunk_size=2)(x, x)
    yield attempt(vmap(lib.dot), x, w), attempt(vmap(lambda x: 3), x)
    yield attempt(vmap(lambda x: x, 5), x), attempt(vmap(lib.dot, (0,)), x, x)
    yield attempt(vmap(lambda x: x, None), x), attempt(vmap(lambda x: x), 3.0)
    yield attempt(vmap, lambda x: x, randomness="some")
    yield attempt(vmap(lambda x: lib.rand(2)), x)
    for how in ("same", "different"):
        lib.manual_seed(0)
        rows = vmap(lambda x: lib.rand(2), randomness=how)(x)
        yield bool((rows[0] == rows[1]).all()), tuple(rows.shape)


@scenarios
def gradients_of_each_sample(lib: Any) -> Iterator[Any]:
    params, x, y = problem(lib)
    g = lib.vmap(lib.func.grad(loss), (None, 0, 0))(params, x, y)
    yield g["w"], g["b"]
    yield lib.func.grad(lambda w: lib.vmap(lambda x: (x * w).sin().sum())(x).sum())(x[0])
    w = t(lib, [1.0, 2.0, 3.0], True)
    lib.vmap(lambda x: (x * w).sum())(x).sum().backward()
    yield w.grad


@pytest.mark.parametrize("body", scenarios)
def test_func_is_that_of_pytorch(body: Body) -> None:
    compare(body)
