"""Attention with several heads: projections of queries, keys and values, and of the result."""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight import dtypes
from rushlight.ops.attention import scaled_dot_product_attention
from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.dropout import dropped
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


def check_ranks(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None
) -> bool:
    """Whether there is a batch dimension; an error if the arguments disagree."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.ndim}-D query tensor"
        )
    batched = query.ndim == 3
    word = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {word} `query`, expected `key` and `value` to be {query.ndim}-D but found "
            f"{key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if padding is not None and padding.ndim != query.ndim - 1:
        raise AssertionError(
            f"For {word} `query`, expected `key_padding_mask` to be `None` or {query.ndim - 1}-D "
            f"but found {padding.ndim}-D tensor instead"
        )
    if mask is not None and mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{mask.ndim}-D tensor instead"
        )
    return batched


def with_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The three with a batch of 1; equal ones stay one and the same tensor."""
    q = query.unsqueeze(1)
    k = q if key is query else key.unsqueeze(1)
    return q, k, k if value is key else value.unsqueeze(1)


def check_sizes(
    query: Tensor, key: Tensor, value: Tensor, expected: int, heads: int, apart: bool
) -> None:
    """An error unless the features fit the layer, and keys the values."""
    size = query.shape[-1]
    if size != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {size}")
    if size % heads:
        raise AssertionError(f"embed_dim {size} not divisible by num_heads {heads}")
    if apart and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not apart and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def canonical_mask(
    mask: Tensor | None,
    name: str,
    dtype: dtypes.dtype,
    other: Tensor | None = None,
    other_name: str = "attn_mask",
) -> Tensor | None:
    """A mask of numbers to be added: -inf where a boolean mask is True."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_ and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype is not mask.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both "
            "instead.",
            stacklevel=3,
        )
    if mask.dtype is not dtypes.bool_:
        return mask
    return ops.zeros(mask.shape, dtype=dtype).masked_fill_(mask, -math.inf)


def projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Queries, keys and values by one packed weight, in as few products as possible."""
    size = query.shape[-1]
    if query is key is value:
        return ops.linear(query, weight, bias).split(size, -1)
    counts = [size, 2 * size] if key is value else [size] * 3
    weights = weight.split(counts)
    biases = [None] * 3 if bias is None else bias.split(counts)
    q = ops.linear(query, weights[0], biases[0])
    if key is value:
        return q, *ops.linear(key, weights[1], biases[1]).split(size, -1)
    return q, ops.linear(key, weights[1], biases[1]), ops.linear(value, weights[2], biases[2])


def projected_apart(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: dict[str, Tensor | None],
    bias: Tensor | None,
) -> list[Tensor]:
    """Queries, keys and values by a weight each."""
    size = query.shape[-1]
    biases = [None] * 3 if bias is None else bias.chunk(3)
    results = []
    for (name, w), x, b in zip(weights.items(), (query, key, value), biases, strict=True):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        if w.shape != (size, x.shape[-1]):
            raise AssertionError(
                f"expecting {name}_proj_weight shape of {(size, x.shape[-1])}, but got {w.shape}"
            )
        results.append(ops.linear(x, w, b))
    return results


def in_heads(x: Tensor, heads: int, static: Tensor | None = None, name: str = "") -> Tensor:
    """(length, batch, heads·size) as (batch, heads, length, size).

    A ``static`` tensor (batch·heads, length, size) takes the place of ``x``.
    """
    if static is None:
        return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    batch, size = x.shape[1], x.shape[2] // heads
    for dim, expected in ((0, batch * heads), (2, size)):
        if static.shape[dim] != expected:
            raise AssertionError(
                f"expecting static_{name}.size({dim}) of {expected}, but got {static.shape[dim]}"
            )
    return static.reshape(batch, heads, -1, size)


