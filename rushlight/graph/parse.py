"""The text of a graph, read again: ``parse(str(graph)) == graph``."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rushlight.dims import Dim
from rushlight.graph import control  # noqa: F401, whose ops are in the registry
from rushlight.graph.attributes import DTYPES, LONG, arguments, parse_literal, split, with_nested
from rushlight.graph.ir import CAPTURED, INPUT, STRUCTURES, Graph, Node, Source, TensorType
from rushlight.ops.base import registry

LINE = re.compile(r"\s*%(\d+): (.*?) = ([\w.]+)\((.*)\)(?:\s+# (.*))?$")
KIND = re.compile(r"(\w+)\[([^\[\]]*)\]")
HEAD = re.compile(r"""(%\d+): (\w+\[[^\[\]]*\])(?: = (captured|input)\(('[^']*'|"[^"]*")\))?""")

Symbols = Mapping[str, Dim]


def parse(text: str, symbols: Symbols = MappingProxyType({})) -> Graph:
    """The graph that was printed as ``text``, in which ``symbols`` are sizes.

    >>> print(parse("graph(%0: f32[2]):\\n  %1: f32[2] = exp(%0)\\n  return %1"))
    graph(%0: f32[2]):
      %1: f32[2] = exp(%0)
      return %1
    """
    head, *body = text.strip().splitlines()
    nodes: dict[str, Node] = {}
    inputs: list[Node] = []
    captured: list[Node] = []
    names: dict[Node, str] = {}
    for match in re.finditer(HEAD, head):
        kind = parse_type(match[2], symbols)
        outside = match[3] == "captured"
        node = Node(CAPTURED if outside else INPUT, (), {}, kind)
        nodes[match[1]] = node
        (captured if outside else inputs).append(node)
        name = ast.literal_eval(match[4]) if match[4] else ""
        if name:
            names[node] = name
    outputs: list[Node] = []
    writes = []
    for line, inner in grouped(body):
        words = line.split()
        if words[0] == "write":
            writes.append((nodes[words[1]], nodes[words[3]]))
        elif words[0] == "return":
            outputs = [nodes[w.rstrip(",")] for w in words[1:]]
        else:
            found = LINE.match(line)
            if found is None:
                raise ValueError(f"not a line of a graph: {line.strip()!r}")
            graphs = [parse(below, symbols) for below in inner]
            nodes[f"%{found[1]}"] = parse_node(found, nodes, iter(graphs), symbols)
    return Graph(tuple(inputs), tuple(captured), tuple(outputs), tuple(writes), names)


def grouped(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The lines of a graph, each with the texts of the graphs below it."""
    margin = " " * (len(lines[0]) - len(lines[0].lstrip()) + 1)
    at = [i for i, line in enumerate(lines) if not line.startswith(margin)]
    for begin, end in zip(at, [*at[1:], len(lines)], strict=True):
        below = textwrap.dedent("\n".join(lines[begin + 1 : end]))
        yield (
            lines[begin],
            [f"graph({text}" for text in re.split(r"^graph\(", below, flags=re.M)[1:]],
        )


def parse_node(
    found: re.Match[str], nodes: Mapping[str, Node], graphs: Iterator[Graph], symbols: Symbols
) -> Node:
    _, kind, name, inner, where = found.groups()
    op = STRUCTURES.get(name) or registry.get(name)
    if op is None:
        raise ValueError(f"there is no op {name}")
    operands, attrs = arguments(inner)
    inputs = tuple([None if x == "None" else nodes[x] for x in operands])
    source = None
    if where:
        module, _, place = where.rpartition("  ")
        file, _, line = place.rpartition(":")
        source = Source(file, int(line), module)
    several = kind.startswith("(")
    types = [parse_type(k[0], symbols) for k in re.finditer(KIND, kind)]
    values = with_nested({k: parse_literal(v, symbols) for k, v in attrs.items()}, graphs)
    return Node(op, inputs, values, tuple(types) if several else types[0], source)


def parse_type(text: str, symbols: Symbols = MappingProxyType({})) -> TensorType:
    match = KIND.fullmatch(text)
    if match is None:
        raise ValueError(f"not a type: {text!r}")
    shape = tuple([int(n) if n.isdecimal() else parse_size(n, symbols) for n in split(match[2])])
    return TensorType(shape, DTYPES[LONG[match[1]]])


def parse_size(text: str, symbols: Symbols) -> Any:
    """A size as it was printed: a number, or a polynomial of symbols.

    >>> parse_size("(B*4)//(2)+1", {"B": Dim.symbol("B", 3)})
    2*B+1
    """
    size = parse_literal(text, symbols)
    if type(size) not in (int, Dim):
        raise ValueError(f"not a size: {text!r}")
    return size
