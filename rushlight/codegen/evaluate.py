"""Scalar values computed by NumPy for all indices at once: the oracle of generated loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from rushlight.codegen.values import INDEX, Builder, Loop, Scan, Scatter, Source, Value
from rushlight.kernels import casting
from rushlight.kernels import special as functions

NUMPY = {
    "b1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, INDEX: np.int64,
}  # fmt: skip
KIND = {np.dtype(scalar): kind for kind, scalar in NUMPY.items() if kind != INDEX}
KIND[np.dtype(np.int64)] = "i64"


def quotient(a: Any, b: Any) -> Any:
    """Integer division towards zero."""
    q = a // b
    return q + ((a % b != 0) & ((a < 0) != (b < 0)))


SIMPLE: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "abs": np.abs, "min": np.minimum, "max": np.maximum, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shl": np.left_shift, "shr": np.right_shift, "sqrt": np.sqrt, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "copysign": np.copysign,
    "idiv": quotient, "irem": np.fmod, "fma": lambda a, b, c: a * b + c, "where": np.where,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x), "fmod": np.fmod, "hypot": np.hypot,
    "erf": functions.erf, "erfc": functions.erfc, "lgamma": functions.lgamma,
    "digamma": functions.digamma,
}  # fmt: skip

FOLDS: dict[str, Callable[..., Any]] = {
    "add": np.sum, "mul": np.prod, "max": np.max, "min": np.min, "and": np.all, "or": np.any,
}  # fmt: skip


class Evaluation:
    """Values as arrays that have one axis for each loop variable met so far."""

    def __init__(self, loops: Sequence[Loop], buffers: dict[Any, np.ndarray]) -> None:
        self.axes: dict[Loop, int] = {loop: n for n, loop in enumerate(loops)}
        self.buffers = buffers
        self.known: dict[Value, np.ndarray] = {}

    def of(self, x: Value) -> np.ndarray:
        found = self.known.get(x)
        if found is None:
            found = self.known[x] = np.asarray(self.compute(x))
        return found

    def axis(self, loop: Loop) -> int:
        """The axis of a loop variable, counted from the back so that more may come in front."""
        return -1 - self.axes.setdefault(loop, len(self.axes))

    def compute(self, x: Value) -> Any:
        op, kind = x.op, NUMPY[x.kind]
        if op == "constant":
            return np.asarray(x.data, np.float64 if x.kind in ("f16", "bf16") else kind).astype(
                kind
            )
        if op == "var":
            return np.arange(x.data.size).reshape([-1] + [1] * (-1 - self.axis(x.data)))
        if op == "fold":
            return self.fold(x)
        args = [self.of(a) for a in x.args]
        if op == "load":
            buffer = self.buffers[x.data]
            return buffer[tuple(args)] if buffer.size else np.zeros((), kind)
        if op == "affine":
            factors, offset = x.data
            return sum([a * f for a, f in zip(args, factors, strict=True)]) + offset
        if op == "checked":
            wrong = (args[0] < 0) | (args[0] >= args[1])
            if np.any(wrong):
                raise x.data(int(np.broadcast_to(args[0], wrong.shape)[wrong][0]))
            return args[0]
        if x.kind == INDEX and op in ("floor", "mod"):
            return args[0] // x.data if op == "floor" else args[0] % x.data
        if op == "cast":
            return args[0] != 0 if x.kind == "b1" else casting.cast(args[0], np.dtype(kind))
        if op == "bits":
            return args[0].view(kind)
        if op == "neg" and x.kind == "b1":
            return args[0]
        y = SIMPLE[op](*args)
        return y if y.dtype == np.bool_ else y.astype(kind, copy=False)

    def fold(self, x: Value) -> np.ndarray:
        """Combines over the axes of the fold's loops, which stay with size 1."""
        how, loops = x.data.how, x.data.loops
        axes = tuple([self.axis(loop) for loop in loops])
        parts = [self.of(a) for a in x.args]
        rank = max([-a for a in axes], default=0)
        rank = max([rank, *[p.ndim for p in parts]])
        shape = list(np.broadcast_shapes(*[p.shape for p in parts]))
        shape = [1] * (rank - len(shape)) + shape
        for axis, loop in zip(axes, loops, strict=True):
            shape[axis] = loop.size
        body, *positions = [np.broadcast_to(p, shape) for p in parts]
        if not positions:
            options = {} if how in ("and", "or", "max", "min") else {"dtype": body.dtype}
            if how in ("max", "min"):
                options = {"initial": edge(body.dtype, how)}
            return FOLDS[how](body, axis=axes, keepdims=True, **options)
        moved = np.moveaxis(body, axes, range(-len(axes), 0))
        flat = moved.reshape(*moved.shape[: rank - len(axes)], -1)
        best = np.argmax(flat, -1) if how == "argmax" else np.argmin(flat, -1)
        places = np.moveaxis(positions[0], axes, range(-len(axes), 0)).reshape(flat.shape)
        chosen = np.take_along_axis(places, best[..., None], -1)
        kept = np.moveaxis(
            chosen.reshape(*moved.shape[: rank - len(axes)], *[1] * len(axes)),
            range(-len(axes), 0),
            axes,
        )
        return kept


