"""The graph of a model, as TensorBoard draws it: ops, nested by the modules they ran in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.autograd.modes import enable_grad
from rushlight.autograd.tape import Node, edge, next_sequence
from rushlight.board import protobuf as pb
from rushlight.board.summaries import shape_message
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class Scopes:
    """Which module an op ran in, told by the op's sequence number."""

    def __init__(self, model: Module) -> None:
        self.spans: list[tuple[int, int, str]] = []  # the inner module's span comes first
        self.started: list[int] = []
        self.handles = []
        root = type(model).__name__
        for path, module in model.named_modules():
            name = "/".join([root, *filter(None, path.split("."))])
            before = module.register_forward_pre_hook(lambda *_: self.started.append(now()))
            after = module.register_forward_hook(
                lambda *_, name=name: self.spans.append((self.started.pop(), now(), name))
            )
            self.handles += [before, after]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def of(self, sequence: int) -> str:
        for first, last, name in self.spans:
            if first < sequence < last:
                return f"{name}/"
        return ""


def now() -> int:
    return next_sequence()


def graph_event(model: Module, inputs: Any) -> bytes:
    """An event's field: the graph of ``model(*inputs)``."""
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    arguments = tuple([watched(t) for t in arguments])
    scopes = Scopes(model)
    try:
        with enable_grad():
            outputs = model(*arguments)
    finally:
        scopes.remove()
    nodes = list(definitions(model, arguments, outputs, scopes))
    graph = b"".join([pb.data(1, node) for node in nodes]) + pb.data(4, pb.integer(1, 22))
    return pb.data(4, graph)


def watched(value: Any) -> Any:
    """An input that wants a gradient, so that every op on the way is on the tape."""
    if isinstance(value, Tensor) and value.dtype.is_floating_point:
        return value.detach().requires_grad_()
    return value


def definitions(
    model: Module, arguments: tuple[Any, ...], outputs: Any, scopes: Scopes
) -> Iterator[bytes]:
    """The messages of all nodes: inputs, parameters, ops, outputs."""
    names: dict[Any, str] = {}
    root = type(model).__name__
    for path, t in (*model.named_parameters(), *model.named_buffers()):
        names[t] = "/".join([root, *path.split(".")])
    for i, t in enumerate(arguments):
        if isinstance(t, Tensor):
            names[t] = f"input/{i}"
    kinds = {
        t: "IO Node" if name.startswith("input/") else "Parameter" for t, name in names.items()
    }
    results = [t for t in tensors_in(outputs) if edge(t) is not None]
    ops = reached([edge(t) for t in results])
    for node in ops:
        if isinstance(node, Node):
            title = node.name().removesuffix("Backward0")
            names[node] = f"{scopes.of(node.sequence)}{title}_{len(names)}"
    for e in names:
        inputs = []
        if isinstance(e, Node):
            inputs = [names[i] for i in e.edges if i is not None and i in names]
            kind, shape = e.name().removesuffix("Backward0"), e.shape
        else:
            kind, shape = kinds[e], tuple(e.shape)
        yield definition(names[e], kind, inputs, shape)
    for i, t in enumerate(results):
        yield definition(f"output/{i}", "IO Node", [names[edge(t)]], tuple(t.shape))


def definition(name: str, kind: str, inputs: list[str], shape: tuple[int, ...]) -> bytes:
    shapes = pb.data(1, pb.data(7, shape_message(shape)))
    return (
        pb.text(1, name)
        + pb.text(2, kind)
        + b"".join([pb.text(3, i) for i in inputs])
        + pb.entry(5, "_output_shapes", shapes)
    )


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def reached(starts: list[Any]) -> list[Any]:
    """All nodes that lead to ``starts``, in the order they were made."""
    seen: set[Any] = set()
    stack = list(starts)
    while stack:
        e = stack.pop()
        if isinstance(e, Node) and e not in seen:
            seen.add(e)
            stack.extend(e.edges)
    return sorted(seen, key=lambda node: node.sequence)
