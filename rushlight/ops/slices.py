"""Views of a part of the elements, and copies in which such a part is replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.layouts import shape_of, whole
from rushlight.ops.base import Op, axis, composite, need_tensor, registry, view_scatter
from rushlight.ops.elements import (
    among,
    chosen,
    clipped,
    counted,
    replaced,
    seen_along,
    span,
    wide,
    woven,
)
from rushlight.ops.memory import restrided
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.views import ALL, ALWAYS, WRONG, View, along, looked_at, present, viewed
from rushlight.tensor import Tensor

ndarray = np.ndarray


class Embed(Op):
    """Zeros of a given shape with ``part`` where a view of them looks: a view's derivative."""

    function = method = False

    def check(self, part: Tensor, view: View, shape: tuple[int, ...], where: dict[str, Any]) -> Any:
        return (part,), {"view": view, "shape": shape, "where": where}

    def infer(self, arrays, attrs):
        (part,) = arrays
        y = np.empty(attrs["shape"], part.dtype)
        np.broadcast_to(part, attrs["view"].eager(y, **attrs["where"]).shape)
        return y

    def eager(self, part, *, view, shape, where):
        y = np.zeros(shape, part.dtype)
        view.eager(y, **where)[...] = part
        return y

    def at(self, b, i, part, *, view, shape, where):
        conditions, index = view.seen(b, i, shape, **where)
        return chosen(b, conditions, part, index, lambda: b.constant(0, part.kind))

    def vjp(self, g, _y, _part, *, view, shape, where):
        return view.apply((g,), where)


embed = registry["embed"].call


class Part(View, abstract=True):
    """A view in which every element it sees is seen once."""

    def vjp(self, g, _y, _x, **where):
        return embed(g, self, _x.shape, where)


class Slice(Part):
    """Every ``step``-th element from ``start`` to before ``end`` in dimension ``dim``."""

    function = method = False
    samples = [S(T(5, 3), 0, 1, 4), S(T(3, 5), 1, -4, None, 2), S(T(3), 0, 2, 1), S(T(0, 2), 0)]
    errors = [
        Fails(RuntimeError, "slice step must be positive", T(3), 0, None, None, 0),
        Fails(RuntimeError, "cannot be applied to a 0-dim tensor", T()),
    ]

    def check(
        self,
        input: Tensor,
        dim: int = 0,
        start: int | None = None,
        end: int | None = None,
        step: int = 1,
    ) -> Any:
        x = need_tensor("slice", input)
        shape = x._array.shape
        if not shape:
            raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
        jump = whole(step, "slice", "step")
        if jump <= 0:
            raise RuntimeError(f"slice step must be positive, got {jump}")
        d = axis(dim, len(shape))
        first, last, _ = slice(start, end).indices(shape[d])
        return (x,), {"dim": d, "start": first, "end": max(first, last), "step": jump}

    def eager(self, x, *, dim, start, end, step):
        return x[along(dim, slice(start, end, step))]

    def explicit(self, shape, attrs):
        whole = slice(attrs["start"], attrs["end"], attrs["step"])
        part = clipped(whole, shape[attrs["dim"]])
        return {**attrs, "start": part.start, "end": part.stop}

    def origin(self, b, i, shape, *, dim, start, end, step):
        first = span(shape[dim], slice(start, end, step)).start
        return replaced(i, (dim,), (i[dim] * step + first,))

    def seen(self, b, j, shape, *, dim, start, end, step):
        conditions, place = seen_along(b, j[dim], span(shape[dim], slice(start, end, step)))
        return conditions, replaced(j, (dim,), (place,))


part_of = registry["slice"]


