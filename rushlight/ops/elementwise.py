"""Elementwise ops beyond one or two plain operands: with parameters, of several tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.autograd.tape import record
from rushlight.kernels import select
from rushlight.ops.base import any_tracked, composite, in_place, into, need_tensor, ops
from rushlight.ops.families import (
    FLOAT32,
    FLOAT64,
    NUMBER,
    Binary,
    Elementwise,
    Kernels,
    cast,
    number,
    shape_error,
)
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, new

ndarray = np.ndarray


class Formula(Elementwise, abstract=True):
    """y = f(a, b, …; parameters): the operands promoted to one dtype and broadcast.

    ``check`` returns the operands (tensors or numbers) and the parameters as attributes.
    """

    inplace = True

    def make(self) -> Callable[..., Any]:
        self.kernels = Kernels(self)
        self.single = self.kernels.first_choice(FLOAT32)
        return super().make()

    def apply(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Tensor:
        state = local.state
        if state.trace is not None:
            return self.traced(operands, attrs)
        arrays, kind = promoted(operands)
        kernel = self.single if kind is FLOAT32 else self.kernels[kind]
        try:
            y = state.run(kernel, *arrays, **attrs)
        except ValueError as error:
            raise mismatch(self.name, arrays, error) from None
        t = new(Tensor)
        t._array = y if type(y) is ndarray else np.asarray(y)
        if state.grad and self.differentiable and any_tracked(operands):
            record(self, t, operands, attrs)
        return t


class TensorPair(Binary, abstract=True):
    """A binary op whose function takes tensors alone, no numbers."""

    def public(self, binary: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        name = self.name

        def function(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
            t = binary(need_tensor(name, input), need_tensor(name, other, "other", 2))
            return t if out is None else into(out, t)

        return function


class Named(Binary, abstract=True):
    """A binary op whose second argument has a name of its own, given by ``public``."""

    def make_in_place(self) -> Callable[..., Any]:
        return in_place(self)


def promoted(operands: Sequence[Any]) -> tuple[list[ndarray], np.dtype]:
    """The operands as arrays of their common dtype, which is the second result."""
    first = operands[0]
    if isinstance(first, Tensor):
        kind = first._array.dtype
        if len(operands) == 1:
            return [first._array], kind
        arrays = [plain(t, kind) for t in operands]
        if all([a is not None for a in arrays]):
            return arrays, kind
    kind = common_dtype(operands).numpy
    arrays = [cast(t._array, kind) if isinstance(t, Tensor) else number(t, kind) for t in operands]
    return arrays, kind


def plain(value: Any, kind: np.dtype) -> Any:
    """A tensor of this dtype, or a number beside floating-point ones, as an array; else None."""
    if isinstance(value, Tensor):
        return value._array if value._array.dtype is kind else None
    usual = (kind is FLOAT32 or kind is FLOAT64) and (type(value) is float or type(value) is int)
    return np.array(value, kind) if usual else None


def common_dtype(operands: Sequence[Any]) -> dtypes.dtype:
    """PyTorch's promotion: tensors first, then 0-d tensors, then numbers.

    A weaker group counts only if its category is higher.
    """
    groups: list[dtypes.dtype | None] = [None, None, None]
    for value in operands:
        if isinstance(value, Tensor):
            kind, strength = value.dtype, 0 if value._array.ndim else 1
        else:
            kind, strength = dtypes.of_scalar(value), 2
        known = groups[strength]
        groups[strength] = kind if known is None else dtypes.promote_types(known, kind)
    first, *rest = [kind for kind in groups if kind is not None]
    for weak in rest:
        if weak.category > first.category:
            to_complex = weak.category == dtypes.COMPLEX and first.category == dtypes.FLOAT
            first = first.to_complex() if to_complex else weak
    return first


@composite(
    method=False,
    samples=[S(T(3), 1.5), S(2, T(3)), S(T(3), T(3, dtype=dtypes.float64))],
    errors=[Fails(TypeError, "must be Tensor or Number, not str", T(3), "1")],
)
def result_type(tensor1: Any, tensor2: Any) -> dtypes.dtype:
    """The dtype of an arithmetic op on these tensors or numbers.

    >>> rl.result_type(rl.tensor([1, 2]), 1.5)
    rushlight.float32
    """
    for position, value in ((1, tensor1), (2, tensor2)):
        if not isinstance(value, (Tensor, *NUMBER)):
            raise TypeError(
                f"result_type(): argument {position} must be Tensor or Number, "
                f"not {messages.kind(value)}"
            )
    return common_dtype((tensor1, tensor2))


def same_dtype(name: str, a: Tensor, b: Tensor, argument: str) -> None:
    """An error unless ``b``, passed as ``argument``, has the dtype of ``a``."""
    if a._array.dtype is not b._array.dtype:
        raise RuntimeError(
            f"{name}(): expected dtype {a.dtype.name} for `{argument}` but got dtype {b.dtype.name}"
        )


def mismatch(name: str, arrays: Sequence[ndarray], error: Exception) -> Exception:
    """The error that names the first two operands which do not broadcast."""
    for x, y in itertools.combinations(arrays, 2):
        found = shape_error(name, x, y, error)
        if found is not error:
            return found
    return error


def zero(g: Any) -> Any:
    """The gradient of a function that is constant where it has a derivative."""
    return ops.zeros_like(g) if isinstance(g, Tensor) else np.zeros_like(g)


def masked(mask: Any, g: Any) -> Any:
    """``g`` where ``mask`` holds, else 0, be it infinite or NaN there: of tensors or arrays."""
    if isinstance(g, Tensor):
        return ops.where(mask, g, 0)
    return select.masked(mask, g)


def cleared(mask: Any, g: Any) -> Any:
    """0 where ``mask`` holds, else ``g``: of tensors or arrays."""
    if isinstance(g, Tensor):
        return ops.where(mask, 0, g)
    return select.masked(~mask, g)


def no_derivative(name: str, argument: str) -> NoReturn:
    raise NotImplementedError(f"the derivative for '{argument}' of {name} is not implemented")
