"""Nodes of control flow in the making: what they hold, what they are given, their gradients.

The gradient of a branch or of a row of a scan is traced together with it. What backward needs and
is dear to compute, or random, becomes one more result of the node; the rest is computed again. A
``while`` loop, of which nobody knows how often it runs, runs again for its gradient, and draws the
same random numbers from the state that it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.function import Function
from rushlight.autograd.modes import local
from rushlight.autograd.tape import edge
from rushlight.generator import Generator
from rushlight.graph.extents import template_of
from rushlight.graph.histories import refuse_lost, spend, use_up
from rushlight.graph.inner import Outside, Part
from rushlight.graph.ir import INPUT, Graph, Node, TensorType, item, walk
from rushlight.graph.joins import Join
from rushlight.graph.replay import SNAPSHOT, replayed
from rushlight.graph.residuals import dear, rebuilt, stand_in, type_of_tensor, zeros
from rushlight.graph.script.sharing import tie
from rushlight.graph.streams import STATE
from rushlight.graph.trace import Trace
from rushlight.ops.base import registry, touched
from rushlight.symbol import Symbol, TraceError
from rushlight.tensor import Tensor, wrap

ADD = registry["add"]
COND, WHILE, SCAN, WHILE_VJP = [
    registry[f"control.{name}"] for name in ("cond", "while_loop", "scan", "while_vjp")
]


def is_tracked(t: Tensor) -> bool:
    return local.state.grad and edge(t) is not None


class Recorded(Function):
    """The tape's view of a node of control flow."""

    @staticmethod
    def forward(ctx: Any, made: Made, *wanted: Tensor) -> Any:
        ctx.made = made
        results = made.run()
        ctx.mark_non_differentiable(*[t for i, t in enumerate(results) if i not in made.tracked])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        made: Made = ctx.made
        if local.state.grad:
            return (None, *made.recorded(grads))
        trace = local.state.trace
        return (None, *made.backward([trace.current(trace.symbol(g)) for g in grads]))


class Made:
    """A node of control flow in the making.

    ``outside`` is what its parts capture; ``changed`` what of that they change.
    """

    tracked: Sequence[int]  # which results have gradients
    wanted: Sequence[Tensor]  # of which tensors
    spent: Collection[int]  # which results have been differentiated inside, and have none any more
    made_of: Sequence[Tensor]  # what those were made of, at the most

    def __init__(self, trace: Trace, parts: Sequence[Part]) -> None:
        self.trace, self.parts = trace, parts
        self.symbols: dict[Node, Symbol] = {}  # of nodes that another trace asks for
        # Dicts, whose keys are found by identity: symbols are not compared.
        self.outside = {x: None for part in parts for x in part.closed}
        self.changed = {x: None for part in parts for x in part.changed}
        self.again: Callable[[Sequence[Tensor]], list[Tensor]] | None = None
        self.owners = {
            x: part.owner(x) for part in parts for x in part.changed if isinstance(x, Symbol)
        }

    def results(self) -> list[Tensor]:
        """The tensors of the node, which know how to be differentiated."""
        self.met = self.given_now()
        use_up(self.trace, self.parts)
        if not self.tracked or not self.wanted:
            found = self.run()
        else:
            found = list(Recorded.apply(self, *self.wanted))
            self.trace.mark(found)
            joined = self.joined()
            self.trace.joins |= {edge(found[i]): (joined, i) for i in self.tracked}
        for i in self.spent:
            spend(self.trace, found[i], self.made_of)
        return found

    def run(self) -> list[Tensor]:
        """Adds the node to the graph: its results."""
        raise NotImplementedError

    def joined(self) -> Join:
        """What the results have to do with each other."""
        return Join([(part.edges, part.inner.beyond) for part in self.parts])

    def backward(self, tangents: Sequence[Node]) -> list[Tensor | None]:
        """Adds the node of the gradients: those of all that is wanted."""
        raise NotImplementedError

    def recorded(self, grads: Sequence[Tensor]) -> Sequence[Tensor | None]:
        """Gradients that can be differentiated again: of the functions, traced once more."""
        trace = self.trace
        before = zip(self.met, self.given_now(), strict=True)
        if self.again is None or self.changed or any([a is not b for a, b in before]):
            raise TraceError(
                f"control flow at {trace.place()} that writes to tensors or draws random numbers "
                "is differentiated twice, which a graph cannot do"
            )
        return self.again(grads)

    def given_now(self) -> list[Node]:
        """The nodes of all that the node is given from outside, at this moment."""
        return [self.now(x) for x in self.outside]

    def now(self, what: Outside) -> Node:
        """The node of something of outside at this moment."""
        if isinstance(what, Generator):
            stream = self.trace.random.of(what)
            self.trace.random.check(stream)
            return stream.node
        return self.trace.current(what)

    def put(self, what: Outside, node: Node) -> None:
        """Something of outside is another value from now on."""
        if isinstance(what, Generator):
            stream = self.trace.random.of(what)
            stream.node = stream.latest = node
            return
        owner = self.owners[what]
        self.trace.touch(owner)
        what.change()
        what.node = node
        touched(owner)
        self.trace.rewritten.add(owner._counter)

    def node(
        self, op: Any, inputs: Sequence[Node], types: Sequence[TensorType], **attrs: Any
    ) -> Node:
        return Node(op, tuple(inputs), attrs, tuple(types), local.state.trace.source())

    def tensor(self, node: Node) -> Tensor:
        trace = local.state.trace
        return wrap(Symbol(trace, node, template_of(trace, node.type)))

    def here(self, nodes: Sequence[Node]) -> list[Node]:
        """Nodes beside this one, as the running trace knows them: it may be that of a branch."""
        trace = local.state.trace
        if trace is self.trace:
            return list(nodes)
        for n in nodes:
            if n not in self.symbols:
                self.symbols[n] = Symbol(self.trace, n, template_of(self.trace, n.type))
        return [trace.current(trace.symbol(self.symbols[n])) for n in nodes]