@composite(
    samples=[S(T(5, 3), 0, 1, 3), S(T(3, 5), -1, -2, 2), S(T(3), 0, 3, 0)],
    errors=[
        Fails(RuntimeError, r"start \(1\) \+ length \(2\) exceeds dimension size", T(2), 0, 1, 2),
        Fails(IndexError, r"start out of range .* \[-2, 2\], but got 3", T(2), 0, 3, 0),
        Fails(RuntimeError, "length must be non-negative", T(2), 0, 0, -1),
        Fails(RuntimeError, "cannot be applied to a 0-dim tensor", T(), 0, 0, 1),
    ],
)
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """The ``length`` elements from ``start`` on in dimension ``dim``.

    >>> rl.arange(5).narrow(0, 1, 3)
    tensor([1, 2, 3])
    """
    array = need_tensor("narrow", input)._array
    if not array.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = axis(dim, array.ndim)
    first, count = whole(start, "narrow", "start"), whole(length, "narrow", "length")
    n = array.shape[d]
    if count < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {count}")
    if not -n <= first <= n:
        raise IndexError(
            f"narrow(): start out of range (expected to be in range of [{-n}, {n}], "
            f"but got {first})"
        )
    if first < 0:
        first += n
    if first + count > n:
        raise RuntimeError(
            f"narrow(): start ({first}) + length ({count}) exceeds dimension size ({n})."
        )
    where = {"dim": d, "start": first, "end": first + count, "step": 1}
    return viewed(part_of, input, array[present(along(d, slice(first, first + count)))], where)


class Select(Part):
    """The elements at ``index`` of dimension ``dim``, without that dimension.

    >>> rl.arange(6).view(2, 3).select(1, -1)
    tensor([2, 5])
    """

    samples = [S(T(2, 3), 0, 1), S(T(2, 3), -1, -3), S(T(3), 0, 0), S(T(2, 0), 0, 1)]
    errors = [
        Fails(IndexError, r"index 2 out of range for tensor of size \[2, 3\]", T(2, 3), 0, 2),
        Fails(IndexError, "cannot be applied to a 0-dim tensor", T(), 0, 0),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", T(2, 3), 2, 0),
    ]

    def make(self) -> Callable[..., Any]:
        op, check, apply = self, self.check, self.apply

        def select(input: Tensor, dim: int, index: int) -> Tensor:
            try:
                if dim < 0 or type(index) is not int:
                    raise ValueError
                place: Any = (*[ALL] * dim, index, ...)
                array = input._array[place]
            except WRONG:
                return apply(*check(input, dim, index))
            return viewed(op, input, array, {"dim": dim, "index": index})

        return select

    def check(self, input: Tensor, dim: int, index: int) -> Any:
        x = need_tensor("select", input)
        shape = x._array.shape
        if not shape:
            raise IndexError("select() cannot be applied to a 0-dim tensor.")
        d, i = axis(dim, len(shape)), whole(index, "select", "index")
        if not -shape[d] <= i < shape[d]:
            raise IndexError(
                f"select(): index {i} out of range for tensor of size {list(shape)} "
                f"at dimension {d}"
            )
        return (x,), {"dim": d, "index": i % shape[d]}

    def eager(self, x, *, dim, index):
        place = (*[ALL] * dim, index, ...)
        return x[place]

    def explicit(self, shape, attrs):
        return {**attrs, "index": counted(attrs["index"], shape[attrs["dim"]])}

    def origin(self, b, i, shape, *, dim, index):
        return woven(i, (dim,), (span(shape[dim], index),))

    def seen(self, b, j, shape, *, dim, index):
        place = b.position(j[dim]).eq(span(shape[dim], index))
        return (place,), (*j[:dim], *j[dim + 1 :])


