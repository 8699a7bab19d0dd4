"""Normalisation: mean 0 and variance 1 over some dimensions, then an affine map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import is_zero
from rushlight.kernels import normalization as kernels
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

SPACE = "nn.functional"
NOT_A_TENSOR = Fails(TypeError, "must be Tensor, not float", 1.5, (3,))


class Standardize(Op):
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, the mean and the variance.

    Mean and variance are those over ``dims``; unless ``center`` is set, zero is taken for the mean.
    Weight and bias broadcast; they are both given, or weight alone, or neither.
    """

    function = method = False
    operands = ("x", "weight", "bias")
    differentiable = (0,)

    def check(self, x, weight, bias, dims, eps, center=True):
        return (x, weight, bias), {"dims": dims, "eps": eps, "center": center}

    def eager(self, x, weight, bias, *, dims, eps, center):
        kind = x.dtype
        x, weight, bias = [single(a) for a in (x, weight, bias)]
        y, mean, variance = kernels.standardize(x, weight, bias, dims, eps, center)
        return y.astype(kind, copy=False), mean, variance

    def decompose(self, x, weight, bias, *, dims, eps, center):
        u = x.float() if x._array.dtype in dtypes.HALF else x
        mean, variance = moments(u, dims, center)
        y = (u - mean if center else u) * (variance + eps).rsqrt()
        y = y if weight is None else y * weight
        return (y if bias is None else y + bias).to(x.dtype), mean, variance

    def vjp(self, g, _y, x, weight, _bias, *, dims, eps, center):
        by_x, *by_parameters = standardize_backward(g, x, weight, dims, eps, center)
        return (by_x, *(by_parameters or (None, None)))


def is_same_over(weight: Tensor, x: Tensor, dims: Sequence[int]) -> bool:
    """Whether a weight, broadcast to ``x``, is one number for all elements along ``dims``."""
    shape = (1,) * (x.ndim - weight.ndim) + tuple(weight.shape)
    return all([shape[d] == 1 for d in dims])


class StandardizeBackward(Op):
    """The gradients of :class:`Standardize`, by ``x`` alone if there is no weight."""

    function = method = False
    operands = ("g", "x", "weight")

    def check(self, g, x, weight, dims, eps, center):
        return (g, x, weight), {"dims": dims, "eps": eps, "center": center}

    def eager(self, g, x, weight, *, dims, eps, center):
        kind = x.dtype
        shape = None if weight is None else weight.shape
        g, x, weight = [single(a) for a in (g, x, weight)]
        y, *sums = kernels.standardize_backward(g, x, weight, dims, eps, center)
        return (y.astype(kind, copy=False), *[s.reshape(shape) for s in sums])

    def decompose(self, g, x, weight, *, dims, eps, center):
        u, g = (t.float() if t._array.dtype in dtypes.HALF else t for t in (x, g))
        mean, variance = moments(u, dims, center)
        r = (variance + eps).rsqrt()
        z = (u - mean if center else u) * r
        if weight is not None and is_same_over(weight, x, dims):
            by_weight, by_bias = [t.sum(dims, keepdim=True) for t in (g * z, g)]
            n = math.prod([x.shape[d] for d in dims])
            rest = g - z * (by_weight / n)
            y = (r * weight) * (rest - by_bias / n if center else rest)
            return (y.to(x.dtype), *[s.sum_to_size(weight.shape) for s in (by_weight, by_bias)])
        h = g if weight is None else g * weight
        rest = h - z * (h * z).mean(dims, keepdim=True)
        y = r * (rest - h.mean(dims, keepdim=True) if center else rest)
        sums = () if weight is None else (g * z, g)
        return (y.to(x.dtype), *[s.sum_to_size(weight.shape) for s in sums])

    def vjp(self, v, _y, g, x, weight, *, dims, eps, center):
        """With A(u) = r·(u - mean(u) - z·mean(u·z)), which is its own adjoint, the results are
        A(weight·g), Σ g·z and Σ g; dr = -r²·mean(z·dx) and dz = A(dx) lead to the rest."""

        def mean(t):
            return t.mean(dims, keepdim=True)

        def a(u):
            return standardize_backward(u, x, None, dims, eps, center)[0]

        v, v_weight, v_bias = (v, None, None) if weight is None else v
        z = standardize(x, None, None, dims, eps, center)[0]
        h = g if weight is None else g * weight
        r = (mean((x - mean(x)) ** 2 if center else x * x) + eps).rsqrt()
        hz, vz = mean(h * z), mean(v * z)
        overlap = mean(v * h) - hz * vz
        if center:
            overlap = overlap - mean(v) * mean(h)
        by_g, by_x = a(v), -r * (a(hz * v + vz * h) + r * z * overlap)
        if weight is None:
            return by_g, by_x, None
        return by_g * weight + z * v_weight + v_bias, by_x + a(g * v_weight), g * by_g


