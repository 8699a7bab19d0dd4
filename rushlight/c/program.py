"""A program in C: memory, the function that runs it, and the files that hold it."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from rushlight.c.border import identifier
from rushlight.c.comments import harmless
from rushlight.c.file import FIRST, File, array, at
from rushlight.c.scalars import literal
from rushlight.c.sections import Section
from rushlight.c.snippets import STORED
from rushlight.c.templates import EXAMPLE, HEADER, SOURCE
from rushlight.graph.ir import Graph, Node, TensorType
from rushlight.passes.clusters import types
from rushlight.passes.order import Plan

MAGIC = 0x31434C52  # "RLC1"
RESERVED = ("H", "MEMORY", "STATE", "NO_FILE", "BAD_FILE", "NOT_WRITTEN", "NO_MEMORY")
"""What the header of a program defines, after its name."""


class Piece(NamedTuple):
    """A tensor of the state: its name in C, where it begins, and what it holds at first."""

    name: str
    title: str
    offset: int
    type: TensorType
    value: np.ndarray


class Argument(NamedTuple):
    """An argument of the run."""

    name: str
    type: TensorType
    role: str  # input, number, changed input, output
    example: float = 0.0  # of a number

    @property
    def declaration(self) -> str:
        if self.role == "number":
            return f"double {self.name}"
        const = "const " if self.role == "input" else ""
        return f"{const}{STORED[self.type.kind]} *{self.name}"


class Program:
    """The C files of a graph."""

    def __init__(
        self,
        name: str,
        graph: Graph,
        steps: Plan,
        inputs: Sequence[str],
        values: Mapping[Node, np.ndarray],
        arrays: bool,
        numbers: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.name, self.graph, self.arrays = name, graph, arrays
        self.file = File()
        self.check(graph)
        self.written = {target for target, _ in graph.writes}
        self.arguments = self.find_arguments(inputs, numbers)
        self.pieces: list[Piece] = []
        leaves = self.place_leaves(values)
        self.state = self.file.end
        section = Section(self.file, graph, steps)
        base = self.file.end
        self.file.end += section.size
        outputs = [a.name for a in self.arguments[len(graph.inputs) :]]
        self.body = list(section.lines(base, leaves, outputs))
        self.memory = self.file.end

    def place_leaves(self, values: Mapping[Node, np.ndarray]) -> dict[Node, str]:
        """Where inputs and captured tensors are; those that are written to are in memory."""
        names = [a.name for a in self.arguments]
        places = [f"&{a.name}" if a.role == "number" else a.name for a in self.arguments]
        leaves = dict(zip(self.graph.inputs, places, strict=False))
        taken = {*RESERVED, *[f"{name.upper()}_SIZE" for name in names]}
        for i, node in enumerate(self.graph.captured):
            title = self.graph.names.get(node, f"tensor{i}")
            if self.arrays and node not in self.written:
                leaves[node] = f"weight_{i}"
                definition = array(f"weight_{i}", values[node], node.type.kind)
                self.file.arrays[f"weight_{i}"] = f"/* {harmless(title)} */\n{definition}"
                continue
            name = identifier(title)
            name = name if name.upper() not in taken else f"{name}_{i}"
            taken.add(name.upper())
            offset = self.file.reserve(node.type.nbytes)
            self.pieces.append(Piece(name, title, offset, node.type, values[node]))
            leaves[node] = at(offset)
        return leaves

    def check(self, graph: Graph) -> None:
        """An error if there is a value that C has no type for."""
        for node in graph.nodes():
            if any([t.kind not in STORED for t in types(node)]):
                raise self.file.refused(node, "complex numbers have no loops here")

    def find_arguments(self, inputs: Sequence[str], numbers: Mapping[str, float]) -> list[Argument]:
        """The arguments of the run: inputs, then outputs."""
        found = []
        for name, node in zip(inputs, self.graph.inputs, strict=True):
            if name in numbers:
                found.append(Argument(name, node.type, "number", numbers[name]))
            else:
                role = "changed input" if node in self.written else "input"
                found.append(Argument(name, node.type, role))
        count, taken = len(self.graph.outputs), {name.upper() for name in inputs}
        for i, node in enumerate(self.graph.outputs):
            name = "y" if count == 1 else f"y{i}"
            while name.upper() in taken:
                name += "_out"
            taken.add(name.upper())
            found.append(Argument(name, node.type, "output"))
        return found

    def files(self) -> dict[str, bytes]:
        """The contents of the files, by their names."""
        found = {
            f"{self.name}.h": self.header().encode(),
            f"{self.name}.c": self.source().encode(),
            f"{self.name}_main.c": self.example().encode(),
        }
        if not self.arrays:
            found[f"{self.name}.weights"] = self.weights()
        return found

    @property
    def upper(self) -> str:
        """How macros begin."""
        return self.name.upper()

    @property
    def fingerprint(self) -> int:
        """What a file of weights must name to fit this program."""
        parts = [f"{p.title} {p.offset} {p.type}" for p in self.pieces]
        text = "\n".join([self.name, str(self.state), *parts])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    def weights(self) -> bytes:
        """The file of the state: a head, the state, and a checksum."""
        state = bytearray(self.state)
        for piece in self.pieces:
            data = np.ascontiguousarray(piece.value).tobytes()
            state[piece.offset : piece.offset + len(data)] = data
        head = struct.pack("<IIQQ", MAGIC, 0, self.fingerprint, self.state)
        return head + bytes(state) + struct.pack("<Q", checksum(bytes(state)))

    def values(self) -> dict[str, str]:
        """What the templates of the files are filled with."""
        signature = [f"{self.name}_state *self", *[a.declaration for a in self.arguments]]
        return {
            "name": self.name,
            "NAME": self.upper,
            "weights": f"{self.name}.weights",
            "memory": str(self.memory),
            "state": str(self.state),
            "arguments": "\n".join([self.described(a) for a in self.arguments]),
            "pieces": "\n".join([self.accessor(p) for p in self.pieces]),
            "signature": wrapped(signature),
            "magic": f"0x{MAGIC:08X}u",
            "fingerprint": f"UINT64_C(0x{self.fingerprint:016X})",
            "first": str(FIRST),
            "path": "NULL" if self.arrays else f'"{self.name}.weights"',
        }

    def header(self) -> str:
        return filled(HEADER, self.values())

    def source(self) -> str:
        messages = [f'    "{m}",' for m in self.file.messages]
        starts = []
        if self.arrays:
            for piece in self.pieces:
                self.file.arrays[f"start_{piece.name}"] = array(
                    f"start_{piece.name}", piece.value, piece.type.kind
                )
                if piece.type.nbytes:
                    target = f"self->memory + {piece.offset}"
                    starts.append(f"memcpy({target}, start_{piece.name}, {piece.type.nbytes});")
        else:
            starts.append(f"if (!weights) return {self.upper}_NO_FILE;")
        used = set(re.findall(r"\w+", " ".join([*self.body, *starts])))
        unused = [a.name for a in self.arguments if a.name not in used]
        return filled(
            SOURCE,
            {
                **self.values(),
                "arrays": "\n\n".join([t for n, t in self.file.arrays.items() if n in used]),
                "functions": str(self.file.snippets),
                "body": "\n".join([f"    {line}" for line in self.body]),
                "unused": "".join([f"    (void){name};\n" for name in unused]),
                "messages": "\n".join(messages or ["    NULL,"]),
                "count": str(len(self.file.messages)),
                "start": "\n".join([f"    {line}" for line in starts]),
            },
        )

    def example(self) -> str:
        names = {a.name: f"{a.name}_data" for a in self.arguments}  # not those of C's library
        names |= {a.name: literal(a.example, "f64") for a in self.arguments if a.role == "number"}
        arrays = [
            f"static {STORED[a.type.kind]} {names[a.name]}[{self.macro(a)}_SIZE];"
            for a in self.arguments
            if a.role != "number"
        ]
        outputs = [a for a in self.arguments if a.role == "output"]
        shown = [
            f'    printf("{a.name}[0] = %g\\n", (double){names[a.name]}[0]);'
            for a in outputs
            if a.type.size and a.type.kind not in ("f16", "bf16")
        ]
        return filled(
            EXAMPLE,
            {
                **self.values(),
                "data": "\n".join(arrays),
                "names": ", ".join(["&state", *names.values()]),
                "shown": "\n".join(shown),
            },
        )

    def macro(self, argument: Argument) -> str:
        return f"{self.upper}_{argument.name.upper()}"

    def described(self, a: Argument) -> str:
        shape = ", ".join(map(str, a.type.shape))
        size = max(1, math.prod(a.type.shape))
        text = f"/* {a.role} {a.name}: {a.type.dtype.name} of shape ({shape}) */"
        if a.role == "number":
            return text
        return f"{text}\n#define {self.macro(a)}_SIZE {size}"

    def accessor(self, p: Piece) -> str:
        shape = ", ".join(map(str, p.type.shape))
        kind = STORED[p.type.kind]
        return (
            f"/* {harmless(p.title)}: {p.type.dtype.name} of shape ({shape}) */\n"
            f"#define {self.upper}_{p.name.upper()}(state) "
            f"(({kind} *)(void *)((state)->memory + {p.offset}))"
        )


def checksum(data: bytes) -> int:
    """A sum over the words of some data, whose size is a multiple of 8, that knows their order."""
    words = np.frombuffer(data, "<u8")
    with np.errstate(over="ignore"):
        low = int(words.sum(dtype=np.uint64))
        high = int((words * np.arange(1, len(words) + 1, dtype=np.uint64)).sum(dtype=np.uint64))
    return (low ^ (high << 1 | high >> 63)) % 2**64


def wrapped(parts: Sequence[str], columns: int = 92) -> str:
    """Parameters in lines that are not too long."""
    lines, line = [], ""
    for part in parts:
        if line and len(line) + len(part) > columns:
            lines.append(line.rstrip())
            line = "    "
        line += f"{part}, "
    return "\n".join([*lines, line.rstrip(", ")])


def filled(template: str, values: Mapping[str, str]) -> str:
    """A template in which ``@name@`` stands for a value."""
    for name, value in values.items():
        template = template.replace(f"@{name}@", value)
    return template
