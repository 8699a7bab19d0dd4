"""Freed arrays stay with the process, so that large results do not page-fault anew each time."""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from rushlight.config import config

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_ON_HEAP = 32 << 20  # glibc accepts no higher limit
LARGE = 4 << 20  # bytes of an array for which NumPy asks for large pages
PIECE = LARGEST_ON_HEAP - (1 << 16)  # of the heap at a time


def keep_freed_memory() -> bool:
    """Tells glibc to serve arrays up to 32 MiB from its heap and not to shrink it.

    By default glibc maps each array over 128 KiB afresh and unmaps it when freed: the kernel then
    clears every page again. ``RUSHLIGHT_KEEP_MEMORY=0`` leaves the allocator as it is.
    """
    if not config.keep_memory or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST_ON_HEAP)) and bool(
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    )


def make_room(nbytes: int) -> None:
    """Prepares the heap for arrays that are about to be made, of so many bytes together.

    NumPy asks Linux for large pages under large arrays alone. Small ones that come after one that
    was freed lie where it was: then one page fault brings 2 MiB instead of 4 KiB.
    """
    if nbytes >= LARGE:
        starts = range(0, nbytes, PIECE)
        pieces = [np.empty(min(PIECE, nbytes - start), np.uint8) for start in starts]
        del pieces
