"""Dropout, normalisation and embeddings as PyTorch's top namespace has them.

Their arguments come in another order there, and some also return what backward needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.ops import batch_normalization as batches
from rushlight.ops import dropout as dropouts
from rushlight.ops import normalization as norms
from rushlight.ops.base import composite, in_place, need_tensor, ops, registry
from rushlight.ops.embedding import (
    MODES,
    bags_of,
    check_offsets,
    check_positions,
    check_rows,
    limit_norms,
    of_bags,
)
from rushlight.ops.filling import plain
from rushlight.ops.indexing import at
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap

DROPOUT = {
    "method": False,
    "samples": [S(T(3, 4), 0.3, True), S(T(3, 4), 0.3, False)],
    "errors": [Fails(ValueError, "between 0 and 1, but got 1.5", T(2, 3), 1.5, True)],
}


@composite(**DROPOUT)
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`nn.functional.dropout`.

    >>> rl.dropout(rl.ones(2), 0.5, train=False)
    tensor([1., 1.])
    """
    return dropouts.dropped(dropouts.checked("dropout", input, p), p, train)


@composite(**DROPOUT)
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`nn.functional.alpha_dropout`.

    >>> rl.alpha_dropout(rl.ones(2), 0.5, train=False)
    tensor([1., 1.])
    """
    return dropouts.alpha_dropped(dropouts.checked("alpha_dropout", input, p), p, train)


@composite(**DROPOUT)
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout of whole channels (dimension 1).

    >>> rl.feature_dropout(rl.ones(1, 2), 0.5, train=False)
    tensor([[1., 1.]])
    """
    x = dropouts.checked("feature_dropout", input, p)
    return dropouts.dropped(x, p, train, channels=True)


@composite(**DROPOUT)
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """:func:`nn.functional.feature_alpha_dropout`.

    >>> rl.feature_alpha_dropout(rl.ones(1, 2), 0.5, train=False)
    tensor([[1., 1.]])
    """
    x = dropouts.checked("feature_alpha_dropout", input, p)
    return dropouts.alpha_dropped(x, p, train, channels=True)


for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"):
    setattr(ops, f"{name}_", in_place(registry[name]))


