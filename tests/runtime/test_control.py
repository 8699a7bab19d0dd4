"""Branches and loops in programs: native, with effects, in training steps, with good errors."""

from __future__ import annotations

import _thread
import re
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.runtime.program import CallStep, JumpStep
from rushlight.symbol import TraceError

Made = tuple[Callable[[Any], Any], Callable[[], list[Any]]]  # a step, and the state it changes
STEPS: dict[str, Callable[[], Made]] = {}


def step(make: Callable[[], Made]) -> Callable[[], Made]:
    STEPS[make.__name__] = make
    return make


@step
def dropout_in_a_scan() -> Made:
    layer = nn.Linear(3, 3)
    optimizer = rl.optim.SGD(layer.parameters(), lr=0.1)

    def row(h, x):
        return nn.functional.dropout(layer(h) + x, 0.5).tanh(), h.sum()

    def run(x):
        optimizer.zero_grad()
        h, ys = rl.scan(row, rl.zeros(3), x)
        loss = h.square().sum() + ys.sum()
        loss.backward()
        optimizer.step()
        return loss

    return run, lambda: [*layer.parameters()]


@step
def dropout_in_a_scan_in_a_scan() -> Made:
    w = rl.randn(3, 3).requires_grad_()

    def inner(h, x):
        return rl.scan(lambda a, b: (nn.functional.dropout(a @ w + b, 0.5).tanh(), None), h, x)[0]

    def run(x):
        rows = x.unsqueeze(1).repeat(1, 2, 1)
        loss = rl.scan(lambda h, r: (inner(h, r), None), rl.zeros(3), rows)[0].sum()
        (g,) = rl.autograd.grad(loss, w)
        return g

    return run, list


@step
def draws_in_a_branch() -> Made:
    def run(x):
        return rl.cond(x.sum() > 0, lambda: rl.rand(3) + rl.randn(3), lambda: x[0]) + rl.rand(3)

    return run, list


@step
def draws_until_enough() -> Made:
    def run(x):
        start = (0, rl.zeros(()))
        n, _ = rl.while_loop(lambda n, s: s < 3, lambda n, s: (n + 1, s + rl.rand(())), start)
        return n + x.sum()

    return run, list


@step
def random_walk() -> Made:
    def move(p, _):
        q = p + rl.randint(0, 2, (3,)) * 2 - 1
        return q, q

    return lambda x: rl.scan(move, x[0], length=20)[1], list


@step
def writes_in_a_branch() -> Made:
    total, count = rl.zeros(3), rl.zeros((), dtype=rl.long)

    def hit(x):
        total.add_(x.sum(0))
        count.add_(1)
        return x.sum()

    def run(x):
        return rl.cond(x.sum() > 0, hit, lambda x: x.prod(), x) + total.sum()

    return run, lambda: [total, count]


@step
def writes_in_a_loop() -> Made:
    total, table = rl.zeros(3), rl.zeros(4, 3)

    def run(x):
        def body(i, s):
            total.add_(x[i])
            table[i] = total * s
            return s + total.sum()

        return rl.fori_loop(0, 4, body, rl.zeros(())) + total.sum()

    return run, lambda: [total, table]


@step
def writes_through_a_view() -> Made:
    table = rl.zeros(4, 3)

    def run(x):
        view = table[1]
        rl.cond(x.sum() > 0, lambda: view.copy_(x[0]), lambda: view.mul_(2))
        table[:, 0] += 1
        return table.sum() + view.sum()

    return run, lambda: [table]


@step
def writes_in_a_branch_in_a_loop() -> Made:
    total, count = rl.zeros(3), rl.zeros((), dtype=rl.long)

    def hit(row):
        total.add_(row)
        count.add_(1)
        return row.sum()

    def body(t, row):
        return t + rl.cond(row.sum() > 0, hit, lambda row: row.prod(), row), total[0].clone()

    return lambda x: rl.scan(body, rl.zeros(()), x)[1], lambda: [total, count]


