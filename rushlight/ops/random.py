"""Random tensors; the same seed gives the numbers that PyTorch draws on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.kernels import distributions as draw
from rushlight.kernels.poisson import poisson
from rushlight.layouts import shape_of, whole
from rushlight.ops.base import Op, composite, need_tensor, ops
from rushlight.ops.creation import SIZE_ERRORS, SIZE_SAMPLES, Factory, numpy_kind
from rushlight.ops.filling import plain
from rushlight.ops.samples import Fails, S, T
from rushlight.random import Generator, chosen
from rushlight.tensor import Tensor

Source = Generator | None
NOT_FLOATING = Fails(NotImplementedError, "not implemented for 'Long'", 2, dtype=dtypes.int64)
NO_GENERATOR = Fails(TypeError, "'generator' must be rushlight.Generator, not int", 2, generator=3)
FLOATING_SAMPLES = [s for s in SIZE_SAMPLES if "dtype" not in s.kwargs]
FLOATING_ERRORS = [s for s in SIZE_ERRORS if "requires_grad" not in s.kwargs]


def sized(name: str, size: tuple, dtype: Any, generator: Source) -> dict[str, Any]:
    kind = numpy_kind(dtype)
    return {"size": shape_of(name, size, kind), "kind": kind, "generator": chosen(generator)}


class Rand(Factory):
    """Numbers from the uniform distribution on [0, 1), in a tensor of the given sizes.

    >>> _ = rl.manual_seed(0)
    >>> rl.rand(3)
    tensor([0.4963, 0.7682, 0.0885])
    """

    variadic = True
    samples = FLOATING_SAMPLES
    errors = [*FLOATING_ERRORS, NOT_FLOATING, NO_GENERATOR]

    def check(
        self,
        *size: int | Sequence[int],
        generator: Source = None,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        return (), sized("rand", size, dtype, generator)

    def eager(self, *, size, kind, generator):
        return draw.uniform(generator, size, kind)

    def compute_into(self, _: Sequence[Any], attrs: Mapping[str, Any], out: np.ndarray) -> None:
        draw.uniform(attrs["generator"], out.shape, out.dtype, out=out)


class Randn(Factory):
    """Numbers from the normal distribution with mean 0 and variance 1.

    >>> _ = rl.manual_seed(0)
    >>> rl.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    """

    variadic = True
    samples = FLOATING_SAMPLES
    errors = [*FLOATING_ERRORS, NOT_FLOATING, NO_GENERATOR]

    def check(
        self,
        *size: int | Sequence[int],
        generator: Source = None,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        return (), sized("randn", size, dtype, generator)

    def eager(self, *, size, kind, generator):
        return draw.normal(generator, size, kind)

    def compute_into(self, _: Sequence[Any], attrs: Mapping[str, Any], out: np.ndarray) -> None:
        draw.normal(attrs["generator"], out.shape, out.dtype, out=out)


class Randint(Factory):
    """Whole numbers from ``low`` (0 if not given) up to, but not including, ``high``.

    >>> _ = rl.manual_seed(0)
    >>> rl.randint(10, (3,)), rl.randint(3, 5, (2,))
    (tensor([4, 9, 3]), tensor([3, 4]))
    """

    samples = [S(10, (2, 3)), S(-3, 10, (2,)), S(high=5, size=()), S(low=1, high=5, size=(0,))]
    errors = [
        Fails(RuntimeError, "'from' to be less than 'to'", 10, 3, (2,)),
        Fails(TypeError, "must be tuple of ints, not int", 10, 2),
        Fails(TypeError, "argument 'high' must be int, not float", 2.5, (2,)),
        Fails(TypeError, "missing argument", (2,)),
        Fails(RuntimeError, "out of bounds for unsigned char", 300, (2,), dtype=dtypes.uint8),
    ]

    def check(
        self,
        *args: Any,
        low: int | None = None,
        high: int | None = None,
        size: Sequence[int] | None = None,
        generator: Source = None,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        values = list(args)
        if size is None and values:
            size = values.pop()
        if not isinstance(size, (tuple, list)):
            raise TypeError(
                f"randint(): argument 'size' must be tuple of ints, not {messages.kind(size)}"
            )
        if values and high is None:
            high = values.pop()
        if values and low is None:
            low = values.pop()
        if high is None or values:
            raise TypeError("randint(): missing argument 'high': randint(low=0, high, size)")
        attrs = sized("randint", (size,), dtypes.int64 if dtype is None else dtype, generator)
        return (), {**attrs, **span("randint", 0 if low is None else low, high)}

    def eager(self, *, size, kind, generator, low, high):
        return draw.integers(generator, size, kind, low, high)


def span(name: str, low: Any, high: Any) -> dict[str, int]:
    return {"low": whole(low, name, "low"), "high": whole(high, name, "high")}


class Randperm(Factory):
    """The numbers 0 to n - 1 in random order.

    >>> _ = rl.manual_seed(0)
    >>> rl.randperm(4)
    tensor([0, 1, 3, 2])
    """

    samples = [S(5), S(0), S(600), S(5, dtype=dtypes.int32)]
    errors = [
        Fails(RuntimeError, "negative dimension -1", -1),
        Fails(TypeError, "argument 'n' must be int, not float", 2.5),
    ]

    def check(self, n: int, *, generator: Source = None, dtype: dtypes.dtype | None = None) -> Any:
        kind = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
        count = whole(n, "randperm", "n")
        return (), {"n": count, "kind": kind.numpy, "generator": chosen(generator)}

    def eager(self, *, n, kind, generator):
        return draw.permutation(generator, n, kind)


LIKE_SAMPLES = [S(T(4)), S(T()), S(T(0)), S(T(20), dtype=dtypes.float64)]
LIKE_ERRORS = [
    Fails(TypeError, "argument 'input' .* must be Tensor, not list", [1.0]),
    Fails(NotImplementedError, "not implemented for 'Long'", T(2), dtype=dtypes.int64),
    Fails(TypeError, "'generator' must be rushlight.Generator, not int", T(2), generator=3),
]


@composite(method=False, samples=LIKE_SAMPLES, errors=LIKE_ERRORS)
def rand_like(
    input: Tensor, *, generator: Source = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """:func:`rand` with the shape, and by default the dtype and strides, of ``input``.

    ``options`` are those of :func:`empty_like`.

    >>> _ = rl.manual_seed(0)
    >>> rl.rand_like(rl.ones(2))
    tensor([0.4963, 0.7682])
    """
    x = need_tensor("rand_like", input)
    return ops.empty_like(x, **options).uniform_(generator=generator).requires_grad_(requires_grad)


@composite(method=False, samples=LIKE_SAMPLES, errors=LIKE_ERRORS)
def randn_like(
    input: Tensor, *, generator: Source = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    """:func:`randn` with the shape, and by default the dtype and strides, of ``input``.

    ``options`` are those of :func:`empty_like`.

    >>> _ = rl.manual_seed(0)
    >>> rl.randn_like(rl.ones(2))
    tensor([ 1.5410, -0.2934])
    """
    x = need_tensor("randn_like", input)
    return ops.empty_like(x, **options).normal_(generator=generator).requires_grad_(requires_grad)


@composite(
    method=False,
    samples=[S(T(4), 10), S(T(), 2, 5), S(T(3), low=1, high=4, dtype=dtypes.int64)],
    errors=[
        Fails(TypeError, "argument 'input' .* must be Tensor, not list", [1.0], 5),
        Fails(RuntimeError, "'from' to be less than 'to'", T(2), 10, 3),
    ],
)
def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Source = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """:func:`randint` with the shape, and by default the dtype and strides, of ``input``.

    ``options`` are those of :func:`empty_like`.

    >>> _ = rl.manual_seed(0)
    >>> rl.randint_like(rl.ones(3), 10)
    tensor([4., 9., 3.])
    """
    x = need_tensor("randint_like", input)
    low, high = (0, low) if high is None else (low, high)
    t = ops.empty_like(x, **options).random_(low, high, generator=generator)
    return t.requires_grad_(requires_grad)


class Normal(Factory):
    """Numbers from normal distributions of which the mean, the deviation or both are tensors.

    With two numbers, ``size`` is the shape of the result.

    >>> _ = rl.manual_seed(0)
    >>> rl.normal(rl.tensor([0.0, 10.0]), 2.0)
    tensor([3.0820, 9.4131])
    >>> rl.normal(0.0, 1.0, (2,))
    tensor([-2.1788,  0.5684])
    """

    differentiable = True
    samples = [
        S(plain(3)), S(plain(3), 2.0), S(0.0, plain(2, 3, low=0.5)),
        S(plain(2, 1), plain(3, low=0.5)),
        S(0.0, 1.0, (2, 3)), S(mean=1.0, std=0.5, size=(20,), dtype=dtypes.float64),
    ]  # fmt: skip
    errors = [
        Fails(TypeError, "'size' is needed", 0.0, 1.0),
        Fails(RuntimeError, "std >= 0.0, but found std -1", 0.0, -1.0, (2,)),
        Fails(RuntimeError, "all elements of std >= 0.0", T(2), T(2, low=-2, high=-1)),
        Fails(RuntimeError, r"size of tensor a \(2\) must match", T(2), T(3, low=0.5)),
    ]

    def check(
        self,
        mean: Tensor | float = 0.0,
        std: Tensor | float = 1.0,
        size: Sequence[int] | None = None,
        *,
        generator: Source = None,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        attrs: dict[str, Any] = {"size": None, "kind": None, "generator": chosen(generator)}
        if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
            if size is None:
                raise TypeError("normal(): 'size' is needed if mean and std are numbers")
            attrs = sized("normal", (size,), dtype, generator)
        elif isinstance(mean, Tensor) and isinstance(std, Tensor):
            check_broadcast(mean, std)
        return (mean, std), attrs

    def eager(self, mean, std, *, size, kind, generator):
        if np.ndim(mean) or np.ndim(std) or size is not None:
            mean, std = as_number(mean), as_number(std)
        if size is None:
            return draw.normal_around(generator, mean, std)
        return draw.normal(generator, size, kind, mean, std)

    def vjp_mean(self, _g, _y, mean, _std, **attrs):
        return ops.zeros_like(mean)

    def vjp_std(self, _g, _y, _mean, std, **attrs):
        return ops.zeros_like(std)


def as_number(value: Any) -> Any:
    """A number that a graph holds as an array, as a number again."""
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else value


def check_broadcast(a: Tensor, b: Tensor) -> None:
    """An error if the shapes do not fit each other."""
    for offset in range(1, min(a.ndim, b.ndim) + 1):
        m, n = a._array.shape[-offset], b._array.shape[-offset]
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at "
                f"non-singleton dimension {max(a.ndim, b.ndim) - offset}"
            )


class Bernoulli(Op):
    """Ones with the probability that each element of ``input`` says (or ``p``), zeros otherwise.

    >>> _ = rl.manual_seed(0)
    >>> rl.bernoulli(rl.tensor([0.9, 0.1, 0.5]))
    tensor([1., 0., 1.])
    """

    samples = [
        S(plain(3, low=0.1, high=0.9)),
        S(T(low=0.1, high=0.9)),
        S(T(4, low=0.2), 0.5),
    ]
    errors = [
        Fails(TypeError, "must be Tensor, not float", 0.5),
        Fails(RuntimeError, "p_in >= 0 && p_in <= 1", T(2, low=2, high=3)),
        Fails(RuntimeError, r"p to be in \[0, 1\], but got p=2", T(2), 2.0),
    ]

    def check(self, input: Tensor, p: float | None = None, *, generator: Source = None) -> Any:
        x = need_tensor("bernoulli", input)
        return (x,), {"p": p, "generator": chosen(generator)}

    def eager(self, x, *, p, generator):
        return draw.bernoulli(generator, x.shape, x.dtype, x if p is None else p)

    def vjp(self, g, _y, _x, *, p, generator):
        return ops.zeros_like(g)


class Poisson(Op):
    """Numbers from Poisson distributions whose rates are the elements of ``input``.

    >>> _ = rl.manual_seed(0)
    >>> rl.poisson(rl.tensor([0.5, 4.0, 20.0]))
    tensor([ 2.,  5., 17.])
    """

    method = False
    library = "how many numbers are drawn depends on values"
    samples = [S(T(3, low=0.1, high=30.0)), S(T(low=0.1)), S(T(0, 2, low=0.1))]
    errors = [
        Fails(RuntimeError, "expected rate to be non-negative", T(2, low=-2.0, high=-1.0)),
        Fails(NotImplementedError, "not implemented for 'Long'", T(2, dtype=dtypes.int64)),
    ]

    def check(self, input: Tensor, generator: Source = None) -> Any:
        x = need_tensor("poisson", input)
        if not x.dtype.is_floating_point:
            name = x.dtype.storage_name
            raise NotImplementedError(f"\"poisson_cpu\" not implemented for '{name}'")
        return (x,), {"generator": chosen(generator)}

    def eager(self, x, *, generator):
        return poisson(generator, x)

    def vjp(self, g, _y, _x, *, generator):
        return ops.zeros_like(g)


class Multinomial(Op):
    """Indices drawn, row by row, with probabilities in proportion to the weights in ``input``.

    >>> _ = rl.manual_seed(0)
    >>> rl.multinomial(rl.tensor([1.0, 0.0, 3.0]), 2)
    tensor([2, 0])
    """

    differentiable = False
    library = "a search"
    samples = [
        S(T(5, low=0.1), 2), S(T(2, 5, low=0.1), 7, True), S(T(3, 4, low=0.1), num_samples=1),
    ]  # fmt: skip
    errors = [
        Fails(RuntimeError, "without replacement", T(2, low=0.1), 3),
        Fails(RuntimeError, "n_sample <= 0", T(2, low=0.1), 0),
        Fails(RuntimeError, "sum of probabilities <= 0", T(2, values=[0.0, 0.0]), 1),
        Fails(RuntimeError, "element < 0", T(2, values=[-1.0, 1.0]), 1),
        Fails(RuntimeError, "only supports floating-point dtypes", T(2, dtype=dtypes.int64), 1),
    ]

    def check(
        self,
        input: Tensor,
        num_samples: int,
        replacement: bool = False,
        *,
        generator: Source = None,
    ) -> Any:
        x = need_tensor("multinomial", input)
        count = whole(num_samples, "multinomial", "num_samples")
        attrs = {"num_samples": count, "replacement": replacement, "generator": chosen(generator)}
        return (x,), attrs

    def eager(self, x, *, num_samples, replacement, generator):
        return draw.multinomial(generator, x, num_samples, replacement)
