"""The plan of a program: steps in an order that keeps little in memory, and what is written where.

A value that a program writes to a captured tensor can be stored right into that tensor's memory if
all who need the old value have read it: steps that run before, or the same step at the same index.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rushlight.graph.ir import ITEM, Graph, Node, walk
from rushlight.passes.fuse import Call, Group, Step, fuse
from rushlight.passes.spaces import Place, axes_of, flat, pulled, same, split


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a program, and which of their results are stored right into captured memory.

    ``stores[value] = target``; the writes of the graph that are not among them are copied in the
    end. The first ``early`` steps need not run at every call.
    """

    steps: tuple[Step, ...]
    stores: Mapping[Node, Node]
    early: int = 0

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


def plan(graph: Graph, still: Collection[Node] = ()) -> Plan:
    """How to run a graph; nodes that are ``still`` the same at every call are steps apart."""
    steps = fuse(graph, still)
    links = Links(graph, steps)
    stores = {}
    for target, value in graph.writes:
        if links.store(target, value):
            stores[value] = target
    return Plan(tuple(ordered(links)), stores)


class Links:
    """Which step must run before which, as the data flow and stores demand."""

    def __init__(self, graph: Graph, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.maker: dict[Node, Step] = {}
        self.readers: dict[Node, list[Step]] = {}
        for step in steps:
            for node in made(step):
                self.maker[node] = step
        for step in steps:
            for node in step.inputs:
                source = self.source(node)
                self.readers.setdefault(source, []).append(step)
        self.after: dict[Step, set[Step]] = {step: set() for step in steps}
        for step in steps:
            for node in step.inputs:
                before = self.maker.get(self.source(node))
                if before is not None:
                    self.after[before].add(step)
        self.outputs, self.roots = set(graph.outputs), set(graph.roots)
        self.taken: set[Node] = set()
        self.reads: dict[Group, Reads] = {}

    def source(self, node: Node) -> Node:
        """The value in memory that ``node`` is: of an item, the node it is a result of."""
        if node.op is ITEM and node not in self.maker:
            assert node.inputs[0] is not None
            return node.inputs[0]
        return node

    def readers_of(self, node: Node) -> Iterator[Step]:
        """The steps that read the memory of a value, also through aliases."""
        for step in self.readers.get(node, ()):
            yield step
            if isinstance(step, Call) and step.alias:
                yield from self.readers_of(step.node)

    def store(self, target: Node, value: Node) -> bool:
        """Whether ``value`` can be stored into the memory of ``target``; readers then go first."""
        step = self.maker.get(value)
        if not isinstance(step, Group) or value in self.outputs or value in self.taken:
            return False
        if target in self.roots:  # the old value is needed in the end
            return False
        others = [reader for reader in self.readers_of(target) if reader is not step]
        if any([self.reaches(step, reader) for reader in others]):
            return False
        if target in step.inputs and not self.reads_of(step).only_at(target, value):
            return False
        self.taken.add(value)
        for reader in others:
            self.after[reader].add(step)
        return True

    def reads_of(self, group: Group) -> Reads:
        found = self.reads.get(group)
        if found is None:
            found = self.reads[group] = Reads(group)
        return found

    def reaches(self, start: Step, end: Step) -> bool:
        """Whether ``end`` must run after ``start``."""
        seen, stack = {start}, [start]
        while stack:
            step = stack.pop()
            if step is end:
                return True
            fresh = self.after[step] - seen
            seen |= fresh
            stack.extend(fresh)
        return False


def made(step: Step) -> tuple[Node, ...]:
    return step.outputs if isinstance(step, Group) else (step.node,)


class Reads:
    """Where a group reads the values it needs, in terms of the index of its outputs."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.several: list[Node] = []  # computed at more than one index
        self.places: dict[Node, Place] = {}
        self.plain = not any([n.op.scatter or n.op.scan for n in group.nodes if n.op is not ITEM])
        index = flat(axes_of(group.outputs[0].type.shape)) or ()
        for output in group.outputs:
            shape = output.type.shape
            self.places[output] = split(index, shape) or axes_of(shape)
        if self.plain:
            self.pull()

    def pull(self) -> None:
        for node in reversed(self.group.nodes):
            if node.op is ITEM:
                self.note(node.inputs[0], self.places[node])
                continue
            for n, place in zip(node.inputs, pulled(node, self.places[node]), strict=True):
                self.note(n, place)

    def note(self, node: Node | None, place: Place | None) -> None:
        if node is not None and place is not None:
            if not same(self.places.setdefault(node, place), place):
                self.several.append(node)

    def only_at(self, target: Node, value: Node) -> bool:
        """Whether ``target`` is read only at the very index where ``value`` is stored.

        Whatever is computed at other indices could read what is overwritten already.
        """
        if not self.plain or not same_axes(self.places[target], self.places[value]):
            return False
        others = [n for n in self.group.inputs if n is not target]
        return not self.several or target not in walk(self.several, others)


def same_axes(a: Place, b: Place) -> bool:
    return flat(a) is not None and flat(a) == flat(b)


def ordered(links: Links) -> Iterator[Step]:
    """The steps in an order in which they can run: next comes what frees most, or adds least."""
    position = {step: i for i, step in enumerate(links.steps)}
    before = dict.fromkeys(links.steps, 0)
    for followers in links.after.values():
        for step in followers:
            before[step] += 1
    waiting = {node: len(set(steps)) for node, steps in links.readers.items()}
    heap = [(growth(s, links, waiting), position[s], s) for s in links.steps if not before[s]]
    heapq.heapify(heap)
    done: set[Step] = set()
    while heap:
        _, _, step = heapq.heappop(heap)
        if step in done:
            continue
        done.add(step)
        yield step
        for follower in links.after[step]:
            before[follower] -= 1
            if not before[follower]:
                heapq.heappush(
                    heap, (growth(follower, links, waiting), position[follower], follower)
                )
        for node in {links.source(n) for n in step.inputs}:
            waiting[node] -= 1
            if waiting[node] == 1:  # its last reader would free it
                for reader in links.readers[node]:
                    if reader not in done and not before[reader]:
                        entry = (growth(reader, links, waiting), position[reader], reader)
                        heapq.heappush(heap, entry)


def growth(step: Step, links: Links, waiting: Mapping[Node, int]) -> int:
    """How many bytes more are needed after a step than before it."""
    if isinstance(step, Call) and step.alias:
        return 0
    freed = {links.source(n) for n in step.inputs}
    gone = [n for n in freed if waiting[n] == 1 and n in links.maker and n not in links.outputs]
    return nbytes(made(step)) - nbytes(gone)


def nbytes(nodes: Sequence[Node]) -> int:
    kinds = [k for n in nodes for k in (n.type if isinstance(n.type, tuple) else (n.type,))]
    return sum([kind.nbytes for kind in kinds])
