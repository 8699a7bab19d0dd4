"""Bytes that outlive the process: a folder of entries, none trusted without a check."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import struct
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from rushlight.config import config

MAGIC, VERSION = b"rushcode", 1
HEADER = struct.Struct("<8sIQ32s32s")  # magic, version, length of the payload, key, checksum
NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{12}\.saving)?")  # of an entry, or one being written
ABANDONED = 3600.0  # seconds after which a file that is being written is nobody's


def digest(*parts: object) -> str:
    """The name of an entry for these parts.

    >>> from rushlight.runtime.store import digest
    >>> digest("program", 1) == digest("program", 1) != digest("program1")
    True
    """
    found = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        found.update(struct.pack("<?Q", isinstance(part, bytes), len(data)))
        found.update(data)
    return found.hexdigest()


def folder() -> str:
    """Where entries are: ``config.cache_dir``, or ``rushlight`` in the user's cache folder.

    A user without a home has none, which is "".
    """
    if config.cache_dir:
        return os.path.abspath(os.path.expanduser(config.cache_dir))
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "rushlight") if os.path.isabs(base) else ""


class Entry(NamedTuple):
    """One file of the folder."""

    used: float
    size: int
    path: str


class Cache:
    """Bytes by key, in files of one folder that many processes may share.

    A file that is damaged, not ours or open to others counts as missing. Where nothing can be
    written (no home, a full disk), nothing is kept, and nobody is told.

    Args:
        directory: the folder; made, for its owner alone, when the first entry is written.
        limit: bytes beyond which the entries that were not used for the longest time are dropped;
            None means ``config.cache_limit``.

    >>> import tempfile
    >>> from rushlight.runtime.store import Cache, digest
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache = Cache(directory)
    ...     cache.put(digest("greeting"), b"hello")
    ...     cache.get(digest("greeting"))
    b'hello'
    """

    __slots__ = ("directory", "limit")

    def __init__(self, directory: str, limit: int | None = None) -> None:
        self.directory = directory
        self.limit = config.cache_limit if limit is None else limit

    def get(self, key: str) -> bytes | None:
        """The entry's bytes; None if there is no good one. A bad one of ours is removed."""
        path = os.path.join(self.directory, key)
        try:
            if not self.limit or not private(os.stat(self.directory), stat.S_ISDIR, 0o022):
                return None
            data = read(path, HEADER.size + self.limit)
        except OSError as error:
            if error.errno == errno.ELOOP:  # a symbolic link
                remove_own(path)
            return None
        payload = decode(key, data)
        if payload is None:
            remove_own(path)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now: what is not used for long is dropped first
        return payload

    def put(self, key: str, data: bytes) -> None:
        """Keeps the bytes, in full or not at all."""
        path = os.path.join(self.directory, key)
        beside = f"{path}.{secrets.token_hex(6)}.saving"
        if HEADER.size + len(data) > self.limit:
            return
        with contextlib.suppress(OSError):
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            if not private(os.stat(self.directory), stat.S_ISDIR, 0o022):
                return
            try:
                write(beside, encode(key, data))
                os.replace(beside, path)
            except OSError:
                os.unlink(beside)
                return
            # To look at all files takes time: large entries do, and every sixteenth small one.
            if len(data) > self.limit // 64 or key.startswith("0"):
                self.prune()

    def prune(self) -> None:
        """Drops the entries used longest ago until the rest is within the limit."""
        entries = []
        with os.scandir(self.directory) as files:
            for file in files:
                name = NAME.fullmatch(file.name)
                if name is None or not file.is_file(follow_symlinks=False):
                    continue  # the folder may hold what is not ours to drop
                with contextlib.suppress(OSError):
                    found = file.stat(follow_symlinks=False)
                    if name[1] is None:
                        entries.append(Entry(found.st_mtime, found.st_size, file.path))
                    elif found.st_mtime < time.time() - ABANDONED:
                        os.unlink(file.path)
        excess = sum(entry.size for entry in entries) - self.limit
        if excess <= 0:
            return
        # A little more than needed, so that the next entries need no pruning.
        excess += self.limit // 8
        for entry in sorted(entries):
            with contextlib.suppress(OSError):
                os.unlink(entry.path)
            excess -= entry.size
            if excess <= 0:
                break


def encode(key: str, payload: bytes) -> bytes:
    """The contents of an entry's file."""
    return header(key, payload) + payload


def header(key: str, payload: bytes) -> bytes:
    checksum = hashlib.sha256(payload).digest()
    return HEADER.pack(MAGIC, VERSION, len(payload), bytes.fromhex(key), checksum)


def decode(key: str, data: bytes) -> bytes | None:
    """The payload, if the file is whole, of this version and of this key."""
    payload = data[HEADER.size :]
    return payload if data[: HEADER.size] == header(key, payload) else None


def private(found: os.stat_result, kind: Callable[[int], bool], forbidden: int) -> bool:
    """Whether a file is of that kind, ours, and has none of the forbidden permissions."""
    if sys.platform == "win32":
        return kind(found.st_mode)
    return kind(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & forbidden


def read(path: str, most: int) -> bytes:
    """The bytes of a file that is ours alone and not too long; of any other, none."""
    # Neither a link is followed nor a pipe waited for.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(descriptor)
        if not private(found, stat.S_ISREG, 0o077) or found.st_size > most:
            return b""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def write(path: str, data: bytes) -> None:
    """A new file for its owner alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)


def remove_own(path: str) -> None:
    """Removes a file, or a link, that belongs to us."""
    with contextlib.suppress(OSError):
        if sys.platform == "win32" or os.lstat(path).st_uid == os.geteuid():
            os.unlink(path)
