"""What the steps of a program are made of: kernels of groups, works of products; equal ones once.

A workshop, if there is one, hears of them as soon as they are known.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from rushlight.codegen.alike import Alike, Lowered
from rushlight.codegen.fill import fill_of
from rushlight.codegen.kernel import Kernel
from rushlight.codegen.llvm import function
from rushlight.codegen.loops import lower
from rushlight.codegen.products import Place
from rushlight.codegen.tiling import Works
from rushlight.codegen.works import works_of
from rushlight.graph.attributes import literal
from rushlight.graph.ir import Node
from rushlight.passes.order import Plan
from rushlight.runtime.jit import Target
from rushlight.runtime.natives import registers
from rushlight.runtime.program import KernelStep
from rushlight.runtime.workshop import Workshop


class Parts:
    """Kernels and works for the steps of a plan; ``kernels`` are texts by name."""

    def __init__(self, plan: Plan, machine: Target, workshop: Workshop | None = None) -> None:
        self.plan, self.machine, self.workshop = plan, machine, workshop
        self.kernels: dict[str, str] = {}
        self.alike = Alike()
        self.planned: dict[Hashable, Works | None] = {}

    @functools.cache  # noqa: B019
    def loops(self, number: int) -> Lowered:
        """The kernels of a group."""
        group: Any = self.plan.steps[number]
        return self.alike.lower(group, [n for n in group.outputs if n in self.plan.stores])

    def single(self, number: int) -> Kernel | None:
        """The kernel of a group that is only one, and not zeros."""
        kernels = self.loops(number).kernels
        return kernels[0] if len(kernels) == 1 and fill_of(kernels[0]) is None else None

    @functools.cache  # noqa: B019
    def name_of(self, kernel: Kernel, grain: int = 1) -> str:
        """The name of a kernel's function, whose text is among the kernels then.

        It is called for parts whose bounds are multiples of ``grain``.
        """
        machine = self.machine
        text = text_of(kernel, machine.vector_bytes, machine.has_f16c, grain)
        name = f"k{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if name not in self.kernels:
            self.kernels[name] = text.replace("@NAME(", f"@{name}(")
            if self.workshop is not None:
                self.workshop.kernel(name, self.kernels[name])
        return name

    def works(
        self, node: Node, places: Sequence[Place | None], still: str, whole_rows: bool = False
    ) -> Works | None:
        """The works of a product; see :func:`rushlight.codegen.works.works_of`."""
        kinds = tuple([None if n is None else n.type for n in node.inputs])
        key = node.op, literal(dict(node.attrs)), node.type, kinds, (*places,), still, whole_rows
        if key not in self.planned:
            found = self.planned[key] = works_of(node, places, registers(), whole_rows, still)
            if found is not None and self.workshop is not None:
                self.workshop.share(
                    [work.name for work in reversed(found.list)]
                )  # the longest first
        return self.planned[key]


@functools.lru_cache(64)  # of loops over time, which programs of many sizes share
def text_of(kernel: Kernel, vector_bytes: int, has_f16c: bool, grain: int) -> str:
    return function("NAME", kernel, vector_bytes, has_f16c, grain)


def errors_of(plan: Plan, step: KernelStep) -> Sequence[Callable[[int], Exception]]:
    """The exceptions that a kernel can end with, for the position that was met."""
    group: Any = plan.steps[step.origin]
    late = [node for node in group.outputs if node in plan.stores]
    return lower(group, late)[step.number].errors
