"""A trace inside a trace: what a branch or the body of a loop does, as a graph of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.autograd.backward import grad_of_leaves
from rushlight.autograd.tape import Node as TapeNode
from rushlight.autograd.tape import below, edge, leaves_below, next_sequence, unpack
from rushlight.errors import user_line
from rushlight.generator import Generator
from rushlight.graph.extents import template_of
from rushlight.graph.ir import CAPTURED, INPUT, Node, TensorType, walk
from rushlight.graph.streams import STATE
from rushlight.graph.surroundings import Surroundings
from rushlight.graph.trace import Trace
from rushlight.symbol import Symbol, TraceError, root
from rushlight.tensor import LEAF, Tensor, wrap

Outside = Symbol | Generator


class Question(NamedTuple):
    """Gradients that went to a leaf which a loop gives to its steps, on their way to ``targets``.

    Those lie among what made the leaf, or do not: that is known when the loop is.
    """

    leaf: Tensor
    targets: Collection[Any] | None  # None: all leaves
    line: str

    def refusal(self) -> TraceError:
        return TraceError(
            f"backward() or grad() at {self.line} would go on into what was computed before the "
            "loop, or in another step of it, which a graph cannot do: compute the loss in the same "
            "step, before it, or detach() what is carried and rows"
        )


class Passed(NamedTuple):
    """A node of the tape outside that gradients went through, and what it had kept for them."""

    kept: tuple[Any, Any, Any]
    retained: bool
    line: str


class Inner(Trace):
    """The trace of a function that another trace calls: values of that one are captured here.

    A tensor of outside is a leaf inside, so that the tape of the function ends at it.
    """

    def __init__(self, outer: Trace) -> None:
        super().__init__()
        self.extents = outer.extents
        self.outer, self.begun, self.returned = outer, True, outer.returned
        self.unsure, self.cut = set(outer.unsure), dict(outer.cut)
        self.spent, self.rewritten = outer.spent, outer.rewritten
        self.joins = outer.joins
        self.numbers, self.modules, self.forward = outer.numbers, outer.modules, outer.forward
        self.decided, self.guards, self.reached = outer.decided, outer.guards, outer.reached
        self.hooked, self.hooks, self.whole = outer.hooked, outer.hooks, outer.whole
        self.postponed = outer.postponed
        self.known: dict[Symbol, Symbol] = {}  # symbols of outside, and what stands for them here
        self.closed: dict[Symbol, Node] = {}  # those of outside that are no views, as captured
        self.owners: dict[Symbol, Tensor] = {}  # tensors over the symbols here
        self.outsiders: dict[int, Tensor] = {}
        self.examples: dict[Node, Callable[[], np.ndarray]] = {}  # elements of leaves, if asked for
        self.borders: dict[int, Any] = {}  # the edges outside of tensors that are leaves here
        self.given: dict[int, Tensor] = {}  # leaves whose histories only a run would know
        self.questions: list[Question] = []
        self.begin = next_sequence()
        self.passed: dict[TapeNode, Passed] = {}  # nodes of outside that gradients went through

    def postpone(self, owner: Any, action: Callable[[], Any], what: str) -> None:
        raise TraceError(
            f"{what} at {self.place()} is inside a branch or loop of the graph, and changes Python "
            "objects, which only a whole call can do: call it outside"
        )

    def symbol(self, t: Tensor | Symbol) -> Symbol:
        array = t._array if isinstance(t, Tensor) else t
        if isinstance(array, Symbol) and array.trace is self:
            return array
        found = self.inside(self.outer.symbol(t))
        if isinstance(t, Tensor) and id(t) not in self.outsiders:
            self.outsiders[id(t)] = t
            self.owners.setdefault(root(found), t)
            self.detach(t)
        return found

    def detach(self, t: Tensor) -> None:
        history = t._history
        super().detach(t)
        if t._history is not history and t._history is LEAF:
            self.borders[id(t)] = self.cut.pop(id(t))

    def beyond(self, e: Any) -> Any:
        found = self.borders.get(id(e))
        return self.outer.beyond(e) if found is None else found

    def arrive(self, leaf: Tensor) -> bool:
        owner = self.owner_of(leaf)
        if owner is None:
            return super().arrive(leaf)
        owner.questions.append(Question(leaf, None, user_line()))
        return False

    def ask(self, starts: Sequence[Any], targets: Collection[Any]) -> None:
        super().ask(starts, targets)
        for leaf in below(starts, self.beyond)[1]:
            owner = self.owner_of(leaf)
            if owner is not None:
                owner.questions.append(Question(leaf, targets, user_line()))

    def refuse_unused(self) -> None:
        trace: Trace = self
        while isinstance(trace, Inner):
            for question in trace.questions:
                if question.line == user_line():
                    raise question.refusal()
            trace = trace.outer

    def owner_of(self, leaf: Tensor) -> Inner | None:
        """The trace of the loop that gives ``leaf`` to its steps."""
        trace: Trace = self
        while isinstance(trace, Inner):
            if id(leaf) in trace.given:
                return trace
            trace = trace.outer
        return None

    def go_through(self, node: TapeNode, retained: bool) -> None:
        if node.sequence < self.begin:
            kept = (node.saved, node.outputs, node.attrs)
            before = self.passed.get(node)
            if before is not None:
                kept, retained = before.kept, before.retained and retained
            self.passed[node] = Passed(kept, retained, user_line())

    def restore(self) -> None:
        super().restore()
        for node, passed in self.passed.items():
            node.saved, node.outputs, node.attrs = passed.kept

    def inside(self, symbol: Symbol) -> Symbol:
        """What stands here for a symbol of outside: a captured value, or a view of one."""
        found = self.known.get(symbol)
        if found is not None:
            return found
        if symbol.base is None:
            node = Node(CAPTURED, (), {}, self.outer.current(symbol).type)
            found = Symbol(self, node, symbol.template)
            self.closed[symbol] = node
            self.examples[node] = lambda: self.outer.value(self.outer.current(symbol))
        else:
            base, (op, attrs) = self.inside(symbol.base), symbol.how
            kind = self.outer.current(symbol).type
            node = Node(op, (self.current(base),), attrs, kind, self.source())
            found = Symbol(self, node, symbol.template)
            found.base, found.how, found.seen = base, symbol.how, root(base).version
        self.known[symbol] = found
        return found

    def current(self, symbol: Symbol) -> Node:
        return super().current(symbol if symbol.trace is self else self.symbol(symbol))

    def value(self, node: Node) -> np.ndarray:
        for leaf in walk([node], self.values):  # type: ignore[arg-type]
            if leaf in self.examples:
                self.values[leaf] = self.examples[leaf]()
        return super().value(node)

    def meet_gradient(self, t: Tensor) -> Tensor | None:
        if not self.made(t) and id(t) not in self.grads_set:
            self.outer.meet_gradient(t)
        return super().meet_gradient(t)

    def made(self, t: Tensor) -> bool:
        return isinstance(t._array, Symbol) and t._array.trace is self

    def new_gradients(self) -> list[tuple[Tensor, Node]]:
        """The gradients of tensors of outside that had others, or none; an error if one is gone."""
        found = []
        for t, before in self.kept.values():
            old, g = before.get("_grad"), t._grad
            if g is old or self.made(t):
                continue
            if g is None:
                raise TraceError(
                    "a branch leaves no .grad behind where it has found one, which a graph cannot "
                    "do: call optimizer.zero_grad() before it, or at its end after step(), or "
                    "zero_grad(set_to_none=False)"
                )
            if edge(g) is not None:
                raise TraceError(
                    "a branch leaves a .grad behind that has a history, which a graph cannot do: "
                    "detach() it"
                )
            found.append((t, self.current(self.symbol(g))))
        return found

    def refuse_effects(self, rows: Sequence[Symbol]) -> None:
        """An error for what a function must not leave behind if it may run never, or many times."""
        if any([symbol.version for symbol in rows]):
            raise TraceError("a loop writes in place to a row that it is given: write to a copy")
        if self.assigned:
            raise TraceError(
                "an optimizer's state begins in a branch or loop: make one step outside first"
            )

    def refuse_passes(self) -> None:
        """An error if the second step of a loop would find a tape used up, or other values."""
        for node, passed in self.passed.items():
            cause = "uses it up: call it with retain_graph=True" if not passed.retained else ""
            if passed.retained:
                try:
                    unpack(node)
                except RuntimeError:
                    cause = "then writes to a tensor that it needs"
            if cause:
                raise TraceError(
                    f"backward() or grad() at {passed.line} goes from a loop into a graph that was "
                    f"made before it, and {cause}, or compute the loss in the loop"
                )

    @property
    def changed(self) -> list[Outside]:
        """The symbols and generators of outside that are other ones by now."""
        written = [symbol for symbol in self.closed if self.known[symbol].version]
        streams = self.random.known.items()
        return [*written, *[g for g, stream in streams if stream.node is not stream.captured]]

    @property
    def records_writes(self) -> bool:
        """Whether a tensor of outside has a history now of what was written to it."""
        kept = [t for t, _ in self.kept.values() if id(t) in self.outsiders]
        return any([isinstance(t._history, TapeNode) for t in kept])


class Argument(NamedTuple):
    """What a function inside is given: a tensor like ``tensor``, or like a ``row`` of it."""

    tensor: Tensor
    wanted: bool = False  # whether results can be differentiated with respect to it
    row: bool = False

    def type(self, trace: Trace) -> TensorType:
        kind = trace.current(trace.symbol(self.tensor)).type
        return TensorType(kind.shape[int(self.row) :], kind.dtype)

    def example(self, trace: Trace) -> np.ndarray:
        """The elements that the function is given first."""
        array = trace.value(trace.current(trace.symbol(self.tensor)))
        return array[0] if self.row else array


class Part:
    """A branch, a condition or a body, traced: nodes of its inputs, captured values and results.

    Tensors of outside are leaves until it is left as a context. Objects ``around`` it must stay as
    they are. Only what runs ``once``, if at all, may leave new gradients behind.
    """

    def __init__(
        self,
        outer: Trace,
        function: Callable[[list[Tensor]], Sequence[Tensor]],
        around: Surroundings,
        arguments: Sequence[Argument] = (),
        once: bool = False,
    ) -> None:
        self.inner, self.once = (inner := Inner(outer)), once
        self.inputs: list[Node] = []
        self.leaves: list[Tensor] = []
        self.rows = [i for i, argument in enumerate(arguments) if argument.row]
        for argument in arguments:
            node = Node(INPUT, (), {}, argument.type(outer))
            template = template_of(outer, node.type)
            inner.examples[node] = functools.partial(argument.example, outer)
            leaf = wrap(Symbol(inner, node, template))
            leaf._history = LEAF if argument.wanted else None
            inner.given[id(leaf)] = leaf
            self.inputs.append(node)
            self.leaves.append(leaf)
        self.tangents: dict[int, Node] = {}  # by results
        self.gradients: dict[int, Node] = {}  # by identities of leaves
        self.results: list[Tensor] = []
        try:
            with around:
                inner.call(self.follow, function)
        except BaseException as error:
            inner.restore()
            if isinstance(error, TraceError) and outer.refusal is None:
                outer.refusal = error  # whoever catches it cannot go on as if it worked
            raise

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *error: object) -> None:
        self.inner.restore()

    def follow(self, function: Callable[[list[Tensor]], Sequence[Tensor]]) -> None:
        # What is differentiated gets copies: it may be written to, as a leaf may not.
        given = [t if t._history is None else t.clone() for t in self.leaves]
        self.starts = [edge(t) for t in given]
        self.results = list(function(given))
        self.outputs = [self.inner.current(self.inner.symbol(t)) for t in self.results]
        if self.inner.refusal is not None:
            raise self.inner.refusal
        self.inner.refuse_effects([given[i]._array for i in self.rows])
        self.new_gradients = self.inner.new_gradients()
        if self.new_gradients and not self.once:
            raise TraceError(
                "a loop leaves another .grad behind than it has found, which a graph cannot do: "
                "end each step with optimizer.zero_grad(), or use autograd.grad"
            )
        if not self.once:
            self.inner.refuse_passes()
        self.records_writes = self.inner.records_writes
        self.edges = [edge(t) for t in self.results]
        known = {*map(id, self.leaves), *self.inner.outsiders}
        found = [leaves_below(e) for e in self.edges]
        self.reached = [[leaf for leaf in leaves if id(leaf) in known] for leaves, _ in found]
        self.spend([i for i, (_, used_up) in enumerate(found) if used_up])

    def spend(self, used_up: Collection[int]) -> None:
        """Says which results have no gradients any more: their tapes are used up."""
        self.spent = set(used_up)
        self.below = [[] if i in self.spent else t for i, t in enumerate(self.reached)]

    def refuse_recorded_writes(self) -> None:
        """An error if gradients would go through a tensor of outside that is written to."""
        if self.records_writes:
            self.inner.restore()
            raise TraceError(
                "a branch or loop writes to a tensor of outside in a way that autograd records "
                "(out of no_grad): return the new value instead"
            )

    def differentiate(self, roots: Sequence[int], leaves: Sequence[Tensor]) -> None:
        """Adds the gradients of some results with respect to leaves to what is traced."""
        self.inner.call(self.add_gradients, roots, leaves)

    def add_gradients(self, roots: Sequence[int], leaves: Sequence[Tensor]) -> None:
        tangents = []
        for i in roots:
            like = self.inner.symbol(self.results[i])
            self.tangents[i] = Node(INPUT, (), {}, self.inner.current(like).type)
            template = template_of(self.inner, self.tangents[i].type)
            tangents.append(wrap(Symbol(self.inner, self.tangents[i], template)))
        used = [i for i in range(len(roots)) if edge(self.results[roots[i]]) is not None]
        if not used or not leaves:
            return
        outputs = [self.results[roots[i]] for i in used]
        found = grad_of_leaves(outputs, leaves, [tangents[i] for i in used])
        for t, g in zip(leaves, found, strict=True):
            if g is not None:
                self.gradients[id(t)] = self.inner.current(self.inner.symbol(g))

    @property
    def outsiders(self) -> list[Tensor]:
        """The tensors of outside that a gradient of the results can go to."""
        found = {id(t): t for below in self.below for t in below}
        return [t for t in found.values() if id(t) in self.inner.outsiders]

    @property
    def made_of(self) -> list[Tensor]:
        """The tensors of outside that results were made of which are used up."""
        found = {id(t): t for i in self.spent for t in self.reached[i]}
        return [t for t in found.values() if id(t) in self.inner.outsiders]

    @property
    def closed(self) -> list[Outside]:
        """What is captured: symbols and generators of outside."""
        return [*self.inner.closed, *self.inner.random.known]

    @property
    def changed(self) -> list[Outside]:
        """What of it is another one in the end."""
        return self.inner.changed

    def leaf(self, what: Outside) -> Node:
        """The node that stands for something of outside, before it changes."""
        if isinstance(what, Generator):
            stream = self.inner.random.known.get(what)
            return Node(CAPTURED, (), {}, STATE) if stream is None else stream.captured
        node = self.inner.closed.get(what)
        return Node(CAPTURED, (), {}, self.inner.outer.current(what).type) if node is None else node

    def last(self, what: Outside, leaf: Node) -> Node:
        """The node of something of outside in the end."""
        if isinstance(what, Generator):
            stream = self.inner.random.known.get(what)
            return leaf if stream is None else stream.node
        symbol = self.inner.known.get(what)
        return leaf if symbol is None else symbol.node

    def owner(self, what: Symbol) -> Tensor:
        """A tensor over a symbol of outside."""
        return self.inner.owners[self.inner.known[what]]
