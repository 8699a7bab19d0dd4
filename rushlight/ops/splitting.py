"""One tensor as several views of its parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.modes import local
from rushlight.autograd.tape import Pick, Spec, counter, edge
from rushlight.dims import is_extent
from rushlight.layouts import whole
from rushlight.ops.base import Op, axis, composite, need_tensor, ops, registry
from rushlight.ops.elements import replaced, woven
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.slices import part_of
from rushlight.ops.views import ALL, looked_at, view_node
from rushlight.tensor import LEAF, VIEW, Tensor, install, new


class Pieces(Op, abstract=True):
    """Several views at once: each is seen again by the view op ``single``, all have one node.

    So backward joins the gradients of the pieces once, rather than adding up as many gradients
    of the whole as there are pieces; and a write to one piece rebases the whole as for any view.
    """

    operands = ("x",)
    single: Any
    pieces: Any  # (array, **attrs) → index of each piece, attributes with which ``single`` sees it

    def make(self) -> Callable[..., Any]:
        check, apply = self.check, self.apply

        def function(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
            operands, attrs = check(*args, **kwargs)
            return apply(operands, attrs)

        function.__wrapped__ = check  # type: ignore[attr-defined]
        type(self).check.__qualname__ = self.name
        return function

    def eager(self, x, **attrs):
        return tuple([x[index] for index, _ in self.pieces(x, **attrs)])

    def apply(self, operands: Sequence[Any], attrs: dict[str, Any]) -> tuple[Tensor, ...]:
        (x,) = operands
        state, single, shared = local.state, self.single, counter(x)
        recording, trace = state.grad, state.trace
        own = x._base is None or x._history is LEAF
        base, chain = (x, None) if own else (x._base, x._view)
        general = None if trace is None else trace.extents
        seen, views = looked_at(x), []
        for index, where in self.pieces(x._array, **attrs):
            array = seen[index if general is None else general.plain(index)]
            if trace is not None:
                array = trace.view(single, x, array, where)
            v = new(Tensor)
            v._array, v._counter, v._base = array, shared, base
            if recording:
                v._history, v._view_version = VIEW, shared.value
                if own or chain is not None:
                    v._view = (chain, single, where)
            views.append(v)
        if recording and x._history is not None and views:
            self.record(views, edge(x), attrs)
        return tuple(views)

    def record(self, views: list[Tensor], history: Any, attrs: dict[str, Any]) -> None:
        """One node for all views, of which each picks its own gradient."""
        if history is None:
            return
        node = view_node(self, history, views[0]._array, attrs)
        if len(views) == 1:
            views[0]._view_node = node
            return
        node.unusual = True
        node.parts = tuple([Spec(v._array.shape, v._array.dtype) for v in views])
        for i, v in enumerate(views):
            v._view_node = Pick(node, i, v._array)


class SplitWithSizes(Pieces):
    """Consecutive pieces of the sizes ``split_sizes`` along ``dim``, which must add up.

    >>> rl.arange(5).split_with_sizes([2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))
    """

    aliases = ("unsafe_split_with_sizes",)
    arithmetic = True
    single = part_of
    samples = [S(T(5, 2), [2, 3]), S(T(2, 5), [0, 4, 1], 1), S(T(3), [3], -1), S(T(0, 2), [0, 0])]
    errors = [
        Fails(RuntimeError, r"sum exactly to 5 .* split_sizes=\[2, 2\]", T(5), [2, 2]),
        Fails(RuntimeError, r"non-negative entries, but got split_sizes=\[6, -1\]", T(5), [6, -1]),
        Fails(RuntimeError, "at least a 1-dimensional tensor", T(), [1]),
        Fails(IndexError, "out of range", T(5), [5], 1),
    ]

    def check(self, input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
        x = need_tensor("split_with_sizes", input)
        d = splittable("split_with_sizes", x, dim)
        lengths = tuple([whole(n, "split_with_sizes", "split_sizes") for n in split_sizes])
        if min(lengths, default=0) < 0:
            raise RuntimeError(
                "split_with_sizes expects split_sizes have only non-negative entries, but got "
                f"split_sizes={list(lengths)}"
            )
        size = x._array.shape[d]
        if sum(lengths) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's "
                f"size at dimension {d}), but got split_sizes={list(lengths)}"
            )
        return (x,), {"lengths": lengths, "dim": d}

    def pieces(self, x, *, lengths, dim):
        before, start = (ALL,) * dim, 0
        for n in lengths:
            end = start + n
            yield (*before, slice(start, end)), {"dim": dim, "start": start, "end": end, "step": 1}
            start = end

    def at(self, b, i, x, *, lengths, dim):
        starts = itertools.accumulate(lengths[:-1], initial=0)
        return tuple([x[replaced(i, (dim,), (i[dim] + start,))] for start in starts])

    def vjp(self, g, _y, _x, *, lengths, dim):
        if not isinstance(g, tuple):
            return g
        return np.concatenate(g, dim) if isinstance(g[0], np.ndarray) else ops.cat(g, dim)


splitter = registry["split_with_sizes"]


def splittable(name: str, x: Tensor, dim: int) -> int:
    """The dimension to split, counted from the front; an error if there is none."""
    if not x._array.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return axis(dim, x._array.ndim)


def split_evenly(x: Tensor, length: int, d: int) -> tuple[Tensor, ...]:
    """Pieces of ``length`` elements, the last one perhaps shorter; at least one."""
    size = x._array.shape[d]
    if is_extent(length):  # which goes up with the size
        return splitter.apply((x,), {"lengths": taken_off(size, length), "dim": d})
    whole, rest = divmod(size, length) if length else (1, 0)
    lengths = (length,) * whole + ((rest,) if rest or not whole else ())
    return splitter.apply((x,), {"lengths": lengths, "dim": d})


def taken_off(size: int, length: int) -> tuple[int, ...]:
    """The sizes of pieces, compared and not divided: most other sizes have as many, too."""
    lengths = []
    while size > length:
        lengths.append(length)
        size = size - length
    return (*lengths, size)


@composite(
    aliases=("unsafe_split",),
    method=False,
    samples=[S(T(5, 2), 2), S(T(2, 6), 3, 1), S(T(5), [1, 4]), S(T(0, 2), 0), S(T(3), 7, dim=-1)],
    errors=[
        Fails(RuntimeError, "split_size can only be 0 if dimension size is 0", T(5), 0),
        Fails(RuntimeError, "split_size be non-negative, but got split_size=-1", T(5), -1),
        Fails(RuntimeError, "sum exactly to 5", T(5), [2, 2]),
        Fails(RuntimeError, "at least a 1-dimensional tensor", T(), 1),
    ],
)
def split(
    tensor: Tensor, split_size_or_sections: int | list[int] | tuple[int, ...], dim: int = 0
) -> tuple[Tensor, ...]:
    """Consecutive pieces along ``dim``: of one size (the last may be smaller), or of given sizes.

    >>> rl.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if isinstance(split_size_or_sections, (tuple, list)):
        return splitter.call(tensor, split_size_or_sections, dim)
    x = need_tensor("split", tensor, "tensor")
    d = splittable("split", x, dim)
    length = whole(split_size_or_sections, "split", "split_size_or_sections")
    size = x._array.shape[d]
    if length < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={length}")
    if not length and size:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
        )
    return split_evenly(x, length, d)