def more_keys(
    k: Tensor, bias_k: Tensor | None, bias_v: Tensor | None, zero: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Keys and values, in heads, to be added to the given ones."""
    batch, heads, _, size = k.shape
    keys: list[Tensor] = []
    values: list[Tensor] = []
    if bias_k is not None and bias_v is not None:
        for t, added in ((bias_k, keys), (bias_v, values)):
            added.append(t.reshape(heads, 1, size).expand(batch, heads, 1, size))
    elif bias_k is not None or bias_v is not None:
        given, other = ("bias_k", "bias_v") if bias_v is None else ("bias_v", "bias_k")
        raise AssertionError(f"{given} is set but {other} is None")
    if zero:
        zeros = ops.zeros(batch, heads, 1, size, dtype=k.dtype)
        keys.append(zeros)
        values.append(zeros)
    return keys, values


def mask_in_heads(mask: Tensor, batch: int, heads: int, rows: int, columns: int) -> Tensor:
    """(rows, columns) or (batch·heads, rows, columns) as a mask for (batch, heads, …)."""
    if mask.ndim == 2:
        if mask.shape != (rows, columns):
            raise RuntimeError(
                f"The shape of the 2D attn_mask is {mask.shape}, but should be {(rows, columns)}."
            )
        return mask.unsqueeze(0).unsqueeze(0)
    if mask.shape != (batch * heads, rows, columns):
        raise RuntimeError(
            f"The shape of the 3D attn_mask is {mask.shape}, but should be "
            f"{(batch * heads, rows, columns)}."
        )
    return mask.reshape(batch, heads, rows, columns)


def padding_in_heads(padding: Tensor, batch: int, columns: int) -> Tensor:
    """(batch, columns) as a mask for (batch, heads, rows, columns)."""
    for dim, expected in ((0, batch), (1, columns)):
        if padding.shape[dim] != expected:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{dim}] to be {expected}, but got "
                f"{padding.shape[dim]}"
            )
    return padding.reshape(batch, 1, 1, columns)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    p: float,
    is_causal: bool,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The result in heads, and the weights if they are needed."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, p, is_causal), None
    scores = (q * math.sqrt(1 / q.shape[-1])) @ k.mT
    weights = dropped((scores if mask is None else scores + mask).softmax(-1), p, True)
    return weights @ v, weights


def sample(size: int = 4, heads: int = 2, batch: tuple[int, ...] = (2,), **more: Any) -> S:
    query, key = T(3, *batch, size), T(2, *batch, size)
    weights = (T(3 * size, size), T(3 * size), None, None, False, 0.0, T(size, size), T(size))
    return S(query, key, T(2, *batch, size), size, heads, *weights, **more)


SAMPLES = [
    sample(),
    sample(batch=(), average_attn_weights=False),
    sample(need_weights=False),
    sample(need_weights=False, attn_mask=T(3, 2)),
    sample(attn_mask=T(4, 3, 2), key_padding_mask=T(2, 2)),
    sample(2, 1, (1,), static_k=T(1, 4, 2), static_v=T(1, 4, 2)),
    sample(key_padding_mask=T(values=[[True, False], [False, False]], dtype=dtypes.bool_)),
]


def failure(error: type[Exception], match: str, **more: Any) -> Fails:
    usual = sample()
    args = [more.pop(name, given) for name, given in zip(POSITIONS, usual.args, strict=True)]
    return Fails(error, match, *args, **more)


POSITIONS = (
    "query",
    "key",
    "value",
    "embed_dim_to_check",
    "num_heads",
    "in_proj_weight",
    "in_proj_bias",
    "bias_k",
    "bias_v",
    "add_zero_attn",
    "dropout_p",
    "out_proj_weight",
    "out_proj_bias",
)
ERRORS = [
    failure(AssertionError, "embedding dimension of 5, but got 4", embed_dim_to_check=5),
    failure(AssertionError, "embed_dim 4 not divisible by num_heads 3", num_heads=3),
    failure(AssertionError, "unbatched 2D or batched 3D", query=T(4)),
    failure(AssertionError, "expected `key` and `value` to be 3-D", key=T(2, 4)),
    failure(AssertionError, "key shape .* does not match value", value=T(3, 2, 4)),
    failure(RuntimeError, "2D attn_mask is .*should be", attn_mask=T(3, 3)),
    failure(RuntimeError, "Need attn_mask if specifying the is_causal", is_causal=True),
    failure(AssertionError, r"key_padded_mask.shape\[1\] to be 2", key_padding_mask=T(2, 3)),
    failure(AssertionError, "bias_k is set but bias_v is None", bias_k=T(1, 1, 4)),
    failure(TypeError, "'query' .* must be Tensor, not NoneType", query=None),
]


@composite(namespace="nn.functional", method=False, samples=SAMPLES, errors=ERRORS)
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What :class:`rushlight.nn.MultiheadAttention` computes: the result, and perhaps the weights.

    Args:
        query: (L, N, E), or (L, E) without a batch
        key: (S, N, E)
        value: (S, N, E)
        in_proj_weight: (3·E, E), the projections of query, key and value on top of each other
        bias_k: (1, 1, E), one more key for all; ``bias_v`` is its value
        add_zero_attn: adds a key and value of zeros
        key_padding_mask: (N, S), True where a key is to be ignored, or numbers to be added
        attn_mask: (L, S) or (N·num_heads, L, S), True where no attention is to be paid, or numbers
            to be added to the scores
        is_causal: says that ``attn_mask`` is the causal one
        use_separate_proj_weight: whether ``q_proj_weight``, ``k_proj_weight`` and
            ``v_proj_weight`` take the place of ``in_proj_weight``
        static_k: (N·num_heads, S, E / num_heads), in place of the projected keys; ``static_v`` of
            the values
        average_attn_weights: whether the weights (N, L, S) are the mean over the heads, rather
            than (N, num_heads, L, S)

    >>> x, eye = rl.ones(3, 1, 2), rl.eye(2)
    >>> weights = rl.cat([eye, eye, eye]), None, None, None, False, 0.0, eye, None
    >>> y, w = rl.nn.functional.multi_head_attention_forward(x, x, x, 2, 1, *weights)
    >>> y.shape, w.shape
    (rushlight.Size([3, 1, 2]), rushlight.Size([1, 3, 3]))
    """
    need_tensor("multi_head_attention_forward", query, "query", 1)
    batched = check_ranks(query, key, value, key_padding_mask, attn_mask)
    if not batched:
        query, key, value = with_batch(query, key, value)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    padding = canonical_mask(key_padding_mask, "key_padding_mask", query.dtype, attn_mask)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    is_causal = is_causal and padding is None and not need_weights
    mask = None if is_causal else canonical_mask(attn_mask, "attn_mask", query.dtype)
    if use_separate_proj_weight:
        weights = {"q": q_proj_weight, "k": k_proj_weight, "v": v_proj_weight}
        q, k, v = projected_apart(query, key, value, weights, in_proj_bias)
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        q, k, v = projected(query, key, value, in_proj_weight, in_proj_bias)
    k, v = in_heads(k, num_heads, static_k, "k"), in_heads(v, num_heads, static_v, "v")
    if mask is not None:
        mask = mask_in_heads(mask, key.shape[1], num_heads, query.shape[0], key.shape[0])
    if padding is not None:
        padding = padding_in_heads(padding, key.shape[1], k.shape[-2])
        mask = padding if mask is None else mask + padding
    more_k, more_v = more_keys(k, bias_k, bias_v, add_zero_attn)
    if more_k:
        k, v = ops.cat([k, *more_k], -2), ops.cat([v, *more_v], -2)
        mask = None if mask is None else ops.constant_pad_nd(mask, (0, len(more_k)))
    p = dropout_p if training else 0.0
    y, w = attend(in_heads(q, num_heads), k, v, mask, p, is_causal, need_weights)
    y = ops.linear(y.permute(2, 0, 1, 3).flatten(-2), out_proj_weight, out_proj_bias)
    if w is not None and average_attn_weights:
        w = w.mean(1)
    return (y, w) if batched else (y.squeeze(1), None if w is None else w.squeeze(0))
