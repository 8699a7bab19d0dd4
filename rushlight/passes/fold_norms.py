"""Batch norms with fixed statistics become part of the convolution before them.

    d + (x * w + b) · s  =  x * (w · s) + (d + b · s)

Scale s and shift d have one number for each channel, so that the scaled weight is as large as the
weight. Where all of them are the same at every call, it is made once. A result is rounded as often
as before, but at other places: it differs in its last bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from math import prod
from typing import Any

from rushlight.graph.ir import Graph, Node, TensorType, copy, rebuild
from rushlight.ops.base import registry
from rushlight.ops.channels_last import Contract

ADD, MUL, ADDCMUL = registry["add"], registry["mul"], registry["addcmul"]
VIEW, MM = registry["view"], registry["mm"]


def fold_norms(graph: Graph, still: Collection[Node]) -> Graph:
    """The graph with scales of products multiplied into their weights, where these are ``still``.

    Args:
        still: the nodes that are the same at every call.
    """
    uses = Counter([n for node in graph.nodes() for n in node.inputs])
    uses.update(graph.roots)

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        return folded(node, inputs) if is_norm(node, uses, still) else copy(node, inputs)

    return rebuild(graph, change)


def is_norm(node: Node, uses: Counter[Node | None], still: Collection[Node]) -> bool:
    """Whether a node scales and shifts the channels of a product that nobody else reads."""
    if node.op is not ADDCMUL or node.attrs["value"] != 1 or node in still:
        return False
    shift, y, scale = node.inputs
    assert y is not None
    bias, product = parts(y)
    if product is None or product.inputs[1] not in still or y.type != node.type:
        return False
    if any([uses[n] != 1 for n in chain(y, product)]) or node.type.dtype.itemsize < 4:
        return False
    channels = node.type.shape[-1]
    few = [n for n in (shift, scale, bias) if n is not None]
    if not all([n in still and n.type.size == n.type.shape[-1] == channels for n in few]):
        return False
    return product.op is MM or bool(letters(product, channels))


def parts(y: Any) -> tuple[Node | None, Node | None]:
    """(bias, product) of a product, perhaps seen in another shape, to which a bias may be added."""
    bias = None
    if y.op is ADD:
        y, bias = y.inputs
    if y.op is VIEW:
        (y,) = y.inputs
    return bias, y if y.op is MM or isinstance(y.op, Contract) else None


def chain(y: Any, product: Node) -> list[Node]:
    """The nodes from ``y`` down to the product in it."""
    found = [y]
    while found[-1] is not product:
        found.append(found[-1].inputs[0])
    return found


def letters(product: Node, channels: int) -> str:
    """The letters of a contraction's weight that make its channels; none if they do not."""
    _, of_w, of_y = product.attrs["letters"]
    for count in (1, 2):  # with groups, they are two
        last, sizes = of_y[-count:], product.type.shape[-count:]
        if prod(sizes) == channels and [x for x in of_w if x in last] == [*last]:
            return last
    return ""


def folded(node: Node, inputs: tuple[Any, ...]) -> Node:
    """A norm as a product of a scaled weight, plus a vector."""
    shift, y, scale = inputs
    bias, product = parts(y)
    assert product is not None
    s, d = vector(scale), vector(shift)
    if bias is not None:
        d = Node(ADDCMUL, (d, vector(bias), s), node.attrs, d.type, node.source)
    x, w = product.inputs
    assert w is not None
    attrs, kind = product.attrs, product.type
    y = Node(product.op, (x, scaled(product, w, s)), attrs, kind, product.source)
    if kind != node.type:
        y = view(y, node.type.shape)
    return Node(ADD, (y, d), {}, node.type, node.source)


def scaled(product: Node, w: Node, s: Node) -> Node:
    """The weight of a product, each channel multiplied by its scale."""
    if product.op is MM:
        return times(w, s, (1, s.type.size))
    own = letters(product, s.type.size)
    pairs = zip(product.attrs["letters"][1], w.type.shape, strict=True)
    return times(w, s, tuple([n if x in own else 1 for x, n in pairs]))


def times(w: Node, s: Node, shape: tuple[int, ...]) -> Node:
    return Node(MUL, (w, view(s, shape)), {}, w.type, s.source)


def vector(x: Node) -> Node:
    """One number for each channel, in one dimension."""
    return view(x, (x.type.size,))


def view(x: Node, shape: tuple[int, ...]) -> Node:
    (below,) = x.inputs if x.op is VIEW else (x,)
    assert below is not None
    if below.type.shape == shape:
        return below
    return Node(VIEW, (below,), {"shape": shape}, TensorType(shape, x.type.dtype), x.source)
