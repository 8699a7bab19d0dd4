"""Nothing that a function reads or changes around it is missed: all were silently wrong once."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.symbol import TraceError

ONE = rl.ones(1)


class Memory:
    """Something that a function keeps between its calls."""

    def __init__(self, value: Any = None) -> None:
        self.value = value


def test_state_that_begins_with_nothing() -> None:
    memory = Memory()

    @rl.compile(fullgraph=True)
    def total(x):
        memory.value = x * 1 if memory.value is None else memory.value + x
        return memory.value.sum()

    assert [total(ONE).item() for _ in range(4)] == [1, 2, 3, 4]


def test_a_number_that_becomes_a_tensor() -> None:
    memory = Memory(0.0)

    @rl.compile(fullgraph=True)
    def add(x):
        memory.value += x.sum()
        return x

    found = []
    for v in (1.0, 2.0, 3.0):
        add(rl.full((1,), v))
        found.append(memory.value.item())
    assert found == [1, 3, 6]


def test_an_entry_that_is_made_once() -> None:
    cache: dict[str, Any] = {}

    @rl.compile(fullgraph=True)
    def scaled(x):
        if "w" not in cache:
            cache["w"] = x * 10
        return cache["w"] + x

    assert [scaled(rl.full((1,), v)).item() for v in (1.0, 2.0, 3.0)] == [11, 12, 13]


def test_a_loss_kept_in_an_attribute_has_a_history() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2, bias=False)

        def forward(self, x):
            h = self.layer(x)
            self.extra = h.pow(2).sum()
            return h.sum()

    net = Net()
    compiled = rl.compile(net, fullgraph=True)
    gradients = []
    for run in (net, compiled):
        net.layer.weight.grad = None
        (run(rl.ones(1, 2)) + net.extra).backward()
        gradients.append(net.layer.weight.grad)
    assert rl.allclose(*gradients)


def test_hooks_of_tensors() -> None:
    w = rl.ones(2, requires_grad=True)

    @rl.compile(fullgraph=True)
    def step(x):
        (x * w).sum().backward()

    found = []
    for factor in (None, 10, 100):
        if factor is not None:
            handle = w.register_hook(lambda g, k=factor: g * k)
        w.grad = None
        step(rl.ones(2))
        found.append(w.grad[0].item())
        if factor is not None:
            handle.remove()
    assert found == [1, 10, 100]


def test_a_refusal_cannot_be_swallowed() -> None:
    def function(x):
        try:
            v = x.sum().item()
        except RuntimeError:
            v = -1.0
        return x * v

    with pytest.raises(TraceError, match="values of a traced tensor"):
        rl.compile(function, fullgraph=True)(rl.ones(3))
    with pytest.warns(UserWarning, match="runs in dynamic mode"):
        assert rl.compile(function)(rl.ones(3)).tolist() == [3, 3, 3]


@pytest.mark.parametrize("which", [0, 1])
def test_what_backward_reads_must_not_change(which: int) -> None:
    x, w = rl.ones(2), rl.ones(2, requires_grad=True)
    scale = rl.ones(2)
    y = rl.compile(lambda x, w: (x * w * scale).sum())(x, w)
    (x, scale)[which].mul_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_seeds_inside() -> None:
    def function(x):
        rl.manual_seed(0)
        return x + rl.rand(3)

    with pytest.raises(TraceError, match="manual_seed"):
        rl.compile(function, fullgraph=True)(rl.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = rl.compile(function)
        assert compiled(rl.zeros(3)).tolist() == compiled(rl.zeros(3)).tolist()


def test_one_result_is_used_up_and_another_is_not() -> None:
    w = rl.ones(2, requires_grad=True)

    @rl.compile(fullgraph=True)
    def both(x):
        a = (x * w).sum()
        a.backward()
        return a, (x * w * w).sum()

    _, b = both(rl.ones(2))
    b.backward()
    assert w.grad.tolist() == [3, 3]


def test_strides_decide_what_a_reshape_shares() -> None:
    def function(x):
        y = x.reshape(-1)
        y.add_(1)
        return y.sum()

    compiled = rl.compile(function, fullgraph=True)
    compiled(rl.arange(16.0)[::2].view(4, 2))
    base = rl.arange(16.0).view(4, 4)[:, :2]
    compiled(base)
    assert base[0, 0].item() == 0


def test_the_shape_of_an_argument_is_not_changed_in_a_graph() -> None:
    def function(x):
        x.t_()
        return x.add_(1).sum()

    with pytest.raises(TraceError, match="changes the shape of a tensor of outside"):
        rl.compile(function, fullgraph=True)(rl.zeros(2, 3))


def test_iterators_and_large_arrays_are_refused() -> None:
    stream = iter([1.0, 2.0])
    with pytest.raises(TraceError, match="gives another value each time"):
        rl.compile(lambda x: x * next(stream), fullgraph=True)(ONE)


def test_a_refusal_is_for_the_arguments_that_it_met() -> None:
    def function(x, read=False):
        return x.sum().item() if read else x * 2

    compiled = rl.compile(function)
    with pytest.warns(UserWarning, match="dynamic mode"):
        compiled(ONE, read=True)
    compiled(ONE)
    assert len(compiled.known) == 1


def test_attributes_and_hooks_of_a_compiled_module() -> None:
    module = nn.Linear(2, 2)
    compiled = rl.compile(module)
    seen: list[int] = []
    compiled.register_forward_hook(lambda *args: seen.append(1))
    compiled(rl.ones(1, 2))
    compiled.scale = 5.0
    compiled.weight = nn.Parameter(rl.zeros(2, 2))
    assert seen == [1]
    assert module.scale == 5.0
    assert compiled(rl.ones(1, 2)).tolist() == [module.bias.tolist()]


def test_formatting_a_number_inside() -> None:
    @rl.compile
    def function(x):
        return x, f"{x.sum():.2f}"

    with pytest.warns(UserWarning, match="values of a traced tensor"):
        assert function(ONE)[1] == "1.00"


def test_positions_in_long_rows() -> None:
    x = rl.arange(70000.0)
    assert rl.compile(lambda x: x.argmax(), fullgraph=True)(x).item() == 69999
