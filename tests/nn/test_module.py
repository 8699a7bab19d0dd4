"""Modules: what belongs to them, how they are called, saved, loaded, copied and written."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn


class Scale(nn.Module):
    """A parameter, a buffer that is saved and one that is not."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.scale = nn.Parameter(rl.ones(size))
        self.register_buffer("count", rl.zeros((), dtype=rl.int64))
        self.register_buffer("scratch", rl.zeros(1), persistent=False)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return x * self.scale

    def extra_repr(self) -> str:
        return f"size={len(self.scale)}"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = Scale()

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.second(self.first(x))


def arrays(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: t.numpy().copy() for name, t in module.state_dict().items()}


def assert_same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert list(a) == list(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def test_members_have_paths() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias", "second.scale"]
    assert [n for n, _ in net.named_buffers()] == ["second.count", "second.scratch"]
    assert list(net.state_dict()) == [
        "first.weight",
        "first.bias",
        "second.scale",
        "second.count",
    ]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]
    assert net.get_parameter("second.scale") is net.second.scale


def test_a_shared_module_counts_once() -> None:
    layer = nn.Linear(1, 1)
    net = nn.Sequential(layer, layer)
    assert len(list(net.parameters())) == 2
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert len(net.state_dict()) == 4


def test_repr_is_a_tree() -> None:
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=2, out_features=3, bias=True)\n"
        "  (second): Scale(size=3)\n"
        ")"
    )


def test_training_reaches_all_parameters() -> None:
    net = Net()
    x = rl.ones(4, 2)
    losses = []
    for _ in range(3):
        loss = (net(x) - 1).square().mean()
        net.zero_grad()
        loss.backward()
        with rl.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]


def test_attributes_before_init_are_refused() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.Identity()

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\)"):
        Early()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scale", rl.ones(3), "as parameter 'scale' .*Parameter or None expected"),
        ("count", 3, "cannot assign 'int' as buffer 'count'"),
    ],
)
def test_wrong_assignments_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        setattr(Scale(), name, value)


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'third'"):
        _ = Net().third


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing .*"forward"'):
        nn.Module()(1)


def test_a_parameter_cannot_be_computed() -> None:
    module = nn.Module()
    with pytest.raises(TypeError, match="object to parameter 'w' "):
        module.register_parameter("w", rl.ones(2))


def test_load_tells_everything_that_does_not_fit_and_changes_nothing() -> None:
    net = Net()
    before = arrays(net)
    wrong = {"first.weight": rl.zeros(3, 2), "first.bias": rl.zeros(7), "more": rl.zeros(1)}
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(wrong)
    assert str(error.value) == (
        "Error(s) in loading state_dict for Net:\n"
        '\tMissing key(s) in state_dict: "second.scale", "second.count". \n'
        '\tUnexpected key(s) in state_dict: "more". \n'
        "\tsize mismatch for first.bias: copying a param with shape rushlight.Size([7]) from "
        "checkpoint, the shape in current model is rushlight.Size([3])."
    )
    assert_same(arrays(net), before)


def test_a_failed_load_with_assign_changes_nothing() -> None:
    net = Net()
    weight, before = net.first.weight, arrays(net)
    with pytest.raises(RuntimeError, match="Missing key"):
        net.load_state_dict({"first.weight": rl.zeros(3, 2)}, assign=True)
    assert net.first.weight is weight
    assert_same(arrays(net), before)


def test_load_copies_into_the_same_parameters() -> None:
    a, b = Net(), Net()
    kept = list(b.parameters())
    assert repr(b.load_state_dict(a.state_dict())) == "<All keys matched successfully>"
    assert_same(arrays(a), arrays(b))
    assert all(p is q for p, q in zip(kept, b.parameters(), strict=True))


def test_a_partial_load_returns_what_was_missing() -> None:
    found = Net().load_state_dict({"first.bias": rl.zeros(3), "x": 1}, strict=False)
    assert found.missing_keys == ["first.weight", "second.scale", "second.count"]
    assert found.unexpected_keys == ["x"]


