"""Sums of products: matrices, einsum and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@op("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    return ops.matmul(a, b)


@op("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    """``alpha a b + beta c``; with a vector c it is the linear layer that it was exported from."""
    a = a.t() if transA else a
    if alpha == beta == 1 and transB and c is not None and c.ndim == 1 < b.shape[0] == len(c):
        return F.linear(a, b, c)
    y = ops.matmul(a, b.t() if transB else b)
    if alpha != 1:
        y = (alpha * y).to(a.dtype)
    if c is None:
        return y
    return y + (c if beta == 1 else (beta * c).to(c.dtype))


@op("Einsum")
def einsum(*xs: Tensor, equation: str) -> Tensor:
    return ops.einsum(equation, *xs)


@op("Det")
def determinant(x: Tensor) -> Tensor:
    return ops.det(x)


@op("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    ndim = w.ndim - 2
    if ndim not in CONVOLUTIONS:
        raise OnnxError(f"convolutions of {ndim} dimensions are not supported")
    stride, dilation = list(strides or [1] * ndim), list(dilations or [1] * ndim)
    low, high = padding_of(auto_pad, pads, x.shape[2:], w.shape[2:], stride, dilation)
    if low != high:
        x, low = padded(x, low, high), [0] * ndim
    return CONVOLUTIONS[ndim](x, w, b, stride, low, dilation, group)


def padding_of(
    auto_pad: str,
    pads: Sequence[int] | None,
    shape: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[list[int], list[int]]:
    """What is added before and after each spatial axis."""
    ndim = len(kernel)
    if auto_pad in ("NOTSET", "") or (auto_pad == "VALID" and pads is None):
        amounts = list(pads or [0] * (2 * ndim))
        return amounts[:ndim], amounts[ndim:]
    if auto_pad == "VALID":
        return [0] * ndim, [0] * ndim
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise OnnxError(f"auto_pad={auto_pad!r} is not supported")
    less, more = [], []
    for n, k, s, d in zip(shape, kernel, stride, dilation, strict=True):
        whole = max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
        less.append(whole // 2)
        more.append(whole - whole // 2)
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def padded(x: Tensor, low: Sequence[int], high: Sequence[int], value: float = 0.0) -> Tensor:
    """The spatial axes with borders."""
    pairs = list(zip(low, high, strict=True))
    return F.pad(x, [amount for pair in reversed(pairs) for amount in pair], value=value)


@op("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    ndim = w.ndim - 2
    if ndim not in TRANSPOSED:
        raise OnnxError(f"transposed convolutions of {ndim} dimensions are not supported")
    stride, dilation = list(strides or [1] * ndim), list(dilations or [1] * ndim)
    extra = list(output_padding or [0] * ndim)
    full = [
        s * (n - 1) + o + d * (k - 1) + 1
        for s, n, o, d, k in zip(stride, x.shape[2:], extra, dilation, w.shape[2:], strict=True)
    ]
    if output_shape or auto_pad.startswith("SAME"):
        wanted = list(output_shape or [n * s for n, s in zip(x.shape[2:], stride, strict=True)])
        spare = [a - b for a, b in zip(full, wanted[-ndim:], strict=True)]
        low = [max(n + (auto_pad != "SAME_UPPER"), 0) // 2 for n in spare]
        high = [a - b for a, b in zip(spare, low, strict=True)]
    else:
        low, high = padding_of("NOTSET", pads, [], [0] * ndim, stride, dilation)
    y = TRANSPOSED[ndim](x, w, None, stride, 0, 0, group, dilation)
    y = padded(y, [-n for n in low], [o - n for o, n in zip(extra, high, strict=True)])
    return y if b is None else y + b.reshape(-1, *[1] * ndim)
