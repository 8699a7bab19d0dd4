"""Derivatives of functions in PyTorch and here: values, nesting, flags and errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Body, Scenarios, attempt, compare

scenarios = Scenarios()


def leaf(lib: Any, values: Any, requires_grad: bool = False) -> Any:
    return lib.tensor(values, dtype=lib.float64, requires_grad=requires_grad)


def points(lib: Any, requires_grad: bool = False) -> tuple[Any, Any]:
    x = leaf(lib, [0.5, -1.5, 2.0], requires_grad)
    return x, leaf(lib, [[1.0, 2.0, 3.0], [0.5, 0.25, -1.0]], requires_grad)


def flags(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [flags(v) for v in value]
    return value.requires_grad


def two_outputs(x: Any, w: Any) -> Any:
    return (w * x).sin().sum(1), x * x


def scalar(x: Any, w: Any) -> Any:
    return ((w * x).sin() * w).sum()


@scenarios
def jacobian(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    x, w = points(lib)
    yield f.jacobian(two_outputs, (x, w)), f.jacobian(lambda x: x * x, x)
    yield f.jacobian(lambda x: (x, x.sum()), x), f.jacobian(scalar, (x, w))
    yield f.jacobian(lambda x: x.exp(), w), f.jacobian(lambda x: x.sum(), leaf(lib, 3.0))
    yield f.jacobian(two_outputs, (x, w), vectorize=True)
    yield f.jacobian(two_outputs, (x, w), vectorize=True, strategy="forward-mode")
    yield f.jacobian(lambda x: lib.ones(2), x), f.jacobian(lambda x, w: x, (x, w))
    yield attempt(f.jacobian, two_outputs, (x, w), strategy="sideways")


@scenarios
def jacobian_with_a_graph(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    x, w = points(lib, True)
    j = f.jacobian(two_outputs, (x, w), create_graph=True)
    yield j, flags(j)
    sum((part * part).sum() for row in j for part in row).backward()
    yield x.grad, w.grad
    j = f.jacobian(two_outputs, (x, w))
    yield flags(j)
    x, w = points(lib)
    yield flags(f.jacobian(lambda x: x * x, x, create_graph=True))


@scenarios
def hessian(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    x, w = points(lib)
    yield f.hessian(scalar, (x, w)), f.hessian(lambda x: x.pow(3).sum(), x)
    yield f.hessian(lambda x: x.pow(3).sum(0, keepdim=True), x)
    yield f.hessian(lambda x: x.sum(), x), f.hessian(lambda x: (x * x).sum(), w)
    yield f.hessian(scalar, (x, w), vectorize=True, outer_jacobian_strategy="reverse-mode")
    yield attempt(f.hessian, lambda x: x * 2, x), attempt(f.hessian, two_outputs, (x, w))
    x = leaf(lib, [0.5, 2.0], True)
    h = f.hessian(lambda x: x.pow(4).sum(), x, create_graph=True)
    h.sum().backward()
    yield h, x.grad, flags(h)


@scenarios
def vjp_and_jvp(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    x, w = points(lib)
    u = (leaf(lib, [1.0, 2.0]), leaf(lib, [0.5, 1.0, -1.0]))
    v = (leaf(lib, [1.0, -2.0, 0.5]), leaf(lib, [[1.0, 0.0, 2.0], [3.0, 0.5, 0.0]]))
    yield f.vjp(two_outputs, (x, w), u), f.jvp(two_outputs, (x, w), v)
    yield f.vjp(scalar, (x, w)), f.vjp(lambda x: x.sum(), x, leaf(lib, 3.0))
    yield f.jvp(lambda t: (t, t * t), leaf(lib, 3.0)), f.jvp(lambda x: x.exp(), x, v[0])
    yield f.jvp(lambda x: lib.ones(2), x, v[0]), f.vjp(lambda x: lib.ones(()), x)
    yield attempt(f.vjp, two_outputs, (x, w)), attempt(f.jvp, two_outputs, (x, w))
    yield attempt(f.vjp, two_outputs, (x, w), u[0]), attempt(f.vjp, two_outputs, (x, w), u[::-1])
    yield attempt(f.jvp, two_outputs, (x, w), v[::-1]), attempt(f.jvp, two_outputs, [x, w], v)
    yield attempt(f.vjp, lambda x: [x], x, v[0]), attempt(f.vjp, lambda x: x, 3.0)


@scenarios
def products_with_a_graph(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    for name in ("vjp", "jvp", "vhp", "hvp"):
        x, w = points(lib, True)
        function = two_outputs if name in ("vjp", "jvp") else scalar
        v = (x.detach() * 2, w.detach() + 1)
        if name == "vjp":
            v = (leaf(lib, [1.0, 2.0], True), leaf(lib, [0.5, 1.0, -1.0], True))
        value, product = getattr(f, name)(function, (x, w), v, create_graph=True)
        yield value, product, flags(value), flags(product)
        sum((p * p).sum() for p in product).backward()
        yield x.grad, w.grad, [t.grad for t in v]
        yield flags(getattr(f, name)(function, (x, w), v))


@scenarios
def hessian_products(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    x, w = points(lib)
    v = (leaf(lib, [1.0, -2.0, 0.5]), leaf(lib, [[1.0, 0.0, 2.0], [3.0, 0.5, 0.0]]))
    for product in (f.vhp, f.hvp):
        yield product(scalar, (x, w), v), product(lambda x: x.pow(3).sum(), x, v[0])
        yield product(lambda t: t**3, leaf(lib, 2.0)), product(lambda x: x.sum(), x, v[0])
        yield attempt(product, two_outputs, (x, w), v), attempt(product, lambda x: x * 2, x, v[0])
        yield attempt(product, scalar, (x, w)), attempt(product, scalar, (x, w), v[0])


@scenarios
def strict_mode(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    x, w = points(lib)
    functions = {
        "constant": lambda x, w: lib.ones(()),
        "ignores w": lambda x, w: (x * x).sum(),
        "linear": lambda x, w: x.sum() + w.sum(),
        "smooth": lambda x, w: (x * w).sin().sum(),
    }
    for name, function in functions.items():
        for call, graph in itertools.product(["jacobian", "hessian"], [False, True]):
            yield (
                name,
                call,
                type(attempt(getattr(f, call), function, (x, w), graph, strict=True)).__name__,
            )
        for call, graph in itertools.product(["vjp", "jvp", "vhp", "hvp"], [False, True]):
            v = None if call == "vjp" else (x, w)
            answer = attempt(getattr(f, call), function, (x, w), v, graph, strict=True)
            yield name, call, graph, type(answer).__name__


@scenarios
def inside_no_grad(lib: Any) -> Iterator[Any]:
    f = lib.autograd.functional
    x, w = points(lib)
    with lib.no_grad():
        yield f.jacobian(two_outputs, (x, w)), f.hessian(scalar, (x, w))
        yield f.jvp(two_outputs, (x, w), (x, w)), lib.is_grad_enabled()


@pytest.mark.parametrize("body", scenarios)
def test_derivatives_are_those_of_pytorch(body: Body) -> None:
    compare(body)