class Branches(Made):
    """A node of which one branch runs."""

    def __init__(self, trace: Trace, selector: Tensor, parts: Sequence[Part]) -> None:
        super().__init__(trace, parts)
        self.selector = selector
        self.count = len(parts[0].results)
        self.spent = {i for part in parts for i in part.spent}
        self.made_of = list({id(t): t for part in parts for t in part.made_of}.values())
        found = {i for part in parts for i, below in enumerate(part.below) if below} - self.spent
        outsiders = {id(t): t for part in parts for t in part.outsiders}
        self.tracked, self.wanted = sorted(found), list(outsiders.values())
        self.saved = [dear(part) for part in parts]
        self.leaving = [(part, {id(t): g for t, g in part.new_gradients}) for part in parts]
        self.receivers = {id(t): t for part in parts for t, _ in part.new_gradients}
        self.replaced = {id(t): self.old_gradient(t) for t in self.receivers.values()}
        self.outside |= {x: None for x in self.replaced.values() if x is not None}

    def run(self) -> list[Tensor]:
        trace = self.trace
        graphs = []
        kept = [n.type for saved in self.saved for n in saved]
        for number, part in enumerate(self.parts):
            leaves = {x: part.leaf(x) for x in self.outside}
            outputs = [*part.outputs, *[part.last(x, leaves[x]) for x in self.changed]]
            for t in self.receivers.values():
                g, old = self.leaving[number][1].get(id(t)), self.replaced[id(t)]
                if g is None:
                    g = zeros(type_of_tensor(t)) if old is None else part.last(old, leaves[old])
                outputs.append(g)
            for other, saved in enumerate(self.saved):
                outputs += saved if other == number else [zeros(n.type) for n in saved]
            graphs.append(Graph((), tuple(leaves.values()), tuple(outputs)))
        self.leaves = [graph.captured for graph in graphs]
        self.given = [self.now(x) for x in self.outside]
        self.chosen = trace.current(trace.symbol(self.selector))
        own = self.count + len(self.changed)
        types = [n.type for n in graphs[0].outputs[: own + len(self.receivers)]]
        places = {x: 1 + i for i, x in enumerate(self.outside)}
        states = [
            (self.count + i, places[x])
            for i, x in enumerate(self.changed)
            if isinstance(x, Generator)
        ]
        made = self.node(
            COND,
            [self.chosen, *self.given],
            [*types, *kept],
            branches=tuple(graphs),
            states=tuple(states),
        )
        for i, x in enumerate(self.changed):
            self.put(x, item(made, self.count + i))
        for i, t in enumerate(self.receivers.values()):
            self.give(t, item(made, own + i))
        self.kept = [item(made, len(types) + i) for i in range(len(kept))]
        return [self.tensor(item(made, i)) for i in range(self.count)]

    def old_gradient(self, t: Tensor) -> Symbol | None:
        """What the gradient of a tensor of outside was before a branch replaces it."""
        if t._grad is None:
            return None
        found = self.trace.symbol(t._grad)
        if found.base is not None:
            raise TraceError(
                "a branch replaces a .grad that is a view of another tensor, which a graph cannot "
                "do: write to it in place, or clone() it before"
            )
        return found

    def give(self, t: Tensor, g: Node) -> None:
        """A tensor of outside has another gradient.

        If the way taken makes none, it is the one it had, or zeros.
        """
        old, known = self.replaced[id(t)], id(t) not in self.trace.unsure
        self.trace.set_gradient(t)
        t._grad = self.tensor(g)
        sure = [id(t) in own and id(t) not in part.inner.unsure for part, own in self.leaving]
        if not all(sure) and (old is None or not known):
            self.trace.unsure.add(id(t))
        if old is not None and not all(sure):
            tie(t._grad, [old, *old.shared], ".grad", f"branch at {self.trace.place()}")

    def backward(self, tangents: Sequence[Node]) -> list[Tensor | None]:
        """The gradients of all that is wanted."""
        given = [Node(INPUT, (), {}, tangents[i].type) for i in self.tracked]
        tensors = [isinstance(x, Symbol) for x in self.outside]  # not the states of generators
        graphs = []
        for number, part in enumerate(self.parts):
            replaced: dict[Any, Any] = {
                part.tangents[i]: node
                for i, node in zip(self.tracked, given, strict=True)
                if i in part.tangents
            }
            replaced |= {n: zeros(n.type) for i, n in part.tangents.items() if i in self.spent}
            stand_ins = [[stand_in(n) for n in saved] for saved in self.saved]
            replaced |= dict(zip(self.saved[number], stand_ins[number], strict=True))
            inputs = [n for several in stand_ins for n in several] + given
            outputs = [part.gradients.get(id(t)) or zeros(type_of_tensor(t)) for t in self.wanted]
            leaves = tuple([n for n, own in zip(self.leaves[number], tensors, strict=True) if own])
            graphs.append(Graph(tuple(inputs), leaves, tuple(rebuilt(outputs, replaced))))
        captured = [n for n, own in zip(self.given, tensors, strict=True) if own]
        (chosen, *kept), given = self.here([self.chosen, *self.kept]), self.here(captured)
        operands = [chosen, *kept, *[tangents[i] for i in self.tracked], *given]
        types = [n.type for n in graphs[0].outputs]
        made = self.node(COND, operands, types, branches=tuple(graphs), states=())
        return [self.tensor(item(made, i)) for i in range(len(self.wanted))]


