"""Groups of nodes to kernels: whose elements are computed in which loops.

The elements of the outputs are expressed by what the ops say (``Op.at``), back to what is in
memory; then the loops are put in order (:mod:`rushlight.codegen.schedule`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

from rushlight.codegen.cuts import pieces
from rushlight.codegen.kernel import Kernel, Store
from rushlight.codegen.pull import Pull, linear, unravel
from rushlight.codegen.schedule import Nest
from rushlight.codegen.values import Fold, Loop, Value
from rushlight.graph.ir import ITEM, Node

LETTERS = "xyzuvwabcdefgh"
Space = tuple[list[Loop], tuple[Loop, ...], Value | None]


class Group(Protocol):
    """Nodes that become one step of a program, and those of them that are needed later."""

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def outputs(self) -> Sequence[Node]: ...


def lower(group: Group, late: Collection[Node] = ()) -> list[Kernel]:
    """The kernels that compute the outputs of a group, to be run one after the other.

    Args:
        group: its nodes are computed in one sweep; all others they depend on are in memory.
        late: outputs that take the memory of an input, and are stored after its last use.
    """
    pull = Pull(group.nodes)
    if all([node.type.size == 0 for node in group.outputs]):
        return []
    for node in group.nodes:
        if node.op is ITEM:
            continue
        if node.op.scatter is not None:
            return scattered(pull, node)
        if node.op.scan is not None:
            return scanned(pull, node)
    kernels = []
    memory = [pull.buffer(node) for node in late]
    for piece in [piece for nest in pulled(pull, group) for piece in pieces(nest)]:
        piece.split()
        piece.collapse()
        piece.split()  # a period may divide loops that have become one
        kernels += piece.kernels(memory)
    return kernels


def pulled(pull: Pull, group: Group) -> list[Nest]:
    """The outputs of a group over the rows and columns that its folds have in common.

    Outputs that are neither a row nor rows × columns have loops of their own.
    """
    b = pull.b
    outputs = [node for node in group.outputs if node.type.size != 0]
    sizes = {node.type.size for node in outputs}
    rows, columns, full = next(folded_spaces(pull, group, sizes), ([], (), None))
    nests = []
    for size in sizes if full is None else {-1}:
        chosen = [node for node in outputs if full is not None or node.type.size == size]
        if full is None:
            rows = loops_over(max([n.type.shape for n in chosen], key=dimensions), "i")
        row = linear(b, [b.variable(loop) for loop in rows], [loop.size for loop in rows])
        count = math.prod([loop.size for loop in rows])
        stores = []
        for node in chosen:
            place = row if full is None or node.type.size == count else full
            value = pull.element(node, unravel(b, place, node.type.shape))
            stores.append(Store(pull.buffer(node), place, value))
        nests.append(Nest(b, rows, columns, stores))
    return nests


def dimensions(shape: Sequence[int]) -> int:
    return len([n for n in shape if n not in (0, 1)])


def folded_spaces(pull: Pull, group: Group, sizes: set[int]) -> Iterator[Space]:
    """Rows and columns of folds, if all outputs fit there, and the place of an element."""
    b = pull.b
    for node in group.nodes:
        if node.op is ITEM or node.op.folded is None:
            continue
        shapes: list[Any] = [n.type.shape if n is not None else None for n in node.inputs]
        shape = shapes[0]
        dims = [d % len(shape) for d in node.op.folded(node.attrs, *shapes)]
        kept = [n for d, n in enumerate(shape) if d not in dims]
        if dims and sizes <= {math.prod(kept), math.prod(shape)}:
            columns = b.level(tuple([shape[d] for d in dims]), 0)
            rows = loops_over(kept, "r")
            inner, outer = dict(zip(dims, columns, strict=True)), iter(rows)
            loops = [inner[d] if d in inner else next(outer) for d in range(len(shape))]
            yield rows, columns, linear(b, [b.variable(loop) for loop in loops], shape)


def loops_over(shape: Sequence[int], name: str) -> list[Loop]:
    return [Loop(f"{name}{LETTERS[n % len(LETTERS)]}", size) for n, size in enumerate(shape)]


def scattered(pull: Pull, node: Node) -> list[Kernel]:
    """Two kernels: what a result starts as, then what is written to it, in order."""
    b, buffer = pull.b, pull.buffer(node)
    scatter = node.op.scatter(b, *[pull.source(n) for n in node.inputs], **node.attrs)
    rows = loops_over(buffer.shape, "i")
    index = tuple([b.variable(loop) for loop in rows])
    start = scatter.start(index).cast(buffer.kind)
    before = Nest(b, rows, (), [Store(buffer, linear(b, index, buffer.shape), start)])
    before.split()
    before.collapse()
    kernels = before.kernels()
    if 0 in scatter.sizes:
        return kernels
    loops = loops_over(scatter.sizes, "k")
    target, value = scatter.element(tuple([b.variable(loop) for loop in loops]))
    place = linear(b, target, buffer.shape)
    store = Store(buffer, place, value.cast(buffer.kind), scatter.how)
    # Indices that are a dimension of the result by themselves never meet each other there.
    apart = [loop for loop in loops if loop.size != 1 and b.variable(loop) in target]
    after = Nest(b, apart, [loop for loop in loops if loop not in apart], [store], ordered=True)
    return [*kernels, after.sweep()]


def scanned(pull: Pull, node: Node) -> list[Kernel]:
    """Running combinations along a dimension."""
    b, buffer = pull.b, pull.buffer(node)
    scan = node.op.scan(b, *[pull.source(n) for n in node.inputs], **node.attrs)
    loops = loops_over(buffer.shape, "i")
    index = tuple([b.variable(loop) for loop in loops])
    value = element = scan.element(index)
    along = loops[scan.dim] if loops else Loop("i", 1)
    if along.size != 1:
        value = b.make("scan", element.kind, (element,), Fold(scan.how, (along,)))
    place = linear(b, index, buffer.shape)
    rows = [loop for loop in loops if loop is not along]
    nest = Nest(b, rows, [along], [Store(buffer, place, value.cast(buffer.kind))], ordered=True)
    nest.split()
    nest.collapse()
    return nest.kernels()
