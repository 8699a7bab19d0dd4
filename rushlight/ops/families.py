"""Families of ops: each makes one specialised closure per op, so that eager calls are short."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local, run_quietly
from rushlight.autograd.tape import (
    NO_ATTRS,
    NOTHING,
    ONE,
    Node,
    Plan,
    edge,
    keep,
    next_sequence,
    version,
)
from rushlight.dims import broadcast
from rushlight.errors import user_line
from rushlight.kernels import scalars
from rushlight.ops.base import (
    Op,
    any_tracked,
    in_place,
    into,
    is_expandable,
    record,
    touched,
    unrecorded,
)
from rushlight.ops.elements import wide
from rushlight.ops.programs import LARGE
from rushlight.ops.samples import Fails, T
from rushlight.tensor import LEAF, VIEW, Counter, Tensor, new, wrap

ndarray = np.ndarray
array, asarray = np.array, np.asarray
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
NEITHER = (None, None)
NUMBER = (int, float, complex, np.number, np.bool_)
OPERAND = (Tensor, *NUMBER)
CATEGORY = {"b": dtypes.BOOL, "i": dtypes.INT, "f": dtypes.FLOAT, "c": dtypes.COMPLEX}


class Kernels(dict):
    """The kernel of an elementwise op for each NumPy dtype, made when first asked for."""

    def __init__(self, op: Elementwise) -> None:
        self.op = op

    def __missing__(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        kernel = self.op.kernel(numpy_dtype)
        if numpy_dtype.kind in "fcV" or not self.op.floats:
            self[numpy_dtype] = kernel
        return kernel

    def first_choice(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        """The kernel for a common dtype, to be held by a closure; it raises if there is none."""
        try:
            return self[numpy_dtype]
        except NotImplementedError as error:
            message = str(error)

            def refuse(*arrays: ndarray) -> ndarray:
                raise NotImplementedError(message)

            return refuse


class Pointwise(Op, abstract=True):
    """Ops that make each element from one element of each operand, broadcast.

    Programs compute what the kernel says, run on scalars: an op writes an ``emit`` rule only if
    its kernel decides by values, or if a program has something better.
    """

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        """The kernel for operands of this dtype."""
        return self.eager

    def emit(self, b: Any, *xs: Any, **attrs: Any) -> Any:
        """One element, of scalars; see :mod:`rushlight.kernels.scalars`."""
        return scalars.run(b, self.kernel(scalars.NUMPY[xs[-1].kind]), xs, **attrs)

    def at(self, b: Any, i: Sequence[Any], *operands: Any, **attrs: Any) -> Any:
        """The element at ``i``; half types are computed in float32, as by :func:`half`."""
        return self.emit(b, *[wide(x.broadcast(i)) for x in operands], **attrs)

    def infer(self, arrays: Sequence[ndarray], attrs: Mapping[str, Any]) -> Any:
        """Of a trace: the shape is the broadcast one; the dtype comes of trying single elements."""
        shapes = {a.shape for a in arrays if a.ndim}
        one = len(shapes) == 1
        shape = shapes.pop() if one else broadcast(*[a.shape for a in arrays])
        kinds = tuple([a.dtype for a in arrays])
        if attrs:
            kind = self.result_kind(kinds, attrs)
        else:
            key = (kinds, dtypes.get_default_dtype())
            kind = self.tried.get(key)
            if kind is None:
                kind = self.tried[key] = self.result_kind(kinds, attrs)
        if kind is NotImplemented:
            return kind
        if isinstance(kind, tuple):
            return tuple([np.empty(shape, part) for part in kind])
        like = [a for a in arrays if a.shape == shape]
        return np.empty_like(like[0], kind) if like else np.empty(shape, kind)

    @functools.cached_property
    def tried(self) -> dict[Any, Any]:
        """The dtypes of results, by those of operands, as far as they were asked for."""
        return {}

    def result_kind(self, kinds: Sequence[np.dtype], attrs: Mapping[str, Any]) -> Any:
        """The dtype of the result, or of each of several."""
        try:
            y = local.state.run(self.compute, [np.ones((), kind) for kind in kinds], attrs)
        except NotImplementedError:
            raise
        except Exception:
            return NotImplemented
        if isinstance(y, tuple):
            return tuple([np.asarray(part).dtype for part in y])
        return np.asarray(y).dtype


class Elementwise(Pointwise, abstract=True):
    """Ops that treat each element alone, with one kernel for each dtype."""

    kinds: str = "bifc"  # the categories of dtype it takes: bool, int, float, complex
    floats: bool = False  # integers and bools are taken as the default floating-point type
    kernels: Kernels

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        """The kernel for operands of this dtype: casts where the op or a half type needs it."""
        eager = self.eager
        kind = dtypes.from_numpy(numpy_dtype)
        if not any(CATEGORY[k] == kind.category for k in self.kinds):
            raise NotImplementedError(f"\"{self.name}\" not implemented for '{kind.storage_name}'")
        if self.floats and kind.category < dtypes.FLOAT:
            return through(eager, dtypes.get_default_dtype().numpy)
        if numpy_dtype in dtypes.HALF:
            return half(eager, numpy_dtype)
        return eager

    def compute(self, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        half = [a.dtype for a in arrays if a.dtype in dtypes.HALF]  # numbers are float32 beside it
        return self.kernels[half[0] if half else arrays[0].dtype](*arrays, **attrs)


def through(eager: Callable[..., Any], numpy_dtype: np.dtype) -> Callable[..., Any]:
    """``eager`` on operands cast to ``numpy_dtype``."""

    def kernel(*arrays: ndarray, **attrs: Any) -> ndarray:
        return eager(*[a.astype(numpy_dtype) for a in arrays], **attrs)

    return kernel


def half(eager: Callable[..., Any], numpy_dtype: np.dtype) -> Callable[..., Any]:
    """``eager`` computed in float32 and rounded once, as PyTorch does for half types."""

    def kernel(*arrays: ndarray, **attrs: Any) -> ndarray:
        y = np.asarray(eager(*[a.astype(np.float32) for a in arrays], **attrs))
        return y.astype(numpy_dtype) if y.dtype == np.float32 else y

    return kernel


class Unary(Elementwise, abstract=True):
    """y = f(x), element by element."""

    operands = ("x",)
    inplace = True
    sums = False
    errors: Sequence[Fails] = (Fails(TypeError, "must be Tensor, not list", [1.0]),)

    def entry(self, large: Callable[..., Any] | None) -> Callable[..., Any]:
        name = self.name
        kernels = self.kernels = Kernels(self)
        single = kernels.first_choice(FLOAT32)
        differentiable = bool(self.differentiable)
        op, plans = self, self.plans

        def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
            try:
                x = input._array
            except AttributeError:
                raise messages.expected_tensor(name, "input", 1, input) from None
            if large is not None and type(x) is ndarray and x.size >= LARGE and out is None:
                return large(input)
            kind = x.dtype
            kernel = single if kind is FLOAT32 else kernels[kind]
            try:
                y = run_quietly(kernel, x)
            except RuntimeError:
                state = local.state
                if state.trace is not None:
                    t = op.traced((input,), NO_ATTRS)
                    return t if out is None else into(out, t)
                y = state.run(kernel, x)
            t = new(Tensor)
            t._array = y if type(y) is ndarray else asarray(y)
            history = input._history
            if history is not None and differentiable:
                state = local.state
                if history is LEAF:
                    history = input
                elif history is VIEW:
                    history = edge(input)
                if history is not None and state.grad:
                    plan = plans.get(ONE)
                    if plan is None:
                        plan = plans[ONE] = Plan(op, ONE)
                    node = t._history = new(Node)
                    node.plan, node.attrs, node.unusual = plan, NO_ATTRS, False
                    node.edges, node.versions, node.outputs = (history,), None, None
                    if plan.kept:
                        node.saved = (input,)
                        if input._counter is not None and input._counter.value:
                            node.versions = (input._counter.value,)
                    else:
                        node.saved = NOTHING
                    node.sequence = next_sequence()
                    node.shape, node.array_dtype = y.shape, y.dtype
                    if plan.keep_output:
                        shared = t._counter = Counter()
                        node.outputs = (t._array, shared, 0)
                    if state.anomaly:
                        node.where = user_line()
            return t if out is None else into(out, t)

        return function


class Binary(Elementwise, abstract=True):
    """y = f(a, b), element by element, broadcast to a common shape."""

    operands = ("a", "b")
    inplace = True
    operator: str | None = None  # installs __x__, __rx__ and __ix__
    errors: Sequence[Fails] = (
        Fails(
            RuntimeError, r"size of tensor a \(3\) must match .* tensor b \(4\)", T(2, 3), T(2, 4)
        ),
    )

    def make(self) -> Callable[..., Any]:
        self.kernels = Kernels(self)
        self.single = self.kernels.first_choice(FLOAT32)
        self.record_pair = pair_recorder(self)
        self.binary, self.reflected = self.closure(), self.reflection()
        return self.public(self.binary)

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        """The public function around the closure ``binary``."""
        name = self.name

        def function(input: Tensor, other: Any, *, out: Tensor | None = None) -> Tensor:
            t = binary(input, other)
            if t is NotImplemented:
                raise operand_error(name, input, other)
            return t if out is None else into(out, t)

        return function

    def make_in_place(self) -> Callable[..., Any]:
        general, kernels, eager = in_place(self), self.kernels, self.eager
        direct = isinstance(eager, np.ufunc) and bool(self.differentiable)

        def write(self: Tensor, other: Any, **options: Any) -> Tensor:
            x, state = self._array, local.state
            kind = x.dtype
            if options or not direct or kind.kind != "f" or kernels[kind] is not eager:
                return general(self, other, **options)
            if state.trace is not None:  # where the value of a number must not be asked for
                return general(self, other)
            if isinstance(other, Tensor):
                y = other._array
            elif isinstance(other, (int, float)):
                y = array(other, kind)
            else:
                return general(self, other)
            if state.grad and (self._history is not None or tracked(other) or unrecorded(self)):
                return general(self, other)
            fits = y.shape == x.shape or is_expandable(y.shape, x.shape)
            if y.dtype is not kind or not fits or not x.flags.writeable:
                return general(self, other)
            state.run(eager, x, y, x)
            touched(self)
            return self

        write.__name__ = write.__qualname__ = f"{self.name}_"
        write.__doc__ = general.__doc__
        return write

    def installed(self, write: Callable[..., Any] | None) -> None:
        symbol = self.operator
        if not symbol:
            return
        setattr(Tensor, f"__{symbol}__", self.binary)
        setattr(Tensor, f"__r{symbol}__", self.reflected)
        if write is not None:
            setattr(Tensor, f"__i{symbol}__", write)

    def closure(self) -> Callable[[Any, Any], Any]:
        """The eager path: two arrays of one dtype, or an array and a number of its category."""
        kernels, single = self.kernels, self.single
        differentiable = bool(self.differentiable)
        detour, record_pair, name = self.detour, self.record_pair, self.name
        traced = self.traced

        def binary(a: Any, b: Any) -> Any:
            kind = type(b)
            try:
                if kind is not Tensor and (kind is float or kind is int):
                    x = a._array
                    kind = x.dtype
                    if kind is not FLOAT32 and kind is not FLOAT64:
                        return detour(a, b)
                    y, other = array(b, kind), None
                else:
                    x, y, other = a._array, b._array, b._history
                    kind = x.dtype
                    if kind is not y.dtype:
                        return detour(a, b)
            except AttributeError:
                return detour(a, b)
            kernel = single if kind is FLOAT32 else kernels[kind]
            try:
                z = run_quietly(kernel, x, y)
            except ValueError as error:
                raise shape_error(name, x, y, error) from None
            except RuntimeError:
                state = local.state
                if state.trace is not None:
                    return traced((a, b), NO_ATTRS)
                z = state.run(kernel, x, y)
            t = new(Tensor)
            t._array = z if type(z) is ndarray else asarray(z)
            history = a._history
            if (history is not None or other is not None) and differentiable:
                if other is not None:
                    other = b._history  # a trace of another thread may have ended meanwhile
                record_pair(t, a, b, history, other)
            return t

        return binary

    def reflection(self) -> Callable[[Any, Any], Any]:
        """``number ∘ b``, with the tensor first as Python passes it."""
        kernels, detour, record_pair = self.kernels, self.detour, self.record_pair
        differentiable, traced = bool(self.differentiable), self.traced

        def reflected(b: Any, a: Any) -> Any:
            y = b._array
            kind = y.dtype
            if (type(a) is not float and type(a) is not int) or (
                kind is not FLOAT32 and kind is not FLOAT64
            ):
                return detour(a, b)
            try:
                z = run_quietly(kernels[kind], array(a, kind), y)
            except RuntimeError:
                state = local.state
                if state.trace is not None:
                    return traced((a, b), NO_ATTRS)
                z = state.run(kernels[kind], array(a, kind), y)
            t = new(Tensor)
            t._array = z if type(z) is ndarray else asarray(z)
            if b._history is not None and differentiable:
                record_pair(t, a, b, None, b._history)
            return t

        return reflected

    def detour(self, a: Any, b: Any) -> Any:
        """Operands of different dtypes, numbers on the left or of another category, strangers."""
        if local.state.trace is not None:
            known = isinstance(a, OPERAND) and isinstance(b, OPERAND)
            return self.traced((a, b), NO_ATTRS) if known else NotImplemented
        if isinstance(a, Tensor):
            if isinstance(b, Tensor):
                kind = result_kind(a._array, b._array).numpy
                return self.finish(a, b, cast(a._array, kind), cast(b._array, kind), kind)
            if isinstance(b, NUMBER):
                kind = scalar_kind(a._array, b)
                return self.finish(a, b, cast(a._array, kind), number(b, kind), kind)
        elif isinstance(b, Tensor) and isinstance(a, NUMBER):
            kind = scalar_kind(b._array, a)
            return self.finish(a, b, number(a, kind), cast(b._array, kind), kind)
        return NotImplemented

    def finish(self, a: Any, b: Any, x: ndarray, y: ndarray, kind: np.dtype) -> Tensor:
        state = local.state
        try:
            t = wrap(state.run(self.kernels[kind], x, y))
        except ValueError as error:
            raise shape_error(self.name, x, y, error) from None
        if state.grad and self.differentiable and any_tracked((a, b)):
            record(self, t, (a, b), NO_ATTRS)
        return t


def pair_recorder(op: Op) -> Callable[..., None]:
    """:func:`record` for two operands, at least one a tensor, without its loops."""
    plans: list[Any] = [None, None, None, None]

    def record_pair(t: Tensor, a: Any, b: Any, first: Any, second: Any) -> None:
        state = local.state
        if not state.grad:
            return
        if first is LEAF:
            first = a
        elif first is VIEW:
            first = edge(a)
        if second is LEAF:
            second = b
        elif second is VIEW:
            second = edge(b)
        if second is None:
            if first is None:
                return
            which = 1
        else:
            which = 2 if first is None else 3
        plan = plans[which]
        if plan is None:
            plan = plans[which] = Plan(op, (which != 2, which != 1))
        node = t._history = new(Node)
        node.plan, node.attrs, node.unusual = plan, NO_ATTRS, False
        node.edges, node.versions, node.outputs = (first, second), None, None
        if plan.kept:
            keep_a, keep_b = plan.keep
            node.saved = (a if keep_a else None, b if keep_b else None)
            written = keep_a and isinstance(a, Tensor) and a._counter is not None
            if written or (keep_b and isinstance(b, Tensor) and b._counter is not None):
                node.versions = (version(a), version(b))
        else:
            node.saved = NEITHER
        node.sequence = next_sequence()
        y = t._array
        node.shape, node.array_dtype = y.shape, y.dtype
        if plan.keep_output:
            node.outputs = keep(t)
        if state.anomaly:
            node.where = user_line()

    return record_pair


def tracked(value: Any) -> Any:
    return isinstance(value, Tensor) and value._history is not None


def cast(array: ndarray, kind: np.dtype) -> ndarray:
    return array if array.dtype is kind else array.astype(kind)


def number(value: Any, kind: np.dtype) -> ndarray:
    """A number as a 0-d array of ``kind``; in float32 beside half types, as PyTorch computes."""
    if kind in dtypes.HALF:
        return np.array(value, np.float32)
    try:
        return np.array(value, kind)
    except OverflowError:
        return np.array(value).astype(kind)


def scalar_kind(x: ndarray, number: Any) -> np.dtype:
    """The dtype of ``tensor ∘ number``: the tensor's, unless the number is of a higher category."""
    kind, other = dtypes.from_numpy(x.dtype), dtypes.of_scalar(number)
    if other.category <= kind.category:
        return x.dtype
    if other.category == dtypes.FLOAT:
        return dtypes.get_default_dtype().numpy
    if other.category == dtypes.COMPLEX:
        real = kind if kind.category == dtypes.FLOAT else dtypes.get_default_dtype()
        return real.to_complex().numpy
    return other.numpy