class Loop(Made):
    """A node whose body runs many times: it carries values, and what it changes outside."""

    once = True  # at least

    def __init__(
        self,
        trace: Trace,
        parts: Sequence[Part],
        leaves: Sequence[Tensor],
        rows: Sequence[Tensor] = (),
        names: Sequence[str] = (),
    ) -> None:
        self.part, self.carried, self.names = parts[0], list(leaves), names
        self.before = [is_tracked(t) for t in leaves]
        self.track(rows)  # first: gradients may capture more, such as a number of elements
        super().__init__(trace, parts)
        self.still = [x for x in self.outside if x not in self.changed]

    def track(self, others: Sequence[Tensor]) -> None:
        """Which carried values and results have gradients, and with respect to what."""
        part, count = self.part, len(self.carried)
        refuse_lost(part, [*self.carried, *others])
        self.spend(others)
        known = {
            id(leaf) for leaf, x in zip(part.leaves[count:], others, strict=True) if is_tracked(x)
        }
        known |= set(part.inner.outsiders)
        pairs = enumerate(zip(part.leaves, self.before, strict=False))
        known |= {id(leaf) for i, (leaf, t) in pairs if t and i not in self.spent}
        while True:
            tracked = [
                i for i, below in enumerate(part.below) if any([id(t) in known for t in below])
            ]
            carried = [i for i in range(count) if id(part.leaves[i]) in known or i in tracked]
            more = {id(part.leaves[i]) for i in carried}
            if more <= known:
                break
            known |= more
        self.moving = [i for i in carried if self.part.leaves[i]._history is not None]
        self.tracked = sorted({*tracked, *self.moving})
        self.constants = part.outsiders  # of outside: the same at each step
        leaves = [part.leaves[i] for i in self.moving] + self.constants
        leaves += [t for t in part.leaves[count:] if t._history is not None]
        if self.tracked:
            part.differentiate(self.tracked, leaves)

    def spend(self, others: Sequence[Tensor]) -> None:
        """Which results were differentiated inside, or are made of such ones of a step before."""
        part, spent, old = self.part, set(self.part.spent), -1
        while len(spent) > old:
            old = len(spent)
            used = {id(part.leaves[i]) for i in spent if i < len(self.carried)}
            spent |= {i for i, t in enumerate(part.reached) if used.intersection(map(id, t))}
        part.spend(spent)
        self.spent, self.made_of = spent, [*self.carried, *others, *part.made_of]

    def joined(self) -> Join:
        part = self.part
        first = [part.inner.beyond(edge(t)) for t in self.carried]
        starts = part.starts[: len(first)]
        return Join([(part.edges, part.inner.beyond)], starts, first, self.once)

    def step_back(self, sums: Sequence[Node]) -> list[Node]:
        """The gradients before a step: of what is carried, and sums of those of constants."""
        part, found = self.part, []
        for i in self.moving:
            g = part.gradients.get(id(part.leaves[i]))
            found.append(zeros(part.inputs[i].type) if g is None else g)
        for t, total in zip(self.constants, sums, strict=True):
            g = part.gradients.get(id(t))
            found.append(total if g is None else Node(ADD, (total, g), {}, total.type, g.source))
        return found

    @property
    def states(self) -> tuple[tuple[int, int], ...]:
        """Which results are states of generators: what is carried has the same place before."""
        first = len(self.carried)
        found = [first + i for i, x in enumerate(self.changed) if isinstance(x, Generator)]
        return tuple([(i, i) for i in found])

    def graph(self, part: Part, outputs: Sequence[Node], rows: int = 0) -> Graph:
        """The graph of a part: what is carried, what is changed and rows are its inputs."""
        count = len(part.inputs) - rows
        changed = [part.leaf(x) for x in self.changed]
        inputs = (*part.inputs[:count], *changed, *part.inputs[count:])
        names = {n: name for n, name in zip(inputs, self.names, strict=False) if name}
        captured = tuple([part.leaf(x) for x in self.still])
        return Graph(inputs, captured, tuple(outputs), (), names)

    def ends(self) -> list[Node]:
        """The nodes of what is carried and changed after a step."""
        part, leaves = self.part, {x: self.part.leaf(x) for x in self.changed}
        carried = part.outputs[: len(self.carried)]
        return [*carried, *[part.last(x, leaf) for x, leaf in leaves.items()]]

    def begin(self) -> None:
        """Notes the values that the loop begins with."""
        trace = self.trace
        self.first = [trace.current(trace.symbol(t)) for t in self.carried]
        self.first += [self.now(x) for x in self.changed]
        self.given = [self.now(x) for x in self.still]

    def end(self, made: Node) -> None:
        for i, x in enumerate(self.changed):
            self.put(x, item(made, len(self.carried) + i))


