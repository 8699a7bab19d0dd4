"""Files that are there in full or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of ``path`` once all of it is on the disk.

    Whatever happens before that, the file that was there stays as it was.
    """
    target = os.path.realpath(path)
    mode = mode_of(target)
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name}.{secrets.token_hex(6)}.saving")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(beside, flags, 0o666)
    except FileNotFoundError:
        raise FileNotFoundError(
            errno.ENOENT, "the folder to save into does not exist", folder
        ) from None
    try:
        with os.fdopen(descriptor, "w+b") as file:
            if mode is not None:
                os.chmod(beside, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise
    remember_folder(folder)


def mode_of(target: str) -> int | None:
    """The permissions of a file to be replaced; None if there is none yet."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "cannot save over a folder", target)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "cannot save over what is not a regular file", target)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "the file is not writable", target)
    return stat.S_IMODE(mode)


def remember_folder(folder: str) -> None:
    """Waits until the folder's entry is on the disk, where the system offers that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
