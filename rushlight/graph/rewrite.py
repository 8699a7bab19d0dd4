"""Rewriting: rules as equations in the framework's own notation, and the loop that applies them.

    x, p, q = variables("x p q")
    rule(-(-x), x)
    rule(x * 1, x)
    rule(permute(permute(x, dims=p), dims=q), lambda p, q: permute(x, dims=[p[i] for i in q]))

The left side of a rule is matched with the nodes of a graph. Variables stand for nodes or, among
the attributes, for their values. The right side is an expression, or a function of what some
variables stand for, which it names as its parameters; it returns None where the rule does not hold.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import broadcast
from rushlight.graph.attributes import literal, nested
from rushlight.graph.inference import Irregular, inferred
from rushlight.graph.ir import (
    CAPTURED,
    CONSTANT,
    INPUT,
    Graph,
    Node,
    Source,
    TensorType,
    constant,
    copy,
    rebuild,
)
from rushlight.ops.base import Op, registry
from rushlight.ops.views import View

COMMUTATIVE = frozenset(
    ("add", "mul", "maximum", "minimum", "logical_and", "logical_or", "bitwise_and", "bitwise_or")
)
LARGE = 4096  # bytes from which on constants are compared by identity alone


class Term:
    """One side of an equation. Operators and :func:`operation` make larger ones."""

    __slots__ = ()

    def __add__(self, other: Any) -> Term:
        return applied("add", self, other)

    def __radd__(self, other: Any) -> Term:
        return applied("add", other, self)

    def __sub__(self, other: Any) -> Term:
        return applied("sub", self, other)

    def __rsub__(self, other: Any) -> Term:
        return applied("sub", other, self)

    def __mul__(self, other: Any) -> Term:
        return applied("mul", self, other)

    def __rmul__(self, other: Any) -> Term:
        return applied("mul", other, self)

    def __truediv__(self, other: Any) -> Term:
        return applied("div", self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return applied("div", other, self)

    def __pow__(self, other: Any) -> Term:
        return applied("pow", self, other)

    def __neg__(self) -> Term:
        return applied("neg", self)

    def __abs__(self) -> Term:
        return applied("abs", self)


@dataclass(frozen=True, slots=True)
class Variable(Term):
    """Any node, or, if ``number`` is set, any number; among attributes any value."""

    name: str
    number: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Number(Term):
    """A constant all of whose elements are this number; 0.0 is not −0.0."""

    value: Any

    def fits(self, value: Any) -> bool:
        if value is None or value.dtype.kind == "c" or value != self.value:
            return False
        return bool(value) or value.dtype.kind in "biu" or np.signbit(value) == self.minus

    @property
    def minus(self) -> bool:
        return bool(np.signbit(self.value))


@dataclass(frozen=True, eq=False, slots=True)
class Applied(Term):
    """An op of terms; its attributes are values or variables."""

    op: Op
    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any]


def variables(names: str) -> list[Variable]:
    """Variables with these names, which stand for any node or attribute."""
    return [Variable(name) for name in names.split()]


def numbers(names: str) -> list[Variable]:
    """Variables that stand for constants whose elements are all one number."""
    return [Variable(name, number=True) for name in names.split()]


def operation(name: str) -> Callable[..., Term]:
    """The op of this name as a function of terms.

    >>> exp, (x,) = operation("exp"), variables("x")
    >>> rule(exp(-x), 1 / exp(x)).left.op.name
    'exp'
    """
    op = registry[name]
    return lambda *inputs, **attrs: Applied(op, tuple(map(term, inputs)), attrs)


def applied(name: str, *inputs: Any) -> Applied:
    return Applied(registry[name], tuple(map(term, inputs)), {})


def term(value: Any) -> Any:
    return value if isinstance(value, (Term, Node)) else Number(value)


@dataclass(frozen=True, eq=False, slots=True)
class Rule:
    """``left = right`` wherever ``when`` holds, which is a function like a computed right side."""

    left: Applied
    right: Any
    when: Any = None

    def apply(self, node: Node, rewriter: Rewriter) -> Node | None:
        """What stands for ``node`` by this rule, or None."""
        found = match(self.left, node, {})
        if found is None or (self.when is not None and not called(self.when, found)):
            return None
        right = self.right
        if not isinstance(right, Term):
            right = called(right, found)
        return (
            None if right is None else fit(build(right, found, node.type, rewriter), node, rewriter)
        )


def rule(left: Any, right: Any, when: Callable[..., Any] | None = None) -> Rule:
    """The equation ``left = right``, which rewriting reads from left to right."""
    return Rule(left, right, when)


def called(function: Callable[..., Any], found: Mapping[str, Any]) -> Any:
    """``function`` of what the variables named as its parameters stand for."""
    return function(*[found[name] for name in parameters(function)])


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return inspect.unwrap(function).__code__.co_varnames[: function.__code__.co_argcount]


def number_of(node: Node | None) -> Any:
    """The NumPy scalar that all elements of a constant (or of one expanded) are, or None."""
    if node is None:
        return None
    if node.op is EXPAND:
        (node,) = node.inputs
        assert node is not None
    if node.op is not CONSTANT:
        return None
    value = node.attrs["value"]
    return value.reshape(())[()] if value.size == 1 else None


def match(term: Any, node: Node | None, found: dict[str, Any]) -> dict[str, Any] | None:
    """``found`` and what more the variables of ``term`` must stand for if it is to be ``node``."""
    if isinstance(term, Variable):
        value = number_of(node) if term.number else node
        known = found.get(term.name)
        if value is None or (known is not None and known is not value):
            return None
        return {**found, term.name: value}
    if isinstance(term, Number):
        return found if term.fits(number_of(node)) else None
    if node is None or node.op is not term.op:
        return None
    if term.attrs:
        found = dict(found)
        for name, wanted in term.attrs.items():
            value = node.attrs.get(name)
            if isinstance(wanted, Variable):
                wanted = found.setdefault(wanted.name, value)
            if value != wanted:
                return None
    whole = match_all(term.inputs, node.inputs, found)
    if whole is None and term.op.name in COMMUTATIVE:
        whole = match_all(term.inputs, node.inputs[::-1], found)
    return whole


def match_all(
    terms: Sequence[Any], nodes: Sequence[Node | None], found: dict[str, Any]
) -> dict[str, Any] | None:
    for part, node in zip(terms, nodes, strict=True):
        more = match(part, node, found)
        if more is None:
            return None
        found = more
    return found


def build(term: Any, found: Mapping[str, Any], near: TensorType, rewriter: Rewriter) -> Node:
    """The node that a term is; numbers take the dtype of a node beside them, else of ``near``."""
    if isinstance(term, Variable):
        term = found[term.name]
    if isinstance(term, Node):
        return term
    if not isinstance(term, Applied):
        value = term.value if isinstance(term, Number) else term
        kind = np.float32 if near.dtype.numpy in dtypes.HALF else near.dtype.numpy
        return rewriter.normal(constant(np.asarray(value).astype(kind)))
    made = [build(t, found, near, rewriter) for t in term.inputs if not is_number(t, found)]
    beside = made[0].type if made else near
    rest = iter(made)
    inputs = tuple(
        [
            build(t, found, beside, rewriter) if is_number(t, found) else next(rest)
            for t in term.inputs
        ]
    )
    attrs = {
        name: found[value.name] if isinstance(value, Variable) else value
        for name, value in term.attrs.items()
    }
    return rewriter.make(term.op, inputs, attrs)


def is_number(term: Any, found: Mapping[str, Any]) -> bool:
    if isinstance(term, Variable):
        term = found[term.name]
    return not isinstance(term, (Node, Applied))


def fit(result: Node, node: Node, rewriter: Rewriter) -> Node | None:
    """``result``, expanded if broadcasting got lost; None if it is of another dtype."""
    if result.type == node.type:
        return result
    if result.type.dtype is not node.type.dtype:
        return None
    return rewriter.make(EXPAND, (result,), {"size": node.type.shape})


def infer(op: Op, inputs: Sequence[Node | None], attrs: Mapping[str, Any]) -> TensorType:
    """The type of a view, a cast, or an elementwise op that keeps the dtype."""
    types = [n.type for n in inputs if n is not None]
    if op is CAST:
        return TensorType(types[0].shape, attrs["dtype"])
    if isinstance(op, View):
        return inferred(functools.partial(view_type, op), types, attrs)
    return TensorType(broadcast(*[t.shape for t in types]), types[0].dtype)


def view_type(op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> TensorType:
    hollow = np.broadcast_to(np.zeros((), types[0].dtype.numpy), types[0].shape)
    y = hollow.reshape(attrs["shape"]) if op is VIEW else op.eager(hollow, **attrs)
    return TensorType(y.shape, dtypes.from_numpy(y.dtype))


class Rewriter:
    """Nodes in normal form: equal ones are one, and no step of ``steps`` changes them further."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.steps = tuple(steps)
        self.known: dict[Any, Node] = {}

    def __call__(self, node: Node, inputs: tuple[Node | None, ...]) -> Node:
        """``node`` over inputs in normal form, itself in normal form."""
        return node if node.op in (INPUT, CAPTURED) else self.normal(copy(node, inputs))

    def make(
        self,
        op: Any,
        inputs: tuple[Node | None, ...],
        attrs: Mapping[str, Any],
        type: TensorType | None = None,
        source: Source | None = None,
    ) -> Node:
        """The normal form of an op of nodes in normal form."""
        return self.normal(Node(op, inputs, attrs, type or infer(op, inputs, attrs), source))

    def normal(self, node: Node) -> Node:
        key = identity(node)
        found = self.known.get(key)
        if found is None:
            found = node
            for step in self.steps:
                try:
                    changed = step(node, self)
                except Irregular:  # what would stand for it has no type for all sizes
                    continue
                if changed is not None:
                    found = changed
                    break
            self.known[key] = found
        return found