class Diagonal(Part):
    """The diagonal of two dimensions, as the last dimension; ``offset`` > 0 is above the main one.

    >>> rl.arange(9).view(3, 3).diagonal(1)
    tensor([1, 5])
    """

    samples = [
        S(T(3, 4)),
        S(T(3, 4), 1),
        S(T(3, 4), -1),
        S(T(2, 3, 4), 0, -1, 0),
        S(T(3, 3), 7),
        S(T(0, 3)),
    ]
    errors = [
        Fails(RuntimeError, "diagonal dimensions cannot be identical 1, 1", T(2, 3), 0, 1, 1),
        Fails(IndexError, "out of range", T(2)),
    ]

    def check(self, input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
        x = need_tensor("diagonal", input)
        a, b = axis(dim1, x._array.ndim), axis(dim2, x._array.ndim)
        if a == b:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        return (x,), {"offset": whole(offset, "diagonal", "offset"), "dim1": a, "dim2": b}

    def eager(self, x, *, offset, dim1, dim2):
        y = x.diagonal(offset, dim1, dim2)
        y.setflags(write=x.flags.writeable)
        return y

    def explicit(self, shape, attrs):
        rows = shape[attrs["dim1"]] + min(attrs["offset"], 0)
        columns = shape[attrs["dim2"]] - max(attrs["offset"], 0)
        max(min(rows, columns), 0)  # the smaller one decides: which it is becomes a condition
        return attrs

    def origin(self, b, i, shape, *, offset, dim1, dim2):
        place = i[-1] + max(-offset, 0), i[-1] + max(offset, 0)
        return woven(i[:-1], (dim1, dim2), place)

    def seen(self, b, j, shape, *, offset, dim1, dim2):
        place = j[dim1] if offset > 0 else j[dim2]
        rest = [part for d, part in enumerate(j) if d not in (dim1, dim2)]
        return (b.position(j[dim2] - j[dim1]).eq(offset),), (*rest, place)


class Unfold(View):
    """All windows of ``size`` elements, ``step`` apart, of a dimension, as a new last dimension.

    >>> rl.arange(5).unfold(0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3],
            [3, 4]])
    """

    function = False
    samples = [S(T(5), 0, 2, 1), S(T(2, 7), 1, 3, 2), S(T(5, 2), -2, 2, 4), S(T(), 0, 1, 1)]
    errors = [
        Fails(
            RuntimeError, "maximum size for tensor at dimension 0 is 4 but size is 5", T(4), 0, 5, 1
        ),
        Fails(RuntimeError, "step is 0 but must be > 0", T(4), 0, 2, 0),
        Fails(RuntimeError, "size is -1 but must be >= 0", T(4), 0, -1, 1),
    ]

    def check(self, input: Tensor, dimension: int, size: int, step: int) -> Any:
        x = need_tensor("unfold", input)
        shape = x._array.shape
        d = axis(dimension, len(shape))
        length, jump = whole(size, "unfold", "size"), whole(step, "unfold", "step")
        have = shape[d] if shape else 1
        if length < 0:
            raise RuntimeError(f"unfold(): size is {length} but must be >= 0")
        if length > have:
            raise RuntimeError(
                f"unfold(): maximum size for tensor at dimension {d} is {have} but size is {length}"
            )
        if jump <= 0:
            raise RuntimeError(f"unfold(): step is {jump} but must be > 0")
        shape_of("unfold", (*shape, length), x._array.dtype)
        return (x,), {"dimension": d, "size": length, "step": jump}

    def eager(self, x, *, dimension, size, step):
        if not x.ndim:
            return x.reshape((1,))[:size]
        shape, strides = [*x.shape, size], [*x.strides, x.strides[dimension]]
        shape[dimension] = (shape[dimension] - size) // step + 1
        strides[dimension] *= step
        return restrided(x, shape, strides)

    def origin(self, b, i, shape, *, dimension, size, step):
        place = i[dimension] * step + i[-1]
        return replaced(i[:-1], (dimension,), (place,)) if shape else ()

    def seen(self, b, j, shape, *, dimension, size, step):
        if not shape:
            return ALWAYS, (0,)
        # Of the windows that hold an element the last one counts: it is written last.
        last = b.min(b.position(j[dimension]) // step, (shape[dimension] - size) // step)
        inner = j[dimension] - last * step
        return (inner < size,), (*replaced(j, (dimension,), (last,)), inner)

    def vjp(self, g, _y, _x, *, dimension, size, step):
        return fold_back(g, _x.shape, dimension, size, step)


def sum_kind(kind: np.dtype) -> np.dtype:
    """The dtype to add up in: half types are rounded once, at the end."""
    return np.dtype(np.float32) if kind in dtypes.HALF else kind


class FoldBack(Op):
    """The sum of windows laid back where :class:`Unfold` saw them: its derivative."""

    function = method = False

    def check(
        self, windows: Tensor, shape: tuple[int, ...], dimension: int, size: int, step: int
    ) -> Any:
        return (windows,), {"shape": shape, "dimension": dimension, "size": size, "step": step}

    def infer(self, arrays, attrs):
        (windows,), shape = arrays, attrs["shape"]
        if windows.ndim != len(shape) + 1 or windows.shape[-1] != attrs["size"]:
            raise ValueError(f"windows of shape {windows.shape} are not those of {shape}")
        return np.empty(shape, windows.dtype)

    def eager(self, windows, *, shape, dimension, size, step):
        y = np.zeros(shape, sum_kind(windows.dtype))
        if not shape:
            return windows.sum().astype(windows.dtype)
        span = step * windows.shape[dimension]
        for i in range(size):
            y[along(dimension, slice(i, i + span, step))] += windows[..., i]
        return y.astype(windows.dtype, copy=False)

    def at(self, b, i, windows, *, shape, dimension, size, step):
        if not shape:
            return b.sum(windows.shape, lambda *k: wide(windows[k]))
        count = windows.shape[dimension]

        def part(k: Any) -> Any:
            place = b.position(i[dimension]) - k
            window = place // step
            holds = among(b, [(place % step).eq(0), window >= 0, window < count])
            index = (*replaced(i, (dimension,), (window,)), k)
            return chosen(b, [holds], windows, index, lambda: b.constant(0, windows.kind), wide)

        return b.sum((size,), part)

    def folded(self, attrs, *shapes):
        return ()

    def vjp(self, g, _y, _windows, *, shape, dimension, size, step):
        return g.unfold(dimension, size, step)


fold_back = registry["fold_back"].call


def scatter(name: str, x: Tensor, src: Tensor, view: str, *where: Any) -> Tensor:
    """A copy of ``x`` with ``src`` in place of the elements that ``view`` sees."""
    op = registry[view]
    _, attrs = op.check(need_tensor(name, x), *where)
    seen = op.eager(looked_at(x), **attrs).shape
    if need_tensor(name, src, "src", 2)._array.shape != seen:
        raise RuntimeError(
            f"{name}(): expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(seen)}"
        )
    return view_scatter.call(x, src.to(x.dtype), (None, op, attrs))


@composite(
    samples=[S(T(2, 3), T(3), 0, 1), S(T(2, 3), T(2), -1, -1)],
    errors=[Fails(RuntimeError, r"src size = \[2\], slice size = \[3\]", T(2, 3), T(2), 0, 1)],
)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of ``input`` with ``src`` in place of ``input.select(dim, index)``.

    >>> rl.zeros(2, 2).select_scatter(rl.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    return scatter("select_scatter", input, src, "select", dim, index)


@composite(
    samples=[S(T(5, 3), T(2, 3), 0, 1, 5, 2), S(T(4), T(4)), S(T(4), T(2), start=-2)],
    errors=[Fails(RuntimeError, r"src size = \[3\], slice size = \[2\]", T(4), T(3), 0, 2)],
)
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """A copy of ``input`` with ``src`` in place of the slice ``start:end:step`` of ``dim``.

    >>> rl.zeros(4).slice_scatter(rl.ones(2), start=1, step=2)
    tensor([0., 1., 0., 1.])
    """
    return scatter("slice_scatter", input, src, "slice", dim, start, end, step)


@composite(
    samples=[S(T(3, 3), T(3)), S(T(3, 4), T(2), -1), S(T(2, 3, 4), T(4, 2), 0, 0, 1)],
    errors=[Fails(RuntimeError, r"src size = \[3\], slice size = \[2\]", T(2, 2), T(3))],
)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of ``input`` with ``src`` in place of ``input.diagonal(offset, dim1, dim2)``.

    >>> rl.zeros(2, 2).diagonal_scatter(rl.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return scatter("diagonal_scatter", input, src, "diagonal", offset, dim1, dim2)
