"""Einstein summation: sums of products, described by one letter per dimension."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

from rushlight.dims import by_sizes, usual
from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.contraction import matmul
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

Labels = tuple[Any, ...]
"""What the dimensions of a term are called: letters, or -1, -2, … for those of an ellipsis."""
Shape = tuple[int, ...]
Step = tuple[Any, tuple[int, ...], tuple[Any, ...]]

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@composite(
    method=False,
    samples=[
        S("ij,jk->ik", T(2, 3), T(3, 4)),
        S("bij, bjk", T(2, 3, 4), T(2, 4, 5)),
        S("...ij,...jk->...ik", T(2, 1, 3, 4), T(5, 4, 2)),
        S("ii", T(3, 3)),
        S("bii->bi", T(2, 3, 3)),
        S("i,j->ij", T(3), T(4)),
        S("ij->ji", T(2, 3)),
        S("ij->", T(2, 3)),
        S("ij,ij->", T(2, 3), T(2, 1)),
        S("bn,anm,bm->ba", T(2, 3), T(4, 3, 5), T(2, 5)),
        S("ij,jk", T(2, 0), T(0, 3)),
        S(T(2, 3), [0, 1], T(3, 4), [1, 2], [2, 0]),
    ],
    errors=[
        Fails(RuntimeError, r"subscripts in the equation \(1\) .* dimensions \(2\)", "i", T(2, 3)),
        Fails(RuntimeError, "subscript j has size 4 for operand 1", "ij,jk", T(2, 3), T(4, 5)),
        Fails(RuntimeError, "fewer operands were provided", "i,j", T(2)),
        Fails(RuntimeError, "more operands were provided", "i", T(2), T(2)),
        Fails(RuntimeError, "output subscript k does not appear", "ij->k", T(2, 3)),
        Fails(RuntimeError, "output subscript i appears more than once", "ij->ii", T(2, 3)),
        Fails(RuntimeError, "not part of any ellipsis", "i..j", T(2, 3)),
        Fails(RuntimeError, r"subscripts must be in \[a-zA-Z\]", "i*", T(2, 3)),
        Fails(RuntimeError, "must provide at least one operand", "ij"),
    ],
)
def einsum(*args: Any) -> Tensor:
    """Sums of products by Einstein's convention.

    ``einsum("bik,bkj->bij", x, y)`` multiplies elements whose letters agree and sums over the
    letters that are not in the result. A letter twice in one operand takes its diagonal, ``...``
    stands for dimensions that broadcast, and without ``->`` the result has, in alphabetical order,
    the letters that occur once. Several operands are multiplied in an order that keeps the cost
    low. Numbers can replace letters: ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.

    >>> rl.einsum("i,j->ij", rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    >>> rl.einsum("...ij->...ji", rl.ones(5, 2, 3)).shape
    rushlight.Size([5, 3, 2])
    """
    equation, operands = read_arguments(args)
    shapes = tuple([need_tensor("einsum", t, "operands", 2)._array.shape for t in operands])
    values = list(operands)
    for function, slots, arguments in plan(equation, shapes):
        values.append(function(*[values[i] for i in slots], *arguments))
    return values[-1]


def read_arguments(args: Sequence[Any]) -> tuple[str, Sequence[Tensor]]:
    """(equation, operands) of both ways to call :func:`einsum`."""
    if not args:
        raise ValueError("einsum(): must specify the equation string and at least one operand")
    if isinstance(args[0], str):
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = tuple(operands[0])
        return args[0].replace(" ", ""), operands
    equation = ",".join([letters(subscripts) for subscripts in args[1 : len(args) // 2 * 2 : 2]])
    if len(args) % 2:
        equation += f"->{letters(args[-1])}"
    return equation, args[: len(args) // 2 * 2 : 2]


def letters(subscripts: Any) -> str:
    """A list of numbers and Ellipsis as the letters of an equation."""
    if not isinstance(subscripts, (list, tuple)):
        raise TypeError(f"einsum(): expected a list of subscripts, got {subscripts!r}")
    for s in subscripts:
        if s is not Ellipsis and not (isinstance(s, int) and 0 <= s < len(ALPHABET)):
            raise ValueError(
                f"einsum(): not expecting subscript {s!r}: must be Ellipsis or in [0, 52)"
            )
    return "".join(["..." if s is Ellipsis else ALPHABET[s] for s in subscripts])


def parse(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of each operand's dimensions, and of the result's."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if not ranks:
        raise RuntimeError("einsum(): must provide at least one operand")
    if len(parts) != len(ranks):
        fault = "fewer" if len(parts) > len(ranks) else "more"
        raise RuntimeError(
            f"einsum(): {fault} operands were provided than specified in the equation "
            f"'{equation}': {len(ranks)} for {len(parts)}"
        )
    terms, dots = [], 0
    for i, (part, rank) in enumerate(zip(parts, ranks, strict=True)):
        labels = read_labels(part, f"operand {i}")
        named = len(labels) - labels.count("...")
        if "..." in labels and named <= rank:
            at, extra = labels.index("..."), rank - named
            labels[at : at + 1] = range(-extra, 0)
            dots = max(dots, extra)
        elif named != rank or "..." in labels:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the "
                f"number of dimensions ({rank}) for operand {i}"
                + (" and no ellipsis was given" if "..." not in labels else "")
            )
        terms.append(tuple(labels))
    if not arrow:
        seen = [x for labels in terms for x in labels if isinstance(x, str)]
        return tuple(terms), (*range(-dots, 0), *sorted(x for x in seen if seen.count(x) == 1))
    output = read_labels(right, "the output")
    if "..." in output:
        at = output.index("...")
        output[at : at + 1] = range(-dots, 0)
    for x in output:
        if output.count(x) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {x} appears more than once in the output"
            )
        if isinstance(x, str) and not any(x in labels for labels in terms):
            raise RuntimeError(
                f"einsum(): output subscript {x} does not appear in the equation for any input "
                "operand"
            )
    return tuple(terms), tuple(output)


def read_labels(part: str, place: str) -> list[Any]:
    """The letters of one term, with at most one ``...`` among them."""
    before, dots, after = part.partition("...")
    for text in (before, after):
        if "." in text:
            raise RuntimeError(
                f"einsum(): found '.' for {place} that is not part of any ellipsis: '{part}'"
            )
        for letter in text:
            if letter not in ALPHABET:
                raise RuntimeError(
                    f"einsum(): invalid subscript '{letter}' for {place}, "
                    "subscripts must be in [a-zA-Z]"
                )
    return [*before, *([dots] if dots else []), *after]


def label_sizes(terms: Sequence[Labels], shapes: Sequence[Shape]) -> dict[Any, int]:
    """The size of each label, 1 giving way to any other; an error where two disagree."""
    sizes: dict[Any, int] = {}
    for i, (labels, shape) in enumerate(zip(terms, shapes, strict=True)):
        own: dict[Any, int] = {}
        for label, size in zip(labels, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {i} but the sizes don't "
                    f"match, {size} != {own[label]}"
                )
            if sizes.setdefault(label, size) == size:
                continue
            if sizes[label] == 1:
                sizes[label] = size
            elif size != 1:
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {i} which does not "
                    f"broadcast with previously seen size {sizes[label]}"
                )
    return sizes


class Term(NamedTuple):
    """An operand or an intermediate result: where it is, and what its dimensions are called."""

    slot: int
    labels: Labels
    shape: Shape


class Planner:
    """Writes the steps of one einsum: (function, slots of its operands, other arguments).

    The operands have the first slots; each step's result has the next one.
    """

    def __init__(self, sizes: dict[Any, int], operands: int) -> None:
        self.sizes, self.operands = sizes, operands
        self.steps: list[Step] = []

    def step(
        self, function: Any, terms: Sequence[Term], labels: Labels, shape: Shape, *arguments: Any
    ) -> Term:
        self.steps.append((function, tuple([t.slot for t in terms]), arguments))
        return Term(self.operands + len(self.steps) - 1, labels, shape)

    def simplify(self, t: Term) -> Term:
        """``t`` without repeated labels, and without dimensions that would be broadcast."""
        for label in set(t.labels):
            while t.labels.count(label) > 1:
                i = t.labels.index(label)
                j = t.labels.index(label, i + 1)
                rest = [k for k in range(len(t.labels)) if k not in (i, j)]
                labels = (*[t.labels[k] for k in rest], label)
                shape = (*[t.shape[k] for k in rest], t.shape[i])
                t = self.step(ops.diagonal, [t], labels, shape, 0, i, j)
        for i in reversed(range(len(t.labels))):
            if t.shape[i] != self.sizes[t.labels[i]]:
                labels, shape = t.labels[:i] + t.labels[i + 1 :], t.shape[:i] + t.shape[i + 1 :]
                t = self.step(ops.squeeze, [t], labels, shape, i)
        return t

    def reduce(self, t: Term, wanted: set[Any]) -> Term:
        """``t`` summed over the labels that are not ``wanted``."""
        rest = [i for i, x in enumerate(t.labels) if x not in wanted]
        if not rest:
            return t
        labels = tuple([x for x in t.labels if x in wanted])
        return self.step(ops.sum, [t], labels, self.shape(labels), rest)

    def arrange(self, t: Term, order: Labels) -> Term:
        """``t`` with its dimensions in another order."""
        if t.labels == order:
            return t
        places = tuple([t.labels.index(x) for x in order])
        return self.step(ops.permute, [t], order, self.shape(order), places)

    def reshape(self, t: Term, labels: Labels, shape: Shape) -> Term:
        if t.shape == shape:
            return Term(t.slot, labels, shape)
        return self.step(ops.reshape, [t], labels, shape, shape)

    def contract(self, first: Term, second: Term, needed: set[Any]) -> Term:
        """The product of two terms, summed over the labels that are not ``needed`` afterwards."""
        a = self.reduce(first, {*needed, *second.labels})
        b = self.reduce(second, {*needed, *a.labels})
        batch = tuple([x for x in a.labels if x in b.labels and x in needed])
        summed = tuple([x for x in a.labels if x in b.labels and x not in needed])
        left = tuple([x for x in a.labels if x not in b.labels])
        right = tuple([x for x in b.labels if x not in a.labels])
        a, b = self.arrange(a, batch + left + summed), self.arrange(b, batch + summed + right)
        lead, n, k, m = [self.shape(labels) for labels in (batch, left, summed, right)]
        if summed:
            a = self.reshape(a, (), (*lead, prod(n), prod(k)))
            b = self.reshape(b, (), (*lead, prod(k), prod(m)))
            y = self.step(matmul, [a, b], (), (*lead, prod(n), prod(m)))
        else:
            a = self.reshape(a, (), (*lead, *n, *[1] * len(m)))
            b = self.reshape(b, (), (*lead, *[1] * len(n), *m))
            y = self.step(ops.mul, [a, b], (), (*lead, *n, *m))
        return self.reshape(y, batch + left + right, (*lead, *n, *m))

    def shape(self, labels: Labels) -> Shape:
        return tuple([self.sizes[x] for x in labels])

    def cheapest_pair(self, work: Sequence[Term], output: Labels) -> tuple[int, int]:
        """The two terms to multiply next: what grows memory least and, of those, costs least."""

        def cost(pair: tuple[int, int]) -> tuple[int, int]:
            i, j = pair
            rest = {x for k, t in enumerate(work) if k not in pair for x in t.labels}
            both = tuple({*work[i].labels, *work[j].labels})
            result = tuple([x for x in both if x in rest or x in output])
            growth = prod(self.shape(result)) - prod(work[i].shape) - prod(work[j].shape)
            return usual(growth), usual(prod(self.shape(both)))

        return min(combinations(range(len(work)), 2), key=cost)


@by_sizes
def plan(equation: str, shapes: tuple[Shape, ...]) -> tuple[Step, ...]:
    """The steps of an einsum of operands of these shapes."""
    terms, output = parse(equation, tuple([len(shape) for shape in shapes]))
    planner = Planner(label_sizes(terms, shapes), len(shapes))
    work = [
        planner.simplify(Term(i, labels, shape))
        for i, (labels, shape) in enumerate(zip(terms, shapes, strict=True))
    ]
    while len(work) > 1:
        i, j = planner.cheapest_pair(work, output)
        b, a = work.pop(j), work.pop(i)
        needed = {*output, *[x for t in work for x in t.labels]}
        work.append(planner.contract(a, b, needed))
    planner.arrange(planner.reduce(work[0], set(output)), output)
    return tuple(planner.steps)
