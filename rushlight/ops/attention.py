"""Attention: averages of values, weighted by how well queries and keys fit."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.dims import broadcast, is_extent, is_zero
from rushlight.kernels import attention as kernels
from rushlight.ops import attention_blocks  # noqa: F401 - registers the ops of blocks
from rushlight.ops.base import Op, any_tracked, composite, need_tensor, ops, registry
from rushlight.ops.contraction import batch_error
from rushlight.ops.fused import Fused, single
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

NAME = "scaled_dot_product_attention"
KINDS = (np.dtype(np.float32), np.dtype(np.float64))
FEW = 1 << 19  # weights for which blocks of them are not worth while in programs
KEPT = 1 << 23  # up to so many weights are kept for backward rather than computed again


class SafeSoftmax(Op):
    """``softmax`` along the last dimension, but zeros where all elements are -inf.

    There, too, weights that were not used have the gradient of a softmax: NaN stays NaN.
    """

    function = method = False

    def check(self, x: Tensor) -> Any:
        return (x,), {}

    def eager(self, x):
        wide = single(x)
        top = wide.max(-1, keepdims=True, initial=-np.inf)
        e = np.exp(wide - np.where(top == -np.inf, 0, top))
        total = e.sum(-1, keepdims=True)
        return (e / np.where(total == 0, 1, total)).astype(x.dtype, copy=False)

    def decompose(self, x):
        if is_zero(x.shape[-1]):
            return x.clone()
        top = x.amax(-1, keepdim=True)  # which softmax takes as well: one loop finds it for both
        return x.softmax(-1).masked_fill(top == -math.inf, 0)

    def vjp(self, g, y, _x):
        return y * (g - (g * y).sum(-1, keepdim=True))


safe_softmax = registry["safe_softmax"].call


class Attention(Fused):
    """softmax(scale·q·kᵀ + bias)·v, the weights multiplied by noise; zeros where all are -inf."""

    operands = ("q", "k", "v", "bias", "noise")
    differentiable = (0,)

    def check(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Any,
        noise: Any,
        scale: float,
        causal: bool = False,
    ) -> Any:
        keep = is_short(q, k) and local.state.grad and any_tracked((q, k, v, bias))
        return (q, k, v, bias, noise), {"scale": scale, "keep": keep, "causal": causal}

    def eager(self, q, k, v, bias, noise, *, scale, keep, causal):
        arrays = [single(a) for a in (q, k, v, bias, noise)]
        y, *rest = kernels.attention(scale, keep, causal, *arrays)
        return (y.astype(q.dtype, copy=False), *rest)

    def gradient(self, wanted, g, y, q, k, v, bias, noise, *, scale, keep, causal):
        saved, of_bias = (g[0], y[0], y[1], y[2], y[3]), "bias" in wanted
        found = kernels.attention_gradient(scale, causal, of_bias, *saved, q, k, v, bias, noise)
        gradients = dict(zip(self.operands, found, strict=False))
        return [gradients[name] for name in wanted]

    def decompose(self, q, k, v, bias, noise, *, scale, keep, causal):
        if not blockwise(q, k, v):
            return NotImplemented
        y, tops, totals = attend(q, k, v, bias, noise, scale=scale, causal=causal)
        return y, tops, totals, ops.zeros(0, dtype=q.dtype)

    def unrolled_gradient(self, wanted, g, y, *operands, scale, keep, causal):
        if not blockwise(*operands[:3]) or "bias" in wanted:
            return NotImplemented
        found = attend_gradient(*g, *y[:3], *operands, scale=scale, causal=causal)
        gradients = dict(zip(self.operands, found, strict=False))
        return tuple([gradients[name] for name in wanted])

    def formula(self, q, k, v, bias, noise, *, scale, keep, causal):
        scores = (q * scale) @ k.mT
        if causal:
            future = ops.full(scores.shape[-2:], -math.inf, dtype=q.dtype).triu(1)
            bias = future if bias is None else bias + future
        weights = safe_softmax(scores if bias is None else scores + bias)
        return (weights if noise is None else weights * noise) @ v


attention = cast(Attention, registry["attention"])
attend = registry["attend"].call
attend_gradient = registry["attend_gradient"].call


def blockwise(*operands: Tensor) -> bool:
    """Whether there are blocks of weights of these operands."""
    return all([t._array.dtype in KINDS and not is_zero(t._array.size) for t in operands])


def is_short(q: Tensor, k: Tensor) -> bool:
    """Whether all weights may be in memory at once."""
    count = math.prod(q.shape[:-1]) * k.shape[-2]
    return not is_extent(count) and count <= KEPT


def is_small(q: Tensor, k: Tensor, causal: bool) -> bool:
    """Whether a program is quicker if weights stay in memory, where caches hold them."""
    count = math.prod(q.shape[:-1]) * k.shape[-2]
    few = not is_extent(count) and count <= (FEW // 4 if causal else FEW)
    return q._array.dtype in KINDS and few


def check_operands(query: Any, key: Any, value: Any) -> None:
    """An error unless the shapes and dtypes of queries, keys and values fit."""
    for position, (name, t) in enumerate((("query", query), ("key", key), ("value", value)), 1):
        need_tensor(NAME, t, name, position)
    q, k, v = query._array, key._array, value._array
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got query.dim: "
            f"{q.ndim} key.dim: {k.ndim} and value.dim: {v.ndim} instead."
        )
    if not q.dtype is k.dtype is v.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype} key.dtype: {key.dtype} and value.dtype: {value.dtype} instead."
        )
    if not query.is_floating_point():
        raise RuntimeError(f"{NAME}: expected a floating-point dtype, but found {query.dtype}")
    check_product(q.shape, (*k.shape[:-2], k.shape[-1], k.shape[-2]))
    check_product((*q.shape[:-1], k.shape[-2]), v.shape)


def check_product(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """An error unless matrices of these shapes can be multiplied."""
    fits = left[-1] == right[-2]
    if fits and left[:-2] != right[:-2]:
        try:
            broadcast(left[:-2], right[:-2])
        except ValueError:
            fits = False
    if not fits:
        raise batch_error(left, right)


def check_both_masks(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, dropout_p: float) -> None:
    """An error where PyTorch's fused attention, which alone takes both masks, does not go."""
    shapes = [t.shape for t in (q, k, v)]
    alike = len({(len(s), s[:-2], s[-1]) for s in shapes}) == 1 and len(shapes[0]) == 4
    if not alike or mask.ndim not in (2, 4) or mask.requires_grad or dropout_p:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )


