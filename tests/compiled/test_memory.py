"""What programs keep in memory, and what they let go."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl


def test_gradients_that_are_zeroed_first_are_gone_when_the_step_fails() -> None:
    outcomes = []
    for compiled in (False, True):
        table = rl.ones(4, 2, requires_grad=True)

        def step(i: rl.Tensor, table: rl.Tensor = table) -> rl.Tensor:
            table.grad = None
            loss = table[i].sum()
            loss.backward()
            return loss

        run: Any = rl.compile(step, fullgraph=True) if compiled else step
        run(rl.tensor([1, 2]))
        assert table.grad is not None
        with pytest.raises(IndexError):
            run(rl.tensor([1, 4]))
        outcomes.append(table.grad is None)
    assert outcomes == [True, True]


def test_gradients_that_are_zeroed_later_stay_when_the_step_fails() -> None:
    outcomes = []
    for compiled in (False, True):
        table = rl.ones(4, 2, requires_grad=True)

        def step(i: rl.Tensor, table: rl.Tensor = table) -> rl.Tensor:
            loss = table[i].sum()
            table.grad = None
            loss.backward()
            return loss

        run: Any = rl.compile(step, fullgraph=True) if compiled else step
        run(rl.tensor([1, 2]))
        with pytest.raises(IndexError):
            run(rl.tensor([1, 4]))
        outcomes.append(table.grad)
    assert rl.equal(*outcomes)


def test_a_gradient_that_is_still_needed_is_not_dropped() -> None:
    w = rl.ones(3, requires_grad=True)

    def step(x: rl.Tensor) -> rl.Tensor:
        before = w.grad
        w.grad = None
        (w * x).sum().backward()
        return before * 2

    run = rl.compile(step, fullgraph=True)
    w.grad = rl.tensor([1.0, 2.0, 3.0])
    assert run(rl.ones(3)).tolist() == [2.0, 4.0, 6.0]
    assert run(rl.full((3,), 5.0)).tolist() == [2.0, 2.0, 2.0]
    assert w.grad.tolist() == [5.0, 5.0, 5.0]


def test_old_gradients_are_freed_before_new_ones_are_made() -> None:
    w = rl.ones(1000, requires_grad=True)
    optimizer = rl.optim.SGD([w], 0.1)

    def step(x: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    run, x = rl.compile(step, fullgraph=True), rl.ones(1000)
    run(x)
    (made,) = [made for several in run.known.values() for made in several]
    seen = []
    inner = made.forward.run

    def watched(*args: Any) -> Any:
        seen.append(w.grad)
        return inner(*args)

    made.forward.run = watched
    run(x)
    assert seen == [None]
    assert w.grad is not None


def test_masks_are_bytes() -> None:
    graph = str(rl.graph(lambda x: rl.nn.functional.dropout(x, 0.3), rl.ones(8, 4)))
    assert "(b1[8,4], u8[5056]) = bernoulli_" in graph


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.bfloat16, rl.float16, rl.int32])
def test_masks_are_those_of_dynamic_mode(dtype: rl.dtype) -> None:
    def draw(x: rl.Tensor) -> rl.Tensor:
        return rl.empty_like(x).bernoulli_(0.3) + 2 * x.clone().bernoulli_(0.5)

    x = rl.ones(50, 70).to(dtype).t()
    rl.manual_seed(3)
    expected = draw(x)
    rl.manual_seed(3)
    assert rl.equal(rl.compile(draw, fullgraph=True)(x), expected)
