"""Rows of a table by their numbers: embeddings, and bags of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local, no_grad
from rushlight.kernels.accumulate import sum_runs
from rushlight.kernels.indices import first_outside, within
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.gather import POSITIONS
from rushlight.ops.indexing import at
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.verified import verified
from rushlight.tensor import Tensor, wrap

SPACE = "nn.functional"
MODES = ("sum", "mean", "max")


def limit_norms(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows at ``index`` whose norm is beyond ``max_norm`` down to it, in place."""
    with no_grad():
        used = index.reshape(-1).unique()
        if used.numel():
            weight[used] = weight[used].renorm(norm_type, 0, max_norm)


@composite(
    namespace=SPACE,
    method=False,
    samples=[
        S(at([0, 3], [2, 2]), T(4, 3)),
        S(at(1), T(4, 3)),
        S(T(0, 2, dtype=dtypes.int64), T(4, 3)),
        S(at(0, 3, 0, 1), T(4, 3, grad=False), padding_idx=-4),
        S(at(0, 3, 0, 1), T(4, 3, grad=False), 3, scale_grad_by_freq=True, sparse=True),
        S(at(0, 3, 0, 1), T(4, 3, grad=False), max_norm=1.0, norm_type=1.0),
        S(T(values=2, dtype=dtypes.int32), T(4, 3)),
    ],
    errors=[
        Fails(IndexError, "index 4 is out of bounds for dimension 0 with size 4", at(4), T(4, 3)),
        Fails(IndexError, "index -1 is out of bounds", at([0, -1]), T(4, 3)),
        Fails(RuntimeError, "scalar types: Long, Int; but got Float", T(2), T(4, 3)),
        Fails(RuntimeError, "'weight' must be 2-D", at(0), T(4)),
        Fails(AssertionError, "Padding_idx must be within num_embeddings", at(0), T(4, 3), 4),
        Fails(AssertionError, "Padding_idx must be within num_embeddings", at(0), T(4, 3), -5),
        Fails(TypeError, "must be Tensor, not list", [0], T(4, 3)),
    ],
)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` that ``input`` names.

    Args:
        input: whole numbers from 0 to the number of rows - 1
        padding_idx: a row that gets no gradient; it may count from the end
        max_norm: rows used whose ``norm_type``-norm is beyond it are first scaled down, in place
        scale_grad_by_freq: divides a row's gradient by how often ``input`` names it
        sparse: accepted for compatibility; gradients are dense

    >>> table = rl.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> rl.nn.functional.embedding(rl.tensor([2, 0]), table)
    tensor([[4., 5.],
            [0., 1.]])
    """
    index, table = need_tensor("embedding", input), need_tensor("embedding", weight, "weight", 2)
    padding = -1
    if padding_idx is not None:
        count = len(table)
        if not -count <= padding_idx < max(count, 1):
            raise AssertionError(
                f"Padding_idx must be within num_embeddings, got {padding_idx} and {count} rows"
            )
        padding = padding_idx % max(count, 1)
    if max_norm is not None:
        limit_norms(table, index, max_norm, norm_type)
    return ops.embedding(table, index, padding, scale_grad_by_freq)


BAG = [at([0, 2], [3, 3], [1, 0]), T(4, 3)]
LIST = [at(0, 2, 3, 3, 1), T(4, 3), at(0, 2, 2)]


@composite(
    namespace=SPACE,
    method=False,
    samples=[
        *(S(*BAG, mode=mode) for mode in MODES),
        *(S(*LIST, mode=mode) for mode in MODES),
        *(S(*LIST, mode=mode, padding_idx=3, include_last_offset=True) for mode in MODES),
        S(*LIST, mode="sum", per_sample_weights=T(5)),
        S(at(0, 2), T(4, 3), at(0), mode="mean", scale_grad_by_freq=True),
        S(T(0, dtype=dtypes.int64), T(4, 3), at(0, 0)),
        S(T(2, 0, dtype=dtypes.int64), T(4, 3), mode="max"),
    ],
    errors=[
        Fails(ValueError, "mode has to be one of sum, mean or max, got 'min'", *BAG, mode="min"),
        Fails(ValueError, "offsets has to be None", *BAG, at(0)),
        Fails(ValueError, "offsets has to be a 1D Tensor but got None", at(0), T(4, 3)),
        Fails(ValueError, "offsets has to be a 1D Tensor", at(0), T(4, 3), at([0])),
        Fails(
            ValueError, "input has to be 1D or 2D Tensor, but got Tensor of dim", at([[0]]), T(4, 3)
        ),
        Fails(ValueError, "weight has to be a 2D Tensor, but got Tensor of dim", at([0]), T(4)),
        Fails(ValueError, "must have the same shape as the input", *LIST, per_sample_weights=T(4)),
        Fails(NotImplementedError, "only supported for mode='sum'", *LIST, per_sample_weights=T(5)),
        Fails(RuntimeError, r"offsets\[0\] has to be 0", at(0, 1), T(4, 3), at(1)),
        Fails(
            RuntimeError, "of input is .*not in the valid range .0, 4", at(0, 1, 9), T(4, 3), at(0)
        ),
        Fails(RuntimeError, "input's length", at(0), T(4, 3), at(0, 2), include_last_offset=True),
        Fails(RuntimeError, "-4 through 3, but got 9", *LIST, padding_idx=9),
        Fails(RuntimeError, "scalar types: Long, Int; but got Float", T(2), T(4, 3), at(0)),
        Fails(
            ValueError,
            "max mode does not support scaling",
            *BAG,
            scale_grad_by_freq=True,
            mode="max",
        ),
        Fails(ValueError, "max mode does not support sparse", *BAG, sparse=True, mode="max"),
    ],
)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of ``weight`` that each bag of numbers names.

    Args:
        input: a matrix, each row a bag; or a vector, in which the bags begin at ``offsets``
        max_norm, norm_type, scale_grad_by_freq, sparse: see :func:`embedding`
        per_sample_weights: factors of the rows, for ``mode="sum"``
        include_last_offset: the last offset is where the last bag ends
        padding_idx: a row that is left out

    >>> table = rl.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> rl.nn.functional.embedding_bag(rl.tensor([2, 0, 1]), table, rl.tensor([0, 2]), mode="sum")
    tensor([[4., 6.],
            [2., 3.]])
    """
    if weight.dtype in POSITIONS and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        input, weight = weight, input
    check_bag_arguments(input, weight, mode, sparse, scale_grad_by_freq, per_sample_weights)
    index = check_positions(input, "indices")
    if index.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        bags, length = index.shape
        if local.state.trace is None and padding_idx is None and length and max_norm is None:
            return of_alike(index, weight, mode, scale_grad_by_freq, per_sample_weights)
        bag = ops.arange(bags, dtype=dtypes.int64).unsqueeze(1).expand(bags, length).reshape(-1)
    else:
        starts = check_offsets(offsets, index.numel(), include_last_offset)
        bags = starts.shape[0] - include_last_offset
        bag = bags_of(starts, index.numel())
    if max_norm is not None:
        limit_norms(weight, index, max_norm, norm_type)
    weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    index = check_rows(index.reshape(-1), weight.shape[0])
    return of_bags(index, weight, bag, bags, mode, scale_grad_by_freq, weights, padding_idx)


def check_positions(t: Tensor, argument: str) -> Tensor:
    """``t`` if it is a tensor of int64 or int32, else the error."""
    if t.dtype not in POSITIONS:
        raise RuntimeError(
            f"Expected tensor for argument '{argument}' to have one of the following scalar types: "
            f"Long, Int; but got {t.dtype.storage_name} instead (while checking arguments for "
            "embedding_bag)"
        )
    return t


def check_bag_arguments(
    input: Tensor, weight: Tensor, mode: str, sparse: bool, scaled: bool, factors: Tensor | None
) -> None:
    if factors is not None and factors.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({factors.shape}) is not None, then it must "
            f"have the same shape as the input ({input.shape})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    if input.ndim not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if mode not in MODES:
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and scaled:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if factors is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )


def check_offsets(offsets: Tensor | None, length: int, include_last: bool) -> Tensor:
    """Where the bags of a list begin, or the error; in a graph, their values are checked later."""
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError(f"offsets has to be a 1D Tensor, got {list(offsets.shape)}")
    check_positions(offsets, "offsets")
    if include_last and not offsets.shape[0]:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if local.state.trace is not None:
        return offsets
    starts = offsets._array
    if len(starts) and starts[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            f"position 0. However, got {starts[0]}"
        )
    if len(starts) and starts[-1] > length:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {length} but got {starts[-1]}"
        )
    if (starts[1:] < starts[:-1]).any():
        raise RuntimeError(f"embedding_bag: offsets must not decrease, got {starts.tolist()}")
    return offsets


def bags_of(starts: Tensor, length: int) -> Tensor:
    """The bag of each element of a list."""
    bag = ops.searchsorted(starts, ops.arange(length, dtype=starts.dtype), right=True) - 1
    if local.state.trace is None:
        return bag
    later = ops.arange(starts.shape[0], dtype=starts.dtype) > 0
    for holds, said in (
        ((starts == starts.cummax(0)[0]).all(), "embedding_bag: offsets must not decrease"),
        ((starts <= length).all(), "offsets[-1] can not be greater than input's length"),
        (
            ((starts == 0) | later).all(),
            "offsets[0] has to be 0: the first bag starts with the first index",
        ),
    ):
        bag = verified(bag, holds.expand(bag.shape), "RuntimeError", said)
    return bag


def check_rows(index: Tensor, count: int) -> Tensor:
    """The numbers of rows, or the error for one that is not there."""
    if local.state.trace is not None:
        holds = (index >= 0) & (index < count)
        said = f"embedding_bag: an element of input is not in the valid range [0, {count})"
        return verified(index, holds, "RuntimeError", said)
    if not within(index._array, count):
        wrong = first_outside(index._array, 0, count)
        place = int((index._array == wrong).argmax())
        raise RuntimeError(
            f"embedding_bag: position {place} of input is {wrong}, not in the valid range "
            f"[0, {count})"
        )
    return index


def of_bags(
    index: Tensor,
    weight: Tensor,
    bag: Tensor,
    bags: int,
    mode: str,
    scaled: bool,
    factors: Tensor | None,
    padding_idx: int | None,
) -> Tensor:
    """The sum, mean or maximum over each bag.

    One more takes what is left out: rows for padding, and what comes after the last bag's end.
    """
    count, padding = weight.shape[0], -1
    if padding_idx is not None:
        if not -count <= padding_idx < count:
            raise RuntimeError(
                "padding_idx must be within the number of embeddings, "
                f"{-count} through {count - 1}, but got {padding_idx}"
            )
        padding = padding_idx % count
        bag = ops.where(index == padding, bags, bag)
    if local.state.trace is None:
        return of_runs(index, weight, bag, bags, mode, scaled, factors)
    parts = ops.embedding(weight, index, padding, scaled)
    if factors is not None:
        parts = parts * factors.unsqueeze(1)
    zeros = parts.new_zeros((bags + 1, weight.shape[1]))
    if mode == "max":
        spread = bag.unsqueeze(1).expand(parts.shape)
        return zeros.scatter_reduce(0, spread, parts, "amax", include_self=False)[:bags]
    y = zeros.index_add(0, bag, parts)[:bags]
    if mode == "sum":
        return y
    sizes = parts.new_zeros(bags + 1).index_add(0, bag, parts.new_ones(index.shape[0]))[:bags]
    return y / sizes.clamp_min(1).unsqueeze(1)


def of_alike(
    index: Tensor, weight: Tensor, mode: str, scaled: bool, factors: Tensor | None
) -> Tensor:
    """The sum, mean or maximum over each row of ``index``, whose numbers are known."""
    parts = ops.embedding(weight, check_rows(index, weight.shape[0]), -1, scaled)
    if factors is not None:
        parts = parts * factors.unsqueeze(2)
    if mode == "max":
        return parts.amax(1)
    return parts.sum(1) if mode == "sum" else parts.mean(1)


def of_runs(
    index: Tensor,
    weight: Tensor,
    bag: Tensor,
    bags: int,
    mode: str,
    scaled: bool,
    factors: Tensor | None,
) -> Tensor:
    """:func:`of_bags` where numbers are known: rows of a bag follow each other."""
    kept = bag._array < bags
    if not kept.all():
        there = wrap(kept.nonzero()[0])
        index, bag = index[there], bag[there]
        factors = None if factors is None else factors[there]
    parts = ops.embedding(weight, index, -1, scaled)
    if factors is not None:
        parts = parts * factors.unsqueeze(1)
    if mode == "max":
        spread = bag.unsqueeze(1).expand(parts.shape)
        zeros = parts.new_zeros((bags, weight.shape[1]))
        return zeros.scatter_reduce(0, spread, parts, "amax", include_self=False)
    y = sums_of_runs(parts, bag, bags)
    if mode == "sum":
        return y
    sizes = np.bincount(bag._array, minlength=bags).clip(1)
    return y / wrap(sizes.astype(y._array.dtype)).unsqueeze(1)


class SumsOfRuns(Op):
    """The sums of rows that follow each other and have the same number, of ``count`` numbers."""

    function = method = False
    differentiable = (0,)

    def check(self, input: Tensor, number: Tensor, count: int) -> Any:
        return (input, number), {"count": count}

    def eager(self, x, number, *, count):
        return sum_runs(x, number, count)

    def decompose(self, x, number, *, count):
        return x.new_zeros((count, x.shape[1])).index_add(0, number, x)

    def vjp(self, g, _y, _x, number, *, count):
        return g.index_select(0, number), None


sums_of_runs = registry["sums_of_runs"].call


ops.__dict__[SPACE].one_hot = ops.one_hot
