"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.autograd.tape import edge
from rushlight.kernels import special as kernels
from rushlight.kernels.activation import elu
from rushlight.kernels.row_sums import total
from rushlight.kernels.select import at_least, choose
from rushlight.ops.base import (
    alias,
    axis,
    check_writable,
    composite,
    need_tensor,
    ops,
    overwrite,
    registry,
)
from rushlight.ops.elements import reduced, wide
from rushlight.ops.elementwise import Formula, cleared, masked
from rushlight.ops.families import Pointwise, Unary, conjugate
from rushlight.ops.programs import fused, is_large
from rushlight.ops.samples import Fails, S, T, unary_samples
from rushlight.tensor import Tensor, wrap

# Python numbers would be converted at each call.
ZERO = {kind.numpy: np.zeros((), kind.numpy) for kind in dtypes.ALL}
ONE = {kind: np.ones((), kind) for kind in ZERO}
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
NOT_A_TENSOR = Fails(TypeError, "must be Tensor, not float", 1.5)
SPACE = "nn.functional"
SAMPLES = [S(T(3, 4)), S(T()), S(T(0, 2))]
NOT_FOR_INTEGERS = Fails(
    NotImplementedError, "not implemented for 'Long'", T(2, dtype=dtypes.int64)
)
ERRORS = [NOT_A_TENSOR, NOT_FOR_INTEGERS]


class Tie(Pointwise):
    """``g``, with a derivative by ``x`` that is zero everywhere.

    The slope of a piecewise linear function depends on ``x``, if only at its kinks: so it is
    recorded, as in PyTorch, and second derivatives are zeros rather than missing.
    """

    function = method = False

    def check(self, g: Tensor, x: Tensor) -> Any:
        return (g, x), {}

    def eager(self, g, x):
        return g

    def vjp_g(self, g, _y, _g, _x):
        return g

    def vjp_x(self, g, _y, _g, _x):
        return ops.zeros_like(g)


def tied(g: Any, x: Any) -> Any:
    """``g``, recorded as depending on ``x`` if anything is recorded."""
    return tie(g, x) if isinstance(g, Tensor) and local.state.grad else g


tie = registry["tie"].call


def need_kind(name: str, x: Tensor, kinds: str) -> Tensor:
    """``x``, or the error if its dtype is of none of the NumPy kinds ``kinds``."""
    kind = x._array.dtype
    if kind.kind not in kinds and kind not in dtypes.HALF:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{x.dtype.storage_name}'")
    return x


def either(mask: Any, a: Any, b: Any) -> Any:
    """``a`` where ``mask`` holds, else ``b``: of tensors or arrays."""
    return ops.where(mask, a, b) if isinstance(a, Tensor) else choose(mask, a, b)


