"""Conversion between dtypes, of arrays and of single numbers, by PyTorch's rules."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from rushlight import dtypes
from rushlight.dims import is_of_run

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
LIMITS: dict[dtypes.dtype, tuple[Any, Any]] = {
    kind: (int(np.iinfo(kind.numpy).min), int(np.iinfo(kind.numpy).max))
    if kind.category == dtypes.INT
    else (float(ml_dtypes.finfo(kind.numpy).min), float(ml_dtypes.finfo(kind.numpy).max))
    for kind in _C_NAMES
}


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
    low, high = LIMITS[kind]
    if kind.category == dtypes.FLOAT:
        if low <= value <= high or not math.isfinite(value):
            return value
        raise _overflow(value, kind)
    if not (low or -high) <= value <= high:
        raise _overflow(value, kind)
    if is_of_run(value) and (low < 0 or value >= 0):
        return value
    return int(value) & high if low == 0 else int(value)


def _overflow(value: Any, kind: dtypes.dtype) -> RuntimeError:
    return RuntimeError(
        f"value cannot be converted to type {_C_NAMES[kind]} without overflow: {value}"
    )
