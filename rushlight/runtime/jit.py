"""LLVM assembly to object code to functions in memory."""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from rushlight.runtime import objects
from rushlight.runtime.host import Target, llvm, target

__all__ = ["Library", "Target", "compile_ir", "llvm", "load", "target"]

CODEGEN = 2  # level of LLVM's code generator


@functools.cache
def _machine(codegen: int) -> Any:
    """LLVM's code generator for this machine at one of its levels."""
    host = target()
    return (
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


def compile_ir(text: str, optimize: int = 0, codegen: int = CODEGEN) -> bytes:
    """The object code of a module in LLVM assembly.

    Args:
        text: the module.
        optimize: the level of LLVM's optimisation pipeline; 0 runs none of it.
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
    machine = _machine(codegen)
    if optimize:
        tuning = binding.create_pipeline_tuning_options(speed_level=optimize)
        builder = binding.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


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
        _machine(CODEGEN), use_jit_link=sys.platform != "win32", suppress_errors=True
    )
