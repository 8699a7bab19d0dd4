"""Ops that programs have engines for, as other ops: loops over time, attention, fused layers."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.modes import local
from rushlight.c import convolutions, orders
from rushlight.c.file import Unsupported
from rushlight.control import scan
from rushlight.graph.attributes import nested
from rushlight.graph.control import Control
from rushlight.graph.ir import ITEM, Graph, Node, TensorType, copy, item, rebuild, walk
from rushlight.graph.trace import Trace
from rushlight.kernels.cells import Blocks
from rushlight.ops.attention_blocks import Blocked
from rushlight.ops.base import Op, ops, registry
from rushlight.ops.fused import Fused
from rushlight.ops.recurrent_scans import Scan
from rushlight.ops.views import View
from rushlight.passes.clusters import is_library
from rushlight.tensor import Tensor, wrap

FORMULAS = {**orders.FORMULAS, **convolutions.FORMULAS}
CLONE, PERMUTE = registry["clone"], registry["permute"]


def plain(graph: Graph) -> Graph:
    """The graph with ops of engines replaced by what they are made of."""
    parts: dict[Node, Sequence[Node]] = {}

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        if node.op is ITEM and inputs[0] in parts:
            return parts[inputs[0]][node.attrs["index"]]
        node = copy(node, inputs)
        attrs = node.attrs
        if any(True for _ in nested(attrs)):
            attrs = {name: inside(value) for name, value in attrs.items()}
            return dataclasses.replace(node, attrs=attrs)
        order = attrs.get("order")
        if "generator" in attrs and order is not None and list(order) != sorted(order):
            parts[node] = in_order(node)
            return node
        formula = formula_of(node)
        if formula is None:
            return node
        made = inlined(formula, node)
        if made is None:
            return node
        if not isinstance(node.type, tuple):
            return made[0]
        parts[node] = made
        return node  # which nobody uses any more

    return rebuild(graph, change)


def in_order(node: Node) -> Sequence[Node]:
    """A draw that fills memory in another order, as one in order that is permuted afterwards."""
    order = [int(d) for d in node.attrs["order"]]
    back = tuple([order.index(d) for d in range(len(order))])
    first, state = node.type
    kind = TensorType(tuple([first.shape[d] for d in order]), first.dtype)
    operands = [
        n
        if n is None or n.type.shape != first.shape
        else Node(
            PERMUTE, (n,), {"dims": tuple(order)}, dataclasses.replace(kind, dtype=n.type.dtype)
        )
        for n in node.inputs
    ]
    attrs = {**node.attrs, "order": tuple(sorted(order))}
    draw = Node(node.op, tuple(operands), attrs, (kind, state), node.source)
    return [Node(PERMUTE, (item(draw, 0),), {"dims": back}, first, node.source), item(draw, 1)]


def contiguous(graph: Graph) -> Graph:
    """The graph in which calls read no views, but copies of them; products know about strides."""

    def own(node: Node | None) -> Node | None:
        if node is None or not isinstance(node.op, View):
            return node
        return Node(CLONE, (node,), {"order": None}, node.type, node.source)

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        is_call = isinstance(node.op, Op) and is_library(node) and node.op.subscripts is None
        called = is_call and not isinstance(node.op, Control)  # whose operands are no views
        return copy(node, tuple(map(own, inputs)) if called else inputs)

    return rebuild(graph, change)


def inside(value: Any) -> Any:
    """An attribute, with the graphs that it holds made plain."""
    if isinstance(value, Graph):
        return plain(value)
    return tuple([inside(v) for v in value]) if isinstance(value, tuple) else value


def formula_of(node: Node) -> Callable[..., Any] | None:
    """What an op is made of: a function of tensors; None if it stays."""
    op: Any = node.op
    if isinstance(op, Scan):
        formula: Any = functools.partial(back if op.backward else forth, op)
    elif isinstance(op, Blocked):
        formula = attend if op.name == "attend" else attend_gradient
    elif isinstance(op, Fused) and op.name != "fused_gradient":
        formula = op.formula
    else:
        formula = FORMULAS.get(op.full_name)
    return formula and functools.partial(formula, **node.attrs)


def inlined(formula: Callable[..., Any], node: Node) -> Sequence[Node] | None:
    """The nodes of a formula's results, over the inputs of ``node``; None if it stays."""
    trace = Trace()
    kinds = [None if n is None else n.type for n in node.inputs]
    tensors = [k and wrap(np.zeros(k.shape, k.dtype.numpy)) for k in kinds]
    recording, local.state.grad = local.state.grad, False
    try:
        found = trace.call(lambda: run(formula, trace, tensors))
        if found[0] is None:
            return None
        graph = trace.finish(found)
    finally:
        trace.restore()
        local.state.grad = recording
    if graph.captured:
        raise Unsupported(f"export_c: {node.op.full_name} reads tensors of outside")
    new: dict[Any, Any] = {None: None}
    new.update(zip(graph.inputs, [n for n in node.inputs if n is not None], strict=True))
    for part in walk(graph.roots, graph.inputs):
        renewed = copy(part, tuple([new[n] for n in part.inputs]))
        new[part] = dataclasses.replace(renewed, source=node.source)
    return [new[n] for n in graph.outputs]


