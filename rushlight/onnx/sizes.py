"""Sizes that may change: which ones they are, and how a file computes with them."""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import Dim, Operation, at_least
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.onnx.writer import Writer

Axes = list[dict[int, str]]
"""For each input, the names of those of its sizes that change, by dimension."""

MOST = 8  # names of sizes in one model
WHOLE = {"//": "Div", "%": "Mod", "min": "Min", "max": "Max"}
OPERATORS: dict[Any, str] = {
    operator.add: "Add", operator.sub: "Sub", operator.mul: "Mul", operator.truediv: "Div",
    operator.pow: "Pow", operator.neg: "Neg", operator.abs: "Abs",
}  # fmt: skip


def axes_by_name(given: Mapping[str, Any], named: Sequence[tuple[str, Tensor]], known: Any) -> Axes:
    """What ``dynamic_axes`` asks for; ``known`` are all names that may be in it."""
    for name in given:
        if name not in known:
            raise ValueError(
                f"onnx.export(): dynamic_axes names {name!r}, but the inputs and outputs are "
                f"{', '.join(known)}"
            )
    found = []
    for name, t in named:
        axes = given.get(name, ())
        labels = axes if isinstance(axes, Mapping) else dict.fromkeys(axes, AUTO)
        found.append(checked(labels, name, t))
    return found


def axes_by_argument(
    given: Any, arguments: Sequence[tuple[str, Any]], names: Sequence[str]
) -> Axes:
    """What ``dynamic_shapes`` asks for, which has the structure of the arguments."""
    if isinstance(given, Mapping):
        unknown = set(given) - {name for name, _ in arguments}
        if unknown:
            raise ValueError(
                f"onnx.export(): dynamic_shapes names {sorted(unknown)}, but the arguments are "
                f"called {', '.join([name for name, _ in arguments])}"
            )
        given = [given.get(name) for name, _ in arguments]
    if len(given) != len(arguments):
        raise ValueError(
            f"onnx.export(): dynamic_shapes has {len(given)} entries for {len(arguments)} arguments"
        )
    pairs = [p for spec, (_, x) in zip(given, arguments, strict=True) for p in paired(spec, x)]
    return [checked(spec, name, t) for name, (spec, t) in zip(names, pairs, strict=True)]


def paired(spec: Any, value: Any) -> Iterator[tuple[Mapping[int, Any], Tensor]]:
    """The tensors in an argument, each with what is said of its sizes."""
    if isinstance(value, Tensor):
        yield dict(enumerate(spec)) if isinstance(spec, (tuple, list)) else spec or {}, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from paired(None if spec is None else spec.get(key), part)
    elif isinstance(value, (tuple, list)):
        for number, part in enumerate(value):
            yield from paired(None if spec is None else spec[number], part)


class Auto(enum.Enum):
    """A size that changes, and has no name of its own."""

    AUTO = "AUTO"


AUTO = Auto.AUTO


def checked(labels: Mapping[int, Any], name: str, t: Tensor) -> dict[int, str]:
    """The names of sizes of one tensor, by dimensions from 0 on."""
    found = {}
    for axis, label in labels.items():
        if not isinstance(axis, int) or not -t.ndim <= axis < t.ndim:
            raise ValueError(
                f"onnx.export(): {name!r} has {t.ndim} dimensions, and no dimension {axis}"
            )
        own = label_of(label, f"{name}_dim_{axis % t.ndim}")
        if own is not None:
            found[axis % t.ndim] = own
    return found


def label_of(label: Any, usual: str) -> str | None:
    """The name of a size; None if it does not change. Dims of PyTorch's have names, too."""
    if label is None or isinstance(label, int):
        return None
    if isinstance(label, str):
        return label
    name = str(getattr(label, "__name__", getattr(label, "name", label)))
    return {"AUTO": usual, "DYNAMIC": usual, "STATIC": None}.get(name, name)


def first_sizes(axes: Axes, tensors: Sequence[Tensor]) -> tuple[list[tuple[int, ...]], list[str]]:
    """Shapes with a number below 0 for each size that changes: −1 for the first name, and so on."""
    labels = list(dict.fromkeys([label for each in axes for label in each.values()]))
    if len(labels) > MOST:
        raise ValueError(f"onnx.export(): {len(labels)} sizes change, at most {MOST} can")
    shapes = []
    for t, own in zip(tensors, axes, strict=True):
        sizes = enumerate(t.shape)
        shapes.append(tuple([-1 - labels.index(own[d]) if d in own else n for d, n in sizes]))
    return shapes, labels


class Measures:
    """Writes sizes as values: polynomials of the sizes of inputs.

    ``places`` says where each symbol can be read: the name of an input, and its dimension.
    """

    def __init__(self, w: Writer, places: Mapping[str, tuple[str, int]]) -> None:
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
            if atom.sign == "//" and not at_least(atom.left, 0):  # Div rounds towards 0
                left = self.w("Sub", left, self.w("Mod", left, right))
            return self.w(WHOLE[atom.sign], left, right)
        name, axis = self.places[atom.name]
        return self.w("Gather", self.w("Shape", name), self.w.constant(axis, dtypes.int64), axis=0)

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

    def number(self, formula: Any) -> str:
        """A float that a function has computed from sizes."""
        if isinstance(formula, (int, float)):
            return self.w.constant(float(formula), dtypes.float64)
        with self.ahead():
            if isinstance(formula, Dim):
                return self.w.cast(self.size(formula), dtypes.float64)
            operation, *operands = formula
            inner = [self.number(getattr(x, "formula", x)) for x in operands]
            if operation is operator.floordiv:
                return self.w("Floor", self.w("Div", *inner))
            if operation not in OPERATORS:
                raise self.w.refusal(f"ONNX has no operator for {operation.__name__} of sizes")
            return self.w(OPERATORS[operation], *inner)


def depends_on_sizes(formula: Any) -> bool:
    """Whether a number of a trace is computed from sizes that change."""
    if isinstance(formula, tuple):
        return any([depends_on_sizes(getattr(x, "formula", x)) for x in formula[1:]])
    return isinstance(formula, Dim)
