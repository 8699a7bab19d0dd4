"""Ops that put values to positions: over the elements there, added to them, or folded with them."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import is_extent, is_zero
from rushlight.kernels.accumulate import add_along, fold
from rushlight.kernels.casting import checked
from rushlight.kernels.indices import along, check_bounds, places, wrapped
from rushlight.ops.base import axis, into, need_tensor, ops, registry
from rushlight.ops.elements import combining, flat, only, refusal, same, unflat, wide
from rushlight.ops.gather import (
    NO_ROW,
    check_index,
    inaccessible,
    long_index,
    out_of_reach,
    vector,
)
from rushlight.ops.indexing import NUMBER, at, number
from rushlight.ops.replacement import Write
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.scattering import along_dim, scattering
from rushlight.tensor import Tensor, literal

SOURCE_ERRORS = [
    Fails(RuntimeError, "index 4 is out of bounds for dimension 1", T(3, 4), 1, at([4]), T(1, 1)),
    Fails(RuntimeError, "index -1 is out of bounds", T(3, 4), 1, at([-1]), T(1, 1)),
    Fails(RuntimeError, "Expected dtype int32/int64", T(3, 4), 1, T(1, 1), T(1, 1)),
    Fails(RuntimeError, "dimensions as self tensor", T(3, 4), 1, at(0), T(1, 1)),
    Fails(RuntimeError, "dimensions as src tensor", T(3, 4), 1, at([0]), T()),
    Fails(RuntimeError, "no larger size than src", T(3, 4), 1, at([0, 1]), T(1, 1)),
    Fails(RuntimeError, "self.dtype to be equal to src", T(3, 4), 1, at([0]), at([1])),
    Fails(IndexError, "range of", T(3, 4), 2, at([0]), T(1, 1)),
]
SOURCE_SAMPLES = [
    S(T(3, 4), 1, at([0, 3, 1], [2, 1, 0]), T(2, 3)),
    S(T(3, 4), 0, at([0, 2, 1, 0]), T(2, 5)),
    S(T(2, 3, 2), -2, at([[2, 0]], [[1, 1]]), T(2, 1, 2)),
    S(T(), 0, at(0), T(1)),
    S(T(3), 0, at(0), T()),
    S(T(3, 4), 1, T(0, dtype=dtypes.int64), T(0)),
]
REPEATED = S(T(3, 4), 1, at([0, 3, 3, 3], [1, 1, 0, 0]), T(2, 4))


def target(name: str, input: Tensor, dim: int, index: Tensor) -> int:
    """The dimension along which ``index`` names elements of ``input``, counted from the front."""
    x = need_tensor(name, input)
    d = axis(dim, x._array.ndim)
    check_index(name, x, d, need_tensor(name, index, "index", 3), "self")
    return d


def located(name: str, input: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[Tensor, int]:
    """The part of ``src`` that is put to ``index``, and the dimension counted from the front."""
    d = target(name, input, dim, index)
    if need_tensor(name, src, "src", 4)._array.dtype is not input._array.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to src.dtype, got {input.dtype} and "
            f"{src.dtype}"
        )
    sizes = index._array.shape
    if src._array.shape == sizes:
        return src, d
    if is_zero(index._array.size):
        return src.reshape(-1)[:0].reshape(sizes), d
    check_index(name, src, d, index, "src")
    if any([n > m for n, m in zip(sizes, src._array.shape or (1,), strict=False)]):
        raise RuntimeError(
            f"{name}(): Expected index {list(sizes)} to be no larger size than src "
            f"{list(src.shape)}"
        )
    part = src.reshape(-1) if not src._array.ndim else src
    return part[tuple([slice(n) for n in sizes])] if sizes else part[0], d


def aligned(y: np.ndarray, index: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """``y`` and ``index`` with at least one dimension, once the positions are known to be good."""
    y, index = np.atleast_1d(y, index)
    check_bounds(index, dim, y.shape[dim], RuntimeError)
    return y, index


def folding(plain: Callable[..., Tensor], fold: str) -> Callable[..., Tensor]:
    """``scatter`` that hands a ``reduce`` on to the method called ``fold``."""

    def scatter(
        input: Tensor,
        dim: int,
        index: Tensor,
        src: Tensor | float | None = None,
        *,
        value: float | None = None,
        reduce: str | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        source = src if value is None else value
        if reduce is None:
            y = plain(input, dim, index, source)
        elif reduce in ("add", "multiply"):
            if isinstance(source, NUMBER):
                source = literal(number(input, source)).expand(index.shape)
            how = "sum" if reduce == "add" else "prod"
            y = getattr(input, fold)(dim, index, source, how)
        else:
            raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}.")
        return y if out is None else into(out, y)

    scatter.__doc__ = plain.__doc__
    return scatter


class Scatter(Write):
    """A copy in which ``y[i][index[i][j]] = src[i][j]`` (for ``dim=1`` of a matrix).

    Args:
        src: as large as ``index`` or larger; or a number, also as ``value=``.
        reduce: ``"add"`` or ``"multiply"`` instead of replacing.

    >>> rl.zeros(2, 3).scatter(1, rl.tensor([[0], [2]]), 1.5)
    tensor([[1.5000, 0.0000, 0.0000],
            [0.0000, 0.0000, 1.5000]])
    """

    operands = ("x", "src", "index")
    samples = [
        *SOURCE_SAMPLES,
        S(T(3, 4), 1, at([0, 3, 1], [2, 1, 0]), 2),
        S(T(3, 4), 1, at([0, 3, 1], [2, 1, 0]), value=2),
        S(*REPEATED.args, reduce="add"),
        S(*REPEATED.args[:3], 2, reduce="multiply"),
    ]
    errors = [
        *SOURCE_ERRORS,
        Fails(RuntimeError, "reduce argument must be", T(3, 4), 1, at([0]), 1, reduce="max"),
        Fails(TypeError, "'src' .* must be Tensor, not NoneType", T(3, 4), 1, at([0])),
    ]

    def make(self) -> Callable[..., Tensor]:
        return folding(super().make(), "scatter_reduce")

    def make_in_place(self) -> Callable[..., Tensor]:
        return folding(super().make_in_place(), "scatter_reduce_")

    def check(self, input: Tensor, dim: int, index: Tensor, src: Tensor | float) -> Any:
        if isinstance(src, NUMBER):
            d = target("scatter", input, dim, index)
            return (input, literal(number(input, src)), index), {"dim": d}
        source, d = located("scatter", input, dim, index, src)
        return (input, source, index), {"dim": d}

    def fits(self, x, src, index, *, dim, **_attrs):
        check_source(x, src, index, dim)

    def write(self, y, src, index, *, dim):
        if index.size:
            y, index = aligned(y, index, dim)
            if y.flags.c_contiguous:
                y.reshape(-1)[places(index, dim, y.shape)] = src
            else:
                y[along(index, dim)] = src

    def scatter(self, b, x, src, index, *, dim):
        return scattering(b, "set", x, src, index, dim)

    def vjp(self, g, _y, _x, _src, index, *, dim):
        return g.scatter(dim, index, 0), g.gather(dim, index), None


class ScatterAdd(Write):
    """A copy in which ``y[i][index[i][j]] += src[i][j]`` (for ``dim=1`` of a matrix).

    What meets in one place is added in the order of the index.

    >>> rl.zeros(1, 3).scatter_add(1, rl.tensor([[0, 2, 2]]), rl.ones(1, 3))
    tensor([[1., 0., 2.]])
    """

    operands = ("x", "src", "index")
    fused = True
    samples = [*SOURCE_SAMPLES, REPEATED]
    errors = [
        *SOURCE_ERRORS,
        Fails(TypeError, "'src' .* must be Tensor, not float", T(3, 4), 1, at([0]), 2.0),
    ]

    def check(self, input: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
        source, d = located("scatter_add", input, dim, index, src)
        return (input, source, index), {"dim": d}

    def fits(self, x, src, index, *, dim, **_attrs):
        check_source(x, src, index, dim)

    def write(self, y, src, index, *, dim):
        if index.size:
            y, index = aligned(y, index, dim)
            fold(np.add, y, places(index, dim, y.shape), src)

    def scatter(self, b, x, src, index, *, dim):
        return scattering(b, "add", x, src, index, dim)

    def vjp(self, g, _y, _x, _src, index, *, dim):
        return g, g.gather(dim, index), None


def check_source(x: np.ndarray, src: np.ndarray, index: np.ndarray, dim: int) -> None:
    """An error unless ``src`` has an element for each of ``index``, or one, and these fit ``x``."""
    if not index.size:
        return  # which may have any shape
    part, whole = index.shape or (1,), x.shape or (1,)
    pairs = enumerate(zip(part, whole, strict=False))
    fits = len(part) == len(whole) and all([d == dim or n <= m for d, (n, m) in pairs])
    if not fits or src.shape not in ((), index.shape):
        raise ValueError(f"elements {src.shape} at {index.shape} of {x.shape} along {dim}")


def source_along(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, error: type = RuntimeError
) -> int:
    """The dimension along which a vector of positions puts the entries of ``source``."""
    d = vector(name, dim, index, input)
    if need_tensor(name, source, "source", 4)._array.dtype is not input._array.dtype:
        raise RuntimeError(
            f"{name}(): self and source must have the same scalar type, got "
            f"{input.dtype.storage_name} and {source.dtype.storage_name}"
        )
    shape, entries = (list(t._array.shape) or [1] for t in (input, source))
    if d < len(entries) and entries[d] != index._array.size:
        raise error(
            f"{name}(): Number of indices ({index._array.size}) should be equal to "
            f"source.size(dim): ({entries[d]}), for dim: {d}"
        )
    if entries[:d] + entries[d + 1 :] != shape[:d] + shape[d + 1 :]:
        raise RuntimeError(
            f"{name}(): source tensor shape must match self tensor shape, excluding the "
            f"specified dimension. Got self.shape = {list(input.shape)} source.shape = "
            f"{list(source.shape)}"
        )
    return d


def check_entries(x: np.ndarray, source: np.ndarray, index: np.ndarray, dim: int) -> None:
    """An error unless ``source`` has an entry for each position of ``dim``."""
    entries = list(x.shape or (1,))
    entries[dim] = index.size
    if index.ndim > 1 or list(source.shape or (1,)) != entries:
        raise ValueError(f"entries {source.shape} of {x.shape} at {index.size} places of {dim}")


ALONG_SAMPLES = [
    S(T(3, 4), 0, at(2, 0), T(2, 4)),
    S(T(2, 3, 2), -2, at(1), T(2, 1, 2)),
    S(T(3, 4), 1, T(0, dtype=dtypes.int64), T(3, 0)),
    S(T(3), 0, T(values=1, dtype=dtypes.int64), T()),
    S(T(), 0, at(0), T(1)),
]
ALONG_ERRORS = [
    Fails(IndexError, "Index is supposed to be a vector", T(3), 0, at([0]), T(1)),
    Fails(RuntimeError, "Expected dtype int32 or int64", T(3), 0, T(1), T(1)),
    Fails(RuntimeError, "source tensor shape must match", T(3, 4), 0, at(0), T(1, 3)),
    Fails(RuntimeError, "must have the same scalar type", T(3), 0, at(0), at(1)),
    Fails(IndexError, "range of", T(3), 1, at(0), T(1)),
]


class IndexAdd(Write):
    """A copy with the entries of ``alpha * source`` added at the positions ``index`` of ``dim``.

    What meets in one place is added in the order of the index.

    >>> rl.zeros(3).index_add(0, rl.tensor([0, 2, 2]), rl.ones(3), alpha=2)
    tensor([2., 0., 4.])
    """

    operands = ("x", "source", "index")
    fused = True
    samples = [*ALONG_SAMPLES, S(T(3, 4), 0, at(2, 0, 2), T(3, 4), alpha=-2)]
    errors = [
        *ALONG_ERRORS,
        Fails(IndexError, "index 3 is out of bounds for dimension 0", T(3), 0, at(3), T(1)),
        Fails(IndexError, "index -1 is out of bounds for dimension 0", T(3), 0, at(-1), T(1)),
        Fails(RuntimeError, r"indices \(2\) should be equal", T(3), 0, at(0, 1), T(1)),
        Fails(RuntimeError, "without overflow", T(3), 0, at(0), T(1), alpha=1j),
    ]

    def check(
        self, input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
    ) -> Any:
        d = source_along("index_add", input, dim, index, source)
        return (input, source, index), {"dim": d, "alpha": checked(alpha, input.dtype)}

    def fits(self, x, source, index, *, dim, **_attrs):
        check_entries(x, source, index, dim)

    def write(self, y, source, index, *, dim, alpha):
        y, index = np.atleast_1d(y, index)
        check_bounds(index, dim, y.shape[dim], IndexError, NO_ROW)
        add_along(y, dim, index, source if alpha == 1 else source * source.dtype.type(alpha))

    def scatter(self, b, x, source, index, *, dim, alpha):
        def term(k: Any) -> Any:
            value = source[k]
            # A product of half types is rounded before it is added.
            return value if alpha == 1 else wide((wide(value) * alpha).cast(value.kind))

        wrong = refusal(IndexError, dim, x.shape[dim] if x.ndim else 1, NO_ROW)
        return along_dim(b, "add", x, index, dim, b.checked, wrong, source.shape, term)

    def vjp(self, g, _y, _x, _source, index, *, dim, alpha):
        chosen = g.index_select(dim, index).reshape(_source.shape)
        return g, chosen if alpha == 1 else chosen * alpha, None


class IndexCopy(Write):
    """A copy whose entries at the positions ``index`` of dimension ``dim`` are those of ``source``.

    >>> rl.zeros(3).index_copy(0, rl.tensor([2, 0]), rl.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """

    operands = ("x", "source", "index")
    samples = ALONG_SAMPLES
    errors = [
        *ALONG_ERRORS,
        Fails(IndexError, "index 3 is out of bounds for dimension 0", T(3), 0, at(3), T(1)),
        Fails(IndexError, "index -1 is out of bounds for dimension 0", T(3), 0, at(-1), T(1)),
        Fails(IndexError, r"indices \(2\) should be equal", T(3), 0, at(0, 1), T(1)),
    ]

    def check(self, input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
        d = source_along("index_copy", input, dim, index, source, IndexError)
        return (input, source, index), {"dim": d}

    def fits(self, x, source, index, *, dim, **_attrs):
        check_entries(x, source, index, dim)

    def write(self, y, source, index, *, dim):
        y, source, index = np.atleast_1d(y, source, index)
        check_bounds(index, dim, y.shape[dim], IndexError, "index_copy(): ")
        y[(slice(None),) * dim + (index,)] = source

    def scatter(self, b, x, source, index, *, dim):
        wrong = refusal(IndexError, dim, x.shape[dim] if x.ndim else 1, "index_copy(): ")
        return along_dim(
            b, "set", x, index, dim, b.checked, wrong, source.shape, source.__getitem__
        )

    def vjp(self, g, _y, _x, _source, index, *, dim):
        chosen = g.index_select(dim, index).reshape(_source.shape)
        return g.index_fill(dim, index, 0), chosen, None


class IndexFill(Write):
    """A copy whose entries at the positions ``index`` of dimension ``dim`` are ``value``.

    Args:
        value: a number or a tensor without dimensions.

    >>> rl.ones(2, 3).index_fill(1, rl.tensor([0, 2]), -1)
    tensor([[-1.,  1., -1.],
            [-1.,  1., -1.]])
    """

    operands = ("x", "value", "index")
    samples = [
        S(T(3, 4), 1, at(2, 0), 2),
        S(T(3, 4), 0, at(2, -3, 2), T()),
        S(T(3, 4), 1, T(0, dtype=dtypes.int64), T()),
        S(T(), 0, at(0), 2),
    ]
    errors = [
        Fails(IndexError, "index 3 is out of bounds for dimension 0", T(3), 0, at(3), 1),
        Fails(IndexError, "index -4 is out of bounds for dimension 0", T(3), 0, at(-4), 1),
        Fails(IndexError, "Index is supposed to be a vector", T(3), 0, at([0]), 1),
        Fails(RuntimeError, "0-dimensional value tensor, but got .* 1 dim", T(3), 0, at(0), T(1)),
        Fails(RuntimeError, "without overflow", T(3), 0, at(0), 1j),
        Fails(TypeError, "'value' .* must be Tensor, not str", T(3), 0, at(0), "1"),
    ]

    def check(self, input: Tensor, dim: int, index: Tensor, value: Tensor | float) -> Any:
        d = vector("index_fill", dim, index, input)
        return (input, single_value("index_fill", input, value), index), {"dim": d}

    def fits(self, _x, value, index, **_attrs):
        if value.ndim or index.ndim > 1:
            raise ValueError(f"a value {value.shape} at places {index.shape}")

    def write(self, y, value, index, *, dim):
        y = np.atleast_1d(y)
        y[(slice(None),) * dim + (wrapped(index, dim, y.shape[dim]),)] = value

    def scatter(self, b, x, value, index, *, dim):
        size = x.shape[dim] if x.ndim else 1
        sizes = list(x.shape) or [1]
        sizes[dim] = prod(index.shape)
        wrong = refusal(IndexError, dim, size, wraps=size)
        return along_dim(b, "set", x, index, dim, b.wrapped, wrong, sizes, lambda k: value[()])

    def vjp_x(self, g, _y, _x, _value, index, *, dim):
        return g.index_fill(dim, index, 0)

    def vjp_value(self, g, _y, _x, _value, index, *, dim):
        others = ops.ones(g.shape, dtype=dtypes.bool_).index_fill_(dim, index, False)
        return g.masked_fill(others, 0).sum()

    def vjp_index(self, g, _y, _x, _value, _index, *, dim):
        return None


def single_value(name: str, x: Tensor, value: Any) -> Tensor:
    """A number, or a tensor without dimensions, as a tensor of the dtype of ``x``."""
    if is_extent(value):  # which may change between calls
        return registry["cast"].traced((value,), {"dtype": x.dtype})
    if isinstance(value, NUMBER):
        return literal(number(x, value))
    if need_tensor(name, value, "value", 4)._array.ndim:
        raise RuntimeError(
            f"{name} only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    if value.dtype.is_complex and not x.dtype.is_complex:
        checked(value._array.item(), x.dtype)
    return value.to(x.dtype)


class Put(Write):
    """A copy with the elements at ``index``, counted as if all dimensions were one, replaced.

    Args:
        source: as many values as ``index`` has elements.
        accumulate: add to the elements instead.

    >>> rl.zeros(2, 2).put(rl.tensor([1, -1]), rl.tensor([5.0, 6.0]))
    tensor([[0., 5.],
            [0., 6.]])
    """

    operands = ("x", "source", "index")
    samples = [
        S(T(3, 4), at([0, 11], [2, 5]), T(4)),
        S(T(3, 4), at(0, -1, 0), T(3), accumulate=True),
        S(T(), at(0), T(1)),
        S(T(3), T(0, dtype=dtypes.int64), T(0)),
    ]
    errors = [
        Fails(IndexError, "tried to access index 12 on a tensor of 12", T(3, 4), at(12), T(1)),
        Fails(IndexError, "tried to access index -13 on a tensor", T(3, 4), at(-13), T(1)),
        Fails(IndexError, "tried to put elements into an empty tensor", T(0), at(0), T(1)),
        Fails(IndexError, r"numel\(\) = 1, index.numel\(\) = 2", T(3), at(0, 1), T(1)),
        Fails(RuntimeError, "Expected a long tensor for index, but got Float", T(3), T(1), T(1)),
        Fails(RuntimeError, "expected to have the same dtype", T(3), at(0), at(1)),
    ]

    def check(self, input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
        x = need_tensor("put", input)
        long_index("put", index, 2)
        if need_tensor("put", source, "source", 3)._array.size != index._array.size:
            raise IndexError(
                "put(): Expected source and index to have the same number of elements, but got "
                f"source.numel() = {source._array.size}, index.numel() = {index._array.size}"
            )
        if index._array.size and not x._array.size:
            raise IndexError("put(): tried to put elements into an empty tensor")
        if source._array.dtype is not x._array.dtype:
            raise RuntimeError(
                "put(): self and source expected to have the same dtype, but got self.dtype = "
                f"{x.dtype.storage_name} and source.dtype = {source.dtype.storage_name}"
            )
        return (x, source, index), {"accumulate": bool(accumulate)}

    def fits(self, _x, source, index, **_attrs):
        if source.size != index.size:
            raise ValueError(f"{source.size} elements at {index.size} places")

    def write(self, y, source, index, *, accumulate):
        try:
            where = wrapped(index.reshape(-1), 0, y.size)
        except IndexError:
            raise inaccessible(index, y.size) from None
        if accumulate:
            fold(np.add, y, where, source.reshape(-1))
        else:
            y.flat[where] = source.reshape(-1)

    def scatter(self, b, x, source, index, *, accumulate):
        size, element = prod(x.shape), wide if accumulate else same

        def part(k: Any) -> Any:
            place = b.wrapped(index[k], size, out_of_reach(size))
            value = element(source[unflat(flat(k, index.shape), source.shape)])
            return (unflat(place, x.shape), value) if x.ndim else ((), only(b, value, place))

        how = combining("add" if accumulate else "set", x.kind)
        return b.scatter(start=lambda i: element(x[i]), sizes=index.shape, element=part, how=how)

    def vjp(self, g, _y, _x, _source, index, *, accumulate):
        rest = g if accumulate else g.put(index, g.new_zeros(index.shape))
        return rest, g.take(index).reshape(_source.shape), None