Step = Callable[[Node, Rewriter], "Node | None"]
"""``step(node, rewriter)`` is what stands for ``node``, or None if it stays."""


def identity(node: Node) -> Any:
    """What two nodes have in common if they are the same value."""
    if node.op is CONSTANT:
        value = node.attrs["value"]
        content = value.tobytes() if value.nbytes <= LARGE else id(value)
        return CONSTANT, value.dtype, value.shape, content
    if not node.attrs:
        return node.op, node.inputs
    inner = map(str, nested(node.attrs))
    return node.op, node.inputs, tuple([(k, literal(v)) for k, v in node.attrs.items()]), *inner


def below_op(term: Any) -> Any:
    """The op that a node must have to be matched by ``term``; None if any will do."""
    if isinstance(term, Applied):
        return term.op
    return CONSTANT if isinstance(term, Number) or term.number else None


def equations(rules: Iterable[Rule]) -> Step:
    """The step that applies the first of ``rules`` that fits a node."""
    table: dict[Any, list[tuple[set[Any], Rule]]] = {}
    for equation in rules:
        below = {below_op(t) for t in equation.left.inputs} - {None}
        table.setdefault(equation.left.op, []).append((below, equation))

    def step(node: Node, rewriter: Rewriter) -> Node | None:
        candidates = table.get(node.op)
        if candidates is None:
            return None
        have = {n.op for n in node.inputs if n is not None}
        if EXPAND in have:
            have.add(CONSTANT)  # perhaps of one
        for below, equation in candidates:
            if below <= have:
                changed = equation.apply(node, rewriter)
                if changed is not None:
                    return changed
        return None

    return step


def rewrite(graph: Graph, *steps: Step) -> Graph:
    """The graph with every node in normal form, from the inputs to the outputs, once.

    What computes the same is merged, also without any steps.
    """
    return rebuild(graph, Rewriter(steps))


EXPAND, CAST, VIEW = registry["expand"], registry["cast"], registry["view"]
