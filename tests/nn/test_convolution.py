"""Convolution layers: parameters, arguments, state, and what they refuse."""

from __future__ import annotations

import copy
import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.nn.convolution import _ConvNd, _ConvTransposeNd

CLASSES = [
    getattr(nn, f"{kind}{dims}d") for kind in ("Conv", "ConvTranspose") for dims in (1, 2, 3)
]


def by_definition(
    x: np.ndarray, w: np.ndarray, stride: int, padding: int, dilation: int
) -> np.ndarray:
    """The sum that a convolution is, place by place."""
    dims = w.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *[(padding, padding)] * dims))
    spans = [dilation * (k - 1) + 1 for k in w.shape[2:]]
    count = [(n - s) // stride + 1 for n, s in zip(x.shape[2:], spans, strict=True)]
    y = np.zeros((len(x), len(w), *count))
    for place in itertools.product(*map(range, count)):
        window = [
            slice(p * stride, p * stride + s, dilation) for p, s in zip(place, spans, strict=True)
        ]
        part = x[(slice(None), slice(None), *window)]
        y[(slice(None), slice(None), *place)] = np.tensordot(
            part, w, (range(1, part.ndim), range(1, w.ndim))
        )
    return y


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
def test_a_convolution_is_its_definition(
    dims: int, stride: int, padding: int, dilation: int
) -> None:
    random = np.random.default_rng(0)
    x, w = random.standard_normal((2, 3, *[5] * dims)), random.standard_normal((4, 3, *[2] * dims))
    function = getattr(F, f"conv{dims}d")
    y = function(rl.from_numpy(x), rl.from_numpy(w), None, stride, padding, dilation)
    np.testing.assert_allclose(y.numpy(), by_definition(x, w, stride, padding, dilation))


def test_groups_are_convolved_apart() -> None:
    x, w = rl.randn(2, 6, 5, 5), rl.randn(4, 3, 2, 2)
    whole = F.conv2d(x, w, groups=2)
    parts = [F.conv2d(a, b) for a, b in zip(x.chunk(2, 1), w.chunk(2), strict=True)]
    assert rl.allclose(whole, rl.cat(parts, 1), atol=1e-6)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_layer_has_weight_and_bias(cls: Any) -> None:
    dims = cls.dims
    layer = cls(4, 6, 3, groups=2)
    channels = (4, 3) if layer.transposed else (6, 2)
    assert layer.weight.shape == (*channels, *[3] * dims)
    assert layer.bias.shape == (6,)
    assert list(layer.state_dict()) == ["weight", "bias"]
    bound = 1 / np.sqrt(channels[1] * 3**dims)
    assert layer.weight.abs().max() <= bound
    assert layer.bias.abs().max() <= bound
    assert isinstance(layer, _ConvNd)
    assert isinstance(layer, _ConvTransposeNd) == layer.transposed
    assert cls(4, 6, 3, bias=False).bias is None


@pytest.mark.parametrize("cls", CLASSES)
def test_an_input_without_a_batch(cls: Any) -> None:
    layer, x = cls(2, 3, 2, stride=2), rl.randn(2, *[5] * cls.dims)
    assert rl.equal(layer(x), layer(x.unsqueeze(0)).squeeze(0))


@pytest.mark.parametrize("cls", CLASSES)
def test_a_lazy_layer_becomes_the_layer(cls: Any) -> None:
    lazy = getattr(nn, f"Lazy{cls.__name__}")
    layer = lazy(6, 3, groups=2)
    assert isinstance(layer, cls)
    assert layer.has_uninitialized_params()
    x = rl.randn(2, 4, *[5] * cls.dims)
    y = layer(x)
    assert type(layer) is cls
    assert layer.in_channels == 4
    known = cls(4, 6, 3, groups=2)
    known.load_state_dict(layer.state_dict())
    assert rl.equal(known(x), y)


def test_a_lazy_layer_takes_shapes_from_a_state() -> None:
    known, lazy = nn.Conv2d(3, 4, 3), nn.LazyConv2d(4, 3)
    lazy.load_state_dict(known.state_dict())
    x = rl.randn(1, 3, 5, 5)
    assert rl.equal(lazy(x), known(x))
    assert lazy.in_channels == 0  # as in PyTorch: nobody told it


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [2, (1, 2), "same"])
def test_padding_modes_pad_first(mode: str, padding: Any) -> None:
    layer = nn.Conv2d(2, 3, (2, 4), padding=padding, padding_mode=mode)
    x = rl.randn(1, 2, 6, 7)
    borders = {2: (2, 2, 2, 2), (1, 2): (2, 2, 1, 1), "same": (1, 2, 0, 1)}[padding]
    expected = F.conv2d(F.pad(x, borders, mode), layer.weight, layer.bias)
    assert rl.equal(layer(x), expected)


