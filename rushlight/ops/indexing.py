"""``x[index]`` and ``x[index] = value``.

An index is taken apart into a *basic* part (ints, slices, ``None``, ``...``), which makes a view,
and tensors of positions or masks, which pick elements of that view. Ints are basic even beside
tensors, so the dimensions that tensors make stand where PyTorch puts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.autograd.tape import edge, record
from rushlight.dims import Dim
from rushlight.errors import kind as kind_name
from rushlight.kernels import masks
from rushlight.kernels.accumulate import add_at
from rushlight.kernels.casting import cast, checked
from rushlight.kernels.indices import first_outside, out_of_bounds
from rushlight.ops.base import Op, check_writable, need_tensor, ops, overwrite, registry, touched
from rushlight.ops.elements import (
    clipped,
    combining,
    counted,
    looked_up,
    named,
    named_shape,
    parts_of,
    same,
    seen_along,
    wide,
)
from rushlight.ops.keys import BASIC, excess, index_tensor, items_of, part_of_index, plain, too_many
from rushlight.ops.replacement import Write
from rushlight.ops.samples import Fails, S, T
from rushlight.ops.slices import Part
from rushlight.ops.views import ALL, present, viewed
from rushlight.tensor import Tensor, install, literal, new, wrap

ndarray = np.ndarray
asarray = np.asarray
BOOL, INT64 = np.dtype(np.bool_), np.dtype(np.int64)
NUMBER = (int, float, complex, np.number, np.bool_)
SIMPLE = (float, int, bool)
FIRST = {"layout": (True,)}
ONCE = {"layout": (True,), "accumulate": False}


def at(*values: Any) -> T:
    """A tensor of positions, or a mask, among an op's samples."""
    return T(values=values, dtype=dtypes.from_numpy(np.array(values).dtype))


class Subscript(Part):
    """A part given by ints, slices, new dimensions and an ellipsis: ``x[1, :, None, ..., 2:4]``."""

    function = method = False

    def check(self, input: Tensor, index: tuple) -> Any:
        return (need_tensor("subscript", input),), {"index": index}

    def eager(self, x, *, index):
        return x[index]

    def explicit(self, shape, attrs):
        index: tuple[Any, ...] = attrs["index"]
        found: list[Any] = []
        named = [k for k in index if k is not None and k is not ...]
        sizes = iter(shape)
        for k in index:
            if k is ...:
                found += [ALL for _, _ in zip(range(len(shape) - len(named)), sizes, strict=False)]
            elif k is None:
                found.append(k)
            else:
                n = next(sizes)
                found.append(clipped(k, n) if isinstance(k, slice) else counted(k, n))
        return {"index": (*found, ...)}  # a view, even of one element

    def origin(self, b, i, shape, *, index):
        given, found = iter(i), []
        for part in parts_of(index, shape):
            if part is None:
                next(given)
            else:
                found.append(
                    part if isinstance(part, (int, Dim)) else next(given) * part.step + part.start
                )
        return found

    def seen(self, b, j, shape, *, index):
        given, found, conditions = iter(j), [], []
        for part in parts_of(index, shape):
            if part is None:
                found.append(0)
            elif isinstance(part, (int, Dim)):
                conditions.append(b.position(next(given)).eq(part))
            else:
                here, place = seen_along(b, next(given), part)
                conditions += here
                found.append(place)
        return conditions, found


class Index(Op):
    """The elements that tensors of positions, or masks, name.

    ``layout`` says for each leading dimension of ``x`` whether a tensor stands there; a mask
    stands for as many dimensions as it has.
    """

    function = method = False

    def check(self, input: Tensor, indices: Sequence[Tensor], layout: tuple[bool, ...]) -> Any:
        return (input, *indices), {"layout": layout}

    def eager(self, x, *indices, layout):
        try:
            if len(indices) == 1:
                (index,) = indices
                if index.dtype is not BOOL:
                    return asarray(x.take(index, len(layout) - 1))
                if len(layout) == 1:
                    return masks.pick(x, checked_mask(index, x))
            return asarray(x[laid_out(indices, layout)])
        except IndexError:
            raise refusal(x.shape, indices, layout) from None

    def infer(self, arrays, attrs):
        x, *indices = arrays
        if any([i.dtype is BOOL for i in indices]):
            return NotImplemented
        return self.eager(shortest(x, **attrs), *map(np.zeros_like, indices), **attrs)

    def decompose(self, x, *indices, layout):
        if not any([t._array.dtype is BOOL for t in indices]):
            return NotImplemented
        return index.apply(*unmasked((x,), indices, layout))

    def at(self, b, i, x, *indices, layout):
        return looked_up(b, x, named(b, i, x.shape, indices, layout))

    def vjp(self, g, _y, _x, *indices, layout):
        repeats = len(indices) > 1 or indices[0].dtype is not dtypes.bool_
        return put(g.new_zeros(_x.shape), indices, g, layout, accumulate=repeats)