def result_kind(x: ndarray, y: ndarray) -> dtypes.dtype:
    """PyTorch's promotion: a 0-d operand counts only if its category is the higher one."""
    a, b = dtypes.from_numpy(x.dtype), dtypes.from_numpy(y.dtype)
    if (x.ndim == 0) == (y.ndim == 0):
        return dtypes.promote_types(a, b)
    strong, weak = (b, a) if x.ndim == 0 else (a, b)
    if weak.category > strong.category:
        if weak.category == dtypes.COMPLEX and strong.category == dtypes.FLOAT:
            return strong.to_complex()
        return weak
    return strong


def shape_error(name: str, x: Any, y: Any, error: Exception) -> Exception:
    a, b = np.shape(x), np.shape(y)
    for offset in range(1, min(len(a), len(b)) + 1):
        if a[-offset] != b[-offset] and 1 not in (a[-offset], b[-offset]):
            dim = max(len(a), len(b)) - offset
            return RuntimeError(
                f"The size of tensor a ({a[-offset]}) must match the size of tensor b "
                f"({b[-offset]}) at non-singleton dimension {dim}. [{name}: shapes {list(a)} "
                f"and {list(b)}]"
            )
    return error


def operand_error(name: str, a: Any, b: Any) -> TypeError:
    wrong = ("input", 1, a) if not isinstance(a, (Tensor, int, float, complex)) else ("other", 2, b)
    return messages.expected_tensor(name, *wrong)


class Compare(Binary, abstract=True):
    """A relation of a and b, element by element: a bool tensor without gradient."""

    differentiable = False


def conjugate(x: Any) -> Any:
    """The factor that carries a gradient through ``· x``: conj(x), which is x unless complex."""
    if isinstance(x, Tensor):
        return x.conj() if x._array.dtype.kind == "c" else x
    return x.conjugate()
