"""Program files: the text of graphs, their borders, and tensors; no code.

An archive as checkpoints are (``io/checkpoint.py``), with ``graphs/N.txt`` beside the index. What
is read is checked before anything is compiled; see ``docs/design/program-files.md``.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, BinaryIO

from rushlight.errors import kind
from rushlight.graph.parse import parse
from rushlight.io import mapping
from rushlight.io.archives import Archive
from rushlight.io.atomic import replacing
from rushlight.io.checkpoint import INDEX, Format, read, write
from rushlight.io.errors import CheckpointError, reading
from rushlight.jit.attributes import attributes_of, is_plain
from rushlight.jit.borders import checked_border, checked_symbols
from rushlight.jit.program import Border, Program
from rushlight.jit.programs import Programs
from rushlight.jit.state import ROLES, State, check_names, is_default
from rushlight.nn.parameter import Parameter
from rushlight.random import Generator, default_generator
from rushlight.tensor import Tensor

PROGRAM = Format("rushlight program", 1)
FIELDS = frozenset(
    {
        "name", "training", "tensors", "names", "numbers", "generators", "gradients", "programs",
        "methods", "attributes", "left_out",
    }
)  # fmt: skip
EXTRA = "extra/"
MOST_TEXT = 1 << 28  # bytes of the text of a graph


def save(programs: Programs, f: Any, extra: Mapping[str, Any] | None = None) -> None:
    """Writes programs to a path or a file, in full or not at all."""
    if isinstance(f, (str, os.PathLike)):
        with replacing(os.fspath(f)) as file:
            store(programs, file, extra)
    elif callable(getattr(f, "write", None)):
        memory = io.BytesIO()
        store(programs, memory, extra)
        f.write(memory.getvalue())
    else:
        raise TypeError(f"save(): expected a path or a file to write to, got {kind(f)}")


def store(programs: Programs, file: BinaryIO, extra: Mapping[str, Any] | None) -> None:
    """Writes the archive."""
    named, state = programs.named(), programs.state
    made = [program for several in named.values() for program in several]
    tensors = state.current()
    value = {
        "name": programs.name,
        "training": bool(programs.training),
        "tensors": [stored(t) for t in tensors],
        "names": state.names,
        "numbers": state.numbers,
        "generators": [(is_default(g), g.get_state()) for g in state.generators],
        "gradients": [(i, tensors[i].grad) for i in gradients_of(made)],
        "programs": [
            {each.name: getattr(program.border, each.name) for each in fields(Border)}
            for program in made
        ],
        "methods": [name for name, several in named.items() for _ in several],
        **dict(zip(("attributes", "left_out"), surroundings(programs), strict=True)),
    }
    members = {f"graphs/{i}.txt": str(program.graph).encode() for i, program in enumerate(made)}
    for name, content in (extra or {}).items():
        if ".." in name.replace("\\", "/").split("/"):
            raise ValueError(f"_extra_files: {name!r} points outside the file")
        data = content.encode() if isinstance(content, str) else bytes(content)
        members[EXTRA + name] = data
    write(value, file, PROGRAM, members)


def surroundings(programs: Programs) -> tuple[dict[str, Any], dict[str, str]]:
    """The plain attributes of the module, and what a file does not keep of it."""
    if programs.module is None:
        return {}, programs.left_out
    names = [name for name, _, _ in programs.state.names]
    kept, others = attributes_of(programs.module, names)
    return kept, programs.left_out | others


def stored(t: Tensor) -> Tensor:
    """A tensor as the file has it: one that wants a gradient is a parameter there."""
    return Parameter(t.detach()) if t.requires_grad and not isinstance(t, Parameter) else t


def gradients_of(programs: list[Program]) -> list[int]:
    """The tensors whose gradients a program adds to."""
    sources = [source for program in programs for source in program.border.captured]
    return sorted({number for kind, number in sources if kind == "gradient"})


def load(f: Any, extra: dict[str, Any] | None = None, mmap: bool = False) -> Programs:
    """The programs in a path or a file; ``extra`` gets the texts of its names."""
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with reading(str(path)):
            return parsed(mapping(path, mmap), extra, mmap)
    if not callable(getattr(f, "read", None)):
        raise TypeError(f"load(): expected a path or a file to read from, got {kind(f)}")
    with reading(getattr(f, "name", "the file") if isinstance(f, io.IOBase) else "the file"):
        data = f.read()
        if not isinstance(data, bytes):
            raise CheckpointError("it is opened as text; open it with mode 'rb'")
        return parsed(data, extra, False)


def parsed(data: Any, extra: dict[str, Any] | None, mapped: bool) -> Programs:
    if not data:
        raise CheckpointError("the file is empty")
    if bytes(data[:2]) != b"PK":
        raise CheckpointError(f"it is no program: it begins with {bytes(data[:8])!r}")
    archive = Archive(data)
    if INDEX not in archive:
        raise CheckpointError("the archive holds no program of Rushlight's")
    value = read(archive, mapped, PROGRAM)
    if not isinstance(value, dict) or {*value} != FIELDS:
        raise CheckpointError("the index does not have the fields of a program")
    state = read_state(value)
    programs = Programs(None, text_of(value["name"]), state)
    programs.starts_training = value["training"] is True
    read_surroundings(programs, value)
    for number, (plain, method) in enumerate(zip(value["programs"], value["methods"], strict=True)):
        name = f"graphs/{number}.txt"
        if name in archive and archive.members[name].file_size > MOST_TEXT:
            raise CheckpointError(f"the text of the graph {number} is too long")
        try:
            text = archive.read(name).decode()
            graph = parse(text, checked_symbols(plain))
            if str(graph) != text:
                raise ValueError("it is not written as graphs are")
            border = checked_border(plain, graph, state)
            program = Program(graph, border, state, trusted=False)
            program.verify(dict(border.symbols))
        except (CheckpointError, MemoryError):
            raise
        except Exception as error:
            why = str(error) or type(error).__name__
            raise CheckpointError(f"the graph {number} is no graph ({why})") from None
        own = programs if method == "forward" else programs.methods[method]
        own.list.append(program)
    for name in extra or {}:
        if EXTRA + name in archive:
            extra[name] = archive.read(EXTRA + name)  # type: ignore[index]
    resume(programs, value["generators"])
    return programs


def read_surroundings(programs: Programs, value: dict[str, Any]) -> None:
    """The methods and plain attributes of a file."""
    if not isinstance(value["attributes"], dict) or not is_plain(value["attributes"]):
        raise CheckpointError("an attribute is no plain value")
    if not isinstance(value["left_out"], dict) or not is_plain(value["left_out"]):
        raise CheckpointError("what it has not is no list of names")
    names = [name for name, _, _ in programs.state.names]
    methods = [name for name in dict.fromkeys(value["methods"]) if name != "forward"]
    try:
        check_names([*names, *map(text_of, value["attributes"]), *map(text_of, methods)])
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    if len(value["methods"]) != len(value["programs"]):
        raise CheckpointError("a program is that of no method")
    programs.attributes, programs.left_out = value["attributes"], value["left_out"]
    for name in methods:
        programs.methods[name] = Programs(None, f"{programs.name}.{name}", programs.state)


def read_state(value: dict[str, Any]) -> State:
    """The tensors, names and numbers of a file."""
    state = State()
    state.tensors = list(value["tensors"])
    if not all([isinstance(t, Tensor) for t in state.tensors]):
        raise CheckpointError("among its tensors is something else")
    for name, number, role in value["names"]:
        if type(number) is not int or not 0 <= number < len(state.tensors) or role not in ROLES:
            raise CheckpointError(f"{name!r:.40} is no name of a tensor")
        state.names.append((text_of(name), number, role))
    try:
        check_names([name for name, _, _ in state.names])
    except ValueError as error:
        raise CheckpointError(str(error)) from None
    if {number for _, number, _ in state.names} != {*range(len(state.tensors))}:
        raise CheckpointError("a tensor has no name")
    for name, number in value["numbers"].items():
        state.numbers[text_of(name)] = float(number)
    for number, gradient in value["gradients"]:
        t = state.tensors[number]
        if not isinstance(gradient, Tensor) or gradient.shape != t.shape:
            raise CheckpointError(f"the gradient of tensor {number} does not fit it")
        t.grad = gradient
    state.generators = [Generator().set_state(data) for _, data in value["generators"]]
    return state


def resume(programs: Programs, generators: Any) -> None:
    """Programs draw from the process's generator if they did; a training step sets it back."""
    several = (programs, *programs.methods.values())
    trains = any([program.trains for each in several for program in each.list])
    for number, (is_process, data) in enumerate(generators):
        if is_process is True:
            if trains:
                default_generator.set_state(data)
            programs.state.generators[number] = default_generator


def text_of(name: Any) -> str:
    if not isinstance(name, str):
        raise CheckpointError(f"{name!r:.40} is no name")
    return name
