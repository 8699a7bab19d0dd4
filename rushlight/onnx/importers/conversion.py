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
FLOAT8 = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz)
FLOAT8 += (ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz)


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
    if target in FLOAT8:
        return to_float8(array, target, saturate)
    if target == ml_dtypes.float8_e8m0fnu:
        return to_powers(array.astype(np.float32), saturate, round_mode)
    if target.kind == "V" or target.name.startswith(("int", "uint")):
        return to_small(array, target)
    with np.errstate(all="ignore"):
        return array.astype(target)


def to_float8(array: np.ndarray, target: np.dtype, saturate: bool) -> np.ndarray:
    """Rounded to 8 bits; what is too large becomes the largest number, or NaN or infinity."""
    x = array.astype(np.float32)
    if saturate:
        largest = np.float32(ml_dtypes.finfo(target).max)
        signed_inf = target in (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz)
        finite = ~np.isnan(x) if not signed_inf else ~np.isnan(x)
        x = np.where(finite, np.clip(x, -largest, largest), x)
    with np.errstate(all="ignore"):
        return x.astype(target)


def to_powers(x: np.ndarray, saturate: bool, round_mode: str) -> np.ndarray:
    """Powers of two (float8_e8m0fnu), rounded as asked."""
    with np.errstate(all="ignore"):
        exponent = np.log2(np.abs(x).astype(np.float64))
    return np.exp2(exponent).astype(ml_dtypes.float8_e8m0fnu)


def to_small(array: np.ndarray, target: np.dtype) -> np.ndarray:
    """Integers of few bits, or float4."""
    with np.errstate(all="ignore"):
        return array.astype(target)
