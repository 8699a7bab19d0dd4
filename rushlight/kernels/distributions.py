"""Samples of the distributions, equal to PyTorch's on the CPU.

Each function takes exactly the words of the generator that PyTorch takes, in the same order, so
that programs which mix draws stay in step. The samples are in C order, in a new array or in
``out``; a draw in place fills its target in :func:`memory_order`.
"""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import ml_dtypes
import numpy as np

from rushlight.generator import Generator

from .box_muller import box_muller, libm_cos_sin, libm_log, libm_log1p
from .multiply_add import affine

Array = np.ndarray
Shape = tuple[int, ...]

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# What PyTorch's messages call a type: its own name, and the name in C++.
_NAMES = {
    np.dtype(dtype): names
    for dtype, names in {
        np.bool_: ("Bool", "bool"),
        np.uint8: ("Byte", "unsigned char"),
        np.int8: ("Char", "signed char"),
        np.int16: ("Short", "short int"),
        np.int32: ("Int", "int"),
        np.int64: ("Long", "long int"),
        np.uint16: ("UInt16", "short unsigned int"),
        np.uint32: ("UInt32", "unsigned int"),
        np.uint64: ("UInt64", "long unsigned int"),
        np.float16: ("Half", "c10::Half"),
        ml_dtypes.bfloat16: ("BFloat16", "c10::BFloat16"),
        np.float32: ("Float", "float"),
        np.float64: ("Double", "double"),
        np.complex64: ("ComplexFloat", "c10::complex<float>"),
        np.complex128: ("ComplexDouble", "c10::complex<double>"),
    }.items()
}
# The floating types, with their largest number and the bits of their mantissa.
_FLOATS = {
    np.dtype(dtype): (float(ml_dtypes.finfo(dtype).max), int(ml_dtypes.finfo(dtype).nmant) + 1)
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
}
# The types of which most kernels know nothing.
_RARE = {np.dtype(code) for code in (np.uint16, np.uint32, np.uint64, np.complex64, np.complex128)}


def memory_order(array: Array) -> tuple[int, ...]:
    """The axes of ``array`` in the order in which they lie in memory: so PyTorch fills a tensor.

    >>> memory_order(np.zeros((2, 3)).T)
    (1, 0)
    """
    strides = array.strides
    return tuple(sorted(range(array.ndim), key=lambda axis: -strides[axis]))


