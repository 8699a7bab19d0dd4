"""A program as text that reads like Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.config import config
from rushlight.graph.attributes import Nested, literal, nested
from rushlight.graph.ir import CONSTANT, ITEM, Graph, Node
from rushlight.jit.numbers import Formula
from rushlight.jit.program import Program
from rushlight.jit.structure import Shape, filled

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "mm": "@", "eq": "==", "ne": "!=",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip


def code_of(program: Program, name: str) -> str:
    """The source of a function that would compute what a program does.

    >>> print(rl.jit.trace(lambda x: x.exp() + 1, rl.ones(2)).code)
    def f(x):
        v0 = rl.exp(x)
        v1 = v0 + 1.0
        v2 = rl.clone(v1)
        return v2
    """
    border, graph = program.border, program.forward_graph
    names, floats = names_of(program, graph)
    bound = any([kind == "tensor" for kind, _ in border.captured])
    heads = ["self"] * bound + [argument for argument, _ in border.arguments]
    lines = body(graph, names)
    lines += [f"{names[target]}.copy_({names[value]})" for target, value in graph.writes]
    results = [names[node] for node in graph.outputs[: border.count]]
    numbers = [shown_formula(formula, floats) for formula in border.returned]
    value = filled(border.result, [Name(r) for r in results], lambda i: Name(numbers[i]))
    lines.append(f"return {value!r}")
    return "\n".join([f"def {name}({', '.join(heads)}):", *[f"    {line}" for line in lines]])


def names_of(program: Program, graph: Graph) -> tuple[dict[Node, str], dict[int, str]]:
    """What arguments, captured values, and floats among the arguments are called."""
    border = program.border
    names: dict[Node, str] = {}
    floats: dict[int, str] = {}
    for argument, shape in border.arguments:
        name_parts(argument, shape, graph, names, floats)
    for node, (kind, what) in zip(graph.captured, border.captured, strict=True):
        if kind in ("tensor", "gradient"):
            names[node] = f"self.{program.state.name_of(what)}" + ".grad" * (kind == "gradient")
        elif kind == "number":
            names[node] = shown_formula(what, floats)
        else:
            names[node] = f"{kind}{what}"
    return names, floats


class Name(str):
    """A name in a result, which is shown as it is."""

    def item(self) -> Name:
        return Name(f"{self}.item()")

    def __repr__(self) -> str:
        return str(self)


def name_parts(
    name: str, shape: Shape, graph: Graph, names: dict[Node, str], floats: dict[int, str]
) -> None:
    """The names of the tensors and floats in an argument."""
    kind, *content = shape
    if kind == "tensor":
        names.setdefault(graph.inputs[content[0]], name)
    elif kind == "number":
        floats[content[0]] = name
    elif kind == "dict":
        for key, inner in content[0]:
            name_parts(f"{name}[{key!r}]", inner, graph, names, floats)
    elif kind != "plain":
        for i, inner in enumerate(content[-1]):
            name_parts(f"{name}[{i}]", inner, graph, names, floats)


def shown_formula(formula: Formula, floats: Mapping[int, str]) -> str:
    """A number that is read at each call; those that have a name are in ``self.numbers``."""
    if isinstance(formula, float):
        return literal(formula)
    kind, *operands = formula
    if kind == "argument":
        return floats[operands[0]]
    if kind == "number":
        return f"self.numbers[{operands[0]!r}]"
    if kind == "size":
        return str(operands[0])
    return f"{kind}({', '.join([shown_formula(each, floats) for each in operands])})"


def body(graph: Graph, names: dict[Node, str], prefix: str = "v") -> list[str]:
    """A line for each node that is no leaf and no small constant; graphs inside are functions."""
    lines: list[str] = []
    count = 0
    for node in graph.nodes():
        if node in names:
            continue
        if node.op is ITEM:
            (whole,) = node.inputs
            names[node] = f"{names[whole]}[{node.attrs['index']}]"  # type: ignore[index]
            continue
        if node.op is CONSTANT and node.attrs["value"].size == 1 and not node.type.shape:
            names[node] = literal(node.attrs["value"].item())
            continue
        name = names[node] = f"{prefix}{count}"
        count += 1
        inside = []
        for i, inner in enumerate(nested(node.attrs)):
            inside.append(f"{name}_{i}")
            lines += function(inner, f"{name}_{i}")
        lines.append(f"{name} = {expression(node, names, inside)}")
    return lines


def function(graph: Graph, name: str) -> list[str]:
    """A graph inside a node as a function of its own."""
    names = {node: f"a{i}" for i, node in enumerate((*graph.inputs, *graph.captured))}
    lines = [f"def {name}({', '.join(names.values())}):"]
    lines += [f"    {line}" for line in body(graph, names, f"{name}_v")]
    return [*lines, f"    return {', '.join([names[n] for n in graph.outputs])}"]


def expression(node: Node, names: Mapping[Node, str], inside: Sequence[str]) -> str:
    operands = ["None" if n is None else names[n] for n in node.inputs]
    if node.op.name in SIGNS and len(operands) == 2 and not node.attrs:
        return f" {SIGNS[node.op.name]} ".join(operands)
    if node.op is CONSTANT:
        return literal(node.attrs["value"])
    functions = iter(inside)
    attrs = []
    for name, value in node.attrs.items():
        if value is not None and name != "generator":
            attrs.append(f"{name}={shown(value, functions)}")
    module = "torch" if config.public_name == "torch" else "rl"
    return f"{module}.{node.op.full_name}({', '.join([*operands, *attrs])})"


def shown(value: Any, functions: Any) -> str:
    """An attribute; a graph is the name of the function that it has become."""
    if isinstance(value, Nested):
        return next(functions)
    if isinstance(value, tuple) and any([isinstance(each, Nested) for each in value]):
        return f"({', '.join([shown(each, functions) for each in value])})"
    return literal(value)