def added_mask(mask: Tensor | None, q: Tensor) -> Tensor | None:
    """What is added to the scores: -inf where a boolean mask is False."""
    if mask is not None and mask.dtype is dtypes.bool_:
        zeros = ops.zeros(mask.shape, dtype=q.dtype)
        mask = zeros.masked_fill_(mask.logical_not(), -math.inf)
    elif mask is not None and mask.dtype is not q.dtype:
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {mask.dtype} and query.dtype: {q.dtype} instead."
        )
    return mask


def dropout_noise(shape: tuple[int, ...], p: float, dtype: dtypes.dtype) -> Tensor | None:
    """Factors for weights: 0 with the probability p, else 1 / (1 - p)."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0:
        return None
    if p == 1:
        return ops.zeros(shape, dtype=dtype)
    return ops.empty(shape, dtype=dtype).bernoulli_(1 - p).div_(1 - p)


def check_heads(q: Tensor, *others: Tensor) -> None:
    """An error unless keys and values have as many heads as the queries, or a divisor of them."""
    heads = q.shape[-3]
    for own in [t.shape[-3] for t in others]:
        if own != heads and (not own or heads % own):
            raise RuntimeError(
                "Number of heads in key and value must divide the number of heads in query, got "
                f"{own} and {heads}"
            )


def grouped(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Heads of queries in groups, (groups, heads of a group), beside (groups, 1) of the others."""
    heads, own = q.shape[-3], k.shape[-3]
    if own != v.shape[-3]:  # both as many as the queries have
        k, v = [t.repeat_interleave(heads // t.shape[-3], -3) for t in (k, v)]
        own = heads
    several = bias is not None and bias.ndim > 2
    if bias is not None and several:
        whole = bias.shape[-3] == heads
        bias = bias.unflatten(-3, (own, heads // own)) if whole else bias.unsqueeze(-3)
    return q.unflatten(-3, (own, heads // own)), k.unsqueeze(-3), v.unsqueeze(-3), bias


@composite(
    namespace="nn.functional",
    method=False,
    fused=True,
    samples=[
        S(T(2, 3, 2), T(2, 4, 2), T(2, 4, 3)),
        S(T(3, 2), T(4, 2), T(4, 2), T(3, 4)),
        S(T(1, 2, 3, 2), T(1, 2, 3, 2), T(1, 2, 3, 2), is_causal=True),
        S(T(1, 2, 2, 2), T(1, 1, 3, 2), T(1, 1, 3, 2), enable_gqa=True),
        S(T(2, 3), T(2, 3), T(2, 3), T(values=[[True, False], [False, False]], dtype=dtypes.bool_)),
        S(T(2, 3), T(2, 3), T(2, 3), dropout_p=0.5, scale=2.0),
        S(T(0, 2, 3), T(0, 4, 3), T(0, 4, 3)),
        S(T(2, 3), T(0, 3), T(0, 3)),
        S(*[T(1, 2, 3, 2)] * 3, T(3, 3, grad=False), is_causal=True),
    ],
    errors=[
        Fails(RuntimeError, "at least 2 dimensional", T(2), T(3, 2), T(3, 2)),
        Fails(RuntimeError, "same dtype", T(2, 2), T(3, 2, dtype=dtypes.float64), T(3, 2)),
        Fails(RuntimeError, r"\(4x2 and 3x6\)", T(4, 2), T(6, 3), T(6, 3)),
        Fails(RuntimeError, r"a \(2\) must match .* b \(3\)", T(2, 4, 2), T(3, 4, 2), T(3, 4, 2)),
        Fails(RuntimeError, "attn_mask dtype", *[T(2, 2)] * 3, T(2, 2, dtype=dtypes.int64)),
        Fails(RuntimeError, "between 0 and 1, but got 1.5", *[T(2, 2)] * 3, dropout_p=1.5),
        Fails(RuntimeError, "got 2 and 3", T(3, 2, 2), *[T(2, 2, 2)] * 2, enable_gqa=True),
        Fails(RuntimeError, r"mask of shape \[3, 2\]", *[T(2, 2)] * 3, T(3, 2)),
        Fails(RuntimeError, "Explicit attn_mask", *[T(3, 2)] * 3, T(3, 3), is_causal=True),
        Fails(TypeError, "'key' .* must be Tensor, not int", T(2, 2), 1, T(2, 2)),
    ],
)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """For each query the average of all values: softmax(query·keyᵀ / √E + mask)·value.

    Args:
        query: (*, L, E)
        key: (*, S, E)
        value: (*, S, V); the result is (*, L, V)
        attn_mask: broadcast to (*, L, S); False where no attention is to be paid, or numbers that
            are added to the scores
        dropout_p: the probability of dropping a weight, whether training or not
        is_causal: query i only attends to keys up to i; together with ``attn_mask`` for queries,
            keys and values of four dimensions and one size E, and without dropout
        scale: takes the place of 1 / √E
        enable_gqa: keys and values may have fewer heads (dimension -3) than queries, and share
            them

    >>> x = rl.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> rl.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    tensor([[1.0000, 0.0000],
            [0.3302, 0.6698]])
    """
    q, k, v = query, key, value
    in_groups = enable_gqa and {k.shape[-3], v.shape[-3]} != {q.shape[-3]}
    if enable_gqa:
        check_heads(q, k, v)
    if not in_groups:
        check_operands(q, k, v)
    if is_causal and attn_mask is not None:
        check_both_masks(q, k, v, attn_mask, dropout_p)
    bias = added_mask(attn_mask, q)
    if in_groups:
        q, k, v, bias = grouped(q, k, v, bias)
        check_operands(q, k, v)
    batch = batch_of(q, k, v, bias)
    noise = dropout_noise((*batch, q.shape[-2], k.shape[-2]), dropout_p, q.dtype)
    if not batch:
        q, k, v = q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0)
    elif bias is not None and q.shape[:-2] != batch:
        q = q.expand(*batch, *q.shape[-2:])
    if local.state.trace is not None and q._array.dtype in dtypes.HALF:  # else the kernel does it
        q, k, v = [t.to(dtypes.float32) for t in (q, k, v)]
        bias, noise = [None if t is None else t.to(dtypes.float32) for t in (bias, noise)]
    if scale is None and is_extent(q.shape[-1]):
        q, scale = q * (q.shape[-1] or 1) ** -0.5, 1.0  # a number of the run
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[-1] or 1)
    operands, attrs = attention.check(q, k, v, bias, noise, factor, is_causal)
    if local.state.trace is not None and is_small(q, k, is_causal):
        y = attention.formula(*operands, **attrs)  # whose loops join those around it
    else:
        y = attention.apply(operands, attrs)[0]
    y = y.to(query.dtype)
    if in_groups:
        y = y.flatten(-4, -3)
    return y if batch else y.squeeze(0)


def batch_of(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> tuple[int, ...]:
    """The shape before the last two dimensions of the weights."""
    batch = kernels.batch_of(q._array, k._array, v._array)
    if bias is None:
        return batch
    weights = (*batch, q.shape[-2], k.shape[-2])
    try:
        whole = broadcast(weights, bias.shape)
    except ValueError:
        whole = ()
    if whole[-2:] != weights[-2:]:
        raise RuntimeError(
            f"{NAME}: a mask of shape {list(bias.shape)} cannot be broadcast to the weights, "
            f"{list(weights)}"
        )
    return whole[:-2]
