"""Attention, its positions and its linear kin."""

from __future__ import annotations

import math
from typing import Any

from rushlight import control, dtypes
from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.conversion import element_named
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor


def heads(x: Tensor, count: int | None) -> Tensor:
    """Batch × heads × length × size, whether the heads are an axis already or not."""
    if x.ndim == 4:
        return x
    if not count:
        raise OnnxError("inputs of 3 dimensions need the number of heads")
    batch, length, size = x.shape
    return x.reshape(batch, length, count, size // count).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """Batch × length × all heads."""
    batch, count, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, count * size)


@op("Attention")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
    qk_matmul_output_mode: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    outputs: int = 1,
) -> Any:
    """``softmax(q kᵀ scale + mask) v``; what is plain attention runs as such."""
    flat = q.ndim == 3
    q, k, v = heads(q, q_num_heads), heads(k, kv_num_heads), heads(v, kv_num_heads)
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = ops.cat([past_key, k], 2), ops.cat([past_value, v], 2)
    present = k, v
    repeats = q.shape[1] // k.shape[1]
    if repeats > 1:
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    if scale is None:
        scale = 1 / math.sqrt(q.shape[-1])
    allowed = visible(
        (q.shape[2], k.shape[2]), past, nonpad_kv_seqlen, is_causal, left_window_size,
        right_window_size,
    )  # fmt: skip
    simple = allowed is None and nonpad_kv_seqlen is None and softmax_precision is None
    if simple and not softcap and outputs < 4 and attn_mask is None:
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)
        return (joined(y) if flat else y, *present)[: max(outputs, 1)]
    root = math.sqrt(scale)
    raw = ops.matmul(q * root, (k * root).transpose(2, 3))
    capped = softcap * ops.tanh(raw / softcap) if softcap else raw
    biased = capped
    if attn_mask is not None:
        short = k.shape[2] - attn_mask.shape[-1]
        if attn_mask.dtype is dtypes.bool_:
            biased = biased.masked_fill(~F.pad(attn_mask, [0, short]), -math.inf)
        else:
            biased = biased + F.pad(attn_mask, [0, short], value=-math.inf)
    if allowed is not None:
        biased = biased.masked_fill(~allowed, -math.inf)
    wide = biased
    if softmax_precision is not None:
        wide = wide.to(dtypes.from_numpy(element_named(softmax_precision)))
    nothing = ops.isneginf(wide).all(-1, keepdim=True)  # rows that may look at no key
    weights = ops.softmax(wide.masked_fill(nothing, 0.0), -1).masked_fill(nothing, 0.0)
    weights = weights.to(q.dtype)
    y = ops.matmul(weights, v)
    shown = (raw, capped, biased, weights)[qk_matmul_output_mode]
    return (joined(y) if flat else y, *present, shown)[: max(outputs, 1)]


def visible(
    lengths: tuple[int, int],
    past: int,
    valid: Tensor | None,
    causal: int,
    left: int,
    right: int,
) -> Tensor | None:
    """Which keys each query may look at; None if all."""
    queries, keys = lengths
    place = ops.arange(keys)
    own = ops.arange(queries)[:, None] + past
    allowed = None
    if valid is not None:
        ends = valid.to(dtypes.int64).reshape(-1, 1, 1, 1)
        allowed = place < ends
        own = ops.arange(queries)[:, None] + (ends - queries)
    limits = []
    if causal:
        limits.append(place <= own)
    if left >= 0:
        limits.append(place >= own - left)
    if right >= 0:
        limits.append(place <= own + right)
    for limit in limits:
        allowed = limit if allowed is None else ops.logical_and(allowed, limit)
    return allowed


@op("FlexAttention", domain="ai.onnx.preview")
def flex_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    score_mod: Any = None,
    prob_mod: Any = None,
    softmax_precision: int | None = None,
) -> Tensor:
    """Attention whose scores and weights are changed by graphs of the file."""
    precision = dtypes.float64 if q.dtype is dtypes.float64 else dtypes.float32
    if softmax_precision is not None:
        precision = dtypes.from_numpy(element_named(softmax_precision))
    repeats = q.shape[1] // k.shape[1]
    if repeats > 1:
        k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
    scores = ops.matmul(q, k.transpose(2, 3)).to(precision)
    scores = scores * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if score_mod is not None:
        (scores,) = score_mod(scores)
    weights = ops.softmax(scores, -1)
    if prob_mod is not None:
        (weights,) = prob_mod(weights)
    return ops.matmul(weights.to(v.dtype), v)


