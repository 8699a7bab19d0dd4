"""Sizes that may change: which ones they are, and how a file computes with them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dims, dtypes
from rushlight.dims import Operation, at_least, partly
from rushlight.export.dynamic_shapes import Changes, Dim, changes_in, checked
from rushlight.graph.extents import Condition
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.onnx.writer import Writer

LARGEST = np.iinfo(np.int64).max
WHOLE = {"//": "Div", "%": "Mod", "min": "Min", "max": "Max"}
OPERATORS: dict[Any, str] = {
    operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.truediv: "Div",
    operator.pow: "Pow", operator.neg: "Neg", operator.abs: "Abs",
}  # fmt: skip
RELATIONS: dict[Any, tuple[str, bool, bool]] = {
    operator.eq: ("Equal", False, False), operator.ne: ("Equal", False, True),
    operator.lt: ("Less", False, False), operator.ge: ("Less", False, True),
    operator.gt: ("Less", True, False), operator.le: ("Less", True, True),
}  # fmt: skip
"""Operators of relations, whether their operands change places, and whether they are opposites."""


def changes_by_name(
    given: Mapping[str, Any], named: Sequence[tuple[str, Tensor]], known: Sequence[str]
) -> list[Changes]:
    """What ``dynamic_axes`` says of each input; ``known`` are all names that may be in it."""
    for name in given:
        if name not in known:
            raise ValueError(
                f"onnx.export(): dynamic_axes names {name!r}, but the inputs and outputs are "
                f"{', '.join(known)}"
            )
    found = []
    for name, t in named:
        axes = given.get(name, ())
        labels = axes if isinstance(axes, Mapping) else dict.fromkeys(axes, Dim.DYNAMIC)
        found.append(checked(labels, t, name))
    return found


def changes_by_argument(
    given: Any, arguments: Mapping[str, Any], named: Sequence[tuple[str, Tensor]]
) -> list[Changes]:
    """What ``dynamic_shapes`` says of each input."""
    found = {id(t): own for t, own in changes_in(given, arguments)}
    return [found[id(t)] for _, t in named]


class Measures:
    """Writes sizes as values: polynomials of the sizes of inputs.

    ``places`` says where each symbol can be read: the name of an input, its dimension, and of
    which multiple of the symbol that is the size.
    """

    def __init__(self, w: Writer, places: Mapping[str, tuple[str, int, int]]) -> None:
        self.w, self.places = w, places

    @contextmanager
    def ahead(self) -> Iterator[None]:
        """Outside of branches and loops: all of them can then use a size."""
        body, self.w.body = self.w.body, self.w.root
        try:
            yield
        finally:
            self.w.body = body

    def size(self, dim: Any) -> str:
        """A size as an integer."""
        if isinstance(dim, int):
            return self.w.constant(dim, dtypes.int64)
        with self.ahead():
            terms = [self.term(atoms, factor) for atoms, factor in dim.terms.items()]
            total = terms[0]
            for term in terms[1:]:
                total = self.w("Add", total, term)
        return total

    def term(self, atoms: Sequence[Any], factor: int) -> str:
        parts = [self.atom(atom) for atom in atoms]
        if factor != 1 or not parts:
            parts.append(self.w.constant(factor, dtypes.int64))
        product = parts[0]
        for part in parts[1:]:
            product = self.w("Mul", product, part)
        return product

    def atom(self, atom: Any) -> str:
        if isinstance(atom, Operation):
            left, right = self.size(atom.left), self.size(atom.right)
            if atom.sign in ("//", "%") and not at_least(atom.right, 1):
                right = self.w("Max", right, self.w.constant(1, dtypes.int64))
            if atom.sign == "//" and not at_least(atom.left, 0):  # Div rounds towards 0
                left = self.w("Sub", left, self.w("Mod", left, right))
            return self.w(WHOLE[atom.sign], left, right)
        name, axis, step = self.places[atom.name]
        place = self.w.constant(axis, dtypes.int64)
        size = self.w("Gather", self.w("Shape", name), place, axis=0)
        return size if step == 1 else self.w("Div", size, self.w.constant(step, dtypes.int64))

    def vector(self, sizes: Sequence[Any]) -> str:
        """Sizes as a vector of integers."""
        one = self.w.constant(np.array([0]))
        with self.ahead():
            parts = [
                self.w.constant(np.array([n]))
                if isinstance(n, int)
                else self.w("Unsqueeze", self.size(n), one)
                for n in sizes
            ]
            return self.w("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def refused(self, conditions: Iterable[Condition]) -> str | None:
        """1 where the sizes of a run are not among those that a graph is for, else 0.

        Sizes of none and counts beyond 64 bits are not looked at.
        """
        wrong = None
        with self.ahead():
            for condition in conditions:
                if condition.symbols <= set(self.places) and not holds_from_one(condition):
                    fails = self.fails(condition)
                    wrong = fails if wrong is None else self.w("Or", wrong, fails)
            return None if wrong is None else self.w.cast(wrong, dtypes.int64)

    def fails(self, condition: Condition) -> str:
        """Whether a condition does not hold, as a value."""
        kind, swapped, opposite = RELATIONS[condition.relation]
        operands = [self.size(condition.left), self.size(condition.right)]
        found = self.w(kind, *(operands[::-1] if swapped else operands))
        return found if opposite is condition.answer else self.w("Not", found)

    def number(self, formula: Any) -> str:
        """A float that a function has computed from sizes."""
        if isinstance(formula, (int, float)):
            return self.w.constant(float(formula), dtypes.float64)
        with self.ahead():
            if isinstance(formula, dims.Dim):
                return self.w.cast(self.size(formula), dtypes.float64)
            operation, *operands = formula
            inner = [self.number(getattr(x, "formula", x)) for x in operands]
            if operation is operator.floordiv:
                return self.w("Floor", self.w("Div", *inner))
            if operation not in OPERATORS:
                raise self.w.refusal(f"ONNX has no operator for {operation.__name__} of sizes")
            return self.w(OPERATORS[operation], *inner)


def holds_from_one(condition: Condition) -> bool:
    """Whether a condition holds for all sizes that are not 0, as far as can be seen."""
    if any([type(n) is int and abs(n) >= LARGEST for n in (condition.left, condition.right)]):
        return True
    more = {s.name: dims.added(dims.Dim.symbol(s.name, s.example), 1) for s in condition.dims}
    left, right = partly(condition.left, more), partly(condition.right, more)
    above, below = at_least(left, right + 1), at_least(right, left + 1)
    kind, swapped, opposite = RELATIONS[condition.relation]
    if kind == "Equal":
        return condition.answer is opposite and (above or below)
    if swapped:
        left, right, above, below = right, left, below, above
    return below if condition.answer is not opposite else at_least(left, right)


def depends_on_sizes(formula: Any) -> bool:
    """Whether a number of a trace is computed from sizes that change."""
    if isinstance(formula, tuple):
        return any([depends_on_sizes(getattr(x, "formula", x)) for x in formula[1:]])
    return isinstance(formula, dims.Dim)