def edge(dtype: np.dtype, how: str) -> Any:
    """What the largest of no elements is, or the smallest."""
    if dtype == np.bool_:
        return how == "min"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if how == "max" else limits.max
    return -np.inf if how == "max" else np.inf


def evaluate(
    shape: Sequence[int],
    operands: Sequence[np.ndarray | None],
    at: Callable[..., Any],
) -> Any:
    """The array of ``shape`` whose element at ``i`` is ``at(b, i, *sources)``.

    With several results, ``at`` returns a tuple and so does this.

    >>> x = np.arange(6.0).reshape(2, 3)
    >>> evaluate((3, 2), [x], lambda b, i, x: x[i[1], i[0]] * 2)
    array([[ 0.,  6.],
           [ 2.,  8.],
           [ 4., 10.]])
    """
    b = Builder()
    loops = [Loop(f"i{n}", size) for n, size in enumerate(shape)]
    index = tuple([b.variable(loop) for loop in loops])
    buffers = {f"x{n}": a for n, a in enumerate(operands) if a is not None}
    found = at(b, index, *[source(b, f"x{n}", a) for n, a in enumerate(operands)])
    work = Evaluation(loops[::-1], buffers)
    several = found if isinstance(found, tuple) else (found,)
    with np.errstate(all="ignore"):
        arrays = [filled(work.of(v), shape, NUMPY[v.kind]) for v in several]
    return tuple(arrays) if isinstance(found, tuple) else arrays[0]


def source(b: Builder, name: str, array: np.ndarray | None) -> Source | None:
    """An array as an operand that is loaded from the buffer ``name``."""
    if array is None:
        return None
    kind = KIND[array.dtype]
    return Source(array.shape, kind, lambda index: b.load(name, kind, index))


def filled(array: np.ndarray, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An evaluated value over the whole index space."""
    extra = array.ndim - len(shape)
    flat = array.reshape(array.shape[extra:]) if extra > 0 else array
    return np.broadcast_to(flat, shape).astype(dtype)


COMBINED: dict[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def evaluate_scatter(
    shape: Sequence[int], operands: Sequence[np.ndarray | None], scatter: Callable[..., Scatter]
) -> np.ndarray:
    """The array of ``shape`` that ``scatter(b, *sources)`` describes.

    >>> def count(b, x):
    ...     one, zero = b.constant(1, "i64"), b.constant(0, "i64")
    ...     return b.scatter(
    ...         start=lambda i: zero, sizes=x.shape, element=lambda k: ((x[k],), one), how="add"
    ...     )
    >>> evaluate_scatter((4,), [np.array([3, 1, 3])], count)
    array([0, 1, 0, 2])
    """
    b = Builder()
    sources = [source(b, f"x{n}", a) for n, a in enumerate(operands)]
    rule = scatter(b, *sources)
    y = np.array(evaluate(shape, operands, lambda b, i, *xs: scatter(b, *xs).start(i)))
    if 0 in rule.sizes:
        return y

    def parts(b: Builder, k: Any, *xs: Any) -> tuple[Value, ...]:
        index, value = scatter(b, *xs).element(k)
        return (value, *[b.position(j) for j in index])

    value, *index = evaluate(rule.sizes, operands, parts)
    target, place = (y, tuple(index)) if index else (y.reshape(1), np.zeros(value.shape, np.int64))
    if rule.how == "set":
        target[place] = value
    else:
        COMBINED[rule.how].at(target, place, value)
    return y


def evaluate_scan(
    shape: Sequence[int], operands: Sequence[np.ndarray | None], scan: Callable[..., Scan]
) -> np.ndarray:
    """The array of ``shape`` that ``scan(b, *sources)`` describes.

    >>> evaluate_scan(
    ...     (3,), [np.array([1, 2, 3])], lambda b, x: b.scan(dim=0, element=lambda i: x[i])
    ... )
    array([1, 3, 6])
    """
    b = Builder()
    rule = scan(b, *[source(b, f"x{n}", a) for n, a in enumerate(operands)])
    terms = evaluate(shape, operands, lambda b, i, *xs: scan(b, *xs).element(i))
    with np.errstate(all="ignore"):
        return COMBINED[rule.how].accumulate(terms, rule.dim) if shape else terms