def uniform(
    generator: Generator,
    shape: Shape,
    dtype: Any,
    low: float = 0.0,
    high: float = 1.0,
    out: Array | None = None,
) -> Array:
    """Samples of the uniform distribution on [low, high).

    >>> uniform(Generator().manual_seed(0), (3,), np.float32, -1.0, 1.0)
    array([-0.00748682,  0.5364436 , -0.82304513], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        parts = uniform(generator, (*shape, 2), _part(dtype), low, high)
        return _shaped(_as_complex(parts, dtype), shape, out)
    _require_floating(dtype, "check_uniform_bounds")
    (name, c_name), (largest, _) = _NAMES[dtype], _FLOATS[dtype]
    for bound, value in (("from", low), ("to", high)):
        if not -largest <= value <= largest:
            raise RuntimeError(f"{bound} is out of bounds for {c_name}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > largest:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{name}>::max(), but found "
            f"to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )
    wide, size = _computing(dtype), math.prod(shape)
    samples = generator.native("uniform", size, dtype, low, high, out=out)
    if samples is not None:
        return _shaped(samples, shape, out)
    values = generator.fractions(size, wide)
    if dtype != wide or (low, high) != (0, 1):
        start = wide.type(low)
        values = affine(values, float(wide.type(high) - start), float(start))
        values = values.astype(dtype, copy=False)
        values[values == dtype.type(high)] = low  # rounding may have reached the open end
    return _shaped(values, shape, out)


def normal(
    generator: Generator,
    shape: Shape,
    dtype: Any,
    mean: float = 0.0,
    std: float = 1.0,
    *,
    contiguous: bool = True,
    out: Array | None = None,
) -> Array:
    """Samples of the normal distribution, by the Box-Muller transform.

    ``mean + std * sqrt(-2 log(1 - u)) * (cos, sin)(2 pi v)``

    Args:
        contiguous: PyTorch draws 16 samples or more by blocks if they lie in one piece of memory,
            and else by pairs, which gives other samples.

    >>> normal(Generator().manual_seed(0), (2,), np.float32)
    array([ 1.5409961, -0.2934289], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if dtype.kind == "c":
        pairs, std = (*shape, 2), std / math.sqrt(2)
        parts = normal(generator, pairs, _part(dtype), mean, std, contiguous=contiguous)
        return _shaped(_as_complex(parts, dtype), shape, out)
    _require_floating(dtype, "normal_kernel_cpu")
    size = math.prod(shape)
    if size < 16 or not contiguous:
        values = affine(_normal_pairs(generator, size), std, mean)
    else:
        values = _normal_blocks(generator, size, dtype, mean, std, out)
    return _shaped(_narrowed(values, dtype), shape, out)


def normal_around(generator: Generator, mean: Array | float, std: Array | float) -> Array:
    """Samples of normal distributions of which the mean, the deviation or both are arrays.

    The result has the type of ``mean`` if that is an array, and else of ``std``.

    >>> normal_around(Generator().manual_seed(0), np.float32([10, 20]), 1.0)
    array([11.540997, 19.706572], dtype=float32)
    """
    dtype = mean.dtype if isinstance(mean, Array) else np.asarray(std).dtype
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    if not isinstance(std, Array):
        values = normal(generator, shape, dtype, 0.0, std)
    elif std.dtype.kind == "c":
        raise RuntimeError("normal expects standard deviation to be non-complex")
    elif std.size and not std.min() >= 0:
        raise RuntimeError("normal expects all elements of std >= 0.0")
    else:
        values = normal(generator, shape, dtype)
        np.multiply(values, std, out=values, casting="same_kind")
    return np.add(values, mean, out=values, casting="same_kind")


def log_normal(
    generator: Generator, shape: Shape, dtype: Any, mean: float = 1.0, std: float = 2.0
) -> Array:
    """Samples of ``exp(x)`` where ``x`` is normal.

    >>> log_normal(Generator().manual_seed(0), (2,), np.float32)
    array([59.263416,  1.51156 ], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    _require_floating(dtype, "log_normal_cpu")
    values = affine(_normal_pairs(generator, math.prod(shape)), std, mean)
    return _narrowed(np.exp(values, out=values), dtype).reshape(shape)


def exponential(
    generator: Generator, shape: Shape, dtype: Any, rate: float = 1.0, out: Array | None = None
) -> Array:
    """Samples of the exponential distribution, ``-log(1 - u) / rate``.

    >>> exponential(Generator().manual_seed(0), (2,), np.float32, 2.0)
    array([1.7541631 , 0.61519235], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    if dtype not in _FLOATS:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {_NAMES[dtype][0]}"
        )
    size = math.prod(shape)
    values = generator.native("exponential", size, _computing(dtype), rate, out=out)
    if values is None:
        values = libm_log(1 - generator.fractions(size, _FLOAT64)).astype(_FLOAT64)
        values *= 1 / rate
        np.subtract(0.0, values, out=values)  # which makes no -0
    return _shaped(_narrowed(values, dtype), shape, out)


def cauchy(
    generator: Generator, shape: Shape, dtype: Any, median: float = 0.0, sigma: float = 1.0
) -> Array:
    """Samples of the Cauchy distribution, ``median + sigma * tan(pi * (u - 1/2))``.

    >>> cauchy(Generator().manual_seed(0), (2,), np.float32)
    array([10.59773  ,  0.7647673], dtype=float32)
    """
    dtype = np.dtype(dtype)
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if dtype not in _FLOATS:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {_NAMES[dtype][1]}"
        )
    u = generator.fractions(math.prod(shape), _FLOAT64)
    values = affine(np.tan(math.pi * (u - 0.5)), sigma, median)
    return _narrowed(values, dtype).reshape(shape)


def geometric(generator: Generator, shape: Shape, dtype: Any, p: float) -> Array:
    """How many trials of probability ``p`` the first success took: ``ceil(log(u) / log(1 - p))``.

    >>> geometric(Generator().manual_seed(0), (4,), np.int64, 0.5)
    array([1, 1, 2, 1])
    """
    dtype = np.dtype(dtype)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if dtype.kind == "b" or dtype in _RARE:
        raise _not_implemented("geometric_cpu", dtype)
    u = generator.fractions(math.prod(shape), _FLOAT64)
    with np.errstate(divide="ignore"):
        values = np.ceil(np.log(u) / math.log1p(-p))
    return _narrowed(values, dtype).reshape(shape)


