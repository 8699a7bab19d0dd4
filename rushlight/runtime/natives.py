"""Native functions that all programs share: they read all sizes from tables."""

from __future__ import annotations

import functools
import threading

from rushlight.codegen.llvm import module
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.shared import text_of
from rushlight.runtime.cache import lazy_code
from rushlight.runtime.jit import Library, load, target


def registers() -> Registers:
    """What this machine has for tiles."""
    machine = target()
    return Registers(
        machine.vector_bytes, machine.vector_registers, machine.has_fma, machine.has_f16c
    )


@functools.cache
def library(name: str, available: Registers) -> Library:
    """The compiled function of that name, alone in its library."""
    return load([lazy_code(lambda: module([text_of(name, available)]), name, available)])


def address(name: str) -> int:
    """Where a shared function is; it is compiled on first use.

    >>> from rushlight.runtime import natives
    >>> natives.address("fill_u8") == natives.address("fill_u8")
    True
    """
    with _lock:  # of two libraries made at once, one would be freed while its code is in use
        return library(name, registers()).address(name)


_lock = threading.Lock()
