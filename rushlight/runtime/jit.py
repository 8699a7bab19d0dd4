"""LLVM assembly to object code to functions in memory."""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rushlight.runtime import objects
from rushlight.runtime.host import Target, llvm, target

__all__ = ["Library", "Target", "compile_ir", "llvm", "load", "target"]

CODEGEN = 2  # level of LLVM's code generator
PLAIN = 0  # its level for functions that only call others: compiled in a tenth of the time


class Machines(threading.local):
    """LLVM's code generators, by their levels; those of a thread are its own."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}

    def get(self, codegen: int) -> Any:
        """The code generator of a level for this machine."""
        found = self.known.get(codegen)
        if found is None:
            host = target()
            found = self.known[codegen] = (
                llvm()
                .Target.from_triple(host.triple)
                .create_target_machine(
                    cpu=host.cpu,
                    features=",".join(host.features),
                    opt=codegen,
                    reloc="pic",
                    codemodel="small",
                )
            )
        return found


machines = Machines()


@functools.cache
def emitter() -> Any:
    """LLVM's code generation as llvmlite calls it, but without the lock that is around that.

    It needs none: modules, contexts and code generators of ours are seen by one thread alone.
    """
    library = llvm().ffi.lib
    known = library.LLVMPY_TargetMachineEmitToMemory
    own = ctypes.CDLL(library._name).LLVMPY_TargetMachineEmitToMemory
    own.argtypes, own.restype = known.argtypes, known.restype
    return own


def emit(module: Any, codegen: int) -> bytes:
    """The object code of a module that LLVM has read."""
    ffi = llvm().ffi
    with ffi.OutputString() as error:
        buffer = emitter()(machines.get(codegen), module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        size = ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def compile_ir(text: str, codegen: int = CODEGEN) -> bytes:
    """The object code of a module in LLVM assembly; threads may compile side by side.

    Vectors are written down as such, so that LLVM's optimiser has nothing to do and does not run.

    Args:
        text: the module.
        codegen: the level of instruction selection and register allocation.

    >>> from rushlight.runtime.jit import compile_ir
    >>> len(compile_ir("define i64 @seven() { ret i64 7 }")) > 0
    True
    """
    binding = llvm()
    try:
        module = binding.parse_assembly(text, context=binding.create_context())
        module.verify()
    except RuntimeError as error:
        raise RuntimeError(f"LLVM refuses {_contents(text)}: {error}") from None
    return emit(module, codegen)


def _contents(text: str) -> str:
    """The functions that a module defines, for a message."""
    names = re.findall(r"^define\b[^@]*@([\w.$]+)", text, re.MULTILINE)
    return "a module without functions" if not names else f"the module of {', '.join(names)}"


class Library(Protocol):
    """Object code in memory, there as long as this object is."""

    def address(self, name: str) -> int:
        """Where the function of that name is."""


class Linked:
    """A library that LLVM has linked, function by function as their addresses are asked for."""

    __slots__ = ("_addresses", "_holds", "_jit", "_name")

    def __init__(self, jit: Any, name: str, holds: Any) -> None:
        self._jit, self._name = jit, name
        # Freeing any of these unloads the code: they live and die together.
        self._holds = [holds]
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        known = self._addresses.get(name)
        if known is not None:
            return known
        try:
            hold = self._jit.lookup(self._name, name)
        except RuntimeError as error:
            raise RuntimeError(
                f"cannot link {name}: it is not defined, or it needs a symbol that is not: {error}"
            ) from None
        self._holds.append(hold)
        self._addresses[name] = hold[name]
        return self._addresses[name]


def load(codes: Iterable[bytes], symbols: Mapping[str, int] | None = None) -> Library:
    """Object code, made callable.

    It sees the symbols of this process (``memcpy``, ``expf`` …), of each other, and the given ones.

    Args:
        codes: results of :func:`compile_ir`.
        symbols: further names that the code may call, and where they are.

    >>> import ctypes
    >>> from rushlight.runtime.jit import compile_ir, load
    >>> library = load([compile_ir("define i64 @seven() { ret i64 7 }")])
    >>> ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("seven"))()
    7
    """
    several, known = list(codes), symbols or {}
    if len(several) == 1:
        try:
            return objects.mapped(several[0], known)
        except objects.Unknown:
            pass
    return linked(several, known)


def linked(codes: Iterable[bytes], symbols: Mapping[str, int]) -> Linked:
    """Object code, loaded by LLVM."""
    builder = llvm().JITLibraryBuilder()
    for code in codes:
        builder.add_object_img(code)
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    jit, name = _linker(), f"library{next(_numbers)}"
    try:
        holds = builder.add_current_process().link(jit, name)
    except RuntimeError as error:
        raise RuntimeError(f"LLVM cannot load the object code: {error}") from None
    return Linked(jit, name, holds)


_numbers = itertools.count()


@functools.cache
def _linker() -> Any:
    return llvm().create_lljit_compiler(
        machines.get(CODEGEN), use_jit_link=sys.platform != "win32", suppress_errors=True
    )