def test_a_layer_says_what_it_is() -> None:
    assert repr(nn.Conv2d(3, 4, 3)) == "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))"
    layer = nn.Conv1d(4, 4, 3, 2, 1, 2, 2, False, "circular")
    assert repr(layer) == (
        "Conv1d(4, 4, kernel_size=(3,), stride=(2,), padding=(1,), dilation=(2,), groups=2, "
        "bias=False, padding_mode=circular)"
    )
    assert "padding=same" in repr(nn.Conv3d(1, 1, 3, padding="same"))
    assert "output_padding=(1,)" in repr(nn.ConvTranspose1d(1, 1, 3, 2, output_padding=1))


def test_a_layer_can_be_copied() -> None:
    layer = nn.Conv2d(2, 3, 3, padding="same")
    x = rl.randn(1, 2, 4, 4)
    assert rl.equal(copy.deepcopy(layer)(x), layer(x))


def test_the_size_of_a_transposed_result_is_chosen() -> None:
    layer = nn.ConvTranspose2d(3, 4, 3, stride=2)
    x = rl.randn(1, 3, 8, 8)
    assert layer(x, output_size=(18, 17)).shape == (1, 4, 18, 17)
    assert layer(x[0], output_size=(4, 17, 18)).shape == (4, 17, 18)
    with pytest.raises(
        ValueError, match=r"of \(19, 18\), but valid sizes .* \[17, 17\] to \[18, 18\]"
    ):
        layer(x, output_size=(19, 18))
    with pytest.raises(ValueError, match=r"must have 2 or 4 elements \(got 1\)"):
        layer(x, output_size=(18,))


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (nn.Conv2d, {"kernel_size": (3, 3, 3)}, r"should be a number or 2 of them, got \(3, "),
        (nn.Conv2d, {"groups": 0}, "groups must be a positive integer"),
        (nn.Conv2d, {"groups": -1}, "groups must be a positive integer"),
        (nn.Conv2d, {"groups": 3}, "in_channels must be divisible by groups"),
        (nn.Conv2d, {"groups": 4}, "out_channels must be divisible by groups"),
        (nn.Conv2d, {"padding": "full"}, "Invalid padding string 'full'"),
        (nn.Conv2d, {"padding": "same", "stride": 2}, "not supported for strided"),
        (nn.Conv2d, {"padding_mode": "mirror"}, "but got padding_mode=mirror"),
        (nn.ConvTranspose2d, {"padding_mode": "reflect"}, 'Only "zeros" padding mode is supported'),
    ],
)
def test_a_layer_refuses(cls: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(4, 6, **{"kernel_size": 3} | options)


def test_a_lazy_layer_refuses() -> None:
    with pytest.raises(RuntimeError, match=r"3D \(unbatched\) or 4D \(batched\) .* LazyConv2d"):
        nn.LazyConv2d(3, 3)(rl.ones(8, 8))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(4, 3, groups=2)(rl.ones(1, 3, 8, 8))


def test_a_wrong_input_is_explained() -> None:
    layer = nn.Conv2d(3, 6, 3)
    with pytest.raises(RuntimeError, match=r"input\[1, 4, 8, 8\] to have 3 channels, but got 4"):
        layer(rl.ones(1, 4, 8, 8))
    with pytest.raises(RuntimeError, match=r"size per channel: \(2 x 2\)\. Kernel size: \(3 x 3\)"):
        layer(rl.ones(1, 3, 2, 2))
    with pytest.raises(RuntimeError, match="non-positive stride"):
        nn.Conv2d(3, 6, 3, stride=-1)(rl.ones(1, 3, 8, 8))
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        nn.Conv2d(3, 6, -1)


def test_third_derivatives() -> None:
    x, w = (rl.randn(*s, dtype=rl.float64, requires_grad=True) for s in ((1, 1, 4), (1, 1, 2)))

    def second(x: Any, w: Any) -> Any:
        y = F.conv1d(x, w, stride=2, padding=1)
        (first,) = rl.autograd.grad((y**4).sum(), x, create_graph=True)
        return rl.autograd.grad((first**2).sum(), (x, w), create_graph=True)

    assert rl.autograd.gradcheck(second, (x, w))


def test_a_large_image_is_taken_in_parts() -> None:
    """The windows of all places at once would fill 180 MB."""
    x = rl.zeros(1, 3, 400, 400)
    x[0, 1, 200, 200] = 1
    w = rl.arange(3 * 10 * 10.0).view(1, 3, 10, 10)
    tracemalloc.start()
    y = F.conv2d(x, w)
    back = F.conv_transpose2d(y, w)
    apart = F.conv_transpose2d(y, w, stride=2)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 60 << 20
    assert rl.equal(y[0, 0, 191:201, 191:201], w[0, 1].flip(0, 1))
    assert y.count_nonzero() == 100
    assert back.shape == x.shape
    assert apart.shape == (1, 3, 790, 790)


def test_a_result_shares_no_memory() -> None:
    x = rl.ones(1, 1, 3, 3)
    y = F.conv2d(x, rl.ones(1, 1, 1, 1))
    z = F.unfold(x, 1)
    x.zero_()
    assert y.sum() == z.sum() == 9
