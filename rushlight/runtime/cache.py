"""Object code by what it is made of, kept on disk."""

from __future__ import annotations

from rushlight.runtime.host import llvm_version, target
from rushlight.runtime.jit import compile_ir
from rushlight.runtime.store import Cache, digest, folder
from rushlight.version import __version__

__all__ = ["Cache", "folder", "key_of", "object_code"]


def key_of(*parts: object) -> str:
    """The name of an entry: the given parts, and all that decides what code is made of them.

    >>> from rushlight.runtime.cache import key_of
    >>> key_of("program", 1) == key_of("program", 1) != key_of("program1")
    True
    """
    return digest(__version__, llvm_version(), target(), *parts)


def object_code(text: str, optimize: int = 0) -> bytes:
    """:func:`compile_ir`, or what it gave when it was last asked.

    >>> from rushlight.runtime.cache import object_code
    >>> module = "define i64 @seven() { ret i64 7 }"
    >>> object_code(module) == object_code(module)
    True
    """
    cache, key = Cache(folder()), key_of("object code", text, optimize)
    code = cache.get(key)
    if code is None:
        code = compile_ir(text, optimize)
        cache.put(key, code)
    return code
