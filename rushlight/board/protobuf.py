"""Protocol-buffer messages, as far as writing them goes: fields one after the other.

A message is the bytes of its fields joined; a field is its number, its kind of content, and that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable


def varint(value: int) -> bytes:
    """An integer in groups of seven bits; a negative one takes ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value) if value else b""


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def single(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


def data(number: int, content: bytes) -> bytes:
    """Bytes, or another message."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def text(number: int, content: str) -> bytes:
    return data(number, content.encode()) if content else b""


def doubles(number: int, values: Iterable[float]) -> bytes:
    packed = list(values)
    return data(number, struct.pack(f"<{len(packed)}d", *packed)) if packed else b""


def entry(number: int, key: str, value: bytes) -> bytes:
    """One entry of a map from text to messages."""
    return data(number, data(1, key.encode()) + data(2, value))
