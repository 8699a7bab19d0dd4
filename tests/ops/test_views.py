"""Views share memory, versions and gradients with what they are views of."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl


def leaf(*shape: int) -> rl.Tensor:
    return rl.arange(float(np.prod(shape))).reshape(shape).double().requires_grad_()


VIEWS = [
    lambda x: x.t(),
    lambda x: x.T,
    lambda x: x.mT,
    lambda x: x.view(6),
    lambda x: x.reshape(3, 2),
    lambda x: x.permute(1, 0),
    lambda x: x.transpose(0, 1),
    lambda x: x.unsqueeze(1),
    lambda x: x.squeeze(),
    lambda x: x.flatten(),
    lambda x: x.unflatten(1, (3, 1)),
    lambda x: x.narrow(1, 1, 2),
    lambda x: x.select(0, 1),
    lambda x: x.diagonal(),
    lambda x: x.movedim(0, 1),
    lambda x: x.unfold(1, 2, 2),
    lambda x: x.as_strided((2, 2), (3, 1), 1),
    lambda x: x.split(2, 1)[1],
    lambda x: x.chunk(2)[0],
    lambda x: x.unbind()[1],
    lambda x: x.tensor_split((1,), 1)[1],
    lambda x: x.hsplit(3)[2],
    lambda x: x.expand(2, 3),
]


@pytest.mark.parametrize("view", VIEWS)
def test_a_write_to_a_view_is_seen_by_its_base(view) -> None:
    x = rl.zeros(2, 3)
    v = view(x)
    v.add_(1)
    assert x.sum() == v.numel()
    assert v._version == x._version == 1


@pytest.mark.parametrize("view", VIEWS)
def test_a_write_to_a_view_differentiates(view) -> None:
    x = leaf(2, 3)
    y = x * 2
    view(y).mul_(5)
    y.sum().backward()
    expected = rl.full((2, 3), 2.0, dtype=rl.float64)
    view(expected).mul_(5)
    assert rl.equal(x.grad, expected)


@pytest.mark.parametrize("view", VIEWS)
def test_a_write_to_the_base_reaches_the_history_of_a_view(view) -> None:
    x = leaf(2, 3)
    y = x * 2
    v = view(y)
    y.mul_(x)
    v.sum().backward()
    expected = rl.zeros(2, 3, dtype=rl.float64)
    view(expected).add_(view(4 * x.detach()))
    assert rl.equal(x.grad, expected)


def test_the_pieces_of_a_split_have_one_node() -> None:
    first, second = leaf(4).split(2)
    assert first.grad_fn is second.grad_fn
    assert first.grad_fn.name() == "SplitWithSizesBackward0"


def test_an_unused_piece_has_a_zero_gradient() -> None:
    x = leaf(4)
    x.split(1)[2].backward(rl.ones(1, dtype=rl.float64))
    assert x.grad.tolist() == [0, 0, 1, 0]


def test_an_expanded_tensor_refuses_to_be_written_to() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        rl.zeros(3, 1).expand(3, 2).add_(1)
    with pytest.raises(RuntimeError, match="single memory location"):
        rl.zeros(3).as_strided((2, 2), (0, 1)).add_(1)


def test_views_without_gradients_are_views_all_the_same() -> None:
    x = leaf(2, 3)
    with rl.no_grad():
        v = x.t()
        v.add_(1)
    assert not v.requires_grad
    assert x[0, 0] == 1


def test_shapes_change_in_place() -> None:
    x = rl.zeros(2, 3)
    assert x.t_() is x
    assert x.shape == (3, 2)
    assert x.unsqueeze_(0).shape == (1, 3, 2)
    assert x.squeeze_(0).transpose_(0, 1).shape == (2, 3)
    assert x.as_strided_((3,), (2,)).shape == (3,)


def test_a_shape_that_changes_in_place_differentiates() -> None:
    x = leaf(2, 3)
    y = x * 2
    y.t_()
    y[0].mul_(5)
    (y * rl.arange(6).view(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0, 4, 8], [10, 6, 10]]


def test_a_leaf_keeps_its_shape() -> None:
    with pytest.raises(RuntimeError, match=r"a leaf Variable .* \[t_\]"):
        leaf(2, 3).t_()


def test_strides_and_offsets_count_elements() -> None:
    x = rl.arange(24).view(2, 3, 4)
    assert x.stride() == (12, 4, 1)
    assert x.permute(2, 0, 1).stride() == (1, 12, 4)
    assert x.expand(5, 2, 3, 4).stride(0) == 0
    assert x[1, 2].storage_offset() == 20
    assert x.split(1)[1].unbind(1)[2].storage_offset() == 20
    assert x.unfold(2, 2, 1)[1].storage_offset() == 12
    assert rl.zeros(2, 0, 3).stride() == (3, 3, 1)


def test_as_strided_sees_all_of_the_storage() -> None:
    x = rl.arange(10)[5:]
    assert x.as_strided((2, 2), (1, 2)).tolist() == [[5, 7], [6, 8]]
    assert x.as_strided((2,), (1,), 0).tolist() == [0, 1]


def test_as_strided_sums_what_it_sees_twice() -> None:
    x = leaf(4)
    x.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]


def test_memory_read_as_another_type() -> None:
    x = rl.tensor([1.0, 2.0])
    bits = x.view(rl.int32)
    bits[1] = 0
    assert x.tolist() == [1, 0]
    assert x.view(rl.uint8).shape == (8,)
    assert not (leaf(2) * 1).view(rl.int64).requires_grad


def test_contiguous_in_a_memory_format() -> None:
    x = rl.zeros(2, 3, 4, 5)
    assert x.contiguous() is x
    y = x.contiguous(memory_format=rl.channels_last)
    assert y.stride() == (60, 1, 15, 3)
    assert y.is_contiguous(memory_format=rl.channels_last)
    assert not y.is_contiguous()


def test_sizes_may_be_named() -> None:
    x = rl.arange(6)
    assert x.view(size=(2, 3)).shape == x.reshape(shape=(2, 3)).shape == (2, 3)
    assert x.view(2, 3).permute(dims=(1, 0)).flip(dims=(0,)).shape == (3, 2)
    assert x.expand(size=(2, 6)).repeat(repeats=(1, 2)).tile(dims=(2,)).shape == (2, 24)


def test_cat_skips_empty_vectors() -> None:
    x, empty = leaf(2, 3), leaf(0)
    y = rl.cat([empty, x, empty, x], 1)
    assert y.shape == (2, 6)
    y.sum().backward()
    assert rl.equal(x.grad, rl.full((2, 3), 2.0, dtype=rl.float64))
