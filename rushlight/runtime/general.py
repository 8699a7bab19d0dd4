"""Programs for all sizes: code that is compiled once, and tables for each size that is met."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.codegen.kernel import Kernel
from rushlight.codegen.llvm import Function, module
from rushlight.codegen.loops import lower
from rushlight.dims import Dim, World, at, known
from rushlight.graph.control import Control
from rushlight.graph.extents import Condition, Sizes, sizes_apart
from rushlight.graph.ir import Graph, Node, TensorType
from rushlight.graph.sizes import Sizer, symbols_in
from rushlight.passes import pipeline
from rushlight.passes.fuse import Group
from rushlight.passes.memory_order import Orders, in_memory_order
from rushlight.passes.order import Plan, plan
from rushlight.runtime import natives
from rushlight.runtime.assembly import Assembly
from rushlight.runtime.cache import object_code
from rushlight.runtime.control import pieces, plan_inside, still_inside
from rushlight.runtime.executable import NO_ORDERS, Binding, Executable, orders_by_number
from rushlight.runtime.jit import load, target
from rushlight.runtime.program import KernelStep, Program
from rushlight.runtime.verify import verify

KEPT = 128  # sizes whose tables are kept


class Ready(NamedTuple):
    """A kernel for all sizes: its function, and the sizes that it finds in its table."""

    kernel: Kernel
    name: str
    sizes: tuple[Dim, ...]


class Ground:
    """A graph whose sizes are symbols, with what is the same for all of them: plan and kernels.

    Args:
        texts: gets the kernels in LLVM assembly, by name.
        apart: sizes none of which are equal: what is equal by chance in a call is not.
        planned: makes a plan for the graph at some sizes.
        still: numbers of captured values of which what is made comes first.
    """

    def __init__(
        self,
        graph: Graph,
        texts: dict[str, str],
        apart: Mapping[str, int],
        planned: Callable[[Graph], Plan] = plan,
        still: Sequence[int] = (),
    ) -> None:
        self.sizer, self.texts, self.still, self.machine = Sizer(graph), texts, still, target()
        concrete, new = self.sizer.at(apart)
        self.plan = moved(planned(concrete), {node: own for own, node in new.items()})
        self.kernels: dict[int, list[Ready]] = {}
        self.inside: dict[int, list[Ground]] = {}  # of branches and loops, by steps
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, Group):
                late = [node for node in step.outputs if node in self.plan.stores]
                self.kernels[number] = [self.compiled(kernel) for kernel in lower(step, late)]
            elif isinstance(step.node.op, Control):
                self.inside[number] = [
                    Ground(piece, texts, apart, plan_inside, still_inside(piece))
                    for piece in pieces(step.node)
                ]

    def compiled(self, kernel: Kernel) -> Ready:
        machine = self.machine
        body = Function(kernel, machine.vector_bytes, machine.has_f16c, sized=True)
        text = body.text("NAME")
        whole = "\n\n".join([*sorted(body.declared.values()), *body.functions.values(), text])
        name = f"k{hashlib.sha256(whole.encode()).hexdigest()[:16]}"
        self.texts[name] = whole.replace("@NAME(", f"@{name}(")
        return Ready(kernel, name, tuple(body.sizes))

    def at(self, sizes: Mapping[str, int]) -> tuple[Graph, Plan, dict[Node, Node]]:
        """Graph and plan for some sizes, and what the nodes have become."""
        graph, new = self.sizer.at(sizes)
        return graph, moved(self.plan, new), new

    def program(self, sizes: Mapping[str, int]) -> Program:
        """The program for some sizes."""
        return SizedAssembly(self, sizes).program


class General:
    """A compiled graph whose sizes are symbols.

    Args:
        sizes: says what they are in a call.
        conditions: hold for them.
    """

    def __init__(
        self,
        sizes: Sizes,
        conditions: Sequence[Condition],
        graph: Graph,
        holders: Any = (),
        ahead: Any = None,
        orders: Orders = NO_ORDERS,
    ) -> None:
        self.orders = orders_by_number(graph, orders)
        graph = in_memory_order(graph, orders)
        self.sizes, self.source = sizes, graph
        self.graph = pipeline.run(graph)
        texts: dict[str, str] = {}
        self.ground = Ground(self.graph, texts, sizes_apart(symbols_in(graph), conditions))
        code = object_code(module(texts.values())) if texts else b""
        self.libraries = dict.fromkeys(texts, load([code])) if code else {}
        self.instances: OrderedDict[tuple[int, ...], Sized] = OrderedDict()

    def address(self, name: str, texts: Mapping[str, str]) -> int:
        """Where a kernel is; one that some sizes need by themselves is compiled when they come."""
        if name not in self.libraries:
            self.libraries[name] = load([object_code(module([texts[name]]))])
        return self.libraries[name].address(name)

    def run(self, inputs: Sequence[np.ndarray], captured: Sequence[Any]) -> Any:
        """The outputs of the graph for inputs of any sizes."""
        return self.at(self.sizes.now).run(inputs, captured)

    def at(self, sizes: Mapping[str, int]) -> Sized:
        """The program for these sizes."""
        key = tuple(sizes.values())
        found = self.instances.get(key)
        if found is None:
            found = self.instances[key] = Sized(self, sizes)
            if len(self.instances) > KEPT:
                self.instances.popitem(last=False)
        else:
            self.instances.move_to_end(key)
        return found


class Sized(Executable):
    """A general program with the tables for some sizes."""

    def __init__(self, general: General, sizes: Mapping[str, int]) -> None:
        self.general, self.still, self.holders = general, [], ()
        self.orders = general.orders
        self.source, self.sizes = general.graph, sizes
        self.program = general.ground.program(World(sizes))
        verify(self.program, natives.registers())
        self.idle = [Binding(self)]

    @property
    def lowered(self) -> tuple[Graph, Plan]:
        """Graph and plan, made again: they take more memory than all tables, and few ask."""
        return self.general.ground.at(self.sizes)[:2]

    def plan_at(self, path: Sequence[tuple[int, int]]) -> Plan:
        return self.ground_at(path).at(self.sizes)[1]

    def errors(self, step: KernelStep) -> Sequence[Callable[[int], Exception]]:
        """Those of the kernel for all sizes: one that is lowered for some checks less."""
        kernel = self.ground_at(step.path).kernels[step.origin][step.number].kernel
        return [error.at(self.sizes) for error in kernel.errors]

    def ground_at(self, path: Sequence[tuple[int, int]]) -> Ground:
        """The graph inside nodes to which a path leads."""
        ground = self.general.ground
        for origin, number in path:
            ground = ground.inside[origin][number]
        return ground

    def function(self, name: str, shared: bool) -> int:
        if shared:
            return natives.address(name)
        return self.general.address(name, self.program.kernels)


class SizedAssembly(Assembly):
    """Puts the compiled kernels of a general program to work for some sizes."""

    def __init__(self, ground: Ground, sizes: Mapping[str, int]) -> None:
        self.ground, self.sizes = ground, sizes
        graph, plan, self.new = ground.at(sizes)
        super().__init__(graph, plan, ground.machine, still=ground.still)

    def inside(self, number: int, node: Node) -> list[Program]:
        return [ground.program(self.sizes) for ground in self.ground.inside[number]]

    def chain(self, *_: Any) -> None:
        """Kernels run by themselves."""

    def kernels(self, step: Group, origin: int) -> None:
        parts: dict[Any, int] = {}
        for number, (kernel, name, dims) in enumerate(self.ground.kernels[origin]):
            count, chunk = kernel.parts_at(self.sizes)
            if count <= 0:
                continue
            slots = [self.sized_buffer(b, parts) for b in (*kernel.inputs, *kernel.outputs)]
            numbers = [at(dim, self.sizes) for dim in dims] or [0]
            slots.append(self.table(np.array(numbers, np.int64)))
            self.program.steps.append(KernelStep(name, tuple(slots), count, chunk, origin, number))

    def sized_buffer(self, buffer: Any, parts: dict[Any, int]) -> int:
        if buffer.node is not None:
            return self.slot_of[self.new[buffer.node]]
        if buffer not in parts:
            kind = TensorType(known(tuple(buffer.shape), self.sizes), buffer.dtype)
            offset = -(-self.program.arena // 64) * 64
            self.program.arena = offset + kind.nbytes
            parts[buffer] = self.add("arena", offset, kind)
        return parts[buffer]


def moved(plan: Plan, new: Mapping[Node, Node]) -> Plan:
    """The same plan for other nodes."""

    def step_of(step: Any) -> Any:
        if isinstance(step, Group):
            return Group(tuple([new[n] for n in step.nodes]), tuple([new[n] for n in step.outputs]))
        return type(step)(new[step.node], step.alias)

    stores = {new[value]: new[target] for value, target in plan.stores.items()}
    return Plan(tuple([step_of(step) for step in plan.steps]), stores, plan.early)
