"""NumPy's ``.npy`` and ``.npz`` files, of plain numbers alone."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from rushlight import dtypes
from rushlight.io.archives import Archive
from rushlight.io.errors import CheckpointError
from rushlight.tensor import Tensor, wrap

MAGIC = b"\x93NUMPY"


def write(tensors: Any, file: BinaryIO) -> None:
    """Writes named tensors (bfloat16, which NumPy lacks, is refused)."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"an .npz file holds a dictionary, not {type(tensors).__name__}")
    arrays = {}
    for name, t in tensors.items():
        array = t._array if isinstance(t, Tensor) else np.asarray(t)
        if not isinstance(name, str) or array.dtype.hasobject or array.dtype.kind == "V":
            raise TypeError(
                f"an .npz file cannot hold {name!r}, a {type(t).__name__} {array.dtype}"
            )
        arrays[name] = array
    np.savez(file, allow_pickle=False, **arrays)


def read(data: Any) -> Tensor:
    """The tensor in the bytes of an ``.npy`` file."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read_header is None:
        raise CheckpointError(f"its .npy version is {version}")
    shape, fortran, kind = read_header(file)
    if kind.hasobject:
        raise CheckpointError("this file contains Python objects and was not loaded")
    count, rest = int(np.prod(shape, dtype=object)), len(data) - file.tell()
    if count * kind.itemsize != rest:
        raise CheckpointError(f"shape {list(shape)} of {kind} does not fit the {rest} bytes there")
    try:
        own = dtypes.from_numpy(kind.newbyteorder("="))
    except (KeyError, TypeError):
        raise CheckpointError(f"tensors have no dtype like its {kind}") from None
    array = np.frombuffer(data, kind, count, file.tell()).astype(own.numpy)
    return wrap(array.reshape(shape, order="F" if fortran else "C"))


def read_all(archive: Archive) -> dict[str, Tensor]:
    """The named tensors of an ``.npz`` file."""
    found = {}
    for name in archive.members:
        try:
            found[name.removesuffix(".npy")] = read(archive.read(name))
        except CheckpointError as error:
            raise CheckpointError(f"the array {name!r}: {error}") from None
    return found
