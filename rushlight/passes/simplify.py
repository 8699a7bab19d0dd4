"""Simplification: constants, equations and equal expressions, in one way through the graph."""

from __future__ import annotations

from rushlight.dims import broadcast
from rushlight.graph.attributes import nested, with_nested
from rushlight.graph.control import Control
from rushlight.graph.ir import Graph, Node, TensorType
from rushlight.graph.rewrite import EXPAND, Rewriter, equations, rewrite
from rushlight.ops.base import Op
from rushlight.passes.fold_constants import fold
from rushlight.passes.gathered import multiply_first
from rushlight.passes.layout import sink
from rushlight.passes.rules import RULES


def simplify(graph: Graph) -> Graph:
    """The graph with constants computed, rules applied and equal expressions merged.

    >>> from rushlight.graph.parse import parse
    >>> print(simplify(parse('''
    ... graph(%0: f32[2,3]):
    ...   %1: f32[3,2] = transpose(%0, dim0=0, dim1=1)
    ...   %2: f32[3,2] = neg(%1)
    ...   %3: f32[3,2] = neg(%2)
    ...   %4: f32[2,3] = transpose(%3, dim0=1, dim1=0)
    ...   %5: f32[2,3] = add(%4, %0)
    ...   return %5
    ... ''')))
    graph(%0: f32[2,3]):
      %1: f32[2,3] = add(%0, %0)
      return %1
    """
    return rewrite(graph, fold, narrow, sink, apply_rules, multiply_first, simplify_inside)


apply_rules = equations(RULES)


def narrow(node: Node, rewriter: Rewriter) -> Node | None:
    """f(expand(x), y) = expand(f(x, y)): elementwise ops broadcast, so they repeat no work."""
    op = node.op
    if not isinstance(op, Op) or op.emit is None or isinstance(node.type, tuple):
        return None
    if not any([n is not None and n.op is EXPAND for n in node.inputs]):
        return None
    inputs = tuple([n.inputs[0] if n is not None and n.op is EXPAND else n for n in node.inputs])
    shape = broadcast(*[n.type.shape for n in inputs if n is not None])
    small = rewriter.make(op, inputs, node.attrs, TensorType(shape, node.type.dtype))
    if shape == node.type.shape:
        return small
    return rewriter.make(EXPAND, (small,), {"size": node.type.shape}, node.type)


def simplify_inside(node: Node, rewriter: Rewriter) -> Node | None:
    """Branches and loops hold graphs that are simplified, too."""
    if not isinstance(node.op, Control):
        return None
    graphs = map(simplify, nested(node.attrs))
    return Node(node.op, node.inputs, with_nested(node.attrs, graphs), node.type, node.source)
