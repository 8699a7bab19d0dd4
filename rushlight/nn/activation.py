"""Layers that apply an activation function."""

from __future__ import annotations

import warnings

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn import init as initial
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import ops
from rushlight.tensor import Tensor


class _InPlace(Module):
    """A layer whose one choice is whether it writes over its input."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _parameters(inplace: bool, **values: object) -> str:
    """The parameters of a layer as it is printed."""
    words = [f"{name}={value}" for name, value in values.items()]
    return ", ".join([*words, "inplace=True"] if inplace else words)


class ReLU(_InPlace):
    """``max(0, x)``, element by element.

    Args:
        inplace: whether to write the result over the input

    >>> rl.nn.ReLU()(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SELU(_InPlace):
    """``1.0507 * (max(0, x) + min(0, 1.6733 * (exp(x) - 1)))``.

    With weights of mean 0 and variance 1/n it keeps activations normalised; see
    :class:`AlphaDropout` for dropout that does.

    >>> rl.nn.SELU()(rl.tensor([-1.0, 2.0]))
    tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InPlace):
    """``x * sigmoid(x)``, also called swish.

    >>> rl.nn.SiLU()(rl.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """``x * tanh(log(1 + exp(x)))``.

    >>> rl.nn.Mish()(rl.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardsigmoid(_InPlace):
    """``min(max(0, x + 3), 6) / 6``.

    >>> rl.nn.Hardsigmoid()(rl.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """``x * min(max(0, x + 3), 6) / 6``.

    >>> rl.nn.Hardswish()(rl.tensor([1.5, 4.0]))
    tensor([1.1250, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class LeakyReLU(Module):
    """``max(0, x) + negative_slope * min(0, x)``.

    Args:
        negative_slope: the slope below zero
        inplace: whether to write the result over the input

    >>> rl.nn.LeakyReLU(0.1)(rl.tensor([-1.0, 2.0]))
    tensor([-0.1000,  2.0000])
    """

    __constants__ = ["inplace", "negative_slope"]
    inplace: bool
    negative_slope: float

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _parameters(self.inplace, negative_slope=self.negative_slope)


class RReLU(Module):
    """:class:`LeakyReLU` with slopes drawn from [lower, upper] in training, else their middle.

    Args:
        lower, upper: the bounds of the slopes below zero
        inplace: whether to write the result over the input

    >>> rl.nn.RReLU(0.2, 0.4).eval()(rl.tensor([-1.0, 2.0]))
    tensor([-0.3000,  2.0000])
    """

    __constants__ = ["lower", "upper", "inplace"]
    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _parameters(self.inplace, lower=self.lower, upper=self.upper)


class PReLU(Module):
    """``max(0, x) + weight * min(0, x)``, with slopes that are learnt.

    Args:
        num_parameters: 1, or the number of channels (dimension 1)
        init: the slope to begin with

    >>> rl.nn.PReLU()(rl.tensor([-1.0, 2.0])).detach()
    tensor([-0.2500,  2.0000])
    """

    __constants__ = ["num_parameters"]
    num_parameters: int

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(ops.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets all slopes to ``init``."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class ELU(Module):
    """``max(0, x) + min(0, alpha * (exp(x) - 1))``.

    Args:
        alpha: minus the limit on the left
        inplace: whether to write the result over the input

    >>> rl.nn.ELU()(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    __constants__ = ["alpha", "inplace"]
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _parameters(self.inplace, alpha=self.alpha)


class CELU(Module):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``.

    Args:
        alpha: minus the limit on the left
        inplace: whether to write the result over the input

    >>> rl.nn.CELU()(rl.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """

    __constants__ = ["alpha", "inplace"]
    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _parameters(self.inplace, alpha=self.alpha)


class Threshold(Module):
    """Elements above ``threshold``, and ``value`` in place of the others.

    >>> rl.nn.Threshold(1, 20)(rl.tensor([0.5, 2.0]))
    tensor([20.,  2.])
    """

    __constants__ = ["threshold", "value", "inplace"]
    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _parameters(self.inplace, threshold=self.threshold, value=self.value)


class Hardtanh(Module):
    """``x`` cut to [min_val, max_val].

    Args:
        min_val, max_val: the bounds; ``min_value`` and ``max_value`` are their old names
        inplace: whether to write the result over the input

    >>> rl.nn.Hardtanh()(rl.tensor([-3.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """

    __constants__ = ["min_val", "max_val", "inplace"]
    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, value in (("min_value", min_value), ("max_value", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}` is deprecated and rename to `{old[:7]}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if not self.max_val > self.min_val:
            raise AssertionError(
                f"max_val must be larger than min_val, got [{self.min_val}, {self.max_val}]"
            )

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _parameters(self.inplace, min_val=self.min_val, max_val=self.max_val)


class ReLU6(Hardtanh):
    """``min(max(0, x), 6)``.

    >>> rl.nn.ReLU6()(rl.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    >>> rl.nn.Sigmoid()(rl.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        return ops.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> rl.nn.Tanh()(rl.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return ops.tanh(input)


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))``.

    >>> rl.nn.LogSigmoid()(rl.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + |x|)``.

    >>> rl.nn.Softsign()(rl.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``.

    >>> rl.nn.Tanhshrink()(rl.tensor([0.0, 2.0]))
    tensor([0.0000, 1.0360])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Hardshrink(Module):
    """Elements outside [-lambd, lambd], and 0 inside.

    >>> rl.nn.Hardshrink()(rl.tensor([0.3, 1.0]))
    tensor([0., 1.])
    """

    __constants__ = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Module):
    """``x`` moved by ``lambd`` towards zero, and 0 in [-lambd, lambd].

    >>> rl.nn.Softshrink()(rl.tensor([-1.5, 0.3]))
    tensor([-1.,  0.])
    """

    __constants__ = ["lambd"]
    lambd: float

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x`` is above ``threshold``.

    >>> rl.nn.Softplus()(rl.tensor([-1.0, 0.0]))
    tensor([0.3133, 0.6931])
    """

    __constants__ = ["beta", "threshold"]
    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class GELU(Module):
    """``x * P(X <= x)`` for a standard normal X.

    Args:
        approximate: ``"tanh"`` for ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³))) / 2``

    >>> rl.nn.GELU()(rl.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """

    __constants__ = ["approximate"]
    approximate: str

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class GLU(Module):
    """``a * sigmoid(b)``, where a and b are the halves of the input along ``dim``.

    >>> rl.nn.GLU()(rl.tensor([1.0, 2.0, 0.0, 0.0]))
    tensor([0.5000, 1.0000])
    """

    __constants__ = ["dim"]
    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _Along(Module):
    """A layer whose one choice is the dimension that it goes along."""

    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Along):
    """``exp(x) / sum(exp(x))`` along ``dim``.

    >>> rl.nn.Softmax(dim=1)(rl.tensor([[0.0, 1.0]]))
    tensor([[0.2689, 0.7311]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_Along):
    """``log(softmax(x))`` along ``dim``.

    >>> rl.nn.LogSoftmax(dim=1)(rl.tensor([[0.0, 1.0]]))
    tensor([[-1.3133, -0.3133]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_Along):
    """``exp(-x) / sum(exp(-x))`` along ``dim``.

    >>> rl.nn.Softmin(dim=1)(rl.tensor([[0.0, 1.0]]))
    tensor([[0.7311, 0.2689]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of an (N, C, H, W) or (C, H, W) tensor, at each place by itself.

    >>> rl.nn.Softmax2d()(rl.zeros(2, 1, 1)).flatten()
    tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3, _stacklevel=5)
