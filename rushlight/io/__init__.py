"""Checkpoints: ``save`` and ``load``, without code in the file.

>>> import tempfile, os
>>> path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
>>> rl.save({"weight": rl.ones(2), "epoch": 3}, path)
>>> rl.load(path)
{'weight': tensor([1., 1.]), 'epoch': 3}
"""

from __future__ import annotations

import io
import mmap as memory_map
import os
import stat
from collections.abc import Mapping
from typing import Any

from rushlight.device import device as Device
from rushlight.device import require
from rushlight.errors import kind
from rushlight.io import checkpoint, numpy_files, safetensors, torch_files
from rushlight.io.archives import Archive
from rushlight.io.atomic import replacing
from rushlight.io.errors import CheckpointError, reading
from rushlight.tensor import Tensor

__all__ = [
    "CheckpointError",
    "load",
    "load_safetensors",
    "save",
    "save_safetensors",
]


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Saves tensors, numbers, text and containers of them, in full or not at all.

    Args:
        obj: what to save, such as ``model.state_dict()`` or a dictionary of several.
        f: a path, or a file opened for writing. A path that ends in ``.safetensors`` or ``.npz``
            is written in that format, any other in Rushlight's own.
        pickle_module, pickle_protocol: accepted for PyTorch programs; nothing is pickled.

    >>> buffer = io.BytesIO()
    >>> rl.save([1, rl.tensor(2.5)], buffer)
    """
    if not isinstance(f, (str, os.PathLike)):
        if not callable(getattr(f, "write", None)):
            raise TypeError(f"save(): expected a path or a file to write to, got {kind(f)}")
        memory = io.BytesIO()
        checkpoint.write(obj, memory)
        f.write(memory.getvalue())
        return
    path = os.fspath(f)
    write = {".safetensors": safetensors.write, ".npz": numpy_files.write}.get(
        os.path.splitext(path)[1].lower(), checkpoint.write
    )
    with replacing(path) as file:
        write(obj, file)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """What a checkpoint holds: Rushlight's own, safetensors, ``.npy``/``.npz``, or PyTorch's.

    Nothing in the file is executed, whatever ``weights_only`` says: a file that contains code is
    refused with a :class:`CheckpointError`.

    Args:
        f: a path, or a file opened for reading.
        map_location: where the tensors go; there is the CPU.
        mmap: leave the elements in the file and map them into memory, unchecked.

    >>> buffer = io.BytesIO()
    >>> rl.save({"step": 7}, buffer)
    >>> _ = buffer.seek(0)
    >>> rl.load(buffer)
    {'step': 7}
    """
    unknown = set(pickle_load_args) - {"encoding", "errors", "fix_imports"}
    if unknown:
        raise TypeError(f"load() got an unexpected keyword argument {min(unknown)!r}")
    if isinstance(map_location, (str, Device)):
        require(map_location)
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with reading(str(path)):
            return parsed(mapping(path, bool(mmap)), bool(mmap))
    if not callable(getattr(f, "read", None)):
        raise TypeError(f"load(): expected a path or a file to read from, got {kind(f)}")
    if mmap:
        raise ValueError("load(): mmap=True needs the path of a file")
    with reading(getattr(f, "name", "the file") if isinstance(f, io.IOBase) else "the file"):
        data = f.read()
        if not isinstance(data, bytes):
            raise CheckpointError("it is opened as text; open it with mode 'rb'")
        return parsed(data, False)


def mapping(path: str, keep: bool) -> Any:
    """The bytes of a file, mapped; private, so that writing to a tensor leaves the file alone."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "cannot load a folder", path)
    if not stat.S_ISREG(mode):
        raise OSError(22, "cannot load what is not a regular file", path)
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise CheckpointError("the file is empty")
        return memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_COPY)


def parsed(data: Any, mapped: bool) -> Any:
    start = bytes(data[:16])
    if not start:
        raise CheckpointError("the file is empty")
    if start.startswith(b"PK"):
        archive = Archive(data)
        if checkpoint.INDEX in archive:
            return checkpoint.read(archive, mapped)
        if any([name.endswith("/data.pkl") for name in archive.members]):
            return torch_files.read_zip(archive, mapped)
        if archive.members and all([name.endswith(".npy") for name in archive.members]):
            return numpy_files.read_all(archive)
        raise CheckpointError("the archive holds no checkpoint")
    if start.startswith(numpy_files.MAGIC):
        return numpy_files.read(bytes(data))
    if start[8:9] == b"{":
        return safetensors.read(data, mapped)
    if start[:1] == b"\x80":
        return torch_files.read_legacy(bytes(data))
    raise CheckpointError(f"it is no checkpoint: it begins with {start!r}")


def save_safetensors(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Saves named tensors in the safetensors format.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/w.safetensors"
    >>> rl.io.save_safetensors({"w": rl.zeros(2)}, path)
    >>> rl.io.load_safetensors(path)
    {'w': tensor([0., 0.])}
    """
    with replacing(os.fspath(filename)) as file:
        safetensors.write(tensors, file, metadata)


def load_safetensors(filename: str | os.PathLike[str], mmap: bool = False) -> dict[str, Tensor]:
    """The named tensors of a safetensors file."""
    with reading(str(filename)):
        return safetensors.read(mapping(os.fspath(filename), mmap), mmap)
