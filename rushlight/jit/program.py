"""A program by itself: a graph, what it takes and returns, and how it is run and differentiated.

It needs no Python function: one that was read from a file is like one that was just recorded.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.autograd.function import Function
from rushlight.autograd.modes import local
from rushlight.autograd.tape import counter
from rushlight.codegen.reach import check_reach
from rushlight.dims import LETTERS, Dim, known
from rushlight.graph import ir
from rushlight.graph.extents import Condition, Sizes
from rushlight.graph.ir import Graph
from rushlight.graph.multiples import solve
from rushlight.graph.parse import parse_size
from rushlight.graph.sizes import called, sized
from rushlight.graph.verify import verify
from rushlight.jit.native import Made, restricted
from rushlight.jit.numbers import Formula, Values, evaluated, with_sizes
from rushlight.jit.state import State
from rushlight.jit.structure import Shape, collect, filled
from rushlight.runtime.differentiable import Call, named
from rushlight.runtime.overlap import Memory
from rushlight.tensor import Tensor, wrap

OWNED = ("input", "tensor", "gradient")
SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
RELATIONS = {name: getattr(operator, name) for name in SIGNS}
Place = tuple[str, int]
"""A tensor of a call: ("input", number) or ("tensor", number in the state)."""


@dataclass(slots=True)
class Border:
    """How a graph meets the outside.

    The graph's inputs are the tensors among the arguments, then the gradients of those results that
    have some (``roots``). Its outputs are the results, the gradients of the ``wanted`` tensors, and
    those that become the ``.grad`` of a tensor (``gradients``).
    """

    arguments: list[tuple[str, Shape]]  # in order
    defaults: dict[str, Any]  # of those that need not be given
    tensors: int  # how many tensors there are among them
    floats: int
    fixed: dict[int, float]  # floats among the arguments for which alone the program is right
    result: Shape
    returned: list[Formula]  # the numbers in the result
    count: int  # of results that are tensors
    captured: list[tuple[str, Any]]  # tensor, gradient or generator with its number, or a formula
    roots: list[int] = field(default_factory=list)
    wanted: list[Place] = field(default_factory=list)
    gradients: list[tuple[Place, bool]] = field(default_factory=list)  # and whether it is None
    found: list[tuple[Place, bool]] = field(default_factory=list)  # whether .grad must be None
    symbols: list[tuple[str, int]] = field(default_factory=list)  # sizes, each with an example
    labels: dict[str, str] = field(default_factory=dict)  # what users call these symbols
    conditions: list[tuple[str, str, str, bool]] = field(default_factory=list)  # on sizes
    training: bool | None = None  # the mode of the module, if that makes a difference
    lost: str = ""  # why the results have no gradients, if it is not for lack of any


class Mismatch(TypeError):
    """Arguments that a program was not made for."""


@dataclass(slots=True)
class Given:
    """The tensors and floats of a call, and what the symbols for sizes are in it."""

    tensors: list[Tensor]
    floats: list[float]
    sizes: dict[str, int]


class Program:
    """A graph with its border, compiled when it is first called."""

    def __init__(self, graph: Graph, border: Border, state: State, trusted: bool = True) -> None:
        self.graph, self.border, self.state, self.trusted = graph, border, state, trusted
        self.odd: tuple[str, ...] = ()  # modules that were in another mode than the whole
        self.made: dict[Any, Made] = {}
        self.sizes = Sizes()
        self.right: set[tuple[int, ...]] = set()  # sizes for which the conditions hold
        symbols = symbols_of(border)
        self.labels = {
            name: symbol_of(border.labels.get(name, name), example)
            for name, example in border.symbols
        }
        self.conditions = [condition_of(each, symbols) for each in border.conditions]
        self.returned = [with_sizes(formula, symbols) for formula in border.returned]
        self.sources = [
            (kind, with_sizes(what, symbols) if kind == "number" else what)
            for kind, what in border.captured
        ]
        written = {target for target, _ in graph.writes}
        changed = any([place[0] == "input" for place, _ in border.gradients])
        self.own = changed or not written.isdisjoint(graph.inputs)
        self.watched = [self.own or node in written for node in graph.captured]
        steady = [kind == "tensor" for kind, _ in border.captured]
        types = [node.type for node in graph.captured]
        self.memory = Memory(types, steady, self.watched, self.own)
        owners = {node: ("input", i) for i, node in enumerate(graph.inputs)}
        owners |= dict(zip(graph.captured, border.captured, strict=True))
        self.written = [(*owners[node],) for node, _ in graph.writes if owners[node][0] in OWNED]

    @property
    def forward_graph(self) -> Graph:
        """The graph without the gradients of results."""
        graph = restricted(self.graph, self.border, ())[0]
        return called(graph, self.labels) if self.border.labels else graph

    @property
    def trains(self) -> bool:
        """Whether calls change tensors that the program holds."""
        return bool(self.graph.writes or self.border.gradients)

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
        """The tensors and floats of a call, if the program is for such arguments."""
        tensors: dict[int, Any] = {}
        floats: dict[int, float] = {}
        border = self.border
        for name, shape, value in self.paired(args, kwargs):
            if not collect(shape, value, tensors, floats):
                raise Mismatch(f"{name}: expected {self.described(shape)}, got {kind_of(value)}")
        for i, fixed in border.fixed.items():
            if repr(floats.get(i, fixed)) != repr(fixed):
                raise Mismatch(f"a number is {floats[i]}; the program is one for {fixed}")
            floats[i] = fixed
        found = [tensors[i] for i in range(border.tensors)]
        sizes: dict[str, int] = {}
        for name, shape in border.arguments:
            self.check(name, shape, found, sizes)
        if sizes:
            self.check_sizes(sizes)
        return Given(found, [floats[i] for i in range(border.floats)], sizes)

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """An error if the program is not right for these sizes."""
        key = tuple(sizes.values())
        if key not in self.right:
            for condition, text in zip(self.conditions, self.border.conditions, strict=True):
                if not condition.holds(sizes):
                    relation, *_, answer = text
                    left, right = [known(x, self.labels) for x in (condition.left, condition.right)]
                    asked = f"{left} {SIGNS[relation]} {right}"
                    shown = {str(self.labels[name]): n for name, n in sizes.items()}
                    raise Mismatch(f"the sizes {shown}: {asked} must be {answer}")
            if not self.trusted:
                self.verify(sizes)
            self.right.add(key)

    def verify(self, sizes: Mapping[str, int]) -> None:
        """An error unless the graph of a file is right for these sizes."""
        graph, new = sized(self.graph, sizes) if sizes else (self.graph, {})
        streams = [
            new.get(node, node)
            for node, (kind, _) in zip(self.graph.captured, self.border.captured, strict=True)
            if kind == "generator"
        ]
        verify(graph, streams)
        check_reach(graph)

    def paired(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """(name, shape, value) of the arguments; what is no tensor may be left out."""
        names = {name for name, _ in self.border.arguments}
        unknown = [name for name in kwargs if name not in names]
        if unknown or len(args) > len(self.border.arguments):
            what = f"{unknown[0]!r}" if unknown else f"{len(args)} positional arguments"
            raise Mismatch(f"takes ({', '.join(sorted(names))}), got {what}")
        twice = [name for name, _ in self.border.arguments[: len(args)] if name in kwargs]
        if twice:
            raise Mismatch(f"{twice[0]}: given twice")
        for i, (name, shape) in enumerate(self.border.arguments):
            if i < len(args):
                yield name, shape, args[i]
            elif name in kwargs:
                yield name, shape, kwargs[name]
            elif name in self.border.defaults:
                yield name, shape, self.border.defaults[name]
            elif shape[0] != "plain":
                raise Mismatch(f"{name}: expected {self.described(shape)}, got nothing")

    def check(
        self, name: str, shape: Shape, tensors: Sequence[Tensor], sizes: dict[str, int]
    ) -> None:
        """An error if tensors of an argument have other types than those of the graph."""
        kind, *content = shape
        if kind == "tensor":
            expected, array = self.graph.inputs[content[0]].type, tensors[content[0]]._array
            if not fits(expected, array, sizes):
                got = ir.type_of(array)
                raise Mismatch(f"{name}: expected a tensor {self.shown(expected)}, got {got}")
        elif kind == "dict":
            for key, inner in content[0]:
                self.check(f"{name}[{key!r}]", inner, tensors, sizes)
        elif kind not in ("number", "plain"):
            for i, inner in enumerate(content[-1]):
                self.check(f"{name}[{i}]", inner, tensors, sizes)

    def shown(self, kind: ir.TensorType) -> ir.TensorType:
        """A type with the names that users have given to sizes."""
        return ir.TensorType(known(kind.shape, self.labels), kind.dtype)

    def described(self, shape: Shape) -> str:
        kind, *content = shape
        if kind == "tensor":
            return f"a tensor {self.shown(self.graph.inputs[content[0]].type)}"
        if kind in ("number", "plain"):
            return "a number" if kind == "number" else repr(content[0])
        return f"a {kind} of {len(content[-1])}"

    def run(self, given: Given) -> Any:
        """The result of a call."""
        border = self.border
        state = self.state.current()
        if self.state.readers:
            self.state.refresh()
        values = Values(self.state.numbers, given.floats, given.sizes)
        captured = self.captured(state, values)
        self.sizes.now = given.sizes
        if not self.memory.fits(given.tensors, captured):
            raise self.misfit(captured)
        tensors = [*given.tensors, *state]
        for place, empty in border.found:
            if (self.tensor(place, tensors)._grad is None) is not empty:
                raise RuntimeError(
                    f"a tensor has {'a' if empty else 'no'} gradient: the program was recorded "
                    f"with {'none' if empty else 'one'}"
                )
        wanted = [self.tensor(place, tensors) for place in border.wanted]
        mask = tuple([local.state.grad and t.requires_grad for t in wanted])
        made = self.compiled(mask, state)
        inputs = [t._array for t in given.tensors]
        call = None
        if made.backward is None:
            arrays: Sequence[Any] = made.forward.run(inputs, captured)
            outputs, rest = [wrap(a) for a in arrays[: border.count]], arrays[border.count :]
            if border.lost and local.state.grad:
                outputs = [*without_gradients(border.lost, outputs, tensors)]
        else:
            call = Call(made, tensors, inputs, captured)  # type: ignore[arg-type]
            found = named("program", "ProgramBackward").apply(call, *call.wanted)
            outputs, rest = list(found) if isinstance(found, tuple) else [found], call.rest
        self.leave(rest, tensors)
        if call is not None:
            call.remember()
        return filled(border.result, outputs, lambda i: evaluated(self.returned[i], values))

    def leave(self, arrays: Sequence[np.ndarray], tensors: Sequence[Tensor]) -> None:
        """Counts what was written, and gives tensors their gradients."""
        for kind, number in self.written:
            t: Any = self.tensor((kind, number), tensors)
            counter(t._grad if kind == "gradient" else t).value += 1
        rest = iter(arrays)
        for place, empty in self.border.gradients:
            self.tensor(place, tensors)._grad = None if empty else wrap(next(rest))

    def tensor(self, place: Place, tensors: Sequence[Tensor]) -> Tensor:
        """A tensor of a call, among the arguments and then those of the state."""
        kind, number = place
        return tensors[number if kind == "input" else self.border.tensors + number]

    def captured(self, state: Sequence[Tensor], values: Values) -> list[Any]:
        """What the graph captures, as it is now."""
        found: list[Any] = []
        for kind, what in self.sources:
            if kind == "tensor":
                found.append(state[what]._array)
            elif kind == "gradient":
                gradient = state[what]._grad
                if gradient is None:
                    raise RuntimeError(f"{self.state.name_of(what)} has no gradient to add to")
                found.append(gradient._array)
            elif kind == "generator":
                found.append(self.state.generators[what])
            else:
                found.append(np.array(evaluated(what, values), np.float64))
        return found

    def misfit(self, captured: Sequence[Any]) -> RuntimeError:
        for (kind, what), node, value in zip(
            self.border.captured, self.graph.captured, captured, strict=True
        ):
            if isinstance(value, np.ndarray) and ir.type_of(value) != node.type:
                name = self.state.name_of(what) if kind != "number" else "a number"
                return RuntimeError(
                    f"{name} is {ir.type_of(value)}, but the program was made for {node.type}"
                )
        return RuntimeError("a tensor that the program writes to shares memory with another one")

    def compiled(self, mask: tuple[bool, ...], state: Sequence[Tensor]) -> Made:
        """The native code that also gives the gradients of the tensors that ``mask`` chooses."""
        key = mask if any(mask) else ()
        made = self.made.get(key)
        if made is None or not made.serves(state):
            made = self.made[key] = Made(self, key, state)
        return made


class Lost(Function):
    """Results through which no gradients go; who wants some learns why."""

    @staticmethod
    def forward(ctx: Any, why: str, outputs: Sequence[Tensor], *wanted: Tensor) -> Any:
        ctx.why = why
        ctx.mark_non_differentiable(*[t for t in outputs if not t.is_floating_point()])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise RuntimeError(f"no gradients go through this program: {ctx.why}")


def without_gradients(
    why: str, outputs: Sequence[Tensor], tensors: Sequence[Tensor]
) -> Sequence[Tensor]:
    """Results with a history that ends with an error, if one of these tensors wants a gradient."""
    wanted = [t for t in tensors if t.requires_grad]
    return Lost.apply(why, outputs, *wanted) if wanted else outputs


def fits(expected: ir.TensorType, array: np.ndarray, sizes: dict[str, int]) -> bool:
    """Whether an array has a type; what its symbols are goes to ``sizes``."""
    if array.ndim != len(expected.shape) or array.dtype != expected.dtype.numpy:
        return False
    pairs = zip(expected.shape, array.shape, strict=True)
    return all([solve(n, m, sizes) for n, m in pairs])


def symbols_of(border: Border) -> dict[str, Dim]:
    """The symbols for sizes by their names."""
    return {name: symbol_of(name, example) for name, example in border.symbols}


LONGEST = 80  # characters of a name


def labels_of(names: Mapping[Any, Any], symbols: Container[str]) -> dict[str, str]:
    """Those of the names of sizes, by symbols, that can stand in their places.

    >>> labels_of({"B": "batch", "T": "max", "S": "batch", "N": "a b"}, "BTSN")
    {'B': 'batch'}
    """
    found: dict[str, str] = {}
    for symbol, name in names.items():
        fits = isinstance(name, str) and name.isidentifier() and len(name) <= LONGEST
        if not fits or symbol not in symbols or name in ("min", "max", *found.values()):
            continue
        if name == symbol or name not in {*LETTERS}:
            found[symbol] = name
    return found


def symbol_of(name: str, example: int) -> Dim:
    return Dim.symbol(name, example)


def condition_of(plain: tuple[str, str, str, bool], symbols: Mapping[str, Dim]) -> Condition:
    relation, left, right, answer = plain
    sides = parse_size(left, symbols), parse_size(right, symbols)
    return Condition(RELATIONS[relation], *sides, answer)


def kind_of(value: Any) -> str:
    """What an argument is, for an error."""
    if isinstance(value, Tensor):
        return f"a tensor {ir.type_of(value._array)}"
    return repr(value) if isinstance(value, (int, float, str, type(None))) else str(type(value))
