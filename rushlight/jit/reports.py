"""What is in a file, as text and as pictures: ``rushlight show``."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rushlight.drawing.svg import svg
from rushlight.graph.ir import Node, show
from rushlight.graph.sizes import called
from rushlight.jit.code import names_of
from rushlight.jit.functions import RecursiveScriptModule
from rushlight.jit.pictures import graph_picture
from rushlight.jit.program import Program
from rushlight.jit.structure import Shape
from rushlight.passes.unused import drop_unused
from rushlight.runtime.page import document
from rushlight.tensor import Tensor

WIDEST = 200  # characters of a line
GRAPH_STYLE = """
.graph { overflow: auto; border: 1px solid var(--line); border-radius: 8px; margin-top: 8px; }
.graph { background: #fff; }
.graph svg { display: block; margin: 0 auto; }
#fit:checked ~ .graph svg { max-width: 100%; height: auto; }
pre { max-height: none; }
"""
MODES = {None: "", True: " in training mode", False: " in evaluation mode"}


def program_text(module: RecursiveScriptModule) -> str:
    """The programs of a file: what they take and give, their graphs and their tensors."""
    programs = module._programs
    lines = [f"program {programs.name}"]
    for program in programs.list:
        lines += ["", f"{signature(programs.name, program)}{MODES[program.border.training]}"]
        text = str(program.forward_graph).splitlines()
        lines += [f"  {line if len(line) <= WIDEST else line[:WIDEST] + '…'}" for line in text]
    state = programs.state
    rows = [(name, state.tensors[number]) for name, number, _ in state.names]
    lines += ["", *table(rows)]
    if state.numbers:
        lines += ["", *[f"{name} = {value}" for name, value in state.numbers.items()]]
    return "\n".join(lines)


def signature(name: str, program: Program) -> str:
    """What a program takes and gives.

    >>> program = rl.export(lambda x: x.sum(0), rl.ones(3, 2)).programs.first
    >>> signature("f", program)
    'f(x: f32[3,2]) -> f32[2]'
    """
    graph, border = called(program.graph, program.labels), program.border
    given = [f"{name}: {described(shape, graph.inputs)}" for name, shape in border.arguments]
    return f"{name}({', '.join(given)}) -> {described(border.result, graph.outputs)}"


def described(shape: Shape, nodes: Sequence[Node]) -> str:
    """A shape with the types of its tensors."""
    kind, *content = shape
    if kind == "tensor":
        return show(nodes[content[0]].type)
    if kind in ("number", "scalar", "plain"):
        return repr(content[0]) if kind == "plain" else "number"
    if kind == "dict":
        inner = [f"{key!r}: {described(each, nodes)}" for key, each in content[0]]
        return f"{{{', '.join(inner)}}}"
    text = ", ".join([described(each, nodes) for each in content[-1]])
    return f"[{text}]" if kind == "list" else f"({text})"


def value_text(value: Any) -> str:
    """The tensors of a checkpoint, each with the path to it."""
    return "\n".join(table(list(tensors_of(value, ""))))


def tensors_of(value: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors in containers, each with the path to it."""
    return leaves_of(value, path, (Tensor,))


def leaves_of(value: Any, path: str, kinds: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    """The values of these kinds in containers, each with the path to it.

    >>> list(leaves_of({"a": [1, 2.0]}, "", (int, float)))
    [('a[0]', 1), ('a[1]', 2.0)]
    """
    if isinstance(value, kinds):
        yield path or "tensor", value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves_of(inner, f"{path}.{key}" if path else str(key), kinds)
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            yield from leaves_of(inner, f"{path}[{i}]", kinds)


def table(rows: Sequence[tuple[str, Tensor]]) -> list[str]:
    """Names, dtypes and shapes of tensors, and how much they are together."""
    widest = max([len(name) for name, _ in rows], default=0)
    lines = [f"{name:<{widest}}  {t.dtype.name:<8} {list(t.shape)}" for name, t in rows]
    unique = {id(t): t for _, t in rows}.values()
    elements = sum([t.numel() for t in unique])
    nbytes = sum([t.numel() * t.element_size() for t in unique])
    return [*lines, f"{len(unique)} tensors, {elements:,} elements, {nbytes:,} bytes"]


def picture(program: Program) -> str:
    """The graph of a program as SVG."""
    graph = drop_unused(program.forward_graph)
    names, _ = names_of(program, graph)
    shown = {node: name.removeprefix("self.") for node, name in names.items()}
    return svg(graph_picture(graph, shown))


def drawing(module: RecursiveScriptModule) -> str:
    """The first program of a file as SVG."""
    return picture(module._programs.first)


def page(module: RecursiveScriptModule) -> str:
    """A page with the picture and the text of a program."""
    return html_page(module._programs.name, drawing(module), program_text(module))


def html_page(name: str, svg: str, text: str) -> str:
    """A page of a picture and a text."""
    name = html.escape(name)
    return document(
        title=name,
        heading=f"<code>{name}</code>",
        style=GRAPH_STYLE,
        body="<h2>Graph</h2>\n"
        '<input type="checkbox" id="fit" checked> <label for="fit">fit to the page</label>\n'
        f'<div class="graph">{svg}</div>\n<h2>Text</h2>\n<pre>{html.escape(text)}</pre>',
        script="",
    )


def run(module: RecursiveScriptModule, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The results for these arguments; floats of another precision are converted."""
    positional, by_name = module._programs.cast(values, named)
    return module(*positional, **by_name)