class Relu(Unary):
    """The larger of the element and zero.

    >>> rl.relu(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    kinds = "if"
    arithmetic = True
    samples = [S(T(3, 4, distinct=True)), *unary_samples()]
    errors = [*Unary.errors, Fails(RuntimeError, "Boolean inputs", T(2, dtype=dtypes.bool_))]

    def kernel(self, numpy_dtype: np.dtype) -> Any:
        if numpy_dtype.kind == "b":
            raise RuntimeError("Boolean inputs not supported for relu")
        return super().kernel(numpy_dtype)

    def eager(self, x):
        return at_least(x, ZERO[x.dtype])

    def vjp(self, g, y, _x):
        return tied(masked(y != 0, g), y)  # NaN counts as positive, as in PyTorch


class Sigmoid(Unary):
    """``1 / (1 + exp(-x))``, element by element.

    >>> rl.sigmoid(rl.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    floats = True
    fused = True
    arithmetic = True
    samples = unary_samples(-4, 4)

    def eager(self, x):
        y = np.exp(np.negative(x))
        if not x.ndim:
            return 1 / (1 + y)
        np.add(y, ONE[x.dtype], y)
        return np.reciprocal(y, y)

    def emit(self, b, x):
        return b.sigmoid(x)

    def vjp(self, g, y, _x):
        return g * conjugate((1 - y) * y)


class Logit(Formula):
    """The inverse of :func:`sigmoid`: ``log(x / (1 - x))``, of x clamped to [eps, 1 - eps].

    >>> rl.logit(rl.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """

    kinds = "bif"
    floats = True
    samples = [*unary_samples(0.1, 0.9), S(T(3, 4, low=0, high=1), eps=0.2)]
    errors = [NOT_A_TENSOR]

    def check(self, input: Tensor, eps: float | None = None) -> Any:
        return (need_tensor("logit", input),), {"eps": eps}

    def eager(self, x, *, eps):
        return kernels.logit(x, eps)

    def vjp(self, g, _y, x, *, eps):
        slope = g / (x * (1 - x))
        if eps is None or eps < 0:
            return ops.where((x < 0) | (x > 1), math.nan, slope)
        return masked((x >= eps) & (x <= 1 - eps), slope)


class Softmax(Formula):
    """``exp(x) / sum(exp(x))`` along ``dim``; ``dtype`` converts first.

    >>> rl.softmax(rl.tensor([[0.0, 0.0], [0.0, 1.0]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    """

    kinds = "f"
    inplace = False
    fused = True
    emit: Any = None
    samples = [S(T(3, 4), 1), S(T(2, 3, 4), dim=-2), S(T(), 0), S(T(0, 3), 1), S(T(2, 0), 1)]
    errors = [
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(NotImplementedError, "not implemented for 'Long'", T(3, dtype=dtypes.int64), 0),
    ]

    def check(self, input: Tensor, dim: int, dtype: dtypes.dtype | None = None) -> Any:
        return along("softmax", input, dim, dtype)

    def infer(self, arrays, attrs):
        self.kernel(arrays[0].dtype)  # which refuses what is not floating-point
        return np.empty_like(arrays[0])

    def eager(self, x, *, dim):
        y = above_maximum(x, dim)
        np.exp(y, y)
        y /= total(y, dim)
        return y

    def at(self, b, i, x, *, dim):
        e, total = above_maximum_at(b, i, x, dim)
        return b.exp(e) / total

    def folded(self, attrs, shape):
        return attrs["dim"]

    def vjp(self, g, y, _x, *, dim):
        return y * (g - (g * y).sum(dim, keepdim=True))


class LogSoftmax(Formula):
    """``log(softmax(x))`` along ``dim``, without overflow; ``dtype`` converts first.

    >>> rl.log_softmax(rl.tensor([0.0, 1.0]), dim=0)
    tensor([-1.3133, -0.3133])
    """

    kinds = "f"
    inplace = False
    fused = True
    emit: Any = None
    samples = [S(T(3, 4), 1), S(T(2, 3, 4), dim=-2), S(T(), 0), S(T(0, 3), 1), S(T(2, 0), 1)]
    errors = [
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
        Fails(NotImplementedError, "not implemented for 'Long'", T(3, dtype=dtypes.int64), 0),
    ]

    def check(self, input: Tensor, dim: int, dtype: dtypes.dtype | None = None) -> Any:
        return along("log_softmax", input, dim, dtype)

    def infer(self, arrays, attrs):
        self.kernel(arrays[0].dtype)  # which refuses what is not floating-point
        return np.empty_like(arrays[0])

    def eager(self, x, *, dim):
        y = above_maximum(x, dim)
        y -= np.log(total(np.exp(y), dim))
        return y

    def at(self, b, i, x, *, dim):
        e, total = above_maximum_at(b, i, x, dim)
        return e - b.log(total)

    def folded(self, attrs, shape):
        return attrs["dim"]

    def vjp(self, g, y, _x, *, dim):
        return g - y.exp() * g.sum(dim, keepdim=True)


def along(op: str, input: Any, dim: int, dtype: dtypes.dtype | None) -> Any:
    x = need_tensor(op, input)
    if dtype is not None:
        x = x.to(dtype)
    d = axis(dim, x.ndim)
    return (x,), {"dim": (d,) if x.ndim else ()}


def above_maximum(x: np.ndarray, dim: tuple[int, ...]) -> np.ndarray:
    """A new array: x minus its maximum along ``dim``, so that exp(·) is at most 1."""
    if not x.size:
        return x.copy()
    return np.asarray(x - np.maximum.reduce(x, dim, keepdims=True))


def above_maximum_at(b: Any, i: Any, x: Any, dim: tuple[int, ...]) -> tuple[Any, Any]:
    """x minus its maximum along ``dim``, and the sum of the exponentials of that."""
    top = reduced(b, "max", i, x, dim, True)
    total = reduced(b, "add", i, x, dim, True, lambda v: b.exp(wide(v) - top))
    return wide(x[i]) - top, total


class Threshold(Formula):
    """Elements above ``threshold``, and ``value`` in place of the others.

    >>> rl.threshold(rl.tensor([0.5, 2.0]), 1, 20)
    tensor([20.,  2.])
    """

    method = False
    kinds = "if"
    arithmetic = True
    samples = [S(T(3, 4), 0.5, 3), S(T(), 0, -1), S(T(0), 0, 0)]
    errors = [Fails(TypeError, "must be Tensor, not float", 1.5, 0, 0)]

    def check(self, input: Tensor, threshold: float, value: float) -> Any:
        return (need_tensor("threshold", input),), {"threshold": threshold, "value": value}

    def eager(self, x, *, threshold, value):
        return choose(x <= threshold, np.array(value, x.dtype), x)

    def vjp(self, g, _y, x, *, threshold, value):
        return tied(cleared(x <= threshold, g), x)


class Hardshrink(Formula):
    """Elements outside [-lambd, lambd], and 0 inside.

    >>> rl.hardshrink(rl.tensor([0.3, 1.0, -1.0]))
    tensor([ 0.,  1., -1.])
    """

    kinds = "f"
    inplace = False
    arithmetic = True
    samples = [S(T(3, 4)), S(T(3, 4), lambd=1.0), S(T()), S(T(0))]
    errors = [NOT_A_TENSOR]

    def check(self, input: Tensor, lambd: float = 0.5) -> Any:
        return (need_tensor("hardshrink", input),), {"lambd": lambd}

    def eager(self, x, *, lambd):
        return choose(np.abs(x) <= lambd, np.zeros((), x.dtype), x)

    def vjp(self, g, _y, x, *, lambd):
        return tied(masked((x < -lambd) | (x > lambd), g), x)


class Celu(Formula):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``.

    >>> rl.celu(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    method = False
    kinds = "f"
    fused = True
    arithmetic = True
    samples = [S(T(3, 4)), S(T(3, 4), alpha=0.5), S(T()), S(T(0))]
    errors = [NOT_A_TENSOR, Fails(RuntimeError, "ZeroDivisionError: alpha", T(2), alpha=0)]

    def check(self, input: Tensor, alpha: float = 1.0) -> Any:
        if alpha == 0:
            raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
        return (need_tensor("celu", input),), {"alpha": alpha}

    def eager(self, x, *, alpha):
        return elu(x, alpha, rate=1 / alpha)

    def vjp(self, g, y, x, *, alpha):
        return elu_slope(g, y, x, alpha, rate=1 / alpha)


def elu_slope(g: Any, y: Any, x: Any, alpha: float, scale: float = 1.0, rate: float = 1.0) -> Any:
    """``g`` times the slope of ``y = scale * max(0, x) + alpha * (exp(rate * min(0, x)) - 1)``."""
    below = g * ((y + alpha) * rate)
    return either(x <= 0, below, g * scale if scale != 1 else g)  # NaN counts as positive


class Selu(Unary):
    """``scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))``, which keeps activations normalised.

    >>> rl.selu(rl.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    method = False
    kinds = "f"
    fused = True
    arithmetic = True
    samples = unary_samples()

    def eager(self, x):
        return elu(x, SELU_ALPHA * SELU_SCALE, SELU_SCALE)

    def vjp(self, g, y, x):
        return elu_slope(g, y, x, SELU_ALPHA * SELU_SCALE, SELU_SCALE)


@composite(
    fused=True,
    samples=[S(T(3, 4), T(1)), S(T(2, 3, 4), T(3)), S(T(), T())],
    errors=[
        Fails(RuntimeError, "parameter numbers = 2 and channel size = 4", T(3, 4), T(2)),
        Fails(
            NotImplementedError, "for 'Long'", T(2, dtype=dtypes.int64), T(1, dtype=dtypes.int64)
        ),
    ],
)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``max(0, x) + weight * min(0, x)``, with one weight or one for each channel (dimension 1).

    >>> rl.prelu(rl.tensor([-1.0, 2.0]), rl.tensor([0.25]))
    tensor([-0.2500,  2.0000])
    """
    x, w = need_tensor("prelu", input), need_tensor("prelu", weight, "weight", 2)
    if w.ndim > 1:
        raise RuntimeError(f"prelu: Expected weight to be a scalar or 1D tensor, got {w.ndim}D")
    if x.dtype is not w.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {x.dtype} and {w.dtype}")
    if w.numel() != 1:
        channels = x.shape[1] if x.ndim > 1 else 1
        if w.numel() != channels:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{w.numel()} and channel size = {channels}."
            )
    need_kind("prelu", x, "f")
    w = w.reshape([-1] + [1] * (x.ndim - 2)) if x.ndim else w.reshape(())
    return ops.where(x > 0, x, w * x)


class Activation(Formula, abstract=True):
    """An elementwise function of one tensor whose last argument is ``inplace``.

    ``check`` returns it among the attributes, and it goes no further.
    """

    namespace = SPACE
    method = inplace = False
    kinds = "f"
    errors: Sequence[Fails] = ERRORS
    large: Callable[..., Tensor]

    def make(self) -> Callable[..., Any]:
        apply = super().apply

        def plain(x: Tensor, **attrs: Any) -> Tensor:
            return apply((x,), attrs)

        plain.__name__ = plain.__qualname__ = self.name
        self.large = fused(plain, sums=False)
        return super().make()

    def apply(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Tensor:
        x = operands[0]
        if not attrs.pop("inplace", False):
            return self.large(x, **attrs) if is_large(x) else super().apply(operands, attrs)
        check_writable(x, self.name)
        source = alias(x, edge(x) if local.state.grad else None)
        return overwrite(x, super().apply((source,), attrs), source)


class LeakyRelu(Activation):
    """``max(0, x) + negative_slope * min(0, x)``.

    >>> rl.nn.functional.leaky_relu(rl.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """

    arithmetic = True
    samples = [*SAMPLES, S(T(3, 4), 0.1), S(T(3), negative_slope=-2.0), S(T(3), 1.5)]

    def check(self, input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Any:
        x = need_tensor("leaky_relu", input)
        return (x,), {"slope": negative_slope, "inplace": inplace}

    def eager(self, x, *, slope):
        y = x * x.dtype.type(slope)
        return np.maximum(x, y) if 0 <= slope <= 1 else choose(x > 0, x, y)

    def vjp(self, g, _y, x, *, slope):
        return tied(either(x > 0, g, g * slope), x)


leaky_relu = registry["nn.functional.leaky_relu"].call


@composite(
    method=False,
    inplace=True,
    samples=[S(T(3, 4)), S(T(3, 4), 0.1, 0.2)],
    errors=[NOT_A_TENSOR],
)
def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *,
    generator: Any = None,
) -> Tensor:
    """Negative elements scaled: by a random slope in [lower, upper] in training, else the middle.

    >>> rl.rrelu(rl.tensor([-1.0, 2.0]), 0.2, 0.4)
    tensor([-0.3000,  2.0000])
    """
    x = need_tensor("rrelu", input)
    if not training:
        return leaky_relu(x, (lower + upper) / 2)
    negative = x._array <= 0
    slopes = np.ones(x.shape, x._array.dtype)
    drawn = ops.empty(int(negative.sum()), dtype=dtypes.float64)
    slopes[negative] = drawn.uniform_(lower, upper, generator=generator)._array
    return x * wrap(slopes)