def moments(x: Tensor, dims: tuple[int, ...], center: bool) -> tuple[Tensor, Tensor]:
    """The mean and the variance over ``dims``, which stay; unless ``center`` is set, zero is taken
    for the mean."""
    if not center:
        variance = (x * x).mean(dims, keepdim=True)
        return ops.zeros_like(variance), variance
    attrs = {"dim": dims, "keepdim": True, "correction": 0}
    variance, mean = registry["var_mean"].apply((x,), attrs)
    return mean, variance


standardize = registry["standardize"].call
standardize_backward = registry["standardize_backward"].call


def single(a: np.ndarray | None) -> np.ndarray | None:
    """An array of a half type in float32; others as they are."""
    return a if a is None or a.dtype not in dtypes.HALF else a.astype(np.float32)


def parameters_fit(weight: Tensor | None, bias: Tensor | None, x: Tensor, name: str) -> None:
    """An error unless weight and bias have the dtype of ``x``, or float32 beside a half type."""
    for argument, t in (("weight", weight), ("bias", bias)):
        if t is not None and t._array.dtype is not x._array.dtype:
            if not (x._array.dtype in dtypes.HALF and t.dtype is dtypes.float32):
                raise RuntimeError(
                    f"{name}: expected {argument} of dtype {x.dtype}, as input, got {t.dtype}"
                )


def standardized(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    dims: tuple[int, ...],
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """:class:`Standardize` for any choice of weight and bias."""
    if weight is None and bias is not None:
        y, mean, variance = standardize(x, None, None, dims, eps)
        return y + bias, mean, variance
    return standardize(x, weight, bias, dims, eps)


def floating(name: str, input: Any) -> Tensor:
    """``input`` if it is a tensor of real numbers with a fraction, else the error."""
    x = need_tensor(name, input)
    if x.dtype.category != dtypes.FLOAT:
        raise NotImplementedError(f"\"{name}\" not implemented for '{x.dtype.storage_name}'")
    return x


def trailing(
    name: str, x: Tensor, normalized_shape: Sequence[int], **parameters: Tensor | None
) -> tuple[int, ...]:
    """The dimensions of ``x`` that ``normalized_shape`` stands for, or the error."""
    if isinstance(normalized_shape, int):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int"
        )
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            "element, but got normalized_shape = []"
        )
    for argument, t in parameters.items():
        if t is not None and t._array.shape != shape:
            raise RuntimeError(
                f"Expected {argument} to be of same shape as normalized_shape, but got {argument} "
                f"of shape {list(t.shape)} and normalized_shape = {list(shape)}"
            )
    if x._array.shape[-len(shape) :] != shape:
        sizes = ", ".join(map(str, shape))
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {sizes}], but "
            f"got input of size{list(x.shape)}"
        )
    return tuple(range(x.ndim - len(shape), x.ndim))


