"""Branches and loops in graphs: each function equals dynamic mode in value and gradient.

A row of the table is a function of a vector ``x`` of three elements, a matrix ``w`` and a few
points at which it is called: one program serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.ir import check, interpret
from rushlight.graph.parse import parse
from rushlight.passes import pipeline

POINTS = ([0.3, -0.5, 0.9], [-0.7, 0.2, -0.4], [0.1, 0.6, 0.8])
TABLE: dict[str, Callable[[Any, Any], Any]] = {}


def row(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    TABLE[function.__name__] = function
    return function


# Branches.


@row
def one_of_two(x, w):
    return rl.cond(x.sum() > 0, lambda x: x.sin() * x, lambda x: x * 2 + w[0], x)


@row
def branch_of_a_product(x, w):
    return rl.cond(x.sum() < 0, lambda: (x.exp() @ w).tanh(), lambda: x)


@row
def unchanged_or_zero(x, w):
    return rl.cond(x[0] > 0, lambda x: x, lambda x: x * 0, x)


@row
def constant_branch(x, w):
    return x * rl.cond(x[0] > 0, lambda: rl.ones(3), lambda: x * x)


@row
def several_results(x, w):
    return rl.cond(x[1] > 0, lambda a, b: (a @ b, a.sum()), lambda a, b: (a, b.sum()), x, w)


@row
def results_in_a_dict(x, w):
    found = rl.cond(x[1] > 0, lambda: {"a": x, "b": [w]}, lambda: {"a": -x, "b": [w.t()]})
    return found["a"] @ found["b"][0]


@row
def result_without_gradient(x, w):
    which, y = rl.cond(x[0] > 0, lambda: (1, x.exp()), lambda: (0, x.sin()))
    return y * which


@row
def nested_branches(x, w):
    def inner(x):
        return rl.cond(x[1] > 0, lambda: x.cos(), lambda: (x @ w).cos())

    return rl.cond(x[0] > 0, inner, lambda x: x + 1, x)


@row
def branches_in_a_row(x, w):
    y = rl.cond(x[0] > 0, lambda: x * 2, lambda: x * 3)
    return rl.cond(y.sum() > 0, lambda: y * y, lambda: y @ w)


@row
def branch_on_a_branch(x, w):
    positive = rl.cond(x[0] > 0, lambda: x.sum() > 0, lambda: x.prod() > 0)
    return rl.cond(positive, lambda: x.exp(), lambda: x.sin())


@row
def one_of_many(x, w):
    branches = [lambda x: x, lambda x: x * x, lambda x: x @ w, lambda x: x.exp()]
    return rl.switch((x.sum() * 4 + 1).long(), branches, x)


@row
def index_out_of_range(x, w):
    return rl.switch((x.sum() * 100).long(), [lambda: x * 2, lambda: x * 3, lambda: x * 4])


@row
def one_of_one(x, w):
    return rl.switch(x.argmax(), [lambda: x * 2])


@row
def detached_inside(x, w):
    return rl.cond(x[0] > 0, lambda: x * x.detach(), lambda: x.detach() @ w)


@row
def view_of_outside(x, w):
    column = w[:, 1]
    return rl.cond(x[0] > 0, lambda: column * x, lambda: column + w.t()[0] * x)


@row
def reduction_in_a_branch(x, w):
    return rl.cond(x[0] > 0, lambda: w.softmax(1).sum(0) * x, lambda: (w * x).logsumexp(1))


@row
def sorted_in_a_branch(x, w):
    return rl.cond(x[0] > 0, lambda: x.sort()[0] * x, lambda: x.flip(0))


@row
def inverse_in_a_branch(x, w):
    return rl.cond(x[0] > 0, lambda: rl.linalg.solve(w + 3 * rl.eye(3), x), lambda: x)


@row
def leaky_by_hand(x, w):
    return rl.stack([rl.cond(v > 0, lambda v: v, lambda v: 0.1 * v, v) for v in x.unbind()])


@row
def number_of_another_dtype(x, w):
    return rl.cond(x[0] > 0, lambda: x.double().exp(), lambda: x.double()).float() @ w


# Loops with a condition.


@row
def until_large(x, w):
    return rl.while_loop(lambda y: y.sum() < 100, lambda y: y * y + 1.5 + x, (x,))[0]


@row
def never(x, w):
    return rl.while_loop(lambda y: y.sum() > 1e9, lambda y: y @ w, (x,))[0]


@row
def newton(x, w):
    target = x * x + 1

    def step(y):
        return (y + target / y) / 2

    (y,) = rl.while_loop(lambda y: (y * y - target).abs().max() > 1e-5, step, (target,))
    return y


@row
def power_iteration(x, w):
    matrix = w @ w.t() + rl.eye(3)

    def more(c):
        return (c["now"] - c["before"]).abs().max() > 1e-3

    def step(c):
        after = matrix @ c["now"]
        return {"now": after / after.norm(), "before": c["now"], "n": c["n"] + 1}

    return rl.while_loop(more, step, {"now": x / x.norm(), "before": rl.zeros(3), "n": 0})["now"]


@row
def collatz(x, w):
    n = (x[0].abs() * 20).long() + 1

    def step(n, y):
        return rl.where(n % 2 == 0, n // 2, 3 * n + 1), y * 0.9 + x * n / 100

    return rl.while_loop(lambda n, y: n != 1, step, (n, x))[1]


@row
def early_exit(x, w):
    def more(i, y, found):
        return (i < 20) & ~found

    def step(i, y, found):
        y = (y @ w).sin() + x
        return i + 1, y, y.max() > 1.2

    return rl.while_loop(more, step, (0, x, rl.tensor(False)))[1]


@row
def loop_in_a_loop(x, w):
    def inner(y):
        return rl.while_loop(lambda z: z.abs().max() < 3, lambda z: z * 1.7, (y.sin(),))[0]

    return rl.while_loop(lambda n, y: n < 4, lambda n, y: (n + 1, inner(y)), (0, x))[1]


@row
def branch_in_a_loop(x, w):
    def step(i, y):
        return i + 1, rl.cond(y.sum() > 0, lambda: y - x.exp(), lambda: y * 0.5 + x * x)

    return rl.while_loop(lambda i, y: i < 7, step, (0, x))[1]


@row
def swapped(x, w):
    return rl.while_loop(lambda n, a, b: n < 5, lambda n, a, b: (n + 1, b, a * b), (0, x, x + 1))[
        1:
    ]


@row
def recurrence_of_unknown_length(x, w):
    steps = (x.abs().sum() * 10).long()
    return rl.while_loop(lambda i, h: i < steps, lambda i, h: (i + 1, (h @ w + x).tanh()), (0, x))[
        1
    ]


@row
def halving(x, w):
    def step(low, high):
        middle = (low + high) / 2
        right = middle**3 + middle < x
        return rl.where(right, middle, low), rl.where(right, high, middle)

    def wide(low, high):
        return (high - low).max() > 1e-4

    low, high = rl.while_loop(wide, step, (x * 0 - 2, x * 0 + 2))
    return x * (low + high).detach()


@row
def greatest_common_divisor(x, w):
    a, b = (x.abs() * 100).long()[:2]
    found = rl.while_loop(lambda a, b: b != 0, lambda a, b: (b, a % b), (a, b))[0]
    return x * found


@row
def row_by_index(x, w):
    def step(i, y):
        return i + 1, y + w[i] * x[i]

    return rl.while_loop(lambda i, y: i < 3, step, (rl.tensor(0), rl.zeros(3)))[1]


@row
def carried_without_use(x, w):
    return rl.while_loop(lambda i, y, z: i < 3, lambda i, y, z: (i + 1, y * x, z + 1), (0, x, w))[1]


@row
def many_steps(x, w):
    return rl.while_loop(lambda i, y: i < 100, lambda i, y: (i + 1, y * 0.99 + x * 0.01), (0, w))[1]


# Loops over a range.


@row
def power(x, w):
    return rl.fori_loop(0, 5, lambda i, y: y * x, rl.ones(3))


@row
def product_in_a_loop(x, w):
    return rl.fori_loop(0, 5, lambda i, y: (y @ w + i).tanh() * x, x)


@row
def no_steps(x, w):
    return rl.fori_loop(3, 3, lambda i, y: y * 0, x)


@row
def range_of_a_tensor(x, w):
    return rl.fori_loop(rl.tensor(1), x.sum().long() + 3, lambda i, y: y * x + i, x)


@row
def loops_three_deep(x, w):
    def middle(i, y):
        return rl.fori_loop(0, 2, lambda j, z: rl.fori_loop(0, 2, lambda k, v: v * x + k, z) + j, y)

    return rl.fori_loop(0, 2, middle, x)


@row
def every_other_step(x, w):
    def step(i, y):
        inner = lambda: rl.fori_loop(0, 2, lambda j, z: z * x + j, y)  # noqa: E731
        return rl.cond(i % 2 == 0, inner, lambda: y.sin())

    return rl.fori_loop(0, 3, step, x)


@row
def two_values(x, w):
    a, b = rl.fori_loop(0, 6, lambda i, ab: (ab[1], ab[0] + ab[1]), (x, x * x))
    return a * b


@row
def gradient_descent(x, w):
    def step(i, p):
        (g,) = rl.autograd.grad(((p - x) @ w).square().sum(), p)
        return p - 0.1 * g

    with rl.no_grad():
        start = rl.zeros(3)
    with rl.enable_grad():
        return rl.fori_loop(0, 4, lambda i, p: step(i, p.detach().requires_grad_()).detach(), start)


@row
def table_filled(x, w):
    def step(i, table):
        here = rl.nn.functional.one_hot(i, 4).unsqueeze(1)
        return table + here * (x + i)

    return rl.fori_loop(0, 4, step, rl.zeros(4, 3))


@row
def half_precision(x, w):
    return rl.fori_loop(0, 3, lambda i, y: (y * x.half()).sin(), x.half()).float()


# Rows.


@row
def recurrent_layer(x, w):
    return rl.scan(lambda h, r: ((h @ w + r).tanh(), (h * r).exp()), x, x.reshape(3, 1) * w)


@row
def recurrent_layer_backwards(x, w):
    rows = x.reshape(3, 1) * w
    return rl.scan(lambda h, r: ((h @ w + r).tanh(), (h * r).exp()), x, rows, reverse=True)


@row
def running_sum(x, w):
    return rl.scan(lambda c, r: (c + r, c + r), rl.zeros(()), x)


@row
def horner(x, w):
    return rl.foldl(lambda y, a: y * x + a, w.flatten(), rl.zeros(3))


@row
def folded_from_the_first(x, w):
    return rl.foldl(lambda a, b: (a * b).sin(), w + x)


@row
def mapped(x, w):
    return rl.map_fn(lambda r: (r * x).softmax(0), w)


@row
def sorted_rows(x, w):
    return rl.map_fn(lambda r: r.sort()[0] * x, w * x)


@row
def rows_of_trees(x, w):
    def f(c, r):
        return {"h": c["h"] * r["a"] + r["b"].sum()}, (c["h"], {"n": r["a"].max()})

    last, (hs, found) = rl.scan(f, {"h": x}, {"a": w, "b": w.t() * x})
    return last["h"], hs, found["n"]


@row
def without_rows(x, w):
    return rl.scan(lambda c, _: (c * x, c.sum()), x, length=4)


@row
def along_the_second_dimension(x, w):
    last, ys = rl.scan(lambda c, r: (c * r, c + r), x, w.repeat(1, 2), dim=1)
    return last, ys.prod(1)


@row
def long_scan(x, w):
    return rl.scan(lambda c, i: ((c @ w * 0.5 + i * x).tanh(), c[0]), x, rl.linspace(0, 1, 200))


@row
def beam(x, w):
    def step(c, logits):
        scores, history = c
        total = (scores.unsqueeze(1) + logits.log_softmax(0)).flatten()
        best, which = total.topk(2)
        history = rl.cat([history[:, 1:][which // 3], (which % 3).unsqueeze(1)], 1)
        return (best, history), best

    start = (rl.zeros(2), rl.zeros(2, 4, dtype=rl.long))
    (scores, history), best = rl.scan(step, start, (w * x).repeat(2, 1))
    return scores, best, history


@row
def viterbi(x, w):
    def step(score, emission):
        best, source = (score.unsqueeze(1) + w).max(0)
        return best + emission, source

    score, sources = rl.scan(step, x, w * 2)
    last = score.argmax()
    _, path = rl.scan(lambda state, source: (source[state], state), last, sources, reverse=True)
    return score, path


@row
def scan_in_a_scan(x, w):
    def inner(c, r):
        return rl.scan(lambda a, b: (a * b + r, a), c, w)

    return rl.scan(lambda c, r: (inner(c, r)[0].tanh(), inner(c, r)[1].sum(0)), x, w * x)


@row
def while_in_a_scan(x, w):
    def settle(y):
        return rl.while_loop(lambda y: y.norm() > 0.5, lambda y: y * 0.7, (y,))[0]

    return rl.scan(lambda c, r: (settle(c + r * x), c), x, w)


@row
def branch_in_a_scan(x, w):
    def f(c, r):
        return rl.cond(r.sum() > 0, lambda: (c + r, c * r), lambda: (c * x, r))

    return rl.scan(f, x, w)


@row
def switch_in_a_scan(x, w):
    operations = [lambda c: c + x, lambda c: c * x, lambda c: -c, lambda c: c.exp() * 0.1]
    return rl.scan(
        lambda c, k: (rl.switch(k, operations, c), c.sum()), x, rl.tensor([3, 0, 1, 2, 1])
    )


@row
def scan_in_a_branch(x, w):
    return rl.cond(x[0] > 0, lambda: rl.scan(lambda c, r: (c * r, c), x, w)[0], lambda: x @ w)


@row
def exponential_moving_average(x, w):
    rate = rl.tensor(0.9)
    return rl.scan(lambda m, r: (rate * m + (1 - rate) * r, m / 2), x * 0, w * x)


class Cube(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * g * x * x  # which nobody but it would say


@row
def custom_function_in_a_branch(x, w):
    return rl.cond(x[0] > 0, lambda: Cube.apply(x @ w), lambda: Cube.apply(x))


@row
def custom_function_in_a_loop(x, w):
    return rl.fori_loop(0, 3, lambda i, y: Cube.apply(y) + x, x)


@row
def integers_alone(x, w):
    steps, last = rl.while_loop(lambda n, a: a < 1000, lambda n, a: (n + 1, a * 2 + n), (0, 1))
    return steps, last


@row
def no_rows(x, w):
    last, (doubled, counts) = rl.scan(lambda c, r: (c + r, (r * x, c.long())), x, w[:0])
    return last, doubled, counts, rl.map_fn(lambda r: r.sum(), w[:0])


@row
def carried_values_written_to(x, w):
    def step(i, y):
        i += 1
        y.mul_(x)
        y[0] += 1
        return i, y

    given = x * 2
    return rl.while_loop(lambda i, y: (i < 3) & (y.sum() < 9), step, (0, given))[1], given


@row
def carried_value_of_a_scan_written_to(x, w):
    given = x.sin()
    return *rl.scan(lambda h, r: (h.add_(r), h * x), given, w), given


def differentiated(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], list[Any]]:
    """The results of a function, and the gradients of a sum of them."""

    def call(x, w):
        x, w = [t.detach().clone().requires_grad_() for t in (x, w)]
        result = function(x, w)
        results = result if isinstance(result, tuple) else (result,)
        wanted = [y for y in results if y.requires_grad]
        weights = [rl.linspace(1, 2, y.numel()).reshape(y.shape) for y in wanted]
        grads = rl.autograd.grad(wanted, (x, w), weights, allow_unused=True) if wanted else ()
        pairs = zip((x, w), grads, strict=False)
        zeros = [rl.zeros(t.shape) if g is None else g for t, g in pairs]  # a branch may use none
        return [*[y.detach() for y in results], *zeros]

    return call


def arguments(point: list[float]) -> tuple[Any, Any]:
    generator = rl.Generator().manual_seed(5)
    return rl.tensor(point), 0.5 * rl.randn(3, 3, generator=generator)


def assert_close(found: Any, expected: Any, what: str = "") -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6, err_msg=what)


@pytest.mark.parametrize("name", TABLE)
def test_compiled_equals_dynamic_mode_in_value_and_gradient(name: str) -> None:
    function = differentiated(TABLE[name])
    compiled = rl.compile(function, fullgraph=True)
    for point in POINTS:
        assert_close(compiled(*arguments(point)), function(*arguments(point)), name)
    assert sum(map(len, compiled.known.values())) == 1  # compiled once


@pytest.mark.parametrize("name", TABLE)
def test_graphs_are_printed_parsed_checked_and_interpreted(name: str) -> None:
    function = differentiated(TABLE[name])
    graph = rl.graph(function, *arguments(POINTS[0]))
    check(graph)
    assert parse(str(graph)) == graph
    assert not graph.captured
    given = [t.numpy() for t in arguments(POINTS[0])]
    expected = function(*arguments(POINTS[0]))
    for each in (graph, pipeline.run(graph)):
        outputs, _ = interpret(each, given)
        assert_close(outputs, expected, name)
