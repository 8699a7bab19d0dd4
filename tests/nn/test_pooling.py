"""Pooling: ties and NaN, dtypes, writing in place, second derivatives, wrong arguments, layers."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def test_of_equal_elements_the_first_gets_the_gradient() -> None:
    x = rl.tensor([[[[1.0, 1.0], [1.0, 0.0]]]], requires_grad=True)
    F.max_pool2d(x, 2).backward()
    assert x.grad.tolist() == [[[[1, 0], [0, 0]]]]


def test_nan_is_the_largest_and_the_last_one_counts() -> None:
    x = rl.tensor([[math.nan, 9.0, math.nan, 1.0]])
    y, index = F.max_pool1d(x, 4, return_indices=True)
    assert y.isnan().item()
    assert index.item() == 2


def test_padding_is_never_chosen() -> None:
    x = rl.full((1, 4), -math.inf)
    y, index = F.max_pool1d(x, 3, 1, padding=1, return_indices=True)
    assert y.tolist() == [[-math.inf] * 4]
    assert index.tolist() == [[0, 0, 1, 2]]


def test_overlapping_windows_add_up_their_gradients() -> None:
    x = rl.tensor([[1.0, 5.0, 2.0]], requires_grad=True)
    F.max_pool1d(x, 2, 1).sum().backward()
    assert x.grad.tolist() == [[0, 2, 0]]


@pytest.mark.parametrize("return_indices", [False, True])
def test_the_result_may_be_written_to_in_place(return_indices: bool) -> None:
    x = rl.tensor([[-3.0, -2.0, 1.0, 4.0]], requires_grad=True)
    y = F.max_pool1d(x, 2, return_indices=return_indices)
    y = y[0] if return_indices else y
    y.relu_()
    y.sum().backward()
    assert y.tolist() == [[0, 4]]
    assert x.grad.tolist() == [[0, 0, 0, 1]]


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_half_types_are_rounded_once(dtype: Any) -> None:
    x = rl.rand(1, 2, 6, 6).to(dtype)
    assert rl.equal(F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x.float(), 3, 2, 1).to(dtype))
    assert rl.equal(F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x.float(), 3, 2, 1).to(dtype))
    assert rl.equal(F.adaptive_avg_pool2d(x, 4), F.adaptive_avg_pool2d(x.float(), 4).to(dtype))


def test_integers_are_pooled_and_averages_truncated() -> None:
    x = rl.tensor([[-3, -4, 3, 4]])
    assert F.max_pool2d(x[None], (1, 2)).tolist() == [[[-3, 4]]]
    assert F.avg_pool1d(x, 2).tolist() == [[-3, 3]]


def test_windows_of_more_positions_than_a_byte_counts() -> None:
    x = rl.arange(20.0 * 20).reshape(1, 20, 20)
    _, index = F.max_pool2d(x, 17, 1, return_indices=True)
    assert index[0, 0, 0].item() == 16 * 20 + 16
    assert index[0, -1, -1].item() == 399


def test_channels_last_changes_nothing() -> None:
    x = rl.rand(2, 3, 7, 6)
    last = x.contiguous(memory_format=rl.channels_last)
    for pool in (lambda t: F.max_pool2d(t, 3, 2, 1), lambda t: F.avg_pool2d(t, 2)):
        assert rl.allclose(pool(x), pool(last))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (2, 3)),
        lambda x: F.adaptive_max_pool2d(x, (2, 3)),
        lambda x: F.lp_pool2d(x, 3.0, 2),
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(4, 5)),
    ],
)
def test_everything_is_differentiable_twice(function: Any) -> None:
    rl.manual_seed(0)
    x = (rl.randperm(20).double() / 7 + 0.1).reshape(1, 1, 4, 5).requires_grad_()
    assert rl.autograd.gradcheck(lambda t: function(t) ** 2, (x,))
    assert rl.autograd.gradgradcheck(lambda t: function(t) ** 2, (x,))


def test_the_gradient_of_a_power_average_of_zeros_is_zero() -> None:
    x = rl.zeros(1, 4, requires_grad=True)
    F.lp_pool1d(x, 2, 2).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0, 0]]


def test_unpooling_puts_back_what_pooling_took() -> None:
    x = rl.rand(2, 3, 7, 8)
    y, index = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(y, index, 2, output_size=x.shape)
    assert back.shape == x.shape
    assert rl.equal(F.max_pool2d(back, 2), y)
    assert back.count_nonzero().item() == y.numel()


def test_adaptive_sizes_may_be_none_or_zero_or_larger() -> None:
    x = rl.rand(1, 2, 5, 6)
    for pool in (F.adaptive_avg_pool2d, F.adaptive_max_pool2d):
        assert pool(x, (None, 4)).shape == (1, 2, 5, 4)
        assert pool(x, (0, 3)).shape == (1, 2, 0, 3)
        assert rl.equal(pool(x, (10, 6)), x.repeat_interleave(2, 2))


def test_a_seed_makes_fractional_pooling_repeatable() -> None:
    x = rl.rand(1, 2, 9, 9)
    results = []
    for _ in range(2):
        rl.manual_seed(3)
        results.append(F.fractional_max_pool2d(x, 2, output_ratio=(0.6, 0.6)))
    assert rl.equal(*results)
    values, index = F.fractional_max_pool2d(x, 2, 5, return_indices=True)
    assert rl.equal(x.flatten(2).gather(2, index.flatten(2)), values.flatten(2))


@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 0}, r"kernel_size must be greater than zero, but got 0"),
        ({"kernel_size": (2, -1)}, r"kernel_size must be greater than zero, but got -1"),
        ({"kernel_size": 2, "stride": 0}, r"stride must be greater than zero, but got 0"),
        ({"kernel_size": 2, "padding": 2}, r"at most half of .*pad=2, kernel_size=2"),
        ({"kernel_size": 9}, r"\(2x5x5\)\. Calculated output size: \(2x0x0\)"),
        ({"kernel_size": (1, 2, 3)}, r"single int, or a tuple of two ints, but got \[1, 2, 3\]"),
    ],
)
def test_impossible_windows_are_refused(pool: Any, options: dict, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        pool(rl.ones(1, 2, 5, 5), **options)


def test_a_dilation_of_zero_is_refused() -> None:
    with pytest.raises(RuntimeError, match="dilation must be greater than zero, but got 0"):
        F.max_pool1d(rl.ones(1, 5), 2, dilation=0)


def test_an_index_beyond_the_plane_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"invalid max index: 9 .*size 4"):
        F.max_unpool1d(rl.ones(1, 2), rl.tensor([[0, 9]]), 2)


LAYERS = [
    (nn.MaxPool1d(3, 2), (2, 3, 9)),
    (nn.MaxPool2d(3, stride=(2, 1), padding=(0, 1)), (2, 3, 9, 9)),
    (nn.MaxPool3d(2, ceil_mode=True), (2, 3, 5, 5, 5)),
    (nn.AvgPool1d(3, 2, 1, count_include_pad=False), (2, 3, 9)),
    (nn.AvgPool2d((3, 2), divisor_override=2), (2, 3, 9, 9)),
    (nn.AvgPool3d(2), (2, 3, 4, 4, 4)),
    (nn.LPPool1d(2, 3), (2, 3, 9)),
    (nn.LPPool2d(1.2, (3, 2), stride=(2, 1)), (2, 3, 9, 9)),
    (nn.LPPool3d(2, 2), (2, 3, 4, 4, 4)),
    (nn.FractionalMaxPool2d(2, output_size=3), (2, 3, 9, 9)),
    (nn.FractionalMaxPool3d(2, output_ratio=0.5), (2, 3, 6, 6, 6)),
    (nn.AdaptiveAvgPool1d(3), (2, 3, 8)),
    (nn.AdaptiveAvgPool2d((None, 3)), (2, 3, 8, 8)),
    (nn.AdaptiveAvgPool3d(2), (2, 3, 4, 4, 4)),
    (nn.AdaptiveMaxPool1d(3), (2, 3, 8)),
    (nn.AdaptiveMaxPool2d((3, 2)), (2, 3, 8, 8)),
    (nn.AdaptiveMaxPool3d(2), (2, 3, 4, 4, 4)),
]


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda v: type(v).__name__)
def test_layers_can_be_copied_pickled_and_used_without_a_batch(
    layer: nn.Module, shape: tuple[int, ...]
) -> None:
    x = rl.rand(shape) + 0.1
    for twin in (layer, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        rl.manual_seed(0)
        y = twin(x)
        assert repr(twin) == repr(layer)
        if not isinstance(layer, (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)):
            assert rl.allclose(twin(x[0]), y[0])


def test_unpooling_layers() -> None:
    pool, unpool = nn.MaxPool2d(2, stride=2, return_indices=True), nn.MaxUnpool2d(2, stride=2)
    y, index = pool(rl.arange(16.0).reshape(1, 1, 4, 4))
    assert unpool(y, index).sum().item() == 5 + 7 + 13 + 15
    assert unpool(y, index, output_size=(5, 5)).shape == (1, 1, 5, 5)
    assert repr(unpool) == "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "requires specifying either an output size"),
        ({"output_size": 2, "output_ratio": 0.5}, "only one of output_size and output_ratio"),
        ({"output_ratio": 1.5}, r"between 0 and 1 \(got 1.5\)"),
    ],
)
def test_fractional_layers_need_one_size(arguments: dict, message: str) -> None:
    for layer in (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d):
        with pytest.raises(ValueError, match=message):
            layer(2, **arguments)


def test_a_window_that_is_almost_all_padding_costs_no_more_than_what_it_holds() -> None:
    x, size = rl.arange(4.0).reshape(1, 4), 1 << 40
    y, index = F.max_pool1d(x, size, 1, size // 2, return_indices=True)
    assert y.tolist() == [[3] * 5]
    assert index.tolist() == [[3] * 5]
    assert F.avg_pool1d(x, size, 1, size // 2, count_include_pad=False).tolist() == [[1.5] * 5]


def test_only_places_tell_the_largest_of_integers_in_a_row() -> None:
    x = rl.tensor([[1, 2, 3, 0]])
    assert F.max_pool1d(x, 2, return_indices=True)[0].tolist() == [[2, 3]]
    with pytest.raises(NotImplementedError, match="\"max_pool1d_impl\" not implemented for 'Long'"):
        F.max_pool1d(x, 2)


def test_windows_of_nothing_but_padding() -> None:
    x = rl.ones(2, 2, 2, 2, requires_grad=True)
    y, index = F.max_pool3d(x, 2, 2, 1, dilation=3, return_indices=True)
    assert y.flatten().tolist() == [-math.inf] * 2
    assert index.flatten().tolist() == [14] * 2
    y.sum().backward()
    assert not x.grad.any()
    _, index = F.max_pool2d(rl.ones(1, 3, 4), 2, 1, 1, dilation=4, return_indices=True)
    assert index.tolist() == [[[15, 12]]]


def test_sizes_that_are_none() -> None:
    x = rl.ones(1, 4)
    for pool in (F.adaptive_avg_pool1d, F.adaptive_max_pool1d):
        with pytest.raises(TypeError, match="found element of type NoneType at pos 0"):
            pool(x, (None,))
        with pytest.raises(TypeError, match="must be tuple of ints, not NoneType"):
            pool(x, None)
    for size, kind in ((None, "NoneType"), ("a", "str")):
        with pytest.raises(ValueError, match="either an output size, or a pooling ratio"):
            nn.FractionalMaxPool2d(size)
        with pytest.raises(TypeError, match=f"found element of type {kind} at pos 0"):
            nn.FractionalMaxPool2d(size, 2)(rl.ones(1, 4, 4))


def test_slopes_keep_short_places_and_users_get_long_ones() -> None:
    x = rl.randn(2, 3, 9, 8, requires_grad=True)

    def slope(x: rl.Tensor) -> rl.Tensor:
        (g,) = rl.autograd.grad((F.max_pool2d(x, 3, 2, 1) ** 2).sum(), x)
        return g

    compiled = rl.compile(slope, fullgraph=True)
    assert rl.equal(compiled(x), slope(x))
    graph = str(rl.graph(slope, x))
    assert "i32[2,3,5,4]" in graph
    assert "i64" not in graph
    y, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    assert places.dtype is rl.int64
    again, found = rl.compile(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True))(x)
    assert found.dtype is rl.int64
    assert rl.equal(found, places)
    assert rl.equal(again, y)


def test_an_infinity_alone_in_its_window_of_uneven_ones_stays_one() -> None:
    x, g = rl.tensor([[1.0, math.inf]]), rl.tensor([[1.0, 2.0, math.inf]])
    for pool in (F.adaptive_avg_pool1d, rl.compile(F.adaptive_avg_pool1d, fullgraph=True)):
        x.requires_grad_().grad = None
        y = pool(x, 3)
        assert y.tolist() == [[1, math.inf, math.inf]]
        y.backward(g)
        assert x.grad.tolist() == [[2, math.inf]]
