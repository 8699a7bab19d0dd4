"""The machine that code is made for, as LLVM sees it.

LLVM takes longer to load than most programs take to read from disk. So its answers are kept there,
for the very processor, boot and LLVM that they are about: anything else asks LLVM again.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import mmap
import os
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rushlight.config import config
from rushlight.runtime.objects import libc
from rushlight.runtime.store import Cache, digest, folder
from rushlight.version import RELEASE

WIDTHS = (16, 32, 64)  # bytes of a vector register
VARYING = (b"cpu MHz", b"bogomips", b"BogoMIPS")  # of the description of a processor


@functools.cache
def llvm() -> Any:
    """llvmlite's binding to LLVM, ready for this machine; loaded on the first compilation."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def put_aside() -> None:
    """Gives back the memory that LLVM's own code takes, some 70 MB, until it runs again.

    These are pages of a file that nobody has written to: Linux finds them again when needed.
    """
    if sys.platform != "linux" or "llvmlite" not in sys.modules:
        return
    page = mmap.PAGESIZE
    with (
        contextlib.suppress(OSError),
        open("/proc/self/maps") as maps,
        open("/proc/self/pagemap", "rb", buffering=0) as states,
    ):
        for addresses, rights, *_ in [line.split() for line in maps if "libllvmlite" in line]:
            begin, end = [int(address, 16) for address in addresses.split("-")]
            states.seek(begin // page * 8)
            words = np.frombuffer(states.read((end - begin) // page * 8), np.uint64)
            if "w" not in rights and not any_written(words):
                libc().madvise(begin, end - begin, mmap.MADV_DONTNEED)


def any_written(words: np.ndarray) -> bool:
    """Whether a page is not that of its file any more, by what Linux says about each of them."""
    return bool(np.any((words >> 62 != 0) & (words >> 61 & 1 == 0)))


@dataclass(frozen=True, slots=True)
class Target:
    """The processor that code is made for.

    ``vector_bytes`` is the width of the registers that generated code uses: 16 (SSE2, NEON), 32
    (AVX) or 64 (AVX-512), the widest there is unless ``config.vector_bytes`` says otherwise.

    >>> from rushlight.runtime.host import target
    >>> target().vector_bytes in (16, 32, 64)
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
    _, triple, cpu, features = host()
    widest = 64 if "+avx512vl" in features else 32 if "+avx" in features else 16
    return Target(triple, cpu, features, vector_bytes or widest)


def llvm_version() -> str:
    """The versions that decide what code is made."""
    return host().versions


class Host(NamedTuple):
    """What LLVM says about itself and this machine."""

    versions: str
    triple: str
    cpu: str
    features: tuple[str, ...]


@functools.cache
def host() -> Host:
    """LLVM's answers, of now or of earlier in this boot."""
    about = circumstances()
    if about is None:
        return ask()
    cache, key = Cache(folder()), digest("host", RELEASE, *about)
    kept = cache.get(key)
    if kept is not None:
        versions, triple, cpu, features = json.loads(kept)
        return Host(versions, triple, cpu, tuple(features))
    found = ask()
    cache.put(key, json.dumps(found).encode())
    return found


def ask() -> Host:
    """LLVM's answers."""
    import llvmlite

    binding = llvm()
    versions = f"llvmlite {llvmlite.__version__}, LLVM {binding.llvm_version_info}"
    available = sorted(binding.get_host_cpu_features().items())
    features = tuple([f"{'+' if on else '-'}{name}" for name, on in available])
    return Host(versions, binding.get_process_triple(), binding.get_host_cpu_name(), features)


def circumstances() -> list[Any] | None:
    """All that the answers depend on, read without LLVM; None where that cannot be known."""
    package = importlib.util.find_spec("llvmlite")
    if sys.platform != "linux" or package is None or package.origin is None:
        return None
    root = os.path.dirname(package.origin)
    files = [
        os.path.join(root, *name) for name in (("_version.py",), ("binding", "libllvmlite.so"))
    ]
    try:
        states = [os.stat(path) for path in files]
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            processor = file.read(1 << 14).partition(b"\n\n")[0]
        with open("/proc/sys/kernel/random/boot_id", "rb", buffering=0) as file:
            boot = file.read(100)
    except OSError:
        return None
    lines = [line for line in processor.splitlines() if not line.startswith(VARYING)]
    versions = [(path, s.st_size, s.st_mtime_ns) for path, s in zip(files, states, strict=True)]
    return [versions, boot, b"\n".join(lines), os.uname().machine, sys.maxsize]
