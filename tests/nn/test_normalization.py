"""Normalisation: statistics, their running averages, saved states, derivatives of three orders."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def test_training_normalises_and_moves_the_running_averages() -> None:
    x = rl.randn(8, 3, 4, 4) * 2 + 5
    layer = nn.BatchNorm2d(3)
    y = layer(x)
    assert rl.allclose(y.mean((0, 2, 3)), rl.zeros(3), atol=1e-5)
    assert rl.allclose(y.var((0, 2, 3), correction=0), rl.ones(3), atol=1e-4)
    assert rl.allclose(layer.running_mean, 0.1 * x.mean((0, 2, 3)))
    assert rl.allclose(layer.running_var, 0.9 + 0.1 * x.var((0, 2, 3)))
    assert layer.num_batches_tracked.item() == 1


def test_evaluation_uses_the_running_averages_and_leaves_them() -> None:
    layer = nn.BatchNorm1d(3)
    layer(rl.randn(8, 3))
    before = {name: t.clone() for name, t in layer.state_dict().items()}
    x = rl.randn(1, 3)
    expected = (x - layer.running_mean) / (layer.running_var + layer.eps).sqrt()
    assert rl.allclose(layer.eval()(x), expected, atol=1e-6)
    assert all(rl.equal(before[name], t) for name, t in layer.state_dict().items())


def test_without_momentum_the_averages_are_plain_ones() -> None:
    layer = nn.BatchNorm1d(2, momentum=None)
    batches = [rl.randn(5, 2) for _ in range(4)]
    for batch in batches:
        layer(batch)
    assert rl.allclose(layer.running_mean, rl.stack(batches).mean((0, 1)), atol=1e-6)
    expected = rl.stack([b.var(0) for b in batches]).mean(0)
    assert rl.allclose(layer.running_var, expected, atol=1e-6)


def test_without_tracking_a_batch_is_always_its_own_measure() -> None:
    layer = nn.BatchNorm1d(2, track_running_stats=False).eval()
    assert layer.running_mean is None
    assert rl.allclose(layer(rl.randn(9, 2)).mean(0), rl.zeros(2), atol=1e-6)
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_a_result_may_be_written_over_before_backward() -> None:
    x = rl.randn(6, 3, requires_grad=True)
    layer = nn.BatchNorm1d(3)
    expected = rl.autograd.grad(F.relu(layer(x)).sum(), x)[0]
    layer(x).relu_().sum().backward()
    assert rl.allclose(x.grad, expected)


def test_the_state_has_pytorch_s_names_in_its_order() -> None:
    assert list(nn.BatchNorm2d(3).state_dict()) == [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    assert list(nn.BatchNorm2d(3, affine=False, track_running_stats=False).state_dict()) == []
    assert list(nn.BatchNorm2d(3, bias=False, track_running_stats=False).state_dict()) == ["weight"]
    assert list(nn.InstanceNorm2d(3, affine=True).state_dict()) == ["weight", "bias"]


def test_states_from_before_batches_were_counted_load() -> None:
    layer = nn.BatchNorm1d(2)
    layer(rl.randn(4, 2))
    old = OrderedDict((k, v) for k, v in layer.state_dict().items() if "num" not in k)
    twin = nn.BatchNorm1d(2)
    twin.load_state_dict(old)
    assert rl.equal(twin.running_mean, layer.running_mean)
    old._metadata = {"": {"version": 2}}
    with pytest.raises(
        RuntimeError, match=r'Missing key\(s\) in state_dict: "num_batches_tracked"'
    ):
        twin.load_state_dict(old)


def test_old_statistics_of_instance_norms_are_explained() -> None:
    state = OrderedDict(running_mean=rl.zeros(2), running_var=rl.ones(2))
    with pytest.raises(RuntimeError, match="set track_running_stats=True in InstanceNorm1d"):
        nn.InstanceNorm1d(2).load_state_dict(state)


def test_instance_norm_takes_rows_without_a_batch() -> None:
    layer = nn.InstanceNorm1d(3, affine=True)
    x = rl.randn(2, 3, 5)
    assert rl.allclose(layer(x[0]), layer(x)[0], atol=1e-6)
    with pytest.raises(ValueError, match=r"at dim=1 to match num_features \(3\), but got: 4"):
        layer(rl.randn(2, 4, 5))
    with pytest.warns(UserWarning, match="does not match num_features"):
        nn.InstanceNorm1d(3)(rl.randn(2, 4, 5))


def test_group_norm_spans_from_layer_norm_to_instance_norm() -> None:
    x = rl.randn(2, 6, 5)
    assert rl.allclose(F.group_norm(x, 1), F.layer_norm(x, (6, 5)), atol=1e-6)
    assert rl.allclose(F.group_norm(x, 6), F.instance_norm(x), atol=1e-6)


def test_batch_norms_become_synchronised_ones() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.ReLU()))
    weight = net[1][0].weight
    x = rl.randn(5, 3)
    expected = net(x)
    twin = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert twin is net
    assert isinstance(net[1][0], nn.SyncBatchNorm)
    assert net[1][0].weight is weight
    assert rl.equal(net(x), expected)
    with pytest.raises(ValueError, match="expected at least 2D input"):
        nn.SyncBatchNorm(3)(rl.ones(3))


@pytest.mark.parametrize(
    ("layer", "shape", "becomes"),
    [
        (nn.LazyBatchNorm1d, (4, 3), nn.BatchNorm1d),
        (nn.LazyBatchNorm2d, (4, 3, 2, 2), nn.BatchNorm2d),
        (nn.LazyBatchNorm3d, (4, 3, 2, 2, 2), nn.BatchNorm3d),
        (nn.LazyInstanceNorm1d, (4, 3, 2), nn.InstanceNorm1d),
        (nn.LazyInstanceNorm2d, (4, 3, 2, 2), nn.InstanceNorm2d),
        (nn.LazyInstanceNorm3d, (4, 3, 2, 2, 2), nn.InstanceNorm3d),
    ],
)
def test_lazy_layers_take_their_size_from_the_input(layer: Any, shape: Any, becomes: Any) -> None:
    lazy = layer()
    x = rl.randn(shape)
    y = lazy(x)
    assert type(lazy) is becomes
    assert lazy.num_features == 3
    usual = becomes(3, affine=True, track_running_stats=True)
    assert rl.equal(y, usual(x))
    assert list(lazy.state_dict()) == list(usual.state_dict())
    loaded = layer()
    loaded.load_state_dict(lazy.state_dict())
    assert rl.equal(loaded.running_mean, lazy.running_mean)


@pytest.mark.parametrize("name", ["layer", "group", "batch", "instance", "rms"])
def test_derivatives_of_three_orders(name: str) -> None:
    function = {
        "layer": lambda x, w, b: F.layer_norm(x, (4,), w, b),
        "group": lambda x, w, b: F.group_norm(x, 2, w, b),
        "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
        "instance": lambda x, w, b: F.instance_norm(x, None, None, w, b),
        "rms": lambda x, w, b: F.rms_norm(x, (4,), w),
    }[name]
    rl.manual_seed(0)
    x, v = rl.randn(2, 4, 4, dtype=rl.float64), rl.randn(2, 4, 4, dtype=rl.float64)
    w, b = rl.rand(4, dtype=rl.float64), rl.rand(4, dtype=rl.float64)

    def slope(x: Any, w: Any) -> Any:
        y = function(x, w, b)
        return rl.autograd.grad(y, (x, w), v, create_graph=True)

    operands = [x.requires_grad_(), w.requires_grad_()]
    assert rl.autograd.gradcheck(slope, operands)
    assert rl.autograd.gradgradcheck(slope, operands)


def test_half_types_are_rounded_once() -> None:
    x = rl.randn(4, 64)
    half = x.to(rl.bfloat16)
    for weight in (None, rl.ones(64), rl.ones(64, dtype=rl.bfloat16)):
        y = F.layer_norm(half, (64,), weight)
        assert y.dtype is rl.bfloat16
        assert rl.equal(y, F.layer_norm(half.float(), (64,)).to(rl.bfloat16))
    with pytest.raises(RuntimeError, match="expected weight of dtype rushlight"):
        F.layer_norm(x, (64,), rl.ones(64, dtype=rl.float64))


def test_wide_local_responses_agree_with_the_formula() -> None:
    x = rl.rand(1, 5, 2)
    y = nn.LocalResponseNorm(3, alpha=1.0, beta=0.5, k=2.0)(x)
    squares = F.pad(x * x, (0, 0, 1, 1))
    around = squares[:, :5] + squares[:, 1:6] + squares[:, 2:]
    assert rl.allclose(y, x / (2 + around / 3).sqrt())


def test_bad_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 4D input \(got 3D input\)"):
        nn.BatchNorm2d(3)(rl.ones(2, 3, 4))
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\)"):
        nn.BatchNorm1d(3)(rl.ones(2, 3, 4, 4))
    with pytest.raises(ValueError, match="more than 1 value per channel when training"):
        nn.BatchNorm1d(3)(rl.ones(1, 3))
    with pytest.raises(RuntimeError, match="running_mean should contain 4 elements not 3"):
        nn.BatchNorm1d(3, affine=False)(rl.ones(2, 4))
    with pytest.raises(
        ValueError, match=r"num_channels \(4\) must be divisible by num_groups \(3\)"
    ):
        nn.GroupNorm(3, 4)
    with pytest.raises(RuntimeError, match=r"expected input with shape \[\*, 3\]"):
        nn.LayerNorm(3)(rl.ones(2, 4))
    with pytest.raises(ValueError, match="Expected input to be 4D, got 3D"):
        nn.CrossMapLRN2d(3)(rl.ones(2, 3, 4))
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        nn.LayerNorm(2.5)


def test_layers_print_their_parameters() -> None:
    assert (
        repr(nn.LayerNorm([2, 3]))
        == "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True, bias=True)"
    )
    assert repr(nn.GroupNorm(2, 4)) == "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"
    assert repr(nn.RMSNorm(4)) == "RMSNorm((4,), eps=None, elementwise_affine=True)"
    assert repr(nn.LocalResponseNorm(3)) == "LocalResponseNorm(3, alpha=0.0001, beta=0.75, k=1.0)"


def test_one_value_per_channel_is_refused_before_channels_are_counted() -> None:
    for layer, shape in (
        (nn.BatchNorm1d(1), (1, 4)),
        (nn.BatchNorm1d(3), (1, 4, 1)),
        (nn.BatchNorm2d(5), (1, 6, 1, 1)),
    ):
        with pytest.raises(ValueError, match="more than 1 value per channel when training"):
            layer(rl.ones(shape))


def test_a_wrong_number_of_channels_is_named() -> None:
    message = "running_mean should contain 6 elements not 5: .* of 5 channels, got 6"
    with pytest.raises(RuntimeError, match=message):
        nn.BatchNorm2d(5)(rl.ones(2, 6, 2, 2))


def test_integers_are_not_normalised() -> None:
    with pytest.raises(NotImplementedError, match="\"rms_norm\" not implemented for 'Long'"):
        F.rms_norm(rl.arange(4), (4,))


@pytest.mark.parametrize("half", [rl.float16, rl.bfloat16])
def test_rms_norms_of_half_types_are_those_of_float32_rounded(half: rl.dtype) -> None:
    x = rl.tensor([[1e-3, 2e-3], [3.0, -4.0]]).to(half)
    for weight in (None, rl.tensor([0.5, 3.0]), rl.tensor([0.5, 3.0], dtype=half)):
        y = F.rms_norm(x, (2,), weight)
        wide = F.rms_norm(x.float(), (2,), None if weight is None else weight.float())
        assert y.dtype is half
        assert rl.equal(y, wide.to(half))
