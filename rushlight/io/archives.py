"""Zip archives read with suspicion: what is named, where it lies, how large it claims to be."""

from __future__ import annotations

import io
import mmap
import struct
import zipfile
import zlib
from typing import Any

import numpy as np

from rushlight.io.errors import CheckpointError

LOCAL_HEADER = struct.Struct("<4s5H3L2H")
EXPANSION, HARMLESS = 200, 1 << 28  # a member that grows more, and beyond so many bytes, is a bomb


class Archive:
    """A zip archive in a buffer, whose members are plain names that do not overlap."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self.data = data
        try:
            self.zip = zipfile.ZipFile(
                io.BytesIO(data) if isinstance(data, bytes) else Window(data)
            )
        except (zipfile.BadZipFile, struct.error, OSError) as error:
            raise CheckpointError(f"the archive is damaged or cut off ({error})") from None
        self.members: dict[str, zipfile.ZipInfo] = {}
        end = 0
        for info in sorted(self.zip.infolist(), key=lambda info: info.header_offset):
            check_name(info)
            if info.filename in self.members:
                raise CheckpointError(f"two members are called {info.filename!r}")
            if info.header_offset < end:
                raise CheckpointError(f"the member {info.filename!r} overlaps another")
            if info.file_size > HARMLESS and info.file_size > EXPANSION * info.compress_size:
                raise CheckpointError(
                    f"the member {info.filename!r} claims to grow from {info.compress_size} bytes "
                    f"to {info.file_size}: not unpacked"
                )
            end = info.header_offset + LOCAL_HEADER.size + info.compress_size
            self.members[info.filename] = info
        if end > len(data):
            raise CheckpointError("the file ends early")

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def read(self, name: str) -> bytes:
        """The bytes of a member, checked against its checksum."""
        try:
            return self.zip.read(self.members[name])
        except KeyError:
            raise CheckpointError(f"the member {name!r} is missing") from None
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError) as error:
            raise CheckpointError(f"the member {name!r} is damaged ({error})") from None

    def bytes_of(self, name: str, mapped: bool = False) -> np.ndarray:
        """The bytes of a member as an array: a checked copy, or mapped into memory as they are."""
        info = self.members.get(name)
        if info is None:
            raise CheckpointError(f"the member {name!r} is missing")
        if info.compress_type != zipfile.ZIP_STORED:
            if mapped:
                raise CheckpointError(f"the member {name!r} is compressed and cannot be mapped")
            return np.frombuffer(bytearray(self.read(name)), np.uint8)
        try:
            header = LOCAL_HEADER.unpack_from(self.data, info.header_offset)
        except struct.error:
            raise CheckpointError(f"the member {name!r} is cut off") from None
        start = info.header_offset + LOCAL_HEADER.size + header[9] + header[10]
        if header[0] != b"PK\3\4" or start + info.file_size > len(self.data):
            raise CheckpointError(f"the member {name!r} is cut off")
        stored = np.frombuffer(self.data, np.uint8, info.file_size, start)
        if mapped:
            return stored
        if zlib.crc32(stored.data) != info.CRC:
            raise CheckpointError(f"the member {name!r} is damaged: its checksum differs")
        return stored.copy()


def check_name(info: zipfile.ZipInfo) -> None:
    name = info.filename
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        raise CheckpointError(f"the member {name!r} points outside the archive")
    if (info.external_attr >> 16) & 0o170000 == 0o120000:
        raise CheckpointError(f"the member {name!r} is a link")


class Window(io.RawIOBase):
    """A mapped file as a stream, for ``zipfile``."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = (0, self.position, len(self.data))[whence]
        if start + offset < 0:
            raise OSError("a place before the beginning")
        self.position = start + offset
        return self.position

    def tell(self) -> int:
        return self.position

    def read(self, size: int | None = -1) -> bytes:
        end = len(self.data) if size is None or size < 0 else self.position + size
        found = self.data[self.position : end]
        self.position += len(found)
        return found


def aligned(name: str, position: int) -> zipfile.ZipInfo:
    """An uncompressed member at ``position`` whose bytes begin at a multiple of 64."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    start = position + LOCAL_HEADER.size + len(name.encode()) + 4
    padding = -start % 64
    info.extra = struct.pack("<2H", 0x4C52, padding) + bytes(padding)
    return info


def store(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Adds a member, whose bytes can later be mapped into memory."""
    assert archive.fp is not None
    info = aligned(name, archive.fp.tell())
    large = len(data) >= zipfile.ZIP64_LIMIT
    with archive.open(info, "w", force_zip64=large) as member:
        member.write(data)
