"""PyTorch's own ``.pt`` and ``.pth`` files, the zip format and the one before it."""

from __future__ import annotations

import argparse
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.device import cpu
from rushlight.io import pickles
from rushlight.io.archives import Archive
from rushlight.io.errors import CheckpointError
from rushlight.io.layout import sizes, strided
from rushlight.io.pickles import Maker, Value
from rushlight.nn.parameter import Parameter
from rushlight.tensor import Size, Tensor

MAGIC = 0x1950A86A20F9469CFC6C
PROTOCOL = 1001


class Storage:
    """The memory of a tensor in the file: bytes, read when first asked for."""

    def __init__(self, kind: dtypes.dtype | None, load: Callable[[], np.ndarray]) -> None:
        self.kind = kind
        self.load = load
        self.data: np.ndarray | None = None

    def bytes(self) -> np.ndarray:
        if self.data is None:
            self.data = self.load()
        return self.data


class Kind:
    """The type of a storage, as the pickle names it: ``torch.FloatStorage``."""

    def __init__(self, kind: dtypes.dtype | None) -> None:
        self.kind = kind


def rebuild_tensor(
    storage: Any, offset: Any, size: Any, stride: Any, wants: Any = False, *_: Any
) -> Tensor:
    if not isinstance(storage, Storage) or storage.kind is None:
        raise CheckpointError("a tensor lies in no storage")
    return build(storage, storage.kind, offset, size, stride, wants)


def rebuild_untyped(
    storage: Any, offset: Any, size: Any, stride: Any, wants: Any, hooks: Any, kind: Any, *_: Any
) -> Tensor:
    if not isinstance(storage, Storage) or not isinstance(kind, dtypes.dtype):
        raise CheckpointError("a tensor lies in no storage")
    return build(storage, kind, offset, size, stride, wants)


def build(
    storage: Storage, kind: dtypes.dtype, offset: Any, size: Any, stride: Any, wants: Any
) -> Tensor:
    (start,) = sizes([offset], "the offset")
    shape, strides = sizes(size, "the shape"), sizes(stride, "the strides")
    t = strided(storage.bytes(), kind, shape, strides, start)
    return t.requires_grad_() if wants is True else t


