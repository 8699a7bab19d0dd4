"""Kernels to LLVM assembly: loops, folds and memory; written vectorised, so that it needs no passes.

A module has one function for each kernel, ``void @NAME(ptr %buffers, i64 %begin, i64 %end)``. The
table of buffers holds the addresses of ``kernel.inputs``, of ``kernel.outputs``, and last that of
two 64-bit integers: 1 + the number of the error of ``kernel.errors`` that was met first (0 if
none), and the position it was met at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.codegen.instructions import TYPES, Instructions, memory, repeated, vector, width
from rushlight.codegen.kernel import Accumulation, Kernel, Stage, Store, values_of
from rushlight.codegen.math import EXPANSIONS
from rushlight.codegen.pull import Buffer, identity
from rushlight.codegen.traverse import Free
from rushlight.codegen.values import INDEX, RELATIONS, Loop, Value

FLUSH = 256  # turns of a loop after which its sums go to the next level, which keeps them accurate
UNARY = frozenset(("neg", "not", "abs", "sqrt", "floor", "ceil", "trunc", "rint"))
LAST = 2**63 - 1

Number = str | int  # a name of LLVM's, or a number known now


class Frame:
    """A part of the text that is still open: the values known in it, and its current block."""

    __slots__ = ("depth", "known", "label", "lines")

    def __init__(self, depth: int, label: str) -> None:
        self.depth, self.label = depth, label
        self.known: dict[Any, str] = {}
        self.lines: list[str] = []


class Function(Instructions):
    """The text of one kernel.

    Each open loop has a frame. A value is written into the frame of the innermost loop it depends
    on, before the loops inside of it: invariants move out by themselves.
    """

    def __init__(self, kernel: Kernel, vector_bytes: int) -> None:
        super().__init__()
        self.kernel, self.b, self.free = kernel, kernel.b, Free()
        self.full = lanes_of(kernel, vector_bytes)
        self.masked = vector_bytes >= 32 and maskable(kernel)
        self.frames = [Frame(0, "entry")]
        self.depths: dict[Loop, int] = {}
        self.bases: dict[Loop, str] = {}  # the scalar index of each open loop
        self.lanes = 1
        self.mask: str | None = None
        self.ends: str = ""
        self.table = {b: n for n, b in enumerate((*kernel.inputs, *kernel.outputs))}

    def text(self, name: str) -> str:
        kernel = self.kernel
        inner = kernel.vector if kernel.vector in kernel.rows else None
        outer = [loop for loop in kernel.rows if loop is not inner]
        if inner is not None and not outer:
            self.vector_loop(inner, "%begin", "%end", [], self.row)
        else:
            self.each("%begin", "%end", 1, [], functools.partial(self.outer_rows, outer, inner))
        lines = [f"define void @{name}(ptr %buffers, i64 %begin, i64 %end) {{", "entry:"]
        return "\n".join([*lines, *self.frames[0].lines, "ret void", "}"])

    def outer_rows(
        self, outer: Sequence[Loop], inner: Loop | None, row: str, _: list[str]
    ) -> list[str]:
        rest = row
        for loop in reversed(outer[1:]):
            self.enter(loop, self.let(f"urem i64 {rest}, {loop.size}"))
            rest = self.let(f"udiv i64 {rest}, {loop.size}")
        if outer:
            self.enter(outer[0], rest)
        if inner is None:
            return self.row([])
        begin, end = self.range(inner)
        self.vector_loop(inner, begin, end, [], self.row)
        return []

    def range(self, loop: Loop) -> tuple[Number, Number]:
        """Where a loop begins and ends."""
        window = self.kernel.window
        if window is None or window.loop is not loop:
            return 0, loop.size
        with self.placed(self.depths[window.part]):
            begin = self.let(f"mul i64 {self.bases[window.part]}, {window.chunk}")
            end = self.let(f"add i64 {begin}, {window.chunk}")
            inside = self.let(f"icmp slt i64 {end}, {loop.size}")
            return begin, self.let(f"select i1 {inside}, i64 {end}, i64 {loop.size}")

    def row(self, _: list[str]) -> list[str]:
        for stage in self.kernel.stages:
            self.stage(stage)
        return []

    # Frames

    def write(self, line: str) -> None:
        self.frames[-1].lines.append(line)

    @contextmanager
    def placed(self, depth: int) -> Iterator[None]:
        """Writes into the frame of the loop at ``depth``, before the loops inside of it."""
        frames = self.frames
        last = len(frames) - 1
        while frames[last].depth > depth:
            last -= 1
        self.frames = frames[: last + 1]
        yield
        self.frames = frames

    def depth(self, value: Value) -> int:
        return max([self.depths[loop] for loop in self.free(value)], default=0)

    def find(self, key: Any) -> str | None:
        for frame in reversed(self.frames):
            found = frame.known.get(key)
            if found is not None:
                return found
        return None

    def enter(self, loop: Loop, base: str) -> None:
        self.depths[loop] = self.frames[-1].depth
        self.bases[loop] = base

    def each(
        self,
        begin: Number,
        end: Number,
        step: int,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop with values (type, start) that each turn makes anew; the last ones."""
        known = isinstance(begin, int) and isinstance(end, int)
        if known and begin >= end:
            return [start for _, start in carried]
        if known and begin + step >= end:
            return self.once(begin, [start for _, start in carried], body)
        head, done = self.fresh("loop"), self.fresh("done")
        index = f"%{self.fresh('i')}"
        phis = [f"%{self.fresh('c')}" for _ in carried]
        outer = self.frames[-1]
        inner = Frame(outer.depth + 1, head)
        self.frames = [*self.frames, inner]
        new = body(index, phis)
        following = self.let(f"add nsw i64 {index}, {step}")
        again = self.let(f"icmp slt i64 {following}, {end}")
        self.write(f"br i1 {again}, label %{head}, label %{done}")
        self.frames = self.frames[:-1]
        lines = outer.lines
        if known:
            lines.append(f"br label %{head}")
        else:
            some = self.let(f"icmp slt i64 {begin}, {end}")
            lines.append(f"br i1 {some}, label %{head}, label %{done}")
        lines.append(f"{head}:")
        lines.append(f"{index} = phi i64 [{begin}, %{outer.label}], [{following}, %{inner.label}]")
        for phi, (kind, start), last in zip(phis, carried, new, strict=True):
            lines.append(f"{phi} = phi {kind} [{start}, %{outer.label}], [{last}, %{inner.label}]")
        lines.extend(inner.lines)
        lines.append(f"{done}:")
        before, outer.label = outer.label, done
        if known:
            return new
        return [
            self.let(f"phi {kind} [{start}, %{before}], [{last}, %{inner.label}]")
            for (kind, start), last in zip(carried, new, strict=True)
        ]

    def once(
        self, index: int, carried: list[str], body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:
        """A loop of one turn."""
        outer = self.frames[-1]
        label = self.fresh("once")
        inner = Frame(outer.depth + 1, label)
        self.frames = [*self.frames, inner]
        new = body(str(index), carried)
        self.frames = self.frames[:-1]
        outer.lines.extend([f"br label %{label}", f"{label}:", *inner.lines])
        outer.label = inner.label
        return new

    def vector_loop(
        self,
        loop: Loop,
        begin: Number,
        end: Number,
        carried: Sequence[tuple[str, str]],
        body: Callable[[list[str]], list[str]],
    ) -> list[str]:
        """A loop of ``full`` lanes a turn, and the rest of it with a mask or one by one."""
        full = self.full

        def turn(lanes: int, masked: bool, index: str, values: list[str]) -> list[str]:
            self.enter(loop, index)
            self.lanes = lanes
            self.mask = self.tail_mask(index, begin, end) if masked else None
            new = body(values)
            self.lanes, self.mask = 1, None
            return new

        if isinstance(begin, int) and isinstance(end, int):
            middle: Number = end - (end - begin) % full
        else:
            count = self.let(f"sub i64 {end}, {begin}")
            whole = self.let(f"and i64 {count}, {-full}")
            middle = self.let(f"add i64 {begin}, {whole}")
        self.ends = str(end)
        values = self.each(begin, middle, full, carried, functools.partial(turn, full, False))
        starts = [(kind, value) for (kind, _), value in zip(carried, values, strict=True)]
        if self.masked or full == 1:
            return self.each(middle, end, full, starts, functools.partial(turn, full, True))
        return self.single_turns(middle, end, starts, functools.partial(turn, 1, False))

    def single_turns(
        self,
        begin: Number,
        end: Number,
        starts: list[tuple[str, str]],
        turn: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """The last turns one by one: they go on with the first lane of the carried values."""
        scalars = [
            (scalar_of(kind), self.let(f"extractelement {kind} {x}, i64 0")) for kind, x in starts
        ]
        ended = self.each(begin, end, 1, scalars, turn)
        return [
            self.let(f"insertelement {kind} {x}, {scalar_of(kind)} {last}, i64 0")
            for (kind, x), last in zip(starts, ended, strict=True)
        ]

    def tail_mask(self, index: str, begin: Number, end: Number) -> str:
        """The lanes of the last turn that are inside of the loop."""
        lanes = self.full
        if isinstance(begin, int) and isinstance(end, int):
            rest = (end - begin) % lanes
            return f"<{', '.join([f'i1 {str(n < rest).lower()}' for n in range(lanes)])}>"
        left = self.let(f"trunc i64 {self.let(f'sub i64 {end}, {index}')} to i32")
        many = self.splat("i32", lanes, left)
        return self.let(f"icmp slt <{lanes} x i32> {count_up('i32', lanes)}, {many}")

    # Stages

    def stage(self, stage: Stage) -> None:
        """Its loops, folds and stores; afterwards the values of its folds are known."""
        if not stage.loops:
            self.store_all(stage.stores)
            return
        inner = self.kernel.vector
        loops = sorted(stage.loops, key=lambda loop: loop is inner)
        parts = (*stage.folds, *stage.scans)
        found = iter(self.nest(stage, loops, self.starts(parts, inner in stage.loops)))
        for part in parts:
            results = [next(found) for _ in part.body]
            fold = part.value
            lanes = self.part_lanes(part, inner in stage.loops)
            if lanes > 1 and inner in stage.loops:
                results = self.horizontal(fold, lanes, results)
            self.frames[-1].known[fold] = results[-1]

    def part_lanes(self, part: Accumulation, along: bool) -> int:
        """In how many lanes a fold is accumulated."""
        if along:
            return self.full
        return self.lanes if any([self.is_vector(v) for v in part.body]) else 1

    def starts(self, parts: Sequence[Accumulation], along: bool) -> list[tuple[str, str]]:
        """The types and first values of what the folds carry through their loops."""
        starts = []
        for part in parts:
            lanes = self.part_lanes(part, along)
            how = part.value.data.how
            for n, v in enumerate(part.body):
                start = LAST if n else identity(how, v.kind)
                starts.append((vector(TYPES[v.kind], lanes), self.constant(start, v.kind, lanes)))
        return starts

    def nest(
        self, stage: Stage, loops: Sequence[Loop], carried: list[tuple[str, str]]
    ) -> list[str]:
        """Loops in loops. Each level adds up on its own: sums of sums lose little."""
        loop, *rest = loops
        begin, end = self.range(loop)
        along = loops[-1] is self.kernel.vector
        if rest:

            def outer(index: str, values: list[str]) -> list[str]:
                self.enter(loop, index)
                if stage.scans:
                    kinds = [kind for kind, _ in carried]
                    return self.nest(stage, rest, list(zip(kinds, values, strict=True)))
                inner = self.nest(stage, rest, self.starts(stage.folds, along))
                return self.combined(stage.folds, values, inner, along)

            return self.each(begin, end, 1, carried, outer)
        if not along:

            def turn(index: str, values: list[str]) -> list[str]:
                self.enter(loop, index)
                return self.turn(stage, values)

            return self.flushed(stage, begin, end, 1, carried, turn)
        if stage.folds and (loop.size > FLUSH * self.full):
            step = FLUSH * self.full

            def block(index: str, values: list[str]) -> list[str]:
                last = self.let(f"add i64 {index}, {step}")
                more = self.let(f"icmp slt i64 {last}, {end}")
                last = self.let(f"select i1 {more}, i64 {last}, i64 {end}")
                inner = self.vector_loop(loop, index, last, self.starts(stage.folds, along), turned)
                return self.combined(stage.folds, values, inner, along)

            turned = functools.partial(self.turn, stage)
            return self.each(begin, end, step, carried, block)
        return self.vector_loop(loop, begin, end, carried, functools.partial(self.turn, stage))

    def flushed(
        self,
        stage: Stage,
        begin: Number,
        end: Number,
        step: int,
        carried: list[tuple[str, str]],
        turn: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        return self.each(begin, end, step, carried, turn)

    def turn(self, stage: Stage, carried: list[str]) -> list[str]:
        """One turn of the innermost loop: all values first, then what is stored."""
        for v in stage.roots:
            self.need(v) if v.kind != INDEX or v.op == "fold" else None
        values = iter(carried)
        new: list[str] = []
        for scan in stage.scans:
            pass
        for part in (*stage.folds, *stage.scans):
            lanes = self.turn_lanes(part, stage)
            before = [next(values) for _ in part.body]
            after = [self.get(v, lanes) for v in part.body]
            if self.mask is not None and part in stage.folds and self.kernel.vector in stage.loops:
                after = self.blended(part, lanes, after)
            result = self.combine(part, lanes, before, after)
            if part.value.op == "scan":
                self.frames[-1].known[part.value] = result[-1]
            new.extend(result)
        self.store_all(stage.stores)
        return new

    def turn_lanes(self, part: Accumulation, stage: Stage) -> int:
        if self.kernel.vector in stage.loops:
            return self.lanes
        return self.part_lanes(part, False)

    def blended(self, part: Accumulation, lanes: int, values: list[str]) -> list[str]:
        """Lanes that are not in the loop take no part."""
        how = part.value.data.how
        assert self.mask is not None
        return [
            self.select(
                self.mask,
                v.kind,
                lanes,
                x,
                self.constant(LAST if n else identity(how, v.kind), v.kind, lanes),
            )
            for n, (v, x) in enumerate(zip(part.body, values, strict=True))
        ]

    def combined(
        self, folds: Sequence[Accumulation], before: list[str], after: list[str], along: bool
    ) -> list[str]:
        new, a, b = [], iter(before), iter(after)
        for part in folds:
            lanes = self.part_lanes(part, along)
            count = len(part.body)
            first = [next(a) for _ in range(count)]
            new.extend(self.combine(part, lanes, first, [next(b) for _ in range(count)]))
        return new

    def combine(
        self, part: Accumulation, lanes: int, before: Sequence[str], after: Sequence[str]
    ) -> list[str]:
        """What a fold has so far with something more."""
        how, kind = part.value.data.how, part.body[0].kind
        if how not in ("argmax", "argmin"):
            if how in ("max", "min"):
                return [self.extreme(how, kind, lanes, after[0], before[0])]
            return [self.binary(how, kind, lanes, before[0], after[0])]
        (x, p), (y, q) = before, after
        place, b1 = part.body[1].kind, vector("i1", lanes)
        better = self.compare("gt" if how == "argmax" else "lt", kind, lanes, y, x)
        same = self.compare("eq", kind, lanes, y, x)
        if part.body[0].is_float:
            t = vector(TYPES[kind], lanes)
            x_nan, y_nan = [self.compare("ne", kind, lanes, v, v) for v in (x, y)]
            ordered = self.let(f"xor {b1} {x_nan}, {repeated('i1', 'true', lanes)}")
            better = self.let(f"or {b1} {better}, {self.let(f'and {b1} {y_nan}, {ordered}')}")
            same = self.let(f"or {b1} {same}, {self.let(f'and {b1} {x_nan}, {y_nan}')}")
            del t
        sooner = self.compare("lt", place, lanes, q, p)
        better = self.let(f"or {b1} {better}, {self.let(f'and {b1} {same}, {sooner}')}")
        return [self.select(better, kind, lanes, y, x), self.select(better, place, lanes, q, p)]

    def horizontal(self, fold: Value, lanes: int, values: list[str]) -> list[str]:
        """All lanes in one, in a fixed order: halves onto halves."""
        part = Accumulation(fold, fold.args)
        while lanes > 1:
            half = lanes // 2
            halves: list[list[str]] = [[], []]
            for v, x in zip(fold.args, values, strict=True):
                t = vector(TYPES[v.kind], lanes)
                for side in (0, 1):
                    if half == 1:
                        line = f"extractelement {t} {x}, i64 {side}"
                    else:
                        chosen = ", ".join([f"i32 {n + side * half}" for n in range(half)])
                        line = f"shufflevector {t} {x}, {t} poison, <{half} x i32> <{chosen}>"
                    halves[side].append(self.let(line))
            values = self.combine(part, half, halves[0], halves[1])
            lanes = half
        return values

    # Values

    def is_vector(self, value: Value) -> bool:
        return self.lanes > 1 and self.kernel.vector in self.free(value)

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
            with self.placed(self.depth(value)):
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
            with self.placed(self.depth(v)):
                found = self.compute(v)
                self.frames[-1].known[v] = found

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
                self.stage(Stage(v.data.loops, (Accumulation(v, v.args),)))
                return self.frames[-1].known[v]
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
        args = [self.get(a, lanes) for a in v.args]
        inner = v.args[-1].kind
        if op in RELATIONS:
            return self.compare(op, inner, lanes, *args)
        if op == "where":
            return self.select(args[0], kind, lanes, args[1], args[2])
        if op == "cast":
            return self.cast(inner, kind, lanes, args[0])
        if op == "bits":
            before, after = vector(TYPES[inner], lanes), vector(TYPES[kind], lanes)
            return (
                args[0] if before == after else self.let(f"bitcast {before} {args[0]} to {after}")
            )
        if op == "fma":
            return self.intrinsic("fma", TYPES[kind], lanes, *args)
        if op in UNARY:
            return self.unary(op, kind, lanes, args[0])
        return self.binary(op, kind, lanes, *args)

    def variable(self, loop: Loop, lanes: int) -> str:
        """The index of a loop; in the last turn no lane is beyond its end."""
        base = self.bases[loop]
        if lanes == 1:
            return base
        t = f"<{lanes} x i64>"
        index = self.let(f"add {t} {self.splat(INDEX, lanes, base)}, {count_up('i64', lanes)}")
        if self.mask is None:
            return index
        first = self.splat(INDEX, lanes, base)
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

    def whole(self, v: Value, lanes: int) -> str:
        """Quotient or remainder of an index by a number; in 32 bits where that is enough."""
        x, divisor = self.get(v.args[0], lanes), v.data
        bounds = self.b.bounds(v.args[0])
        if bounds is None or bounds[0] < 0:
            t = vector("i64", lanes)
            d = self.constant(divisor, INDEX, lanes)
            rest = self.let(f"srem {t} {x}, {d}")
            below = self.let(f"icmp slt {t} {rest}, {self.constant(0, INDEX, lanes)}")
            up = self.let(f"add {t} {rest}, {d}")
            rest = self.select(below, INDEX, lanes, up, rest)
            if v.op == "mod":
                return rest
            return self.let(f"sdiv {t} {self.let(f'sub {t} {x}, {rest}')}, {d}")
        word = "udiv" if v.op == "floor" else "urem"
        small = lanes > 1 and bounds[1] < 2**31
        kind = "i32" if small else "i64"
        x = self.cast("i64", kind, lanes, x)
        y = self.let(f"{word} {vector(kind, lanes)} {x}, {self.constant(divisor, kind, lanes)}")
        return self.cast(kind, "i64", lanes, y)

    def checked(self, v: Value, lanes: int) -> str:
        """An index that is reported if it is out of range, and is 0 then."""
        index, size = [self.get(a, lanes) for a in v.args]
        t, b1 = vector("i64", lanes), vector("i1", lanes)
        wrong = self.let(f"icmp uge {t} {index}, {size}")
        self.report(wrong, index, lanes, self.kernel.errors.index(v.data))
        return self.let(f"select {b1} {wrong}, {t} {repeated('i64', '0', lanes)}, {t} {index}")

    def report(self, wrong: str, position: str, lanes: int, number: int) -> None:
        """Writes an error down if a lane is wrong; the first one stays."""
        if lanes > 1:
            if self.mask is not None:
                wrong = self.let(f"and <{lanes} x i1> {wrong}, {self.mask}")
            some = self.any(wrong, lanes)
        else:
            some = wrong
        bad, good = self.fresh("bad"), self.fresh("good")
        slot = self.pointer(len(self.table))
        self.write(f"br i1 {some}, label %{bad}, label %{good}")
        self.write(f"{bad}:")
        if lanes > 1:
            bits = self.let(f"bitcast <{lanes} x i1> {wrong} to i{lanes}")
            lane = self.call(
                f"llvm.cttz.i{lanes}", f"i{lanes}", [(f"i{lanes}", bits), ("i1", "true")]
            )
            position = self.let(f"extractelement <{lanes} x i64> {position}, i{lanes} {lane}")
        self.write(f"call void @report(ptr {slot}, i64 {number + 1}, i64 {position})")
        self.write(f"br label %{good}")
        self.write(f"{good}:")
        self.frames[-1].label = good

    def any(self, wrong: str, lanes: int) -> str:
        bits = self.let(f"bitcast <{lanes} x i1> {wrong} to i{lanes}")
        return self.let(f"icmp ne i{lanes} {bits}, 0")

    def rare(self, v: Value, lanes: int) -> str:
        """``where`` whose second operand is only computed if a lane asks for it."""
        condition, slow, fast = v.args
        wanted, usual = self.get(condition, lanes), self.get(fast, lanes)
        some = self.any(wanted, lanes) if lanes > 1 else wanted
        outer = self.frames[-1]
        there, done = self.fresh("rare"), self.fresh("done")
        region = Frame(outer.depth, there)
        self.frames = [*self.frames, region]
        chosen = self.select(wanted, v.kind, lanes, self.get(slow, lanes), usual)
        self.frames = self.frames[:-1]
        before = outer.label
        self.write(f"br i1 {some}, label %{there}, label %{done}")
        outer.lines.extend([f"{there}:", *region.lines, f"br label %{done}", f"{done}:"])
        outer.label = done
        t = vector(TYPES[v.kind], lanes)
        return self.let(f"phi {t} [{usual}, %{before}], [{chosen}, %{region.label}]")

    # Memory

    def pointer(self, number: int) -> str:
        """An address of the table."""
        found = self.find(number)
        if found is None:
            with self.placed(0):
                place = self.let(f"getelementptr ptr, ptr %buffers, i64 {number}")
                found = self.frames[-1].known[number] = self.let(f"load ptr, ptr {place}")
        return found

    def local(self, buffer: Buffer) -> str:
        """Memory of a row, on the stack."""
        found = self.find(buffer)
        if found is None:
            along = self.kernel.vector in self.kernel.rows
            count = buffer.size * (self.full if along else 1)
            with self.placed(0):
                line = f"alloca {memory(buffer.kind)}, i64 {count}, align 64"
                found = self.frames[-1].known[buffer] = self.let(line)
        return found

    def terms(self, place: Value) -> tuple[list[tuple[Value, int]], int]:
        terms, offset = self.b.expand([(place, 1)])
        return list(terms.items()), offset

    def address(
        self, buffer: Buffer, terms: list[tuple[Value, int]], offset: int, kind: str
    ) -> str:
        """The address of an element: each loop adds its part once."""
        if buffer.local:
            address = self.local(buffer)
        else:
            address = self.pointer(self.table[buffer])
        by_depth: dict[int, list[tuple[Value, int]]] = {}
        for atom, factor in terms:
            by_depth.setdefault(self.depth(atom), []).append((atom, factor))
        parts = [by_depth[d] for d in sorted(by_depth)]
        met: tuple[Any, ...] = (buffer, kind)
        for part in parts:
            met = (*met, tuple(part))
            found = self.find(met)
            if found is None:
                for atom, _ in part:
                    if atom.op != "var":
                        self.need(atom)
                with self.placed(max([self.depth(atom) for atom, _ in part])):
                    step = self.scalar_sum(part)
                    found = self.let(f"getelementptr {kind}, ptr {address}, i64 {step}")
                    self.frames[-1].known[met] = found
            address = found
        return self.let(f"getelementptr {kind}, ptr {address}, i64 {offset}") if offset else address

    def scalar_sum(self, terms: Sequence[tuple[Value, int]]) -> str:
        total = ""
        for atom, factor in terms:
            x = self.bases[atom.data] if atom.op == "var" else self.get(atom, 1)
            if factor != 1:
                x = self.let(f"mul i64 {x}, {factor}")
            total = self.let(f"add i64 {total}, {x}") if total else x
        return total

    def split(self, place: Value) -> tuple[list[tuple[Value, int]], list[tuple[Value, int]], int]:
        """The terms of a place that are the same in all lanes, those that are not, the rest."""
        terms, offset = self.terms(place)
        even = [(a, f) for a, f in terms if not self.is_vector(a)]
        return even, [(a, f) for a, f in terms if self.is_vector(a)], offset

    def contiguous(self, moving: Sequence[tuple[Value, int]]) -> bool:
        return len(moving) == 1 and moving[0][0].op == "var" and moving[0][1] == 1

    def load(self, v: Value, lanes: int) -> str:
        buffer: Buffer = v.data
        kind = memory(buffer.kind)
        even, moving, offset = self.split(v.args[0])
        t = vector(kind, lanes)
        if buffer.local and not moving:
            address = self.address(buffer, even, offset, t)
            found = self.let(f"load {t}, ptr {address}, align {width(buffer.kind)}")
        elif lanes == 1 or self.contiguous(moving):
            address = self.address(buffer, [*even, *moving], offset, kind)
            found = self.load_lanes(address, buffer.kind, lanes)
        elif len(moving) == 1 and moving[0][0].op == "var" and self.mask is None:
            address = self.address(buffer, [*even, *moving], offset, kind)
            found = self.load_apart(address, buffer.kind, lanes, moving[0][1])
        else:
            places = self.places(buffer, even, moving, offset, lanes)
            mask = self.mask or repeated("i1", "true", lanes)
            name = f"llvm.masked.gather.v{lanes}{mangle(kind)}.v{lanes}p0"
            arguments = [
                (f"<{lanes} x ptr>", places),
                ("i32", str(width(buffer.kind))),
                (f"<{lanes} x i1>", mask),
                (t, "zeroinitializer"),
            ]
            found = self.call(name, t, arguments)
        if buffer.kind == "b1":
            return self.let(f"icmp ne {t} {found}, {repeated('i8', '0', lanes)}")
        return found

    def load_lanes(self, address: str, kind: str, lanes: int) -> str:
        t, align = vector(memory(kind), lanes), width(kind)
        if lanes == 1 or self.mask is None:
            return self.let(f"load {t}, ptr {address}, align {align}")
        name = f"llvm.masked.load.v{lanes}{mangle(memory(kind))}.p0"
        mask = (f"<{lanes} x i1>", self.mask)
        arguments = [("ptr", address), ("i32", str(align)), mask, (t, "zeroinitializer")]
        return self.call(name, t, arguments)

    def load_apart(self, address: str, kind: str, lanes: int, step: int) -> str:
        """Lanes that are a number of elements apart."""
        scalar = memory(kind)
        t, total = vector(scalar, lanes), "poison"
        for lane in range(lanes):
            place = self.let(f"getelementptr {scalar}, ptr {address}, i64 {lane * step}")
            x = self.let(f"load {scalar}, ptr {place}, align {width(kind)}")
            total = self.let(f"insertelement {t} {total}, {scalar} {x}, i64 {lane}")
        return total

    def places(
        self,
        buffer: Buffer,
        even: list[tuple[Value, int]],
        moving: list[tuple[Value, int]],
        offset: int,
        lanes: int,
    ) -> str:
        """An address for each lane."""
        kind = memory(buffer.kind)
        address = self.address(buffer, even, offset, kind)
        index = self.sum(moving, 0, lanes)
        return self.let(f"getelementptr {kind}, ptr {address}, <{lanes} x i64> {index}")

    def store_all(self, stores: Sequence[Store]) -> None:
        """Stores, after all values are known: an output may have the memory of an input."""
        for store in stores:
            self.need(store.value)
            even, moving, _ = self.split(store.index)
            for atom, _ in even if self.contiguous(moving) else (*even, *moving):
                self.need(atom)
        for store in stores:
            self.store(store)

    def store(self, store: Store) -> None:
        buffer, kind = store.buffer, store.buffer.kind
        even, moving, offset = self.split(store.index)
        spread = bool(moving) or (buffer.local and self.is_vector(store.value))
        lanes = self.lanes if spread else 1
        x = self.get(store.value, lanes)
        t = vector(memory(kind), lanes)
        if kind == "b1":
            x = self.let(f"zext {vector('i1', lanes)} {x} to {t}")
        align = width(kind)
        if lanes == 1 or self.contiguous(moving) or buffer.local:
            unit = memory(kind) if moving or lanes == 1 else t
            address = self.address(buffer, [*even, *moving], offset, unit)
            if self.mask is None or lanes == 1 or buffer.local:
                self.write(f"store {t} {x}, ptr {address}, align {align}")
                return
            name = f"llvm.masked.store.v{lanes}{mangle(memory(kind))}.p0"
            mask = (f"<{lanes} x i1>", self.mask)
            self.call(name, "void", [(t, x), ("ptr", address), ("i32", str(align)), mask])
            return
        places = self.places(buffer, even, moving, offset, lanes)
        mask = (f"<{lanes} x i1>", self.mask or repeated("i1", "true", lanes))
        name = f"llvm.masked.scatter.v{lanes}{mangle(memory(kind))}.v{lanes}p0"
        self.call(name, "void", [(t, x), (f"<{lanes} x ptr>", places), ("i32", str(align)), mask])


def mangle(scalar: str) -> str:
    return {"float": "f32", "double": "f64"}.get(scalar, scalar)


def scalar_of(kind: str) -> str:
    """The type of one lane."""
    return kind.partition(" x ")[2].rstrip(">") or kind


@functools.cache
def count_up(kind: str, lanes: int) -> str:
    """0, 1, 2, …"""
    return f"<{', '.join([f'{kind} {n}' for n in range(lanes)])}>"


REPORT = """define private void @report(ptr %slot, i64 %number, i64 %position) cold noinline {
%pair = cmpxchg ptr %slot, i64 0, i64 %number monotonic monotonic
%first = extractvalue {i64, i1} %pair, 1
br i1 %first, label %write, label %done
write:
%place = getelementptr i64, ptr %slot, i64 1
store i64 %position, ptr %place
br label %done
done:
ret void
}"""


def lanes_of(kernel: Kernel, vector_bytes: int) -> int:
    """How many elements one turn of the vectorised loop takes."""
    if kernel.vector is None:
        return 1
    free = Free()
    values = [v for v in values_of(kernel.stages) if kernel.vector in free(v)]
    kinds = [v.kind for v in values if v.kind != INDEX] or ["f32"]
    widest = max([width(kind) for kind in kinds])
    lanes = max(2, vector_bytes // widest)
    weight = sum([20 if v.op in EXPANSIONS else 1 for v in values])
    unroll = 4 if weight <= 12 else 2 if weight <= 60 else 1
    size = kernel.vector.size
    lone = kernel.rows == (kernel.vector,) and not any([s.loops for s in kernel.stages])
    while unroll > 1 and not lone and (size % (lanes * unroll)) and size < 8 * lanes * unroll:
        unroll //= 2
    if not lone:
        while lanes > 2 and lanes // 2 >= size:
            lanes //= 2
    return lanes * unroll


def maskable(kernel: Kernel) -> bool:
    """Whether memory is read and written with masks: not in bytes or 16-bit words."""
    loads = [v.data.kind for v in values_of(kernel.stages) if v.op == "load"]
    stores = [s.buffer.kind for stage in kernel.stages for s in stage.stores]
    return all([width(kind) >= 4 for kind in (*loads, *stores)])


def function(name: str, kernel: Kernel, vector_bytes: int) -> str:
    """The text of a kernel as the function ``name``, with declarations of what it calls."""
    body = Function(kernel, vector_bytes)
    text = body.text(name)
    return "\n".join([*sorted(body.declared.values()), text])


def module(functions: Iterable[str], vector_bytes: int = 0) -> str:
    """The text of a module with these functions, each declaration made once."""
    lines = [line for text in functions for line in text.splitlines()]
    declared = {line: None for line in lines if line.startswith("declare ")}
    report = [REPORT] if any(["@report(" in line for line in lines]) else []
    rest = [line for line in lines if not line.startswith("declare ")]
    return "\n".join([*declared, *report, *rest, ""])


def emit(kernels: Mapping[str, Kernel], vector_bytes: int) -> str:
    """The text of a module with these kernels, by their names."""
    return module([function(name, k, vector_bytes) for name, k in kernels.items()])