class While(Loop):
    """A loop that ends when a condition does not hold any more."""

    once = False

    def __init__(
        self,
        trace: Trace,
        part: Part,
        asked: Part,
        leaves: Sequence[Tensor],
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(trace, [part, asked], leaves, (), names)
        self.wanted = [self.carried[i] for i in self.moving] + self.constants
        self.condition = self.graph(asked, asked.outputs)
        self.body = self.graph(part, self.ends())

    def run(self) -> list[Tensor]:
        snapshots = self.snapshots() if self.tracked and self.wanted else {}
        self.begin()
        self.again_from = [snapshots.get(i, node) for i, node in enumerate(self.first)]
        made = self.node(
            WHILE,
            [*self.first, *self.given],
            [n.type for n in self.first],
            condition=self.condition,
            body=self.body,
            states=self.states,
        )
        self.end(made)
        return [self.tensor(item(made, i)) for i in range(len(self.carried))]

    def snapshots(self) -> dict[int, Node]:
        """The states of generators before the loop as bytes, by the places of what is carried."""
        first, found, random = len(self.carried), {}, self.trace.random
        for i, x in enumerate(self.changed):
            if isinstance(x, Generator):
                state = random.draw(SNAPSHOT, (), np.empty(STATE.shape, np.uint8), STATE, {}, x)
                found[first + i] = self.trace.current(state)
        return found

    def backward(self, tangents: Sequence[Node]) -> list[Tensor | None]:
        """The gradients of all that is wanted."""
        part = self.part
        sums = [Node(INPUT, (), {}, type_of_tensor(t)) for t in self.constants]
        outputs = self.step_back(sums)
        inputs = (*self.body.inputs, *[part.tangents[i] for i in self.moving], *sums)
        back = Graph(inputs, self.body.captured, tuple(outputs), (), self.body.names)
        begin = [tangents[i] for i in self.moving] + [zeros(n.type) for n in sums]
        again = replayed if self.states else lambda graph: graph
        made = self.node(
            WHILE_VJP,
            [*self.here(self.again_from), *begin, *self.here(self.given)],
            [n.type for n in begin],
            condition=again(self.condition),
            body=again(self.body),
            backward=again(back),
            states=(),
        )
        return [self.tensor(item(made, i)) for i in range(len(begin))]


class Rows(Loop):
    """A loop over rows."""

    def __init__(
        self,
        trace: Trace,
        part: Part,
        leaves: Sequence[Tensor],
        xs: Sequence[Tensor],
        length: int,
        reverse: bool,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(trace, [part], leaves, xs, names)
        self.xs, self.length, self.reverse = list(xs), trace.attribute(length), reverse
        self.tracked_xs = [i for i, x in enumerate(xs) if part.leaves[len(leaves) + i]._history]
        self.wanted = [self.carried[i] for i in self.moving] + self.constants
        self.wanted += [xs[i] for i in self.tracked_xs]
        self.kept: list[Node] = []
        if self.tracked:
            saved = dear(part)
            given = self.graph(part, (), len(xs)).inputs[: len(leaves) + len(self.changed)]
            used = set(walk([*part.gradients.values()], saved))
            self.kept = [*saved, *[n for n in given if n in used]]
        outputs = [*self.ends(), *part.outputs[len(leaves) :], *self.kept]
        self.body = self.graph(part, outputs, len(xs))

    def stacked(self, kind: TensorType) -> TensorType:
        return TensorType((self.length, *kind.shape), kind.dtype)

    def run(self) -> list[Tensor]:
        self.begin()
        trace, carried, count = self.trace, len(self.first), len(self.carried)
        self.rows = [trace.current(trace.symbol(x)) for x in self.xs]
        types = [n.type for n in self.first]
        types += [self.stacked(n.type) for n in self.body.outputs[carried:]]
        made = self.node(
            SCAN,
            [*self.first, *self.rows, *self.given],
            types,
            body=self.body,
            carried=carried,
            length=self.length,
            reverse=self.reverse,
            states=self.states,
        )
        self.end(made)
        stacks = [item(made, i) for i in range(carried, len(types))]
        number = len(stacks) - len(self.kept)
        self.stacks = stacks[number:]
        return [self.tensor(item(made, i)) for i in range(count)] + [
            self.tensor(node) for node in stacks[:number]
        ]

    def backward(self, tangents: Sequence[Node]) -> list[Tensor | None]:
        """The gradients of all that is wanted."""
        part, count = self.part, len(self.carried)
        sums = [Node(INPUT, (), {}, type_of_tensor(t)) for t in self.constants]
        stand_ins = [stand_in(n) for n in self.kept]
        replaced = dict(zip(self.kept, stand_ins, strict=True))
        outputs = self.step_back(sums)
        for i in self.tracked_xs:
            leaf = part.leaves[count + i]
            outputs.append(part.gradients.get(id(leaf)) or zeros(part.inputs[count + i].type))
        outputs = rebuilt(outputs, replaced)
        used = set(walk(outputs))
        rows = [i for i in range(len(self.xs)) if part.inputs[count + i] in used]
        ys = [i for i in self.tracked if i >= count]
        carried = (*[part.tangents[i] for i in self.moving], *sums)
        inputs = (
            *carried,
            *stand_ins,
            *[part.inputs[count + i] for i in rows],
            *[part.tangents[i] for i in ys],
        )
        back = Graph(inputs, self.body.captured, tuple(outputs))
        begin = [tangents[i] for i in self.moving] + [zeros(n.type) for n in sums]
        given = self.here([*self.stacks, *[self.rows[i] for i in rows]])
        given += [tangents[i] for i in ys]
        types = [n.type for n in begin]
        types += [self.stacked(n.type) for n in outputs[len(begin) :]]
        made = self.node(
            SCAN,
            [*begin, *given, *self.here(self.given)],
            types,
            body=back,
            carried=len(begin),
            length=self.length,
            reverse=not self.reverse,
            states=(),
        )
        return [self.tensor(item(made, i)) for i in range(len(types))]
