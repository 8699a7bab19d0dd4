"""LLVM assembly to object code to functions in memory: the one place that knows llvmlite."""

from __future__ import annotations

import functools
import itertools
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.config import config

WIDTHS = (16, 32, 64)  # bytes of a vector register
CODEGEN = 2  # level of LLVM's code generator


@functools.cache
def llvm() -> Any:
    """llvmlite's binding to LLVM, ready for this machine; loaded on the first compilation."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def llvm_version() -> str:
    """The versions that decide what code is made."""
    import llvmlite

    return f"llvmlite {llvmlite.__version__}, LLVM {llvm().llvm_version_info}"


@dataclass(frozen=True, slots=True)
class Target:
    """The processor that code is made for.

    ``vector_bytes`` is the width that generated loops use: 16 (SSE2, NEON) or 32 (AVX), and 64
    only by ``config.vector_bytes``, since wide registers slow many processors down.

    >>> from rushlight.runtime.jit import target
    >>> target().vector_bytes in (16, 32)
    True
    """

    triple: str
    cpu: str
    features: tuple[str, ...]  # as LLVM spells them: "+avx2", "-avx512f"
    vector_bytes: int

    @property
    def architecture(self) -> str:
        """``"x86_64"``, ``"aarch64"`` …"""
        name = self.triple.partition("-")[0]
        return {"arm64": "aarch64", "amd64": "x86_64"}.get(name, name)

    @property
    def has_fma(self) -> bool:
        """Whether a multiplication and an addition are one instruction with one rounding."""
        return self.architecture == "aarch64" or "+fma" in self.features

    @property
    def has_f16c(self) -> bool:
        """Whether float16 and float32 are converted by an instruction."""
        return self.architecture == "aarch64" or "+f16c" in self.features

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.architecture == "aarch64" or "+avx512vl" in self.features else 16


def target() -> Target:
    """The processor of this machine, with the vector width that ``config`` asks for."""
    return _target(config.vector_bytes)


@functools.cache
def _target(vector_bytes: int) -> Target:
    if vector_bytes not in (0, *WIDTHS):
        raise ValueError(f"config.vector_bytes must be 0, 16, 32 or 64, but got {vector_bytes}")
    binding = llvm()
    available = binding.get_host_cpu_features()
    return Target(
        triple=binding.get_process_triple(),
        cpu=binding.get_host_cpu_name(),
        features=tuple(f"{'+' if on else '-'}{name}" for name, on in sorted(available.items())),
        vector_bytes=vector_bytes or (32 if available.get("avx") else 16),
    )


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


class Library:
    """Object code in memory, there as long as this object is.

    Functions are linked when their address is first asked for.
    """

    __slots__ = ("_addresses", "_holds", "_jit", "_name")

    def __init__(self, jit: Any, name: str, holds: Any) -> None:
        self._jit, self._name = jit, name
        # Freeing any of these unloads the code: they live and die together.
        self._holds = [holds]
        self._addresses: dict[str, int] = {}

    def address(self, name: str) -> int:
        """Where the function or global of that name is."""
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


def load(objects: Iterable[bytes], symbols: Mapping[str, int] | None = None) -> Library:
    """Object code, made callable.

    It sees the symbols of this process (``memcpy``, ``expf`` …), of each other, and the given ones.

    Args:
        objects: results of :func:`compile_ir`.
        symbols: further names that the code may call, and where they are.

    >>> import ctypes
    >>> from rushlight.runtime.jit import compile_ir, load
    >>> library = load([compile_ir("define i64 @seven() { ret i64 7 }")])
    >>> ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("seven"))()
    7
    """
    builder = llvm().JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    for name, address in (symbols or {}).items():
        builder.import_symbol(name, address)
    jit, name = _linker(), f"library{next(_numbers)}"
    try:
        holds = builder.add_current_process().link(jit, name)
    except RuntimeError as error:
        raise RuntimeError(f"LLVM cannot load the object code: {error}") from None
    return Library(jit, name, holds)


_numbers = itertools.count()


@functools.cache
def _linker() -> Any:
    return llvm().create_lljit_compiler(
        _machine(CODEGEN), use_jit_link=sys.platform != "win32", suppress_errors=True
    )
