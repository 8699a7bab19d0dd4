"""Several tensors as one: side by side, or along a new dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.autograd.stack import Joining
from rushlight.autograd.tape import record
from rushlight.layouts import shape_of
from rushlight.ops.base import (
    Op,
    any_tracked,
    axis,
    composite,
    into,
    need_tensor,
    numpy_names,
    ops,
)
from rushlight.ops.elements import among, kind_of, replaced
from rushlight.ops.grids import several
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.views import INSERT, WRONG, parts
from rushlight.tensor import Tensor, new


def tensor_list(name: str, tensors: Any) -> list[Tensor]:
    """``tensors`` as a list, or the ``TypeError`` that names the first that is none."""
    if not isinstance(tensors, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{messages.kind(tensors)}"
        )
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"{name}(): expected Tensor as element {i} in argument 0, but got "
                f"{messages.kind(t)}"
            )
    return list(tensors)


def common_kind(tensors: Sequence[Tensor]) -> np.dtype:
    """The dtype that all ``tensors`` are promoted to."""
    kind = tensors[0]._array.dtype
    for t in tensors:
        if t._array.dtype is not kind:
            kind = dtypes.promote_types(dtypes.from_numpy(kind), t.dtype).numpy
    return kind


class Join(Op, abstract=True):
    """Tensors of one dtype in one array."""

    method = False

    def join(self, arrays: Sequence[np.ndarray], dim: int) -> np.ndarray:
        """The arrays in one; ``ValueError`` if they do not fit."""
        raise NotImplementedError

    def make(self) -> Callable[..., Any]:
        op, join, explain = self, self.join, super().make()

        def function(
            tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None
        ) -> Tensor:
            if local.state.trace is not None:
                return explain(tensors, dim, out=out)
            try:
                arrays = arrays_of_one_kind(tensors)
                array = join(arrays, dim)
            except WRONG:
                return explain(tensors, dim, out=out)
            y = new(Tensor)
            y._array = array
            if local.state.grad and any_tracked(tensors):
                record(op, y, tensors, {"dim": dim, "kind": array.dtype})
            return y if out is None else into(out, y)

        return numpy_names(function)

    def infer(self, arrays, attrs):
        bytes_like = [np.broadcast_to(np.uint8(0), a.shape) for a in arrays]
        return np.empty(self.join(bytes_like, attrs["dim"]).shape, attrs["kind"])

    def eager(self, *tensors, dim, kind):
        return self.join([t.astype(kind, copy=False) for t in tensors], dim)


def arrays_of_one_kind(tensors: Any) -> list[np.ndarray]:
    """The arrays of a list of tensors; ``ValueError`` if their dtypes differ, or there are none."""
    if type(tensors) is not list and type(tensors) is not tuple:
        raise ValueError
    arrays = [t._array for t in tensors]
    kind = arrays[0].dtype
    for a in arrays:
        if a.dtype is not kind:
            raise ValueError
    return arrays


class Cat(Join):
    """The tensors one after the other along an existing dimension.

    They must have the same shape but for that dimension, and are promoted to a common dtype;
    empty vectors fit to any shape.

    >>> rl.cat([rl.ones(1, 2), rl.zeros(2, 2)])
    tensor([[1., 1.],
            [0., 0.],
            [0., 0.]])
    """

    aliases = ("concat", "concatenate")
    arithmetic = True
    samples = [
        S([T(2, 3), T(1, 3)]),
        S([T(2, 3), T(2, 0), T(2, 1)], dim=-1),
        S([T(2), T(0), T(3)]),
        S([T(2, 2), T(0)], 1),
        S([T(2), T(2, dtype=dtypes.int64)]),
    ]
    errors = [
        Fails(RuntimeError, r"Expected size 3 but got size 4 .* \[2, 4\]", [T(2, 3), T(2, 4)]),
        Fails(RuntimeError, "same number of dimensions: got 2 and 1", [T(2, 3), T(4)]),
        Fails(RuntimeError, "same number of dimensions: got 2 and 1", [T(2, 3), T(2)], -1),
        Fails(RuntimeError, r"zero-dimensional tensor \(at position 1\)", [T(1), T()]),
        Fails(ValueError, "expected a non-empty list of Tensors", []),
        Fails(TypeError, "element 1 in argument 0, but got float", [T(2), 1.0]),
        Fails(IndexError, r"range of \[-2, 1\], but got 2", [T(2, 3)], 2),
    ]

    def join(self, arrays: Sequence[np.ndarray], dim: int) -> np.ndarray:
        return np.concatenate(arrays, dim)

    def infer(self, arrays, attrs):
        shapes = [list(a.shape) for a in arrays if a.shape != (0,)] or [[0]]
        dim = attrs["dim"]
        count = sum([shape.pop(dim) for shape in shapes])
        if any([shape != shapes[0] for shape in shapes]):
            return super().infer(arrays, attrs)  # which says what is wrong
        d = dim % (len(shapes[0]) + 1)
        return np.empty((*shapes[0][:d], count, *shapes[0][d:]), attrs["kind"])

    def at(self, b, i, *tensors, dim, kind):
        d, start, found = dim % len(i), 0, None
        place = b.position(i[d])
        for x in [x for x in tensors if x.ndim == len(i) and x.shape[d]]:
            holds = among(b, [place >= start, place < start + x.shape[d]])
            here = b.within(holds, place - start)
            value = x[replaced(i, (d,), (here,))].cast(kind_of(kind))
            found = value if found is None else b.where(place < start, found, value)
            start += x.shape[d]
        return found

    def check(self, tensors: Sequence[Tensor], dim: int = 0) -> Any:
        given = tensor_list("cat", tensors)
        if not given:
            raise ValueError("cat(): expected a non-empty list of Tensors")
        shapes = [t._array.shape for t in given]
        if () in shapes:
            i = shapes.index(())
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        first = next((shape for shape in shapes if shape != (0,)), (0,))
        d = axis(dim, len(first))
        before, after = first[:d], first[d + 1 :]
        for i, shape in enumerate(shapes):
            alike = len(shape) == len(first) and shape[:d] == before and shape[d + 1 :] == after
            if not alike and shape != (0,):
                raise mismatch(first, shape, d, i)
        kind = common_kind(given)
        if len(first) > 1:
            given = [t for t in given if t._array.shape != (0,)]
        return given, {"dim": d, "kind": kind}

    def vjp(self, g, _y, *_tensors, dim, kind):
        lengths = [t.shape[dim] for t in _tensors]
        if isinstance(g, np.ndarray):
            return tuple(parts(g, lengths, dim % g.ndim))
        return g.split_with_sizes(lengths, dim)


def mismatch(first: tuple[int, ...], shape: tuple[int, ...], d: int, i: int) -> RuntimeError:
    """Why a tensor of ``shape``, the ``i``-th, does not fit to one of the shape ``first``."""
    seen = f"[cat along dim {d} of shapes {list(first)} and {list(shape)}]"
    if len(shape) != len(first):
        return RuntimeError(
            f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)} {seen}"
        )
    wrong = next(k for k in range(len(first)) if k != d and first[k] != shape[k])
    return RuntimeError(
        f"Sizes of tensors must match except in dimension {d}. Expected size {first[wrong]} but "
        f"got size {shape[wrong]} for tensor number {i} in the list. {seen}"
    )


class Stack(Join):
    """Tensors of one shape, next to each other along a new dimension.

    >>> rl.stack([rl.ones(2), rl.zeros(2)])
    tensor([[1., 1.],
            [0., 0.]])
    """

    samples = [
        S([T(2, 3), T(2, 3)]),
        S([T(2, 3), T(2, 3), T(2, 3)], -1),
        S([T(), T()]),
        S([T(0, 2)], dim=1),
    ]
    errors = [
        Fails(RuntimeError, "stack expects a non-empty TensorList", []),
        Fails(RuntimeError, r"\[2\] at entry 0 and \[3\] at entry 1", [T(2), T(3)]),
        Fails(IndexError, r"range of \[-2, 1\], but got 3", [T(2), T(2)], 3),
        Fails(TypeError, "must be tuple of Tensors, not Tensor", T(2)),
    ]

    def check(self, tensors: Sequence[Tensor], dim: int = 0) -> Any:
        given = tensor_list("stack", tensors)
        if not given:
            raise RuntimeError("stack expects a non-empty TensorList")
        first = given[0]._array.shape
        d = axis(dim, len(first) + 1)
        for i, t in enumerate(given):
            if t._array.shape != first:
                raise RuntimeError(
                    f"stack expects each tensor to be equal size, but got {list(first)} at entry "
                    f"0 and {list(t.shape)} at entry {i}"
                )
        shape_of("stack", (len(given), *first), given[0]._array.dtype)
        return given, {"dim": d, "kind": common_kind(given)}

    def join(self, arrays: Sequence[np.ndarray], dim: int) -> np.ndarray:
        if dim == 0 and arrays[0].ndim:
            return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape)
        place = INSERT[dim]
        return np.concatenate([a[place] for a in arrays], dim)

    def at(self, b, i, *tensors, dim, kind):
        d = dim % len(i)
        place, rest = b.position(i[d]), (*i[:d], *i[d + 1 :])
        found = tensors[0][rest].cast(kind_of(kind))
        for k, x in enumerate(tensors[1:], 1):
            found = b.where(place < k, found, x[rest].cast(kind_of(kind)))
        return found

    def vjp(self, g, _y, *_tensors, dim, kind):
        return g.unbind(dim)


Joining.stack = ops.stack


@composite(
    method=False,
    samples=[S([T(2, 3), T(2, 1)]), S([T(2), T(3)]), S([T(), T()])],
    errors=[Fails(RuntimeError, "Expected size 3 but got size 2", [T(3, 1), T(2, 1)])],
)
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors side by side: along dimension 1, or 0 for vectors.

    >>> rl.hstack([rl.tensor([1, 2]), rl.tensor([3])])
    tensor([1, 2, 3])
    """
    columns = ops.atleast_1d(tensor_list("hstack", tensors))
    if not columns:
        raise RuntimeError("hstack expects a non-empty TensorList")
    return ops.cat(columns, 0 if columns[0]._array.ndim == 1 else 1, out=out)


