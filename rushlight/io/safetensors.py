"""The safetensors format: a JSON header of names, dtypes and places, then the raw bytes."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from rushlight import dtypes
from rushlight.io.checkpoint import once
from rushlight.io.errors import CheckpointError
from rushlight.io.layout import dense, sizes
from rushlight.tensor import Tensor

NAMES = {
    dtypes.bool_: "BOOL",
    dtypes.uint8: "U8",
    dtypes.int8: "I8",
    dtypes.uint16: "U16",
    dtypes.int16: "I16",
    dtypes.uint32: "U32",
    dtypes.int32: "I32",
    dtypes.uint64: "U64",
    dtypes.int64: "I64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.complex64: "C64",
}
KINDS = {name: kind for kind, name in NAMES.items()}
LONGEST_HEADER = 100 << 20
CHECKSUMS = "rushlight.crc32"  # among the metadata, which other readers pass over


def write(
    tensors: Mapping[str, Tensor], file: BinaryIO, metadata: Mapping[str, str] | None = None
) -> None:
    """Writes named tensors, those of the widest elements first so that all are aligned."""
    check(tensors)
    arrays = {name: np.ascontiguousarray(t._array) for name, t in tensors.items()}
    raw = {name: array.reshape(-1).view(np.uint8).data for name, array in arrays.items()}
    sums = {name: zlib.crc32(data) for name, data in raw.items()}
    header: dict[str, Any] = {"__metadata__": {**(metadata or {}), CHECKSUMS: json.dumps(sums)}}
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    place = 0
    for name in order:
        t = tensors[name]
        end = place + t.nbytes
        header[name] = {
            "dtype": NAMES[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in order:
        file.write(raw[name])


def check(tensors: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"a safetensors file holds a dictionary of tensors, not {type(tensors).__name__}"
        )
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, Tensor):
            raise TypeError(
                f"a safetensors file holds tensors by their names; {name!r} is a {type(t).__name__}"
            )
        if name == "__metadata__":
            raise ValueError("a tensor cannot be called '__metadata__' in a safetensors file")
        if t.dtype not in NAMES:
            raise TypeError(f"safetensors has no name for the dtype {t.dtype} of {name!r}")


def read(data: Any, mapped: bool = False) -> dict[str, Tensor]:
    """The named tensors in a file's bytes."""
    if len(data) < 8:
        raise CheckpointError("the file ends before its header")
    (length,) = struct.unpack_from("<Q", data)
    if length > LONGEST_HEADER or 8 + length > len(data):
        raise CheckpointError(f"its header of {length} bytes is longer than the file")
    header = json.loads(bytes(data[8 : 8 + length]), object_pairs_hook=once)
    if not isinstance(header, dict):
        raise CheckpointError("its header is no JSON object")
    sums = checksums(header.pop("__metadata__", None))
    body = np.frombuffer(data, np.uint8, len(data) - 8 - length, 8 + length)
    end, tensors = 0, {}
    for name, (kind, shape, start, stop) in sorted(described(header).items(), key=by_place):
        if start != end or stop < start:
            raise CheckpointError(
                f"the tensor {name!r} lies at {start}:{stop}, where {end} was to follow"
            )
        if stop > body.size:
            raise CheckpointError(f"the tensor {name!r} ends beyond the file")
        end = stop
        part = body[start:stop]
        if not mapped and sums.get(name, zlib.crc32(part.data)) != zlib.crc32(part.data):
            raise CheckpointError(f"the tensor {name!r} is damaged: its checksum differs")
        try:
            tensors[name] = dense(part if mapped else part.copy(), kind, shape)
        except CheckpointError as error:
            raise CheckpointError(f"the tensor {name!r}: {error}") from None
    if end != body.size:
        raise CheckpointError(f"{body.size - end} bytes after the last tensor belong to none")
    return {name: tensors[name] for name in header}


def checksums(metadata: Any) -> dict[str, int]:
    """The checksums that :func:`write` put among the metadata; other writers have none."""
    text = metadata.get(CHECKSUMS) if isinstance(metadata, dict) else None
    return json.loads(text) if isinstance(text, str) else {}


Place = tuple[dtypes.dtype, tuple[int, ...], int, int]


def described(header: dict[str, Any]) -> dict[str, Place]:
    """dtype, shape, start and stop of each tensor."""
    found = {}
    for name, entry in header.items():
        if not isinstance(entry, dict) or entry.get("dtype") not in KINDS:
            raise CheckpointError(f"the tensor {name!r} has no dtype that is known: {entry!r:.60}")
        places = sizes(entry.get("data_offsets"), f"data_offsets of {name!r}")
        if len(places) != 2:
            raise CheckpointError(f"data_offsets of {name!r} are {list(places)}, not two")
        shape = sizes(entry.get("shape"), f"the shape of {name!r}")
        found[name] = (KINDS[entry["dtype"]], shape, places[0], places[1])
    return found


def by_place(item: tuple[str, Place]) -> tuple[int, int]:
    return item[1][2], item[1][3]