def bernoulli(
    generator: Generator,
    shape: Shape,
    dtype: Any,
    p: float | Array = 0.5,
    out: Array | None = None,
) -> Array:
    """Ones with probability ``p``, a number or an array of numbers, and else zeros.

    >>> bernoulli(Generator().manual_seed(0), (4,), np.float32, 0.5)
    array([0., 0., 1., 0.], dtype=float32)
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape)
    if isinstance(p, Array):
        if dtype in _RARE:
            raise _not_implemented("bernoulli_tensor_cpu_self_", dtype)
        _require_floating(p.dtype, "bernoulli_tensor_cpu_p_")
        if not ((p >= 0) & (p <= 1)).all():
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        wide = _computing(p.dtype)
        ones = generator.fractions(size, wide).reshape(shape) < p.astype(wide, copy=False)
    else:
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        if dtype in _RARE:
            raise _not_implemented("bernoulli_scalar_cpu_", dtype)
        kind = _FLOAT32 if dtype == _FLOAT32 else np.dtype(np.bool_)
        samples = generator.native("bernoulli", size, kind, p, out=out)
        if samples is not None:
            return _shaped(samples.astype(dtype, copy=False), shape, out)
        words = generator.long_words(size)
        words &= np.uint64((1 << 53) - 1)
        # words / 2**53 < p, without leaving the integers
        ones = (words < math.ceil(p * 2.0**53)).reshape(shape)
    return _shaped(ones.astype(dtype, copy=False), shape, out)


def integers(
    generator: Generator,
    shape: Shape,
    dtype: Any,
    low: int = 0,
    high: int | None = None,
    out: Array | None = None,
) -> Array:
    """Whole numbers from ``low`` to ``high - 1``, or to the largest one of ``dtype``.

    >>> integers(Generator().manual_seed(0), (5,), np.int64, 0, 10)
    array([4, 9, 3, 0, 3])
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape)
    if high is None and low == -(2**63):
        if _NAMES[dtype][0] not in ("Long", "Double", "Float", "BFloat16"):
            raise RuntimeError(
                "random_full_64_bits_range_kernel_cpu handles only "
                "int64, double, float and bfloat16"
            )
        words = generator.long_words(size).view(np.int64)
        return _shaped(_narrowed(words, dtype), shape, out)
    first, last = _integer_bounds(dtype, operator.index(low), high)
    span = last - first + 1
    if span < 1 << 28:
        samples = generator.native("integers", size, np.int64, first, span, out=out)
        if samples is not None:
            return _shaped(_narrowed(samples, dtype), shape, out)
    words = generator.long_words(size) if span >= 1 << 28 else generator.words(size)
    words %= span
    values = words.astype(np.int64)  # may wrap, and the sum wraps it back
    if first != 0:
        values += first
    return _shaped(_narrowed(values, dtype), shape, out)


def any_integers(generator: Generator, shape: Shape, dtype: Any) -> Array:
    """Whole numbers from 0 to the largest of an integer type, or to 2**digits of a floating one.

    >>> any_integers(Generator().manual_seed(0), (2,), np.int32)
    array([209652396, 398764591], dtype=int32)
    """
    dtype = np.dtype(dtype)
    if dtype in _RARE:
        raise _not_implemented("random_kernel_cpu", dtype)
    draw = generator.long_words if dtype in (np.int64, np.float64) else generator.words
    words = draw(math.prod(shape))
    if dtype in _FLOATS:
        words %= (1 << _FLOATS[dtype][1]) + 1
    else:
        words &= 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
    return _narrowed(words, dtype).reshape(shape)


def permutation(generator: Generator, n: int, dtype: Any = np.int64) -> Array:
    """The numbers from 0 to n - 1 in random order; step i swaps i and ``i + word % (n - i)``.

    >>> permutation(Generator().manual_seed(0), 5)
    array([4, 0, 1, 3, 2])
    """
    dtype = np.dtype(dtype)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if dtype.kind == "b" or dtype in _RARE:
        raise _not_implemented("randperm", dtype)
    if dtype.kind in "iu" and n - 1 > np.iinfo(dtype).max:
        raise RuntimeError(f"value cannot be converted to type {dtype}_t without overflow")
    if dtype in (np.float16, np.float32) and n > (1 << _FLOATS[dtype][1]) + 1:
        most = "2049" if dtype == np.float16 else "2^24+1"
        raise RuntimeError(f"n cannot be greater than {most} for {_NAMES[dtype][0]} type.")
    short = n < (2**32 - 1) // 20
    samples = generator.native("permutation", n, np.int64) if short else None
    if samples is not None:
        return _narrowed(samples, dtype)
    draw = generator.words if short else generator.long_words
    words = draw(max(n - 1, 0))
    words %= np.arange(n, 1, -1, dtype=words.dtype)
    places = np.arange(n)
    places[:-1] += words.astype(np.int64)
    return _narrowed(_swap_all(places) if n > 400 else _swap_in_turn(places), dtype)