@composite(
    method=False,
    aliases=("row_stack",),
    samples=[S([T(2, 3), T(1, 3)]), S([T(3), T(3)]), S([T(), T()])],
    errors=[Fails(RuntimeError, "Expected size 3 but got size 2", [T(3), T(2)])],
)
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors below each other, vectors as rows: along dimension 0.

    >>> rl.vstack([rl.tensor([1, 2]), rl.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    rows = ops.atleast_2d(tensor_list("vstack", tensors))
    if not rows:
        raise RuntimeError("vstack expects a non-empty TensorList")
    return ops.cat(rows, 0, out=out)


@composite(
    method=False,
    samples=[S([T(2, 3), T(2, 3)]), S([T(3), T(3)]), S([T(1, 2, 1), T(1, 2, 3)]), S([T()])],
    errors=[Fails(RuntimeError, "Expected size 3 but got size 2", [T(3), T(2)])],
)
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors behind each other: along dimension 2.

    >>> rl.dstack([rl.tensor([1, 2]), rl.tensor([3, 4])])
    tensor([[[1, 3],
             [2, 4]]])
    """
    layers = ops.atleast_3d(tensor_list("dstack", tensors))
    if not layers:
        raise RuntimeError("dstack expects a non-empty TensorList")
    return ops.cat(layers, 2, out=out)


@composite(
    method=False,
    samples=[S([T(3), T(3, 2)]), S([T(), T(1, 2)])],
    errors=[Fails(RuntimeError, "Expected size 3 but got size 2", [T(3), T(2)])],
)
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors side by side, vectors as columns.

    >>> rl.column_stack([rl.tensor([1, 2]), rl.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    given = tensor_list("column_stack", tensors)
    if not given:
        raise RuntimeError("column_stack expects a non-empty TensorList")
    columns = [t.reshape(t._array.size, 1) if t._array.ndim <= 1 else t for t in given]
    return ops.hstack(columns, out=out)


@composite(
    method=False,
    samples=[S(T(2, 3), T(1, 2)), S(T(), T(2)), S(T(2, 0), T(1, 1)), S()],
    errors=[Fails(RuntimeError, "Input 0 has 3 dimensions", T(2, 2, 2))],
)
def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """The matrices along the diagonal of a larger one, zeros elsewhere.

    >>> rl.block_diag(rl.tensor([[1, 2]]), rl.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    given = several(tensors)
    for i, t in enumerate(given):
        if need_tensor("block_diag", t, "tensors", i + 1)._array.ndim > 2:
            raise RuntimeError(
                "block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{i} has {t.ndim} dimensions"
            )
    if not given:
        return ops.empty(1, 0)
    blocks = [t if t._array.ndim == 2 else t.reshape(1, t._array.size) for t in given]
    total = sum([t._array.shape[1] for t in blocks])
    rows, left = [], 0
    for t in blocks:
        width = t._array.shape[1]
        rows.append(ops.constant_pad_nd(t, (left, total - left - width)))
        left += width
    return ops.cat(rows)


@composite(
    name="_chunk_cat",
    method=False,
    samples=[S([T(4, 2), T(3, 3)], 0, 2), S([T(2, 4), T(2, 3)], 1, 2)],
    errors=[Fails(RuntimeError, "num_chunks >= 1", [T(2)], 0, 0)],
)
def chunk_cat(
    tensors: Sequence[Tensor], dim: int, num_chunks: int, *, out: Tensor | None = None
) -> Tensor:
    """Each tensor cut into ``num_chunks`` chunks along ``dim``, padded to equal size and
    flattened; the chunks of all tensors side by side.

    >>> rl._chunk_cat([rl.arange(4), rl.arange(3)], 0, 2)
    tensor([[0, 1, 0, 1],
            [2, 3, 2, 0]])
    """
    given = tensor_list("_chunk_cat", tensors)
    if num_chunks < 1:
        raise RuntimeError(f"_chunk_cat expects num_chunks >= 1, got num_chunks={num_chunks}")
    d = axis(dim, given[0]._array.ndim) if given else 0
    flat = []
    for t in given:
        shape = t._array.shape
        short = -shape[d] % num_chunks
        padded = ops.constant_pad_nd(t, (*[0, 0] * (len(shape) - d - 1), 0, short))
        flat.append(padded.reshape(*shape[:d], num_chunks, -1))
    y = ops.cat(flat, d + 1)
    return y if out is None else into(out, y)
