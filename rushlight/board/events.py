"""Event files: records of a length, its checksum, an event and its checksum."""

from __future__ import annotations

import functools
import os
import socket
import struct
import threading
import time

import numpy as np

from rushlight.board import protobuf as pb

POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
LANE = 256  # bytes that one lane of the checksum takes


def checksum_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


TABLE = checksum_table()
PYTHON_TABLE = TABLE.tolist()


@functools.cache
def shifts() -> list[list[int]]:
    """For each byte of a checksum, what it becomes once ``LANE`` zero bytes have followed."""
    found = []
    for place in range(4):
        c = np.arange(256, dtype=np.uint32) << np.uint32(8 * place)
        for _ in range(LANE):
            c = TABLE[c & 255] ^ (c >> np.uint32(8))
        found.append(c.tolist())
    return found


def checksum(content: bytes) -> int:
    """CRC-32C. Long content goes in lanes side by side, joined by shifting one over the next."""
    c = 0xFFFFFFFF
    lanes = len(content) // LANE
    if lanes > 4:
        rows = np.frombuffer(content, np.uint8, lanes * LANE).reshape(lanes, LANE)
        sums = np.zeros(lanes, np.uint32)
        for column in range(LANE):
            sums = TABLE[(sums ^ rows[:, column]) & 255] ^ (sums >> np.uint32(8))
        s0, s1, s2, s3 = shifts()
        for lane in sums.tolist():
            c = s0[c & 255] ^ s1[c >> 8 & 255] ^ s2[c >> 16 & 255] ^ s3[c >> 24] ^ lane
        content = content[lanes * LANE :]
    table = PYTHON_TABLE
    for byte in content:
        c = table[(c ^ byte) & 255] ^ (c >> 8)
    return c ^ 0xFFFFFFFF


def masked_checksum(content: bytes) -> bytes:
    """A checksum that may itself be part of what is summed."""
    c = checksum(content)
    return struct.pack("<I", ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + masked_checksum(length) + content + masked_checksum(content)


class EventFile:
    """An event file that is being written: complete records alone, flushed now and then."""

    _lock = threading.Lock()
    _count = 0

    def __init__(self, folder: str, suffix: str = "", flush_secs: float = 120) -> None:
        os.makedirs(folder, exist_ok=True)
        with EventFile._lock:
            number, EventFile._count = EventFile._count, EventFile._count + 1
        host = socket.gethostname()
        name = f"events.out.tfevents.{int(time.time()):010d}.{host}.{os.getpid()}.{number}{suffix}"
        self.path = os.path.join(folder, name)
        self.file = open(self.path, "ab")  # noqa: SIM115 - closed by close()
        self.flush_secs, self.flushed = flush_secs, time.monotonic()
        self.writing = threading.Lock()
        self.add(pb.text(3, "brain.Event:2"))
        self.flush()

    def add(self, what: bytes, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an event: ``what`` is its field."""
        event = pb.double(1, time.time() if walltime is None else walltime)
        event += pb.integer(2, int(step or 0)) + what
        with self.writing:
            if self.file.closed:
                raise ValueError(f"the event file {self.path} is closed")
            self.file.write(record(event))
        if time.monotonic() - self.flushed > self.flush_secs:
            self.flush()

    def flush(self) -> None:
        with self.writing:
            if not self.file.closed:
                self.file.flush()
        self.flushed = time.monotonic()

    def close(self) -> None:
        self.flush()
        self.file.close()
