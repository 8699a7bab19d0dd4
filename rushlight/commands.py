"""The commands that look at files and run them: ``rushlight show`` and ``rushlight infer``."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import rushlight

RESULTS = (rushlight.Tensor, bool, int, float, complex, str)


class UsageError(Exception):
    """A command line that cannot be carried out: one line of text, exit status 2."""


class CommandError(Exception):
    """A command that failed: one line of text, exit status 1."""


def show(arguments: Sequence[str]) -> int:
    """Prints what is in a file: the graphs and tensors of a program, an ONNX model, a checkpoint.

    --svg OUT writes a picture of the graph instead, --html OUT a page with picture and text.
    """
    files, options = parsed("show", arguments, ("--svg", "--html"))
    (path,) = one(files, "show: which file?", "show: one file at a time")
    module, reports = program_in(path)
    if module is None:
        if options:
            raise CommandError(f"{path} holds no program that could be drawn")
        print(reports.value_text(loaded(path)))
        return 0
    for flag, makes in (("--svg", reports.drawing), ("--html", reports.page)):
        for target in options.get(flag, ()):
            write(target, attempt(path, lambda makes=makes: makes(module)))
    if not options:
        print(reports.program_text(module))
    return 0


def infer(arguments: Sequence[str]) -> int:
    """Runs a program or an ONNX model on arrays: --input x.npy, once for each argument, in order.

    --input name=x.npy is an argument by its name. An input may also be a number. The results
    (tensors, numbers, strings) are printed, or written to --output: one as .npy, several as .npz,
    where they are called 0, 1, ..., by their keys, or as the model calls them. Floats of another
    precision are converted.
    """
    files, options = parsed("infer", arguments, ("--input", "--output"))
    (path,) = one(
        files, "infer: which file?", "infer: one program at a time; arrays follow --input"
    )
    targets = options.get("--output", [])
    if len(targets) > 1:
        raise UsageError("infer: --output is given twice")
    if targets and not targets[0].endswith((".npy", ".npz")):
        raise UsageError("infer: --output is a file that ends in .npy or .npz")
    values, named = inputs(options.get("--input", ()))
    module, reports = program_in(path)
    if module is None:
        raise CommandError(f"{path} holds no program")
    module.eval()
    with rushlight.no_grad():
        result = attempt(path, lambda: reports.run(module, values, named))
    if isinstance(result, RESULTS):
        result = {getattr(module, "output_names", ["0"])[0]: result}
    leaves = rushlight.jit.reports.leaves_of(result, "", RESULTS)
    found = {name.replace("[", ".").replace("]", "").strip("."): x for name, x in leaves}
    if targets:
        save(targets[0], found)
    else:
        for name, t in found.items():
            print(t if len(found) == 1 else f"{name}: {t}")
    return 0


def parsed(
    command: str, arguments: Sequence[str], flags: Sequence[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """The files and the values of flags on a command line.

    >>> parsed("show", ["a.pt", "--svg=b.svg", "--svg", "c.svg"], ["--svg"])
    (['a.pt'], {'--svg': ['b.svg', 'c.svg']})
    """
    files: list[str] = []
    options: dict[str, list[str]] = {}
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-"):
            files.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag not in flags:
            raise UsageError(f"{command}: unknown flag {flag}{nearest(flag, flags)}")
        if not equals:
            value = next(rest, "")
        if not value:
            raise UsageError(f"{command}: {flag} needs a value")
        options.setdefault(flag, []).append(value)
    return files, options


def nearest(word: str, words: Iterable[str]) -> str:
    """The end of a message about a word that does not exist.

    >>> nearest("shw", ["infer", "run", "show"])
    ', did you mean show?'
    """
    found = difflib.get_close_matches(word, words, 1)
    return f", did you mean {found[0]}?" if found else ""


def one(files: list[str], none: str, many: str) -> list[str]:
    if len(files) != 1:
        raise UsageError(none if not files else many)
    return files


def program_in(path: str) -> tuple[Any, Any]:
    """The program in a file, as a module, and what can be said about such modules.

    There is no module if the file holds something else.
    """
    readable(path)
    try:
        if path.endswith(".onnx"):
            return rushlight.onnx.load(path), importlib.import_module("rushlight.onnx.reports")
        return rushlight.jit.load(path), rushlight.jit.reports
    except rushlight.io.CheckpointError as error:
        if "rl.load reads it" in str(error) or "it is no program" in str(error):
            return None, rushlight.jit.reports
        raise CommandError(error) from None
    except (ImportError, rushlight.onnx.OnnxError) as error:
        raise CommandError(str(error).partition("\n")[0]) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def loaded(path: str) -> Any:
    try:
        return rushlight.load(path)
    except rushlight.io.CheckpointError as error:
        raise CommandError(error) from None


def readable(path: str) -> None:
    """An error unless there is such a file."""
    try:
        os.stat(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def inputs(texts: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in order, and those with names; a file may have a name with = in it, too."""
    values: list[Any] = []
    named: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or os.path.exists(text):
            values.append(argument(text))
        elif name in named:
            raise UsageError(f"infer: --input {name} is given twice")
        else:
            named[name] = argument(value)
    return values, named


def argument(text: str) -> Any:
    """An array in a file, or a number, which is whole if it is written so."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    readable(text)
    value = loaded(text)
    if not isinstance(value, (rushlight.Tensor, np.ndarray)):
        raise CommandError(f"{text} holds no single array")
    return rushlight.as_tensor(value)


def attempt(path: str, function: Any) -> Any:
    """What ``function`` gives; whatever it raises is a failure of the command."""
    try:
        return function()
    except Exception as error:
        first = str(error).partition("\n")[0]
        raise CommandError(f"{path}: {first or type(error).__name__}") from None


def write(path: str, text: str) -> None:
    try:
        with rushlight.io.replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None


def save(path: str, found: dict[str, Any]) -> None:
    """Writes results, in full or not at all."""
    if len(found) != 1 and not path.endswith(".npz"):
        raise CommandError(f"there are {len(found)} results: name a file that ends in .npz")
    arrays = {name: np.asarray(x) for name, x in found.items()}
    try:
        with rushlight.io.replacing(path) as file:
            if path.endswith(".npz"):
                np.savez(file, **arrays)  # type: ignore[arg-type]
            else:
                (array,) = arrays.values()
                np.save(file, array)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from None
