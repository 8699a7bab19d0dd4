"""How the elements of new parameters are chosen: ``rl.nn.init``.

The functions write into their tensor, whatever the gradient mode, and return it. One seed gives
PyTorch's numbers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.autograd.modes import no_grad
from rushlight.ops import ops
from rushlight.random import Generator
from rushlight.tensor import Tensor

GAINS = {
    "linear": 1,
    "conv1d": 1,
    "conv2d": 1,
    "conv3d": 1,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
    "sigmoid": 1,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much the weights before a nonlinearity are to be larger, to keep the variance.

    Args:
        nonlinearity: ``"relu"``, ``"tanh"``, ``"leaky_relu"``, …
        param: the negative slope of ``leaky_relu``.

    >>> rl.nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return GAINS[nonlinearity]


@no_grad()
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Numbers from the uniform distribution on [a, b).

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.init.uniform_(rl.empty(2))
    tensor([0.4963, 0.7682])
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Numbers from the normal distribution.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.init.normal_(rl.empty(2))
    tensor([ 1.5410, -0.2934])
    """
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Numbers from the normal distribution, of which only those in [a, b] are taken.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.init.trunc_normal_(rl.empty(3), std=10.0).abs().max() <= 2
    tensor(True)
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=2,
        )
    if normal_cdf((b - mean) / std) - normal_cdf((a - mean) / std) > 0.3:
        return tensor.copy_(redrawn_normal(tensor, mean, std, a, b, generator))
    return tensor.copy_(accepted_uniform(tensor, mean, std, a, b, generator))


def normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def redrawn_normal(
    like: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> Tensor:
    """Normal numbers, each drawn again until it lies in [a, b]."""
    low, high = like.new_tensor(a).item(), like.new_tensor(b).item()
    result = ops.empty_like(like).normal_(mean, std, generator=generator)
    while (outside := (result < low) | (result > high)).any():
        again = ops.empty_like(like).normal_(mean, std, generator=generator)
        result = ops.where(outside, again, result)
    return result


def accepted_uniform(
    like: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> Tensor:
    """Uniform numbers on [a, b], each drawn again until it is accepted with the normal density."""
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    result = ops.empty_like(like)
    pending = ops.ones_like(like, dtype=bool)
    while True:
        drawn = ops.empty_like(like).uniform_(a, b, generator=generator)
        result = ops.where(pending, drawn, result)
        log_density = drawn.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        chance = ops.empty_like(like).uniform_(generator=generator).log_()
        pending = pending & (chance > log_density)
        if not pending.any():
            return result


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """The number ``val`` everywhere.

    >>> rl.nn.init.constant_(rl.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    return tensor.fill_(val)


@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Ones.

    >>> rl.nn.init.ones_(rl.empty(2))
    tensor([1., 1.])
    """
    return tensor.fill_(1.0)


@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Zeros.

    >>> rl.nn.init.zeros_(rl.empty(2))
    tensor([0., 0.])
    """
    return tensor.zero_()


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix.

    >>> rl.nn.init.eye_(rl.empty(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(ops.eye(*tensor.shape))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that leaves as many channels as it can as they are.

    >>> rl.nn.init.dirac_(rl.empty(2, 2, 3))
    tensor([[[0., 1., 0.],
             [0., 0., 0.]],
    <BLANKLINE>
            [[0., 0., 0.],
             [0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *kernel = tensor.shape
    if outputs % groups:
        raise ValueError("dim 0 must be divisible by groups")
    tensor.zero_()
    middle = [size // 2 for size in kernel]
    in_group = outputs // groups
    for start in range(0, outputs, in_group):
        for channel in range(min(in_group, inputs)):
            place = (start + channel, channel, *middle)
            tensor[place] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output of a layer with this weight has, and outputs an input."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    outputs, inputs, *kernel = tensor.shape
    field = math.prod(kernel)
    return inputs * field, outputs * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    modes = ["fan_in", "fan_out"]
    if mode.lower() not in modes:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode.lower())]


@no_grad()
def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform on [-a, a) with a = gain · √(6 / (fan_in + fan_out)).

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.init.xavier_uniform_(rl.empty(1, 2))
    tensor([[-0.0106,  0.7586]])
    """
    bound = math.sqrt(3.0) * xavier_std(tensor, gain)
    return tensor.uniform_(-bound, bound, generator=generator)


@no_grad()
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with the standard deviation gain · √(2 / (fan_in + fan_out)).

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.init.xavier_normal_(rl.empty(1, 2))
    tensor([[ 1.2582, -0.2396]])
    """
    return tensor.normal_(0.0, xavier_std(tensor, gain), generator=generator)


def xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


@no_grad()
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform on [-b, b) with b = gain · √(3 / fan), for layers before a rectifier.

    Args:
        a: the negative slope of the rectifier.
        mode: ``"fan_in"`` keeps the variance going forward, ``"fan_out"`` going backward.
        nonlinearity: what :func:`calculate_gain` is asked for.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.init.kaiming_uniform_(rl.empty(1, 2))
    tensor([[-0.0130,  0.9291]])
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return tensor
    bound = math.sqrt(3.0) * kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.uniform_(-bound, bound, generator=generator)


@no_grad()
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with the standard deviation gain / √fan; see :func:`kaiming_uniform_`.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.init.kaiming_normal_(rl.empty(1, 2))
    tensor([[ 1.5410, -0.2934]])
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return tensor
    std = kaiming_std(tensor, a, mode, nonlinearity)
    return tensor.normal_(0.0, std, generator=generator)


def kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A random matrix with orthonormal rows (or columns, if it has more rows), times ``gain``.

    Dimensions after the first count as one.

    >>> w = rl.nn.init.orthogonal_(rl.empty(2, 3))
    >>> (w @ w.T).allclose(rl.eye(2), atol=1e-6)
    True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if not tensor.numel():
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    q, r = ops.linalg.qr(flat.T if rows < columns else flat)
    q = q * r.diagonal().sign()
    return tensor.copy_((q.T if rows < columns else q).reshape(tensor.shape)).mul_(gain)


@no_grad()
def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal numbers, of which the fraction ``sparsity`` in each column is zero.

    >>> (rl.nn.init.sparse_(rl.empty(4, 2), sparsity=0.5) == 0).sum(0)
    tensor([2, 2])
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[ops.randperm(rows)[: math.ceil(sparsity * rows)], column] = 0
    return tensor


def deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``function`` under its name without the underscore, with a warning."""
    name = function.__name__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = name[:-1]
    call.__doc__ = f"An old name of :func:`{name}`."
    return call


uniform = deprecated(uniform_)
normal = deprecated(normal_)
constant = deprecated(constant_)
eye = deprecated(eye_)
dirac = deprecated(dirac_)
xavier_uniform = deprecated(xavier_uniform_)
xavier_normal = deprecated(xavier_normal_)
kaiming_uniform = deprecated(kaiming_uniform_)
kaiming_normal = deprecated(kaiming_normal_)
orthogonal = deprecated(orthogonal_)
sparse = deprecated(sparse_)
