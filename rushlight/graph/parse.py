"""The text of a graph, read again: ``parse(str(graph)) == graph``."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rushlight.graph import control  # noqa: F401, whose ops are in the registry
from rushlight.graph.attributes import DTYPES, LONG, arguments, parse_literal, with_nested
from rushlight.graph.ir import CAPTURED, INPUT, STRUCTURES, Graph, Node, Source, TensorType
from rushlight.ops.base import registry

LINE = re.compile(r"\s*%(\d+): (.*?) = ([\w.]+)\((.*)\)(?:\s+# (.*))?$")
KIND = re.compile(r"(\w+)\[([\d,]*)\]")


def parse(text: str) -> Graph:
    """The graph that was printed as ``text``.

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
    for match in re.finditer(r"(%\d+): (\w+\[[\d,]*\])(?: = captured\(('[^']*')\))?", head):
        kind = parse_type(match[2])
        node = Node(CAPTURED if match[3] else INPUT, (), {}, kind)
        nodes[match[1]] = node
        (captured if match[3] else inputs).append(node)
        if match[3]:
            names[node] = ast.literal_eval(match[3])
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
            nodes[f"%{found[1]}"] = parse_node(found, nodes, map(parse, inner))
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


def parse_node(found: re.Match[str], nodes: Mapping[str, Node], graphs: Iterator[Graph]) -> Node:
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
    types = [parse_type(k[0]) for k in re.finditer(KIND, kind)]
    values = with_nested({k: parse_literal(v) for k, v in attrs.items()}, graphs)
    return Node(op, inputs, values, tuple(types) if several else types[0], source)


def parse_type(text: str) -> TensorType:
    match = KIND.fullmatch(text)
    if match is None:
        raise ValueError(f"not a type: {text!r}")
    shape = tuple([int(n) for n in match[2].split(",") if n])
    return TensorType(shape, DTYPES[LONG[match[1]]])
