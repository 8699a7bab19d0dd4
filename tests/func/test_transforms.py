"""Derivatives of functions in compiled functions: those of dynamic mode, and of PyTorch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.func.trees import flatten

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

POINTS = ([0.5, -0.25, 1.2], [-0.6, 0.3, -0.4])
TABLE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
"""Functions of a vector, and what they are for PyTorch, which has no such control flow."""


def row(peer: Callable[[Any], Any] | None = None) -> Callable[..., Any]:
    def add(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        TABLE[function.__name__] = function, peer or function
        return function

    return add


@row()
def elements(x):
    return x**3 * x.sin()


@row()
def neighbours(x):
    return x * x.roll(1)


@row()
def number(x):
    return (x**3).sum()


@row()
def several(x):
    return x.exp() * x[0], {"norm": x.square().sum()}


@row()
def partly_constant(x):
    return x * x.detach() * x


def either(x):
    return x**3 if x.sum() > 0 else x.sin()


@row(either)
def branch(x):
    return rl.cond(x.sum() > 0, lambda x: x**3, lambda x: x.sin(), x)


def doubled(x):
    while x.abs().sum() < 4:
        x = x * x + 1.1
    return x


@row(doubled)
def until_large(x):
    return rl.while_loop(lambda y: y.abs().sum() < 4, lambda y: y * y + 1.1, (x,))[0]


def swept(x):
    carry, ys = torch.ones((), dtype=torch.float64), []
    for r in x:
        carry, y = carry * r.sin() + carry, carry * carry * r
        ys.append(y)
    return torch.stack(ys) + carry


@row(swept)
def scanned(x):
    carry, ys = rl.scan(lambda c, r: (c * r.sin() + c, c * c * r), rl.ones(()), x)
    return ys + carry


@row(either)
def tensors_decide(x):
    if x.sum() > 0:
        return x**3
    return x.sin()


def total(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one number."""
    return lambda x: sum([t.square().sum() for t in leaves(function(x))])


def leaves(tree: Any) -> list[Any]:
    return flatten(tree)[0]


def jacobian(lib: Any, function: Any, **options: Any) -> Any:
    def of_leaves(x):
        return tuple(leaves(function(x)))

    return lambda x: lib.autograd.functional.jacobian(of_leaves, x, **options)


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "jacrev": lambda lib, f: lib.func.jacrev(f),
    "jacfwd": lambda lib, f: lib.func.jacfwd(f),
    "hessian": lambda lib, f: lib.func.hessian(total(f)),
    "jvp": lambda lib, f: lambda x: lib.func.jvp(f, (x,), (x.cos(),)),
    "jacobian": jacobian,
    "jacobian by columns": functools.partial(jacobian, strategy="forward-mode", vectorize=True),
    "functional.hessian": lambda lib, f: lambda x: lib.autograd.functional.hessian(total(f), x),
    "hvp": lambda lib, f: lambda x: lib.autograd.functional.hvp(total(f), x, x.cos()),
    "a gradient of each sample": lambda lib, f: (
        lambda x: lib.func.vmap(lib.func.grad(total(f)))(lib.stack([x, x * 0.5]))
    ),
    "jacobians of samples": lambda lib, f: (
        lambda x: lib.func.vmap(lib.func.jacrev(f))(lib.stack([x, x * 0.5]))
    ),
    "columns of rows": lambda lib, f: lib.func.jacfwd(lib.func.jacrev(f)),
    "rows of columns": lambda lib, f: lib.func.jacrev(lib.func.jacfwd(f)),
}
OF_SAMPLES = ("a gradient of each sample", "jacobians of samples")
QUICK = {
    ("jacrev", "several"), ("jacrev", "branch"), ("jacfwd", "scanned"), ("jacfwd", "until_large"),
    ("hessian", "number"), ("hessian", "branch"), ("hessian", "scanned"), ("jvp", "until_large"),
    ("jacobian", "neighbours"), ("jacobian by columns", "partly_constant"), ("hvp", "scanned"),
    ("functional.hessian", "several"), ("a gradient of each sample", "elements"),
    ("rows of columns", "branch"), ("jacrev", "tensors_decide"), ("hessian", "tensors_decide"),
}  # fmt: skip
PAIRS = [
    pytest.param(*pair, marks=() if pair in QUICK else pytest.mark.slow)
    for pair in itertools.product(TRANSFORMS, TABLE)
]


def same(found: Any, expected: Any) -> None:
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.fixture(autouse=True)
def doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl.config, "default_dtype", rl.float64)


@pytest.mark.parametrize(("transform", "name"), PAIRS)
def test_compiled_derivatives_are_those_of_pytorch(transform: str, name: str) -> None:
    own, peer = TABLE[name]
    derivative = TRANSFORMS[transform](rl, own)
    compiled = rl.compile(derivative, fullgraph=True)
    for point in POINTS:
        found = compiled(rl.tensor(point))
        same(found, derivative(rl.tensor(point)))
        if own is peer or transform not in OF_SAMPLES:  # of which each would go its own way
            given = torch.tensor(point, dtype=torch.float64)
            same(found, TRANSFORMS[transform](torch, peer)(given))


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd", "hessian"])
def test_sizes_may_change(transform: str) -> None:
    derivative = TRANSFORMS[transform](rl, neighbours)
    compiled = rl.compile(derivative, fullgraph=True)
    for size in (3, 2, 4, 3):
        x = rl.linspace(-1, 1, size)
        same(compiled(x), derivative(x))


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd", "jvp"])
@pytest.mark.parametrize("name", ["elements", "branch"])
def test_what_is_compiled_can_be_differentiated(transform: str, name: str) -> None:
    derivative = TRANSFORMS[transform](rl, TABLE[name][0])
    compiled = rl.compile(derivative, fullgraph=True)
    grads = []
    for function in (compiled, derivative):
        x = rl.tensor(POINTS[0]).requires_grad_()
        total(function)(x).backward()
        grads.append(x.grad)
    same(*grads)


def test_other_dtypes_and_shapes() -> None:
    for x in (rl.ones(2, dtype=rl.bfloat16), rl.ones(()), rl.ones(0), rl.ones(1, 2)):
        for transform in ("jacrev", "jacfwd"):
            derivative = TRANSFORMS[transform](rl, elements)
            found = rl.compile(derivative, fullgraph=True)(x)
            assert found.dtype is x.dtype
            assert rl.allclose(found, derivative(x))


def test_batched_gradients_are_stacked() -> None:
    def function(x):
        x = x.detach().requires_grad_()
        return rl.autograd.grad(x**3, x, rl.eye(3), is_grads_batched=True)[0]

    x = rl.tensor(POINTS[0])
    same(rl.compile(function, fullgraph=True)(x), function(x))


slope = rl.func.jacrev(tensors_decide)


def test_a_derivative_inside_of_what_tensors_decide() -> None:
    def function(x):
        return slope(x) if x[0] > 0 else slope(x * 2)

    compiled = rl.compile(function, fullgraph=True)
    for point in POINTS:
        same(compiled(rl.tensor(point)), function(rl.tensor(point)))