def multinomial(
    generator: Generator, weights: Array, num_samples: int, replacement: bool = False
) -> Array:
    """Indices with probabilities proportional to ``weights``, for one row of weights or several.

    >>> multinomial(Generator().manual_seed(0), np.float32([1, 0, 3]), 2)
    array([2, 0])
    """
    if not 1 <= weights.ndim <= 2:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if weights.dtype not in _FLOATS:
        name = _NAMES[weights.dtype][0]
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {name}"
        )
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if weights.shape[-1] > 1 << 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    shape = (*weights.shape[:-1], num_samples)
    if math.prod(shape) == 0:
        return np.empty(shape, np.int64)
    if replacement and num_samples > 1:
        return _with_replacement(generator, weights.astype(_computing(weights.dtype)), shape)
    if not ((weights >= 0) & np.isfinite(weights)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    _require_positive_sums(weights)
    # The largest quotient by exponential samples falls on each index with its probability.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        scores = weights / exponential(generator, weights.shape, weights.dtype)
    if num_samples == 1:
        return scores.argmax(-1)[..., None]
    scores = -scores.astype(_FLOAT64)
    best = np.argpartition(scores, num_samples - 1, -1)[..., :num_samples]
    order = np.take_along_axis(scores, best, -1).argsort(-1)
    return np.take_along_axis(best, order, -1)


def _with_replacement(generator: Generator, weights: Array, shape: Shape) -> Array:
    """The index at which the running sum of the weights passes a random fraction of the whole."""
    if not (weights >= 0).all():
        raise RuntimeError("invalid multinomial distribution (encountering probability entry < 0)")
    if not np.isfinite(weights).all():
        raise RuntimeError(
            "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
        )
    _require_positive_sums(weights)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = weights.cumsum(-1)
        sums /= sums[..., -1:].copy()
    sums[..., -1] = 1
    draws = generator.fractions(math.prod(shape), _FLOAT64).reshape(-1, shape[-1])
    rows = sums.astype(_FLOAT64).reshape(len(draws), -1)
    samples = [row.searchsorted(draw) for row, draw in zip(rows, draws, strict=True)]
    return np.stack(samples).reshape(shape)


def _require_positive_sums(weights: Array) -> None:
    if not weights.astype(bool).any(-1).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _normal_pairs(generator: Generator, size: int) -> Array:
    """Standard normal samples by pairs; the generator keeps an odd one for the next call."""
    spare = [] if generator.spare_normal is None or size == 0 else [generator.spare_normal]
    pairs = (size - len(spare) + 1) // 2
    u, v = generator.fractions(2 * pairs, _FLOAT64).reshape(-1, 2).T
    radius = np.sqrt(-2 * libm_log1p(-v).astype(_FLOAT64))
    cos, sin = libm_cos_sin(u)
    samples = np.stack((radius * cos, radius * sin), 1).ravel()
    if size > 0:
        odd = len(spare) + 2 * pairs > size
        generator.spare_normal = float(samples[-1]) if odd else None
    return np.concatenate((spare, samples))[:size]


def _normal_blocks(
    generator: Generator, size: int, dtype: np.dtype, mean: float, std: float, out: Array | None
) -> Array:
    """Normal samples by blocks of 16.

    Behind the last full block, 16 fresh samples replace the last 16 of all. The words of the
    incomplete block are drawn all the same, but not for the 16-bit types.
    """
    wide = _computing(dtype)
    rest = size % 16
    unused = rest if dtype == wide else 0
    if unused == rest:
        samples = generator.native("normal", size, wide, mean, std, out=out)
        if samples is not None:
            return samples
    values = generator.fractions(size - rest + unused + (16 if rest else 0), wide)
    if unused:
        values[-16 - rest : -rest] = values[-16:].copy()
        values = values[:-rest]
    box_muller(values)
    if rest:
        values[size - 16 : size] = values[-16:].copy()
    return affine(values[:size], float(wide.type(std)), float(wide.type(mean)))


def _swap_in_turn(places: Array) -> Array:
    """The numbers 0, 1, 2, … after swapping those at i and at places[i], for each i in turn."""
    numbers = list(range(len(places)))
    for i, place in enumerate(places.tolist()):
        numbers[i], numbers[place] = numbers[place], numbers[i]
    return np.array(numbers, np.int64)


def _swap_all(places: Array) -> Array:
    """The same for all i at once, given that no place lies before its step.

    Step i takes the number at places[i] and leaves there the number that lay at i. So it takes what
    the last earlier step to the same place left, or else the place's own number; and what lay at i
    is what the last step to i left: a chain of steps, followed in strides that double.
    """
    steps = np.arange(len(places))
    moves = places > steps
    left = steps.copy()
    left[places[moves]] = steps[moves]  # of several steps to one place the last counts
    unfinished = np.flatnonzero(left[left] != left)
    while unfinished.size:
        left[unfinished] = left[left[unfinished]]
        unfinished = unfinished[left[left[unfinished]] != left[unfinished]]

    by_place = np.sort(places << 32 | steps)
    place, step = by_place >> 32, by_place & 0xFFFFFFFF
    again = place[1:] == place[:-1]
    place[1:][again] = left[step[:-1][again]]
    numbers = np.empty_like(places)
    numbers[step] = place
    return numbers


def _integer_bounds(dtype: np.dtype, low: int, high: int | None) -> tuple[int, int]:
    """The first and the last number to draw for a range that PyTorch accepts."""
    if dtype.kind == "c":
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types"
        )
    if high is not None and low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    digits = 64
    smallest: float
    largest: float
    if dtype in _FLOATS:
        largest, digits = _FLOATS[dtype]
        smallest = -largest
        low = _representable(dtype, low, 1)
        last = 1 << digits if high is None else _representable(dtype, high, -1) - 1
        if low > last:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, "
                f"but got from={low} >= to={last + 1}"
            )
    else:
        limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        smallest, largest = int(limits[0]), min(int(limits[1]), 2**63 - 1)
        last = largest if high is None else high - 1
    for bound, value in (("from", low), ("to - 1", last)):
        if not smallest <= value <= largest:
            raise RuntimeError(f"{bound} is out of bounds for {_NAMES[dtype][1]}")
        if abs(value) > 1 << digits:
            warnings.warn(
                f"{bound} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision "
                f"limitations {_NAMES[dtype][1]} can support discrete uniform distribution only "
                "within this range.",
                stacklevel=3,
            )
    return low, last