def run(formula: Callable[..., Any], trace: Trace, tensors: Sequence[Any]) -> tuple[Any, ...]:
    found = formula(*[t if t is None else trace.input(t) for t in tensors])
    return found if isinstance(found, tuple) else (found,)


def blocks(x: Tensor, size: int) -> Blocks:
    """Columns as blocks of that size."""
    return Blocks(x.split(size, -1))


def beside(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else ops.cat(list(parts), -1)


def by_step(x: Tensor, steps: int) -> Tensor:
    return x.view((steps, x.shape[0] // steps, *x.shape[1:]))


def forth(op: Scan, z: Any, *others: Any, steps: int, reverse: bool) -> Any:
    """The steps of a recurrent layer: all states, one row of them more than steps, and blocks."""
    cell, named = op.cell, dict(zip(op.operands[1:], others, strict=True))
    w_hh, b_hh = named["w_hh"], named.get("b_hh")
    size = w_hh.shape[1]

    def step(states: Any, given: Any) -> Any:
        p = states[0].mm(w_hh.t())
        p = p if b_hh is None else p + b_hh
        new, kept = cell.forward(ops, blocks(given, size), blocks(p, size), *states)
        return tuple(new), (*states, *[beside(parts) for parts in kept])

    last, found = scan(step, others[: cell.states], by_step(z, steps), reverse=reverse)
    before, kept = found[: cell.states], found[cell.states :]
    rows = [x.flatten(0, 1) for x in before]
    pairs = zip(rows, last, strict=True)
    states = [ops.cat([end, x] if reverse else [x, end], 0) for x, end in pairs]
    return (*states, *[x.flatten(0, 1) for x in kept])


def back(op: Scan, dy: Any, *others: Any, steps: int, reverse: bool) -> Any:
    """The steps of a recurrent layer taken back."""
    cell, w_hh = op.cell, others[-1]
    first, read = others[: cell.states], others[cell.states : cell.states + len(cell.reads)]
    size = w_hh.shape[1]

    def step(states: Any, given: Any) -> Any:
        here, *saved = given
        now = (states[0] + here, *states[1:])
        found, (rest, *rests) = cell.backward(ops, now, *[blocks(x, size).parts for x in saved])
        gradients = [beside(parts) for parts in found]
        h = gradients[-1].mm(w_hh)
        return (h if rest is None else h + rest, *rests), tuple(gradients)

    rows = tuple([by_step(x, steps) for x in (dy, *read)])
    last, gradients = scan(step, tuple(first), rows, reverse=not reverse)
    return (*[x.flatten(0, 1) for x in gradients], *last)


def attend(q: Any, k: Any, v: Any, bias: Any, noise: Any, *, scale: float, causal: bool) -> Any:
    """Attention with all of its weights at once."""
    s = masked_scores(q, k, bias, scale, causal)
    top = s.amax(-1, keepdim=True)
    top = ops.where(top == -math.inf, ops.zeros_like(top), top)
    p = (s - top).exp()
    total = p.sum(-1, keepdim=True)
    total = ops.where(total == 0, ops.ones_like(total), total)
    weights = p if noise is None else p * noise
    return weights.matmul(v) / total, top, total


def attend_gradient(
    g: Any, y: Any, tops: Any, totals: Any, q: Any, k: Any, v: Any, bias: Any, noise: Any,
    *, scale: float, causal: bool,
) -> Any:  # fmt: skip
    p = (masked_scores(q, k, bias, scale, causal) - tops).exp()
    dy = g / totals
    dp = dy.matmul(v.mT)
    weights = p
    if noise is not None:
        dp, weights = dp * noise, p * noise
    dv = weights.mT.matmul(dy)
    dp = (dp - (dy * y).sum(-1, keepdim=True)) * p * scale
    found = (dp.matmul(k), dp.mT.matmul(q), dv)
    return tuple([d.sum_to_size(x.shape) for d, x in zip(found, (q, k, v), strict=True)])


def masked_scores(q: Any, k: Any, bias: Any, scale: float, causal: bool) -> Any:
    s = (q * scale).matmul(k.mT)
    if bias is not None:
        s = s + bias
    if causal:
        future = ops.ones(s.shape[-2:], dtype=ops.gt(s, 0).dtype).triu(1)
        s = s.masked_fill(future, -math.inf)
    return s
