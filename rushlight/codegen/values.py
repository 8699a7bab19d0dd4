"""Scalar values: what an op computes for one element, as expressions that loops are made of.

An op says with a :class:`Builder` what its element at an index is (``Op.emit``, ``Op.at``). Equal
expressions are one object, so what two ops share is computed once. Index arithmetic is kept in a
normal form (a sum of integer multiples of atoms), which is how strides are found.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight import dtypes
from rushlight.dims import (
    Dim,
    Size,
    World,
    at_least,
    example,
    greatest,
    known,
    least,
    positive,
)
from rushlight.graph.inference import inferred
from rushlight.graph.ir import TensorType
from rushlight.graph.rewrite import view_type

INDEX = "index"  # counts and positions: 64-bit integers that never overflow
BOOL = "b1"
FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED = ("i8", "i16", "i32", "i64", INDEX)
UNSIGNED = ("u8", "u16", "u32", "u64")
KINDS = (BOOL, *SIGNED, *UNSIGNED, *FLOATS)
"""The kinds of scalars; they are called as ``dtypes.dtype.kind`` calls them."""

MATH = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc",
    "pow", "lgamma", "digamma", "rsqrt", "fmod", "hypot",
)  # fmt: skip
"""Functions with a polynomial of their own (``codegen/math.py``)."""


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """A loop variable: 0, 1, …, size − 1. A size is an int, or a symbol that a run knows."""

    name: str
    size: Any

    @property
    def example(self) -> int:
        """The size, or one that it may have."""
        return max(1, example(self.size))


@dataclass(frozen=True, slots=True)
class Fold:
    """How a ``fold`` value combines the values of its body over ``loops``.

    ``how`` is add, mul, max, min, and, or; or argmax, argmin, whose body is a pair (value,
    position) and of which the result is the position of the first extreme value (NaN is one).
    Nothing, folded, gives 0, 1, the least or the greatest value, true or false.
    """

    how: str
    loops: tuple[Loop, ...]


class Value:
    """One scalar: an operation of other scalars. Operators make further ones."""

    __slots__ = ("args", "builder", "data", "kind", "number", "op")

    def __init__(
        self, builder: Builder, op: str, kind: str, args: tuple[Value, ...], data: Any
    ) -> None:
        self.builder, self.op, self.kind, self.args, self.data = builder, op, kind, args, data
        self.number = len(builder.known)  # of two values, which was made first

    def __repr__(self) -> str:
        inner = [repr(a) for a in self.args]
        if self.data is not None:
            inner.append(getattr(self.data, "name", None) or repr(self.data))
        return f"{self.op}.{self.kind}({', '.join(inner)})"

    @property
    def is_float(self) -> bool:
        return self.kind in FLOATS

    def __add__(self, other: Any) -> Value:
        return self.builder.binary("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self.builder.binary("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self.builder.binary("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.builder.binary("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.builder.binary("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self.builder.binary("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self.builder.binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.builder.binary("div", other, self)

    def __floordiv__(self, other: int) -> Value:
        return self.builder.quotient(self, other)

    def __mod__(self, other: int) -> Value:
        return self.builder.modulus(self, other)

    def __neg__(self) -> Value:
        return self * -1 if self.kind == INDEX else self.builder.unary("neg", self)

    def __abs__(self) -> Value:
        return self.builder.unary("abs", self)

    def __lt__(self, other: Any) -> Value:
        return self.builder.binary("lt", self, other)

    def __le__(self, other: Any) -> Value:
        return self.builder.binary("le", self, other)

    def __gt__(self, other: Any) -> Value:
        return self.builder.binary("gt", self, other)

    def __ge__(self, other: Any) -> Value:
        return self.builder.binary("ge", self, other)

    def eq(self, other: Any) -> Value:
        """Whether it equals ``other``; ``==`` says whether two values are one object."""
        return self.builder.binary("eq", self, other)

    def ne(self, other: Any) -> Value:
        return self.builder.binary("ne", self, other)

    def __and__(self, other: Any) -> Value:
        return self.builder.binary("and", self, other)

    def __or__(self, other: Any) -> Value:
        return self.builder.binary("or", self, other)

    def __xor__(self, other: Any) -> Value:
        return self.builder.binary("xor", self, other)

    def __invert__(self) -> Value:
        return self.builder.unary("not", self)

    def __lshift__(self, other: Any) -> Value:
        return self.builder.binary("shl", self, other)

    def __rshift__(self, other: Any) -> Value:
        return self.builder.binary("shr", self, other)

    def cast(self, kind: str) -> Value:
        """The number in another kind: C's conversion; to bool, whether it is not zero."""
        return self.builder.cast(self, kind)

    def bits(self, kind: str) -> Value:
        """The same bits read as another kind of the same width."""
        return self.builder.make("bits", kind, (self,))


