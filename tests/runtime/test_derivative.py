"""Derivatives of compiled functions that are differentiated again: those of dynamic mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.func.trees import flatten

POINTS = ([0.5, -0.25, 1.2], [-0.6, 0.3, -0.4])
TABLE: dict[str, Callable[[Any], Any]] = {}


def row(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    TABLE[function.__name__] = function
    return function


@row
def neighbours(x):
    return x * x.roll(1)


@row
def detached(x):
    return x * x.detach() * x


@row
def not_recorded(x):
    with rl.no_grad():
        y = x * x
    return x * y


class Square(rl.autograd.Function):
    """The exponential, with the derivative of something else."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0] ** 2


@row
def own_rule(x):
    return Square.apply(x)


@row
def hook_inside(x):
    y = x * x
    y.register_hook(lambda g: g * 3)
    return y * x


@row
def shared_memory(x):
    y = x.sin() * x
    return {"first": y[:2], "rest": (y[1:], y)}


@row
def branch(x):
    return rl.cond(x.sum() > 0, lambda x: x**3 * x.detach(), lambda x: x.sin(), x)


@row
def until_large(x):
    return rl.while_loop(lambda y: y.abs().sum() < 4, lambda y: y * y + 1.1, (x,))[0]


@row
def scanned(x):
    carry, ys = rl.scan(lambda c, r: (c * r.sin() + c, c * c * r), rl.ones(()), x)
    return ys + carry


@row
def tensors_decide(x):
    if x.sum() > 0:
        return x**3
    return x.sin()


def total(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: sum([t.square().sum() for t in flatten(function(x))[0]])


TRANSFORMS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "jvp": lambda f: lambda x: rl.func.jvp(f, (x,), (x.cos(),)),
    "jacfwd": rl.func.jacfwd,
    "hessian": lambda f: rl.func.hessian(total(f)),
    "third": lambda f: rl.func.jacfwd(rl.func.hessian(total(f))),
}
QUICK = {
    ("jacfwd", "branch"),
    ("jacfwd", "detached"),
    ("hessian", "scanned"),
    ("third", "detached"),
}
PAIRS = [
    pytest.param(t, f, marks=() if t == "jvp" or (t, f) in QUICK else pytest.mark.slow)
    for t in TRANSFORMS
    for f in TABLE
]


def same(found: Any, expected: Any) -> None:
    for a, b in zip(flatten(found)[0], flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-9, atol=1e-9)


@pytest.fixture(autouse=True)
def doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl.config, "default_dtype", rl.float64)


@pytest.mark.parametrize(("transform", "name"), PAIRS)
def test_a_compiled_function_has_all_derivatives(transform: str, name: str) -> None:
    derivative, function = TRANSFORMS[transform], TABLE[name]
    compiled = rl.compile(function, fullgraph=True)
    for point in POINTS:
        x = rl.tensor(point)
        same(derivative(compiled)(x), derivative(function)(x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x):
        return self.layer(x[:, None] * rl.arange(1.0, 4.0)[:, None])[0].sum(1)


class Attention(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0]


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)),
    "writes statistics": lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh()),
    "recurrent": Recurrent,
    "attention": lambda: nn.Sequential(nn.Linear(4, 8), Attention()),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_penalty_for_gradients(name: str) -> None:
    def trained(compiled: bool) -> list[Any]:
        rl.manual_seed(0)
        net = NETWORKS[name]()
        run = rl.compile(net, fullgraph=True) if compiled else net
        x = rl.randn(6, 4)
        for _ in range(2):
            x.requires_grad_()
            (g,) = rl.autograd.grad(run(x).sum(), x, create_graph=True)
            (g.square().sum(1) - 1).square().mean().backward()
            x = x.detach() + 1
        return [*[p.grad for p in net.parameters() if p.grad is not None], *net.buffers()]

    same(trained(True), trained(False))


def test_arguments_of_all_kinds() -> None:
    def function(pair, scale, *, powers):
        return (pair["a"] * pair["b"] * scale) ** powers[1]

    compiled = rl.compile(function, fullgraph=True)
    powers = [2, 3]
    for scale in (1.0, 2.0, 3.5):

        def of(run, x, scale=scale):
            return run({"a": x, "b": x}, scale, powers=powers)

        x = rl.tensor(POINTS[0])
        found = rl.func.jacfwd(lambda x, of=of: of(compiled, x))(x)
        same(found, rl.func.jacfwd(lambda x, of=of: of(function, x))(x))


def test_a_list_that_changes_after_the_call() -> None:
    compiled = rl.compile(lambda x, powers: x ** powers[0], fullgraph=True)
    powers = [3]
    x = rl.tensor(POINTS[0]).requires_grad_()
    y = compiled(x, powers)
    powers[0] = 5
    (g,) = rl.autograd.grad(y.sum(), x, create_graph=True)
    same(g, 3 * x**2)


def test_sizes_may_change() -> None:
    compiled = rl.compile(neighbours, fullgraph=True)
    for size in (3, 2, 4, 3):
        x = rl.linspace(-1, 1, size)
        same(rl.func.jacfwd(compiled)(x), rl.func.jacfwd(neighbours)(x))


def second(function: Callable[..., Any], x: Any, *others: Any) -> Any:
    (g,) = rl.autograd.grad(function(x, *others).sum(), x, create_graph=True)
    return g, *rl.autograd.grad(g.square().sum(), x)


@pytest.mark.parametrize("compiled", [False, True])
def test_what_depends_on_each_other_outside(compiled: bool) -> None:
    run = rl.compile(lambda a, b: a * b.sin(), fullgraph=True) if compiled else None
    x = rl.tensor(POINTS[0]).requires_grad_()
    g, h = second(run or (lambda a, b: a * b.sin()), x, x * x)
    s, c = (x * x).sin(), (x * x).cos()
    slope, curvature = s + 2 * x * x * c, 6 * x * c - 4 * x**3 * s
    same([g, h], [slope, 2 * slope * curvature])


@pytest.mark.parametrize("order", [1, 2])
def test_hooks_of_leaves_are_called_once(order: int) -> None:
    def gradients(compiled: bool) -> Any:
        w = rl.tensor(POINTS[0]).requires_grad_()
        x = rl.tensor(POINTS[1]).requires_grad_()
        w.register_hook(lambda g: g * 2)
        x.register_hook(lambda g: g * 5)

        def function(x):
            return (x**3 * w * w).sum()

        run = rl.compile(function, fullgraph=True) if compiled else function
        found = rl.autograd.grad(run(x), (x, w), create_graph=order == 2)
        return found if order == 1 else rl.autograd.grad(found[0].sum(), (x, w))

    same(gradients(True), gradients(False))


def reads_and_writes(buffer: Any, x: Any) -> Any:
    with rl.no_grad():
        buffer.mul_(2)
    return x**3 * buffer


def test_what_would_be_another_function_is_refused() -> None:
    buffer, x = rl.ones(3), rl.tensor(POINTS[0]).requires_grad_()
    refused = {
        "draws random numbers": lambda x: x * x * rl.rand(3),
        "depends on a tensor and writes": lambda x: reads_and_writes(buffer, x),
    }
    for message, function in refused.items():
        with pytest.raises(RuntimeError, match=f"{message}.* cannot be differentiated twice"):
            second(rl.compile(function, fullgraph=True), x)
