"""The border of an exported program: its arguments, its results, and the state that it keeps."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.graph.effects import Capture
from rushlight.graph.ir import Graph, Node, type_of
from rushlight.graph.script.says import COUNT
from rushlight.runtime.traced import Traced
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

KEYWORDS = frozenset(
    (
        *("auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else"),
        *("enum", "extern", "float", "for", "goto", "if", "inline", "int", "long", "register"),
        *("restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch"),
        *("typedef", "union", "unsigned", "void", "volatile", "while", "asm", "bool", "true"),
        *("false", "class", "new", "delete", "this", "template", "typename", "namespace"),
        *("private", "public", "protected", "operator", "errno", "stdin", "stdout", "stderr"),
        *("unix", "linux", "NULL", "EOF", "NAN", "INFINITY", "I", "require"),
        *("self", "memory", "AT", "ROW", "fault", "checked", "memcpy", "free", "realloc"),
    )
)
"""Names that mean something in C, in C++ or in a program."""

OWN = re.compile(r"(kernel|product|tile|constant|weight)_\d+|t\d+|[a-z]+_[a-z]+\d+.*|_.*")


class Border(NamedTuple):
    """A graph whose outputs are the results, and whose writes are all that is left behind.

    ``values`` are what captured nodes hold at first; ``numbers`` the inputs that are floats of
    Python's, and what they are in the example.
    """

    graph: Graph
    values: Mapping[Node, np.ndarray]
    inputs: tuple[str, ...]
    numbers: Mapping[str, float]


def border(function: Callable[..., Any], traced: Traced, floats: Sequence[Tensor] = ()) -> Border:
    """The border of a traced call, in which some tensors stand for floats."""
    trace, graph = traced.trace, traced.graph
    if trace.assigned:
        raise TraceError(
            "the first call of the function makes state that later calls use (an optimizer's "
            "momentum): call it once before it is exported"
        )
    count = len(traced.arguments.tensors)
    results = graph.outputs[: len(traced.results)]
    gradients = {id(t): node for t, node in trace.effects.gradients}
    captured = {id(c.tensor): c.node for c in trace.captures if c.tensor is not None and not c.grad}
    writes = {**dict(graph.writes), **entries(traced, results), **kept_gradients(traced)}
    leaves = {id(t): n for t, n in zip(traced.arguments.tensors, graph.inputs, strict=False)}

    def found(kind: str, what: Any) -> Node:
        if kind == "output":
            return results[what]
        if kind == "gradient":
            return gradients.get(id(what)) or latest(gradient_node(trace.captures, what))
        if kind == "argument":
            return latest(graph.inputs[what])
        if kind == "captured":
            return latest(captured[id(what)])
        whole, views, _ = what
        base = results[whole] if kind == "part" else latest((captured | leaves)[id(whole)])
        return viewed(base, views)

    def latest(node: Node) -> Node:
        return writes.get(node, node)

    outputs = tuple([found(*how) for how in traced.returned])
    spoken = {c.node: "checks" for c in trace.captures if c.tensor is COUNT}
    own = dataclasses.replace(
        graph, inputs=graph.inputs[:count], outputs=outputs, writes=tuple(writes.items()),
        names={**graph.names, **spoken},
    )  # fmt: skip
    values = {c.node: value_of(c) for c in trace.captures}
    inputs = input_names(function, traced)
    pairs = zip(inputs, traced.arguments.tensors, strict=True)
    numbers = {name: t.item() for name, t in pairs if any([t is other for other in floats])}
    return Border(own, values, inputs, numbers)


def entries(traced: Traced, results: tuple[Node, ...]) -> dict[Node, Node]:
    """New values of tensors that the function keeps in attributes and the like."""
    found = {}
    for change, place in zip(traced.changes, traced.hidden, strict=True):
        nodes = [c.node for c in traced.trace.captures if c.tensor is change.before]
        if change.before is not None and not nodes:
            continue  # it is replaced without ever being read
        if not nodes:
            raise TraceError(
                f"the first call of the function makes state that later calls use ({change}): "
                "call it once before it is exported"
            )
        found[nodes[0]] = results[place]
    return found


def kept_gradients(traced: Traced) -> dict[Node, Node]:
    """New values of gradients that the next call adds to."""
    trace, found = traced.trace, {}
    read = {id(t): before for t, before in trace.grads_read.values()}
    for t, node in trace.effects.gradients:
        if id(t) not in read or node is None:
            continue
        if read[id(t)] is None:
            raise TraceError(
                "the function adds to gradients that are not there yet: call it once before it is "
                "exported, or begin it with optimizer.zero_grad()"
            )
        found[gradient_node(trace.captures, t)] = node
    return found


def gradient_node(captures: list[Capture], t: Tensor) -> Node:
    return next(c.node for c in captures if c.grad and c.tensor is t)


def viewed(base: Node, views: Any) -> Node:
    """The view of a value that a chain of view ops makes."""
    if views is None:
        return base
    before, op, attrs = views
    whole = viewed(base, before)
    like = np.empty(whole.type.shape, whole.type.dtype.numpy)
    return Node(op, (whole,), dict(attrs), type_of(op.compute([like], attrs)), whole.source)


def value_of(capture: Capture) -> np.ndarray:
    """What a captured value is now."""
    if capture.generator is not None:
        return capture.generator.get_state()
    if capture.number is not None:
        return np.array(capture.number(), np.float64)
    if capture.tensor is COUNT:  # how often this process has checked something does not matter
        return np.zeros_like(COUNT._array)
    array = capture.tensor._grad._array if capture.grad else capture.tensor._array
    return np.ascontiguousarray(array)


def input_names(function: Callable[..., Any], traced: Traced) -> tuple[str, ...]:
    """Names of the arguments: those of the function's parameters, where they are tensors."""
    names = {}
    try:
        called = getattr(function, "forward", function)
        bound = inspect.signature(called).bind(*traced.arguments.args, **traced.arguments.kwargs)
        names = {id(x): name for name, x in bound.arguments.items() if isinstance(x, Tensor)}
    except (TypeError, ValueError):
        pass
    found: list[str] = []
    for i, t in enumerate(traced.arguments.tensors):
        name = identifier(names.get(id(t), f"input{i}"))
        taken = [other.upper() for other in found]  # macros are named after them
        found.append(name if name.upper() not in taken else f"{name}_{i}")
    return tuple(found)


def identifier(text: str) -> str:
    """A name of C that means nothing else.

    >>> identifier("layers.0.weight"), identifier("int"), identifier("betas[0]")
    ('layers_0_weight', 'int_', 'betas_0')
    """
    name = re.sub(r"\W+", "_", re.sub(r"\W+$", "", text, flags=re.ASCII), flags=re.ASCII)
    name = name if name.strip("_") and not name[0].isdigit() else f"x{name}"
    return f"{name}_" if name in KEYWORDS or OWN.fullmatch(name) else name
