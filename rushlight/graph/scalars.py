"""Numbers of Python's that a graph computes: how often a loop has run, what ``item()`` gives."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.dims import is_extent
from rushlight.errors import user_line
from rushlight.graph.host import Host
from rushlight.ops import ops
from rushlight.ops.base import Op, registry
from rushlight.ops.verified import verified
from rushlight.symbol import Symbol, TraceError
from rushlight.tensor import Tensor, wrap

DTYPES = {bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64}
KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
NO_INT = "cannot convert float"
ORDER = (bool, int, float)
MOST_DIGITS = 400  # behind or in front of the point: doubles have fewer
NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


class Rounded(Op):
    """A number rounded to decimal digits, as Python does: the exact one, half to even."""

    namespace = "script"
    function = method = differentiable = False
    library = "Python knows the decimal digits of a number"

    def infer(self, arrays: Any, attrs: Any) -> np.ndarray:
        (x,), digits = arrays, attrs["digits"]
        if x.shape or x.dtype not in (np.int64, np.float64) or type(digits) is not int:
            raise TypeError("it rounds numbers of Python's")
        if abs(digits) > MOST_DIGITS:
            raise TypeError(f"there are no {digits} digits")
        return np.zeros((), x.dtype)

    def eager(self, x: Any, *, digits: int) -> Any:
        return np.asarray(round(x.item(), digits), x.dtype)


class Scalar(Host):
    """A bool, int or float of Python's whose value only the graph knows.

    It passes for such a number: arithmetic with numbers gives another one, computed in 64 bits by
    the graph; with tensors it is as weak as a number in deciding the dtype. Whoever needs the value
    while the function is traced gets a ``TraceError``.
    """

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.numbers, self.read = local.state.trace.numbers, self.refuse
        self.kind, self.formula = KINDS[tensor.dtype], ""

    def symbol(self) -> Symbol:
        return self.tensor._array

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Scalar:
        if digits is None:
            t = self.tensor.round() if self.kind is float else self.tensor
            return number_of(t, int)
        t = tensor_of_number(self, DTYPES[max(self.kind, int, key=ORDER.index)])
        most = max(-MOST_DIGITS, min(operator.index(digits), MOST_DIGITS))
        return Scalar(ROUNDED.apply((t,), {"digits": most}))

    def refuse(self, *args: Any) -> NoReturn:
        """The value is not known while the graph is made."""
        raise TraceError(
            f"the value of a number ({self.kind.__name__}) that depends on tensors is needed in "
            f"Python at {user_line()}. It is not known yet while the graph is made, so a size, a "
            "text or a key cannot depend on it: compute with tensors (a mask of fixed size, "
            "rl.where), or read the value outside the compiled function."
        )


ROUNDED = registry["script.rounded"]


def number_of(t: Tensor, kind: type | None = None) -> Scalar:
    """The element of a tensor as a number, as ``item()`` gives it; or as one of ``kind``."""
    if t.dtype.category == dtypes.COMPLEX:
        raise TraceError(f"a complex number is needed in Python at {user_line()}")
    category = {dtypes.BOOL: bool, dtypes.INT: int, dtypes.FLOAT: float}[t.dtype.category]
    same = t.detach().reshape(())
    if kind is bool and category is not bool:
        return Scalar(same != 0)
    if kind is int and category is float:
        same = whole(same)
    return Scalar(same.to(DTYPES[kind or category]))


def whole(x: Tensor) -> Tensor:
    """A float without its fraction, as ``int`` has it, and with the errors of ``int``."""
    x = verified(x, x.isnan().logical_not(), "ValueError", f"{NO_INT} NaN to integer")
    x = verified(x, x.isinf().logical_not(), "OverflowError", f"{NO_INT} infinity to integer")
    fits = (x >= -(2.0**63)) & (x < 2.0**63)
    return verified(x, fits, "OverflowError", f"{NO_INT} to integer: a graph has 64 bits").trunc()


def kind_of(x: Any) -> type | None:
    """``bool``, ``int`` or ``float`` for a number, known or not; None for anything else."""
    if isinstance(x, Host):
        return float if issubclass(x.kind, float) else x.kind
    if isinstance(x, (bool, np.bool_)):
        return bool
    if isinstance(x, (int, np.integer)):
        return int
    return float if isinstance(x, (float, np.floating)) else None


def tensor_of_number(x: Any, dtype: dtypes.dtype | None = None) -> Tensor:
    """A number as a 0-d tensor, of 64 bits if not said otherwise."""
    kind = kind_of(x)
    assert kind is not None
    if isinstance(x, Scalar):
        t = x.tensor
    elif isinstance(x, Host) or is_extent(x):
        t = wrap(x.symbol())
    else:
        t = ops.full((), kind(x), dtype=DTYPES[kind])
    wanted = dtype or DTYPES[kind]
    return t if t.dtype is wanted else t.to(wanted)


def scalar(x: Any) -> Scalar:
    """A number as one of the graph."""
    return x if isinstance(x, Scalar) else Scalar(tensor_of_number(x))


def operation(f: Callable[..., Any], swapped: bool = False, bits: bool = False) -> Any:
    """The method of an operator on numbers: in floats if one is a float, or the result is."""

    def method(self: Scalar, other: Any) -> Any:
        kind = kind_of(other)
        if kind is None or isinstance(other, Tensor):
            return NotImplemented
        wide = max(self.kind, kind, int, key=ORDER.index)
        if f is operator.truediv or (f is operator.pow and is_negative(other)):
            wide = float
        if bits and {self.kind, kind} == {bool}:
            wide = bool
        operands = [tensor_of_number(x, DTYPES[wide]) for x in (self, other)]
        return Scalar(f(*reversed(operands)) if swapped else f(*operands))

    return method


def is_negative(x: Any) -> bool:
    return type(x) is int and x < 0


def relation(f: Callable[..., Any]) -> Any:
    """The method of a comparison."""

    def method(self: Scalar, other: Any) -> Any:
        kind = kind_of(other)
        if kind is None or isinstance(other, Tensor):
            return NotImplemented
        wide = DTYPES[max(self.kind, kind, key=ORDER.index)]
        return Scalar(f(tensor_of_number(self, wide), tensor_of_number(other, wide)))

    return method


def alone(f: Callable[..., Any]) -> Any:
    """The method of an operator with one operand; that of a bool is an int."""
    return lambda self: Scalar(
        f(tensor_of_number(self, DTYPES[max(self.kind, int, key=ORDER.index)]))
    )


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Scalar, f"__{_name}__", relation(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Scalar, f"__{_name}__", operation(getattr(operator, _name)))
    setattr(Scalar, f"__r{_name}__", operation(getattr(operator, _name), swapped=True))
for _name in ("and_", "or_", "xor", "lshift", "rshift"):
    _function, _bits = getattr(operator, _name), _name in ("and_", "or_", "xor")
    setattr(Scalar, f"__{_name.strip('_')}__", operation(_function, bits=_bits))
    setattr(Scalar, f"__r{_name.strip('_')}__", operation(_function, swapped=True, bits=_bits))
for _name in ("neg", "abs", "pos", "invert"):
    setattr(Scalar, f"__{_name}__", alone(getattr(operator, _name)))
for _name in (
    "__bool__", "__int__", "__float__", "__index__", "__complex__", "__trunc__",
    "__floor__", "__ceil__", "__hash__", "__repr__", "__str__",
    "__format__", "is_integer", "as_integer_ratio", "hex", "bit_length",
):  # fmt: skip
    setattr(Scalar, _name, Scalar.refuse)
