"""Programs on disk: steps and slots as JSON, attributes in the notation of graphs, object code.

Nothing in an entry is code but the object code, which only ``runtime.cache`` hands out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight.config import config
from rushlight.graph.attributes import DTYPES, literal, parse_literal
from rushlight.graph.ir import Graph, show_graph
from rushlight.ops.base import registry
from rushlight.runtime.cache import fingerprint, key_of
from rushlight.runtime.host import target
from rushlight.runtime.program import (
    CallStep,
    CopyStep,
    CountStep,
    GrowStep,
    JumpStep,
    KernelStep,
    Operand,
    Program,
    RowStep,
    Slot,
)
from rushlight.settings import get_num_threads

SIZES = ("arena", "kept", "early", "threads")
NAMES = {kind.numpy: name for name, kind in DTYPES.items()}
PLAIN: dict[str, Any] = {
    "copy": CopyStep, "row": RowStep, "jump": JumpStep, "count": CountStep, "grow": GrowStep,
}  # fmt: skip
KINDS = {step: name for name, step in PLAIN.items()}


def key(graph: Graph, still: Sequence[int] = ()) -> str:
    """The name of the entry of a graph; lines of the user's program are not part of it.

    The number of threads is: it changes no result, but loops over time are cut for it.
    """
    text, keeps = show_graph(graph, sources=False), [config.keep_packed, *still]
    width = target().vector_bytes
    return key_of("program", fingerprint(), width, get_num_threads(), keeps, text)


def encode(program: Program, code: bytes) -> bytes:
    """An entry: the length of the description, the description, constants, the object code."""
    description = {
        "slots": [[s.where, s.place, s.shape, NAMES[s.dtype]] for s in program.slots],
        "steps": [describe(step) for step in program.steps],
        "constants": [[a.shape, NAMES[a.dtype]] for a in program.constants],
        "functions": program.functions,
        "modules": program.modules,
        **{name: getattr(program, name) for name in SIZES},
    }
    text = json.dumps(description).encode()
    constants = [a.tobytes() for a in program.constants]
    return b"".join([len(text).to_bytes(8, "little"), text, *constants, code])


def decode(data: bytes) -> tuple[Program, bytes]:
    """The program and the object code of an entry."""
    place = 8 + int.from_bytes(data[:8], "little")
    description = json.loads(data[8:place])
    slots = [
        Slot(where, place, tuple(shape), DTYPES[kind].numpy)
        for where, place, shape, kind in description["slots"]
    ]
    steps = [restore(step) for step in description["steps"]]
    constants = []
    for shape, kind in description["constants"]:
        array = np.frombuffer(data, DTYPES[kind].numpy, prod(shape), place)
        constants.append(array.reshape(shape).copy())  # which is aligned
        place += array.nbytes
    functions = [(name, shared) for name, shared in description["functions"]]
    modules = [(names, size) for names, size in description["modules"]]
    sizes = [description[name] for name in SIZES]
    if not all([type(size) is int and size >= 0 for size in sizes]):
        raise ValueError(f"sizes of {sizes}")
    return Program(slots, steps, {}, constants, functions, modules, *sizes), data[place:]


def describe(step: Any) -> list[Any]:
    if isinstance(step, KernelStep):
        return ["kernel", *step]
    if type(step) in KINDS:
        return [KINDS[type(step)], *step]
    operands = [
        None if o is None else [o.slot, [[op.full_name, record(a)] for op, a in o.views]]
        for o in step.operands
    ]
    attrs = record(step.attrs)
    name, *rest = step.op.full_name, step.results, step.generator, step.origin, step.path
    return ["call", name, attrs, operands, *rest]


def restore(entry: list[Any]) -> Any:
    kind, *parts = entry
    if kind == "kernel":
        name, slots, *numbers, path = parts
        return KernelStep(name, tuple(slots), *numbers)._replace(path=path_of(path))
    if kind in PLAIN:
        return PLAIN[kind](*parts)
    name, attrs, operands, results, generator, origin, path = parts
    seen = tuple([None if o is None else operand(*o) for o in operands])
    op, made = registry[name], tuple(results)
    return CallStep(op, attributes(attrs), seen, made, generator, origin, path_of(path))


def path_of(entry: list[Any]) -> tuple[tuple[int, int], ...]:
    return tuple([(step, number) for step, number in entry])


def operand(slot: int, views: list[Any]) -> Operand:
    return Operand(slot, tuple([(registry[name], attributes(attrs)) for name, attrs in views]))


def record(attrs: Any) -> str:
    return literal(dict(attrs))


@functools.lru_cache(maxsize=1024)
def attributes(text: str) -> Any:
    """The attributes that were recorded as ``text``, which layers of one kind have in common."""
    return parse_literal(text)
