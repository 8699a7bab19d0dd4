"""Preparation: works of products that are done once for many calls.

Before a product its operands may be packed, or a weight transformed. If such an operand is the same
at every call, this is an early step, and the result is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rushlight.codegen.instructions import width
from rushlight.codegen.tiling import Work, Works
from rushlight.config import config
from rushlight.graph.ir import Node

Memory = tuple[int, str]  # of a step, by a name

PREPARING = ("pack_", "winograd_weight_")  # works that bring one operand into another form


class Ahead(NamedTuple):
    """A work that is done ahead of calls: number ``number`` of the works of a product."""

    source: Node
    memory: Memory  # that it fills
    number: int
    work: Work


class Preparation:
    """Which works are done ahead, and what memory they fill.

    Args:
        still: the values that are the same at every call.
    """

    def __init__(self, still: set[Node]) -> None:
        self.still = still
        self.ahead: dict[tuple[str, Node, bytes], Ahead] = {}  # by what makes them equal
        self.filled: dict[Memory, Memory] = {}  # memory of products, and that which holds it
        self.nbytes = 0

    def names(self, operands: Sequence[Node | None]) -> str:
        """The names of the operands of a product that are the same at every call."""
        pairs = zip("abcd", operands, strict=False)
        return "".join([name for name, node in pairs if node in self.still])

    def take(self, step: int, operands: Sequence[Node | None], works: Works) -> None:
        """Looks for works of a product to do ahead, as long as there is room for their results."""
        still = {x: n for x, n in zip("abcd", operands, strict=False) if n in self.still}
        for number, work in enumerate(works.list):
            source, target = still.get(work.buffers[0]), work.buffers[-1]
            if source is None or not work.name.startswith(PREPARING):
                continue
            key = (work.name, source, work.table.tobytes())
            nbytes = works.space[target] * width(works.kind)
            if key not in self.ahead:
                if self.nbytes + nbytes > config.keep_packed:
                    continue
                self.nbytes += nbytes
                self.ahead[key] = Ahead(source, (step, target), number, work)
            self.filled[step, target] = self.ahead[key].memory

    def late(self, step: int, works: Works) -> list[tuple[int, Work]]:
        """The works of a product that each call does, with their numbers."""
        pairs = enumerate(works.list)
        return [(n, work) for n, work in pairs if (step, work.buffers[-1]) not in self.filled]
