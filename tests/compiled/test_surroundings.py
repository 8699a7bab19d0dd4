"""Nothing that a function reads or changes around it is missed: all were silently wrong once."""

from __future__ import annotations

import array
import dataclasses
import functools
import importlib
import sys
import warnings
from collections import ChainMap, UserDict, UserList
from types import MappingProxyType
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
            v = x.sum().tolist()
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
        return x.tolist() if read else x * 2

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


def test_what_rules_of_a_custom_function_read() -> None:
    factors = [2.0]

    class Square(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * factors[0] * x

    w = rl.ones(2, requires_grad=True)
    square = rl.compile(lambda x: Square.apply(x * w).sum(), fullgraph=True)
    square(rl.ones(2)).backward()
    assert w.grad.tolist() == [2, 2]
    w.grad, factors[0] = None, 10.0
    square(rl.ones(2)).backward()
    assert w.grad.tolist() == [10, 10]


@dataclasses.dataclass
class Record:
    rate: float = 1.0

    def scaled(self, x: Any) -> Any:
        return x * SCALES["record"]


class Row(list):
    pass


class Table(dict):
    pass


class Count(int):
    pass


SCALES = {"record": 2.0}


@pytest.mark.parametrize(
    "make", [Record, lambda: Row([1.0]), lambda: Table(a=1.0), lambda: Count(3)]
)
def test_attributes_of_arguments(make: Any) -> None:
    scaled = rl.compile(lambda x, owner: x * owner.scale, fullgraph=True)
    owner = make()
    for scale in (2.0, 5.0, 2.0):
        owner.scale = scale
        assert scaled(ONE, owner).item() == scale


def test_methods_of_arguments() -> None:
    scaled = rl.compile(lambda x, record: record.scaled(x), fullgraph=True)
    assert scaled(ONE, Record()).item() == 2
    SCALES["record"] = 5.0
    assert scaled(ONE, Record()).item() == 5
    SCALES["record"] = 2.0


def test_attributes_of_tensors() -> None:
    w = rl.ones(1)
    w.scale = 2.0
    captured = rl.compile(lambda x: x * w * w.scale, fullgraph=True)
    given = rl.compile(lambda x: x * x.scale, fullgraph=True)
    assert captured(ONE).item() == given(w).item() == 2
    w.scale = 5.0
    assert captured(ONE).item() == given(w).item() == 5


@pytest.mark.parametrize("given", [False, True])
def test_attaching_to_a_tensor_is_refused(given: bool) -> None:
    w = rl.ones(1)

    def attach(x):
        (x if given else w).note = 3
        return x + 1

    with pytest.raises(TraceError, match="note was missing, is 3"):
        rl.compile(attach, fullgraph=True)(rl.ones(1))
    assert "note" not in vars(w)


NESTED = {"a": {"b": {"c": {"d": {"e": {"f": 2.0}}}}}}


def test_values_at_any_depth() -> None:
    deep = rl.compile(lambda x: x * NESTED["a"]["b"]["c"]["d"]["e"]["f"], fullgraph=True)
    for value in (2.0, 5.0):
        NESTED["a"]["b"]["c"]["d"]["e"]["f"] = value
        assert deep(ONE).item() == value


def changing() -> list[tuple[Any, Any, Any]]:
    proxied = {"a": 2.0}
    numbers = array.array("d", [2.0])
    chain, users = ChainMap({"a": 2.0}), UserDict(a=2.0)
    items, text = UserList([2.0]), bytearray([2])
    proxy = MappingProxyType(proxied)
    return [
        ("chain map", lambda x: x * chain["a"], lambda: chain.update(a=5.0)),
        ("user dict", lambda x: x * users["a"], lambda: users.update(a=5.0)),
        ("user list", lambda x: x * items[0], lambda: items.__setitem__(0, 5.0)),
        ("bytes", lambda x: x * text[0], lambda: text.__setitem__(0, 5)),
        ("array", lambda x: x * numbers[0], lambda: numbers.__setitem__(0, 5.0)),
        ("proxy", lambda x: x * proxy["a"], lambda: proxied.update(a=5.0)),
    ]


@pytest.mark.parametrize("name", [name for name, _, _ in changing()])
def test_containers_of_all_kinds(name: str) -> None:
    function, change = next((f, c) for n, f, c in changing() if n == name)
    compiled = rl.compile(function, fullgraph=True)
    assert compiled(ONE).item() == 2
    change()
    assert compiled(ONE).item() == 5


def test_functions_that_remember_their_results() -> None:
    scale = {"a": 2.0}

    @functools.lru_cache
    def filled(size):
        return rl.full((size,), scale["a"])

    compiled = rl.compile(lambda x: x * filled(2), fullgraph=True)
    assert compiled(rl.ones(2)).tolist() == [2, 2]
    assert filled(2).tolist() == [2, 2]  # not the symbol that it was while traced


LIBRARY = """
from rushlight import nn
SCALE = 2.0
class Config:
    def __init__(self):
        self.scale = 2.0
config = Config()
def by_constant(x): return x * SCALE
def by_object(x): return x * config.scale
def helper(x, config): return x * config.scale
class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
    def forward(self, x): return helper(x, self.config)
"""


def test_what_installed_packages_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_for_a_test.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(folder))
    package = importlib.import_module("installed_for_a_test")
    config = package.Config()
    functions = [
        rl.compile(lambda x: package.by_constant(x), fullgraph=True),
        rl.compile(lambda x: package.by_object(x), fullgraph=True),
        rl.compile(lambda x: x * package.SCALE, fullgraph=True),
        rl.compile(package.Net(config), fullgraph=True),
    ]
    assert [f(ONE).item() for f in functions] == [2, 2, 2, 2]
    package.SCALE = package.config.scale = config.scale = 5.0
    assert [f(ONE).item() for f in functions] == [5, 5, 5, 5]
    monkeypatch.delitem(sys.modules, "installed_for_a_test")


def test_strides_of_what_is_captured() -> None:
    w = rl.ones(4, 8)[:, ::4]
    compiled = rl.compile(lambda x: x * w.stride(0), fullgraph=True)
    assert compiled(ONE).item() == 8
    w.data = rl.ones(4, 2)
    assert compiled(ONE).item() == 2


def test_rates_that_are_set_inside() -> None:
    found = []
    for compiled in (False, True):
        w = rl.ones(1, requires_grad=True)
        optimizer = rl.optim.SGD([w], lr=1.0)

        def step(x, rate, w=w, optimizer=optimizer):
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            (x * w).sum().backward()
            optimizer.step()

        run = rl.compile(step) if compiled else step
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for rate in (0.5, 0.25, 0.5, 0.125):
                run(ONE, rate)
        found.append(w.item())
    assert found[0] == found[1]
    assert "param_groups[0].lr was 1.0, is 0.5) at " in str(caught[0].message)