RELATIONS = frozenset(("lt", "le", "gt", "ge", "eq", "ne"))
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""The relations of which a border is all there is to know, with their operands exchanged."""


class Builder:
    """Makes values; equal ones are one object.

    Two operands have one kind; a Python number takes the kind of the value beside it.

    >>> b = Builder()
    >>> i = b.loop("i", 12)
    >>> (i * 4 + 3) // 4
    var.index(i)
    >>> (i // 3) * 3 + i % 3
    var.index(i)
    """

    def __init__(self) -> None:
        self.known: dict[Any, Value] = {}

    def make(self, op: str, kind: str, args: tuple[Value, ...] = (), data: Any = None) -> Value:
        """The value of an operation, made once."""
        key = (op, kind, args, data, type(data))
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Value(self, op, kind, args, data)
        return found

    def constant(self, number: Any, kind: str) -> Value:
        """A number of this kind."""
        if isinstance(number, Dim) and kind != INDEX:
            return self.cast(self.constant(number, INDEX), kind)
        if kind in FLOATS:
            number = float(number)
            key = number if number == number and number else repr(number)  # -0.0 is not 0.0
            found = self.known.get(("constant", kind, key))
            if found is None:
                found = Value(self, "constant", kind, (), number)
                self.known["constant", kind, key] = found
            return found
        if kind == INDEX and isinstance(number, Dim):
            return self.make("constant", kind, (), number)
        return self.make("constant", kind, (), bool(number) if kind == BOOL else int(number))

    def shape_of_view(self, op: Any, shape: Sequence[Size], attrs: Mapping[str, Any]) -> Any:
        """The shape in which a view op shows what has another one."""

        def possible(world: World) -> bool:
            """Whether the attributes name parts that are there."""
            sizes, wanted = known(tuple(shape), world), known(dict(attrs), world)
            try:
                return min(sizes, default=0) >= 0 and op.explicit(sizes, wanted) == wanted
            except IndexError:
                return False

        kinds = [TensorType(tuple(shape), dtypes.bool_)]
        return inferred(functools.partial(view_type, op), kinds, attrs, possible).shape

    def loop(self, name: str, size: Any) -> Value:
        """A fresh loop variable."""
        return self.variable(Loop(name, size))

    def variable(self, loop: Loop) -> Value:
        return self.constant(0, INDEX) if loop.size == 1 else self.make("var", INDEX, (), loop)

    def load(self, buffer: Any, kind: str, index: Sequence[Any]) -> Value:
        """The element of ``buffer`` at ``index``, one position for each of its dimensions."""
        return self.make("load", kind, tuple([self.position(j) for j in index]), buffer)

    def position(self, j: Any) -> Value:
        """An int, an index or an integer of another kind as an index."""
        if isinstance(j, Value):
            return j if j.kind == INDEX else self.make("cast", INDEX, (j,))
        return self.constant(j, INDEX)

    def coerce(self, a: Any, b: Any) -> tuple[Value, Value]:
        if not isinstance(a, Value):
            return self.constant(a, b.kind), b
        if not isinstance(b, Value):
            return a, self.constant(b, a.kind)
        if a.kind != b.kind:
            if INDEX in (a.kind, b.kind):
                return self.position(a), self.position(b)
            raise TypeError(f"operands of kinds {a.kind} and {b.kind}: cast one of them")
        return a, b

    def unary(self, op: str, x: Value) -> Value:
        """neg, not, abs; of floats sqrt, floor, ceil, trunc, rint (to even). Integers wrap."""
        return self.make(op, x.kind, (x,))

    def binary(self, op: str, a: Any, b: Any) -> Value:
        """add, sub, mul, min, max; lt, le, gt, ge, eq, ne; and, or, xor; and of some kinds more.

        Of floats div and copysign; of integers idiv and irem, the quotient towards zero (0 if the
        divisor is) and its remainder, and shl and shr, by the width or more too. ``min`` and
        ``max`` hand a NaN on; bools are added by or, multiplied by and, integers wrap.
        """
        x, y = self.coerce(a, b)
        if x.kind == INDEX:
            if op in ("add", "sub"):
                return self.affine([(x, 1), (y, 1 if op == "add" else -1)])
            if op == "mul" and "constant" in (x.op, y.op):
                atom, factor = (y, x.data) if x.op == "constant" else (x, y.data)
                return self.affine([(atom, factor)])
            if op in RELATIONS:
                known = self.compare(op, x, y)
                if known is not None:
                    return self.constant(known, BOOL)
                op, x, y = self.multiplied_out(op, x, y)
            if op in ("min", "max"):
                known = self.compare("le" if op == "min" else "ge", x, y)
                if known is not None:
                    return x if known else y
        if x.kind == BOOL and op in ("and", "or") and "constant" in (x.op, y.op):
            sure, other = (x, y) if x.op == "constant" else (y, x)
            return other if bool(sure.data) == (op == "and") else sure
        return self.make(op, BOOL if op in RELATIONS else x.kind, (x, y))

    def min(self, a: Any, b: Any) -> Value:
        return self.binary("min", a, b)

    def max(self, a: Any, b: Any) -> Value:
        return self.binary("max", a, b)

    def fma(self, a: Value, b: Any, c: Any) -> Value:
        """a·b + c, rounded once."""
        x, y = self.coerce(a, b)
        return self.make("fma", x.kind, (x, y, self.coerce(x, c)[1]))

    def where(self, condition: Value, a: Any, b: Any) -> Value:
        """``a`` if the condition holds, else ``b``; both are computed."""
        x, y = self.coerce(a, b)
        if condition.op == "constant":
            return x if condition.data else y
        return x if x is y else self.make("where", x.kind, (condition, x, y))

    def within(self, condition: Value, j: Any) -> Value:
        """An index for elements that are used where the condition holds alone; 0 elsewhere."""
        position, zero = self.position(j), self.constant(0, INDEX)
        if condition.op == "constant":
            return position if condition.data else zero
        return self.make("where", INDEX, (condition, position, zero), "within")

    def cast(self, x: Value, kind: str) -> Value:
        if x.kind == kind:
            return x
        if x.op == "constant" and kind != BOOL and not isinstance(x.data, Dim):
            least = 0 if kind in UNSIGNED else -128
            most = 2**24 if kind[-2:] in ("32", "64") or kind == INDEX else 128
            if least <= x.data < most and x.data == int(x.data):  # the same in both kinds
                return self.constant(x.data, kind)
        return self.make("cast", kind, (x,))

    def call(self, name: str, *args: Value) -> Value:
        """A function of ``MATH``, each of which is also a method: ``b.exp(x)``."""
        return self.make(name, args[0].kind, args)

    def isnan(self, x: Value) -> Value:
        return x.ne(x)

    def checked(self, j: Any, size: Any, what: Any) -> Value:
        """The index ``j`` if it is in 0 … size − 1; else the program ends with the error ``what``.

        ``what(position) -> Exception`` is called with the position that was met.
        """
        position = self.position(j)
        bounds = self.bounds(position)
        if bounds is not None and at_least(bounds[0], 0) and at_least(size - 1, bounds[1]):
            return position
        return self.make("checked", INDEX, (position, self.position(size)), what)

    def wrapped(self, j: Any, size: int, what: Any) -> Value:
        """:meth:`checked` of an index that may count from the end."""
        position = self.position(j)
        shifted = self.where(position < 0, position + size, position)
        return self.checked(shifted, size, what)

    def fold(self, how: str, sizes: Sequence[Any], body: Callable[..., Any]) -> Value:
        """``body(k₁, k₂, …)`` combined over all indices below ``sizes``; see :class:`Fold`."""
        every = [Loop(f"k{n}", size) for n, size in enumerate(sizes)]
        inner = body(*[self.variable(loop) for loop in every])
        args = inner if isinstance(inner, tuple) else (inner,)
        return self.folded(how, args, tuple([loop for loop in every if loop.size != 1]))

    def folded(self, how: str, args: tuple[Value, ...], loops: tuple[Loop, ...]) -> Value:
        """A fold over these loops; without any it is of one element."""
        result = args[-1]
        if loops:
            return self.make("fold", result.kind, args, Fold(how, loops))
        return result + 0.0 if how == "add" and result.is_float else result  # −0.0 + 0.0 is 0.0

    def scatter(self, **parts: Any) -> Scatter:
        """See :class:`Scatter`."""
        return Scatter(**parts)

    def scan(self, **parts: Any) -> Scan:
        """See :class:`Scan`."""
        return Scan(**parts)

    def sum(self, sizes: Sequence[Any], body: Callable[..., Any]) -> Value:
        return self.fold("add", sizes, body)

    def affine(self, terms: Sequence[tuple[Value, int]]) -> Value:
        """A sum of multiples of index values, in normal form."""
        total, offset = self.expand(terms)
        self.rejoin(total)
        atoms = sorted(total.items(), key=lambda item: item[0].number)
        if not atoms:
            return self.constant(offset, INDEX)
        if len(atoms) == 1 and atoms[0][1] == 1 and not offset:
            return atoms[0][0]
        factors = tuple([factor for _, factor in atoms])
        return self.make("affine", INDEX, tuple([a for a, _ in atoms]), (factors, offset))

    def expand(self, terms: Sequence[tuple[Value, int]]) -> tuple[dict[Value, int], int]:
        """The atoms of a sum with their factors, and its constant part."""
        total: dict[Value, int] = {}
        offset = 0
        for value, factor in terms:
            if value.op == "constant":
                offset += value.data * factor
                continue
            if value.op == "affine":
                factors, constant = value.data
                offset += constant * factor
                parts = zip(value.args, factors, strict=True)
            else:
                parts = zip((value,), (1,), strict=True)
            for atom, f in parts:
                total[atom] = total.get(atom, 0) + f * factor
        return {atom: f for atom, f in total.items() if f}, offset

    def rejoin(self, total: dict[Value, int]) -> None:
        """c·(v // c) + v % c is v: what reshaping there and back leaves."""
        for atom in list(total):
            if atom.op != "mod" or atom not in total:
                continue
            inner, size = atom.args[0], atom.data
            whole = self.make("floor", INDEX, (inner,), size)
            factor = total[atom]
            if total.get(whole) == factor * size:
                del total[whole], total[atom]
                extra, _ = self.expand([(inner, factor)])
                if inner.op == "affine" and inner.data[1]:
                    total[atom], total[whole] = factor, factor * size
                    continue
                for a, f in extra.items():
                    total[a] = total.get(a, 0) + f
                    if not total[a]:
                        del total[a]

    def multiplied_out(self, op: str, x: Value, y: Value) -> tuple[str, Value, Value]:
        """⌊x / n⌋ < y is x < n·y, whose loops can be cut there; the other relations likewise."""
        quotient, least = (x, y) if x.op == "floor" else (y, x)
        if quotient.op != "floor" or least.op != "constant" or not isinstance(quotient.data, int):
            return op, x, y
        if quotient is y:
            op = MIRRORED.get(op, op)
        if op not in MIRRORED:
            return op, quotient, least
        if op in ("le", "gt"):
            op, least = "lt" if op == "le" else "ge", least + 1
        return op, quotient.args[0], least * quotient.data

    def quotient(self, x: Value, divisor: int) -> Value:
        """⌊x / divisor⌋ of an index by a positive int."""
        whole, rest = self.divide(x, divisor)
        multiple = self.multiple(rest, divisor)
        if multiple is not None:
            return whole + multiple
        if rest.op == "floor":  # (v // a) // b is v // (a·b)
            return whole + self.quotient(rest.args[0], rest.data * divisor)
        return whole + self.make("floor", INDEX, (rest,), divisor)

    def modulus(self, x: Value, divisor: int) -> Value:
        """x − divisor·⌊x / divisor⌋."""
        _, rest = self.divide(x, divisor)
        multiple = self.multiple(rest, divisor)
        if multiple is not None:
            return rest - divisor * multiple
        if rest.op == "mod" and rest.data % divisor == 0:
            return self.modulus(rest.args[0], divisor)
        return self.make("mod", INDEX, (rest,), divisor)

    def multiple(self, x: Value, divisor: Size) -> Size | None:
        """The quotient of an index by a number, if it is the same for all that it can be."""
        bounds = self.bounds(x)
        if bounds is None:
            return None
        low, high = bounds
        if at_least(low, 0) and at_least(divisor - 1, high):
            return 0
        both = low // divisor, high // divisor
        return both[0] if both[0] == both[1] else None

    def divide(self, x: Value, divisor: int) -> tuple[Value, Value]:
        """(q, r) with x = divisor·q + r, q made of the terms that divide evenly."""
        terms, offset = self.expand([(x, 1)])
        even = [(a, f // divisor) for a, f in terms.items() if f % divisor == 0]
        odd = [(a, f) for a, f in terms.items() if f % divisor != 0]
        one = self.constant(1, INDEX)
        whole = self.affine([*even, (one, offset // divisor)])
        return whole, self.affine([*odd, (one, offset % divisor)])

    def bounds(self, x: Value) -> tuple[int, int] | None:
        """The least and the greatest number an index can be, if they are known."""
        match x.op:
            case "constant":
                return x.data, x.data
            case "var":
                return 0, x.data.size - 1
            case "mod":
                return 0, x.data - 1
            case "floor":
                inner = self.bounds(x.args[0])
                return inner and (inner[0] // x.data, inner[1] // x.data)
            case "checked":
                size = x.args[1]
                return (0, size.data - 1) if size.op == "constant" else None
            case "where" | "min" | "max":
                a, b = self.bounds(x.args[-2]), self.bounds(x.args[-1])
                if a is None or b is None:
                    return None
                low = greatest(a[0], b[0]) if x.op == "max" else least(a[0], b[0])
                return low, (least if x.op == "min" else greatest)(a[1], b[1])
            case "affine":
                factors, low = x.data
                high = low
                for atom, factor in zip(x.args, factors, strict=True):
                    inner = self.bounds(atom)
                    if inner is None:
                        return None
                    ends = (inner[0] * factor, inner[1] * factor)
                    if not self.goes_up(factor, x.args):
                        if not self.goes_up(-factor, x.args):
                            return None
                        ends = ends[::-1]
                    low, high = low + ends[0], high + ends[1]
                return low, high
        return None

    def goes_up(self, factor: Size, atoms: Sequence[Value]) -> bool:
        """Whether a factor is not below 0 where the loops run whose variables are among atoms."""
        sizes = [atom.data.size for atom in atoms if atom.op == "var"]
        return at_least(factor, 0) or positive(factor, sizes)

    def compare(self, op: str, x: Value, y: Value) -> bool | None:
        """A relation of two indices whose bounds decide it."""
        bounds = self.bounds(self.affine([(x, 1), (y, -1)]))
        if bounds is None:
            return None
        low, high = bounds
        above, below = at_least(low, 1), at_least(-1, high)
        zero = low == 0 and high == 0
        known = {
            "lt": (below, at_least(low, 0)),
            "le": (at_least(0, high), above),
            "gt": (above, at_least(0, high)),
            "ge": (at_least(low, 0), below),
            "eq": (zero, above or below),
            "ne": (above or below, zero),
        }[op]
        return True if known[0] else False if known[1] else None


for _name in MATH:
    setattr(Builder, _name, functools.partialmethod(Builder.call, _name))


@dataclass(frozen=True, slots=True)
class Scatter:
    """A result that starts as ``start(i)`` at each of its indices ``i`` and is then written to.

    For each index ``k`` below ``sizes``, in order, ``element(k)`` is a pair (index, value): the
    value is stored there, or combined by ``how`` (set, add, mul, max, min) with what is there.
    """

    start: Callable[[tuple[Any, ...]], Value]
    sizes: tuple[Any, ...]
    element: Callable[[tuple[Value, ...]], tuple[tuple[Any, ...], Value]]
    how: str = "set"


@dataclass(frozen=True, slots=True)
class Scan:
    """A result whose elements along ``dim`` are running combinations (add, mul) of ``element``."""

    dim: int
    element: Callable[[tuple[Value, ...]], Value]
    how: str = "add"


class Source:
    """An operand as ``Op.at`` sees it: ``x[i, j]`` is its element there.

    ``read(index)`` gives the element; a graph node that is computed in the same loops answers with
    its expression, one in memory with a load.
    """

    __slots__ = ("kind", "read", "shape")

    def __init__(
        self, shape: Sequence[Any], kind: str, read: Callable[[tuple[Any, ...]], Value]
    ) -> None:
        self.shape, self.kind, self.read = tuple(shape), kind, read

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Any) -> Value:
        index = tuple(index) if isinstance(index, (tuple, list)) else (index,)
        if len(index) != len(self.shape):
            raise IndexError(f"{len(index)} positions for an operand of {len(self.shape)} dims")
        return self.read(index)

    def broadcast(self, index: Sequence[Any]) -> Value:
        """The element that broadcasting brings to ``index`` of a result."""
        own = index[len(index) - len(self.shape) :]
        return self.read(tuple([0 if n == 1 else j for n, j in zip(self.shape, own, strict=True)]))
