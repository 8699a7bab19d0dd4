"""Random numbers written over the elements of a tensor: ``uniform_``, ``normal_``, …"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy import ndarray

from rushlight import dtypes
from rushlight.kernels import distributions as draw
from rushlight.kernels.distributions import memory_order
from rushlight.layouts import whole
from rushlight.ops.base import ops
from rushlight.ops.filling import Overwrite, plain
from rushlight.ops.random import Source
from rushlight.ops.samples import Fails, S, T
from rushlight.random import chosen
from rushlight.tensor import Tensor

WRITE_SAMPLES = [
    S(plain(3, 4)),
    S(plain()),
    S(plain(0)),
    S(plain(17)),
]


def not_floating(kernel: str) -> Fails:
    return Fails(NotImplementedError, f'"{kernel}" not implemented', T(2, dtype=dtypes.int64))


def drawn(x: Tensor, generator: Source, **attrs: Any) -> Any:
    """The operands and attributes of a draw, which fills ``x`` in the order of its memory."""
    return (x,), {**attrs, "order": memory_order(x._array), "generator": chosen(generator)}


class Draw(Overwrite, abstract=True):
    """An op that writes random numbers."""

    def compute_into(self, arrays: Sequence[Any], attrs: Mapping[str, Any], out: ndarray) -> None:
        self.write(out, *arrays[1:], **attrs)


class Uniform(Draw):
    """Writes numbers from the uniform distribution on [from, to).

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(2).uniform_(-1, 1)
    tensor([-0.0075,  0.5364])
    """

    name = "uniform_"
    samples = [*WRITE_SAMPLES, S(plain(3), -1.0, 2.0), S(plain(3), to=2.0)]
    errors = [
        Fails(RuntimeError, "from=1 > to=0", T(2), 1.0, 0.0),
        not_floating("check_uniform_bounds"),
    ]

    def check(
        self, input: Tensor, from_: float = 0, to: float = 1, *, generator: Source = None
    ) -> Any:
        return drawn(input, generator, low=float(from_), high=float(to))

    def write(self, x, *, low, high, order, generator):
        target = x.transpose(order)
        draw.uniform(generator, target.shape, x.dtype, low, high, out=target)


class NormalInPlace(Draw):
    """Writes numbers from the normal distribution.

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(2).normal_(mean=1, std=2)
    tensor([4.0820, 0.4131])
    """

    name = "normal_"
    samples = [*WRITE_SAMPLES, S(plain(3), 1.0, 2.0), S(plain(3), mean=1, std=2)]
    errors = [
        Fails(RuntimeError, "std >= 0.0, but found std -1", T(2), 0.0, -1.0),
        not_floating("normal_kernel_cpu"),
    ]

    def check(
        self, input: Tensor, mean: float = 0, std: float = 1, *, generator: Source = None
    ) -> Any:
        whole = input._array.flags.c_contiguous
        return drawn(input, generator, mean=float(mean), std=float(std), contiguous=whole)

    def write(self, x, *, mean, std, contiguous, order, generator):
        target = x.transpose(order)
        draw.normal(generator, target.shape, x.dtype, mean, std, contiguous=contiguous, out=target)


class LogNormal(Draw):
    """Writes numbers whose logarithms are from the normal distribution.

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(2).log_normal_(mean=0, std=1)
    tensor([4.6692, 0.7457])
    """

    name = "log_normal_"
    samples = [*WRITE_SAMPLES, S(plain(3), 1.0, 2.0), S(plain(3), mean=0, std=2)]
    errors = [
        Fails(RuntimeError, "std > 0.0, but found std=-1", T(2), 0.0, -1.0),
        not_floating("log_normal_cpu"),
    ]

    def check(
        self, input: Tensor, mean: float = 1, std: float = 2, *, generator: Source = None
    ) -> Any:
        return drawn(input, generator, mean=float(mean), std=float(std))

    def write(self, x, *, mean, std, order, generator):
        target = x.transpose(order)
        target[...] = draw.log_normal(generator, target.shape, x.dtype, mean, std)


class Exponential(Draw):
    """Writes numbers from the exponential distribution with the rate ``lambd``.

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(2).exponential_()
    tensor([3.5083, 1.2304])
    """

    name = "exponential_"
    samples = [*WRITE_SAMPLES, S(plain(3), 2.0), S(plain(3), lambd=2.0)]
    errors = [
        Fails(RuntimeError, "lambda > 0.0, but found lambda=-1", T(2), -1.0),
        Fails(RuntimeError, "continuous probability distribution", T(2, dtype=dtypes.int64)),
    ]

    def check(self, input: Tensor, lambd: float = 1, *, generator: Source = None) -> Any:
        return drawn(input, generator, rate=float(lambd))

    def write(self, x, *, rate, order, generator):
        target = x.transpose(order)
        draw.exponential(generator, target.shape, x.dtype, rate, out=target)


class Cauchy(Draw):
    """Writes numbers from the Cauchy distribution.

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(2).cauchy_()
    tensor([10.5977,  0.7648])
    """

    name = "cauchy_"
    samples = [*WRITE_SAMPLES, S(plain(3), 1.0, 2.0), S(plain(3), sigma=2.0)]
    errors = [
        Fails(RuntimeError, "sigma > 0.0, but found sigma=-1", T(2), 0.0, -1.0),
        Fails(RuntimeError, "continuous probability distribution", T(2, dtype=dtypes.int64)),
    ]

    def check(
        self, input: Tensor, median: float = 0, sigma: float = 1, *, generator: Source = None
    ) -> Any:
        return drawn(input, generator, median=float(median), sigma=float(sigma))

    def write(self, x, *, median, sigma, order, generator):
        target = x.transpose(order)
        target[...] = draw.cauchy(generator, target.shape, x.dtype, median, sigma)


class Geometric(Draw):
    """Writes how many trials, each of probability ``p``, it takes until the first success.

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(3).geometric_(0.5)
    tensor([1., 1., 2.])
    """

    name = "geometric_"
    samples = [S(*s.args, 0.4) for s in WRITE_SAMPLES]
    errors = [Fails(RuntimeError, r"p to be in \(0, 1\), but got p=1.5", T(2), 1.5)]

    def check(self, input: Tensor, p: float, *, generator: Source = None) -> Any:
        return drawn(input, generator, p=float(p))

    def write(self, x, *, p, order, generator):
        target = x.transpose(order)
        target[...] = draw.geometric(generator, target.shape, x.dtype, p)


class BernoulliInPlace(Draw):
    """Writes ones with the probability ``p``, a number or a tensor, and zeros otherwise.

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(4).bernoulli_(0.5)
    tensor([0., 0., 1., 0.])
    """

    name = "bernoulli_"
    operands = ("x", "p")
    samples = [
        *WRITE_SAMPLES,
        S(plain(3), 0.2),
        S(plain(2, 3), plain(3, low=0.1, high=0.9)),
    ]
    errors = [
        Fails(RuntimeError, r"p to be in \[0, 1\], but got p=2", T(2), 2.0),
        Fails(RuntimeError, "p_in >= 0 && p_in <= 1", T(2), T(2, low=2, high=3)),
    ]

    def check(self, input: Tensor, p: Tensor | float = 0.5, *, generator: Source = None) -> Any:
        each = isinstance(p, Tensor)
        _, attrs = drawn(input, generator, chance=None if each else float(p))
        return (input, p if each else None), attrs

    def write(self, x, p, *, chance, order, generator):
        if p is not None:
            x[...] = draw.bernoulli(generator, x.shape, x.dtype, p)
        else:
            target = x.transpose(order)
            draw.bernoulli(generator, target.shape, x.dtype, chance, out=target)

    def decompose(self, x, p, *, chance, **attrs):
        """A program keeps the bytes of a mask, a quarter of what its numbers take."""
        if chance is None or x.dtype.category != dtypes.FLOAT:
            return NotImplemented
        bits = ops.empty(x.shape, dtype=dtypes.bool_)
        return self.apply((bits, None), {"chance": chance, **attrs}).to(x.dtype)

    def vjp_p(self, _g, _y, _x, p, **attrs):
        return ops.zeros_like(p)


class Random(Draw):
    """Writes whole numbers from ``from`` to ``to - 1``: ``random_(to)``, ``random_(from, to)``.

    Without bounds they go up to the largest number of the dtype, of a floating-point one up to
    2 to the power of the bits of its mantissa.

    >>> _ = rl.manual_seed(0)
    >>> rl.empty(3).random_(10)
    tensor([4., 9., 3.])
    """

    name = "random_"
    samples = [
        *WRITE_SAMPLES,
        S(plain(3), 5),
        S(plain(3), -5, 5),
        S(plain(3), 3, None),
        S(plain(3), to=5),
    ]
    errors = [
        Fails(RuntimeError, "'from' to be less than 'to'", T(2), 10, 5),
        Fails(TypeError, "argument 'to' must be int, not float", T(2), 2.5),
    ]

    def check(
        self, input: Tensor, *bounds: int | None, to: int | None = None, generator: Source = None
    ) -> Any:
        if to is not None:
            bounds = (*bounds, to)
        if len(bounds) > 2:
            raise TypeError(f"random_() takes (from, to), (to) or (), got {bounds}")
        low, high = (0, *bounds) if len(bounds) == 1 else bounds or (None, None)
        low = None if low is None else whole(low, "random_", "from")
        high = None if high is None else whole(high, "random_", "to")
        return drawn(input, generator, low=low, high=high)

    def write(self, x, *, low, high, order, generator):
        target = x.transpose(order)
        if low is None:
            target[...] = draw.any_integers(generator, target.shape, x.dtype)
        else:
            draw.integers(generator, target.shape, x.dtype, low, high, out=target)