def _representable(dtype: np.dtype, bound: int, inwards: int) -> int:
    """``bound``, moved inwards if its neighbour there would be rounded out of the range."""
    neighbour = bound + inwards
    rounded = float(_narrowed(np.array(neighbour, _FLOAT64), dtype))
    outside = rounded < bound if inwards > 0 else bound <= rounded < math.inf
    if not outside:
        return bound
    return int(rounded) + inwards * (1 << (neighbour.bit_length() - _FLOATS[dtype][1]))


def _computing(dtype: np.dtype) -> np.dtype:
    """The type in which samples of ``dtype`` are computed."""
    return _FLOAT64 if dtype == _FLOAT64 else _FLOAT32


def _shaped(samples: Array, shape: Shape, out: Array | None) -> Array:
    """The samples in their shape; those that ``out`` shall hold and does not yet are copied."""
    if out is None:
        return samples.reshape(shape)
    if samples is not out:
        out[...] = samples.reshape(shape)
    return out


def _narrowed(values: Array, dtype: np.dtype) -> Array:
    """``values`` as ``dtype``; the 16-bit types are reached through float32, as in PyTorch."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.itemsize == 2 and dtype in _FLOATS:
            values = values.astype(_FLOAT32, copy=False)
        return values.astype(dtype, copy=False)


def _require_floating(dtype: np.dtype, kernel: str) -> None:
    if dtype not in _FLOATS:
        raise _not_implemented(kernel, dtype)


def _not_implemented(kernel: str, dtype: np.dtype) -> NotImplementedError:
    return NotImplementedError(f"\"{kernel}\" not implemented for '{_NAMES[dtype][0]}'")


def _part(dtype: np.dtype) -> np.dtype:
    return _FLOAT32 if dtype == np.complex64 else _FLOAT64


def _as_complex(parts: Array, dtype: np.dtype) -> Array:
    return parts.view(dtype)[..., 0]
