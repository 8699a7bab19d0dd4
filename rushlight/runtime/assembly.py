"""Assembly: from the plan of a graph to a program, with a slot for every value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.codegen import chains, nest, recurrent
from rushlight.codegen.attention import Attended, attended
from rushlight.codegen.fill import fill_of
from rushlight.codegen.products import Place, place_of
from rushlight.codegen.pull import strides
from rushlight.codegen.recurrent import Recurrence, Shape, recurrence
from rushlight.codegen.tiling import Work, Works
from rushlight.graph.attributes import DTYPES, LONG
from rushlight.graph.control import Control, origin_of
from rushlight.graph.ir import CONSTANT, ITEM, Graph, Node, TensorType
from rushlight.ops.attention_blocks import Blocked
from rushlight.ops.recurrent_scans import Scan
from rushlight.passes.clusters import types as types_of
from rushlight.passes.early import still_leaves
from rushlight.passes.fuse import Call, Group
from rushlight.passes.fuse import Step as Planned
from rushlight.passes.order import Plan
from rushlight.runtime.arena import ALIGNMENT, Block
from rushlight.runtime.arena import plan as plan_memory
from rushlight.runtime.control import Inlined, pieces, plan_inside, still_inside
from rushlight.runtime.jit import Target
from rushlight.runtime.natives import registers
from rushlight.runtime.parts import Parts
from rushlight.runtime.places import overwritten, reshaped
from rushlight.runtime.preparation import Memory, Preparation
from rushlight.runtime.program import CallStep, CopyStep, KernelStep, Operand, Program, Slot
from rushlight.runtime.workshop import Workshop
from rushlight.settings import get_num_threads

KINDS = {short: DTYPES[name] for short, name in LONG.items()}
ADDRESS = TensorType((1,), KINDS["i64"])
ENOUGH = 4  # parts of a product for which threads need no finer ones
KEPT = 8  # steps after which an operand is rather packed again than kept


def build(
    graph: Graph,
    plan: Plan,
    machine: Target,
    workshop: Workshop | None = None,
    still: Sequence[int] = (),
) -> Program:
    """The program of a fused graph for a processor; a workshop compiles it meanwhile.

    What is packed of the captured tensors with the numbers ``still`` is kept from call to call.
    """
    return Assembly(graph, plan, machine, workshop, still).program


def links_of(
    graph: Graph, plan: Plan, machine: Target, still: Sequence[int] = ()
) -> dict[int, list[int]]:
    """The steps of a plan that are chained to a product, by the product's step."""
    return Assembly(graph, plan, machine, still=still).links


