"""Serving another framework's names: ``import torch`` finds ``rushlight``.

A served module *is* our module, under a second name in ``sys.modules``: `torch.Tensor` is
`rushlight.Tensor`, and what a script assigns to `torch.nn.functional.relu` our layers see.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from opcode import opmap
from types import FrameType, ModuleType

PACKAGES = {"torchvision": "rushlight.vision", "torch": "rushlight"}  # the most specific first
SERVED_VERSION = "2.13.0"  # what a served program reads as torch.__version__, to choose its way by
CHILD_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child")
CHILD_VARIABLE = "RUSHLIGHT_SERVES"
IMPORT_MACHINERY = ("<frozen importlib", os.path.dirname(importlib.__file__))


def serve() -> None:
    """Serves the names of `PACKAGES` in this process, ahead of any installed package."""
    if importer not in sys.meta_path:
        sys.meta_path.insert(0, importer)


def serve_children() -> None:
    """Serves the same names in every process of this interpreter that this one starts.

    They inherit an environment in which `child/sitecustomize.py` is the first one found.
    """
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    entries = [CHILD_FOLDER, *(entry for entry in inherited if entry not in ("", CHILD_FOLDER))]
    os.environ["PYTHONPATH"] = os.pathsep.join(entries)
    os.environ[CHILD_VARIABLE] = os.pathsep.join([sys.prefix, *PACKAGES])


def native(name: str) -> str | None:
    """Our name of a served module, or None if the name is not served.

    >>> native("torch.nn.functional")
    'rushlight.nn.functional'
    >>> native("numpy")
    """
    package, dot, rest = name.partition(".")
    return PACKAGES[package] + dot + rest if package in PACKAGES else None


def served(name: str) -> str | None:
    """The served name of one of our modules, or None for a module that is not ours.

    >>> served("rushlight.nn.functional")
    'torch.nn.functional'
    >>> served("numpy")
    """
    for package, ours in PACKAGES.items():
        if name == ours or name.startswith(ours + "."):
            return package + name.removeprefix(ours)
    return None


class Importer(MetaPathFinder, Loader):
    """Finder and loader of the served names."""

    version = ""  # ours, which the served one stands before

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        ours = native(name)
        if ours is None:
            return None
        spec = importlib.util.find_spec(ours)
        if spec is not None:
            is_package = spec.submodule_search_locations is not None
            return ModuleSpec(name, self, origin=spec.origin, is_package=is_package)
        # An import must fail in our words; a probe by importlib.util.find_spec must return None.
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            raise ModuleNotFoundError(_missing(name, sys._getframe(2)), name=name)
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        # The import system returns what it finds in sys.modules afterwards: our own module.
        sys.modules[module.__name__] = importlib.import_module(str(native(module.__name__)))
        if not self.version:
            ours, told = vars(sys.modules["rushlight"]), vars(sys.modules["rushlight.version"])
            self.version = ours["__version__"]
            ours["__version__"] = told["__version__"] = SERVED_VERSION
            ours["config"].public_name = "torch"
        _name_loaded()


importer = Importer()


def _name_loaded() -> None:
    """Gives every module of ours that is loaded its served name."""
    for name, loaded in list(sys.modules.items()):
        alias = served(name)
        if alias is not None:
            sys.modules[alias] = loaded
            own = vars(loaded).get("__getattr__")
            if not isinstance(own, partial):
                vars(loaded)["__getattr__"] = partial(_find, alias, own)


def _find(alias: str, own: Callable[[str], object] | None, name: str) -> object:
    """The module-level ``__getattr__`` of a served module: Python calls it for a name we lack.

    A module that loads some of its names when they are asked for has its ``own``.
    """
    if own is not None:
        try:
            found = own(name)
        except AttributeError:
            pass
        else:
            _name_loaded()
            return found
    frame = sys._getframe(1)
    text = _missing(f"{alias}.{name}", frame)
    if frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
        raise ImportError(text, name=alias)
    raise AttributeError(text)  # with name= and obj= Python would guess at another name


def _missing(name: str, frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_filename.startswith(IMPORT_MACHINERY):
        frame = frame.f_back
    place = f" ({frame.f_code.co_filename}:{frame.f_lineno})" if frame is not None else ""
    version = importer.version or sys.modules["rushlight"].__version__
    return f"{name} is not in Rushlight {version}{place}"