@composite(
    method=False,
    samples=[S(T(3, 4), (4,), T(4), T(4)), S(T(2, 3, 2), [3, 2], None, None, 0.1, False)],
    errors=[Fails(RuntimeError, r"expected input with shape \[\*, 3\]", T(2, 4), (3,))],
)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """:func:`nn.functional.layer_norm`.

    >>> rl.layer_norm(rl.tensor([[1.0, 2.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    return norms.layer_norm(input, normalized_shape, weight, bias, eps)


@composite(
    method=False,
    samples=[S(plain(3, 4), (4,), plain(4), plain(4), 1e-5), S(plain(3, 2), [2], None, None, 0.1)],
    errors=[Fails(RuntimeError, r"with shape \[\*, 3\]", T(2, 4), (3,), None, None, 1e-5)],
)
def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`layer_norm`, and each row's mean and ``1 / sqrt(variance + eps)``.

    >>> rl.native_layer_norm(rl.tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    x = norms.floating("native_layer_norm", input)
    dims = norms.trailing("native_layer_norm", x, normalized_shape, weight=weight, bias=bias)
    norms.parameters_fit(weight, bias, x, "native_layer_norm")
    y, mean, variance = norms.standardized(x, weight, bias, dims, eps)
    return y, mean.to(x.dtype), (variance + eps).rsqrt().to(x.dtype)


@composite(
    method=False,
    samples=[S(T(2, 4, 3), 2, T(4), T(4)), S(T(2, 4), 1, None, None, 0.1, False)],
    errors=[Fails(RuntimeError, "divisible by num_groups", T(2, 4), 3)],
)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """:func:`nn.functional.group_norm`.

    >>> rl.group_norm(rl.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    return norms.group_norm(input, num_groups, weight, bias, eps)


@composite(
    method=False,
    samples=[S(T(2, 4, 3), T(4), T(4), 2, 4, 3, 2, 1e-5)],
    errors=[Fails(RuntimeError, "divisible by num_groups", T(2, 4), None, None, 2, 4, 1, 3, 0.1)],
)
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`group_norm`, and the mean and ``1 / sqrt(variance + eps)`` of each group.

    >>> rl.native_group_norm(rl.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    x = norms.floating("native_group_norm", input)
    norms.check_groups(x, group, weight=weight, bias=bias)
    y = norms.of_groups(x, group, weight, bias, eps)[0]
    parts = x.reshape(N, group, C // group * HxW)
    return y, parts.mean(2), (parts.var(2, correction=0) + eps).rsqrt()


@composite(
    method=False,
    samples=[S(T(3, 4), (4,), T(4)), S(T(3, 4), [4], None, 0.5)],
    errors=[Fails(RuntimeError, r"expected input with shape \[\*, 3\]", T(2, 4), (3,))],
)
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """:func:`nn.functional.rms_norm`.

    >>> rl.rms_norm(rl.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    return norms.rms_norm(input, normalized_shape, weight, eps)


# Without gradients, since the statistics that are returned have none.
BATCH = (plain(4, 3), plain(3), plain(3), None, None, True, 0.1, 1e-5)
RUNNING = (plain(2, 3, 2), None, None, plain(3), plain(3, low=1), False, 0.1, 1e-5)
NO_STATISTICS = (T(4, 3), None, None, None, None, False, 0.1, 1e-5)


@composite(
    method=False,
    samples=[S(*BATCH, True), S(*RUNNING, True)],
    errors=[
        Fails(RuntimeError, "running_mean must be defined in eval", *NO_STATISTICS, True),
        Fails(RuntimeError, "contain 3 elements not 2", T(4, 3), T(2), *BATCH[2:], True),
    ],
)
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """:func:`nn.functional.batch_norm`, without a minimal size of the batch.

    >>> x = rl.tensor([[1.0, 5.0], [3.0, 7.0]])
    >>> rl.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    """
    statistics = running_mean, running_var
    return native_batch_norm(input, weight, bias, *statistics, training, momentum, eps)[0]


@composite(
    method=False,
    samples=[S(*BATCH), S(*RUNNING)],
    errors=[Fails(RuntimeError, "running_mean must be defined in eval", *NO_STATISTICS)],
)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`batch_norm`, and in training the mean and ``1 / sqrt(variance + eps)`` of the batch.

    >>> x = rl.tensor([[1.0, 5.0], [3.0, 7.0]])
    >>> y, mean, scale = rl.native_batch_norm(x, None, None, None, None, True, 0.1, 0.0)
    >>> mean, scale
    (tensor([2., 6.]), tensor([1., 1.]))
    """
    x = norms.floating("native_batch_norm", input)
    batches.check_channels(
        x, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var
    )
    norms.parameters_fit(weight, bias, x, "native_batch_norm")
    if not training:
        y = batches.of_running(x, weight, bias, running_mean, running_var, eps)
        return y, x.new_empty(0), x.new_empty(0)
    y, mean, variance = batches.of_batch(x, weight, bias, running_mean, running_var, momentum, eps)
    scale = (variance + eps).rsqrt()
    return y, mean.reshape(-1).to(x.dtype), scale.reshape(-1).to(x.dtype)


@composite(
    name="_native_batch_norm_legit",
    method=False,
    samples=[S(*BATCH), S(*BATCH[:3], *BATCH[5:])],
    errors=[Fails(RuntimeError, "running_mean must be defined in eval", *NO_STATISTICS)],
)
def native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`native_batch_norm`, which may leave the running mean and variance out.

    >>> x = rl.tensor([[1.0, 5.0], [3.0, 7.0]])
    >>> rl._native_batch_norm_legit(x, None, None, True, 0.1, 0.0)[1]
    tensor([2., 6.])
    """
    statistics = () if len(rest) == 5 else (None, None)
    return native_batch_norm(input, weight, bias, *statistics, *rest)


@composite(
    method=False,
    samples=[S(T(2, 3, 2), *BATCH[1:], True), S(*RUNNING, True)],
    errors=[Fails(RuntimeError, "to be defined when use_input_stats", *NO_STATISTICS, True)],
)
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """:func:`nn.functional.instance_norm`.

    >>> x = rl.tensor([[[1.0, 3.0], [5.0, 9.0]]])
    >>> rl.instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    statistics = running_mean, running_var
    return batches.instance_norm(input, *statistics, weight, bias, use_input_stats, momentum, eps)


@composite(
    method=False,
    samples=[S(plain(4, 3), at(0, 2, 3), at(0, 1), mode=m) for m in (0, 1, 2)],
    errors=[
        Fails(RuntimeError, "but got Float", T(4, 3), T(2), at(0)),
        Fails(RuntimeError, "mode has to be 0, 1 or 2, got 3", T(4, 3), at(0), at(0), mode=3),
    ],
)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The folded bags, the bag of each index, the sizes of bags, and the indices of maxima.

    Args:
        mode: 0 for sums, 1 for means, 2 for maxima; others: see :func:`nn.functional.embedding_bag`

    >>> table = rl.tensor([[0.0, 1.0], [2.0, 3.0]])
    >>> rl.embedding_bag(table, rl.tensor([0, 1]), rl.tensor([0]))[0]
    tensor([[2., 4.]])
    """
    if mode not in (0, 1, 2):
        raise RuntimeError(f"embedding_bag: mode has to be 0, 1 or 2, got {mode}")
    index = check_positions(need_tensor("embedding_bag", indices, "indices", 2), "indices")
    starts = check_offsets(offsets, len(index), include_last_offset)
    ends = starts._array if include_last_offset else np.append(starts._array, len(index))
    y = of_bags(
        *(check_rows(index, len(weight)), weight, bags_of(starts, len(index)), len(ends) - 1),
        *(MODES[mode], scale_grad_by_freq, per_sample_weights, padding_idx),
    )
    sizes = np.diff(ends).astype(np.int64)
    bag = np.repeat(np.arange(len(sizes)), sizes)
    largest = sizes
    if mode == 2:
        found = weight._array[index._array[: len(bag)]] == y._array[bag]
        places = np.full(y.shape, len(bag))
        np.minimum.at(places, bag, np.where(found, np.arange(len(bag))[:, None], len(bag)))
        largest = np.append(index._array[: len(bag)], 0)[places].astype(np.int64)
    return y, wrap(bag), wrap(sizes), wrap(largest)


@composite(
    name="embedding_renorm_",
    method=False,
    samples=[S(T(4, 3, grad=False), at(0, 2), 2.0, 2.0)],
    errors=[Fails(RuntimeError, "but got Float", T(4, 3), T(2), 1.0, 2.0)],
)
def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows of ``input`` at ``indices`` down to ``max_norm`` if beyond it.

    >>> rl.embedding_renorm_(rl.tensor([[3.0, 4.0], [3.0, 4.0]]), rl.tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000],
            [3.0000, 4.0000]])
    """
    table = need_tensor("embedding_renorm_", input)
    limit_norms(table, check_positions(indices, "indices"), max_norm, norm_type)
    return table
