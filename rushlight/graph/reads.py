"""What code may read: the names of globals and attributes in it, and whose code it is."""

from __future__ import annotations

import dis
import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rushlight.errors import PACKAGE

STANDARD = os.path.dirname(os.__file__) + os.sep
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
GLOBAL = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
FLAGS = {"LOAD_GLOBAL": (1, 11), "LOAD_ATTR": (1, 12), "LOAD_SUPER_ATTR": (2, 12)}
"""Operations that keep bits for themselves beside the number of a name: how many, since when."""
NAMED = {
    number: (dis.opname[number], bits if sys.version_info >= (3, since) else 0)
    for number in dis.hasname
    for bits, since in [FLAGS.get(dis.opname[number], (0, 0))]
}
"""The operations that have a name, by number: what they are called, and those bits."""
NEEDED = ("rushlight", "numpy", "ml_dtypes", "llvmlite")
REFLECTIVE = {
    "getattr", "vars", "dir", "eval", "exec", "locals", "globals", "attrgetter", "asdict",
    "astuple", "__dict__",
}  # fmt: skip
"""Who uses one of these may read an attribute without naming it."""
WRITES = ("STORE_", "DELETE_")  # how operations begin that change what a name means
CHANGERS = (
    "append", "appendleft", "extend", "insert", "pop", "popleft", "popitem", "remove", "clear",
    "update", "setdefault", "add", "discard", "sort", "reverse",
)  # fmt: skip
"""Methods that change a container."""


@dataclass(slots=True)
class Reads:
    """The names in a piece of code: of globals (also written ones), attributes, imports."""

    globals: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)  # attributes that code sets
    imports: set[str] = field(default_factory=set)


def reads(code: CodeType) -> Reads:
    """The names that ``code``, and the functions and classes inside it, may read.

    >>> found = reads((lambda x: x.scale * LIMIT).__code__)
    >>> found.globals, found.attributes
    ({'LIMIT'}, {'scale'})
    """
    found = Reads()
    for part in nested(code):
        for kind, name in named(part):
            if kind in GLOBAL:
                found.globals.add(name)
            elif kind == "IMPORT_NAME":
                found.imports.add(name)
            elif not kind.startswith("STORE"):
                found.attributes.add(name)
            elif kind == "STORE_ATTR":
                found.written.add(name)
        found.attributes.update(texts(part.co_consts))
    return found


def named(code: CodeType) -> Iterator[tuple[str, str]]:
    """The operations that have a name, and the names: what ``dis`` says, ten times as fast."""
    bytes_, names, high = code.co_code, code.co_names, 0
    for operation, low in zip(bytes_[::2], bytes_[1::2], strict=True):
        if operation == dis.EXTENDED_ARG:
            high = (high | low) << 8
            continue
        if operation in NAMED:
            kind, flags = NAMED[operation]
            yield kind, names[(high | low) >> flags]
        high = 0


def nested(code: CodeType) -> Iterator[CodeType]:
    """``code`` and all code objects inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def texts(constants: tuple[Any, ...]) -> Iterator[str]:
    """Strings that may be names of attributes: for ``getattr``, or in a ``case`` of a class."""
    for constant in constants:
        if isinstance(constant, str) and constant.isidentifier():
            yield constant
        elif isinstance(constant, tuple):
            yield from texts(constant)


def names_of(path: str) -> list[str]:
    """The names in the path of an object.

    >>> names_of("net.layers[0].bias"), names_of("closure variable 'seen'")
    (['net', 'layers', 'bias'], ['seen'])
    """
    return re.findall(r"[A-Za-z_]\w*", path.removeprefix("closure variable "))


def lines_of(codes: Iterable[CodeType]) -> dict[str, list[tuple[str, Any]]]:
    """The operations and their arguments in each line (``file:line``) of some code."""
    lines: dict[str, list[tuple[str, Any]]] = {}
    for code in codes:
        for part in nested(code):
            starts, line = dict(dis.findlinestarts(part)), part.co_firstlineno
            for instruction in dis.get_instructions(part):
                line = starts.get(instruction.offset) or line
                found = lines.setdefault(f"{part.co_filename}:{line}", [])
                found.append((instruction.opname, instruction.argval))
    return lines


def line_of_use(codes: Iterable[CodeType], name: str) -> str | None:
    """``file:line`` of the first line that names a global or an attribute ``name``."""
    lines = lines_of(codes).items()
    return next((place for place, done in lines if name in [what for _, what in done]), None)


def line_of_change(codes: Iterable[CodeType], names: Iterable[Any]) -> str | None:
    """``file:line`` where code writes to one of ``names``, the first that it writes to at all.

    >>> seen = []
    >>> line_of_change([(lambda x: seen.append(x)).__code__], ["seen"])  # doctest: +ELLIPSIS
    '<doctest ...>:1'
    """
    lines = lines_of(codes)
    for name in names:
        for place, done in lines.items():
            stores = any([kind.startswith(WRITES) and what == name for kind, what in done])
            changes = any([kind == "STORE_SUBSCR" or what in CHANGERS for kind, what in done])
            if stores or (changes and any([what == name for _, what in done])):
                return place
    return None


@functools.cache
def names_in(cls: type) -> frozenset[str]:
    """The attributes that the methods of one class of a library may read."""
    functions = [getattr(f, "__func__", f) for f in vars(cls).values()]
    found = [reads(f.__code__).attributes for f in functions if isinstance(f, FunctionType)]
    return frozenset().union(*found)


class Whose(Enum):
    """Who has written some code: guards look closely at the user's, and not at the foundation."""

    USER = "the user"
    LIBRARY = "an installed package"
    FOUNDATION = "Python, NumPy or we"


def is_users_file(file: str) -> bool:
    """Whether a file is neither ours, nor of Python, nor of an installed package."""
    return whose_file(file) is Whose.USER


def whose_file(file: str) -> Whose:
    """
    >>> whose_file("/home/me/train.py"), whose_file(os.__file__)
    (<Whose.USER: 'the user'>, <Whose.FOUNDATION: 'Python, NumPy or we'>)
    """
    for folder in INSTALLED:
        if folder in file:
            package = file.rpartition(folder)[2].partition(os.sep)[0]
            return Whose.FOUNDATION if package in NEEDED else Whose.LIBRARY
    core = file.startswith((PACKAGE, STANDARD, "<frozen "))
    return Whose.FOUNDATION if core else Whose.USER


def whose_module(module: ModuleType | None) -> Whose:
    if module is None:
        return Whose.USER
    file = vars(module).get("__file__")
    if file is None:  # the interactive session, a namespace package, or a part of Python in C
        core = module.__name__ in sys.builtin_module_names
        return Whose.FOUNDATION if core else Whose.USER
    return whose_file(file)


def whose_class(cls: type) -> Whose:
    return whose_module(sys.modules.get(cls.__module__))


def is_ours(cls: type) -> bool:
    """Whether a class is one of this package."""
    return cls.__module__.partition(".")[0] == __name__.partition(".")[0]
