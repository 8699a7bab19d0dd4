"""Tensors of ONNX files as arrays: their types, their packing, and checks of both."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from rushlight import dtypes
from rushlight.onnx.errors import OnnxError

MOST_BYTES = 1 << 40  # of one tensor: more is a damaged file
MOST_SPARSE = 1 << 34  # of one that the file leaves to be filled with zeros


class Element(NamedTuple):
    """A type of elements: NumPy's, the field that holds single values, and bits of each."""

    numpy: np.dtype
    field: str
    bits: int


def element(numpy: Any, field: str, bits: int = 0) -> Element:
    kind = np.dtype(numpy)
    return Element(kind, field, bits or 8 * kind.itemsize)


# By the numbers of TensorProto.DataType. Strings (8) are missing: no tensor holds them.
ELEMENTS = {
    1: element(np.float32, "float_data"),
    2: element(np.uint8, "int32_data"),
    3: element(np.int8, "int32_data"),
    4: element(np.uint16, "int32_data"),
    5: element(np.int16, "int32_data"),
    6: element(np.int32, "int32_data"),
    7: element(np.int64, "int64_data"),
    9: element(np.bool_, "int32_data"),
    10: element(np.float16, "int32_data"),
    11: element(np.float64, "double_data"),
    12: element(np.uint32, "uint64_data"),
    13: element(np.uint64, "uint64_data"),
    14: element(np.complex64, "float_data"),
    15: element(np.complex128, "double_data"),
    16: element(ml_dtypes.bfloat16, "int32_data"),
    17: element(ml_dtypes.float8_e4m3fn, "int32_data"),
    18: element(ml_dtypes.float8_e4m3fnuz, "int32_data"),
    19: element(ml_dtypes.float8_e5m2, "int32_data"),
    20: element(ml_dtypes.float8_e5m2fnuz, "int32_data"),
    21: element(ml_dtypes.uint4, "int32_data", 4),
    22: element(ml_dtypes.int4, "int32_data", 4),
    23: element(ml_dtypes.float4_e2m1fn, "int32_data", 4),
    24: element(ml_dtypes.float8_e8m0fnu, "int32_data"),
    25: element(ml_dtypes.uint2, "int32_data", 2),
    26: element(ml_dtypes.int2, "int32_data", 2),
}
NUMBERS = {kind.numpy: number for number, kind in ELEMENTS.items()}
HELD = frozenset(kind.numpy for kind in dtypes.ALL)  # what tensors of Rushlight can hold
EXTERNAL = 1  # TensorProto.DataLocation


def element_of(number: int) -> Element:
    """The type of that number; an error for strings and for what is not known."""
    if number not in ELEMENTS:
        name = "strings" if number == 8 else f"elements of type {number}"
        raise OnnxError(f"{name} are not supported")
    return ELEMENTS[number]


def array_of(proto: Any, external: Any = None) -> np.ndarray:
    """The elements of a TensorProto, as an array of its own.

    Args:
        proto: the message.
        external: a function that gives the bytes that a message leaves to another file.
    """
    kind, shape = element_of(proto.data_type), tuple(proto.dims)
    if any([size < 0 for size in shape]):
        raise OnnxError(f"the shape {list(shape)} has a negative size")
    count = math.prod(shape)
    length = -(-count * kind.bits // 8)
    if length > MOST_BYTES:
        raise OnnxError(f"the shape {list(shape)} is too large")
    if proto.HasField("segment"):
        raise OnnxError("tensors in segments are not supported")
    if proto.data_location == EXTERNAL:
        if external is None:
            raise OnnxError("external data are allowed for initializers only")
        return unpacked(external(proto, length), kind, count).reshape(shape)
    if proto.HasField("raw_data"):
        data = proto.raw_data  # each look at the field is a copy
        if len(data) != length:
            raise OnnxError(
                f"the shape {list(shape)} of {kind.numpy.name} needs {length} bytes, "
                f"the file has {len(data)}"
            )
        return unpacked(data, kind, count).reshape(shape)
    return single_values(getattr(proto, kind.field), kind, count).reshape(shape)


def unpacked(data: Any, kind: Element, count: int) -> np.ndarray:
    """The elements in little-endian bytes, where those of fewer than 8 bits share one."""
    if kind.bits >= 8:
        return np.frombuffer(data, kind.numpy.newbyteorder("<")).astype(kind.numpy)
    per = 8 // kind.bits
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(kind.bits)
    parts = np.frombuffer(data, np.uint8)[:, None] >> shifts & np.uint8((1 << kind.bits) - 1)
    codes = parts.reshape(-1)[:count]
    if np.dtype(kind.numpy).name.startswith("int"):  # ml_dtypes reads codes as signed numbers
        sign = 1 << (kind.bits - 1)
        return ((codes ^ sign).astype(np.int8) - sign).astype(kind.numpy)
    if kind.numpy == ml_dtypes.float4_e2m1fn:
        return codes.view(kind.numpy)
    return codes.astype(kind.numpy)


def single_values(values: Any, kind: Element, count: int) -> np.ndarray:
    """The elements that a field of numbers holds; half types are there as bits."""
    needed, numpy = count, kind.numpy
    if kind.bits < 8:
        needed = -(-count * kind.bits // 8)
    elif numpy.kind == "c":
        needed = 2 * count
    if len(values) != needed:
        raise OnnxError(f"{needed} values in {kind.field} are needed, the file has {len(values)}")
    if kind.bits < 8:
        return unpacked(np.array(values, np.int64).astype(np.uint8).tobytes(), kind, count)
    if numpy.kind == "c":
        return np.array(values, np.finfo(numpy).dtype).view(numpy)
    if numpy.kind in "iub" or numpy in (np.float32, np.float64):
        return np.array(values).astype(numpy)
    bits = np.dtype(f"u{numpy.itemsize}")
    return np.array(values, np.int64).astype(bits).view(numpy)


def dense(proto: Any, external: Any = None) -> np.ndarray:
    """The array of a SparseTensorProto."""
    values, places = array_of(proto.values, external), array_of(proto.indices, external)
    shape = tuple(proto.dims)
    size = math.prod(shape)
    if any([n < 0 for n in shape]) or size * values.itemsize > MOST_SPARSE or places.dtype != "i8":
        raise OnnxError(f"a sparse tensor of shape {list(shape)} is damaged")
    if places.ndim == 2 and places.shape[1] == len(shape):
        if (places < 0).any() or (places >= np.array(shape)).any():
            raise OnnxError("an index of a sparse tensor is outside its shape")
        places = np.ravel_multi_index(tuple(places.T), shape)
    if places.shape != values.shape or (places < 0).any() or (places >= size).any():
        raise OnnxError("the indices of a sparse tensor do not fit its values or its shape")
    result = np.zeros(size, values.dtype)
    result[places] = values
    return result.reshape(shape)