class Assembly:
    """Gives every value a slot and every step its place."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        machine: Target,
        workshop: Workshop | None = None,
        still: Sequence[int] = (),
    ) -> None:
        self.graph, self.plan, self.machine = graph, plan, machine
        self.parts = Parts(plan, machine, workshop)
        self.program = Program(kernels=self.parts.kernels)
        self.slot_of: dict[Node, int] = {}
        self.aliases = {s.node for s in plan.steps if isinstance(s, Call) and s.alias}
        self.items = {(n.inputs[0], n.attrs["index"]): n for n in graph.nodes() if n.op is ITEM}
        self.first: dict[Node, int] = {}
        self.last: dict[Node, int] = {}
        self.copies: list[tuple[Node, int]] = []
        self.tables: dict[int, int] = {}
        self.works: dict[int, Works] = {}  # of the steps that are contractions
        self.links: dict[int, list[int]] = {}  # the steps that are chained to them
        self.loops_over_time: dict[int, Recurrence] = {}
        self.blocks_of_weights: dict[int, Attended] = {}
        self.inlined: dict[int, Inlined] = {}  # branches and loops
        self.space: dict[Memory, int] = {}  # the slots of memory that they need
        self.packed: dict[Memory, Memory] = {}  # what of it another one has filled already
        early = [n for step in plan.steps[: plan.early] for n in step.nodes]
        self.preparation = Preparation({*still_leaves(graph, still), *early})
        border = {*graph.outputs, *[value for _, value in graph.writes]}
        self.reshaped = reshaped(plan, border)  # steps for which products are made in their place
        self.leaves()
        self.contractions()
        self.lives()
        self.outputs()
        self.arena()
        chained = {number for links in self.links.values() for number in links}
        self.early()
        for number, step in [*enumerate(plan.steps)][plan.early :]:
            if number in chained or number in self.reshaped:
                continue
            if isinstance(step, Group):
                self.kernels(step, number)
            elif number in self.works:
                self.contract(step.node, number)
            elif number in self.loops_over_time:
                self.recur(step.node, number)
            elif number in self.blocks_of_weights:
                self.attend(step.node, number)
            elif number in self.inlined:
                self.inline(step.node, number)
            elif not step.alias:
                self.program.steps.append(self.call(step.node, number))
        for node, target in self.copies:
            self.program.steps.append(CopyStep(self.slot_of[node], target))

    def early(self) -> None:
        """The steps that run only if what is captured has changed."""
        self.prepare(self.graph.captured)
        for number, step in enumerate(self.plan.steps[: self.plan.early]):
            if isinstance(step, Group):
                self.kernels(step, number)
                self.prepare(step.outputs)
        self.program.early = len(self.program.steps)

    def prepare(self, made: Sequence[Node]) -> None:
        """The works that are done ahead with some values."""
        for source, memory, number, work in self.preparation.ahead.values():
            if source in made:
                slots = {work.buffers[0]: self.slot_of[source]}
                slots[work.buffers[-1]] = self.space[memory]
                self.share(work, slots, memory[0], number)

    def add(self, where: str, place: int, kind: TensorType) -> int:
        self.program.slots.append(Slot(where, place, kind.shape, kind.dtype.numpy))
        return len(self.program.slots) - 1

    def leaves(self) -> None:
        """Slots of what comes from outside."""
        for where, nodes in (("input", self.graph.inputs), ("captured", self.graph.captured)):
            for i, node in enumerate(nodes):
                self.slot_of[node] = self.add(where, i, node.type)
        for node in self.graph.nodes():
            if node.op is CONSTANT:
                self.slot_of[node] = self.add("constant", len(self.program.constants), node.type)
                self.program.constants.append(np.asarray(node.attrs["value"], order="C"))

    def made(self, step: Planned) -> list[Node]:
        """The values that a step leaves in memory."""
        nodes = step.outputs if isinstance(step, Group) else (step.node,)
        found: list[Node] = []
        for node in nodes:
            if isinstance(node.type, tuple):
                several = [self.items.get((node, i)) for i in range(len(node.type))]
                found += [n for n in several if n is not None and not is_state(n)]
            else:
                found.append(node)
        return found

    def lives(self) -> None:
        """When each value is made and last read, in steps of the plan; a chain is one step."""
        spans = {n: (first, links[-1]) for first, links in self.links.items() for n in links}
        spans |= {first: (first, links[-1]) for first, links in self.links.items()}
        for number, step in enumerate(self.plan.steps):
            begin, end = spans.get(number, (number, number))
            for node in self.read(number):
                home = self.home(node)
                self.last[home] = max(end, self.last.get(home, 0))
            if isinstance(step, Call) and step.alias:
                continue
            for node in self.made(step):
                self.first[node] = begin
                self.last[node] = max(end, self.last.get(node, 0))
        for node, result in self.reshaped.values():
            self.first[result] = self.first.pop(node)

    def read(self, number: int) -> Sequence[Node]:
        """The values that a step reads itself, and not what was prepared of them."""
        step = self.plan.steps[number]
        if number not in self.works:
            return step.inputs
        late = self.preparation.late(number, self.works[number])
        names = {name for _, work in late for name in work.buffers}
        operands = zip("abcd", step.nodes[0].inputs, strict=False)
        return [n for name, n in operands if n is not None and name in names]

    def home(self, node: Node) -> Node:
        """The value in whose memory an alias lies."""
        while node in self.aliases:
            node = node.inputs[0]  # type: ignore[assignment]
        return node

    def outputs(self) -> None:
        """Outputs and writes: values made in the right place, and those to be copied there."""
        for node, target in self.plan.stores.items():
            self.slot_of[node] = self.slot_of[target]
        for target, value in self.graph.writes:
            if is_state(value) or value is target or self.plan.stores.get(value) is target:
                continue
            self.copies.append((value, self.slot_of[target]))
        for i, node in enumerate(self.graph.outputs):
            slot = self.add("output", i, node.type)
            if node in self.first and node not in self.slot_of:
                self.slot_of[node] = slot
            else:
                self.copies.append((node, slot))
        for node, _ in self.copies:
            if node in self.first:
                self.last[node] = len(self.plan.steps)

    def arena(self) -> None:
        """Places for all other values, those that are not alive together over each other."""
        needed = {*self.slot_of, *[node for node, _ in self.copies]}
        over = overwritten(self.plan, self.links, self.parts, needed)
        over |= dict(self.reshaped.values())
        nodes = [node for node in self.first if node not in self.slot_of and node not in over]
        for node in [n for n in nodes if self.first[n] < self.plan.early <= self.last[n]]:
            self.slot_of[node] = self.keep(node.type)
        nodes = [node for node in nodes if node not in self.slot_of]
        blocks = [Block(max(1, n.type.nbytes), self.first[n], self.last[n]) for n in nodes]
        spaces = {
            (number, name): TensorType((size,), KINDS[works.kind])
            for number, works in self.works.items()
            for name, size in works.space.items()
        }
        for number, loop in self.loops_over_time.items():
            used = {*loop.works.space, *loop.buffers}
            own = self.spaces_of(number, loop.works.space)
            spaces |= {key: kind for key, kind in own.items() if key[1] in used}
        for number, found in self.blocks_of_weights.items():
            spaces |= self.spaces_of(number, {"space": found.space})
        for number, inlined in self.inlined.items():
            results = [n if n in self.first else None for n in self.results(inlined.node)]
            spaces |= {(number, name): kind for name, kind in inlined.spaces(results)}
        filled = self.preparation.filled
        for memory in dict.fromkeys(filled.values()):
            self.space[memory] = self.keep(spaces[memory])
        self.space |= {key: self.space[memory] for key, memory in filled.items()}
        spaces = {key: kind for key, kind in spaces.items() if key not in filled}
        self.packed = self.packed_before()
        ends = {key: self.links.get(key[0], [key[0]])[-1] for key in spaces}
        for key, first in self.packed.items():
            ends[first] = max(ends[first], ends[key])
            del spaces[key]
        for key, kind in spaces.items():
            blocks.append(Block(kind.nbytes, key[0], ends[key]))
        planned = plan_memory(blocks)
        self.program.arena = planned.size
        offsets = iter(planned.offsets)
        for node in nodes:
            self.slot_of[node] = self.add("arena", int(next(offsets)), node.type)
        for key, kind in spaces.items():
            self.space[key] = self.add("arena", int(next(offsets)), kind)
        for key, first in self.packed.items():
            self.space[key] = self.space[first]
        for node, result in over.items():
            self.slot_of[node] = self.slot_of[result]

    def packed_before(self) -> dict[Memory, Memory]:
        """The operands that a product finds packed, for one of the steps right before it."""
        changing = set(self.plan.stores.values())
        known: dict[Any, Memory] = {}
        found: dict[Memory, Memory] = {}
        for number, works in self.works.items():
            operands = dict(zip("abcd", self.plan.steps[number].nodes[0].inputs, strict=False))
            late = [work for _, work in self.preparation.late(number, works)]
            for work in [w for w in late if w.name.startswith("pack_")]:
                source = operands.get(work.buffers[0])
                if source is None or self.home(source) in changing:
                    continue
                what = (work.name, self.home(source), work.table.tobytes())
                own = (number, work.buffers[-1])
                first = known.setdefault(what, own)
                if number - first[0] > KEPT:
                    known[what] = own
                elif first != own:
                    found[own] = first
        return found

    def spaces_of(self, number: int, elements: Mapping[str, int]) -> dict[Any, TensorType]:
        """Memory of its own that a call of several results needs, and that of unused results."""
        node: Any = self.plan.steps[number].nodes[0]
        dtype = types_of(node)[0].dtype
        spaces = {(number, name): TensorType((size,), dtype) for name, size in elements.items()}
        for name, kind, result in zip(
            node.op.results, types_of(node), self.results(node), strict=True
        ):
            if result is None or (result not in self.first and result not in self.slot_of):
                spaces[number, name] = kind
        return spaces

    def contractions(self) -> None:
        """Which calls the contraction engine takes over, and how."""
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, Call) and not step.alias:
                if isinstance(step.node.op, Control):
                    self.inlined[number] = Inlined(step.node, self.inside(number, step.node))
                    continue
                if isinstance(step.node.op, Scan):
                    self.recurrence(number, step.node)
                    continue
                if isinstance(step.node.op, Blocked):
                    self.attention(number, step.node)
                    continue
                places = [None if n is None else self.place(n) for n in step.node.inputs]
                operands = [None if n is None else self.home(n) for n in step.node.inputs]
                still = self.preparation.names(operands)
                works = self.parts.works(step.node, places, still)
                if works is not None:
                    self.works[number] = works
                    self.chain(number, step.node, places, still)
                    self.preparation.take(number, operands, self.works[number])

        made = {self.plan.steps[number].nodes[0] for number in self.works}
        self.reshaped = {n: pair for n, pair in self.reshaped.items() if pair[0] in made}

    def keep(self, kind: TensorType) -> int:
        """The slot of memory that is kept from call to call; without elements it is a byte."""
        offset = -(-self.program.kept // ALIGNMENT) * ALIGNMENT
        self.program.kept = offset + max(1, kind.nbytes)
        return self.add("kept", offset, kind)

    def recurrence(self, number: int, node: Node) -> None:
        """Takes a loop over time over, if all of its operands are contiguous in memory."""
        op: Any = node.op
        operands = dict(zip(op.operands, [n for n in node.inputs if n is not None], strict=True))
        offsets = {}
        for name, operand in operands.items():
            place = self.place(operand)
            if place is None or place.strides != strides(place.shape):
                return
            offsets[name] = place.offset
        w_hh = operands["w_hh"].type.shape
        if offsets["w_hh"] or any([offsets[x] for x in op.operands[1 : 1 + op.cell.states]]):
            return
        steps, reverse = node.attrs["steps"], node.attrs["reverse"]
        rows = operands[op.operands[0]].type.shape[0] // steps
        shape = Shape(steps, rows, w_hh[1], w_hh[0] // w_hh[1], reverse)
        results = zip(op.results, self.results(node), strict=True)
        unused = {name for name, result in results if result is None}
        kind, threads = types_of(node)[0].kind, get_num_threads()
        found = recurrence(op, shape, kind, registers(), threads, offsets, unused)
        if found is not None:
            self.loops_over_time[number] = found
            self.program.threads = threads

    def recur(self, node: Node, origin: int) -> None:
        """The steps of a loop over time: packing of its weight, and the loop."""
        found = self.loops_over_time[origin]
        slots = self.slots_of(node, origin)
        works = found.works.list
        for number, work in enumerate(works[:-1]):
            self.share(work, slots, origin, number)
        slots["table"] = self.table(works[-1].table)
        functions = [self.pointer(works[-1].name, True)]
        functions.append(self.pointer(self.parts.name_of(found.kernel), False))
        used = (self.table(found.table), *functions, *[slots[name] for name in found.buffers])
        step = KernelStep(recurrent.NAME, used, found.parts, 1, origin, len(works) - 1, True)
        self.program.steps.append(step)

    def slots_of(self, node: Node, origin: int) -> dict[str, int]:
        """The slots of a call of several results, by the names of operands and results."""
        op: Any = node.op
        pairs = zip(op.operands, node.inputs, strict=True)
        slots = {name: self.slot_of[self.home(n)] for name, n in pairs if n is not None}
        slots |= {name: slot for (number, name), slot in self.space.items() if number == origin}
        for name, result in zip(op.results, self.results(node), strict=True):
            if result is not None and result in self.slot_of:
                slots[name] = self.slot_of[result]
        return slots

    def inside(self, number: int, node: Node) -> list[Program]:
        """The programs of the graphs inside a node, that of a step."""
        return [
            build(graph, plan_inside(graph), self.machine, still=still_inside(graph))
            for graph in pieces(node)
        ]

    def inline(self, node: Node, origin: int) -> None:
        """The steps of branches and loops."""
        slots = {name: slot for (number, name), slot in self.space.items() if number == origin}
        for i, result in enumerate(self.results(node)):
            if result is not None and not is_state(result):
                slots[f"result {i}"] = self.slot_of[result]
        homes = [captured_state(n) if is_state(n) else self.home(n) for n in node.inputs if n]
        operands = [self.slot_of[home] for home in homes]
        self.inlined[origin].emit(self.program, origin, slots, operands)

    def attention(self, number: int, node: Node) -> None:
        """Takes attention over, if all of its operands are in memory as views of it."""
        op: Any = node.op
        operands = {x: n for x, n in zip(op.operands, node.inputs, strict=True) if n is not None}
        places = {x: self.place(n) for x, n in operands.items()}
        results = zip(op.results, types_of(node), strict=True)
        places |= {x: Place(kind.shape, strides(kind.shape)) for x, kind in results}
        if all(places.values()):
            kind = types_of(node)[0].kind
            found = attended(op.name, kind, registers(), places, **node.attrs)  # type: ignore[arg-type]
            if found is not None:
                self.blocks_of_weights[number] = found

    def attend(self, node: Node, origin: int) -> None:
        """The steps of attention: zeros where gradients are summed, and the blocks."""
        found, slots = self.blocks_of_weights[origin], self.slots_of(node, origin)
        works = found.works(types_of(node)[0].kind)
        for number, work in enumerate(works):
            self.share(work, slots, origin, number)
        functions = [self.pointer(name, True) for name in found.nest.functions]
        buffers = [slots[name] for name in found.nest.buffers]
        used = (self.table(found.nest.table()), *functions, *buffers)
        step = KernelStep(nest.NAME, used, found.nest.shares, 1, origin, len(works), True)
        self.program.steps.append(step)

    def results(self, node: Node) -> list[Node | None]:
        """The values that a node gives, as far as somebody needs them."""
        if not isinstance(node.type, tuple):
            return [node]
        return [self.items.get((node, i)) for i in range(len(node.type))]

    def chain(self, number: int, node: Node, places: list[Place | None], still: str) -> None:
        """Which of the next steps may be done for each block of rows of a product."""
        groups = self.following(number)
        if not groups or node not in self.plan.steps[groups[0]].inputs:
            return
        if groups[0] in self.reshaped:
            return
        works = self.parts.works(node, places, still, whole_rows=True)
        rows = chains.rows_of(works.list[-1]) if works is not None else None
        if works is None or rows is None:
            return
        if works.list[-1].parts < min(ENOUGH, self.works[number].list[-1].parts):
            return
        made, links = [node], []
        read = [self.home(n) for n in node.inputs if n is not None]
        for other in groups:
            group: Any = self.plan.steps[other]
            kernel, meant = self.parts.single(other), self.parts.loops(other).meant
            if kernel is None or kernel.errors or kernel.count % rows.total:
                break
            used = [b for b in (*kernel.inputs, *kernel.outputs) if b.node is not None]
            near = [b for b in used if b.node and meant[b.node] in made]
            if not near or not all([chains.reads_own_rows(kernel, b) for b in near]):
                break
            if any([self.plan.stores.get(n) in read for n in group.outputs]):
                break
            links.append(other)
            made += self.made(group)
        if links:
            self.works[number], self.links[number] = works, links

    def following(self, number: int) -> list[int]:
        """The groups that come right after a step."""
        found = []
        for other in range(number + 1, len(self.plan.steps)):
            step = self.plan.steps[other]
            if isinstance(step, Group):
                found.append(other)
            elif not step.alias:
                break
        return found

    def place(self, node: Node) -> Place | None:
        """Where the elements of an operand are, if they are in memory as a view of it."""
        kind, views = self.home(node).type, self.views(node)
        if not views:
            return Place(kind.shape, strides(kind.shape))
        seen = memory = np.empty(kind.shape, kind.dtype.numpy)
        for op, attrs in views:
            seen = op.compute([seen], attrs)
        return place_of(seen, memory) if np.may_share_memory(seen, memory) else None

    def contract(self, node: Node, origin: int) -> None:
        """The steps of a contraction."""
        works = self.works[origin]
        operands = [None if n is None else self.slot_of[self.home(n)] for n in node.inputs]
        slots: dict[str, Any] = dict(zip("abcd", operands, strict=False))
        slots["y"] = self.slot_of[node]
        slots |= {name: slot for (number, name), slot in self.space.items() if number == origin}
        links = self.links.get(origin, [])
        late = self.preparation.late(origin, works)
        for number, work in late[:-1] if links else late:
            if (origin, work.buffers[-1]) not in self.packed:
                self.share(work, slots, origin, number)
        if links:
            self.link(works.list[-1], slots, origin)

    def link(self, work: Work, slots: Mapping[str, int], origin: int) -> None:
        """A product with the kernels that are chained to it, as one step."""
        rows = chains.rows_of(work)
        assert rows is not None
        links = self.links[origin]
        own = {**slots, "table": self.table(work.table)}
        functions = [self.pointer(work.name, True)]
        buffers = [own[name] for name in work.buffers]
        pairs = []
        for number in links:
            ((kernel,), meant) = self.parts.loops(number)
            per_row = kernel.count // rows.total
            functions.append(self.pointer(self.parts.name_of(kernel, per_row), False))
            pairs.append((2 + len(links) + len(buffers), per_row))
            buffers += [self.buffer(b, {}, meant) for b in (*kernel.inputs, *kernel.outputs)]
        used = (self.table(chains.chain_table(rows, pairs)), *functions, *buffers)
        step = KernelStep(chains.NAME, used, work.parts, work.chunk, origin, 0, True)
        self.program.steps.append(step)

    def pointer(self, name: str, shared: bool) -> int:
        """The slot of a function's address."""
        self.program.functions.append((name, shared))
        return self.add("function", len(self.program.functions) - 1, ADDRESS)

    def table(self, numbers: np.ndarray) -> int:
        """The slot of a table, which works that are alike have in common."""
        if id(numbers) not in self.tables:
            self.program.constants.append(numbers)
            kind = TensorType(numbers.shape, KINDS["i64"])
            place = len(self.program.constants) - 1
            self.tables[id(numbers)] = self.add("constant", place, kind)
        return self.tables[id(numbers)]

    def share(self, work: Work, slots: Mapping[str, int], origin: int, number: int) -> None:
        """A step whose function all programs share, with its table."""
        own = self.table(work.table)
        used = tuple([own if name == "table" else slots[name] for name in work.buffers])
        step = KernelStep(work.name, used, work.parts, work.chunk, origin, number, True)
        self.program.steps.append(step)

    def kernels(self, step: Group, origin: int) -> None:
        """The kernels of a group; equal ones are one function."""
        parts: dict[Any, int] = {}
        kernels, meant = self.parts.loops(origin)
        for number, kernel in enumerate(kernels):
            filled = fill_of(kernel)
            if filled is not None:
                buffer, work = filled
                self.share(work, {"y": self.buffer(buffer, parts, meant)}, origin, number)
                continue
            name = self.parts.name_of(kernel, math.gcd(kernel.count, kernel.chunk))
            slots = [self.buffer(b, parts, meant) for b in (*kernel.inputs, *kernel.outputs)]
            made = KernelStep(name, tuple(slots), kernel.count, kernel.chunk, origin, number)
            self.program.steps.append(made)

    def buffer(self, buffer: Any, parts: dict[Any, int], meant: Mapping[Node, Node]) -> int:
        """The slot of a kernel's buffer; partial results are memory of the step alone."""
        if buffer.node is not None:
            return self.slot_of[meant[buffer.node]]
        if buffer not in parts:
            kind = TensorType(tuple(buffer.shape), buffer.dtype)
            offset = -(-self.program.arena // 64) * 64
            self.program.arena = offset + kind.nbytes
            parts[buffer] = self.add("arena", offset, kind)
        return parts[buffer]

    def call(self, node: Node, origin: int) -> CallStep:
        inputs, generator = node.inputs, None
        if "generator" in node.attrs:
            generator = self.slot_of[captured_state(inputs[0])]
            inputs = inputs[1:]
        operands = tuple([None if n is None else self.operand(n) for n in inputs])
        if isinstance(node.type, tuple):
            count = len(node.type) - (generator is not None)
            items = [self.items.get((node, i)) for i in range(count)]
            results = tuple([None if n is None else self.slot_of.get(n) for n in items])
        else:
            results = (self.slot_of[node],)
        return CallStep(node.op, node.attrs, operands, results, generator, origin)

    def operand(self, node: Node) -> Operand:
        return Operand(self.slot_of[self.home(node)], tuple(self.views(node)))

    def views(self, node: Node) -> list[tuple[Any, Any]]:
        """How an operand of a call is seen in the memory where it lies."""
        found = []
        while node in self.aliases:
            found.append((node.op, node.attrs))
            node = node.inputs[0]  # type: ignore[assignment]
        return found[::-1]


def is_state(node: Node) -> bool:
    """Whether a value is the state of a generator, which random calls keep themselves."""
    return origin_of(node) is not None


def captured_state(node: Any) -> Node:
    """The generator, a value from outside, whose state a node is."""
    while (before := origin_of(node)) is not None:
        node = before
    return node
