"""Parts of a model that backward computes once more."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.checkpoint import (
    checkpoint,
    checkpoint_sequential,
    get_device_states,
    set_device_states,
)


class Block(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = rl.nn.Linear(4, 4)
        self.drop = rl.nn.Dropout(0.5)
        self.calls = 0

    def forward(self, x: rl.Tensor, scale: float = 1.0) -> rl.Tensor:
        self.calls += 1
        return self.drop(self.inner(x).relu()) * scale


def gradients(block: Block, x: rl.Tensor, **options: Any) -> list[rl.Tensor]:
    block.zero_grad()
    x.grad = None
    rl.manual_seed(5)
    y = checkpoint(block, x, scale=2.0, **options) if options else block(x, scale=2.0)
    rl.rand(3)  # numbers drawn in between do not change what is computed again
    y.pow(2).sum().backward()
    return [x.grad, *(p.grad for p in block.parameters())]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_gradients_are_those_of_the_function(use_reentrant: bool) -> None:
    block, x = Block(), rl.randn(3, 4, requires_grad=True)
    plain = gradients(block, x)
    assert block.calls == 1
    again = gradients(block, x, use_reentrant=use_reentrant)
    assert block.calls == 3
    for one, other in zip(plain, again, strict=True):
        assert rl.equal(one, other)


def test_random_numbers_go_on_as_if_drawn_once() -> None:
    block, x = Block(), rl.randn(3, 4, requires_grad=True)
    rl.manual_seed(1)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    after = rl.rand(2)
    rl.manual_seed(1)
    block(x).sum().backward()
    assert rl.equal(after, rl.rand(2))


def test_parameters_take_gradients_though_the_input_does_not() -> None:
    layer = rl.nn.Linear(2, 2)
    y = checkpoint(layer, rl.ones(1, 2), use_reentrant=False)
    (slope,) = rl.autograd.grad(y.sum(), layer.bias)
    assert slope.tolist() == [1.0, 1.0]
    assert layer.bias.grad is None


def test_several_arguments_and_results() -> None:
    def both(pair: dict[str, rl.Tensor], factor: int) -> tuple[rl.Tensor, int, rl.Tensor]:
        return pair["a"] * factor, factor, pair["b"].argmax()

    a = rl.tensor([1.0, 2.0], requires_grad=True)
    scaled, factor, place = checkpoint(both, {"a": a, "b": rl.tensor([1, 5])}, 3)
    scaled.sum().backward()
    assert a.grad.tolist() == [3.0, 3.0]
    assert (factor, place.item()) == (3, 1)
    assert not place.requires_grad


def test_nothing_is_kept_where_nothing_is_recorded() -> None:
    block = Block()
    with rl.no_grad():
        assert not checkpoint(block, rl.ones(1, 4), use_reentrant=False).requires_grad
    assert not checkpoint(rl.sin, rl.ones(1), use_reentrant=False).requires_grad


def test_a_chain_in_segments() -> None:
    model = rl.nn.Sequential(*(rl.nn.Linear(3, 3) for _ in range(5)))
    x = rl.randn(2, 3, requires_grad=True)
    expected = rl.autograd.grad(model(x).sum(), [x, *model.parameters()])
    y = checkpoint_sequential(model, 2, x, use_reentrant=False)
    found = rl.autograd.grad(y.sum(), [x, *model.parameters()])
    for one, other in zip(expected, found, strict=True):
        assert rl.equal(one, other)


def test_checkpoints_within_checkpoints() -> None:
    inner, outer = rl.nn.Linear(2, 2), rl.nn.Linear(2, 2)
    x = rl.randn(1, 2)
    y = checkpoint(lambda x: outer(checkpoint(inner, x).tanh()), x)
    found = rl.autograd.grad(y.sum(), inner.weight)
    expected = rl.autograd.grad(outer(inner(x).tanh()).sum(), inner.weight)
    assert rl.equal(found[0], expected[0])


def test_there_are_no_states_of_accelerators() -> None:
    assert get_device_states(rl.ones(2)) == ([], [])
    set_device_states(*get_device_states())
    with pytest.raises(RuntimeError, match="no accelerators"):
        set_device_states([0], [rl.get_rng_state()])


def test_a_parameter_of_several_uses_has_one_gradient():
    w = rl.tensor(3.0, requires_grad=True)
    x = rl.tensor(1.0, requires_grad=True)
    for reentrant in (False, True):
        w.grad = None
        checkpoint(lambda x: (x * w) * w, x, use_reentrant=reentrant).backward()
        assert w.grad.item() == 6.0
