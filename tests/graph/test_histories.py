"""Gradients inside branches and loops: what they reach, and what is used up after them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import grad
from rushlight.symbol import TraceError
from rushlight.testing import assert_close

Step = Callable[[rl.Tensor], Any]
Make = Callable[[nn.Parameter, rl.optim.Optimizer], Step]
LOST = "would go on into what was computed before the loop"
USED_UP = "has already differentiated, if it ran"


def outcome(make: Make, compiler: Callable[[Step], Step] | None = None) -> list[Any]:
    """Results of a step for several arguments, and the parameter after them."""
    rl.manual_seed(0)
    w = nn.Parameter(rl.tensor([1.0, 2.0]))
    step = make(w, rl.optim.SGD([w], lr=0.1))
    if compiler is not None:
        step = compiler(step)
    found: list[Any] = []
    for scale in (1.0, -1.0, 0.5):
        y = step(rl.tensor([1.0, 0.9]) * scale)
        found += [t.detach() for t in (y if isinstance(y, tuple) else (y,))]
        w.grad = None
    return [*found, w.detach()]


def check(make: Make) -> None:
    """The graph does what dynamic mode does."""
    wanted = outcome(make)
    assert_close(outcome(make, lambda step: rl.compile(step, fullgraph=True)), wanted)
    assert_close(outcome(make, rl.jit.script), wanted)


def check_refused(make: Make, message: str) -> None:
    """No graph does it, which is said with a line; dynamic mode is fallen back to."""
    for compiler in (lambda step: rl.compile(step, fullgraph=True), rl.jit.script):
        with pytest.raises(TraceError, match=message) as caught:
            outcome(make, compiler)
        assert f"{__file__}:" in str(caught.value)
    with pytest.warns(UserWarning, match="dynamic mode"):
        found = outcome(make, rl.compile)
    assert_close(found, outcome(make))


# What a loop carries, and its rows.


def carried_loss(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        loss, k = (w * x).square().sum(), 0
        while loss > 0.5 and k < 9:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss = (w * x).square().sum()
            k += 1
        optimizer.zero_grad()
        return loss.detach()

    return step


def carried_by_a_function(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        def body(k: rl.Tensor, loss: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return k + 1, (w * x).square().sum()

        begin = (0, (w * x).square().sum())
        return rl.while_loop(lambda k, loss: (loss > 0.5) & (k < 9), body, begin)[1].detach()

    return step


def carried_by_a_counted_loop(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        def body(i: rl.Tensor, loss: rl.Tensor) -> rl.Tensor:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return (w * x).square().sum()

        return rl.fori_loop(0, 4, body, (w * x).square().sum()).detach()

    return step


@pytest.mark.parametrize("allow_unused", [True, False])
def test_a_gradient_of_what_is_carried_is_refused(allow_unused: bool) -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            loss, total, k = (w * x).square().sum(), rl.zeros(2), 0
            while loss > 0.1 and k < 3:
                (g,) = grad(loss, w, allow_unused=allow_unused)
                total = total + (100.0 if g is None else g)
                loss = (w * x).square().sum() * 0.5
                k += 1
            return total

        return step

    check_refused(make, LOST)


def rows_of_a_scan(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        def body(total: rl.Tensor, row: rl.Tensor) -> tuple[rl.Tensor, None]:
            return total + grad((row * w).sum(), w, retain_graph=True)[0], None

        return rl.scan(body, rl.zeros(2), rl.stack([w * x, w * x * 2]))[0]

    return step


def rows_of_a_map(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        rows = rl.stack([w * x, w * x * 2])
        return rl.map_fn(lambda row: grad((row * w).sum(), w, retain_graph=True)[0], rows)

    return step


def another_carried_value(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        b = w * 1
        a, total, k = b * 2, rl.zeros(2), 0
        while total.sum() < 50 and k < 4:
            (g,) = grad((a * b * x).square().sum(), b, create_graph=True)
            total = total + g.detach()
            b = b * 1.1
            a = b * b
            k += 1
        return total

    return step


def what_an_outer_loop_carries(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        total, k, z = rl.zeros(2), 0, w * 2
        while total.sum() < 5 and k < 4:
            y, j = z * 1, 0
            while y.sum() < 20 and j < 3:
                (g,) = grad((y * y * w).sum(), w, retain_graph=True)
                total = total + g
                y = y.detach() * 2 + z
                j += 1
            z = z * 1.1
            k += 1
        return total

    return step


@pytest.mark.parametrize(
    "make",
    [
        carried_loss,
        carried_by_a_function,
        carried_by_a_counted_loop,
        rows_of_a_scan,
        rows_of_a_map,
        another_carried_value,
        what_an_outer_loop_carries,
    ],
)
def test_gradients_that_leave_a_step_are_refused(make: Make) -> None:
    check_refused(make, LOST)


def updates_that_are_differentiated(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        fast, other, k = w, w.detach().requires_grad_() * 2, 0
        while fast.sum() > 0.3 and k < 4:
            loss = (fast * other * x).square().sum()
            g, h = grad(loss, [fast, other], create_graph=True)
            fast, other = fast - 0.01 * g, other - 0.01 * h
            k += 1
        loss = (fast * other * x).square().sum()
        return loss, *grad(loss, w)

    return step


def steps_on_values(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        k = 0
        while x.abs().max() < 3 and k < 5:
            x = x.detach().requires_grad_()
            (w * x).square().sum().backward(inputs=[x])
            x = x + 0.1 * x.grad.sign()
            k += 1
        return x.detach()

    return step


@pytest.mark.parametrize("make", [updates_that_are_differentiated, steps_on_values])
def test_gradients_that_stay_in_a_step(make: Make) -> None:
    check(make)


# What was made outside.


def gradients_of_outside(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        h = (w * x).exp()
        y = h * 2
        if x.sum() > 0:
            g, other = grad(((h * w).sin() + y).sum(), [h, w])
        else:
            g, other = w * 1, grad(h.cos().sum(), w)[0]
        return g, other

    return step


def second_derivatives(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        h = (w * x).exp()
        if x.sum() > 0:
            (g,) = grad((h * w).sin().sum(), w, create_graph=True)
            (inside,) = grad(g.square().sum(), w, retain_graph=True)
        else:
            g, inside = w * 2, rl.zeros(2)
        return inside, *grad(g.square().sum(), w)

    return step


def in_each_step(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        h = w * w * x

        def body(i: rl.Tensor, total: rl.Tensor) -> rl.Tensor:
            loss = (h * w).sum() * total.sum().detach()
            return total + grad(loss, w, retain_graph=True)[0]

        return rl.fori_loop(0, 3, body, rl.ones(2)).detach()

    return step


def a_retained_gradient(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        h = w * x
        h.retain_grad()
        loss = h.square().sum()
        if x.sum() > 0:
            loss.backward()
            optimizer.step()
            g = h.grad
        else:
            g = rl.zeros(2)
        return g

    return step


@pytest.mark.parametrize(
    "make", [gradients_of_outside, second_derivatives, in_each_step, a_retained_gradient]
)
def test_gradients_go_on_outside(make: Make) -> None:
    check(make)


def test_a_loop_does_not_use_up_what_is_outside() -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            loss, total, k = (w * w * x).square().sum(), rl.zeros(2), 0
            while total.sum() < 1 and k < 1:
                loss.backward()
                total = total + w.grad
                optimizer.zero_grad()
                k += 1
            return total

        return step

    check_refused(make, "goes from a loop into a graph that was made before it, and uses it up")


def test_a_loop_does_not_change_what_is_outside() -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            loss, k = (w * w * x).square().sum(), 0
            while w.sum() > 0 and k < 1:
                loss.backward(retain_graph=True)
                optimizer.step()
                optimizer.zero_grad()
                k += 1
            return w * 1

        return step

    check_refused(make, "then writes to a tensor that it needs")


def test_a_graph_that_was_made_before_the_call_is_not_followed() -> None:
    w = rl.ones(2, requires_grad=True)
    h = w * 2

    def step(x: rl.Tensor) -> Any:
        return grad((h * x).sum(), w, allow_unused=True)[0]

    with pytest.raises(TraceError, match="a graph made outside the compiled function"):
        rl.compile(step, fullgraph=True)(rl.ones(2))


def a_branch_that_updates(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        (g,) = grad((w * x).square().sum(), w)
        if x.sum() > 0:
            with rl.no_grad():
                w.sub_(0.1 * g)
        return (w * x).sum()

    return step


def a_loop_that_updates(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        k = 0
        while w.sum() > 1 and k < 3:
            (g,) = grad((w * x).square().sum(), w)
            with rl.no_grad():
                w.sub_(0.1 * g)
            k += 1
        return (w * x).sum()

    return step


def a_branch_in_a_branch(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        if x.sum() > 0:
            if x.sum() > 1:
                with rl.no_grad():
                    w.mul_(0.5)
            return (w * x).sum()
        return w.sum()

    return step


@pytest.mark.parametrize("make", [a_branch_that_updates, a_loop_that_updates, a_branch_in_a_branch])
def test_a_leaf_is_written_to_without_a_history(make: Make) -> None:
    check(make)


def test_a_leaf_is_not_written_to_with_a_history() -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            if x.sum() > 100:
                w.mul_(2)
            return w * x

        return step

    check_refused(make, "'w', a leaf that requires grad, is written in place in the if at")


# Control flow outside.


def through_a_branch(w: nn.Parameter, x: rl.Tensor) -> rl.Tensor:
    y = w * x
    if y.mean() > 0:
        y = y * 2 + w**3
    return y.square().mean()


def through_a_loop(w: nn.Parameter, x: rl.Tensor) -> rl.Tensor:
    y, k = w * x, 0
    while y.sum() < 20 and k < 5:
        y = nn.functional.dropout(y * 1.5, 0.3) + w * w
        k += 1
    return y.square().mean()


def through_rows(w: nn.Parameter, x: rl.Tensor) -> rl.Tensor:
    def body(c: rl.Tensor, row: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        return nn.functional.dropout(c * row, 0.3).sin() + w, c * w

    c, ys = rl.scan(body, w * x, rl.ones(4, 2) * x)
    return c.sum() + ys.square().sum()


LOSSES = [through_a_branch, through_a_loop, through_rows]


@pytest.mark.parametrize("loss_of", LOSSES)
def test_control_flow_is_differentiated_in_a_branch(loss_of: Callable[..., rl.Tensor]) -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = loss_of(w, x) * 0.01
            if loss.isfinite():
                if loss < 1000:
                    (loss * w.sum()).backward()
                    optimizer.step()
            return loss

        return step

    check(make)


@pytest.mark.parametrize("loss_of", LOSSES)
def test_control_flow_is_differentiated_in_each_step(loss_of: Callable[..., rl.Tensor]) -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            loss = loss_of(w, x)

            def body(i: rl.Tensor, total: rl.Tensor) -> rl.Tensor:
                return total + grad(loss * i, w, retain_graph=True)[0]

            return rl.fori_loop(0, 3, body, rl.zeros(2))

        return step

    check(make)


def test_control_flow_is_differentiated_twice_in_a_branch() -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            loss = through_a_branch(w, x)
            last, _ = rl.scan(lambda c, row: ((c * row).sin() + w, None), w * x, rl.ones(3, 2))
            loss = loss + last.sum()
            if loss.isfinite():
                (g,) = grad(loss, w, create_graph=True)
                return grad(g.square().sum(), w)[0]
            return w * 1

        return step

    check(make)


# What is used up.


def a_branch_that_trains(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        if x.sum() > 0:
            loss = (w * x).square().sum()
            loss.backward()
            optimizer.step()
        else:
            loss = (w * x).sum()
        return loss

    return step


def training_until(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        total = rl.zeros(())
        for _ in range(5):
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            optimizer.step()
            total = total + loss
            if loss < 0.5:
                break
        optimizer.zero_grad()
        return loss, total

    return step


def training_while(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        total, best, loss, k = rl.zeros(()), rl.tensor(9.0), rl.zeros(()), 0
        while total < 8 and k < 6:
            best = rl.minimum(best, loss)  # which a step before has used up
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            optimizer.step()
            total = total + loss
            optimizer.zero_grad()
            k += 1
        return total, best

    return step


def stopping_before_backward(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        for _ in range(5):
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            if loss < 0.5:
                break
            loss.backward()
            optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def on_both_ways(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss, n = (w * x).square().sum(), 1
        if x.sum() > 0:
            loss.backward()
            n = loss.detach()  # another type: the branch is traced again
        else:
            (loss * 2).backward()
        optimizer.step()
        return loss * n

    return step


def retained(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
    def step(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
        optimizer.zero_grad()
        if x.sum() > 0:
            loss = (w * x).square().sum()
            loss.backward(retain_graph=True)
        else:
            loss = (w * x).square().sum() * 2
        return loss, *grad(loss, w)

    return step


@pytest.mark.parametrize(
    "make",
    [
        a_branch_that_trains,
        training_until,
        training_while,
        stopping_before_backward,
        on_both_ways,
        retained,
    ],
)
def test_a_loss_that_was_differentiated_inside(make: Make) -> None:
    check(make)


@pytest.mark.parametrize("made_outside", [True, False])
def test_what_a_branch_may_have_used_up_is_not_differentiated(made_outside: bool) -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            if made_outside:
                loss = (w * x).square().sum()
            if x.sum() > 0:
                if not made_outside:
                    loss = (w * x).square().sum()
                loss.backward()
            elif not made_outside:
                loss = (w * x).square().sum()
            if x.sum() <= 0:
                loss.backward()
            return loss.detach()

        return step

    check_refused(make, USED_UP)


def test_what_a_branch_may_have_written_to_is_not_needed() -> None:
    def make(w: nn.Parameter, optimizer: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            loss = (w * w * x).sum()
            if x.sum() > 100:
                with rl.no_grad():
                    w.mul_(0.5)
            return grad(loss, w)[0]

        return step

    check_refused(make, "has been modified by an inplace operation")


def test_results_that_are_used_up_have_no_history() -> None:
    w = nn.Parameter(rl.tensor([1.0, 2.0]))
    step = a_branch_that_trains(w, rl.optim.SGD([w], lr=0.1))
    assert not rl.compile(step, fullgraph=True)(rl.ones(2)).requires_grad


# Results of one branch or loop that are made of each other on some ways.


def one_tensor_under_two_names(a: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    b = a * a
    if a.sum() > 0:
        b = a
    else:
        a = a * 1
    return b, a


def one_of_another(a: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    if a.sum() > 0:
        b = a * 3
        a = b * a
    else:
        b = a * 2
        a = a * a
    return a + b, b


def handed_on(a: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    b = a * 2
    if a.sum() > 0:
        a = a * a
    return a + b * a, a


def made_of_what_is_handed_on(a: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    before = a * 3
    b = before
    if a.sum() > 0:
        b = a * a
    return b + before * before, b


def exchanged(a: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    b = a * a
    while b.sum().abs() < 40:
        a, b = b, b * 2
    return b, a


def kept(a: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    b, c = a * 2, a * 3
    while c.sum().abs() < 40:
        a, b, c = a * 1, c, (a + c) * 2
    return c, b


def stacked(a: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
    def step(h: rl.Tensor, x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        h = h * x + 1
        return h, h * 2

    h, rows = rl.scan(step, a, rl.arange(1.0, 4.0))
    return rows, h


JOINED = [
    one_tensor_under_two_names, one_of_another, handed_on, made_of_what_is_handed_on, exchanged,
    kept, stacked,
]  # fmt: skip


@pytest.mark.parametrize("function", JOINED)
def test_one_result_by_another_that_it_may_be_made_of(function: Callable[..., Any]) -> None:
    def make(w: nn.Parameter, _: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            y, t = function(w * x)
            (g,) = grad(y.sum(), t, allow_unused=True)
            return x * 0 if g is None else g

        return step

    check_refused(make, r"grad\(\) at .* is with respect to a result of a branch or loop")


def test_a_result_that_only_its_own_way_is_made_of() -> None:
    def make(w: nn.Parameter, _: rl.optim.Optimizer) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            a, b = w * x, w + x
            if a.sum() > 0:
                a, b = a * 2, b * a
            while b.sum().abs() < 9:
                b = b * 2
            (g,) = grad((a * b.exp()).sum(), a)
            (h,) = grad((a * b.exp()).sum(), b)
            return g + h

        return step

    check(make)


def test_nothing_is_said_where_all_is_right() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome(training_until, rl.compile)