@composite(
    fused=True,
    namespace=SPACE,
    method=False,
    samples=[
        S(T(3, 4), (4,)),
        S(T(2, 3, 4), [4], T(4), T(4)),
        S(T(2, 3, 2), (3, 2), T(3, 2), T(3, 2), 0.5),
        S(T(3, 4), (4,), weight=T(4)),
        S(T(3, 4), (4,), bias=T(4)),
        S(T(0, 4), (4,), T(4), T(4)),
        S(T(3, 0), (0,)),
    ],
    errors=[
        Fails(RuntimeError, r"expected input with shape \[\*, 3\], .* size\[2, 4\]", T(2, 4), (3,)),
        Fails(RuntimeError, "Expected weight to be of same shape", T(2, 4), (4,), T(3)),
        Fails(RuntimeError, "Expected bias to be of same shape", T(2, 4), (4,), None, T(3)),
        Fails(RuntimeError, "at least 1-dimensional", T(2, 4), ()),
        Fails(NotImplementedError, "not implemented for 'Long'", T(2, dtype=dtypes.int64), (2,)),
        NOT_A_TENSOR,
    ],
)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last dimensions.

    Args:
        normalized_shape: the sizes of the dimensions that share one mean and one variance
        weight, bias: of that shape

    >>> rl.nn.functional.layer_norm(rl.tensor([[1.0, 2.0], [3.0, 7.0]]), (2,))
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """
    x = floating("layer_norm", input)
    dims = trailing("layer_norm", x, normalized_shape, weight=weight, bias=bias)
    parameters_fit(weight, bias, x, "layer_norm")
    return standardized(x, weight, bias, dims, eps)[0]


@composite(
    fused=True,
    namespace=SPACE,
    method=False,
    samples=[
        S(T(3, 4), (4,)),
        S(T(2, 3, 2), (3, 2), T(3, 2)),
        S(T(3, 4), [4], T(4), eps=0.5),
        S(T(0, 4), (4,)),
    ],
    errors=[
        Fails(RuntimeError, r"expected input with shape \[\*, 3\], .* size\[2, 4\]", T(2, 4), (3,)),
        Fails(RuntimeError, "Expected weight to be of same shape", T(2, 4), (4,), T(3)),
        NOT_A_TENSOR,
    ],
)
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """``x / sqrt(mean(x²) + eps) * weight`` over the last dimensions.

    Args:
        normalized_shape: the sizes of the dimensions that share one mean
        eps: by default the smallest number that makes a difference to 1, in float32 for half types

    >>> rl.nn.functional.rms_norm(rl.tensor([[3.0, 4.0], [1.0, 1.0]]), (2,))
    tensor([[0.8485, 1.1314],
            [1.0000, 1.0000]])
    """
    x = need_tensor("rms_norm", input)
    dims = trailing("rms_norm", x, normalized_shape, weight=weight)
    if x.dtype.category < dtypes.FLOAT:
        raise NotImplementedError(f"\"rms_norm\" not implemented for '{x.dtype.storage_name}'")
    kind = dtypes.float32 if x._array.dtype in dtypes.HALF else x.dtype
    if eps is None:
        eps = dtypes.finfo(kind).eps
    if x.dtype.category != dtypes.FLOAT or (weight is not None and weight.dtype is not x.dtype):
        wide = x.to(kind)
        y = wide * (wide.pow(2).mean(dims, keepdim=True) + eps).rsqrt()
        return (y if weight is None else y * weight).to(x.dtype)
    return standardize(x, weight, None, dims, eps, False)[0]


def too_few(what: str, shape: Sequence[int]) -> ValueError:
    return ValueError(f"Expected more than 1 {what} when training, got input size {list(shape)}")


@composite(
    fused=True,
    namespace=SPACE,
    method=False,
    samples=[
        S(T(2, 4, 3), 2),
        S(T(2, 4, 2, 2), 2, T(4), T(4)),
        S(T(2, 4), 1, T(4), T(4), 0.1),
        S(T(2, 4, 3), 4, weight=T(4)),
        S(T(0, 4, 3), 2, T(4), T(4)),
    ],
    errors=[
        Fails(RuntimeError, r"divisible by num_groups, .* \[2, 4\] and num_groups=3", T(2, 4), 3),
        Fails(RuntimeError, "num groups to be greater than 0, got 0", T(2, 4), 0),
        Fails(RuntimeError, "at least 2 dimensions for input tensor but received 1", T(4), 2),
        Fails(RuntimeError, "weight to be a vector of size equal to", T(2, 4, 3), 2, T(3)),
        Fails(ValueError, "more than 1 value per channel when training", T(1, 2), 2),
    ],
)
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, by groups of channels (dimension 1).

    Args:
        num_groups: how many groups of equal size; each of each row has its mean and variance
        weight, bias: one number for each channel

    >>> rl.nn.functional.group_norm(rl.tensor([[1.0, 3.0, 5.0, 9.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    x = floating("group_norm", input)
    if x.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.ndim}")
    check_groups(x, num_groups, weight=weight, bias=bias)
    if x._array.size == num_groups:
        raise too_few("value per channel", x.shape)
    return of_groups(x, num_groups, weight, bias, eps)[0]


def check_groups(x: Tensor, groups: int, **parameters: Tensor | None) -> None:
    """An error unless ``groups`` divides the channels, and each parameter is a vector of them."""
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if x.shape[1] % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(x.shape)} and num_groups={groups}"
        )
    for name, t in parameters.items():
        if t is not None and t._array.shape != (x.shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(t.shape)} and input of shape {list(x.shape)}"
            )


def of_groups(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``x`` normalised by groups of channels, the means and the variances."""
    parameters_fit(weight, bias, x, "group_norm")
    rows, channels, *sizes = x.shape
    inner = math.prod(sizes)
    parts = x.reshape(rows, groups, channels // groups, inner)
    shape = (groups, channels // groups, 1)
    w, b = [None if t is None else t.view(shape) for t in (weight, bias)]
    y, mean, variance = standardized(parts, w, b, (2, 3), eps)
    return y.reshape(x.shape), mean, variance


@composite(
    namespace=SPACE,
    method=False,
    kinds="fc",
    samples=[S(T(3, 4)), S(T(2, 3, 4), 1.0, 0), S(T(3, 4), p=3.0, dim=-1, eps=0.1), S(T(0, 2))],
    errors=[Fails(IndexError, "Dimension out of range", T(4)), Fails(TypeError, "not float", 1.5)],
)
def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """``x / max(‖x‖, eps)``, with the p-norm of the vectors along ``dim``.

    >>> rl.nn.functional.normalize(rl.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    x = need_tensor("normalize", input)
    y = x / x.norm(p, dim, keepdim=True).clamp_min(eps)
    return y if out is None else into(out, y)


@composite(
    namespace=SPACE,
    method=False,
    samples=[
        S(T(2, 5, 3), 3),
        S(T(2, 5, 2, 2), 2, 0.1, 0.5, 2.0),
        S(T(1, 3, 2), size=5, alpha=1.0),
        S(T(0, 3, 2), 2),
    ],
    errors=[
        Fails(ValueError, r"Expected 3D or higher dimensionality input \(got 2 dim", T(2, 3), 2),
        Fails(ValueError, "size must be positive, got 0", T(2, 3, 4), 0),
    ],
)
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """``x / (k + alpha * mean(x²))^beta``, the mean over ``size`` neighbouring channels.

    Channels (dimension 1) beyond the first and the last count as zeros.

    >>> rl.nn.functional.local_response_norm(rl.tensor([[[1.0], [2.0]]]), 2, alpha=2.0, beta=1.0)
    tensor([[[0.5000],
             [0.3333]]])
    """
    x = need_tensor("local_response_norm", input)
    if x.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {x.ndim} dimensions)")
    if size < 1:
        raise ValueError(f"local_response_norm: size must be positive, got {size}")
    if is_zero(x.numel()):
        return x
    around = neighbours(x * x, size // 2, (size - 1) // 2)
    mean = around / size if x.is_floating_point() else around // size
    return x / (mean * alpha + k).pow(beta)


def neighbours(x: Tensor, before: int, after: int) -> Tensor:
    """For each channel the sum of its neighbours, so many on either side, and itself."""
    channels = x.shape[1]
    wide = ops.constant_pad_nd(x, (0, 0) * (x.ndim - 2) + (before, after))
    total = wide.narrow(1, 0, channels)
    for start in range(1, before + after + 1):
        total = total + wide.narrow(1, start, channels)
    return total
