"""Running a user's program in this process as ``python FILE`` and ``python -m MODULE`` would."""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import select
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType, TracebackType

from rushlight.errors import PACKAGE
from rushlight.frontends.names import IMPORT_MACHINERY, native


class ProgramError(Exception):
    """There is no such program, or it cannot be read."""


def run_file(path: str, arguments: Sequence[str]) -> int:
    """Executes a file as ``__main__``: 0, or 1 after its traceback was shown."""
    location = os.path.abspath(path)
    try:
        with io.open_code(location) as file:
            source = file.read()
    except OSError as error:
        raise ProgramError(f"cannot read {path}: {error.strerror}") from None

    def load() -> tuple[ModuleType, CodeType]:
        main = ModuleType("__main__")
        main.__file__ = location
        main.__loader__ = SourceFileLoader("__main__", location)
        vars(main)["__cached__"] = None
        return main, compile(source, location, "exec", dont_inherit=True)

    _prepare(os.path.dirname(os.path.realpath(path)), [path, *arguments])
    return _execute(load)


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Executes a module as ``__main__``: 0, or 1 after its traceback was shown."""

    def load() -> tuple[ModuleType, CodeType]:
        spec = _module_spec(native(name) or name)
        code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
        if code is None:
            raise ProgramError(f"module {name} has no Python code")
        main = importlib.util.module_from_spec(spec)
        main.__name__ = "__main__"
        sys.argv[0] = str(spec.origin)
        return main, code

    _prepare(os.getcwd(), ["-m", *arguments])
    return _execute(load)


def _module_spec(name: str) -> ModuleSpec:
    """The spec of a module, or of the ``__main__`` of a package."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        # The module itself or a package that it lies in; anything else is the program's failure.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None or spec.loader is None:
        raise ProgramError(f"there is no module {name} that can be run")
    return spec


def _prepare(folder: str, argv: list[str]) -> None:
    sys.argv = argv
    if not getattr(sys.flags, "safe_path", False):  # Python 3.10 has no such flag
        sys.path[0] = folder
    root = os.path.dirname(os.path.dirname(PACKAGE))
    if root not in sys.path:
        sys.path.append(root)


def _execute(load: Callable[[], tuple[ModuleType, CodeType]]) -> int:
    try:
        main, code = load()
        # It stays: threads, exit handlers and unpickling use it after the last line.
        sys.modules["__main__"] = main
        vars(main)["__builtins__"] = builtins
        exec(code, vars(main))
    except (SystemExit, KeyboardInterrupt, ProgramError):
        raise
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and _stdout_is_gone():
            raise
        error.__traceback__ = _from_user(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _from_user(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the first line of the user's on."""
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename
        if path != __file__ and not path.startswith(IMPORT_MACHINERY):
            break
        traceback = traceback.tb_next
    return traceback


def _stdout_is_gone() -> bool:
    """Whether nobody can read any more what this process prints."""
    if sys.platform == "win32":
        return False
    stdout = select.poll()
    stdout.register(1, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in stdout.poll(0))
