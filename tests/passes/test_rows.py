"""What a loop over rows does for all rows at once: the same values, and no products inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.attributes import nested
from rushlight.graph.ir import Graph, check, interpret
from rushlight.passes import pipeline

CHANCE = rl.Generator().manual_seed(1)
X, W, U = [
    rl.randn(*shape, generator=CHANCE, dtype=rl.float64) for shape in ((6, 2, 3), (3, 4), (4, 4))
]


def start() -> Any:
    return rl.zeros(2, 4, dtype=rl.float64)


def inside(graph: Graph) -> list[str]:
    """The names of all ops in loops."""
    found = []
    for node in graph.nodes():
        for inner in nested(node.attrs):
            found += [n.op.name for n in inner.nodes()] + inside(inner)
    return found


def step(h: Any, x: Any, w: Any, u: Any) -> Any:
    return (x @ w + h @ u).tanh()


def over_rows(x, w, u):
    return rl.scan(lambda h, row: (step(h, row, w, u), None), start(), x)[0]


def backwards_over_rows(x, w, u):
    last, ys = rl.scan(lambda h, r: (step(h, r, w, u), h.sin()), start(), x, reverse=True)
    return last + ys.sum(0)


def by_number(x, w, u):
    return rl.fori_loop(0, 6, lambda t, h: step(h, x[t], w, u), start())


def by_some_numbers(x, w, u):
    return rl.fori_loop(2, 5, lambda t, h: step(h, x[t], w, u), start())


def counted(x, w, u):
    def more(t, h):
        return t < 6

    return rl.while_loop(more, lambda t, h: (t + 1, step(h, x[t], w, u)), (0, start()))[1]


def counted_by_two(x, w, u):
    def more(t, h):
        return t >= 0

    return rl.while_loop(more, lambda t, h: (t - 2, step(h, x[t], w, u)), (5, start()))[1]


def by_tokens(x, w, u):
    def read(h, token):
        return step(h, x[token], w, u), None

    return rl.scan(read, start(), rl.tensor([2, 0, 5, 2, 2, 1]))[0]


def vectors(x, w, u):
    return rl.scan(lambda h, row: (step(h, row, w, u), h), start()[0], x[:, 0])[1]


def before_the_product(x, w, u):
    def body(h, row):
        return ((row.relu() * 2 + w[:, 0]) @ w + h @ u).tanh(), None

    return rl.scan(body, start(), x)[0]


def after_the_product(x, w, u):
    return rl.scan(lambda h, r: ((h + r.sum()).sin(), (h * 2) @ u), start(), x)[1]


def twice_the_weight(x, w, u):
    return rl.scan(lambda h, r: ((h @ u).tanh() @ u + r @ w, None), start(), x)[0]


def weights_of_a_product(x, w, u):
    return rl.scan(lambda h, r: ((h @ (u @ u) + r @ (w @ u)).tanh(), None), start(), x)[0]


def in_a_loop(x, w, u):
    return rl.fori_loop(0, 2, lambda i, h: over_rows(x, w, u) + h @ u * i, start())


def in_a_branch(x, w, u):
    return rl.cond(x.sum() > 0, lambda: over_rows(x, w, u), lambda: by_number(-x, w, u))


def two_sums(x, w, u):
    def body(c, row):
        total, h = c
        return (total + row.t() @ h, (row @ w + h).tanh()), None

    return rl.scan(body, (w.detach() * 0 + 1, start()), x)[0][0]


def a_sum_that_is_read(x, w, u):
    def body(total, row):
        return total + row.t() @ (row @ w), total.sum()

    total, sums = rl.scan(body, w.detach() * 0, x)
    return total + sums.sum()


def bias(x, w, u):
    def body(h, row):
        return (row @ w + h + u[0]).tanh(), None

    return rl.scan(body, start(), x)[0]


def integers(x, w, u):
    rows, weight = (x * 9).long(), (w * 9).long()
    total = rl.scan(lambda c, row: (c + row @ weight, None), start().long(), rows)[0]
    return total * x.sum()


FREE = {  # functions, and how many products stay in loops forward and backward
    over_rows: 2, backwards_over_rows: 2, by_number: 2, by_some_numbers: 2, counted: 2,
    vectors: 2, before_the_product: 4, after_the_product: 0, twice_the_weight: 4,
    weights_of_a_product: 2, bias: 0,
}  # fmt: skip
OTHERS = (counted_by_two, by_tokens, in_a_loop, in_a_branch, two_sums, a_sum_that_is_read, integers)


def differentiated(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x, w, u):
        given = [t.detach().clone().requires_grad_() for t in (x, w, u)]
        y = function(*given)
        weights = rl.linspace(1, 2, y.numel(), dtype=rl.float64).reshape(y.shape)
        grads = rl.autograd.grad(y, given, weights, allow_unused=True)
        zeros = [rl.zeros_like(t) if g is None else g for t, g in zip(given, grads, strict=True)]
        return [y.detach(), *zeros]

    return call


@pytest.mark.parametrize("function", [*FREE, *OTHERS], ids=lambda f: f.__name__)
def test_values_are_those_of_dynamic_mode(function: Callable[..., Any]) -> None:
    call = differentiated(function)
    expected = call(X, W, U)
    graph = pipeline.run(rl.graph(call, X, W, U))
    check(graph)
    outputs, _ = interpret(graph, [t.numpy() for t in (X, W, U)])
    for found in (outputs, rl.compile(call, fullgraph=True)(X, W, U)):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(a), b.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("function", FREE, ids=lambda f: f.__name__)
def test_products_leave_the_loop(function: Callable[..., Any]) -> None:
    graph = pipeline.run(rl.graph(differentiated(function), X, W, U))
    assert inside(graph).count("mm") == FREE[function]
    assert not {"index", "index_put"} & set(inside(graph))


def test_draws_stay_in_the_loop() -> None:
    def noisy(x):
        return rl.scan(lambda h, row: (h + row @ W + rl.randn(2, 4), None), start(), x)[0]

    rl.manual_seed(3)
    found = rl.compile(noisy, fullgraph=True)(X)
    rl.manual_seed(3)
    np.testing.assert_allclose(found.numpy(), noisy(X).numpy(), rtol=1e-10, atol=1e-10)


def test_what_a_loop_writes_to_is_not_the_same_at_each_step() -> None:
    weight = rl.ones(3, dtype=rl.float64)

    def fit(x):
        def body(i, loss):
            with rl.no_grad():
                weight.sub_(0.1 * (weight - x[i]))
            return (weight - x[i]).square().sum()

        return rl.fori_loop(0, 6, body, x.sum() * 0)

    expected = fit(X[:, 0]), weight.clone()
    weight.fill_(1)
    found = rl.compile(fit, fullgraph=True)(X[:, 0]), weight
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
