"""Conversion between dtypes, of arrays and of single numbers, by PyTorch's rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes

_C_NAMES = {
    dtypes.uint8: "uint8_t",
    dtypes.int8: "int8_t",
    dtypes.int16: "int16_t",
    dtypes.int32: "int",
    dtypes.int64: "int64_t",
    dtypes.uint16: "uint16_t",
    dtypes.uint32: "uint32_t",
    dtypes.uint64: "uint64_t",
    dtypes.float16: "c10::Half",
    dtypes.bfloat16: "c10::BFloat16",
    dtypes.float32: "float",
    dtypes.float64: "double",
}
_FLOAT32, _INT64 = dtypes.float32.numpy, dtypes.int64.numpy


def cast(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """A copy of ``x`` with elements of ``kind``, dimensions in the same order in memory.

    As in PyTorch: floats to integers cut towards zero; NaN, infinities and numbers out of range
    become what the processor's conversion makes of them (on x86 the smallest int32 or int64, of
    which narrower types keep the low bits); 16-bit floats are reached through float32.
    """
    if kind in dtypes.HALF:
        return x.astype(_FLOAT32).astype(kind)
    if x.dtype.kind == "c" and kind.kind not in "cb":
        x = x.real
    if kind == np.uint8 and x.dtype.kind == "f":
        x = x.astype(_INT64)
    return x.astype(kind)


def checked(value: Any, kind: dtypes.dtype) -> Any:
    """The number ``value`` for elements of ``kind``; ``RuntimeError`` if it does not fit there.

    Negative numbers that are no larger wrap around in unsigned types.
    """
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError(f"int too big to convert: {value}")
    if kind.category == dtypes.COMPLEX or kind is dtypes.bool_:
        return value
    if isinstance(value, complex) and not isinstance(value, float):
        if value.imag != 0:
            raise _overflow(value, kind)
        value = value.real
    if kind.category == dtypes.FLOAT:
        limit = float(dtypes.finfo(kind).max)
        if not -limit <= value <= limit and abs(value) != float("inf") and value == value:
            raise _overflow(value, kind)
        return value
    limits = np.iinfo(kind.numpy)
    low, high = int(limits.min), int(limits.max)
    if not (-high if low == 0 else low) <= value <= high:
        raise _overflow(value, kind)
    whole = int(value)
    return whole & high if low == 0 else whole


def _overflow(value: Any, kind: dtypes.dtype) -> RuntimeError:
    return RuntimeError(
        f"value cannot be converted to type {_C_NAMES[kind]} without overflow: {value}"
    )
