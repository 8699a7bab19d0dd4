"""Layout: permutations move towards the outputs, until two of them meet and cancel.

A convolution gives channels last, permuted to where users have them. What is done to every element,
or folded over some dimensions, can as well be done before the permutation; so all between two
convolutions is stored, read and computed in the order of their channels, and only what enters or
leaves the network is ever transposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.dims import example
from rushlight.graph.ir import ITEM, Node, TensorType
from rushlight.graph.rewrite import EXPAND, VIEW, Rewriter
from rushlight.ops import average_pooling, channels_last, pooling
from rushlight.ops.base import Op, registry

PERMUTE = registry["permute"]
FOLDS = frozenset(
    [registry[name] for name in ("sum", "mean", "amax", "amin", "var", "std", "var_mean")]
)
POOLS = frozenset(
    [op for op in registry.values() if isinstance(op, (pooling.MaxPool, average_pooling.AvgPool))]
    + [registry["spread_largest"], registry["spread_average"]]
)
PAD, CAT, STORED = registry["constant_pad_nd"], registry["cat"], channels_last.STORED
SLICE = registry["slice"]
SMALL = 8  # an operand of so many times fewer elements may be transposed instead


def sink(node: Node, rewriter: Rewriter) -> Node | None:
    """f(permute(x)) = permute(f(x))."""
    op = node.op
    if op is ITEM:
        return item(node, rewriter)
    if not isinstance(op, Op) or not any([is_permuted(n) for n in node.inputs]):
        return None
    if isinstance(node.type, tuple) or not node.type.size:
        return None  # its items are looked at; or there is nothing to lay out
    if op in FOLDS:
        return permuted(*fold_below(node, rewriter), rewriter)
    if op in POOLS:
        if not is_permuted(node.inputs[-1]):
            return None
        return permuted(*pool_below(node, rewriter), rewriter)
    if op.emit is not None or op is STORED:
        return elementwise(node, rewriter)
    if op is PAD:
        return padded(node, rewriter)
    if op is SLICE:
        return sliced(node, rewriter)
    return joined(node, rewriter) if op is CAT else None


def is_permuted(node: Node | None) -> bool:
    return node is not None and node.op is PERMUTE


def order_of(node: Node) -> tuple[int, ...]:
    """The dimensions of the operand of a permutation, in the order of its result."""
    dims = node.attrs["dims"]
    return tuple([d % len(dims) for d in dims])


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    found = [0] * len(order)
    for place, d in enumerate(order):
        found[d] = place
    return tuple(found)


def permuted(x: Node, order: tuple[int, ...], rewriter: Rewriter) -> Node:
    return rewriter.make(PERMUTE, (x,), {"dims": order}, None, x.source)


def below(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """The shape whose permutation is ``shape``."""
    return tuple([shape[d] for d in inverse(order)])


def elementwise(node: Node, rewriter: Rewriter) -> Node | None:
    rank, size = len(node.type.shape), node.type.size
    moved = [n for n in node.inputs if n is not None and n.op is PERMUTE]
    whole = [n for n in moved if n.type.shape == node.type.shape]
    if not whole:
        return None
    order = order_of(whole[0])
    inputs: list[Node | None] = []
    for n in node.inputs:
        if n is None or not n.type.shape:
            inputs.append(n)
        elif n.op is PERMUTE and len(n.type.shape) == rank and order_of(n) == order:
            inputs.append(unmoved(n, order, rewriter))
        elif example(n.type.size) * SMALL <= example(size) or n.op is EXPAND:
            shape = (1,) * (rank - len(n.type.shape)) + n.type.shape
            full = n if shape == n.type.shape else rewriter.make(VIEW, (n,), {"shape": shape})
            inputs.append(permuted(full, inverse(order), rewriter))
        else:
            return None
    kind = TensorType(below(node.type.shape, order), node.type.dtype)
    inner = rewriter.make(node.op, tuple(inputs), node.attrs, kind, node.source)
    return permuted(inner, order, rewriter)


def fold_below(node: Node, rewriter: Rewriter) -> tuple[Node, tuple[int, ...]]:
    """A fold over the operand of a permutation, and the order of its result."""
    (x,) = node.inputs
    assert x is not None
    order, dims = order_of(x), node.attrs["dim"]
    if dims is None or dims == ():
        chosen = tuple(range(len(order)))
    else:
        chosen = tuple([d % len(order) for d in ((dims,) if isinstance(dims, int) else dims)])
    under = tuple(sorted([order[d] for d in chosen]))
    kept = [order[d] for d in range(len(order)) if d not in chosen]
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    result = order if node.attrs["keepdim"] else tuple([sorted(kept).index(d) for d in kept])
    kinds = [TensorType(below(t.shape, result), t.dtype) for t in types]
    kind: Any = tuple(kinds) if isinstance(node.type, tuple) else kinds[0]
    fold = rewriter.make(node.op, (x.inputs[0],), {**node.attrs, "dim": under}, kind, node.source)
    return fold, result


def pool_below(node: Node, rewriter: Rewriter) -> tuple[Node, tuple[int, ...]]:
    """Windows that slide below the permutation of the last operand, and the order of the result."""
    last = node.inputs[-1]
    assert last is not None
    order = order_of(last)
    inputs = tuple([n and unmoved(n, order, rewriter) for n in node.inputs])
    dims = tuple([order[d] for d in node.attrs["dims"]])
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    kinds = tuple([TensorType(below(t.shape, order), t.dtype) for t in types])
    kind: Any = kinds if isinstance(node.type, tuple) else kinds[0]
    return rewriter.make(node.op, inputs, {**node.attrs, "dims": dims}, kind, node.source), order


def unmoved(x: Node, order: tuple[int, ...], rewriter: Rewriter) -> Node:
    """The node whose permutation to ``order`` is ``x``."""
    if x.op is PERMUTE and order_of(x) == order:
        (inner,) = x.inputs
        assert inner is not None
        return inner
    return permuted(x, inverse(order), rewriter)


BELOW = {**dict.fromkeys(FOLDS, fold_below), **dict.fromkeys(POOLS, pool_below)}


def item(node: Node, rewriter: Rewriter) -> Node | None:
    """An item of a fold or pool with several results."""
    (maker,) = node.inputs
    assert maker is not None
    if maker.op not in BELOW or not is_permuted(maker.inputs[-1]):
        return None
    inner, order = BELOW[maker.op](maker, rewriter)
    kind: Any = inner.type
    part = rewriter.make(ITEM, (inner,), node.attrs, kind[node.attrs["index"]], node.source)
    return permuted(part, order, rewriter)


def padded(node: Node, rewriter: Rewriter) -> Node | None:
    (x,) = node.inputs
    assert x is not None
    order = order_of(x)
    pads = tuple([node.attrs["pads"][d] for d in inverse(order)])
    kind = TensorType(below(node.type.shape, order), node.type.dtype)
    inner = rewriter.make(PAD, (x.inputs[0],), {**node.attrs, "pads": pads}, kind, node.source)
    return permuted(inner, order, rewriter)


def sliced(node: Node, rewriter: Rewriter) -> Node:
    (x,) = node.inputs
    assert x is not None
    order = order_of(x)
    attrs = {**node.attrs, "dim": order[node.attrs["dim"] % len(order)]}
    kind = TensorType(below(node.type.shape, order), node.type.dtype)
    return permuted(rewriter.make(SLICE, (x.inputs[0],), attrs, kind, node.source), order, rewriter)


def joined(node: Node, rewriter: Rewriter) -> Node | None:
    parts = [n for n in node.inputs if n is not None]
    if not all([is_permuted(n) for n in parts]):
        return None
    order, *others = [order_of(n) for n in parts]
    if any([other != order for other in others]):
        return None
    dim = order[node.attrs["dim"] % len(order)]
    kind = TensorType(below(node.type.shape, order), node.type.dtype)
    inner = tuple([n.inputs[0] for n in parts])
    whole = rewriter.make(CAT, inner, {**node.attrs, "dim": dim}, kind, node.source)
    return permuted(whole, order, rewriter)
