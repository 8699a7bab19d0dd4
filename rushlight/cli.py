"""The command line: ``rushlight COMMAND [ARGUMENT ...]``."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rushlight import __version__
from rushlight.commands import CommandError, UsageError, infer, nearest, show
from rushlight.frontends import names, script

FLAGS = ("--help", "--version")
OK, FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 130, 141


def run(arguments: Sequence[str]) -> int:
    """Runs a PyTorch program as it stands, with `import torch` served by Rushlight.

    Everything else is as under Python itself: the program's arguments, its folder first on the
    import path, its tracebacks and exit status. Processes that it starts see the same names.
    """
    execute: Callable[[str, Sequence[str]], int]
    match arguments:
        case []:
            raise UsageError("run: which file?")
        case ["-m"]:
            raise UsageError("run -m: which module?")
        case ["-m", program, *rest]:
            execute = script.run_module
        case [flag, *_] if flag.startswith("-"):
            raise UsageError(f"run: unknown flag {flag}")
        case [program, *rest]:
            execute = script.run_file
    names.serve()
    names.serve_children()
    try:
        return execute(program, rest)
    except script.ProgramError as error:
        raise UsageError(f"run: {error}") from None


class Command(NamedTuple):
    function: Callable[[Sequence[str]], int]
    usage: str
    summary: str


COMMANDS = {
    "infer": Command(
        infer,
        "FILE [--input x.npy ...] [--output y.npy]",
        "run a saved program or an ONNX model on arrays",
    ),
    "run": Command(run, "FILE | -m MODULE [ARG ...]", "run a PyTorch program as it stands"),
    "show": Command(
        show,
        "FILE [--svg OUT] [--html OUT]",
        "print and draw a saved program, an ONNX model, or a checkpoint",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Carries out a command line (by default the process's own) and returns the exit status."""
    try:
        try:
            return dispatch(sys.argv[1:] if arguments is None else arguments)
        finally:
            if sys.__stdout__ is not None and not sys.__stdout__.closed:
                sys.__stdout__.flush()
    except UsageError as error:
        print(f"rushlight: {error} (see rushlight --help)", file=sys.stderr)
        return MISUSED
    except CommandError as error:
        print(f"rushlight: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # Standard output takes no more, and the interpreter will flush it again: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        print(f"rushlight: {error}", file=sys.stderr)
        return FAILED


def dispatch(arguments: Sequence[str]) -> int:
    """Calls the command that the first argument names."""
    match arguments:
        case []:
            raise UsageError(f"which command: {', '.join(COMMANDS)}?")
        case ["--version"]:
            print(f"rushlight {__version__}")
        case ["--help" | "-h"]:
            print(overview())
        case [name, "--help" | "-h"] if name in COMMANDS:
            print(f"usage: rushlight {name} {COMMANDS[name].usage}\n")
            print(inspect.getdoc(COMMANDS[name].function))
        case [name, *rest] if name in COMMANDS:
            return COMMANDS[name].function(rest)
        case [name, *_]:
            kind, known = ("flag", FLAGS) if name.startswith("-") else ("command", COMMANDS)
            raise UsageError(f"unknown {kind} {name}{nearest(name, known)}")
    return OK


def overview() -> str:
    """The commands, one line each."""
    lines = ["usage: rushlight COMMAND [ARGUMENT ...]", ""]
    lines += [f"  {name:<8}{command.summary}" for name, command in COMMANDS.items()]
    lines += ["", "rushlight COMMAND --help tells more; rushlight --version names the version."]
    return "\n".join(lines)
