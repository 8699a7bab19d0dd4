"""Data that an ONNX file leaves to other files beside it, and to none elsewhere."""

from __future__ import annotations

import os
import stat
from typing import Any

import numpy as np

from rushlight.onnx.errors import OnnxError

MOST_DIGITS = 18  # of an offset or a length


class Folder:
    """The folder of a model: the only place that its external data are read from.

    Args:
        path: the folder, or None if the model was read from memory and has no place.
    """

    def __init__(self, path: str | None) -> None:
        self.path = None if path is None else os.path.realpath(path)
        self.files: dict[str, np.ndarray] = {}

    def __call__(self, proto: Any, length: int) -> np.ndarray:
        """The bytes of a tensor, ``length`` of them, mapped from the file that it names."""
        entries = {entry.key: entry.value for entry in proto.external_data}
        data = self.file(entries.get("location", ""))
        offset = number("offset", entries.get("offset", "0"))
        stated = number("length", entries.get("length", str(length)))
        if stated != length:
            raise OnnxError(f"its length is {stated} bytes where its shape needs {length}")
        if offset + length > data.size:
            raise OnnxError(
                f"bytes {offset} to {offset + length} of {entries['location']!r} are needed, "
                f"which has {data.size}"
            )
        return data[offset : offset + length]

    def file(self, location: str) -> np.ndarray:
        """The bytes of one file, which lies in the folder whatever links there are."""
        if self.path is None:
            raise OnnxError("external data need the path of the model, to be looked for beside it")
        if location in self.files:
            return self.files[location]
        parts = location.replace("\\", "/").split("/")
        if not location or "\0" in location or os.path.isabs(location) or ":" in parts[0]:
            raise OnnxError(f"external data at {location!r}: the path must be a relative one")
        if ".." in parts:
            raise OnnxError(f"external data at {location!r} would be outside the model's folder")
        path = os.path.realpath(os.path.join(self.path, *parts))
        if os.path.commonpath([self.path, path]) != self.path:
            raise OnnxError(f"external data at {location!r} are a link out of the model's folder")
        try:
            kind = os.stat(path)
        except OSError as error:
            raise OnnxError(f"external data at {location!r}: {error.strerror}") from None
        if not stat.S_ISREG(kind.st_mode):
            raise OnnxError(f"external data at {location!r} are no regular file")
        empty = np.empty(0, np.uint8)
        self.files[location] = np.memmap(path, np.uint8, "r") if kind.st_size else empty
        return self.files[location]


def number(key: str, text: str) -> int:
    """An offset or a length: digits and nothing else."""
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise OnnxError(f"external data with {key} {text!r}: a number of bytes is needed")
    return int(text)
