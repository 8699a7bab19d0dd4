"""What branches and loops leave behind: gradients, and the updates made of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.symbol import TraceError
from rushlight.testing import assert_close

NAN = float("nan")
Step = Callable[[rl.Tensor], Any]
OPTIMIZERS = {
    "SGD": lambda given: rl.optim.SGD(given, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda given: rl.optim.Adam(given, lr=0.1),
}


def check(make: Callable[[nn.Module], Step], scales: Any = (1.0, NAN, 2.0, 3.0, NAN, 1.0)) -> None:
    """Compares a compiled step with the same step of a copy: parameters and gradients."""
    rl.manual_seed(0)
    net = nn.Linear(3, 1)
    other = copy.deepcopy(net)
    plain, step = make(other), make(net)
    compiled = rl.compile(step, fullgraph=True)
    for scale in scales:
        x = rl.ones(4, 3) * scale
        assert_close(compiled(x), plain(x), equal_nan=True)
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            assert_close(p, q)
            wanted = rl.zeros_like(q) if q.grad is None else q.grad
            assert_close(rl.zeros_like(p) if p.grad is None else p.grad, wanted)
    assert sum(map(len, compiled.known.values())) <= 2


def loss_of(net: nn.Module, x: rl.Tensor) -> rl.Tensor:
    return net(x).square().mean()


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_update_only_if_the_loss_is_finite(name: str, set_to_none: bool) -> None:
    def make(net: nn.Module) -> Step:
        optimizer = OPTIMIZERS[name](net.parameters())
        loss_of(net, rl.ones(4, 3)).backward()
        optimizer.step()  # begins the state

        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad(set_to_none)
            loss = loss_of(net, x)
            if loss.isfinite():
                loss.backward()
                optimizer.step()
            return loss.detach()

        return step

    check(make)


def test_gradients_are_added_up_where_losses_are_finite() -> None:
    def make(net: nn.Module) -> Step:
        def step(x: rl.Tensor) -> rl.Tensor:
            net.zero_grad()
            for part in (x, x[:2] * 2, x[2:] - 1):
                loss = loss_of(net, part)
                if loss.isfinite():
                    loss.backward()
                    if loss > 1:
                        loss_of(net, part - 1).backward()
            return loss.detach()

        return step

    check(make)


def test_gradients_of_both_ways_may_be_used_afterwards() -> None:
    def make(net: nn.Module) -> Step:
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)

        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = loss_of(net, x)
            if loss > 1:
                loss_of(net, x / 2).backward()
            else:
                loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    check(make, (1.0, 20.0, 2.0, 0.5))


def halve(net: nn.Module, loss: rl.Tensor) -> None:
    if loss > 1:
        net.weight.grad = net.weight.grad * 0.5


def clip(net: nn.Module, loss: rl.Tensor) -> None:
    norm = rl.stack([p.grad.square().sum() for p in net.parameters()]).sum().sqrt()
    if norm > 0.5:
        for p in net.parameters():
            p.grad = p.grad / norm


def one_or_the_other(net: nn.Module, loss: rl.Tensor) -> None:
    if loss > 1:
        net.weight.grad = net.weight.grad * 0.5
    else:
        net.bias.grad = -net.bias.grad
        net.weight.grad.mul_(2)


def nested(net: nn.Module, loss: rl.Tensor) -> None:
    if loss > 1:
        if loss > 20:
            net.weight.grad = net.weight.grad * 0.1
        net.bias.grad = net.bias.grad + net.weight.grad.sum()


def twice(net: nn.Module, loss: rl.Tensor) -> None:
    for limit in (0.5, 2.0):
        if loss > limit:
            net.weight.grad = net.weight.grad.sign()


def by_a_function(net: nn.Module, loss: rl.Tensor) -> None:
    def halved() -> rl.Tensor:
        net.weight.grad = net.weight.grad * 0.5
        return loss

    rl.cond(loss > 1, halved, lambda: loss)


@pytest.mark.parametrize("change", [halve, clip, one_or_the_other, nested, twice, by_a_function])
@pytest.mark.parametrize("afresh", [True, False])
def test_a_branch_replaces_gradients(change: Callable[..., None], afresh: bool) -> None:
    def make(net: nn.Module) -> Step:
        optimizer = rl.optim.SGD(net.parameters(), lr=0.01)

        def step(x: rl.Tensor) -> rl.Tensor:
            if afresh:
                optimizer.zero_grad()
            loss = loss_of(net, x)
            loss.backward()
            change(net, loss)
            if afresh:  # else it may be the tensor that the caller holds
                net.weight.grad.mul_(0.5)
            optimizer.step()
            return loss.detach()

        return step

    check(make, (1.0, 20.0, 2.0, 0.5))


def test_a_gradient_that_someone_else_holds_is_not_written_to_after_a_branch() -> None:
    net = nn.Linear(3, 1)

    def step(x: rl.Tensor) -> rl.Tensor:
        loss_of(net, x).backward()
        before = net.weight.grad
        if x.sum() > 1:
            net.weight.grad = net.weight.grad * 2
        net.weight.grad.zero_()  # which is ``before`` on one way
        return before

    with pytest.raises(TraceError, match=r"'\.grad' shares memory with another one on one way"):
        rl.compile(step, fullgraph=True)(rl.ones(4, 3))
    assert net.weight.grad is None


@pytest.mark.parametrize("nested", [True, False])
def test_a_gradient_that_may_not_be_there_is_not_used(nested: bool) -> None:
    net = nn.Linear(3, 1)
    optimizer = rl.optim.SGD(net.parameters(), lr=0.1)

    def step(x: rl.Tensor) -> None:
        optimizer.zero_grad()
        loss = loss_of(net, x)
        if loss.isfinite():
            if nested:
                if x.sum() > 1:
                    loss_of(net, x).backward()
            else:
                loss.backward()
        elif nested:
            loss.backward()
        optimizer.step()

    with pytest.raises(TraceError, match=r"call optimizer.step\(\) inside the branch"):
        rl.compile(step, fullgraph=True)(rl.ones(4, 3))
    assert net.weight.grad is None


def test_gradients_go_on_to_what_was_made_outside_a_branch() -> None:
    def make(net: nn.Module) -> Step:
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)

        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            y = net(x).sin()
            loss = y.square().mean()
            if x.sum() > 0:
                if loss.isfinite():  # which takes loss as a value into the branch
                    (loss * y.cos().sum()).backward()
                    optimizer.step()
            return loss

        return step

    check(make)


def test_a_gradient_that_is_taken_away_or_left_by_a_loop() -> None:
    net = nn.Linear(3, 1)

    def dropped(x: rl.Tensor) -> rl.Tensor:
        loss = loss_of(net, x)
        loss.backward()
        if loss > 0:
            net.zero_grad()
        return loss

    def repeated(x: rl.Tensor) -> rl.Tensor:
        while x.sum() < 100:
            loss_of(net, x).backward()
            x = x * 2
        return x

    messages = {
        dropped: "leaves no .grad behind where it has found one.*zero_grad.. before it",
        repeated: "leaves another .grad behind .*end each step with",
    }
    for function, message in messages.items():
        with pytest.raises(TraceError, match=message):
            rl.compile(function, fullgraph=True)(rl.ones(4, 3))
        assert net.weight.grad is None


def test_gradients_of_tensors_that_are_made_in_a_branch() -> None:
    def function(x: rl.Tensor) -> rl.Tensor:
        if x.sum() > 0:
            y = x.detach().requires_grad_()
            y.exp().sum().backward()
            return y.grad * 2
        return x

    compiled = rl.compile(function, fullgraph=True)
    for x in (rl.ones(3), -rl.ones(3)):
        assert_close(compiled(x), function(x))
