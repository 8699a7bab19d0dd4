"""A model and example arguments as a graph, with the arrays that it captures."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rushlight.autograd.modes import local, no_grad
from rushlight.export.changing import Changing
from rushlight.export.dynamic_shapes import Changes
from rushlight.graph.arguments import fields_of, flatten, is_record
from rushlight.graph.attributes import nested
from rushlight.graph.extents import Condition, Extents
from rushlight.graph.ir import Graph, Node
from rushlight.graph.scalars import Scalar
from rushlight.graph.script.says import COUNT, Say
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.onnx.options import OnnxExporterError, state
from rushlight.onnx.sizes import depends_on_sizes
from rushlight.ops.base import Op
from rushlight.runtime.shapes import Shapes
from rushlight.runtime.specialization import specialize, tracing
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor


class Traced(NamedTuple):
    """The graph of a call."""

    graph: Graph
    captured: dict[Node, np.ndarray]
    names: dict[Node, str]  # of captured values: those of parameters and buffers
    parameters: set[Node]  # captured values that are learnt
    outputs: list[str]  # the names that the structure of the result suggests
    numbers: dict[Node, Any]  # captured values that are computed from sizes, by their formulas
    symbols: dict[str, str]  # names of sizes that change, by their symbols
    possible: Callable[[Any], bool] | None  # whether the graph is right for sizes, by symbols
    conditions: list[Condition]  # on sizes, without which the graph is another one
    generators: list[Node]  # captured states of random generators
    said: list[str]  # the lines that print or check values, which the graph need not do


class Call:
    """The call to be traced: its results are the tensors in what the model returns.

    So are numbers that depend on tensors.
    """

    def __init__(self, model: Callable[..., Any], whole: Collection[Op]) -> None:
        self.model, self.whole = model, whole
        self.outputs: list[str] = []

    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        trace = local.state.trace
        trace.whole = self.whole
        found = named_results(self.model(*args, **kwargs))
        self.outputs = [name for name, _ in found]
        return [t.clone() for _, t in found]  # none is an argument, or a view of another one


def trace(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    whole: Collection[Op],
    inputs: Sequence[str],
    changes: Sequence[Changes],
) -> Traced:
    """The graph of ``model(*args, **kwargs)`` without gradients; ops of ``whole`` are kept as such.

    Those sizes of the ``inputs`` that change are symbols in it. Nothing is changed: neither the
    model nor its buffers.
    """
    call, arguments = Call(model, whole), flatten(args, kwargs, set())

    def attempt(shapes: Shapes | None) -> Any:
        return specialize(call, arguments, set(), only_graph=True, shapes=shapes)

    state.exporting = True
    try:
        with no_grad(), tracing:
            made, keys = Changing(arguments.tensors, changes).traced(attempt)
    except TraceError as error:  # SizeError is one
        raise OnnxExporterError(str(error)) from None
    finally:
        state.exporting = False
    captures = [c for c in made.trace.captures if c.generator is None]
    generators = [c.node for c in made.trace.captures if c.generator is not None]
    arrays = {c.node: np.asarray(made.trace.values[c.node]) for c in captures}
    known = tensor_names(model)
    names = {c.node: known.get(id(c.tensor)) or made.graph.names[c.node] for c in captures}
    parameters = {c.node for c in captures if isinstance(c.tensor, Parameter)}
    hosts = made.trace.numbers.symbols.values()
    numbers = {s.node: h.formula for h, s in hosts if depends_on_sizes(h.formula)}
    symbols = {symbol: label_of(key, inputs) for symbol, key in keys.items()}
    extents = made.trace.extents
    possible = None if extents is None else extents.possible
    conditions = [] if extents is None else decisive(extents)
    counts = [c.node for c in captures if c.tensor is COUNT]
    writes = tuple([pair for pair in made.graph.writes if pair[0] not in counts])
    return Traced(
        replace(made.graph, writes=writes), arrays, names, parameters, call.outputs, numbers,
        symbols, possible, conditions, generators, list(dict.fromkeys(lines_said(made.graph))),
    )  # fmt: skip


def decisive(extents: Extents) -> list[Condition]:
    """The conditions without which the graph is another one.

    That a size equals another one, or 1, is asked by ops that broadcast, whose nodes are the same.
    """
    return [
        c
        for c in extents.conditions
        if c in extents.choices or c.relation not in (operator.eq, operator.ne)
    ]


def lines_said(graph: Graph) -> Iterator[str]:
    """The lines of a graph, and of those inside, that print or check values."""
    for node in graph.nodes():
        if isinstance(node.op, Say):
            yield str(node.source)
        for inner in nested(node.attrs):
            yield from lines_said(inner)


def label_of(key: Any, inputs: Sequence[str]) -> str:
    """The name of a size; one that has none is called by its place."""
    return key if isinstance(key, str) else f"{inputs[key[0]]}_dim_{key[1]}"


def tensor_names(model: Any) -> dict[int, str]:
    """What the parameters and buffers of a module are called in it."""
    if not isinstance(model, Module):
        return {}
    named = (*model.named_parameters(), *model.named_buffers())
    return {id(t): name for name, t in reversed(named)}


def named_tensors(value: Any, name: str, inner: bool = False) -> list[tuple[str, Tensor]]:
    """The tensors in an argument or result, by names: keys of dicts, numbers of others.

    >>> x = rl.ones(1)
    >>> [name for name, _ in named_tensors({"loss": x, "rest": [x, x]}, "output")]
    ['loss', 'rest_0', 'rest_1']
    >>> [name for name, _ in named_tensors((x, {"loss": x}), "output")]
    ['output_0', 'output_1_loss']
    """
    return [(n, leaf) for n, leaf in named_leaves(value, name, inner) if isinstance(leaf, Tensor)]


def named_results(value: Any) -> list[tuple[str, Tensor]]:
    """The tensors in a result, and the numbers that depend on tensors."""
    leaves = named_leaves(value, "output")
    found = [(name, x.tensor if isinstance(x, Scalar) else x) for name, x in leaves]
    return [(name, t) for name, t in found if isinstance(t, Tensor)]


def named_leaves(value: Any, name: str, inner: bool = False) -> list[tuple[str, Any]]:
    """The tensors and numbers in an argument or result, named so."""
    if isinstance(value, (Tensor, Scalar, bool, int, float)):
        return [(name, value)]
    parts: Mapping[str, Any] = {}
    if isinstance(value, Mapping):
        parts = {f"{name}_{key}" if inner else str(key): part for key, part in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = {f"{name}_{key}" if inner else key: getattr(value, key) for key in value._fields}
    elif isinstance(value, (tuple, list)):
        parts = {f"{name}_{i}": part for i, part in enumerate(value)}
    elif is_record(value):
        parts = {f"{name}_{key}" if inner else key: part for key, part in fields_of(value)}
    return [found for key, part in parts.items() for found in named_leaves(part, key, True)]