class IndexPut(Write):
    """A copy in which the elements at ``indices`` are ``values``, or ``values`` are added to them.

    Args:
        indices: a tensor of positions for each leading dimension, or masks.
        accumulate: add to the elements, once for every time they are named.

    >>> x, i = rl.zeros(4), rl.tensor([0, 2, 2])
    >>> x.index_put((i,), rl.tensor(1.0), accumulate=True)
    tensor([1., 0., 2., 0.])
    """

    operands = ("x", "values", "indices")
    samples = [
        S(T(3, 4), (at(2, 0),), T(2, 4)),
        S(T(3, 4), (at(2, 0, 2),), T(4), accumulate=True),
        S(T(3), (at(True, False, True),), T(2)),
        S(T(3, 2), (at(True, False, True),), T(), accumulate=True),
        S(T(3, 4), (at(0, -1), at([1], [3])), T()),
        S(T(3, 4), (T(0, dtype=dtypes.int64),), T(4)),
    ]
    errors = [
        Fails(IndexError, "index 5 is out of bounds for dimension 0", T(3), (at(5),), T()),
        Fails(IndexError, "index -4 is out of bounds for dimension 0", T(3), (at(-4),), T()),
        Fails(IndexError, "tensors used as indices must be long", T(3), (T(2),), T()),
        Fails(IndexError, "too many indices for tensor of dimension 1", T(3), (at(0), at(0)), T()),
        Fails(IndexError, r"mask \[2\] at index 0 does not match", T(3), (at(True, False),), T()),
        Fails(RuntimeError, r"\[2\] cannot be broadcast to .* \[3\]", T(3), (at(0, 1, 2),), T(2)),
        Fails(RuntimeError, "dtypes match, got Float for .* and Long", T(3), (at(0),), at(1)),
        Fails(TypeError, "must be tuple of Tensors, not Tensor", T(3), at(0), T()),
        Fails(TypeError, "'values' .* must be Tensor, not float", T(3), (at(0),), 1.0),
    ]

    def infer(self, arrays, attrs):
        x, values, *indices = arrays
        if any([i.dtype is BOOL for i in indices]):
            return NotImplemented
        short = shortest(x, attrs["layout"])  # trying it is what finds values that do not fit
        self.write(short, *map(np.zeros_like, (values, *indices)), **attrs)
        return np.empty(x.shape, x.dtype)

    def check(
        self,
        input: Tensor,
        indices: Sequence[Tensor],
        values: Tensor,
        accumulate: bool = False,
    ) -> Any:
        x = need_tensor("index_put", input)
        if not isinstance(indices, (tuple, list)):
            raise TypeError(
                "index_put(): argument 'indices' (position 2) must be tuple of Tensors, "
                f"not {kind_name(indices)}"
            )
        need_tensor("index_put", values, "values", 3)
        tensors = [index_tensor(need_tensor("index_put", i, "indices", 2)) for i in indices]
        named = sum([t.ndim if t._array.dtype is BOOL else 1 for t in tensors])
        if named > x.ndim or not tensors:
            raise too_many(x.ndim, named)
        attrs = {"layout": (True,) * len(tensors), "accumulate": bool(accumulate)}
        return (x, fitting(x, values, tensors), *tensors), attrs

    def write(self, y, values, *indices, layout, accumulate):
        try:
            if layout == (True,) and indices[0].dtype is BOOL:
                mask = checked_mask(indices[0], y)
                masks.put(y, mask, masks.pick(y, mask) + values if accumulate else values)
            elif accumulate:
                add_at(y, expanded(laid_out(indices, layout), y.shape), values)
            else:
                y[laid_out(indices, layout)] = values
        except IndexError:
            raise refusal(y.shape, indices, layout) from None
        except ValueError:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast "
                f"to indexing result of shape {list(y[laid_out(indices, layout)].shape)}"
            ) from None

    def decompose(self, x, values, *indices, layout, accumulate):
        if not any([t._array.dtype is BOOL for t in indices]):
            return NotImplemented
        mask = indices[0]
        if layout != (True,) or values.ndim > x.ndim - mask.ndim:
            operands, attrs = unmasked((x, values), indices, layout)
            return index_put.apply(operands, {**attrs, "accumulate": accumulate})
        if mask.shape != x.shape[: mask.ndim]:
            raise refusal(x.shape, (mask._array,), layout)
        mask = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
        return ops.where(mask, x + values if accumulate else values, x)

    def scatter(self, b, x, values, *indices, layout, accumulate):
        element = wide if accumulate else same
        return b.scatter(
            start=lambda i: element(x[i]),
            sizes=named_shape(x.shape, indices, layout),
            element=lambda k: (
                named(b, k, x.shape, indices, layout),
                element(values.broadcast(k)),
            ),
            how=combining("add" if accumulate else "set", x.kind),
        )

    def vjp(self, g, _y, _x, _values, *indices, layout, accumulate):
        rest = g if accumulate else put(g.clone(), indices, g.new_zeros(()), layout)
        return rest, index.apply((g, *indices), {"layout": layout})


