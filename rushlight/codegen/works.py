"""Nodes that the contraction engine computes: from ops to works."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.microkernel import Registers
from rushlight.codegen.products import Place, product_works
from rushlight.codegen.pull import strides
from rushlight.codegen.tiling import Works
from rushlight.codegen.winograd import winograd_works
from rushlight.graph.ir import Node


def works_of(
    node: Node,
    places: Sequence[Place | None],
    registers: Registers,
    whole_rows: bool = False,
    still: str = "",
) -> Works | None:
    """The works of a node whose operands are at ``places``; None if the engine has none for it.

    Buffers are called a, b, c … for the operands and y for the result, which is C-contiguous.
    Those in ``still`` are the same at every call, so that packing them costs nothing.
    """
    if isinstance(node.type, tuple) or node.op.subscripts is None:
        return None
    first, second = places
    if (
        first is None
        or second is None
        or {n.type.dtype for n in node.inputs if n} != {node.type.dtype}
    ):
        return None
    result = Place(node.type.shape, strides(node.type.shape))
    letters, kind = node.op.subscripts(node.attrs, first.shape, second.shape), node.type.kind
    if node.attrs.get("tile"):
        tile = node.attrs["tile"]
        works = winograd_works(letters, first, second, result, tile, kind, registers)
        if works is not None:
            return works
    return product_works(letters, first, second, result, kind, registers, whole_rows, still)
