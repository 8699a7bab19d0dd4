"""Kernels to LLVM assembly: rows, stages and folds, vectorised as they are written.

A module has one function for each kernel, ``void @NAME(ptr %buffers, i64 %begin, i64 %end)``. The
table of buffers holds the addresses of ``kernel.inputs``, of ``kernel.outputs``, and last that of
two 64-bit integers: 1 + the number of the error of ``kernel.errors`` that was met first (0 if
none), and the position it was met at.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rushlight.codegen.blocks import Carried, Number
from rushlight.codegen.elements import count_up
from rushlight.codegen.instructions import TYPES, repeated, vector, width
from rushlight.codegen.kernel import Accumulation, Kernel, Stage, values_of
from rushlight.codegen.math import EXPANSIONS
from rushlight.codegen.pull import identity
from rushlight.codegen.traverse import Free, walk
from rushlight.codegen.turned import Turned
from rushlight.codegen.values import INDEX, Loop, Value
from rushlight.dims import divisor

SHORT = 16  # turns of a nest that is written out: a window of pooling
FLUSH = 256  # turns of a loop after which its sums go to the next level, which keeps them accurate
LAST = 2**63 - 1

Turn = Callable[[list[str]], list[str]]


class Function(Turned):
    """The text of one kernel."""

    def __init__(
        self,
        kernel: Kernel,
        vector_bytes: int,
        half: bool = True,
        grain: int = 1,
        sized: bool = False,
    ) -> None:
        masks = vector_bytes >= 32 and maskable(kernel)
        super().__init__(kernel, lanes_of(kernel, vector_bytes), masks, sized)
        self.half, self.grain = half, 1 if of_any_size(kernel) else grain

    def text(self, name: str) -> str:
        rows = self.kernel.rows
        inner = self.along if self.along in rows else None
        outer = [loop for loop in rows if loop is not inner and loop is not self.kernel.across]
        if inner is not None and not outer:
            self.vector_loop(inner, "%begin", "%end", [], self.row, self.grain)
        else:
            self.each("%begin", "%end", 1, [], functools.partial(self.outer_rows, outer, inner))
        head = f"define void @{name}(ptr %buffers, i64 %begin, i64 %end) {{"
        return "\n".join([head, "entry:", *self.frames[0].lines, "ret void", "}"])

    def outer_rows(
        self, outer: Sequence[Loop], inner: Loop | None, row: str, _: list[str]
    ) -> list[str]:
        """One part of the kernel: a row, or all rows along the vectorised loop."""
        for loop in reversed(outer[1:]):
            size = self.amount(loop.size)
            self.enter(loop, self.let(f"urem i64 {row}, {size}"))
            row = self.let(f"udiv i64 {row}, {size}")
        if outer:
            self.enter(outer[0], row)
        if inner is None:
            return self.row([])
        if self.kernel.across is not None:
            return self.squares(self.kernel.across, inner)
        return self.vector_loop(inner, *self.range(inner), [], self.row, self.grain_of(inner))

    def squares(self, across: Loop, along: Loop) -> list[str]:
        """Rows along one loop, for as many indices of another at a time as there are lanes."""
        begin, end = self.range(along)
        grain, several = self.grain_of(along), across.size - across.size % self.full

        def lines(first: str, _: list[str]) -> list[str]:
            body = functools.partial(self.square, across, first)
            return self.vector_loop(along, begin, end, [], lambda _: body(self.row), grain)

        def line(index: str, _: list[str]) -> list[str]:
            self.enter(across, index)
            return self.vector_loop(along, begin, end, [], self.row, grain)

        self.each(0, several, self.full, [], lines)
        return self.each(several, across.size, 1, [], line)

    def row(self, _: list[str]) -> list[str]:
        for stage in self.kernel.stages:
            self.stage(stage)
        return []

    def range(self, loop: Loop) -> tuple[Number, Number]:
        """Where a loop begins and ends."""
        window = self.kernel.window
        if window is None or window.loop is not loop:
            return 0, self.amount(loop.size)
        begin = self.let(f"mul i64 {self.bases[window.part]}, {window.chunk}")
        end = self.let(f"add i64 {begin}, {window.chunk}")
        return begin, self.least(end, self.amount(loop.size))

    def grain_of(self, loop: Loop) -> int:
        """What divides all places where a loop may begin and end."""
        window = self.kernel.window
        windowed = window is not None and window.loop is loop
        size = divisor(loop.size)
        return math.gcd(window.chunk, size) if window and windowed else size

    def least(self, a: str, b: Number) -> str:
        return self.let(f"select i1 {self.let(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def vector_loop(
        self, loop: Loop, begin: Number, end: Number, carried: Carried, body: Turn, grain: int
    ) -> list[str]:
        """A loop that takes ``full`` elements a turn; the rest with a mask, or one by one.

        There is no rest if ``full`` divides the ``grain``, which divides ``begin`` and ``end``.
        """
        full = self.full

        def turn(lanes: int, rest: bool, index: str, values: list[str]) -> list[str]:
            outside = self.lanes, self.mask
            self.enter(loop, index)
            self.lanes = lanes
            self.mask = self.rest_mask(index, begin, end) if rest else None
            new = body(values)
            self.lanes, self.mask = outside
            return new

        if isinstance(begin, int) and isinstance(end, int):
            middle: Number = end - (end - begin) % full
        elif grain % full == 0:
            middle = end
        else:
            whole = self.let(f"and i64 {self.let(f'sub i64 {end}, {begin}')}, {-full}")
            middle = self.let(f"add i64 {begin}, {whole}")
        values = self.each(begin, middle, full, carried, functools.partial(turn, full, False))
        kinds = [kind for kind, _ in carried]
        carried = list(zip(kinds, values, strict=True))
        if middle == end:
            return values
        if self.masks:
            return self.each(middle, end, full, carried, functools.partial(turn, full, True))
        first = [self.let(f"extractelement {kind} {x}, i64 0") for kind, x in carried]
        scalars = [kind.partition(" x ")[2].rstrip(">") for kind in kinds]
        lanes = list(zip(scalars, first, strict=True))
        last = self.each(middle, end, 1, lanes, functools.partial(turn, 1, False))
        return [
            self.let(f"insertelement {kind} {x}, {lane} {y}, i64 0")
            for (kind, x), (lane, _), y in zip(carried, lanes, last, strict=True)
        ]

    def rest_mask(self, index: str, begin: Number, end: Number) -> str:
        """The lanes of the last turn that are inside of the loop."""
        lanes = self.full
        if isinstance(begin, int) and isinstance(end, int):
            rest = (end - begin) % lanes
            return f"<{', '.join([f'i1 {str(n < rest).lower()}' for n in range(lanes)])}>"
        left = self.let(f"trunc i64 {self.let(f'sub i64 {end}, {index}')} to i32")
        many = self.splat("i32", lanes, left)
        return self.let(f"icmp slt <{lanes} x i32> {count_up('i32', lanes)}, {many}")

    def fold(self, v: Value) -> str:
        outer = dict(self.bases), dict(self.depths)  # the same loops may be open around it
        self.stage(Stage(v.data.loops, (Accumulation(v, v.args),)))
        self.bases, self.depths = outer
        return self.frames[-1].known[v]

    def stage(self, stage: Stage) -> None:
        """Its loops, folds and stores; afterwards the values of its folds are known."""
        if not stage.loops:
            self.store_all(stage.stores)
            return
        depth = self.frames[-1].depth
        window = self.kernel.window
        windowed = window is not None and window.loop in stage.loops
        if not stage.stores and not windowed and not self.reads_local(stage):
            depth = max([self.depth(fold.value) for fold in stage.folds])
        with self.placed(depth):
            loops = sorted(stage.loops, key=lambda loop: loop is self.along)
            parts = (*stage.folds, *stage.scans)
            results = self.nest(stage, loops, self.starts(parts, stage))
            for part, found in zip(parts, self.shares(parts, results), strict=True):
                if self.along in stage.loops and part in stage.folds:
                    found = self.horizontal(part, self.full, found)
                self.frames[-1].known[part.value] = found[-1]

    def reads_local(self, stage: Stage) -> bool:
        """Whether a stage needs what one before it has left in memory of the row."""
        known = {fold.value for other in self.kernel.stages for fold in other.folds}
        return any([v.op == "load" and v.data.local for v in walk(stage.roots, known)])

    def nest(self, stage: Stage, loops: Sequence[Loop], carried: Carried) -> list[str]:
        """Loops in loops; each level adds up on its own, as sums of sums lose little."""
        loop, *rest = loops
        begin, end = self.range(loop)
        body = functools.partial(self.turn, stage)

        def innermost(begin: Number, end: Number, carried: Carried) -> list[str]:
            if loop is self.along:
                return self.vector_loop(loop, begin, end, carried, body, self.grain_of(loop))
            return self.each(begin, end, 1, carried, entered)

        def entered(index: str, values: list[str]) -> list[str]:
            self.enter(loop, index)
            if not rest:
                return body(values)
            if stage.scans or short:
                kinds = [kind for kind, _ in carried]
                return self.nest(stage, rest, list(zip(kinds, values, strict=True)))
            inner = self.nest(stage, rest, self.starts(stage.folds, stage))
            return self.combined(stage, values, inner)

        def block(index: str, values: list[str]) -> list[str]:
            last = self.least(self.let(f"add i64 {index}, {step}"), end)
            inner = innermost(index, last, self.starts(stage.folds, stage))
            return self.combined(stage, values, inner)

        step = FLUSH * (self.full if loop is self.along else 1)
        scalar = self.along not in stage.loops and not stage.stores
        turns = math.prod([n.size for n in stage.loops])
        short = scalar and isinstance(turns, int) and turns <= SHORT
        if short:
            return self.unrolled(loop.size, carried, entered)
        if rest:
            return self.each(begin, end, 1, carried, entered)
        few = isinstance(loop.size, int) and loop.size <= 2 * step
        if stage.scans or not stage.folds or few:
            return innermost(begin, end, carried)
        return self.each(begin, end, step, carried, block)

    def turn(self, stage: Stage, carried: list[str]) -> list[str]:
        """One turn of the innermost loop."""
        parts = (*stage.folds, *stage.scans)
        new: list[str] = []
        for part, before in zip(parts, self.shares(parts, carried), strict=True):
            lanes = self.lanes if self.along in stage.loops else self.width(part, stage)
            after = [self.get(v, lanes) for v in part.body]
            if self.mask is not None and self.along in stage.loops:
                first = zip(part.body, after, self.identities(part, lanes), strict=True)
                after = [self.select(self.mask, v.kind, lanes, x, none) for v, x, none in first]
            result = self.combine(part, lanes, before, after)
            if part in stage.scans:
                self.frames[-1].known[part.value] = result[-1]
            new.extend(result)
        self.store_all(stage.stores)
        return new

    def width(self, part: Accumulation, stage: Stage) -> int:
        """In how many lanes a fold is accumulated."""
        if self.along in stage.loops:
            return self.full
        return self.lanes if any([self.is_vector(v) for v in part.body]) else 1

    def shares(self, parts: Sequence[Accumulation], values: Sequence[str]) -> list[list[str]]:
        """The values that belong to each fold."""
        rest = iter(values)
        return [[next(rest) for _ in part.body] for part in parts]

    def identities(self, part: Accumulation, lanes: int) -> list[str]:
        """What a fold starts from: of a pair, no position."""
        how, op = part.value.data.how, part.value.op
        starts = [LAST if n else identity(how, v.kind, op) for n, v in enumerate(part.body)]
        both = zip(starts, part.body, strict=True)
        return [self.constant(start, v.kind, lanes) for start, v in both]

    def starts(self, parts: Sequence[Accumulation], stage: Stage) -> Carried:
        """The types and first values of what folds carry through their loops."""
        carried: Carried = []
        for part in parts:
            lanes = self.width(part, stage)
            kinds = [vector(TYPES[v.kind], lanes) for v in part.body]
            carried.extend(zip(kinds, self.identities(part, lanes), strict=True))
        return carried

    def combined(self, stage: Stage, before: list[str], after: list[str]) -> list[str]:
        """What folds had with what a loop inside of theirs found."""
        pairs = zip(self.shares(stage.folds, before), self.shares(stage.folds, after), strict=True)
        return [
            x
            for part, (a, b) in zip(stage.folds, pairs, strict=True)
            for x in self.combine(part, self.width(part, stage), a, b)
        ]

    def combine(self, part: Accumulation, lanes: int, old: list[str], new: list[str]) -> list[str]:
        """What a fold has so far with something more."""
        how, kind = part.value.data.how, part.body[0].kind
        if how not in ("argmax", "argmin"):
            return [self.binary(how, kind, lanes, new[0], old[0])]
        (x, i), (y, j) = old, new
        b1, place = vector("i1", lanes), part.body[1].kind
        better = self.compare("gt" if how == "argmax" else "lt", kind, lanes, y, x)
        equal = self.compare("eq", kind, lanes, y, x)
        if part.body[0].is_float:  # NaN is the most extreme value
            odd, odder = [self.compare("ne", kind, lanes, v, v) for v in (x, y)]
            usual = self.let(f"xor {b1} {odd}, {repeated('i1', 'true', lanes)}")
            better = self.either(better, self.both(odder, usual, lanes), lanes)
            equal = self.either(equal, self.both(odder, odd, lanes), lanes)
        sooner = self.both(equal, self.compare("lt", place, lanes, j, i), lanes)
        better = self.either(better, sooner, lanes)
        return [self.select(better, kind, lanes, y, x), self.select(better, place, lanes, j, i)]

    def both(self, a: str, b: str, lanes: int) -> str:
        return self.binary("and", "b1", lanes, a, b)

    def either(self, a: str, b: str, lanes: int) -> str:
        return self.binary("or", "b1", lanes, a, b)

    def horizontal(self, part: Accumulation, lanes: int, values: list[str]) -> list[str]:
        """All lanes in one, in a fixed order: halves onto halves."""
        while lanes > 1:
            half = lanes // 2
            halves: list[list[str]] = [[], []]
            for v, x in zip(part.body, values, strict=True):
                t = vector(TYPES[v.kind], lanes)
                for side in (0, 1):
                    chosen = ", ".join([f"i32 {n + side * half}" for n in range(half)])
                    line = f"shufflevector {t} {x}, {t} poison, <{half} x i32> <{chosen}>"
                    if half == 1:
                        line = f"extractelement {t} {x}, i64 {side}"
                    halves[side].append(self.let(line))
            values = self.combine(part, half, *halves)
            lanes = half
        return values


def lanes_of(kernel: Kernel, vector_bytes: int) -> int:
    """How many elements one turn of the vectorised loop takes: some registers full of them."""
    if kernel.vector is None:
        return 1
    free = Free()
    values = [v for v in values_of(kernel.stages) if kernel.vector in free(v)]
    kinds = [v.kind for v in values if v.kind != INDEX] or ["f32"]
    lanes = vector_bytes // max([width(kind) for kind in kinds])
    weight = sum([20 if v.op in EXPANSIONS else 1 for v in values])
    unroll = 4 if weight <= 30 else 2 if weight <= 120 else 1
    if of_any_size(kernel):
        return lanes * unroll
    if kernel.across is not None:
        return lanes
    size = kernel.vector.example if kernel.window is None else kernel.window.chunk
    while unroll > 1 and size % (lanes * unroll) and size < 8 * lanes * unroll:
        unroll //= 2
    while lanes > 2 and lanes // 2 >= size:
        lanes //= 2
    return lanes * unroll


def of_any_size(kernel: Kernel) -> bool:
    """Whether only the caller knows how many elements there are: one function for all sizes."""
    return kernel.rows == (kernel.vector,) and not any([stage.loops for stage in kernel.stages])


def maskable(kernel: Kernel) -> bool:
    """Whether memory is read and written with masks: not in bytes or 16-bit words."""
    loads = [v.data.kind for v in values_of(kernel.stages) if v.op == "load"]
    stores = [s.buffer.kind for stage in kernel.stages for s in stage.stores]
    return all([width(kind) >= 4 for kind in (*loads, *stores)])


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


def function(
    name: str, kernel: Kernel, vector_bytes: int, half: bool = True, grain: int = 1
) -> str:
    """The text of a kernel as the function ``name``, with what it calls before it.

    Args:
        name: what to call it.
        kernel: what it computes.
        vector_bytes: the width of the processor's registers.
        half: whether the processor converts 16-bit floats.
        grain: what divides every ``begin`` and ``end`` that it is called with.
    """
    body = Function(kernel, vector_bytes, half, grain)
    text = body.text(name)
    return "\n\n".join([*sorted(body.declared.values()), *body.functions.values(), text])


def module(functions: Iterable[str]) -> str:
    """The text of a module with these functions; what several of them call is in it once."""
    parts = {part: None for text in functions for part in text.split("\n\n")}
    if any(["@report(" in part for part in parts]):
        parts = {REPORT: None, **parts}
    return "\n\n".join([*parts, ""])


def emit(kernels: Mapping[str, Kernel], vector_bytes: int, half: bool = True) -> str:
    """The text of a module with these kernels, by their names."""
    return module([function(name, k, vector_bytes, half) for name, k in kernels.items()])
