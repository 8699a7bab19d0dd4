"""Truth values and bits, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import ops
from rushlight.ops.elementwise import TensorPair
from rushlight.ops.families import Binary, Unary
from rushlight.ops.samples import Fails, S, T, binary_samples, unary_samples
from rushlight.tensor import Tensor, install


class LogicalAnd(TensorPair):
    """Where both elements are true (not zero).

    >>> rl.logical_and(rl.tensor([True, True]), rl.tensor([0, 2]))
    tensor([False,  True])
    """

    differentiable = False
    samples = binary_samples()
    eager = np.logical_and


class LogicalOr(TensorPair):
    """Where at least one element is true (not zero).

    >>> rl.logical_or(rl.tensor([True, False]), rl.tensor([0, 0]))
    tensor([ True, False])
    """

    differentiable = False
    samples = binary_samples()
    eager = np.logical_or


class LogicalXor(TensorPair):
    """Where exactly one element is true (not zero).

    >>> rl.logical_xor(rl.tensor([True, True]), rl.tensor([0, 2]))
    tensor([ True, False])
    """

    differentiable = False
    samples = binary_samples()
    eager = np.logical_xor


class LogicalNot(Unary):
    """Where the element is false (zero).

    >>> rl.logical_not(rl.tensor([0.0, 1.5]))
    tensor([ True, False])
    """

    differentiable = False
    samples = unary_samples()
    eager = np.logical_not


def bits(*shape: int) -> T:
    return T(*shape, dtype=dtypes.int64, low=0, high=8)


NO_BITS = Fails(NotImplementedError, "not implemented for 'Float'", T(2, dtype=dtypes.float32), 1)


class Bitwise(Binary, abstract=True):
    """An op on the bits of integers and bools."""

    kinds = "bi"
    differentiable = False
    samples = [S(bits(3, 4), bits(4)), S(bits(3, 4), 5), S(bits(), bits()), S(bits(0), bits(0))]
    errors = [NO_BITS, Fails(TypeError, "must be Tensor, not str", bits(2), "1")]


class BitwiseAnd(Bitwise):
    """The bits set in both elements; for bools, logical and.

    >>> rl.tensor([5, 6]) & 3
    tensor([1, 2])
    """

    operator = "and"
    eager = np.bitwise_and


class BitwiseOr(Bitwise):
    """The bits set in either element; for bools, logical or.

    >>> rl.tensor([5, 6]) | 3
    tensor([7, 7])
    """

    operator = "or"
    eager = np.bitwise_or


class BitwiseXor(Bitwise):
    """The bits set in one of the elements alone; for bools, logical xor.

    >>> rl.tensor([5, 6]) ^ 3
    tensor([6, 5])
    """

    operator = "xor"
    eager = np.bitwise_xor


class Shift(Bitwise, abstract=True):
    """A shift of integers; shifting by a negative number is shifting out all bits."""

    kinds = "i"

    def kernel(self, numpy_dtype: np.dtype) -> Callable[..., Any]:
        shift, width = super().kernel(numpy_dtype), numpy_dtype.itemsize * 8

        def bounded(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return shift(a, np.where(b < 0, numpy_dtype.type(width), b))

        return shift if numpy_dtype.kind == "u" else bounded


class BitwiseLeftShift(Shift):
    """The bits moved up: ``input * 2 ** other``.

    >>> rl.tensor([1, 5]) << 2
    tensor([ 4, 20])
    """

    operator = "lshift"
    eager = np.left_shift


class BitwiseRightShift(Shift):
    """The bits moved down, the sign kept: ``input // 2 ** other``.

    >>> rl.tensor([4, -20]) >> 2
    tensor([ 1, -5])
    """

    operator = "rshift"
    eager = np.right_shift


class BitwiseNot(Unary):
    """Every bit turned over; for bools, logical not.

    >>> ~rl.tensor([True, False])
    tensor([False,  True])
    """

    kinds = "bi"
    differentiable = False
    samples = [S(bits(3, 4)), S(bits())]
    errors = [
        *Unary.errors,
        Fails(NotImplementedError, "for 'Float'", T(2, dtype=dtypes.float32)),
    ]
    eager = np.invert


def invert(self: Tensor) -> Tensor:
    """``~self``, of integers and bools."""
    if self._array.dtype.kind not in "biu":
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors, "
            f"got {self.dtype}"
        )
    return ops.bitwise_not(self)


install(__invert__=invert)
