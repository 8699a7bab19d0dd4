"""The activation functions of networks, under ``rl.nn.functional``."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import activation as kernels
from rushlight.kernels import scalars, tables
from rushlight.kernels.select import between, choose
from rushlight.layouts import contiguous_format
from rushlight.ops import inplace as in_place_functions  # noqa: F401 - relu_, selu_, …
from rushlight.ops.activation import (
    ERRORS,
    NOT_A_TENSOR,
    NOT_FOR_INTEGERS,
    SAMPLES,
    SPACE,
    Activation,
    either,
    elu_slope,
    need_kind,
    tied,
)
from rushlight.ops.base import axis, composite, in_place, need_tensor, ops, registry
from rushlight.ops.elementwise import Formula, cleared, masked
from rushlight.ops.families import Unary
from rushlight.ops.programs import fused
from rushlight.ops.samples import Fails, S, T, unary_samples
from rushlight.tensor import Tensor


@composite(namespace=SPACE, method=False, samples=SAMPLES, errors=[NOT_A_TENSOR])
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """``max(0, x)``, element by element; ``inplace`` writes it over ``input``.

    >>> rl.nn.functional.relu(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return ops.relu_(input) if inplace else ops.relu(input)


@composite(namespace=SPACE, method=False, samples=SAMPLES, errors=ERRORS)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))``, which keeps activations normalised.

    >>> rl.nn.functional.selu(rl.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """
    return ops.selu_(input) if inplace else ops.selu(input)


@composite(
    namespace=SPACE,
    method=False,
    samples=[*SAMPLES, S(T(3, 4), 0.5), S(T(3), alpha=2.0)],
    errors=[*ERRORS, Fails(RuntimeError, "ZeroDivisionError: alpha", T(2), alpha=0)],
)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``.

    >>> rl.nn.functional.celu(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return ops.celu_(input, alpha) if inplace else ops.celu(input, alpha)


@composite(
    namespace=SPACE,
    method=False,
    samples=[*SAMPLES, S(T(3, 4), 0.1, 0.2)],
    errors=[NOT_A_TENSOR],
)
def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Negative elements scaled: by a random slope in [lower, upper] in training, else the middle.

    >>> rl.nn.functional.rrelu(rl.tensor([-1.0, 2.0]), 0.2, 0.4)
    tensor([-0.3000,  2.0000])
    """
    return (ops.rrelu_ if inplace else ops.rrelu)(input, lower, upper, training)


@composite(
    namespace=SPACE,
    method=False,
    samples=[S(T(3, 4), 0.5, 3), S(T(), 0, -1), S(T(0), threshold=0, value=0)],
    errors=[Fails(TypeError, "must be Tensor, not float", 1.5, 0, 0)],
)
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Elements above ``threshold``, and ``value`` in place of the others.

    >>> rl.nn.functional.threshold(rl.tensor([0.5, 2.0]), 1, 20)
    tensor([20.,  2.])
    """
    return (ops.threshold_ if inplace else ops.threshold)(input, threshold, value)


class Elu(Activation):
    """``max(0, x) + min(0, alpha * (exp(x) - 1))``.

    >>> rl.nn.functional.elu(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    arithmetic = True
    samples = [*SAMPLES, S(T(3, 4), 0.5), S(T(3), alpha=2.0)]

    def check(self, input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Any:
        return (need_tensor("elu", input),), {"alpha": alpha, "inplace": inplace}

    def eager(self, x, *, alpha):
        return kernels.elu(x, alpha)

    def vjp(self, g, y, x, *, alpha):
        return elu_slope(g, y, x, alpha)


class Hardtanh(Activation):
    """``x`` cut to [min_val, max_val].

    >>> rl.nn.functional.hardtanh(rl.tensor([-3.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    kinds = "if"
    arithmetic = True
    samples = [*SAMPLES, S(T(3, 4), -0.5, 1.5), S(T(3), min_val=0.0, max_val=1.0)]
    errors = [
        NOT_A_TENSOR,
        Fails(ValueError, "min_val cannot be greater than max_val", T(2), 1.0, -1.0),
        Fails(RuntimeError, "unsigned type with negative limits", T(2, dtype=dtypes.uint8)),
        Fails(RuntimeError, "type uint8 without overflow", T(2, dtype=dtypes.uint8), 0, 300),
        Fails(RuntimeError, "Bool inputs not supported", T(2, dtype=dtypes.bool_)),
    ]

    def check(
        self, input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
    ) -> Any:
        if min_val > max_val:
            raise ValueError(
                f"min_val cannot be greater than max_val, got [{min_val}, {max_val}] in hardtanh"
            )
        x = need_tensor("hardtanh", input)
        if not x.is_floating_point():
            min_val, max_val = self.whole(x, min_val), self.whole(x, max_val)
        return (x,), {"low": min_val, "high": max_val, "inplace": inplace}

    def whole(self, x: Tensor, bound: float) -> int:
        """``bound`` cut to a number that the dtype of ``x`` has."""
        kind, number = x._array.dtype, int(bound)
        if kind.kind == "b":
            raise RuntimeError("Bool inputs not supported for hardtanh")
        if kind.kind == "u" and number < 0:
            raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
        if kind.kind in "iu" and not np.iinfo(kind).min <= number <= np.iinfo(kind).max:
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
        return number

    def eager(self, x, *, low, high):
        number = x.dtype.type
        return between(x, number(low), number(high))

    def vjp(self, g, _y, x, *, low, high):
        return tied(cleared((x <= low) | (x >= high), g), x)


@composite(namespace=SPACE, method=False, samples=SAMPLES, errors=[NOT_A_TENSOR])
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(0, x), 6)``.

    >>> rl.nn.functional.relu6(rl.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


class Hardsigmoid(Activation):
    """``min(max(0, x + 3), 6) / 6``: straight lines in place of :func:`sigmoid`.

    >>> rl.nn.functional.hardsigmoid(rl.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    arithmetic = True
    samples = [*SAMPLES, S(T(3, 4, low=-5, high=5))]

    def check(self, input: Tensor, inplace: bool = False) -> Any:
        return (need_tensor("hardsigmoid", input),), {"inplace": inplace}

    def eager(self, x):
        number = x.dtype.type
        return between(x + number(3), number(0), number(6)) / number(6)

    def vjp(self, g, _y, x):
        return tied(masked((x > -3) & (x < 3), g / 6), x)


class Hardswish(Activation):
    """``x * min(max(0, x + 3), 6) / 6``.

    >>> rl.nn.functional.hardswish(rl.tensor([-4.0, 1.5, 4.0]))
    tensor([-0.0000,  1.1250,  4.0000])
    """

    arithmetic = True
    samples = [*SAMPLES, S(T(3, 4, low=-5, high=5))]

    def check(self, input: Tensor, inplace: bool = False) -> Any:
        return (need_tensor("hardswish", input),), {"inplace": inplace}

    def eager(self, x):
        number = x.dtype.type
        y = between(x + number(3), number(0), number(6)) * x
        return y / number(6)

    def vjp(self, g, _y, x):
        return either(x < 3, cleared(x <= -3, g * (x / 3 + 0.5)), g)


@functools.partial(fused, sums=False)
def swish(x: Tensor) -> Tensor:
    """:func:`silu` of a new tensor: programs do not write over what gradients depend on."""
    if x._array.dtype in dtypes.HALF:
        return swish(x.float()).to(x.dtype)
    return x * x.sigmoid()


@composite(namespace=SPACE, method=False, kinds="fc", samples=SAMPLES, errors=ERRORS)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``x * sigmoid(x)``, also called swish.

    >>> rl.nn.functional.silu(rl.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    x = need_kind("silu", need_tensor("silu", input), "fc")
    return silu_(x) if inplace else swish(x)


class Mish(Activation):
    """``x * tanh(log(1 + exp(x)))``.

    >>> rl.nn.functional.mish(rl.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    samples = [*SAMPLES, S(T(3, 4, low=-30, high=30))]

    def check(self, input: Tensor, inplace: bool = False) -> Any:
        return (need_tensor("mish", input),), {"inplace": inplace}

    def eager(self, x):
        # tanh(log(1 + w)) = n / (n + 2) with n = w² + 2w; from x = 20 on it rounds to 1
        w = np.exp(np.minimum(x, x.dtype.type(20)))
        n = w * w + (w + w)
        return x * (n / (n + 2))

    def vjp(self, g, _y, x):
        t = softplus(x).tanh()
        return g * (t + x * (1 - t * t) * x.sigmoid())


class NormalCdf(Unary):
    """The distribution function of the standard normal law, at the speed of an activation."""

    function = method = inplace = False
    kinds = "f"

    def eager(self, x):
        return kernels.normal_cdf(x)

    def emit(self, b, x):
        if x.kind == "f64":
            return super().emit(b, x)
        # P(|X| > |x|) is the fourth power of a polynomial: no exponential, no quotient.
        root = scalars.polynomial(b, tables.NDTR_ROOT, abs(x))
        root = b.where(root < 0, 0, root)
        square = root * root
        tail = square * (square * 0.5)
        return b.where(x < 0, tail, 1 - tail)

    def vjp(self, g, _y, x):
        return g * (math.sqrt(0.5 / math.pi) * (x * x * -0.5).exp())


normal_cdf = registry["normal_cdf"].call


@composite(
    fused=True,
    sums=False,
    namespace=SPACE,
    method=False,
    samples=[*SAMPLES, S(T(3, 4, low=-6, high=6)), S(T(3, 4), approximate="tanh")],
    errors=[
        *ERRORS,
        Fails(RuntimeError, "approximate argument must be either none or tanh", T(2), "erf"),
        Fails(NotImplementedError, "for 'Long'", T(2, dtype=dtypes.int64), "tanh"),
    ],
)
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``x * P(X <= x)`` for a standard normal X.

    Args:
        approximate: ``"tanh"`` for ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³))) / 2``

    >>> rl.nn.functional.gelu(rl.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    x = need_tensor("gelu", input)
    if x._array.dtype in dtypes.HALF:
        return gelu(x.float(), approximate).to(x.dtype)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(
            f"approximate argument must be either none or tanh, got {approximate!r} in gelu"
        )
    need_kind("gelu", x, "f")
    if approximate == "none":
        return x * normal_cdf(x)
    twice = 2 * math.sqrt(2 / math.pi)  # (1 + tanh(z)) / 2 is sigmoid(2z)
    return x * (x * (x * x * (twice * 0.044715) + twice)).sigmoid()


class Softplus(Formula):
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x`` is above ``threshold``.

    >>> rl.nn.functional.softplus(rl.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    namespace = SPACE
    method = inplace = False
    kinds = "f"
    fused = True
    samples = [*SAMPLES, S(T(3, 4), 2.0), S(T(3, 4), beta=0.5, threshold=0.4)]
    errors = ERRORS

    def check(self, input: Tensor, beta: float = 1, threshold: float = 20) -> Any:
        return (need_tensor("softplus", input),), {"beta": beta, "threshold": threshold}

    def eager(self, x, *, beta, threshold):
        beta = x.dtype.type(beta)
        z = x * beta
        return choose(z > threshold, x, kernels.softplus(z) / beta)

    def vjp(self, g, _y, x, *, beta, threshold):
        z = x * beta
        return ops.where(z > threshold, g, g * z.sigmoid())


class Logsigmoid(Unary):
    """``log(1 / (1 + exp(-x)))``, without overflow.

    >>> rl.nn.functional.logsigmoid(rl.tensor([-100.0, 0.0]))
    tensor([-100.0000,   -0.6931])
    """

    namespace = SPACE
    method = inplace = False
    kinds = "f"
    fused = True
    samples = [*unary_samples(), S(T(3, low=-100, high=100))]
    errors = [*Unary.errors, NOT_FOR_INTEGERS]

    def eager(self, x):
        return -kernels.softplus(-x)

    def vjp(self, g, _y, x):
        return g * (-x).sigmoid()


class Softshrink(Formula):
    """``x`` moved by ``lambd`` towards zero, and 0 in [-lambd, lambd].

    >>> rl.nn.functional.softshrink(rl.tensor([-1.5, 0.3, 1.0]))
    tensor([-1.0000,  0.0000,  0.5000])
    """

    namespace = SPACE
    method = inplace = False
    kinds = "f"
    fused = True
    arithmetic = True
    samples = [*SAMPLES, S(T(3, 4), 1.0), S(T(3), lambd=0.0)]
    errors = [
        *ERRORS,
        Fails(RuntimeError, "lambda must be greater or equal to 0, but found to be -1", T(2), -1),
    ]

    def check(self, input: Tensor, lambd: float = 0.5) -> Any:
        if not lambd >= 0:
            raise RuntimeError(
                f"lambda must be greater or equal to 0, but found to be {lambd}. [softshrink]"
            )
        return (need_tensor("softshrink", input),), {"lambd": lambd}

    def eager(self, x, *, lambd):
        bound = x.dtype.type(lambd)
        return x - between(x, -bound, bound)

    def vjp(self, g, _y, x, *, lambd):
        return tied(cleared((x >= -lambd) & (x <= lambd), g), x)


@composite(
    namespace=SPACE,
    method=False,
    kinds="ifc",
    samples=SAMPLES,
    errors=[NOT_A_TENSOR],
)
def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)``.

    >>> rl.nn.functional.tanhshrink(rl.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """
    x = need_tensor("tanhshrink", input)
    return x - x.tanh()


@composite(
    namespace=SPACE,
    method=False,
    kinds="ifc",
    samples=SAMPLES,
    errors=[NOT_A_TENSOR],
)
def softsign(input: Tensor) -> Tensor:
    """``x / (1 + |x|)``.

    >>> rl.nn.functional.softsign(rl.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    x = need_tensor("softsign", input)
    return x / (x.abs() + 1)


@composite(
    namespace=SPACE,
    method=False,
    samples=[S(T(3, 4)), S(T(2, 6, 3), 1), S(T(2, 0)), S(T(4, 3), dim=0)],
    errors=[
        Fails(RuntimeError, "glu does not support scalars", T()),
        Fails(RuntimeError, r"must be even, but dimension 1 is size 3", T(2, 3)),
        Fails(IndexError, "range of", T(2, 4), 2),
        NOT_FOR_INTEGERS,
    ],
)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)``, where a and b are the halves of ``input`` along ``dim``.

    >>> rl.nn.functional.glu(rl.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """
    x = need_tensor("glu", input)
    if not x.ndim:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    d = axis(dim, x.ndim)
    if x.shape[d] % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {d} is size {x.shape[d]}"
        )
    need_kind("glu", x, "f")
    half = x.shape[d] // 2
    return x.narrow(d, 0, half) * x.narrow(d, half, half).sigmoid()


def implied_dim(name: str, x: Tensor, stacklevel: int) -> int:
    """The dimension that a softmax without ``dim`` goes along, with PyTorch's warning."""
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel + 1,  # the function is wrapped, to take NumPy's axis= as well
    )
    return 0 if x.ndim in (0, 1, 3) else 1


ALONG_SAMPLES = [S(T(3, 4), 1), S(T(2, 3, 4), dim=-2), S(T(3), 0, dtype=dtypes.float64)]
ALONG_SAMPLES += [S(T(), 0), S(T(0, 3), 1), S(T(3, 4)), S(T(2, 3, 4))]
ALONG_ERRORS = [
    Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), 2),
    Fails(NotImplementedError, "not implemented for 'Long'", T(3, dtype=dtypes.int64), 0),
    Fails(TypeError, "must be Tensor, not float", 1.5, 0),
]


@composite(namespace=SPACE, method=False, samples=ALONG_SAMPLES, errors=ALONG_ERRORS)
def softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``; ``dtype`` converts first.

    >>> rl.nn.functional.softmax(rl.tensor([[0.0, 0.0], [0.0, 1.0]]), dim=1)
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    """
    if dim is None:
        dim = implied_dim("softmax", need_tensor("softmax", input), _stacklevel)
    return ops.softmax(input, dim, dtype)


@composite(namespace=SPACE, method=False, samples=ALONG_SAMPLES, errors=ALONG_ERRORS)
def log_softmax(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """``log(softmax(x))`` along ``dim``, without overflow; ``dtype`` converts first.

    >>> rl.nn.functional.log_softmax(rl.tensor([0.0, 1.0]), dim=0)
    tensor([-1.3133, -0.3133])
    """
    if dim is None:
        dim = implied_dim("log_softmax", need_tensor("log_softmax", input), _stacklevel)
    return ops.log_softmax(input, dim, dtype)


@composite(namespace=SPACE, method=False, samples=ALONG_SAMPLES, errors=ALONG_ERRORS)
def softmin(
    input: Tensor,
    dim: int | None = None,
    _stacklevel: int = 3,
    dtype: dtypes.dtype | None = None,
) -> Tensor:
    """``exp(-x) / sum(exp(-x))`` along ``dim``; ``dtype`` converts first.

    >>> rl.nn.functional.softmin(rl.tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    x = need_tensor("softmin", input)
    if dim is None:
        dim = implied_dim("softmin", x, _stacklevel)
    return ops.softmax(-x, dim, dtype)


@composite(
    namespace=SPACE,
    method=False,
    samples=[S(T(3, 4)), S(T(3, 4), 0.5, dim=0), S(T(3, 4), tau=2.0)],
    errors=[Fails(IndexError, "range of", T(3, 4), dim=2), NOT_A_TENSOR],
)
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution: ``softmax((logits + noise) / tau)``.

    Args:
        tau: the temperature; the smaller, the nearer the sample is to a single one
        hard: returns one-hot samples, with the gradients of soft ones
        eps: has no effect

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.functional.gumbel_softmax(rl.tensor([[0.0, 1.0, 2.0]]), hard=True)
    tensor([[0., 0., 1.]])
    """
    x = need_tensor("gumbel_softmax", logits, "logits")
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -ops.empty_like(x, memory_format=contiguous_format).exponential_().log()
    soft = ((x + noise) / tau).softmax(dim)
    if not hard:
        return soft
    ones = ops.zeros_like(soft).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
    return ones - soft.detach() + soft


hardtanh, softplus, logsigmoid = [
    registry[f"{SPACE}.{name}"].call for name in ("hardtanh", "softplus", "logsigmoid")
]
silu_ = in_place(registry[f"{SPACE}.silu"])

# PyTorch serves these under its top name and here.
SHARED = "sigmoid tanh prelu hardshrink relu_ selu_ celu_ rrelu_ threshold_"
vars(ops.__dict__[SPACE]).update({name: getattr(ops, name) for name in SHARED.split()})
for name in ("elu", "leaky_relu", "hardtanh"):
    write = in_place(registry[f"{SPACE}.{name}"])
    write.__module__ = f"rushlight.{SPACE}"
    setattr(ops.__dict__[SPACE], f"{name}_", write)
