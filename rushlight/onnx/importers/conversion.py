"""Elements of one type made those of another, those that no tensor holds among them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from rushlight import dtypes
from rushlight.onnx.elements import HELD, element_of
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.registry import known, tensor_of
from rushlight.tensor import Tensor

NAMES = {"FLOAT": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7}
NAMES |= {"BOOL": 9, "FLOAT16": 10, "DOUBLE": 11, "UINT32": 12, "UINT64": 13}
FLOAT8 = (
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz),
    *(ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz),
)


def element_named(to: int | str) -> np.dtype:
    """The type that an attribute names, by its number or, in early versions, its name."""
    if isinstance(to, str):
        if to not in NAMES:
            raise OnnxError(f"elements of {to} are not supported")
        to = NAMES[to]
    return element_of(to).numpy


def converted(x: Any, target: np.dtype, saturate: bool = True, round_mode: str = "up") -> Any:
    """``x`` with elements of ``target``; an array, if it was one or no tensor holds them."""
    if isinstance(x, Tensor) and target in HELD:
        return x.to(dtypes.from_numpy(target))
    array = known(x)
    if array.dtype == object:
        return array if target == np.int64 else converted(tensor_of(array), target)
    with np.errstate(all="ignore"):
        if target in FLOAT8 and saturate:
            largest = np.float32(ml_dtypes.finfo(target).max)
            array = array.astype(np.float32).clip(-largest, largest)  # NaN stays
        elif target == ml_dtypes.float8_e8m0fnu:
            array = power_of_two(array.astype(np.float32), saturate, round_mode)
        return array.astype(target)


def power_of_two(x: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """The power of two next to ``|x|``: above (``up``), below (``down``) or the nearer one."""
    fraction, exponent = np.frexp(np.abs(x))  # |x| = fraction 2^exponent, fraction in [1/2, 1)
    above = {"up": fraction > 0.5, "down": False, "nearest": fraction >= 0.75}[round_mode]
    result = np.where(x == 0, x, np.ldexp(np.ones_like(x), exponent - 1 + above))
    least, largest = np.float32(2.0**-127), np.float32(2.0**127)
    if saturate:
        return np.where(np.isnan(x), x, np.where(np.isinf(x), largest, result.clip(least, largest)))
    return np.where((result < least) | (result > largest), np.float32(np.nan), result)
