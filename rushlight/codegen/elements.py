"""Scalar values as instructions: each once, in the outermost loop where it can be computed."""

from __future__ import annotations

import functools
import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.codegen.blocks import Blocks, Frame, Number
from rushlight.codegen.instructions import TYPES, bits_of, repeated, vector
from rushlight.codegen.math import EXPANSIONS
from rushlight.codegen.traverse import Free
from rushlight.codegen.values import INDEX, RELATIONS, SIGNED, Builder, Loop, Value
from rushlight.dims import Dim, Size, at_least, is_known

Terms = list[tuple[Value, int]]
UNARY = frozenset(("neg", "not", "abs", "sqrt", "floor", "ceil", "trunc", "rint"))


class Elements(Blocks):
    """Values over loops, one of which may be vectorised.

    A value that depends on the vectorised loop is a vector of ``lanes`` elements; others are
    scalars, and are spread over lanes where they meet vectors. In the last turn of that loop a
    ``mask`` may say which lanes are inside of it.
    """

    def __init__(
        self, b: Builder, along: Loop | None, errors: Sequence[Callable[[int], Exception]]
    ) -> None:
        super().__init__()
        self.b, self.along, self.errors, self.free = b, along, errors, Free()
        self.depths: dict[Loop, int] = {}
        self.bases: dict[Loop, str] = {}  # the index of each open loop; of a vector's first lane
        self.lanes = 1
        self.mask: str | None = None
        self.functions: dict[str, str] = {}  # of values that are rarely needed

    @abstractmethod
    def load(self, v: Value, lanes: int) -> str: ...

    @abstractmethod
    def fold(self, v: Value) -> str: ...

    @abstractmethod
    def error_slot(self) -> str: ...

    @abstractmethod
    def size(self, dim: Dim) -> str: ...

    def amount(self, size: Size) -> Number:
        """A size as text has it: the number, or the name of what a run knows."""
        return self.size(size) if isinstance(size, Dim) else size

    def constant(self, number: Any, kind: str, lanes: int) -> str:
        if not isinstance(number, Dim):
            return super().constant(number, kind, lanes)
        x = self.size(number)
        return x if lanes == 1 else self.splat(INDEX, lanes, x)

    def divisor(self, number: Size, kind: str, lanes: int) -> str:
        """What an index is divided by. Of parts without elements, which nobody reads, it is 1.

        They are asked for their elements nevertheless, where a lane chooses among parts.
        """
        if not isinstance(number, Dim) or at_least(number, 1):
            return self.constant(number, kind, lanes)
        found = self.find(("divisor", number))
        if found is None:
            x = self.size(number)
            with self.placed(0):
                none = self.let(f"icmp eq i64 {x}, 0")
                found = self.let(f"select i1 {none}, i64 1, i64 {x}")
                self.frames[-1].known["divisor", number] = found
        return found if lanes == 1 else self.splat(INDEX, lanes, found)

    def enter(self, loop: Loop, base: str) -> None:
        """Opens a loop in the current frame; ``base`` is its index."""
        self.depths[loop] = self.frames[-1].depth
        self.bases[loop] = base

    def depth(self, value: Value) -> int:
        """How deep the innermost loop is that a value depends on."""
        return max([self.depths[loop] for loop in self.free(value)], default=0)

    def is_vector(self, value: Value) -> bool:
        return self.lanes > 1 and self.along in self.free(value)

    def get(self, value: Value, lanes: int) -> str:
        """The value in as many lanes."""
        if value.op == "constant":
            return self.constant(value.data, value.kind, lanes)
        self.need(value)
        found = self.find(value)
        assert found is not None
        if lanes == 1 or self.is_vector(value):
            return found
        spread = self.find((value, lanes))
        if spread is None:
            with self.placed(self.home([value], self.depth(value))):
                spread = self.frames[-1].known[value, lanes] = self.splat(value.kind, lanes, found)
        return spread

    def need(self, root: Value) -> None:
        """Makes a value known, after what it is made of."""
        stack = [root]
        while stack:
            v = stack[-1]
            if v.op == "constant" or self.find(v) is not None:
                stack.pop()
                continue
            missing = [a for a in self.operands(v) if a.op != "constant" and self.find(a) is None]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            with self.placed(self.home(self.operands(v), self.depth(v))):
                found = self.compute(v)
                self.frames[-1].known[v] = found

    def home(self, operands: Sequence[Value], depth: int) -> int:
        """How deep a value must be written: a fold may be known further in than its loops are."""
        for v in operands:
            for frame in reversed(self.frames):
                if v in frame.known:
                    depth = max(depth, frame.depth)
                    break
        return depth

    def operands(self, v: Value) -> Sequence[Value]:
        """What must be known before a value: loads and folds see to their operands themselves."""
        if v.op in ("load", "fold"):
            return ()
        if v.op in EXPANSIONS:
            return (self.expansion(v),)
        return (v.args[0], v.args[2]) if v.op == "rare" else v.args

    def expansion(self, v: Value) -> Value:
        return EXPANSIONS[v.op](self.b, *v.args)

    def compute(self, v: Value) -> str:
        op, kind = v.op, v.kind
        lanes = self.lanes if self.is_vector(v) else 1
        match op:
            case "var":
                return self.variable(v.data, lanes)
            case "load":
                return self.load(v, lanes)
            case "fold":
                return self.fold(v)
            case "affine":
                return self.sum(list(zip(v.args, v.data[0], strict=True)), v.data[1], lanes)
            case "checked":
                return self.checked(v, lanes)
            case "rare":
                return self.rare(v, lanes)
            case "floor" | "mod" if kind == INDEX:
                return self.whole(v, lanes)
            case _ if op in EXPANSIONS:
                return self.get(self.expansion(v), lanes)
        inner = v.args[-1].kind
        if op in RELATIONS and inner == INDEX and lanes > 1:
            found = self.beyond(v, lanes)
            if found is not None:
                return found
        args = [self.get(a, lanes) for a in v.args]
        if op in RELATIONS:
            return self.compare(op, inner, lanes, *args)
        if op == "where":
            return self.select(args[0], kind, lanes, args[1], args[2])
        if op == "cast":
            return self.cast(inner, kind, lanes, args[0])
        if op == "bits":
            before, after = vector(TYPES[inner], lanes), vector(TYPES[kind], lanes)
            same = before == after
            return args[0] if same else self.let(f"bitcast {before} {args[0]} to {after}")
        if op == "fma":
            return self.intrinsic("fma", TYPES[kind], lanes, *args)
        if op in ("shl", "shr") and v.args[1].op == "constant":
            return self.shifted(op, kind, lanes, args, v.args[1].data)
        if op in UNARY:
            return self.unary(op, kind, lanes, args[0])
        return self.binary(op, kind, lanes, *args)

    def shifted(self, op: str, kind: str, lanes: int, args: list[str], by: int) -> str:
        """A shift by a number, which is mostly within the width."""
        if not 0 <= by < bits_of(kind):
            return self.shift(op, kind, lanes, *args)
        word = "shl" if op == "shl" else "ashr" if kind in SIGNED else "lshr"
        return self.let(f"{word} {vector(TYPES[kind], lanes)} {args[0]}, {args[1]}")

    def variable(self, loop: Loop, lanes: int) -> str:
        """The index of a loop; in the last turn no lane is beyond its end."""
        base = self.bases[loop]
        if lanes == 1:
            return base
        t = f"<{lanes} x i64>"
        first = self.splat(INDEX, lanes, base)
        index = self.let(f"add {t} {first}, {count_up('i64', lanes)}")
        if self.mask is None:
            return index
        return self.let(f"select <{lanes} x i1> {self.mask}, {t} {index}, {t} {first}")

    def sum(self, terms: Sequence[tuple[Value, int]], offset: int, lanes: int) -> str:
        """A sum of multiples of indices."""
        t = vector("i64", lanes)
        total = ""
        for atom, factor in terms:
            x = self.get(atom, lanes)
            if factor != 1:
                x = self.let(f"mul {t} {x}, {self.constant(factor, INDEX, lanes)}")
            total = self.let(f"add {t} {total}, {x}") if total else x
        if offset or not total:
            number = self.constant(offset, INDEX, lanes)
            total = self.let(f"add {t} {total}, {number}") if total else number
        return total

    def beyond(self, v: Value, lanes: int) -> str | None:
        """A relation of indices that differ by a multiple of the lane: 32 bits compare it."""
        difference = self.b.affine([(v.args[0], 1), (v.args[1], -1)])
        even, moving, offset = self.split(difference)
        bounds = self.b.bounds(difference)
        if len(moving) != 1 or moving[0][0].op != "var" or bounds is None:
            return None
        if not is_known((*bounds, moving[0][1])) or max(-bounds[0], bounds[1]) >= 2**30:
            return None
        step = moving[0][1]
        rest = self.let(f"sub i64 {self.amount(-offset)}, {self.distance([*even, *moving])}")
        limit = self.splat("i32", lanes, self.let(f"trunc i64 {rest} to i32"))
        numbers = ", ".join([f"i32 {n * step}" for n in range(lanes)])
        return self.compare(v.op, "i32", lanes, f"<{numbers}>", limit)

    def distance(self, terms: Terms) -> str:
        """A sum of multiples of scalars; of the vectorised index, in its first lane."""
        total = ""
        for atom, factor in terms:
            x = self.bases[atom.data] if atom.op == "var" else self.get(atom, 1)
            if factor != 1:
                x = self.let(f"mul i64 {x}, {self.amount(factor)}")
            total = self.let(f"add i64 {total}, {x}") if total else x
        return total

    def split(self, place: Value) -> tuple[Terms, Terms, int]:
        """The terms of a place that are the same in all lanes, those that are not, the rest."""
        terms, offset = self.b.expand([(place, 1)])
        even = [(atom, factor) for atom, factor in terms.items() if not self.is_vector(atom)]
        moving = [(atom, factor) for atom, factor in terms.items() if self.is_vector(atom)]
        return even, moving, offset

    def whole(self, v: Value, lanes: int) -> str:
        """Quotient or remainder of an index by a number; in 32 bits where that is enough."""
        x, divisor = self.get(v.args[0], lanes), v.data
        bounds = self.b.bounds(v.args[0])
        if bounds is None or not at_least(bounds[0], 0):
            t = vector("i64", lanes)
            d = self.divisor(divisor, INDEX, lanes)
            rest = self.let(f"srem {t} {x}, {d}")
            below = self.let(f"icmp slt {t} {rest}, {self.constant(0, INDEX, lanes)}")
            up = self.let(f"add {t} {rest}, {d}")
            rest = self.select(below, INDEX, lanes, up, rest)
            if v.op == "mod":
                return rest
            return self.let(f"sdiv {t} {self.let(f'sub {t} {x}, {rest}')}, {d}")
        word = "udiv" if v.op == "floor" else "urem"
        small = lanes > 1 and is_known((bounds[1], divisor)) and bounds[1] < 2**31
        kind = "i32" if small else "i64"
        x = self.cast("i64", kind, lanes, x)
        y = self.let(f"{word} {vector(kind, lanes)} {x}, {self.divisor(divisor, kind, lanes)}")
        return self.cast(kind, "i64", lanes, y)

    def checked(self, v: Value, lanes: int) -> str:
        """An index that is reported if it is out of range, and is 0 then."""
        index, size = [self.get(a, lanes) for a in v.args]
        t, b1 = vector("i64", lanes), vector("i1", lanes)
        wrong = self.let(f"icmp uge {t} {index}, {size}")
        met = wrong
        if lanes > 1 and self.mask is not None:
            met = self.let(f"and {b1} {wrong}, {self.mask}")
        slot = self.error_slot()
        number = self.errors.index(v.data) + 1

        def report() -> str:
            position = index if lanes == 1 else self.first(met, index, lanes)
            self.write(f"call void @report(ptr {slot}, i64 {number}, i64 {position})")
            return ""

        self.branch(self.any(met, lanes), "", "", report)
        return self.let(f"select {b1} {wrong}, {t} {repeated('i64', '0', lanes)}, {t} {index}")

    def any(self, condition: str, lanes: int) -> str:
        """Whether a lane fulfils the condition."""
        if lanes == 1:
            return condition
        bits = self.let(f"bitcast <{lanes} x i1> {condition} to i{lanes}")
        return self.let(f"icmp ne i{lanes} {bits}, 0")

    def first(self, condition: str, index: str, lanes: int) -> str:
        """The index in the first lane that fulfils the condition."""
        kind = f"i{lanes}"
        bits = self.let(f"bitcast <{lanes} x i1> {condition} to {kind}")
        lane = self.call(f"llvm.cttz.{kind}", kind, [(kind, bits), ("i1", "true")])
        return self.let(f"extractelement <{lanes} x i64> {index}, {kind} {lane}")

    def rare(self, v: Value, lanes: int) -> str:
        """``where`` whose second operand is only computed if a lane asks for it."""
        condition, slow, fast = v.args
        wanted, usual = self.get(condition, lanes), self.get(fast, lanes)

        def chosen() -> str:
            found = self.one_by_one(slow, lanes)
            return self.select(wanted, v.kind, lanes, found, usual)

        return self.branch(self.any(wanted, lanes), vector(TYPES[v.kind], lanes), usual, chosen)

    def one_by_one(self, v: Value, lanes: int) -> str:
        """A rare value by a function apart, which keeps loops short; in place if it loads."""
        inputs = self.frontier(v)
        if inputs is None:
            return self.get(v, lanes)
        result, kinds = TYPES[v.kind], [TYPES[k.kind] for k in inputs]

        def scalar(names: list[str]) -> str:
            self.frames[0].known = dict(zip(inputs, names, strict=True))
            return self.get(v, 1)

        def every(names: list[str]) -> str:
            given = list(zip([vector(kind, lanes) for kind in kinds], names, strict=True))

            def turn(index: str, values: list[str]) -> list[str]:
                x = [self.let(f"extractelement {kind} {x}, i64 {index}") for kind, x in given]
                y = self.let(one(x))
                return [self.let(f"insertelement {t} {values[0]}, {result} {y}, i64 {index}")]

            return self.each(0, lanes, 1, [(t, "zeroinitializer")], turn)[0]

        one = self.function(kinds, result, scalar)
        if lanes == 1:
            return self.let(one([self.get(k, 1) for k in inputs]))
        t = vector(result, lanes)
        all_lanes = self.function([vector(kind, lanes) for kind in kinds], t, every)
        return self.let(all_lanes([self.get(k, lanes) for k in inputs]))

    def frontier(self, v: Value) -> list[Value] | None:
        """The values known so far that ``v`` is made of; None if it is made of memory too."""
        known: list[Value] = []
        stack, seen = [v], {v}
        while stack:
            value = stack.pop()
            if self.find(value) is not None:
                known.append(value)
            elif value.op in ("load", "fold", "var", "checked"):
                return None
            elif value.op != "constant":
                operands = (self.expansion(value),) if value.op in EXPANSIONS else value.args
                stack.extend([a for a in operands if a not in seen])
                seen.update(operands)
        return known

    def function(
        self, kinds: list[str], result: str, body: Callable[[list[str]], str]
    ) -> Callable[[list[str]], str]:
        """A function of its own, named by its contents; how it is called."""
        outside = (self.frames, self.names, self.lanes)
        self.frames, self.names, self.lanes = [Frame(0, "entry")], 0, 1
        x = body([f"%x{n}" for n in range(len(kinds))])
        lines = self.frames[0].lines
        self.frames, self.names, self.lanes = outside
        head = ", ".join([f"{kind} %x{n}" for n, kind in enumerate(kinds)])
        text = "\n".join([f"({head}) cold noinline {{", "entry:", *lines, f"ret {result} {x}", "}"])
        name = f"slow_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        self.functions[name] = f"define private {result} @{name}{text}"

        def call(values: list[str]) -> str:
            arguments = [f"{kind} {x}" for kind, x in zip(kinds, values, strict=True)]
            return f"call {result} @{name}({', '.join(arguments)})"

        return call


@functools.cache
def count_up(kind: str, lanes: int) -> str:
    """0, 1, 2, …"""
    return f"<{', '.join([f'{kind} {n}' for n in range(lanes)])}>"