@step
def writes_in_a_loop_in_a_branch() -> Made:
    count = rl.zeros(())

    def run(x):
        def double(y):
            count.add_(1)
            return y * 2

        def grow():
            return rl.while_loop(lambda y: y.abs().sum() < 50, double, (x,))[0]

        return rl.cond(x.sum() > 0, grow, lambda: x) + count

    return run, lambda: [count]


@step
def draws_in_a_branch_in_a_scan() -> Made:
    w = rl.randn(3, 3).requires_grad_()

    def body(h, row):
        dropped = lambda: nn.functional.dropout(h @ w, 0.5).tanh() + row  # noqa: E731
        return rl.cond(row.sum() > 0, dropped, lambda: h * rl.rand(3)), h

    def run(x):
        h, hs = rl.scan(body, x[0] @ w, x)
        return rl.autograd.grad(h.sum() + hs.square().sum(), w)[0]

    return run, list


@step
def two_generators() -> Made:
    generator = rl.Generator().manual_seed(3)

    def body(h, row):
        return h + rl.rand(3, generator=generator) * row, rl.randn(3)

    def run(x):
        return rl.scan(body, x[0], x)[1] + rl.rand(4, 3, generator=generator)

    return run, lambda: [rl.rand(3, generator=generator)]


@step
def batch_norm_in_a_loop() -> Made:
    model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.BatchNorm1d(3))
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)

    def run(x):
        optimizer.zero_grad()
        loss = rl.fori_loop(0, 3, lambda i, y: model(y).tanh(), x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return run, lambda: [*model.parameters(), *model.buffers()]


@step
def training_in_a_loop() -> Made:
    model = nn.Linear(3, 1)
    optimizer = rl.optim.Adam(model.parameters(), lr=0.05)

    def train(x):
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    train(rl.ones(4, 3))
    return (
        lambda x: rl.fori_loop(0, 4, lambda i, total: total + train(x), rl.zeros(())),
        lambda: [*model.parameters()],
    )


@pytest.mark.parametrize("name", STEPS)
def test_steps_with_effects_are_those_of_dynamic_mode(name: str) -> None:
    found: list[list[Any]] = []
    for compiled in (False, True):
        rl.manual_seed(0)
        run, state = STEPS[name]()
        call = rl.compile(run, fullgraph=True) if compiled else run
        results = [call(rl.randn(4, 3) * (i + 1)) for i in range(5)]
        found.append([t.detach().numpy() for t in (*results, *state(), rl.randn(2))])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_gradients_are_taken_outside() -> None:
    found = []
    for compiled in (False, True):
        rl.manual_seed(0)
        layer = nn.Linear(3, 3)

        def row(h, x, layer=layer):
            return nn.functional.dropout((layer(h) + x).tanh(), 0.3), h * 2

        def model(x, row=row, layer=layer):
            h, ys = rl.scan(row, rl.zeros(3), x)
            return rl.cond(h.sum() > 0, lambda: layer(h), lambda: h).sum() + ys.sum()

        call = rl.compile(model, fullgraph=True) if compiled else model
        for _ in range(3):
            x = rl.randn(4, 3).requires_grad_()
            call(x).backward()
        found.append([x.grad, *[p.grad for p in layer.parameters()]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-5)


def branch(x: Any) -> Any:
    return rl.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 3, x)


def loop(x: Any) -> Any:
    return rl.while_loop(lambda y: y.abs().sum() < 9, lambda y: y * 1.5 + x, (x,))[0]


def steps(x: Any) -> Any:
    return rl.scan(lambda h, v: (h * v + x, h), x, x)[0]


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda f: rl.func.grad(lambda x: f(x).sum()),
    "vmap": lambda f: lambda x: rl.func.vmap(f)(rl.stack([x, -x, x * 2])),
    "vmap of grad": lambda f: (
        lambda x: rl.func.vmap(rl.func.grad(lambda x: f(x).sum()))(rl.stack([x, -x]))
    ),
    "jvp": lambda f: lambda x: rl.func.jvp(f, (x,), (x * 0.5,))[1],
    "checkpoint": lambda f: rl.func.grad(
        lambda x: rl.utils.checkpoint.checkpoint(f, x, use_reentrant=False).square().sum()
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("function", [branch, loop, steps], ids=lambda f: f.__name__)
def test_transforms_of_control_flow(function: Callable[[Any], Any], name: str) -> None:
    call = TRANSFORMS[name](function)
    compiled = rl.compile(call, fullgraph=True)
    for x in (rl.tensor([0.3, -0.2, 0.7]), rl.tensor([-0.8, 0.1, 0.2])):
        np.testing.assert_allclose(compiled(x).numpy(), call(x).numpy(), rtol=2e-5, atol=2e-6)


def test_draws_under_vmap_are_refused_in_a_program_too() -> None:
    drawn = rl.func.vmap(lambda x: x * rl.rand(3))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        rl.compile(drawn, fullgraph=True)(rl.ones(2, 3))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rl.manual_seed(0)
    w, x = (0.05 * rl.randn(200, 200)).requires_grad_(), rl.randn(200, 200)

    def function(x):
        rows = x.unsqueeze(0).repeat(4, 1, 1)
        h, _ = rl.scan(lambda h, row: ((h @ w + row).tanh(), None), x, rows)
        return rl.autograd.grad(h.sum(), w)[0]

    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            found.append(rl.compile(function, fullgraph=True)(x))
    finally:
        rl.set_num_threads(before)
    assert rl.equal(*found)


def steps_of(function: Callable[..., Any], *args: Any) -> list[Any]:
    compiled = rl.compile(function, fullgraph=True)
    compiled(*args)
    ((made,),) = compiled.known.values()
    return made.forward.program.steps


def test_loops_are_native_and_never_unrolled() -> None:
    def program(length: int) -> list[Any]:
        return steps_of(
            lambda x: rl.fori_loop(0, length, lambda i, y: (y @ y).tanh(), x), rl.ones(3, 3)
        )

    short, long = program(2), program(1000)
    assert len(short) == len(long)
    assert any([isinstance(step, JumpStep) for step in long])
    assert not any([isinstance(step, CallStep) for step in long])


def test_what_nobody_needs_is_not_kept() -> None:
    w = rl.randn(3, 3).requires_grad_()
    compiled = rl.compile(
        lambda x: rl.scan(lambda h, _: ((h @ w).tanh(), None), x, length=50)[0].detach()
    )
    compiled(rl.ones(3))
    ((made,),) = compiled.known.values()
    assert made.forward.program.arena < 1024  # 50 rows of what backward would need take more


def test_programs_with_loops_are_read_from_disk(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(rl.config, "cache_dir", str(tmp_path))

    def function(x):
        y = rl.while_loop(lambda y: y.sum() < 9, lambda y: y * 2, (x,))[0]
        return rl.map_fn(lambda r: r.sort()[0], y)

    results = []
    for _ in range(2):
        compiled = rl.compile(function, fullgraph=True)
        results.append(compiled(rl.ones(2, 2)))
        ((made,),) = compiled.known.values()
    assert made.forward.was_kept
    assert rl.equal(*results)


def test_errors_inside_name_the_line() -> None:
    def function(x, at):
        return rl.fori_loop(0, 3, lambda i, y: y + x[at + i], rl.zeros(()))

    compiled = rl.compile(function, fullgraph=True)
    assert compiled(rl.arange(5.0), rl.tensor(2)) == 9
    with pytest.raises((IndexError, RuntimeError), match=r"out of (bounds|range)") as error:
        compiled(rl.arange(5.0), rl.tensor(3))
    assert "test_control.py" in str(getattr(error.value, "__notes__", error.value))
    assert compiled(rl.arange(5.0), rl.tensor(1)) == 6


def test_branches_of_different_types_are_an_error_that_names_both() -> None:
    compiled = rl.compile(lambda x: rl.cond(x.sum() > 0, lambda: x, lambda: (x, x.long())))
    with pytest.raises(TypeError, match=r"false_fn returns \(float32\[2\], int64\[2\]\)") as error:
        compiled(rl.ones(2))
    assert re.search(r"true_fn float32\[2\]  \[.*test_control.py:\d+\]$", str(error.value))


def test_a_carried_value_of_another_type_is_an_error_that_names_the_line() -> None:
    def grow(x):
        return rl.while_loop(lambda y: y.sum() < 9, lambda y: rl.cat([y, y]), (x,))[0]

    for call in (grow, rl.compile(grow)):
        with pytest.raises(
            TypeError, match=r"\(float32\[4\],\) was returned  \[.*control.py:\d+\]"
        ):
            call(rl.ones(2))


def left_behind(x: Any) -> Any:
    p = nn.Parameter(rl.ones(3))
    run = rl.compile(lambda x: rl.fori_loop(0, 2, lambda i, y: ((p * y).sum().backward(), y)[1], x))
    return run(x), p.grad


def second_derivative(x: Any) -> Any:
    y = rl.cond(x.sum() > 0, lambda: x * x * rl.rand(3), lambda: x)
    (g,) = rl.autograd.grad(y.sum(), x, create_graph=True)
    return rl.autograd.grad(g.sum(), x)[0]


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "in place": (lambda x: rl.map_fn(lambda row: row.add_(1), x.clone()), "write to a copy"),
    "twice": (second_derivative, "differentiated twice"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_graphs_cannot_hold_runs_in_dynamic_mode(name: str) -> None:
    function, message = REFUSED[name]

    def argument() -> Any:
        rl.manual_seed(0)
        return rl.ones(3).requires_grad_(name != "in place")

    with pytest.raises(TraceError, match=message):
        rl.compile(function, fullgraph=True)(argument())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = rl.compile(function)(argument())
    assert any([message in str(w.message) for w in caught])
    assert rl.equal(found, function(argument()))


def test_gradients_that_a_loop_leaves_behind_are_refused() -> None:
    with pytest.warns(UserWarning, match="end each step with optimizer.zero_grad"):
        _, grad = left_behind(rl.ones(3))
    assert grad.tolist() == [2.0, 2.0, 2.0]


def test_an_endless_loop_can_be_interrupted() -> None:
    endless = rl.compile(
        lambda x: rl.while_loop(lambda y: (y == y).all(), lambda y: y * 1.0, (x,))[0],
        fullgraph=True,
    )
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        endless(rl.ones(3))
    timer.join()
    assert endless(rl.full((3,), rl.nan)).isnan().all()


def test_steps_of_loops_are_measured_each_for_itself() -> None:
    report = rl.compile(
        lambda x: rl.fori_loop(0, 500, lambda i, y: (y @ y).tanh() + i, x).sum(), fullgraph=True
    ).explain(rl.ones(32, 32))
    times = {step.what: step.measured for step in report.steps}
    (product,) = [step.measured for step in report.steps if step.what.startswith("mm")]
    assert product > 100 * times["sum"] > 0


def test_explain_shows_the_steps_of_loops() -> None:
    report = rl.compile(lambda x: rl.fori_loop(0, 5, lambda i, y: (y @ y).tanh(), x)).explain(
        rl.ones(3, 3)
    )
    assert {"kernel", "jump"} <= {step.kind for step in report.steps}
    assert "tanh" in str(report)


def test_threads_that_call_one_program_have_loops_of_their_own() -> None:
    compiled = rl.compile(
        lambda x: rl.while_loop(lambda y: y.sum() < 1e4, lambda y: y * 1.01 + x, (x,))[0]
    )
    numbers = [float(i) for i in range(1, 9)]
    expected = [compiled(rl.full((3,), n)) for n in numbers]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda n: compiled(rl.full((3,), n)), numbers))
    assert all([rl.equal(a, b) for a, b in zip(found, expected, strict=True)])
