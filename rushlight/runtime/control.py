"""Branches and loops of a program: steps that jump, around the steps of the graphs inside a node.

Each graph inside becomes a program of its own, whose steps are put among those of the program
around it: what it is given and what it makes are slots there, its arena is a piece of that one.
What a loop carries lies in one place and is overwritten by each step. What would be the same at
each step, such as packed weights, is made once, before the loop. So a loop is native code from its
beginning to its end, unless it holds a library call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.graph.control import Control
from rushlight.graph.ir import Graph, Node, TensorType
from rushlight.passes.borders import copy_borders
from rushlight.passes.dead import drop_dead
from rushlight.passes.early import early_first, still_leaves, still_nodes
from rushlight.passes.order import Plan, plan
from rushlight.runtime.program import (
    CallStep,
    CopyStep,
    CountStep,
    GrowStep,
    JumpStep,
    KernelStep,
    Program,
    RowStep,
    Slot,
)

NUMBER = TensorType((1,), dtypes.int64)


def pieces(node: Node) -> list[Graph]:
    """The graphs inside a node as they are run: they write to what they are given.

    A branch writes to the states of generators alone, the body of a loop to all that it carries.
    What is captured is the same at each step of a loop; a branch has inputs alone.
    """
    attrs, op = node.attrs, node.op.name
    if op == "cond":
        states = {j - 1: i for i, j in attrs["states"]}
        kept = [k for k in range(len(attrs["branches"][0].outputs)) if k not in states.values()]
        given = [Graph((*g.inputs, *g.captured), (), g.outputs) for g in attrs["branches"]]
        return [piece(graph, kept, states) for graph in given]
    body = attrs["body"]
    if op == "scan":
        carried = attrs["carried"]
        rest = range(carried, len(body.outputs))
        return [piece(body, rest, {i: i for i in range(carried)})]
    found = [
        piece(attrs["condition"], [0], {}),
        piece(body, (), {i: i for i in range(len(body.outputs))}),
    ]
    if op == "while_vjp":
        first = len(body.inputs)
        back = attrs["backward"]
        found.append(piece(back, (), {first + i: i for i in range(len(back.outputs))}))
    return found


def piece(graph: Graph, outputs: Sequence[int], writes: Mapping[int, int]) -> Graph:
    """A graph with these of its outputs; others are written to inputs, both by number."""
    written = [(graph.inputs[i], graph.outputs[k]) for i, k in writes.items()]
    results = tuple([graph.outputs[k] for k in outputs])
    whole = Graph(graph.inputs, graph.captured, results, tuple(written))
    return copy_borders(drop_dead(whole))


def plan_inside(graph: Graph) -> Plan:
    """The plan of a piece: what is made of captured values alone comes first."""
    leaves = still_leaves(graph, still_inside(graph))
    return early_first(graph, plan(graph, still_nodes(graph, leaves)), leaves)


def still_inside(graph: Graph) -> range:
    """The numbers of the captured values of a piece that stay the same: all of them."""
    return range(len(graph.captured))


def found_inside(graph: Graph, steps: Plan, path: Sequence[tuple[int, int]]) -> tuple[Graph, Plan]:
    """The graph and the plan of a piece, to which a path of (step of a plan, piece) leads."""
    for origin, number in path:
        (node,) = steps.steps[origin].nodes
        graph = pieces(node)[number]
        steps = plan_inside(graph)
    return graph, steps


class Inlined:
    """A node of control flow on its way into a program."""

    def __init__(self, node: Node, programs: Sequence[Program]) -> None:
        """``programs`` are those of its :func:`pieces`."""
        assert isinstance(node.op, Control)
        self.node, self.attrs, self.programs = node, node.attrs, programs
        self.states = dict(node.attrs["states"])  # operands by results

    def spaces(self, results: Sequence[Node | None]) -> Iterator[tuple[str, TensorType]]:
        """The memory that it needs beside operands and results, by names."""
        yield "arena", TensorType((max([p.arena for p in self.programs] + [1]),), dtypes.uint8)
        for number, inner in enumerate(self.programs):
            if inner.kept:
                yield f"kept {number}", TensorType((inner.kept,), dtypes.uint8)
        for i, (kind, result) in enumerate(zip(self.node.type, results, strict=True)):
            if result is None and i not in self.states:
                yield f"result {i}", kind
        if self.node.op.name == "cond":
            return
        yield "counter", NUMBER
        yield "flag", NUMBER
        body = self.attrs["body"]
        if self.node.op.name == "scan":
            begin = self.attrs["carried"]
            for i, node in enumerate(body.inputs[begin:]):
                yield f"x {i}", node.type
            for i, node in enumerate(body.outputs[begin:]):
                yield f"y {i}", node.type
        elif self.node.op.name == "while_vjp":
            for i, node in enumerate(body.inputs):
                yield f"carried {i}", node.type

    def emit(
        self, program: Program, origin: int, slots: Mapping[str, int], operands: Sequence[int]
    ) -> None:
        """Adds the steps to a program; ``slots`` are results and memory by their names."""
        self.program, self.origin, self.steps = program, origin, program.steps
        self.slots, self.operands = slots, operands
        self.results = [
            operands[self.states[i]] if i in self.states else slots[f"result {i}"]
            for i in range(len(self.node.type))
        ]
        {"cond": self.choose, "while_loop": self.repeat, "scan": self.sweep}.get(
            self.node.op.name, self.go_back
        )()

    def choose(self) -> None:
        """The steps of one branch or another."""
        selector, *given = self.operands
        made = [slot for i, slot in enumerate(self.results) if i not in self.states]
        ends = []
        for number in range(len(self.programs) - 1):
            other = self.jump(selector, number)
            self.insert(self.piece(number, given, made))
            ends.append(self.jump())
            self.land(other)
        self.insert(self.piece(len(self.programs) - 1, given, made))
        for end in ends:
            self.land(end)

    def repeat(self) -> None:
        """The steps of a loop with a condition."""
        carried = self.begin(self.results)
        captured = self.operands[len(carried) :]
        test = self.piece(0, carried, [self.slots["flag"]], captured)
        body = self.piece(1, carried, [], captured)
        begin = len(self.steps)
        self.insert(test)
        end = self.jump(self.slots["flag"], 1)
        self.insert(body)
        self.jump(to=begin)
        self.land(end)

    def sweep(self) -> None:
        """The steps of a loop over rows."""
        count, length, reverse = [self.attrs[x] for x in ("carried", "length", "reverse")]
        inputs, counter = self.attrs["body"].inputs, self.slots["counter"]
        carried = self.begin(self.results[:count])
        if not length:
            return
        rows = [self.slots[f"x {i}"] for i in range(len(inputs) - count)]
        ys = [self.slots[f"y {i}"] for i in range(len(self.results) - count)]
        body = self.piece(0, [*carried, *rows], ys, self.operands[len(inputs) :])
        self.set(counter, length - 1 if reverse else 0)
        begin = len(self.steps)
        for xs, row in zip(self.operands[count:], rows, strict=False):
            size = self.program.slots[row].nbytes
            self.steps.append(RowStep(xs, row, counter, size, 0, size))
        self.insert(body)
        for y, stack in zip(ys, self.results[count:], strict=True):
            size = self.program.slots[y].nbytes
            self.steps.append(RowStep(y, stack, counter, 0, size, size))
        self.steps.append(CountStep(counter, -1 if reverse else 1))
        self.jump(counter, -1 if reverse else length, begin)

    def go_back(self) -> None:
        """The steps of a loop that keeps what it carries, and of the way back."""
        count, whole = len(self.attrs["body"].inputs), len(self.attrs["backward"].inputs)
        carried = self.begin([self.slots[f"carried {i}"] for i in range(count)])
        captured, counter = self.operands[whole:], self.slots["counter"]
        sizes = [self.program.slots[slot].nbytes for slot in carried]
        stacks = [self.add(Slot("stack", 0, (size,), np.dtype(np.uint8))) for size in sizes]
        kept = list(zip(carried, stacks, sizes, strict=True))
        test = self.piece(0, carried, [self.slots["flag"]], captured)
        body = self.piece(1, carried, [], captured)
        back = self.piece(2, [*carried, *self.results], [], captured)
        self.set(counter, 0)
        begin = len(self.steps)
        self.insert(test)
        end = self.jump(self.slots["flag"], 1)
        for slot, stack, size in kept:
            self.steps.append(GrowStep(counter, stack))
            self.steps.append(RowStep(slot, stack, counter, 0, size, size))
        self.insert(body)
        self.steps.append(CountStep(counter, 1))
        self.jump(to=begin)
        self.land(end)
        for operand, result in zip(self.operands[count:whole], self.results, strict=True):
            self.steps.append(CopyStep(operand, result))
        begin = len(self.steps)
        more = self.jump(counter, 0)
        end = self.jump()
        self.land(more)
        self.steps.append(CountStep(counter, -1))
        for slot, stack, size in kept:
            self.steps.append(RowStep(stack, slot, counter, size, 0, size))
        self.insert(back)
        self.jump(to=begin)
        self.land(end)

    def begin(self, places: Sequence[int]) -> Sequence[int]:
        """Puts what is carried at first in its places; generators are where they are."""
        for operand, place in zip(self.operands, places, strict=False):
            if operand != place:
                self.steps.append(CopyStep(operand, place))
        return places

    def set(self, slot: int, number: int) -> None:
        self.steps.append(CopyStep(self.constant(number), slot))

    def constant(self, number: int) -> int:
        """The slot of an integer."""
        self.program.constants.append(np.array([number], np.int64))
        place = len(self.program.constants) - 1
        return self.add(Slot("constant", place, (1,), np.dtype(np.int64)))

    def add(self, slot: Slot) -> int:
        self.program.slots.append(slot)
        return len(self.program.slots) - 1

    def jump(self, slot: int | None = None, number: int = 1, to: int = -1) -> int:
        """A jump unless ``slot`` holds ``number``; without a slot, in any case."""
        self.steps.append(JumpStep(self.constant(0) if slot is None else slot, number, to))
        return len(self.steps) - 1

    def land(self, jump: int) -> None:
        """A jump leads to the next step."""
        self.steps[jump] = self.steps[jump]._replace(to=len(self.steps))  # type: ignore[call-arg]

    def piece(
        self,
        number: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        captured: Sequence[int] = (),
    ) -> Piece:
        """A graph inside over slots of the program around it, whose early steps are added."""
        inner, program = self.programs[number], self.program
        bases = {"arena": program.slots[self.slots["arena"]].place}
        if inner.kept:
            bases["kept"] = program.slots[self.slots[f"kept {number}"]].place
        places = {"input": inputs, "output": outputs, "captured": captured}
        new: list[int] = []
        for slot in inner.slots:
            if slot.where in places:
                new.append(places[slot.where][slot.place])
                continue
            if slot.where in bases:
                slot = slot._replace(where="arena", place=bases[slot.where] + slot.place)
            elif slot.where == "constant":
                program.constants.append(inner.constants[slot.place])
                slot = slot._replace(place=len(program.constants) - 1)
            elif slot.where == "function":
                program.functions.append(inner.functions[slot.place])
                slot = slot._replace(place=len(program.functions) - 1)
            new.append(self.add(slot))
        program.kernels |= inner.kernels
        found = Piece(inner, new, (self.origin, number))
        self.steps += found.steps(0, inner.early, len(self.steps))
        return found

    def insert(self, piece: Piece) -> None:
        """The steps of a graph inside that run each time."""
        early, count = piece.program.early, len(piece.program.steps)
        self.steps += piece.steps(early, count, len(self.steps) - early)


class Piece(NamedTuple):
    """The program of a graph inside, the slots it has in that around it, and where it is from."""

    program: Program
    slots: Sequence[int]
    place: tuple[int, int]

    def steps(self, begin: int, end: int, first: int) -> list[Any]:
        """Some of its steps, in a program where they would begin at ``first``."""
        return [moved(s, self.slots, first, self.place) for s in self.program.steps[begin:end]]


def moved(step: Any, new: Sequence[int], first: int, place: tuple[int, int]) -> Any:
    """A step over other slots, in a program where its own begin at ``first``."""
    match step:
        case KernelStep():
            slots = tuple([new[i] for i in step.slots])
            return step._replace(slots=slots, path=(place, *step.path))
        case CallStep():
            return step._replace(
                operands=tuple([o and o._replace(slot=new[o.slot]) for o in step.operands]),
                results=tuple([None if i is None else new[i] for i in step.results]),
                generator=None if step.generator is None else new[step.generator],
                path=(place, *step.path),
            )
        case CopyStep():
            return CopyStep(new[step.source], new[step.target])
        case RowStep():
            source, target, counter, *rest = step
            return RowStep(new[source], new[target], new[counter], *rest)
        case JumpStep():
            return JumpStep(new[step.slot], step.number, step.to + first)
        case CountStep():
            return CountStep(new[step.counter], step.by)
        case GrowStep():
            return GrowStep(new[step.counter], new[step.stack])
    raise TypeError(f"{step} is no step of a program")
