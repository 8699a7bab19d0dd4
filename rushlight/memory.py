"""Freed arrays stay with the process, so that large results do not page-fault anew each time."""

from __future__ import annotations

import ctypes
import sys

from rushlight.config import config

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_ON_HEAP = 32 << 20  # glibc accepts no higher limit


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
