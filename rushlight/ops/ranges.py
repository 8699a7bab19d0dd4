"""Numbers in order: ranges, diagonals, the indices of triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.dims import Dim, greatest, index
from rushlight.kernels.casting import cast, checked
from rushlight.layouts import shape_of, whole
from rushlight.ops.base import composite, need_tensor
from rushlight.ops.creation import NUMBER, Factory, numpy_kind
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

UNCOUNTABLE = (dtypes.bool_, dtypes.complex64, dtypes.complex128)


def number(name: str, argument: str, value: Any) -> Any:
    """``value`` as a Python number; 0-d tensors and NumPy numbers count as such."""
    if isinstance(value, (Tensor, np.generic)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, NUMBER):
        return value
    if isinstance(value, Tensor):
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got {argument} with "
            f"{value.ndim} dimension(s)."
        )
    raise TypeError(f"{name}(): argument '{argument}' must be Number, not {messages.kind(value)}")


def countable(name: str, kind: dtypes.dtype) -> dtypes.dtype:
    if kind in UNCOUNTABLE:
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{kind.storage_name}'")
    return kind


def bounds(name: str, kind: dtypes.dtype, *values: Any) -> list[Any]:
    """Start, end and step of a range, checked to lead from one to the other."""
    start, end, step = values
    for value in values:
        checked(value, dtypes.float64)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not all([isinstance(v, int) or math.isfinite(v) for v in (start, end)]):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end < start) if step > 0 else (end > start):
        raise RuntimeError(
            f"upper bound and lower bound inconsistent with step sign: {name}({start}, {end}, "
            f"{step})"
        )
    if kind is not dtypes.int64:
        return list(values)
    return [index(v) if isinstance(v, int) else int(v) for v in values]


class Arange(Factory):
    """Numbers from ``start`` up to, but not including, ``end``: start, start + step, …

    int64 if all three are whole, else the default dtype.

    >>> rl.arange(5)
    tensor([0, 1, 2, 3, 4])
    >>> rl.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """

    samples = [
        S(5), S(2, 5), S(5, 2, -1), S(0, 1, 0.3), S(3.0), S(0), S(start=1, end=4), S(end=3),
        S(0, 5, 2, dtype=dtypes.float64), S(0.5, 5, 1.5, dtype=dtypes.int32),
    ]  # fmt: skip
    errors = [
        Fails(RuntimeError, "step must be nonzero", 0, 5, 0),
        Fails(RuntimeError, "inconsistent with step sign", 5, 2),
        Fails(RuntimeError, "unsupported range", 0, math.nan),
        Fails(TypeError, "must be Number, not str", "a"),
        Fails(NotImplementedError, "not implemented for 'Bool'", 3, dtype=dtypes.bool_),
    ]

    def check(
        self,
        start: Tensor | float | None = None,
        end: Tensor | float | None = None,
        step: Tensor | float = 1,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        if end is None:
            start, end = 0, start
        elif start is None:
            start = 0
        named = (("start", start), ("end", end), ("step", step))
        values = [number("arange", argument, value) for argument, value in named]
        counted = all([isinstance(v, int) for v in values])
        if dtype is not None:
            kind = dtypes.as_dtype(dtype)
        else:
            kind = dtypes.int64 if counted else dtypes.get_default_dtype()
        countable("arange", kind)
        start, end, step = bounds("arange", kind, *values)
        exact = counted or kind is dtypes.int64
        count = -((start - end) // step) if exact else math.ceil((end - start) / step)
        shape_of("arange", (count,), kind.numpy)
        return (), {"start": start, "step": step, "count": count, "kind": kind.numpy}

    def eager(self, *, start, step, count, kind):
        if kind.kind in "iu":
            start, step = int(start), int(step)
            return np.arange(start, start + count * step, step).astype(kind, copy=False)
        return cast(start + step * np.arange(count, dtype=np.float64), kind)

    def at(self, b, i, *, start, step, count, kind):
        if kind.kind in "iu":
            first, jump = [n if isinstance(n, Dim) else int(n) for n in (start, step)]
            return b.position(i[0] * jump + first)
        first, jump = [
            b.position(n).cast("f64") if isinstance(n, Dim) else n for n in (start, step)
        ]
        return b.position(i[0]).cast("f64") * jump + first


class Range(Factory):
    """Numbers from ``start`` to ``end``, both included; PyTorch advises :func:`arange` instead.

    >>> rl.range(1, 2, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """

    samples = [S(1, 4), S(1, 4, 0.5), S(0, 3, dtype=dtypes.int64)]
    errors = [
        Fails(RuntimeError, "step must be nonzero", 0, 5, 0),
        Fails(RuntimeError, "inconsistent with step sign", 5, 2),
    ]

    def check(
        self,
        start: Tensor | float,
        end: Tensor | float,
        step: Tensor | float = 1,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
        countable("range", kind)
        named = (("start", start), ("end", end), ("step", step))
        values = [number("range", argument, value) for argument, value in named]
        first, last, stride = bounds("range", kind, *values)
        count = math.floor((last - first) / stride) + 1
        return (), {"start": first, "step": stride, "count": count, "kind": kind.numpy}

    def eager(self, *, start, step, count, kind):
        return cast(start + step * np.arange(count), kind)

    def at(self, b, i, *, start, step, count, kind):
        return b.position(i[0]).cast("f64") * step + start


STEP_SAMPLES = [
    S(0, 1, 5), S(3.5, -2, 4), S(0, 1, 1), S(0, 1, 0), S(0, 10, 4, dtype=dtypes.int64),
    S(T(), T(), 3), S(T(), 1.0, 3), S(0, 1j, 3), S(start=0, end=1, steps=3),
]  # fmt: skip
STEP_ERRORS = [
    Fails(RuntimeError, "number of steps must be non-negative", 0, 1, -1),
    Fails(RuntimeError, "0-dimensional start and end", T(1), 1, 3),
    Fails(TypeError, "argument 'steps' must be int, not float", 0, 1, 5.5),
    Fails(NotImplementedError, "not implemented for 'Bool'", 0, 1, 3, dtype=dtypes.bool_),
]


def steps_between(name: str, start: Any, end: Any, steps: Any, dtype: Any) -> dict[str, Any]:
    start, end = number(name, "start", start), number(name, "end", end)
    count = whole(steps, name, "steps")
    if count < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {count}")
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if isinstance(start, complex) or isinstance(end, complex):
        kind = kind.to_complex() if dtype is None else kind
        if kind.category < dtypes.COMPLEX:
            raise RuntimeError(
                f"{name}(): inferred dtype {kind.to_complex()} can't be safely cast to passed "
                f"dtype {kind}"
            )
    if kind is dtypes.bool_:
        countable(name, kind)
    return {"start": start, "end": end, "steps": count, "kind": kind.numpy}


def evenly(start: Any, end: Any, steps: int, kind: np.dtype) -> np.ndarray:
    """``steps`` numbers from ``start`` to ``end``, counted from the nearer end, in a wider type."""
    unit = np.dtype(np.float32) if kind in dtypes.HALF else kind
    if kind.kind in "iu":
        unit = np.dtype(np.float64)
    first, last = [cast(np.array(value), kind).astype(unit) for value in (start, end)]
    step = (last - first) / unit.type(max(steps - 1, 1))
    single = unit != kind or unit in (np.float32, np.complex64)
    step = step.astype(np.promote_types(unit, np.float64 if single else np.longdouble))
    i = np.arange(steps)
    return np.where(i < max(steps // 2, 1), first + step * i, last - step * (steps - 1 - i))


def evenly_at(b: Any, i: Any, start: Any, end: Any, steps: Any, kind: np.dtype) -> Any:
    """:func:`evenly` at ``i``; how many steps there are may be known at a run only."""
    unit = np.dtype(np.float64 if kind.kind in "iu" or kind == np.float64 else np.float32)
    width = f"f{8 * unit.itemsize}"
    first, last = [cast(np.array(value), kind).astype(unit) for value in (start, end)]
    between = b.position(greatest(steps - 1, 1)).cast(width)
    step = (b.constant(float(last - first), width) / between).cast("f64")
    k = b.position(i[0])
    forwards = b.fma(k.cast("f64"), step, float(first))
    backwards = b.fma((steps - 1 - k).cast("f64"), -step, float(last))
    return b.where(k < greatest(steps // 2, 1), forwards, backwards)


class Linspace(Factory):
    """``steps`` numbers, evenly spaced, from ``start`` to ``end``, both included.

    >>> rl.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """

    samples = STEP_SAMPLES
    errors = STEP_ERRORS

    def check(
        self,
        start: Tensor | complex,
        end: Tensor | complex,
        steps: int,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        return (), steps_between("linspace", start, end, steps, dtype)

    def eager(self, *, start, end, steps, kind):
        return cast(evenly(start, end, steps, kind), kind)

    def at(self, b, i, *, start, end, steps, kind):
        return evenly_at(b, i, start, end, steps, kind)


class Logspace(Factory):
    """``base`` to the power of ``steps`` numbers, evenly spaced, from ``start`` to ``end``.

    >>> rl.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """

    samples = [*STEP_SAMPLES, S(0, 3, 4, base=2), S(0, 3, 4, 2.5)]
    errors = STEP_ERRORS

    def check(
        self,
        start: Tensor | complex,
        end: Tensor | complex,
        steps: int,
        base: float = 10.0,
        *,
        dtype: dtypes.dtype | None = None,
    ) -> Any:
        attrs = steps_between("logspace", start, end, steps, dtype)
        return (), {**attrs, "base": number("logspace", "base", base)}

    def eager(self, *, start, end, steps, base, kind):
        return cast(np.power(base, evenly(start, end, steps, kind)), kind)

    def at(self, b, i, *, start, end, steps, base, kind):
        return b.call("pow", b.constant(base, "f64"), evenly_at(b, i, start, end, steps, kind))


class Eye(Factory):
    """Ones on the diagonal of an n × m matrix (n × n by default), zeros elsewhere.

    >>> rl.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """

    samples = [S(3), S(2, 4), S(4, 2), S(0), S(2, dtype=dtypes.bool_)]
    errors = [
        Fails(RuntimeError, "n must be greater or equal to 0, got -1", -1),
        Fails(RuntimeError, "m must be greater or equal to 0, got -3", 2, -3),
        Fails(TypeError, "argument 'n' must be int, not float", 2.5),
    ]

    def check(self, n: int, m: int | None = None, *, dtype: dtypes.dtype | None = None) -> Any:
        kind = numpy_kind(dtype)
        rows = whole(n, "eye", "n")
        columns = rows if m is None else whole(m, "eye", "m")
        for argument, size in (("n", rows), ("m", columns)):
            if size < 0:
                raise RuntimeError(f"{argument} must be greater or equal to 0, got {size}")
        shape_of("eye", (rows, columns), kind)
        return (), {"n": rows, "m": columns, "kind": kind}

    def eager(self, *, n, m, kind):
        return np.eye(n, m, dtype=kind)

    def at(self, b, i, *, n, m, kind):
        return b.position(i[0]).eq(i[1])


TRIANGLE_SAMPLES = [
    S(3, 3),
    S(3, 4, 1),
    S(4, 3, -1),
    S(0, 3),
    S(3, 3, 9),
    S(2, 2, dtype=dtypes.int32),
]
TRIANGLE_ERRORS = [
    Fails(RuntimeError, "row must be non-negative, got -3", -3, 4),
    Fails(RuntimeError, "col must be non-negative, got -4", 3, -4),
    Fails(NotImplementedError, "not implemented for 'Float'", 3, 3, dtype=dtypes.float32),
]


def triangle(name: str, row: Any, col: Any, offset: Any, dtype: Any) -> dict[str, Any]:
    kind = dtypes.int64 if dtype is None else dtypes.as_dtype(dtype)
    sizes = {"row": whole(row, name, "row"), "col": whole(col, name, "col")}
    for argument, size in sizes.items():
        if size < 0:
            raise RuntimeError(f"{argument} must be non-negative, got {size}")
    if kind not in (dtypes.int64, dtypes.int32):
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind.storage_name}'")
    return {**sizes, "offset": whole(offset, name, "offset"), "kind": kind.numpy}


class TrilIndices(Factory):
    """Row and column of every element of the lower triangle of a row × col matrix, by rows.

    >>> rl.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """

    samples = TRIANGLE_SAMPLES
    errors = TRIANGLE_ERRORS

    def check(
        self, row: int, col: int, offset: int = 0, *, dtype: dtypes.dtype | None = None
    ) -> Any:
        return (), triangle("tril_indices", row, col, offset, dtype)

    def eager(self, *, row, col, offset, kind):
        return np.array(np.nonzero(np.tri(row, col, offset, bool)), kind)


class TriuIndices(Factory):
    """Row and column of every element of the upper triangle of a row × col matrix, by rows.

    >>> rl.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """

    samples = TRIANGLE_SAMPLES
    errors = TRIANGLE_ERRORS

    def check(
        self, row: int, col: int, offset: int = 0, *, dtype: dtypes.dtype | None = None
    ) -> Any:
        return (), triangle("triu_indices", row, col, offset, dtype)

    def eager(self, *, row, col, offset, kind):
        return np.array(np.nonzero(~np.tri(row, col, offset - 1, bool)), kind)


@composite(
    method=False,
    samples=[
        S(T(3, dtype=dtypes.int64, low=0, high=5), (2, 3)),
        S(T(dtype=dtypes.int64, low=0, high=5), 6),
    ],
    errors=[
        Fails(TypeError, "'indices' to be integer dtype", T(3, dtype=dtypes.float32), (2, 3)),
        Fails(ValueError, "cannot have negative values", T(2, dtype=dtypes.int64), (2, -3)),
    ],
)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, in a tensor of ``shape``, of elements numbered in order.

    >>> rl.unravel_index(rl.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    x = need_tensor("unravel_index", indices)
    if x.dtype.category != dtypes.INT:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {x.dtype}")
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    sizes = [whole(n, "unravel_index", "shape") for n in sizes]
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    coordinates, rest = [], x
    for n in reversed(sizes):
        coordinates.append(rest % n)
        rest = rest // n
    return tuple(reversed(coordinates))
