"""Elements moved between channels and space, and among channels."""

from __future__ import annotations

from typing import Any

from rushlight import dtypes
from rushlight.layouts import whole
from rushlight.ops.base import composite, need_tensor
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

NOT_A_TENSOR = Fails(TypeError, "must be Tensor, not float", 1.5, 2)
INTEGERS = T(1, 4, 2, 2, dtype=dtypes.int64)


def need_factor(name: str, input: Any, argument: str, factor: Any) -> Tensor:
    x = need_tensor(name, input)
    if whole(factor, name, argument) < 1:
        raise RuntimeError(f"{name} expects a positive {argument}, but got {factor}")
    if x._array.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with "
            f"{x._array.ndim} dimension(s)"
        )
    return x


@composite(
    namespace="nn.functional",
    method=False,
    samples=[S(T(2, 8, 2, 3), 2), S(T(9, 1, 2), 3), S(T(2, 1, 4, 0, 2), 2), S(INTEGERS, 2)],
    errors=[
        NOT_A_TENSOR,
        Fails(TypeError, "'upscale_factor' must be int, not float", T(4, 2, 2), 2.0),
        Fails(RuntimeError, "positive upscale_factor, but got 0", T(4, 2, 2), 0),
        Fails(RuntimeError, "at least 3 dimensions, but got input with 2", T(4, 2), 2),
        Fails(RuntimeError, r"input.size\(-3\)=3 is not divisible by 4", T(3, 2, 2), 2),
    ],
)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels turned into space: (*, C·r², H, W) becomes (*, C, H·r, W·r), r the factor.

    >>> rl.nn.functional.pixel_shuffle(rl.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    x, r = need_factor("pixel_shuffle", input, "upscale_factor", upscale_factor), upscale_factor
    *lead, channels, height, width = x._array.shape
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}"
        )
    c, n = channels // (r * r), len(lead)
    parts = x.reshape(*lead, c, r, r, height, width)
    parts = parts.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return parts.reshape(*lead, c, height * r, width * r)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[S(T(2, 2, 4, 6), 2), S(T(1, 3, 6), 3), S(T(2, 1, 4, 0, 2), 2), S(INTEGERS, 2)],
    errors=[
        NOT_A_TENSOR,
        Fails(TypeError, "'downscale_factor' must be int, not float", T(4, 2, 2), 2.0),
        Fails(RuntimeError, "positive downscale_factor, but got -1", T(4, 2, 2), -1),
        Fails(RuntimeError, "at least 3 dimensions, but got input with 2", T(4, 2), 2),
        Fails(RuntimeError, r"height .* input.size\(-2\)=3 is not divisible by 2", T(1, 3, 2), 2),
        Fails(RuntimeError, r"width .* input.size\(-1\)=3 is not divisible by 2", T(1, 2, 3), 2),
    ],
)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Space turned into channels: (*, C, H·r, W·r) becomes (*, C·r², H, W), r the factor.

    >>> rl.nn.functional.pixel_unshuffle(rl.arange(4).reshape(1, 2, 2), 2).shape
    rushlight.Size([4, 1, 1])
    """
    x, r = (
        need_factor("pixel_unshuffle", input, "downscale_factor", downscale_factor),
        downscale_factor,
    )
    *lead, c, height, width = x._array.shape
    for side, dim, size in (("height", -2, height), ("width", -1, width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but "
                f"input.size({dim})={size} is not divisible by {r}"
            )
    height, width, n = height // r, width // r, len(lead)
    parts = x.reshape(*lead, c, height, r, width, r)
    parts = parts.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return parts.reshape(*lead, c * r * r, height, width)


@composite(
    namespace="nn.functional",
    method=False,
    aliases=("native_channel_shuffle",),
    samples=[S(T(2, 6, 2, 3), 3), S(T(1, 4, 2), 2), S(T(0, 4, 2), 2), S(INTEGERS, 4)],
    errors=[
        NOT_A_TENSOR,
        Fails(TypeError, "'groups' must be int, not float", T(1, 4, 2), 2.0),
        Fails(RuntimeError, "must be positive. Value of groups:0", T(1, 4, 2), 0),
        Fails(RuntimeError, "Got 4 channels and 3 groups", T(1, 4, 2), 3),
        Fails(RuntimeError, r"with > 2 dims, but got input with sizes \[4, 2\]", T(4, 2), 2),
    ],
)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """The channels of (N, C, *), in ``groups`` one after the other, dealt out in turn.

    >>> rl.nn.functional.channel_shuffle(rl.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    x = need_tensor("channel_shuffle", input)
    shape = x._array.shape
    if len(shape) < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if whole(groups, "channel_shuffle", "groups") < 1:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{groups}"
        )
    if shape[1] % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {shape[1]} channels and {groups} "
            "groups."
        )
    parts = x.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    return parts.transpose(1, 2).reshape(shape)