def rebuild_parameter(data: Any, wants: Any = True, *_: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise CheckpointError("a parameter has no tensor")
    return Parameter(data.detach(), wants is True)


def rebuild_from_type(make: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor with attributes; they are left out."""
    if not isinstance(make, Maker) or not isinstance(arguments, tuple):
        raise CheckpointError("this file contains code and was not loaded: it calls a value")
    return make.make(*arguments)


def numpy_dtype(text: Any, *_: Any) -> np.dtype:
    kind = np.dtype(str(text))
    if kind.hasobject:
        raise CheckpointError("this file contains Python objects and was not loaded")
    return kind


def with_byte_order(kind: np.dtype, state: Any) -> np.dtype:
    return kind.newbyteorder(state[1]) if state[1] in ("<", ">") else kind


def numpy_scalar(kind: Any, data: Any = b"") -> Any:
    if not isinstance(kind, np.dtype) or not isinstance(data, bytes):
        raise CheckpointError("a NumPy number is damaged")
    return np.frombuffer(data, kind, 1)[0]


class Unfilled:
    """A NumPy array of which only the state that follows says what is in it."""


def filled(_: Any, state: Any) -> np.ndarray:
    _, shape, kind, fortran, data = state
    data = data.encode("latin1") if isinstance(data, str) else data  # as Python 2 wrote it
    if not isinstance(kind, np.dtype) or not isinstance(data, bytes):
        raise CheckpointError("a NumPy array is damaged")
    array = np.frombuffer(bytearray(data), kind)
    return array.reshape(sizes(shape, "the shape"), order="F" if fortran else "C")


def with_attributes(target: Any, state: Any) -> Any:
    target.__dict__.update({str(name): value for name, value in dict(state).items()})
    return target


def names() -> dict[str, Maker | Value]:
    """What the names in PyTorch's files stand for."""
    table = dict(pickles.PYTHON)
    for kind in dtypes.ALL:
        table[f"torch.{kind.name}"] = Value(kind)
        table[f"torch.{kind.storage_name}Storage"] = Value(Kind(kind))
        table[f"torch.storage.{kind.storage_name}Storage"] = Value(Kind(kind))
    for home in ("torch", "torch.storage"):
        table[f"{home}.UntypedStorage"] = Value(Kind(None))
    for home in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray"):
        table[f"{home}.ndarray"] = Value(np.ndarray)
        table[f"{home}.dtype"] = Maker(numpy_dtype, with_byte_order)
        table[f"{home}.scalar"] = Maker(numpy_scalar)
        table[f"{home}._reconstruct"] = Maker(lambda *_: Unfilled(), filled)
    table["torch.Size"] = Maker(Size)
    table["torch.device"] = Maker(lambda *_: cpu)
    table["torch.serialization._get_layout"] = Maker(lambda name: name)
    table["torch._utils._rebuild_tensor"] = Maker(rebuild_tensor)
    table["torch._utils._rebuild_tensor_v2"] = Maker(rebuild_tensor)
    table["torch._utils._rebuild_tensor_v3"] = Maker(rebuild_untyped)
    table["torch._utils._rebuild_parameter"] = Maker(rebuild_parameter)
    table["torch._utils._rebuild_parameter_with_state"] = Maker(rebuild_parameter)
    table["torch._tensor._rebuild_from_type_v2"] = Maker(rebuild_from_type)
    table["torch.nn.parameter.Parameter"] = Maker(rebuild_parameter)
    table["torch.Tensor"] = table["torch._tensor.Tensor"] = Value(Tensor)
    table["argparse.Namespace"] = Maker(argparse.Namespace, with_attributes)
    return table


def read_zip(archive: Archive, mapped: bool = False) -> Any:
    """The value in a file of PyTorch's since version 1.6."""
    (pickle,) = [name for name in archive.members if name.endswith("/data.pkl")][:1]
    folder = pickle.removesuffix("data.pkl")
    order = archive.read(f"{folder}byteorder") if f"{folder}byteorder" in archive else b"little"
    storages: dict[str, Storage] = {}

    def persistent(reference: Any) -> Storage:
        kind, key, _ = checked_reference(reference)
        if key not in storages:
            name = f"{folder}data/{key}"
            storages[key] = Storage(
                kind, lambda: swapped(archive.bytes_of(name, mapped), kind, order)
            )
        return of_kind(storages[key], kind)

    return pickles.read(archive.read(pickle), 0, names(), persistent)[0]


def of_kind(storage: Storage, kind: dtypes.dtype | None) -> Storage:
    return storage if storage.kind is kind else Storage(kind, storage.bytes)


def swapped(data: np.ndarray, kind: dtypes.dtype | None, order: bytes) -> np.ndarray:
    """Bytes in this machine's order."""
    if order != b"big" or kind is None or kind.itemsize == 1:
        return data
    width = kind.itemsize // (2 if kind.is_complex else 1)
    return data.reshape(-1, width)[:, ::-1].reshape(-1)


def checked_reference(reference: Any) -> tuple[dtypes.dtype | None, str, int]:
    """(dtype, key, number of elements) of a reference to a storage."""
    if not isinstance(reference, tuple) or len(reference) < 5 or reference[0] != "storage":
        raise CheckpointError("the pickle refers to something that is no storage")
    _, kind, key, _, count = reference[:5]
    if not isinstance(kind, Kind) or not isinstance(key, str):
        raise CheckpointError("the pickle refers to something that is no storage")
    (count,) = sizes([count], "the size of a storage")
    return kind.kind, key, count


def read_legacy(data: Any) -> Any:
    """The value in a file of PyTorch's before version 1.6: pickles, then the storages."""
    table = names()
    magic, position = pickles.read(data, 0, table)
    if magic != MAGIC:
        raise CheckpointError(
            "this file is a pickle, which may contain code, and was not loaded. It is none of "
            "PyTorch's checkpoints"
        )
    protocol, position = pickles.read(data, position, table)
    if protocol != PROTOCOL:
        raise CheckpointError(f"its protocol is {protocol!r}, not {PROTOCOL}")
    _, position = pickles.read(data, position, table)
    counts: dict[str, int] = {}
    storages: dict[str, Storage] = {}

    def persistent(reference: Any) -> Storage:
        kind, key, count = checked_reference(reference)
        if key not in storages:
            width = 1 if kind is None else kind.itemsize
            memory = reserved(count * width, len(data))
            storages[key] = Storage(kind, lambda: memory)
            counts[key] = count
        return of_kind(storages[key], kind)

    value, position = pickles.read(data, position, table, persistent)
    keys, position = pickles.read(data, position, table)
    for key in keys:
        count = counts[key]
        (stored,) = struct.unpack_from("<q", data, position)
        if stored != count:
            raise CheckpointError(f"the storage {key} has {stored} elements, {count} were to come")
        memory = storages[key].bytes()
        part = data[position + 8 : position + 8 + memory.size]
        if len(part) != memory.size:
            raise CheckpointError(f"the file ends inside the storage {key}")
        memory[:] = np.frombuffer(part, np.uint8)
        position += 8 + memory.size
    return value


def reserved(count: int, length: int) -> np.ndarray:
    """Room for ``count`` bytes of a file of ``length`` bytes."""
    if count > length:
        raise CheckpointError(f"a storage of {count} bytes is longer than the file")
    return np.empty(count, np.uint8)