subscript, index, select, part = (
    registry[name] for name in ("subscript", "index", "select", "slice")
)
index_put: Any = registry["index_put"]


def put(
    x: Tensor,
    indices: Sequence[Tensor],
    values: Tensor,
    layout: tuple[bool, ...],
    accumulate: bool = False,
) -> Tensor:
    """Writes ``values`` into ``x`` where the tensors, laid out over its dimensions, say."""
    return index_put.change(x, (values, *indices), {"layout": layout, "accumulate": accumulate})


def unmasked(
    operands: Sequence[Tensor], indices: Sequence[Tensor], layout: tuple[bool, ...]
) -> tuple[Sequence[Tensor], dict[str, Any]]:
    """Operands and attributes with the positions where masks hold in place of the masks."""
    given, found, places = iter(indices), [], []
    for here in layout:
        t = next(given) if here else None
        parts = ops.nonzero(t, as_tuple=True) if t is not None and t.dtype is dtypes.bool_ else [t]
        found += [part for part in parts if part is not None]
        places += [here] * len(parts)
    return (*operands, *found), {"layout": tuple(places)}


def shortest(x: ndarray, layout: tuple[bool, ...]) -> ndarray:
    """Zeros like ``x``, but one element along each dimension in which positions are named."""
    named = layout[: x.ndim] + (False,) * (x.ndim - len(layout))
    return np.zeros([1 if short else n for n, short in zip(x.shape, named, strict=True)], x.dtype)


def laid_out(indices: Sequence[ndarray], layout: tuple[bool, ...]) -> tuple:
    """The index for NumPy: the arrays where they stand, full slices elsewhere."""
    if len(indices) == len(layout):
        return tuple(indices)
    arrays = iter(indices)
    return tuple([next(arrays) if here else ALL for here in layout])


def expanded(key: tuple, shape: tuple[int, ...]) -> tuple:
    """``key`` with the positions where masks hold in place of the masks."""
    positions: list[Any] = []
    for k in key:
        if k is not ALL and k.dtype is BOOL:
            dim = len(positions)
            if k.shape != shape[dim : dim + k.ndim]:
                raise IndexError
            positions.extend(k.nonzero())
        else:
            positions.append(k)
    return tuple(positions)


def checked_mask(mask: ndarray, x: ndarray) -> ndarray:
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError
    return mask


