"""Rushlight's own checkpoint: a zip of one JSON index and the raw bytes of the tensors.

The index holds the saved value; what JSON cannot say is ``{kind: content}``. There is no code in
it, so that reading one runs none. Tensors that share memory share it again when loaded.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.device import device as Device
from rushlight.io.archives import Archive, store
from rushlight.io.errors import CheckpointError
from rushlight.io.layout import dtype_called, sizes, strided
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.storage import address, memory_of
from rushlight.tensor import Size, Tensor

INDEX = "index.json"
PLAIN = (type(None), bool, int, str)


class Format(NamedTuple):
    """What a file says that it is, and the newest version that is known."""

    name: str
    version: int


CHECKPOINT = Format("rushlight checkpoint", 1)


def write(
    value: Any,
    file: BinaryIO,
    format: Format = CHECKPOINT,
    members: Mapping[str, bytes] = MappingProxyType({}),
) -> None:
    """Writes ``value`` to ``file``; nothing is written if part of it cannot be stored.

    Args:
        members: more parts of the archive, by their names.
    """
    writer = Writer(value)
    index = {
        "format": format.name,
        "version": format.version,
        "value": writer.encoded(value, ""),
        "storages": [len(s) for s in writer.storages],
    }
    text = json.dumps(index, allow_nan=False, separators=(",", ":")).encode()
    with zipfile.ZipFile(file, "w") as archive:
        store(archive, INDEX, text)
        for name, content in members.items():
            store(archive, name, content)
        for number, data in enumerate(writer.storages):
            store(archive, f"data/{number}", data)


class Writer:
    """Turns a value into JSON and the list of the memories that its tensors lie in."""

    def __init__(self, value: Any) -> None:
        self.storages: list[memoryview] = []
        self.numbers: dict[int, tuple[int, int]] = {}  # address of a memory → (storage, address)
        self.users: dict[int, int] = {}  # address of a memory → how many tensors lie in it
        self.open: list[int] = []  # the containers around what is being looked at
        self.alive: list[np.ndarray] = []
        self.count(value)

    def count(self, value: Any) -> None:
        """Notes which memories several different tensors lie in."""
        seen: set[int] = set()
        stack = [value]
        while stack:
            v = stack.pop()
            if isinstance(v, Tensor):
                if not is_lazy(v):
                    root = address(memory_of(v._array))
                    self.users[root] = self.users.get(root, 0) + 1
            elif isinstance(v, (dict, list, tuple)) and id(v) not in seen:
                seen.add(id(v))
                stack.extend(v.values() if isinstance(v, dict) else v)

    def encoded(self, value: Any, path: str) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if isinstance(value, (float, np.floating)):
            number = float(value)
            return number if math.isfinite(number) else {"float": repr(number)}
        if isinstance(value, (np.bool_, np.integer)):
            return value.item()
        if isinstance(value, Tensor):
            return self.tensor(value, path)
        if isinstance(value, (dict, list, tuple, set, frozenset, argparse.Namespace)):
            return self.container(value, path)
        for base, name, content in LEAVES:
            if isinstance(value, base):
                return {name: content(value)}
        if isinstance(value, np.ndarray) and value.dtype.kind != "O":
            array = np.ascontiguousarray(value)
            number = self.storage(array)
            return {"ndarray": [number, array.dtype.str, list(value.shape)]}
        if isinstance(value, (str, int)):
            return value.__str__() if isinstance(value, str) else int(value)
        raise unstorable(value, path)

    def container(self, value: Any, path: str) -> Any:
        if id(value) in self.open:
            raise ValueError(f"save(): the value contains itself at {path or 'the top'}")
        self.open.append(id(value))
        try:
            if isinstance(value, dict):
                pairs = [
                    [self.encoded(k, path), self.encoded(v, f"{path}[{k!r}]")]
                    for k, v in value.items()
                ]
                if not isinstance(value, OrderedDict):
                    return {"dict": pairs}
                versions = vars(value).get("_metadata")
                return {"ordered": pairs, "metadata": self.encoded(versions, path)}
            if isinstance(value, argparse.Namespace):
                return {"namespace": self.encoded(vars(value), path)}
            if isinstance(value, tuple) and hasattr(value, "_fields"):
                raise unstorable(value, path)
            name = "list"
            for base, called in ((Size, "size"), (tuple, "tuple"), (set, "set")):
                if isinstance(value, base):
                    name = called
                    break
            if isinstance(value, frozenset):
                name = "frozenset"
            return {name: [self.encoded(v, f"{path}[{i}]") for i, v in enumerate(value)]}
        except RecursionError:
            raise ValueError("save(): the value is nested too deeply") from None
        finally:
            self.open.pop()

    def tensor(self, t: Tensor, path: str) -> Any:
        if is_lazy(t):
            raise ValueError(f"save(): the parameter at {path} has no shape yet; run a batch first")
        array = t._array
        root = memory_of(array)
        if self.users.get(address(root), 0) < 2 or not array.size:
            array = np.asarray(array, order="C")
            number, offset = self.storage(array), 0
        else:
            number, start = self.shared(root)
            offset = (address(array) - start) // array.itemsize
        strides = [s // array.itemsize for s in array.strides]
        content = [number, t.dtype.name, list(array.shape), strides, offset]
        wants = t.requires_grad
        if isinstance(t, Parameter):
            return {"parameter": [*content, wants]}
        return {"tensor": [*content, wants]}

    def storage(self, array: np.ndarray) -> int:
        self.alive.append(array)
        data = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        self.storages.append(memoryview(data))  # type: ignore[arg-type]
        return len(self.storages) - 1

    def shared(self, root: np.ndarray) -> tuple[int, int]:
        start = address(root)
        if start not in self.numbers:
            self.numbers[start] = (self.storage(root), start)
        return self.numbers[start]


LEAVES: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (complex, "complex", lambda v: [repr(v.real), repr(v.imag)]),
    ((bytes, bytearray), "bytes", lambda v: base64.b64encode(v).decode()),
    (dtypes.dtype, "dtype", lambda v: v.name),
    (Device, "device", str),
    (slice, "slice", lambda v: [v.start, v.stop, v.step]),
    (range, "range", lambda v: [v.start, v.stop, v.step]),
    (PurePath, "path", str),
)


def unstorable(value: Any, path: str) -> TypeError:
    cure = ""
    if callable(getattr(value, "state_dict", None)):
        cure = f" Save its state instead: save({type(value).__name__.lower()}.state_dict(), ...)."
    where = f" at {path}" if path else ""
    return TypeError(
        f"save(): cannot store a {type(value).__name__}{where}: a checkpoint holds tensors, "
        f"numbers, text and containers of them, but no code.{cure}"
    )


def read(archive: Archive, mapped: bool = False, format: Format = CHECKPOINT) -> Any:
    """The value in a checkpoint, or in another file of the same kind."""
    index = json.loads(archive.read(INDEX), object_pairs_hook=once)
    own = index.get("format") if isinstance(index, dict) else None
    if own != format.name:
        other = READERS.get(own) if isinstance(own, str) else None
        noun = format.name.removeprefix("rushlight ")
        raise CheckpointError(f"it is {other}" if other else f"it is no {noun} of Rushlight's")
    version = index.get("version")
    if type(version) is not int or not 1 <= version <= format.version:
        raise CheckpointError(
            f"it is of version {version!r}; this Rushlight reads up to version {format.version}"
        )
    return Reader(archive, index, mapped).decoded(index["value"], "")


READERS = {
    CHECKPOINT.name: "a checkpoint: rl.load reads it",
    "rushlight program": "a program: rl.jit.load reads it",
}


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names differ."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise CheckpointError(f"two entries are called {twice!r}")
    return found


class Reader:
    """Turns the JSON of an index and the stored memories back into a value."""

    def __init__(self, archive: Archive, index: dict[str, Any], mapped: bool) -> None:
        self.archive, self.mapped = archive, mapped
        self.lengths = sizes_of_storages(index.get("storages"))
        self.storages: dict[int, np.ndarray] = {}

    def decoded(self, value: Any, path: str) -> Any:
        if value is None or type(value) in (bool, int, float, str):
            return value
        if not isinstance(value, dict) or not value:
            raise CheckpointError(f"the index holds {value!r:.40} at {path or 'the top'}")
        kind, content = next(iter(value.items()))
        if kind in ("dict", "ordered"):
            pairs = [(self.decoded(k, path), v) for k, v in content]
            found = {k: self.decoded(v, f"{path}[{k!r}]") for k, v in pairs}
            if len(found) != len(pairs):
                raise CheckpointError(f"two entries of {path or 'the top'} have one key")
            return found if kind == "dict" else self.ordered(found, value.get("metadata"))
        if kind in MADE_OF_ITEMS:
            items = [self.decoded(v, f"{path}[{i}]") for i, v in enumerate(content)]
            return MADE_OF_ITEMS[kind](items)
        if kind in ("tensor", "parameter"):
            return self.tensor(content, path, kind)
        if kind == "ndarray":
            number, name, shape = content
            numpy_dtype = np.dtype(name)
            if numpy_dtype.hasobject:
                raise CheckpointError(f"the array at {path} holds Python objects")
            data = self.storage(number, path)
            count = math.prod(sizes(shape, "the shape"))
            if count * numpy_dtype.itemsize != data.size:
                raise CheckpointError(f"the array at {path} has {data.size} bytes stored")
            return data.view(numpy_dtype).reshape(shape)
        if kind == "namespace":
            return argparse.Namespace(**self.decoded(content, path))
        if kind in MADE_OF_CONTENT:
            return MADE_OF_CONTENT[kind](content)
        raise CheckpointError(f"the index holds a {kind!r} at {path or 'the top'}")

    def ordered(self, found: dict[Any, Any], metadata: Any) -> OrderedDict[Any, Any]:
        """An ordered dictionary, with the versions of its modules if it is a ``state_dict``."""
        state: Any = OrderedDict(found)
        if metadata is not None:
            state._metadata = self.decoded(metadata, "metadata")
        return state

    def tensor(self, content: Any, path: str, kind: str) -> Tensor:
        number, name, shape, strides, offset, wants = content
        if type(offset) is not int or offset < 0:
            raise CheckpointError(f"the tensor at {path} begins at {offset!r}")
        try:
            t = strided(
                self.storage(number, path),
                dtype_called(name),
                sizes(shape, "the shape"),
                sizes(strides, "the strides"),
                offset,
            )
        except CheckpointError as error:
            raise CheckpointError(f"the tensor at {path or 'the top'}: {error}") from None
        if kind == "parameter":
            return Parameter(t, bool(wants))
        return t.requires_grad_() if wants else t

    def storage(self, number: Any, path: str) -> np.ndarray:
        if type(number) is not int or not 0 <= number < len(self.lengths):
            raise CheckpointError(f"the tensor at {path} lies in a storage {number!r} that is none")
        if number not in self.storages:
            data = self.archive.bytes_of(f"data/{number}", self.mapped)
            if data.size != self.lengths[number]:
                raise CheckpointError(
                    f"{data.size} of the {self.lengths[number]} bytes of the tensor at {path} exist"
                )
            self.storages[number] = data
        return self.storages[number]


def sizes_of_storages(lengths: Any) -> list[int]:
    if not isinstance(lengths, list) or not all([type(n) is int and n >= 0 for n in lengths]):
        raise CheckpointError("the index lists no storages")
    return lengths


MADE_OF_ITEMS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "size": Size,
    "set": set,
    "frozenset": frozenset,
}
MADE_OF_CONTENT: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "dtype": dtype_called,
    "device": lambda name: Device(name),
    "slice": lambda parts: slice(*parts),
    "range": lambda parts: range(*parts),
    "path": PurePath,
}
