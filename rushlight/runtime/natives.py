"""Native functions that all programs share: they read all sizes from tables."""

from __future__ import annotations

from rushlight.codegen import chains, nest, recurrent, timeline
from rushlight.codegen.llvm import module
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.shared import text_of
from rushlight.runtime.cache import lazy_code
from rushlight.runtime.jit import CODEGEN, PLAIN, Library, load, target

# Functions that leave all work to others.
CALLERS = (chains.NAME, nest.NAME, recurrent.NAME, timeline.NAME)


def registers() -> Registers:
    """What this machine has for tiles."""
    machine = target()
    return Registers(
        machine.vector_bytes,
        machine.vector_registers,
        machine.has_fma,
        machine.has_f16c,
        flush=machine.architecture == "x86_64",
    )


def library(name: str, available: Registers) -> Library:
    """The compiled function of that name, alone in its library."""
    codegen = PLAIN if name in CALLERS else CODEGEN
    code = lazy_code(lambda: module([text_of(name, available)]), name, available, codegen=codegen)
    return load([code])


def address(name: str) -> int:
    """Where a shared function is; it is compiled on first use.

    >>> from rushlight.runtime import natives
    >>> natives.address("fill_u8") == natives.address("fill_u8")
    True
    """
    key = name, registers()
    found = _known.get(key)
    if found is None:
        # Of two that threads make at once, the first is kept, and nobody has seen the other one.
        found = _known.setdefault(key, library(*key))
    return found.address(name)


_known: dict[tuple[str, Registers], Library] = {}
