"""Constants: what depends on nothing else is computed once, at compile time.

A value whose elements are all equal is kept as one number that is expanded, whatever its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.autograd.modes import local
from rushlight.dims import Dim, symbols_of
from rushlight.graph.control import Control
from rushlight.graph.ir import CONSTANT, ITEM, Graph, Node, compute, constant
from rushlight.graph.rewrite import EXPAND, Rewriter, number_of, rewrite
from rushlight.ops.base import Op

LIMIT = 65536  # bytes of a result that is worth keeping with the program
FILLS = {
    "zeros": 0, "ones": 1, "empty": 0, "zeros_like": 0, "ones_like": 1, "empty_like": 0,
}  # fmt: skip
STILL = frozenset(
    (
        *("permute", "transpose", "view", "squeeze", "unsqueeze", "slice", "select", "diagonal"),
        *("unfold", "subscript", "flip", "roll", "repeat", "clone"),
    )
)
"""Ops that only move elements of their first operand: equal elements stay what they are."""


def fold_constants(graph: Graph) -> Graph:
    """The graph with everything computed that depends on constants alone."""
    return rewrite(graph, fold)


def fold(node: Node, rewriter: Rewriter) -> Node | None:
    """The constant that ``node`` is, if it is one; a step of rewriting."""
    op = node.op
    if op is CONSTANT:
        return uniform(node.attrs["value"], rewriter)
    if not isinstance(op, Op):
        return computed_item(node, rewriter) if op is ITEM else None
    name = op.full_name
    if name in FILLS or name in ("full", "full_like"):
        number = FILLS[name] if name in FILLS else node.attrs["fill_value"]
        return filled(np.asarray(number).astype(node.type.dtype.numpy), node, rewriter)
    if name in STILL:
        number = number_of(node.inputs[0])
        if number is not None and node.inputs[0].op is EXPAND:  # type: ignore[union-attr]
            return filled(np.asarray(number), node, rewriter)
    if op is EXPAND or not all([n is not None and n.op is CONSTANT for n in node.inputs]):
        return None
    return computed(node, rewriter)


def filled(number: np.ndarray, node: Node, rewriter: Rewriter) -> Node:
    """One number in every element of ``node``."""
    one = rewriter.normal(constant(number, node.source))
    shape = node.type.shape
    return one if not shape else rewriter.make(EXPAND, (one,), {"size": shape}, node.type)


def uniform(value: np.ndarray, rewriter: Rewriter) -> Node | None:
    """A constant of equal elements (bit for bit) as one number expanded."""
    if not value.ndim or not value.size or value.nbytes > LIMIT:
        return None
    first = value[(0,) * value.ndim]
    if value.size > 1 and value.tobytes() != first.tobytes() * value.size:
        return None
    one = rewriter.normal(constant(np.asarray(first)))
    return rewriter.make(EXPAND, (one,), {"size": value.shape})


def computed(node: Node, rewriter: Rewriter) -> Node | None:
    """The result of a node of constants."""
    y = None if isinstance(node.type, tuple) else result(node)
    return None if y is None else kept(y, node, rewriter)


def computed_item(node: Node, rewriter: Rewriter) -> Node | None:
    """One of the results of a node of constants."""
    (whole,) = node.inputs
    assert whole is not None
    if isinstance(whole.op, Control):  # which may take long, or for ever
        return None
    constant_inputs = whole.inputs and all([n and n.op is CONSTANT for n in whole.inputs])
    y = result(whole) if constant_inputs else None
    return None if y is None else kept(y[node.attrs["index"]], node, rewriter)


def result(node: Node) -> Any:
    """What the node computes, if that is small and there is no error to be raised."""
    kinds = node.type if isinstance(node.type, tuple) else (node.type,)
    total = sum([kind.nbytes for kind in kinds])
    if isinstance(total, Dim) or total > LIMIT or symbols_of([*node.attrs.values()]):
        return None
    arrays = [n.attrs["value"] for n in node.inputs if n is not None]
    try:
        return local.state.run(compute, node, arrays)
    except Exception:  # the program raises it when, and if, it comes to this node
        return None


def kept(value: np.ndarray, node: Node, rewriter: Rewriter) -> Node:
    return rewriter.normal(constant(np.array(value, order="C"), node.source))