def refusal(
    shape: tuple[int, ...], indices: Sequence[ndarray], layout: tuple[bool, ...]
) -> IndexError:
    """Why the arrays cannot index a tensor of this shape, in PyTorch's words."""
    dim, bounds = 0, []
    for k in laid_out(indices, layout):
        if k is ALL or k.dtype is not BOOL:
            if k is not ALL:
                bounds.append((k, dim))
            dim += 1
            continue
        for i, n in enumerate(k.shape):
            if n != shape[dim]:
                return IndexError(
                    f"The shape of the mask {list(k.shape)} at index {i} does not match the shape "
                    f"of the indexed tensor {list(shape)} at index {dim}"
                )
            dim += 1
    for k, dim in bounds:
        wrong = first_outside(k, -shape[dim], shape[dim])
        if wrong is not None:
            return IndexError(out_of_bounds(wrong, dim, shape[dim]))
    shapes = [a.shape if a.dtype is not BOOL else (np.count_nonzero(a),) for a in indices]
    return IndexError(
        "shape mismatch: indexing tensors could not be broadcast together with shapes "
        + ", ".join([str(list(s)) for s in shapes])
    )


def fitting(x: Tensor, values: Tensor, tensors: Sequence[Tensor]) -> Tensor:
    """``values`` without needless leading dimensions, and of the dtype of ``x``."""
    source = values._array
    if source.dtype is not x._array.dtype:
        if source.size != 1 or len(tensors) > 1 or tensors[0]._array.dtype is not BOOL:
            raise RuntimeError(
                "Index put requires the source and destination dtypes match, got "
                f"{x.dtype.storage_name} for the destination and {values.dtype.storage_name} "
                "for the source."
            )
        values = values.to(x.dtype)
    return without_leading_ones(values)


def without_leading_ones(values: Tensor) -> Tensor:
    """``values`` without its leading dimensions of size 1, which no broadcasting needs."""
    shape = values._array.shape
    lead = 0
    while lead < len(shape) and shape[lead] == 1:
        lead += 1
    return values.reshape(shape[lead:]) if lead else values


def getitem(self: Tensor, key: Any) -> Tensor:
    """The part of the tensor that ``key`` names: a view, or a copy if ``key`` holds tensors.

    Args:
        key: ints, slices with a positive step, ``None`` for a new dimension, ``...``, bools,
            tensors (arrays, lists) of positions, masks; or a tuple of these.
    """
    x, kind = self._array, type(key)
    try:
        if kind is int:
            array = x[key]
            if type(array) is not ndarray:
                array = x[key, ...]
            return viewed(select, self, array, {"dim": 0, "index": key})
        if kind is slice:
            if plain(key):
                where = {"dim": 0, "start": key.start, "end": key.stop, "step": key.step or 1}
                return viewed(part, self, x[key], where)
        elif kind is tuple:
            if basic(key):
                array = x[key]
                if type(array) is not ndarray:
                    key = (*key, ...)
                    array = x[key]
                return viewed(subscript, self, array, {"index": key})
        elif kind is Tensor and x.ndim and direct(key):
            return picked(self, (key,), FIRST)
    except IndexError:
        pass  # `resolve` explains it, or takes what NumPy does not
    view, tensors, layout = resolve(self, key)
    return picked(view, tensors, {"layout": layout}) if tensors else view


def setitem(self: Tensor, key: Any, value: Any) -> None:
    """Writes ``value``, a number or a tensor that broadcasts, to the part that ``key`` names."""
    kind = type(key)
    if kind is int or (kind is slice and plain(key)) or (kind is tuple and basic(key)):
        write_part(self, key, value)
        return
    if kind is Tensor and direct(key) and write_at_once(self, key, value):
        return
    view, tensors, layout = resolve(self, key)
    if not tensors:
        write_part(view, ..., value)
    elif isinstance(value, Tensor):
        put(view, tensors, fitting(view, value, tensors), layout)
    else:
        put(view, tensors, literal(number(view, value)), layout)


install(__getitem__=getitem, __setitem__=setitem)


def basic(key: tuple) -> bool:
    """Whether NumPy and PyTorch agree that ``key`` makes a view, and which."""
    for k in key:
        kind = type(k)
        if kind not in BASIC and (kind is not slice or not plain(k)):
            return False
    return True


def direct(t: Tensor) -> bool:
    """Whether a tensor needs no conversion before it indexes the first dimensions."""
    array = t._array
    return array.ndim == 1 if array.dtype is INT64 else array.dtype is BOOL and array.ndim > 0


