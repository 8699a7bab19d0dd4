"""Sections: a graph as C statements over memory that is planned ahead.

Each value has an address: an argument of the run, a piece of the state, or a piece of the arena,
which values share that are not alive together. Graphs inside of branches and loops are sections of
their own, whose statements stand between braces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.c.calls import invocation
from rushlight.c.comments import comment
from rushlight.c.file import File, at
from rushlight.c.formulas import contiguous
from rushlight.c.invocations import Invocation
from rushlight.c.products import product
from rushlight.c.snippets import STORED
from rushlight.codegen.products import Place, place_of
from rushlight.graph.control import Control, origin_of
from rushlight.graph.ir import CONSTANT, ITEM, Graph, Node, TensorType
from rushlight.graph.replay import REDRAW, SNAPSHOT, original
from rushlight.passes.fuse import Call, Group, Step
from rushlight.passes.order import Plan, plan
from rushlight.runtime.arena import ALIGNMENT, Block
from rushlight.runtime.arena import plan as plan_memory
from rushlight.runtime.control import pieces

NO_MEMORY = 4  # the code of a stack that cannot grow


class Section:
    """The statements of a graph; ``size`` is how many bytes of the arena they need."""

    def __init__(self, file: File, graph: Graph, steps: Plan) -> None:
        self.file, self.graph, self.plan = file, graph, steps
        self.aliases = {s.node for s in steps.steps if isinstance(s, Call) and s.alias}
        self.items = {(n.inputs[0], n.attrs["index"]): n for n in graph.nodes() if n.op is ITEM}
        self.products: dict[int, tuple[str, int]] = {}
        self.calls: dict[int, Invocation] = {}
        self.inner: dict[int, list[Section]] = {}
        self.first: dict[Node, int] = {}
        self.last: dict[Node, int] = {}
        self.at: dict[Node, str] = {}
        self.size = 0
        for number, step in enumerate(steps.steps):
            if isinstance(step, Call) and not step.alias:
                self.prepare(number, step.node)
        self.lives()
        self.places = self.arena()

    def prepare(self, number: int, node: Node) -> None:
        """How a call is made: as branches and loops, a product, or a function."""
        if isinstance(node.op, Control):
            graphs = [contiguous(graph) for graph in pieces(node)]
            self.inner[number] = [Section(self.file, graph, plan(graph)) for graph in graphs]
            return
        if node.op.subscripts is not None:
            places = [self.place(n) for n in node.inputs if n is not None]
            self.products[number] = product(node, places, self.file)
            return
        if node.op is not SNAPSHOT:
            self.calls[number] = invocation(
                original(node) if node.op is REDRAW else node, self.file
            )

    def place(self, node: Node) -> Place:
        """Where the elements of an operand are, in the memory of the value that it is a view of."""
        views = []
        while node in self.aliases:
            views.append(node)
            node = node.inputs[0]  # type: ignore[assignment]
        seen = memory = np.empty(node.type.shape, node.type.dtype.numpy)
        for view in reversed(views):
            seen = view.op.compute([seen], view.attrs)
        return place_of(seen, memory)

    def home(self, node: Node) -> Node:
        """The value in whose memory an alias lies."""
        while node in self.aliases:
            node = node.inputs[0]  # type: ignore[assignment]
        while (before := origin_of(node)) is not None:
            node = before
        return node

    def made(self, step: Step) -> list[Node]:
        """The values that a step leaves in memory."""
        nodes = step.outputs if isinstance(step, Group) else (step.node,)
        found: list[Node] = []
        for node in nodes:
            if isinstance(node.type, tuple):
                several = [self.items.get((node, i)) for i in range(len(node.type))]
                found += [n for n in several if n is not None and origin_of(n) is None]
            else:
                found.append(node)
        return found

    def lives(self) -> None:
        """When each value is made and last read, in steps of the plan."""
        for number, step in enumerate(self.plan.steps):
            for node in step.inputs:
                self.last[self.home(node)] = number
            if isinstance(step, Call) and step.alias:
                continue
            for node in self.made(step):
                self.first[node] = number
                self.last.setdefault(node, number)
        for node in self.graph.roots:
            self.last[self.home(node)] = len(self.plan.steps)

    def arena(self) -> dict[Any, int]:
        """Offsets of values, and of the working memory of steps."""
        elsewhere = {*self.plan.stores, *self.graph.outputs}
        sizes: dict[Any, tuple[int, int, int]] = {}
        for node in self.first:
            if node not in elsewhere:
                sizes[node] = (node.type.nbytes, self.first[node], self.last[node])
        for number, (_, elements) in self.products.items():
            kind = self.plan.steps[number].nodes[0].type
            size = elements * (8 if kind.kind in ("f64", "i64") else 4)
            sizes[number, "panel"] = (size, number, number)
        for number, call in self.calls.items():
            sizes[number, "scratch"] = (call.scratch, number, number)
            several = self.plan.steps[number].nodes[0].type
            for i, kind in enumerate(several if isinstance(several, tuple) else call.kinds):
                sizes[number, i] = (kind.nbytes, number, number)
        for number, inner in self.inner.items():
            node = self.plan.steps[number].nodes[0]
            sizes[number, "inner"] = (max([s.size for s in inner]), number, number)
            for i, kind in enumerate(node.type):
                sizes[number, i] = (kind.nbytes, number, number)
            sizes[number, "flag"] = (ALIGNMENT, number, number)
            if node.op.name == "while_vjp":
                for i, leaf in enumerate(node.attrs["body"].inputs):
                    sizes[number, f"carried {i}"] = (leaf.type.nbytes, number, number)
        blocks = [Block(max(1, size), a, b) for size, a, b in sizes.values()]
        planned = plan_memory(blocks)
        self.size = -(-planned.size // ALIGNMENT) * ALIGNMENT
        return dict(zip(sizes, planned.offsets, strict=True))

    def lines(self, base: int, leaves: Mapping[Node, str], outputs: Sequence[str]) -> Iterator[str]:
        """The statements, in an arena that begins at ``base``."""
        self.base = base
        self.at = dict(leaves)
        for value, target in self.plan.stores.items():
            self.at[value] = self.at[target]
        copies = [
            (value, self.at[target], target.type)
            for target, value in self.graph.writes
            if origin_of(value) is None
            and value is not target
            and self.plan.stores.get(value) is not target
        ]
        for node, address in zip(self.graph.outputs, outputs, strict=True):
            if node in self.first and node not in self.at:
                self.at[node] = address
            else:
                copies.append((node, address, node.type))
        for key, offset in self.places.items():
            if isinstance(key, Node) and key not in self.at:
                self.at[key] = at(base + offset)
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, Group):
                yield from self.kernels(step, number)
            elif not step.alias:
                yield from self.call(step.node, number)
        for node, address, kind in copies:
            if kind.nbytes and self.address(node) != address:
                yield f"memcpy({address}, {self.address(node)}, {kind.nbytes});"

    def address(self, node: Node) -> str:
        """Where the elements of a value are."""
        home = self.home(node)
        return self.file.constant(home) if home.op is CONSTANT else self.at[home]

    def scratch(self, number: int, what: Any) -> str:
        return at(self.base + self.places[number, what])

    def kernels(self, step: Group, number: int) -> Iterator[str]:
        """The kernels of a group."""
        late = [node for node in step.outputs if node in self.plan.stores]
        kernels, meant = self.file.alike.lower(step, late)
        yield comment(step.nodes)
        parts: dict[Any, str] = {}
        for kernel in kernels:
            function = self.file.kernel(kernel)
            args = []
            for buffer in function.buffers:
                if buffer.node is not None:
                    args.append(self.address(meant[buffer.node]))
                else:
                    if buffer not in parts:
                        size = buffer.size * buffer.dtype.itemsize
                        parts[buffer] = at(self.file.reserve(size))
                    args.append(parts[buffer])
            yield from self.run(function.name, args, function.errors, step.nodes)

    def run(
        self, name: str, args: Sequence[str], errors: Sequence[Any], nodes: Sequence[Node]
    ) -> Iterator[str]:
        """A call of a function; if it fails, so does the run."""
        if not errors:
            yield f"{name}({', '.join(args)});"
            return
        code = self.file.codes(errors, nodes)
        yield f"{name}({', '.join([*args, '&self->fault', str(code)])});"
        freed = [f"free({stack});" for stack in self.file.stacks]
        end = " ".join([*freed, "return self->fault.code;"])
        yield f"if (self->fault.code) {f'{{ {end} }}' if freed else end}"

    def call(self, node: Node, number: int) -> Iterator[str]:
        yield comment([node])
        if number in self.inner:
            yield from self.control(node, number)
            return
        operands = [n for n in node.inputs if n is not None]
        if number in self.products:
            name, elements = self.products[number]
            panel = [self.scratch(number, "panel")] if elements else []
            yield f"{name}({', '.join([*map(self.address, operands), self.at[node], *panel])});"
            return
        if node.op is SNAPSHOT:
            yield from copied(
                [self.address(operands[0])], [self.result(node, number, 0)], node.type
            )
            return
        call = self.calls[number]
        results = [self.result(node, number, i) for i in range(len(call.kinds))]
        given = [self.address(operands[i]) for i in call.operands]
        if node.op is REDRAW:
            state = self.result(node, number, len(node.type) - 1)
            yield from copied(given, [state], node.type[-1:])
            given[0] = state
        scratch = [self.scratch(number, "scratch")] if call.scratch else []
        args = [*given, *results, *scratch, *call.numbers]
        yield from self.run(call.name, args, call.errors, [node])

    def result(self, node: Node, number: int, index: int) -> str:
        """Where a result of a node goes; unused ones have a place of their own."""
        if not isinstance(node.type, tuple):
            return self.at[node]
        found = self.items.get((node, index))
        return self.scratch(number, index) if found is None else self.address(found)

    def control(self, node: Node, number: int) -> Iterator[str]:
        """Branches and loops."""
        operands = [self.address(n) for n in node.inputs if n is not None]
        results = [self.result(node, number, i) for i in range(len(node.type))]
        if node.op.name == "cond":
            yield from self.choose(node, number, operands, results)
        elif node.op.name == "while_loop":
            yield from copied(operands, results, node.type)
            yield from self.repeat(number, results, operands[len(results) :])
        elif node.op.name == "scan":
            yield from copied(operands, results[: node.attrs["carried"]], node.type)
            yield from self.sweep(node, number, operands, results)
        else:
            yield from self.go_back(node, number, operands, results)

    def inside(self, number: int) -> tuple[list[Section], int]:
        """The graphs inside of a node, and where their arena begins."""
        return self.inner[number], self.base + self.places[number, "inner"]

    def choose(
        self, node: Node, number: int, operands: list[str], results: list[str]
    ) -> Iterator[str]:
        """One of several branches."""
        inner, base = self.inside(number)
        states = dict(node.attrs["states"])
        made = [r for i, r in enumerate(results) if i not in states]
        kind = STORED[node.inputs[0].type.kind]  # type: ignore[union-attr]
        last = len(inner) - 1
        for i, section in enumerate(inner):
            test = f"if (*(const {kind} *){operands[0]} == {i}) " if i < last else ""
            yield f"{'else ' if i else ''}{test}{{"
            yield from indented(section.body(base, operands[1:], made))
            yield "}"

    def repeat(
        self, number: int, carried: list[str], captured: list[str], before: Sequence[str] = ()
    ) -> Iterator[str]:
        """A loop with a condition; each step begins with the statements ``before``."""
        inner, base = self.inside(number)
        given, flag = [*carried, *captured], self.scratch(number, "flag")
        yield "for (;;) {"
        yield from indented(inner[0].body(base, given, [flag]))
        yield f"    if (!*(const uint8_t *){flag}) break;"
        yield from indented(iter(before))
        yield from indented(inner[1].body(base, given, []))
        yield "}"

    def go_back(
        self, node: Node, number: int, operands: list[str], results: list[str]
    ) -> Iterator[str]:
        """A loop that keeps all that it carries on a stack, and the way back."""
        inner, base = self.inside(number)
        leaves = node.attrs["body"].inputs
        count, whole = len(leaves), len(node.attrs["backward"].inputs)
        carried = [self.scratch(number, f"carried {i}") for i in range(count)]
        captured, own = operands[whole:], self.file.variable()
        stack, step, room = f"{own}_stack", f"{own}_step", f"{own}_room"
        size = sum([n.type.nbytes for n in leaves])
        keep, give, offset = [], [], 0
        for place, leaf in zip(carried, leaves, strict=True):
            row = f"{stack} + {step} * {size} + {offset}"
            keep.append(f"memcpy({row}, {place}, {leaf.type.nbytes});")
            give.append(f"memcpy({place}, {row}, {leaf.type.nbytes});")
            offset += leaf.type.nbytes
        freed = [*[f"free({s});" for s in self.file.stacks], f"free({stack});"]
        grow = [
            f"if ({step} == {room}) {{",
            f"    unsigned char *more = realloc({stack}, (2 * {room} + 16) * {max(1, size)});",
            f"    if (!more) {{ {' '.join(freed)} return {NO_MEMORY}; }}",
            f"    {stack} = more;",
            f"    {room} = 2 * {room} + 16;",
            "}",
        ]
        yield "{"
        yield f"    unsigned char *{stack} = NULL;"
        yield f"    size_t {step} = 0, {room} = 0;"
        self.file.stacks.append(stack)
        yield from indented(copied(operands, carried, [n.type for n in leaves]))
        yield from indented(self.repeat(number, carried, captured, [*grow, *keep, f"{step}++;"]))
        yield from indented(copied(operands[count:], results, node.type))
        yield f"    while ({step}) {{"
        yield from indented(indented(iter([f"{step}--;", *give])))
        given = [*carried, *results, *captured]
        yield from indented(indented(inner[2].body(base, given, [])))
        yield "    }"
        yield f"    free({stack});"
        yield "}"
        self.file.stacks.pop()

    def sweep(
        self, node: Node, number: int, operands: list[str], results: list[str]
    ) -> Iterator[str]:
        """A loop over rows, which are read and written where they lie."""
        (inner,), base = self.inside(number)
        attrs = node.attrs
        count, length, inputs = attrs["carried"], attrs["length"], attrs["body"].inputs
        step = self.file.variable()
        if attrs["reverse"]:
            yield f"for (int64_t {step} = {length - 1}; {step} >= 0; {step}--) {{"
        else:
            yield f"for (int64_t {step} = 0; {step} < {length}; {step}++) {{"
        rows = [
            f"ROW({x}, {step}, {n.type.nbytes})"
            for x, n in zip(operands[count:], inputs[count:], strict=False)
        ]
        outputs = [
            f"ROW({y}, {step}, {n.type.nbytes})"
            for y, n in zip(results[count:], attrs["body"].outputs[count:], strict=True)
        ]
        given = [*results[:count], *rows, *operands[len(inputs) :]]
        yield from indented(inner.body(base, given, outputs))
        yield "}"

    def body(self, base: int, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
        """The statements of a graph inside, whose leaves are all inputs."""
        leaves = (*self.graph.inputs, *self.graph.captured)
        return self.lines(base, dict(zip(leaves, inputs, strict=True)), outputs)


def indented(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield f"    {line}"


def copied(
    sources: Sequence[str], targets: Sequence[str], kinds: Sequence[TensorType]
) -> Iterator[str]:
    """Copies of values to other places, where these are others."""
    for source, target, kind in zip(sources, targets, kinds, strict=False):
        if source != target and kind.nbytes:
            yield f"memcpy({target}, {source}, {kind.nbytes});"
