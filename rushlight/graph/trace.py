"""Trace: runs a function once and writes down the graph of what it did to tensors.

Ops say what shapes and dtypes their results have, and raise their errors; elements are computed
only for the few that cannot tell without. Nothing outside changes: in the end every tensor, counter
and generator is as it was. The effects become *writes* of the graph. See
``docs/design/static-graph.md``.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from rushlight import dtypes
from rushlight.autograd.modes import enter_quietly, local
from rushlight.autograd.tape import Node as TapeNode
from rushlight.autograd.tape import edge, note_line
from rushlight.generator import Generator
from rushlight.graph.effects import Capture, Effects
from rushlight.graph.extents import Extent, Extents, Sizes
from rushlight.graph.gradients import Gradients
from rushlight.graph.guards import Guards
from rushlight.graph.hooks import hooks_among, hooks_of
from rushlight.graph.host import Host, Numbers
from rushlight.graph.ir import (
    CAPTURED,
    CONSTANT,
    INPUT,
    Graph,
    Node,
    Source,
    TensorType,
    compute,
    constant,
    item,
    type_of,
    walk,
)
from rushlight.graph.modules import Paths
from rushlight.graph.streams import Streams
from rushlight.graph.templates import hollow, memory_key
from rushlight.ops.base import Op, ops, registry
from rushlight.ops.elementwise import common_dtype, mismatch
from rushlight.ops.families import Elementwise, number
from rushlight.symbol import Symbol, TraceError, chain, root
from rushlight.tensor import LEAF, VIEW, Tensor, wrap


class Trace(Gradients):
    """The running trace of one thread: ops hand their operands to it.

    >>> trace = Trace()
    >>> x = rl.ones(3)
    >>> y = trace.call(lambda: (trace.input(x) * 2).sum())
    >>> print(trace.finish([y]))  # doctest: +ELLIPSIS
    graph(%0: f32[3]):
      %1: f32[] = constant(value=array(float32, [], 2.0))
      %2: f32[3] = mul(%0, %1)  # ...
      %3: f32[] = sum(%2, dim=None, keepdim=False)  # ...
      return %3
    """

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.extents = None if sizes is None else Extents(self, sizes)
        self.thread, self.over = threading.get_ident(), threading.Event()
        self.inputs: list[Node] = []
        self.captures: list[Capture] = []
        self.by_array: dict[int, tuple[np.ndarray, Symbol]] = {}
        self.by_memory: dict[Any, Symbol] = {}
        self.by_symbol: dict[Symbol, Capture] = {}
        self.random = Streams(self)
        self.numbers = Numbers(self)
        self.counters: dict[Any, tuple[int, Any]] = {}
        self.rewritten: set[Any] = set()  # counters of tensors that branches may have written to
        self.arguments: list[tuple[Capture, np.ndarray]] = []
        self.reached: set[int] = set()  # identities of tensors that optimizers hold
        self.hooked: list[Tensor] = []  # whose hooks backward would call
        self.hooks: list[Any] = []  # which they are
        self.decided: list[tuple[Callable[[], Any], Any]] = []  # questions, and their answers
        self.assigned: list[tuple[Any, Any, Tensor]] = []  # entries of dicts that are new tensors
        self.forward: Source | None = None  # whose gradient is being computed
        self.returned = False  # the function has: lines on the stack are not its own
        self.values: dict[Node, Any] = {}  # elements, as far as they are known
        self.modules = Paths()
        self.effects = Effects()
        self.refusal: TraceError | None = None  # what the graph cannot hold
        self.guards: list[Guards] = []  # of hooks
        self.whole: Collection[Op] = ()  # ops that are not taken apart
        self.postponed: list[tuple[Any, Callable[[], Any]]] = []  # see `postpone`
        self.names: Collection[str] = ()  # of attributes, in the user's code

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs ``function`` with its ops handed to this trace; then restores what it changed."""
        state = local.state
        outer, state.trace = state.trace, self
        user = contextvars.copy_context()
        try:
            return enter_quietly(user.run, function, *args, **kwargs)
        finally:
            state.trace = outer

    # What ops ask for.

    def run(self, op: Op, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The symbols of the results of ``op``, which is computed and added to the graph."""
        self.begun = True
        if op.dynamic:
            raise TraceError(
                f"{op.title or op.full_name} at {self.place()}: the shape of its result depends on "
                "values, so a graph cannot hold it. Use a mask of fixed size (rl.where, "
                "multiplication), or call it outside the compiled function."
            )
        if op.decompose is not None and op not in self.whole:
            parts = self.decomposed(op, operands, attrs)
            if parts is not NotImplemented:
                return parts
        given = self.elementwise(op, operands) if isinstance(op, Elementwise) else operands
        pairs = [self.operand(t) for t in given]
        nodes = tuple([node for node, _ in pairs])
        templates = [template for _, template in pairs]
        attrs = {name: self.attribute(value) for name, value in attrs.items()}
        generator = attrs.get("generator")
        if isinstance(generator, Generator):
            self.random.of(generator)  # whose state is kept before anything is tried
        here = attrs if self.extents is None else self.extents.here(attrs)
        y = self.infer(op, nodes, templates, here)
        kinds = self.type(op, nodes, attrs, y)
        if isinstance(generator, Generator):
            return self.random.draw(op, nodes, y, kinds, attrs, generator)
        return self.symbols(op, nodes, attrs, y, kinds)

    def type(self, op: Op, nodes: Sequence[Node | None], attrs: Any, y: Any) -> Any:
        """The type of the results of an op, which look like ``y`` in this call."""
        return type_of(y) if self.extents is None else self.extents.type_of(op, nodes, attrs)

    def decomposed(self, op: Op, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The symbols of an op that says what it is made of, unless it declines."""
        state = local.state
        recording, state.grad = state.grad, False
        try:
            y = op.decompose(*operands, **attrs)
        finally:
            state.grad = recording
        if isinstance(y, tuple):
            return tuple([self.symbol(t) for t in y])
        return y if y is NotImplemented else self.symbol(y)

    def infer(self, op: Op, nodes: Sequence[Node | None], templates: Any, attrs: Any) -> Any:
        """Arrays of the shapes and dtypes of the results: by the op's rule, or by trying it.

        An op without a rule is tried on zeros, and where they are no good on the true elements.
        """
        if op.infer is not None:
            try:
                y = op.infer(templates, attrs)
            except ValueError as error:
                raise mismatch(op.name, templates, error) from None
            if y is not NotImplemented:
                return y
        try:
            zeros = [None if t is None else np.zeros(t.shape, t.dtype) for t in templates]
            y = local.state.run(op.compute, zeros, attrs)
        except Exception:
            if len(nodes) != len(templates):
                raise
            arrays = [None if n is None else self.value(n) for n in nodes]
            y = local.state.run(op.compute, arrays, attrs)
        if isinstance(y, tuple):
            return tuple([np.asarray(part) for part in y])
        return np.asarray(y)

    def value(self, node: Node) -> np.ndarray:
        """The elements of a node, for ops that cannot do without."""
        for n in walk([node], self.values):  # type: ignore[arg-type]
            arrays = [None if i is None else self.values[i] for i in n.inputs]
            self.values[n] = local.state.run(compute, n, arrays)
        return self.values[node]

    def symbols(
        self, op: Any, nodes: tuple[Node | None, ...], attrs: Any, y: Any, kinds: Any
    ) -> Any:
        node = Node(op, nodes, attrs, kinds, self.source())
        if not isinstance(y, tuple):
            return Symbol(self, node, hollow(y))
        return tuple([Symbol(self, item(node, i), hollow(part)) for i, part in enumerate(y)])

    def elementwise(self, op: Elementwise, operands: Sequence[Any]) -> list[Any]:
        """The operands of an elementwise op as symbols of the one dtype it computes in."""
        kind = common_dtype(operands)
        if op.floats and kind.category < dtypes.FLOAT:
            kind = dtypes.get_default_dtype()
        found: list[Any] = []
        for t in operands:
            if isinstance(t, Host) or type(t) is Extent:
                wide = dtypes.float32 if kind.numpy in dtypes.HALF else kind  # as `number` has it
                found.append(self.run(CAST, (t.symbol(),), {"dtype": wide}))
            elif not isinstance(t, Tensor):
                found.append(Symbol(self, *self.operand(number(t, kind.numpy))))
            elif t.dtype is kind:
                found.append(self.symbol(t))
            else:
                found.append(self.run(CAST, (t,), {"dtype": kind}))
        return found

    def operand(self, t: Any) -> tuple[Node | None, Any]:
        """The node and the template of an operand."""
        if t is None:
            return None, None
        if isinstance(t, Host) or type(t) is Extent:
            t = t.symbol()
        if isinstance(t, (Tensor, Symbol)):
            symbol = self.symbol(t)
            return self.current(symbol), symbol.template
        array = np.asarray(t)
        return constant(array), array

    def attribute(self, value: Any) -> Any:
        """An attribute as the graph keeps it; a number of the host program becomes a constant."""
        if isinstance(value, Tensor):
            return value.item()
        if isinstance(value, Host):
            return float(value)
        return value if self.extents is None else self.extents.attribute(value)

    def filled(self, numbers: Sequence[Any], shape: tuple[int, ...], kind: dtypes.dtype) -> Tensor:
        """A tensor of numbers, some of which may change from call to call."""
        return ops.cat([ops.full((1,), x, dtype=kind) for x in numbers]).reshape(shape)

    def symbol(self, t: Tensor | Symbol) -> Symbol:
        """The symbol of a tensor; one from outside becomes captured."""
        array = t._array if isinstance(t, Tensor) else t
        if isinstance(array, Symbol):
            if array.trace is not self:
                raise TraceError(
                    "a tensor of another, finished trace is used at " + self.place() + ": a "
                    "compiled function must not keep tensors in lists or attributes for later"
                )
            return array
        known = self.by_array.get(id(array))
        if known is not None:
            return known[1]
        key = memory_key(array)
        symbol = self.by_memory.get(key)
        if symbol is None:
            symbol = self.capture(t, array)
            self.by_memory[key] = symbol
        self.by_array[id(array)] = (array, symbol)
        return symbol

    def capture(self, t: Any, array: np.ndarray) -> Symbol:
        symbol = Symbol(self, Node(CAPTURED, (), {}, type_of(array)), array)
        self.values[symbol.node] = array
        owner = self.grads_of.get(id(t))
        capture = Capture(symbol.node, t if owner is None else owner, owner is not None)
        self.captures.append(capture)
        self.by_symbol[symbol] = capture
        self.modules.note(t)
        self.watch_hooks(t)
        self.detach(t)
        return symbol

    def capture_generator(self, node: Node, generator: Generator, state: np.ndarray) -> None:
        """A generator's state, which ``node`` stands for."""
        self.captures.append(Capture(node, generator=generator))
        self.values[node] = state

    def capture_number(self, symbol: Symbol, read: Callable[[], float], name: str) -> None:
        """A number of the host program, which ``symbol`` stands for."""
        self.captures.append(Capture(symbol.node, number=read, name=name))
        self.values[symbol.node] = symbol.template

    def watch_hooks(self, t: Tensor) -> None:
        """Hooks of a tensor of outside are part of what the graph depends on."""
        if t._history is not None:
            self.hooked.append(t)
            self.hooks += hooks_among([t])
            for hook in hooks_of(t):
                self.guards.append(Guards(hook))

    def detach(self, t: Tensor) -> None:
        """What made a tensor of outside stays outside: here it is a leaf."""
        if t._history is not None and t._history is not LEAF:
            e = edge(t)
            self.touch(t)
            self.cut[id(t)] = e
            t._history = None if e is None else LEAF
            t._base = t._view = None

    def input(self, t: Tensor, shape: tuple[Any, ...] | None = None) -> Tensor:
        """Makes ``t`` an argument of the graph; its elements cannot be read from now on."""
        self.watch_hooks(t)
        array = t._array
        kind = TensorType(shape or array.shape, dtypes.from_numpy(array.dtype))
        node = Node(INPUT, (), {}, kind)
        symbol = Symbol(self, node, array)
        self.values[node] = array
        self.touch(t)
        self.detach(t)
        self.inputs.append(node)
        capture = self.by_symbol[symbol] = Capture(node, t)
        self.arguments.append((capture, array))
        t._array = symbol
        return t

    def host(self, read: Callable[[], float]) -> Any:
        """A number of the host program that may differ from call to call; it passes for a float."""
        return Host(self.numbers, read)

    def stand_in(self, t: Tensor) -> Tensor:
        """A tensor of the type of ``t`` whose node shall be replaced by others."""
        symbol = self.symbol(t)
        node = Node(CAPTURED, (), {}, self.current(symbol).type)
        return wrap(Symbol(self, node, symbol.template))

    def decide(self, question: Callable[[], Any], answer: Any) -> None:
        """The graph is right as long as ``question()`` is answered like this."""
        self.decided.append((question, answer))

    def constant(self, array: np.ndarray) -> Symbol:
        """Elements that are written in the program."""
        return Symbol(self, constant(array.copy(), self.source()), array)

    def current(self, symbol: Symbol) -> Node:
        """The node of a symbol, after what was written to what it is a view of."""
        base = symbol.base
        if base is not None and symbol.seen != root(symbol).version:
            node = self.current(base)
            op, attrs = symbol.how
            symbol.node = Node(op, (node,), attrs, symbol.node.type, self.source())
            symbol.seen = root(symbol).version
        if symbol.node is None:
            symbol.refuse()
        return symbol.node

    def view(self, op: Op, x: Tensor, array: Any, attrs: Mapping[str, Any]) -> Symbol:
        """The symbol of a view of ``x``; ``array`` is what ``op`` makes of its template."""
        base = self.symbol(x)
        node = self.current(base)
        template = array.template if isinstance(array, Symbol) else array
        kept = {name: self.attribute(value) for name, value in attrs.items()}
        general = self.extents
        kind = type_of(template) if general is None else general.view_type(op, base, node, kept)
        made = Node(op, (node,), kept, kind, self.source())
        symbol = Symbol(self, made, template)
        symbol.base, symbol.how, symbol.seen = base, (op, kept), root(base).version
        return symbol

    def store(self, t: Tensor, value: Symbol) -> None:
        """Writes ``value`` (broadcast and cast) over the elements of ``t``."""
        target = self.symbol(t)
        self.current(target)
        node = self.fitted(value, target)
        whole = root(target)
        self.touch(t)
        whole.change()
        if target is whole:
            whole.node = node
        else:
            scatter = registry["view_scatter"]
            attrs = {"chain": chain(target)}
            whole.node = Node(scatter, (whole.node, node), attrs, whole.node.type, self.source())
        target.node, target.seen = node, whole.version

    def fitted(self, value: Symbol, target: Symbol) -> Node:
        """``value`` with the dtype and shape of ``target``."""
        kind = dtypes.from_numpy(target.dtype)
        wanted = self.current(target).type.shape
        if value.dtype is not target.dtype:
            value = self.run(CAST, (value,), {"dtype": kind})
        node = self.current(value)
        if value.shape != target.shape:
            lead = value.ndim - target.ndim
            if lead > 0:
                shape = node.type.shape[lead:]
                node = Node(registry["view"], (node,), {"shape": shape}, TensorType(shape, kind))
            attrs = {"size": wanted}
            node = Node(registry["expand"], (node,), attrs, TensorType(wanted, kind))
        return node

    def snapshot(self, symbol: Symbol) -> Symbol:
        """The value as it is now, whatever is written later."""
        return Symbol(self, self.current(symbol), symbol.template)

    def write(self, op: Op, t: Tensor, others: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        """An op that changes ``t`` in place, as the op that returns the changed copy."""
        self.store(t, self.run(op, (t, *others), attrs))

    def read(self, t: Tensor) -> np.ndarray:
        """The elements, for Python: those of a constant are known."""
        symbol = self.symbol(t)
        node = self.current(symbol)
        if node.op is CONSTANT:
            return node.attrs["value"]
        return symbol.refuse()

    def mark(self, results: Sequence[Tensor]) -> None:
        """Remembers the user's line in the tape, for the gradients that will come of it."""
        for t in results:
            if isinstance(t._history, TapeNode):
                note_line(t._history, t._array.node.source or self.source())

    # Counters, places.

    def touch(self, t: Tensor) -> None:
        """Remembers a tensor that is about to change, so that it can be restored."""
        if id(t) not in self.kept:
            self.kept[id(t)] = (t, dict(t.__dict__))
            if t._counter is not None and t._counter not in self.counters:
                self.counters[t._counter] = (t._counter.value, t._counter.site)

    def made(self, t: Tensor) -> bool:
        """Whether ``t`` was made by the traced function: it has a symbol, and is no argument."""
        if not isinstance(t._array, Symbol):
            return False
        known = self.by_symbol.get(t._array)
        return known is None or known.tensor is not t

    def owner(self, t: Tensor) -> Tensor | None:
        """The tensor of outside that ``t`` is a view of, and as which it can be made again."""
        capture = self.by_symbol.get(root(t._array))
        if capture is None or capture.tensor is None or capture.grad:
            return None
        return capture.tensor if t._history in (None, VIEW) else None

    def refuse_reshaping(self, t: Tensor, name: str) -> None:
        """A tensor of outside keeps its shape and strides; one made inside may change."""
        if not isinstance(t._array, Symbol) or t._array in self.by_symbol:
            raise TraceError(
                f"{name} at {self.place()} changes the shape of a tensor of outside, which a graph "
                "cannot do: use the op without the underscore"
            )

    def rebind(self, t: Tensor, value: Tensor) -> None:
        """``t.data = value``: t has other memory from now on, which here is a write."""
        if value._array.shape != t._array.shape or value._array.dtype != t._array.dtype:
            raise TraceError(f".data at {self.place()} gets another shape or dtype in a graph")
        self.store(t, self.symbol(value))

    def source(self) -> Source | None:
        return self.forward or (None if self.returned else self.modules.source())

    def place(self) -> str:
        source = self.source()
        return "an unknown line" if source is None else f"{source.file}:{source.line}"

    def assign(self, entries: Any, key: Any, t: Tensor) -> None:
        """``entries[key] = t`` shall happen at each call: how an optimizer's state begins."""
        self.assigned.append((entries, key, t))
        self.decide(lambda: key in entries, False)

    def postpone(self, owner: Any, action: Callable[[], Any], what: str) -> None:
        """``action`` changes Python objects that only ``owner`` reads: it follows each call.

        So nothing that the function does afterwards may look at them.
        """
        seen = sorted({"param_groups", "last_epoch"}.intersection(self.names))
        if seen:
            raise TraceError(
                f"{what} at {self.place()} is done after each run of the graph, so that a function "
                f"that reads {seen[0]} itself could see it too early: read it, or call {what}, "
                "outside the compiled function"
            )
        self.postponed.append((owner, action))

    def refuse_postponed(self, owner: Any, what: str) -> None:
        """An error if ``what`` would need what was postponed."""
        if any([owner is other for other, _ in self.postponed]):
            raise TraceError(
                f"{what} at {self.place()} needs the learning rates that a schedule has set in the "
                "same function, which happens only after the graph has run: call scheduler.step() "
                "last of all, or outside"
            )

    def move(self, t: Tensor, change: Any) -> bool:
        """``t`` is an entry that each call replaces: it is read there; not if it is written to."""
        known = self.by_array.get(id(t._array))
        capture = None if known is None else self.by_symbol.get(known[1])
        if known is None or capture is None or capture.tensor is not t:
            return known is None
        if known[1].version or capture.grad:
            return False
        capture.entry = lambda: change.watch.read()[change.key]
        return True

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """A block that is not traced: what it does is done now, and not again at a call."""
        state = local.state
        state.trace = None
        try:
            yield
        finally:
            state.trace = self

    # The end.

    def finish(self, outputs: Sequence[Tensor]) -> Graph:
        """The graph of what was traced, once everything outside is as it was.

        Its outputs are ``outputs``, then the new gradients, then the new entries of dicts.
        """
        roots = [self.current(self.symbol(t)) for t in outputs]
        effects = self.effects = self.find_effects()
        self.restore()
        self.check_overlap(effects)
        kept = [g for _, g in effects.gradients if g is not None]
        begun = [self.current(self.symbol(t)) for _, _, t in self.assigned]
        writes = tuple([(capture.node, node) for capture, node in effects.written])
        names = {c.node: self.name(c, i) for i, c in enumerate(self.captures)}
        captured = tuple([c.node for c in self.captures])
        return Graph(tuple(self.inputs), captured, (*roots, *kept, *begun), writes, names)

    def find_effects(self) -> Effects:
        """What was written to, in tensors and in gradients."""
        found = Effects()
        for symbol, capture in self.by_symbol.items():
            if symbol.version and symbol.node is not capture.node:
                history = capture.tensor._history if not capture.grad else None
                if history is not None and history is not LEAF:
                    raise TraceError(
                        "the function writes to a tensor of outside in a way that autograd records "
                        "(out of no_grad): return the new value instead"
                    )
                found.written.append((capture, symbol.node))
        states = self.random.ends()
        for capture in self.captures:
            if capture.node in states:
                found.written.append((capture, states[capture.node]))
        for t, before in self.kept.values():
            g = t._grad
            if g is not before.get("_grad") and not self.made(t):
                found.gradients.append((t, None if g is None else self.current(self.symbol(g))))
        return found

    def restore(self) -> None:
        """Everything outside as it was before."""
        for t, before in self.kept.values():
            t.__dict__.clear()
            t.__dict__.update(before)
        for counter, (value, site) in self.counters.items():
            counter.value, counter.site = value, site
        self.random.restore()
        self.over.set()

    def holds(self, array: np.ndarray) -> bool:
        """Whether the elements of ``array`` are those of an argument."""
        return any([np.may_share_memory(array, known) for _, known in self.arguments])

    def check_overlap(self, effects: Effects) -> None:
        """Two captured tensors over the same memory, one of them written to, are too much."""
        arrays = [(c, a) for a, s in self.by_array.values() if (c := self.by_symbol.get(s))]
        arrays += self.arguments
        written = {id(capture) for capture, _ in effects.written}
        places = sorted([(*byte_bounds(a), id(c)) for c, a in arrays if a.size])
        open_ends: list[tuple[int, int]] = []  # of those that began before
        for begin, end, capture in places:
            open_ends = [(e, c) for e, c in open_ends if e > begin]
            others = {c for _, c in open_ends} - {capture}
            if others and not written.isdisjoint({*others, capture}):
                raise TraceError(
                    "a tensor that the function writes to shares memory with another one that it "
                    "uses; pass one of them as a view made inside the function"
                )
            open_ends.append((end, capture))

    def name(self, capture: Capture, position: int) -> str:
        if capture.generator is not None:
            return "generator"
        if capture.number is not None:
            return capture.name or f"number{position}"
        known = self.modules.names.get(id(capture.tensor))
        if known is not None:
            return f"{known}.grad" if capture.grad else known
        return f"{'grad' if capture.grad else 'tensor'}{position}"


CAST = registry["cast"]