def split_method(
    self: Tensor, split_size: int | list[int] | tuple[int, ...], dim: int = 0
) -> tuple[Tensor, ...]:
    """Consecutive pieces along ``dim``: see :func:`split`."""
    return split(self, split_size, dim)


install(split=split_method, unsafe_split=split_method)


@composite(
    aliases=("unsafe_chunk",),
    samples=[S(T(6, 2), 3), S(T(2, 5), 3, 1), S(T(2), 5), S(T(0, 2), 3)],
    errors=[
        Fails(RuntimeError, "`chunks` to be greater than 0, got: 0", T(5), 0),
        Fails(RuntimeError, "at least a 1-dimensional tensor", T(), 1),
    ],
)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of equal size along ``dim``, but for a smaller last one.

    >>> rl.arange(5).chunk(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    x = need_tensor("chunk", input)
    d = splittable("chunk", x, dim)
    count, size = whole(chunks, "chunk", "chunks"), x._array.shape[d]
    if count <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {count}")
    if not size:
        return splitter.apply((x,), {"lengths": (0,) * count, "dim": d})
    if size % count == 0:
        return splitter.apply((x,), {"lengths": (size // count,) * count, "dim": d})
    return splitter.apply((x,), {"lengths": taken_off(size, size // count + 1), "dim": d})


@composite(
    samples=[
        S(T(5, 2), 3),
        S(T(2, 5), (1, 3), 1),
        S(T(5), (3, 1)),
        S(T(5), (-2, 9)),
        S(T(2), 4),
    ],
    errors=[
        Fails(RuntimeError, "sections must be larger than 0, got 0", T(5), 0),
        Fails(RuntimeError, "at least a 1-dimensional tensor", T(), 1),
    ],
)
def tensor_split(
    input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0
) -> tuple[Tensor, ...]:
    """A number of nearly equal pieces along ``dim``, or those between the given indices.

    >>> rl.arange(5).tensor_split(2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    >>> rl.arange(5).tensor_split((1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    x = need_tensor("tensor_split", input)
    d = splittable("tensor_split", x, dim)
    size = x._array.shape[d]
    where: Any = indices_or_sections
    if isinstance(where, Tensor) and where.ndim:
        if where.ndim != 1 or where._array.dtype != np.int64:
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional int64 tensor, but got {where.dtype} of shape {list(where.shape)}"
            )
        where = where._array.tolist()
    if isinstance(where, (tuple, list)):
        indices = [whole(i, "tensor_split", "indices_or_sections") for i in where]
        return between(x, indices, d)
    count = whole(where, "tensor_split", "indices_or_sections")
    if count <= 0:
        raise RuntimeError(f"tensor_split: number of sections must be larger than 0, got {count}")
    lengths = tuple([(size + count - 1 - i) // count for i in range(count)])
    return splitter.apply((x,), {"lengths": lengths, "dim": d})


def between(x: Tensor, indices: list[int], d: int) -> tuple[Tensor, ...]:
    """The pieces between ``indices``, which are as lenient as those of Python's slices."""
    size = x._array.shape[d]
    inside = [slice(i, None).indices(size)[0] for i in indices]
    starts, ends = [0, *inside], [*inside, size]
    if all([a <= b for a, b in zip(starts, ends, strict=True)]):
        lengths = tuple([b - a for a, b in zip(starts, ends, strict=True)])
        return splitter.apply((x,), {"lengths": lengths, "dim": d})
    return tuple([part_of.call(x, d, a, b) for a, b in zip(starts, ends, strict=True)])


def split_along(name: str, x: Tensor, where: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    """:func:`tensor_split` into pieces that must be equal if their number is given."""
    shape = need_tensor(name, x)._array.shape
    if len(shape) < least:
        raise RuntimeError(
            f"{name} requires a tensor with at least {least} dimension, but got a tensor with "
            f"{len(shape)} dimensions!"
        )
    if isinstance(where, int) and (where <= 0 or shape[dim] % where):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{shape[dim]} is not divisible by the split_size {where}!"
        )
    return x.tensor_split(where, dim)


@composite(
    samples=[S(T(2, 6), 3), S(T(4), (1, 3)), S(T(2, 4), (1, 3))],
    errors=[
        Fails(RuntimeError, "dimension 1, .* 2 is not divisible by the split_size 3", T(5, 2), 3),
        Fails(RuntimeError, "at least 1 dimension", T(), 1),
    ],
)
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Pieces side by side: along dimension 1, or 0 of a vector.

    >>> rl.arange(4).view(1, 4).hsplit(2)
    (tensor([[0, 1]]), tensor([[2, 3]]))
    """
    dim = 0 if need_tensor("hsplit", input)._array.ndim == 1 else 1
    return split_along("hsplit", input, indices_or_sections, dim, 1)


@composite(
    samples=[S(T(6, 2), 3), S(T(4, 2), (1, 3))],
    errors=[Fails(RuntimeError, "at least 2 dimension", T(4), 2)],
)
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Pieces below each other: along dimension 0.

    >>> rl.arange(4).view(2, 2).vsplit(2)
    (tensor([[0, 1]]), tensor([[2, 3]]))
    """
    return split_along("vsplit", input, indices_or_sections, 0, 2)


@composite(
    samples=[S(T(2, 2, 6), 3), S(T(1, 2, 4), (1, 3))],
    errors=[Fails(RuntimeError, "at least 3 dimension", T(5, 2), 1)],
)
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Pieces behind each other: along dimension 2.

    >>> [piece.shape for piece in rl.zeros(1, 2, 4).dsplit(2)]
    [rushlight.Size([1, 2, 2]), rushlight.Size([1, 2, 2])]
    """
    return split_along("dsplit", input, indices_or_sections, 2, 3)


class Unbind(Pieces):
    """All elements of a dimension, one by one, without it.

    >>> rl.arange(4).view(2, 2).unbind()
    (tensor([0, 1]), tensor([2, 3]))
    """

    single = registry["select"]
    samples = [S(T(2, 3)), S(T(2, 3), -1), S(T(3)), S(T(0, 2)), S(T(1, 2))]
    errors = [
        Fails(IndexError, "Dimension specified as 0 but tensor has no dimensions", T()),
        Fails(IndexError, "out of range", T(2, 3), 2),
    ]

    def check(self, input: Tensor, dim: int = 0) -> Any:
        x = need_tensor("unbind", input)
        if not x._array.ndim:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        return (x,), {"dim": axis(dim, x._array.ndim)}

    def pieces(self, x, *, dim):
        for i in range(x.shape[dim]):
            yield (*[ALL] * dim, i, ...), {"dim": dim, "index": i}

    def at(self, b, i, x, *, dim):
        return tuple([x[woven(i, (dim,), (k,))] for k in range(x.shape[dim])])

    def vjp(self, g, _y, _x, *, dim):
        return g.unsqueeze(dim) if isinstance(g, Tensor) else ops.stack(g, dim)