def picked(x: Tensor, indices: Sequence[Tensor], attrs: dict[str, Any]) -> Tensor:
    """`Index.apply` without its detours: nothing is computed, so no exception flags are raised."""
    if local.state.trace is not None:
        return index.traced((x, *indices), attrs)
    y = new(Tensor)
    y._array = index.eager(x._array, *[i._array for i in indices], **attrs)
    if x._history is not None and local.state.grad:
        record(index, y, (x, *indices), attrs)
    return y


def write_part(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value`` for a basic index."""
    state = local.state
    given = isinstance(value, Tensor)
    array = value._array if given else number(x, value)
    recorded = state.grad and (tracked(x) or (given and tracked(value)))
    if recorded or state.trace is not None:
        view = getitem(x, key)
        check_writable(view, "copy")
        source = without_leading_ones(value.to(x.dtype)) if given else literal(array)
        overwrite(view, source)
        return
    target = x._array
    if array.dtype is not target.dtype:
        array = state.run(cast, array, target.dtype)
    try:
        target[key] = array
    except (IndexError, ValueError):
        view = getitem(x, key)
        check_writable(view, "copy")
        source = without_leading_ones(wrap(array)).expand(view.shape)
        view._array[...] = source._array
    touched(x)


def write_at_once(x: Tensor, key: Tensor, value: Any) -> bool:
    """``x[key] = value`` for one tensor of positions or a mask, unless it must be recorded."""
    target = x._array
    given = isinstance(value, Tensor)
    state = local.state
    if state.trace is not None or (state.grad and (tracked(x) or (given and tracked(value)))):
        return False
    if not target.ndim or not target.flags.writeable:
        return False
    array = fitting(x, value, (key,))._array if given else number(x, value)
    index_put.write(target, array, key._array, **ONCE)
    touched(x)
    return True


def tracked(t: Tensor) -> bool:
    return t._history is not None and edge(t) is not None


def number(x: Tensor, value: Any) -> ndarray:
    """A number to be written to ``x``, as an array of its dtype."""
    kind = x._array.dtype
    if type(value) in SIMPLE and kind.kind == "f" and -6e4 < value < 6e4:
        return np.array(value, kind)
    if not isinstance(value, NUMBER):
        raise TypeError(
            f"can't assign a {kind_name(value)} to a tensor of {x.dtype}; "
            "make it a tensor first: rl.tensor(value)"
        )
    return np.array(checked(value, x.dtype)).astype(kind)


def resolve(x: Tensor, key: Any) -> tuple[Tensor, list[Tensor], tuple[bool, ...]]:
    """The view that the basic part of ``key`` makes, the tensors to index it with, their layout."""
    parts = [part_of_index(item) for item in items_of(key)]
    shape = x._array.shape
    free = len(shape) - sum([dims for _, dims in parts])
    if free < 0:
        raise excess(shape, parts, len(shape) - free)
    index: list[Any] = []
    layout: list[bool] = []
    tensors: list[Tensor] = []
    dim = 0
    for part, dims in parts:
        if isinstance(part, Tensor):
            index += [ALL] * dims
            layout.append(True)
            tensors.append(part)
        elif part is ...:
            index += [ALL] * free
            layout += [False] * free
            dim += free
            free = 0
        elif isinstance(part, bool):
            index.append(None)
            layout.append(True)
            tensors.append(wrap(np.zeros(int(part), INT64)))
        elif isinstance(part, int):
            if not -shape[dim] <= part < shape[dim]:
                raise IndexError(out_of_bounds(part, dim, shape[dim]))
            index.append(part)
        else:
            index.append(part)
            layout.append(False)
        dim += dims
    if len({t._array.ndim > 0 for t in tensors}) > 1:  # an int stands elsewhere than a tensor
        raise_unless_ints(tensors)
    while layout and not layout[-1]:
        layout.pop()
    if not tensors or index.count(ALL) < len(index):
        where = (*index, ...)
        x = viewed(subscript, x, x._array[present(where)], {"index": where})
    return x, tensors, tuple(layout)


def raise_unless_ints(tensors: Sequence[Tensor]) -> None:
    """An error for single positions, beside tensors of them, whose values are not known yet."""
    for t in tensors:
        if not t._array.ndim:
            int(t._array)
