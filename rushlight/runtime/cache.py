"""Object code by what it is made of, kept on disk."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

from rushlight.runtime.host import llvm_version, target
from rushlight.runtime.jit import CODEGEN, compile_ir
from rushlight.runtime.store import Cache, digest, folder
from rushlight.version import RELEASE

__all__ = ["Cache", "fingerprint", "folder", "key_of", "lazy_code", "object_code"]

LAYERS = ("graph", "passes", "codegen", "runtime", "ops", "kernels")


def key_of(*parts: object) -> str:
    """The name of an entry: the given parts, and all that decides what code is made of them.

    >>> from rushlight.runtime.cache import key_of
    >>> key_of("program", 1) == key_of("program", 1) != key_of("program1")
    True
    """
    return digest(RELEASE, llvm_version(), target(), *parts)


@functools.cache
def fingerprint() -> str:
    """Changes whenever the source of the compiler does."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders, files = [os.path.join(root, layer) for layer in LAYERS], []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    state = entry.stat()
                    files.append((entry.path[len(root) :], state.st_size, state.st_mtime_ns))
    return digest(sorted(files))


def lazy_code(make: Callable[[], str], *parts: object, codegen: int = CODEGEN) -> bytes:
    """:func:`object_code` of a text that takes long to write, found by what it is made of."""
    cache, key = Cache(folder()), key_of("lazy code", fingerprint(), *parts)
    code = cache.get(key)
    if code is None:
        code = compile_ir(make(), codegen)
        cache.put(key, code)
    return code


def object_code(text: str, codegen: int = CODEGEN) -> bytes:
    """:func:`compile_ir`, or what it gave when it was last asked.

    >>> from rushlight.runtime.cache import object_code
    >>> module = "define i64 @seven() { ret i64 7 }"
    >>> object_code(module) == object_code(module)
    True
    """
    cache, key = Cache(folder()), key_of("object code", text, codegen)
    code = cache.get(key)
    if code is None:
        code = compile_ir(text, codegen)
        cache.put(key, code)
    return code