def test_conversion_keeps_parameters_and_integers() -> None:
    net = Net()
    kept = list(net.parameters())
    net(rl.ones(1, 2)).sum().backward()
    net.double()
    assert {p.dtype for p in net.parameters()} == {rl.float64}
    assert {p.grad.dtype for p in net.parameters()} == {rl.float64}
    assert net.second.count.dtype is rl.int64
    assert all(p is q for p, q in zip(kept, net.parameters(), strict=True))


def test_integers_are_no_dtype_of_a_network() -> None:
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        Net().to(rl.int64)


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="device 'cuda' is not available"):
        Net().cuda()


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_apart(twin_of: Any) -> None:
    net = Net()
    net.first.weight.requires_grad_(False)
    twin = twin_of(net)
    assert_same(arrays(net), arrays(twin))
    assert isinstance(twin.first.weight, nn.Parameter)
    assert not twin.first.weight.requires_grad
    assert twin.first.bias.requires_grad
    with rl.no_grad():
        twin.first.weight.zero_()
    assert net.first.weight.any()


def test_frozen_parameters_get_no_gradient() -> None:
    net = Net()
    net.first.requires_grad_(False)
    net(rl.ones(1, 2)).sum().backward()
    assert net.first.weight.grad is None
    assert net.second.scale.grad is not None


def test_hooks_run_in_order_until_they_are_removed() -> None:
    log: list[str] = []
    layer = nn.Identity()
    with layer.register_forward_hook(lambda m, a, r: log.append("last")):
        layer.register_forward_hook(lambda m, a, r: log.append("first"), prepend=True).remove()
        layer.register_forward_pre_hook(lambda m, a: log.append("before"))
        layer(1)
    assert log == ["before", "last"]
    layer._forward_pre_hooks.clear()
    layer(1)
    assert log == ["before", "last"]
    assert not layer._hooked


def test_hooks_of_all_modules_run_until_they_are_removed() -> None:
    log: list[str] = []
    net = nn.Sequential(nn.Identity())
    with nn.modules.module.register_module_forward_hook(
        lambda module, args, result: log.append(type(module).__name__)
    ):
        net(1)
    net(1)
    assert log == ["Identity", "Sequential"]


def test_a_backward_hook_may_change_the_gradient() -> None:
    layer = nn.Linear(2, 1, bias=False)
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0,))
    x = rl.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0]])
    np.testing.assert_array_equal(layer.weight.grad.numpy(), [[1, 1]])


def test_a_wrong_answer_of_a_backward_hook_is_refused() -> None:
    layer = nn.Identity()
    layer.register_full_backward_hook(lambda m, gi, go: ())
    y = layer(rl.ones(1, requires_grad=True)).sum()
    with pytest.raises(RuntimeError, match="number of grad_input, got 0, but expected 1"):
        y.backward()


def test_parameters_are_tensors() -> None:
    data = rl.ones(2)
    p = nn.Parameter(data)
    data[0] = 3.0
    assert repr(p) == "Parameter containing:\ntensor([3., 1.], requires_grad=True)"
    assert type(p + 1) is rl.Tensor
    with rl.no_grad():
        assert nn.Parameter(data).requires_grad
    with pytest.raises(TypeError, match="argument 'data' must be Tensor or None, not list"):
        nn.Parameter([1.0])


def test_a_buffer_may_stay_out_of_the_state() -> None:
    module = nn.Module()
    module.mean = nn.Buffer(rl.zeros(1))
    module.last = nn.Buffer(rl.zeros(1), persistent=False)
    assert list(module.state_dict()) == ["mean"]
    module.mean = rl.ones(2)
    assert next(iter(module.buffers())).shape == (2,)


def test_a_buffer_takes_its_options_by_name() -> None:
    assert nn.Buffer(rl.zeros(1, requires_grad=True)).requires_grad
    assert not nn.Buffer(rl.zeros(1)).requires_grad
    with pytest.raises(TypeError, match="positional arguments"):
        nn.Buffer(rl.zeros(1), False)  # type: ignore[misc]
    with pytest.raises(TypeError, match="argument 'data' must be Tensor or None, not list"):
        nn.Buffer([1.0])