@op("RotaryEmbedding")
def rotary_embedding(
    x: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    position_ids: Tensor | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:
    """Pairs of elements turned by an angle that grows with the position."""
    shape = x.shape
    if x.ndim == 4:
        x = x.transpose(1, 2)
    else:
        x = x.reshape(shape[0], shape[1], num_heads, shape[2] // num_heads)
    size = rotary_embedding_dim or x.shape[3]
    turned, rest = x[..., :size], x[..., size:]
    if position_ids is not None:
        cos_cache, sin_cache = cos_cache[position_ids], sin_cache[position_ids]
    cos, sin = cos_cache.unsqueeze(2), sin_cache.unsqueeze(2)
    if interleaved:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned[..., : size // 2], turned[..., size // 2 :]
    pair = [a * cos - b * sin, b * cos + a * sin]
    turned = ops.stack(pair, -1).reshape(turned.shape) if interleaved else ops.cat(pair, -1)
    y = ops.cat([turned, rest], -1)
    return y.transpose(1, 2) if len(shape) == 4 else y.reshape(shape)


@op("TensorScatter")
def tensor_scatter(
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """A cache with new rows at the place of each element of the batch."""
    axis %= past_cache.ndim
    length = past_cache.shape[axis]
    places = ops.arange(update.shape[axis]).reshape(1, -1)
    if write_indices is not None:
        places = places + write_indices.to(dtypes.int64).reshape(-1, 1)
    if mode == "circular":
        places = places % length
    shape = [1] * update.ndim
    shape[0], shape[axis] = places.shape
    return past_cache.scatter(axis, places.reshape(shape).expand(update.shape), update)


@op("LinearAttention")
def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    kv_num_heads: int,
    q_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> Any:
    """A state of outer products, which each step adds to and reads from."""
    dtype = query.dtype
    q, k, v = heads(query, q_num_heads), heads(key, kv_num_heads), heads(value, kv_num_heads)
    q, k, v = [x.to(dtypes.float32).permute(2, 0, 1, 3) for x in (q, k, v)]  # time first
    length, batch, count, size = k.shape
    groups = q_num_heads // kv_num_heads
    rows = {"k": k, "v": v, "q": q.reshape(length, batch, count, groups, size)}
    if "gated" in update_rule and decay is not None:
        rows["g"] = heads(decay, kv_num_heads).permute(2, 0, 1, 3).to(dtypes.float32).exp()
    if "delta" in update_rule and beta is not None:
        wide = beta.expand(batch, length, count)
        rows["b"] = heads(wide, kv_num_heads).permute(2, 0, 1, 3).to(dtypes.float32)
    factor = scale or 1 / math.sqrt(size)

    def step(state: Tensor, row: Any) -> Any:
        k, v = row["k"].unsqueeze(-1), row["v"].unsqueeze(-2)
        if "g" in row:
            state = state * row["g"].unsqueeze(-1)
        if "b" in row:
            v = row["b"].unsqueeze(-1) * (v - (state * k).sum(-2, keepdim=True))
        state = state + k * v
        return state, ops.matmul(row["q"], state) * factor

    if past_state is None:
        first = ops.zeros((batch, count, size, v.shape[-1]))
    else:
        first = past_state.to(dtypes.float32)
    state, ys = control.scan(step, first, rows)
    y = ys.permute(1, 0, 2, 3, 4).reshape(batch, length, -1)
    kept = dtype if past_state is None else past_state.dtype
    return y.to(dtype), state.to(kept)


@op("CausalConvWithState")
def causal_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    past_state: Tensor | None = None,
    *,
    activation: str = "none",
) -> Any:
    """A depthwise convolution that looks back only, and hands on what it looked at last."""
    back = weight.shape[-1] - 1
    if past_state is None:
        whole = F.pad(x, [back, 0])
    else:
        whole = ops.cat([past_state, x], -1)
    y = F.conv1d(whole, weight, bias, groups=x.shape[1])
    if activation in ("silu", "swish"):
        y = F.silu(y)
    return y, whole.narrow(-1, whole.shape[-1] - back, back)
