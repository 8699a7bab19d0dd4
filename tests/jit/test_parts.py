"""Modules inside programs: what would not change the program is an error, and not ignored."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 10)

    def forward(self, x: Any) -> Any:
        return self.fc(self.body(x))


X = rl.ones(2, 4)


def traced() -> Any:
    return rl.jit.trace(Inner(), X)


def loaded() -> Any:
    return rl.jit.load(io.BytesIO(traced().save_to_buffer()))


def exported() -> Any:
    return rl.export.export(Inner(), (X,)).module()


@pytest.mark.parametrize("make", [traced, loaded, exported])
@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m, "fc", nn.Linear(8, 2)),
        lambda m: setattr(m, "fc", None),
        lambda m: setattr(m, "fc", nn.Parameter(rl.ones(2))),
        lambda m: setattr(m, "new", nn.Linear(8, 2)),
        lambda m: delattr(m, "fc"),
        lambda m: m.add_module("fc", nn.Identity()),
        lambda m: m.add_module("new", nn.Identity()),
        lambda m: m.set_submodule("fc", nn.Identity()),
        lambda m: m._modules.pop("fc"),
    ],
    ids=["set", "none", "parameter", "new", "delete", "add", "add new", "path", "pop"],
)
def test_a_child_of_a_program_stays(make: Callable[[], Any], change: Callable[[Any], Any]) -> None:
    module = make()
    before, names = module(X), list(module.state_dict())
    with pytest.raises(
        RuntimeError, match=r"cannot be .*: a program is one graph.*nn.Sequential\("
    ):
        change(module)
    assert list(module.state_dict()) == names
    assert rl.equal(module(X), before)


@pytest.mark.parametrize("make", [loaded, exported])
def test_the_modules_inside_a_program_without_source(make: Callable[[], Any]) -> None:
    module = make()
    with pytest.raises(RuntimeError, match="'0' cannot be replaced: a program is one graph"):
        setattr(module.body, "0", nn.Linear(4, 8))
    with pytest.raises(RuntimeError, match="'2' cannot be added: a program is one graph"):
        module.body.add_module("2", nn.Linear(4, 8))
    for register in (
        module.body.register_forward_hook,
        module.fc.register_forward_pre_hook,
        module.fc.register_full_backward_hook,
    ):
        with pytest.raises(RuntimeError, match="a module inside a program cannot have hooks"):
            register(print)
    with pytest.raises(RuntimeError, match="a module inside a program cannot be called"):
        module.fc(rl.ones(2, 8))
    module(X).sum().backward()
    assert module.fc.weight.grad is not None


def test_the_tensors_of_a_program_may_be_replaced_but_not_taken_away() -> None:
    module = loaded()
    module.fc.weight = nn.Parameter(rl.zeros(10, 8))
    assert rl.equal(module(X), module.fc.bias.expand(2, 10))
    module.fc.bias = None
    with pytest.raises(RuntimeError, match=r"fc\.bias was taken away, but the program needs it"):
        module(X)


def test_hooks_of_the_whole_and_copies_of_its_modules() -> None:
    module, seen = loaded(), []
    module.register_forward_hook(lambda *_: seen.append(1))
    module(X)
    assert seen == [1]
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded()):
        twin.load_state_dict(module.state_dict())
        assert rl.equal(twin(X), module(X))
        with pytest.raises(RuntimeError, match="'fc' cannot be replaced"):
            twin.fc = nn.Identity()
    body = copy.deepcopy(module.body)
    assert list(body.state_dict()) == ["0.weight", "0.bias"]


def test_a_module_that_changes_after_it_was_traced() -> None:
    net = Inner()
    program = rl.jit.trace(net, X)
    program.body[0] = nn.Linear(4, 8)
    for call in (lambda: program(X), lambda: program(rl.ones(3, 4)), program.save_to_buffer):
        with pytest.raises(RuntimeError, match=r"Inner\.body\.0 is another module"):
            call()
    again = rl.jit.trace(net, X)
    assert rl.equal(again(X), net(X))
    net.body.append(nn.Tanh())
    with pytest.raises(RuntimeError, match=r"Inner\.body\.2 is another module"):
        again(X)


def test_hooks_that_come_after_the_trace() -> None:
    net = Inner()
    net.body.register_forward_hook(lambda module, args, result: 2 * result)
    program = rl.jit.trace(net, X)
    assert rl.allclose(program(X), net(X))
    handle = net.fc.register_forward_hook(lambda module, args, result: 0 * result)
    with pytest.raises(RuntimeError, match=r"Inner\.fc is another module, or has other hooks"):
        program(X)
    handle.remove()
    assert rl.allclose(program(X), net(X))
