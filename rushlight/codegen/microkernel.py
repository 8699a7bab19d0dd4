"""The micro-kernel of all contractions: a small tile of a product, kept in registers.

    C[r, j] (+)= Σₜ Σᵢ A[rows[r] + taps[t] + i · step] · B[(t, i), j]

A tile has some rows and a panel of columns. An element of A goes into all lanes of a register, a
row of B's panel fills some registers, and each pair of them is one multiply-add. Rows and taps are
tables of offsets, so that one kernel reads matrices, transposed ones, and the windows of images.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.codegen.instructions import mangled, vector
from rushlight.codegen.native import NativeText

STRIP = 4  # rows of a packed A that lie beside each other
TURNS = 4  # products of a strip that are written down one after the other: a line of memory
AHEAD = 64  # products of a sum, whose operands are asked for before they are needed


@dataclass(frozen=True, slots=True)
class Registers:
    """What a processor has for a tile.

    Args:
        bytes: of a vector register.
        count: of vector registers.
        fma: whether a multiplication and an addition are one instruction.
        half: whether an instruction converts float16.
        flush: whether products count numbers below all normal ones as zeros, as x86 can: it takes
            a hundred times as long to multiply one.
    """

    bytes: int
    count: int
    fma: bool
    half: bool = True
    flush: bool = False


class Vectors(NativeText):
    """Text with vector registers of one kind."""

    def __init__(self, kind: str, registers: Registers) -> None:
        super().__init__(kind)
        self.registers = registers
        self.lanes = registers.bytes // self.bytes
        self.vector = vector(self.scalar, self.lanes)
        self.integers = vector(f"i{8 * self.bytes}", self.lanes)

    def load(self, place: str, mask: str = "") -> str:
        """A register from memory; lanes outside the mask are zeros, and are not touched."""
        if not mask:
            return self.let(f"load {self.vector}, ptr {place}, align {self.bytes}")
        mask = self.let(f"icmp slt {self.integers} {mask}, zeroinitializer")
        arguments = [
            ("ptr", place),
            ("i32", str(self.bytes)),
            (f"<{self.lanes} x i1>", mask),
            (self.vector, "zeroinitializer"),
        ]
        name = f"llvm.masked.load.{mangled(self.scalar, self.lanes)}.p0"
        return self.call(name, self.vector, arguments)

    def fetch(self, place: str, writes: bool, near: int = 3) -> None:
        """Asks for a line of memory early, so that it is near when it is needed."""
        arguments = [("ptr", place), ("i32", str(int(writes))), ("i32", str(near)), ("i32", "1")]
        self.call("llvm.prefetch.p0", "void", arguments)

    def first_lanes(self, count: str) -> str:
        """The mask of that many lanes: integers of which those are negative."""
        t, bits = self.integers, 8 * self.bytes
        numbers = ", ".join([f"i{bits} {n}" for n in range(self.lanes)])
        most = self.least(count, str(self.lanes))
        one = most if bits == 64 else self.let(f"trunc i64 {most} to i{bits}")
        one = self.let(f"insertelement {t} poison, i{bits} {one}, i64 0")
        same = f"<{self.lanes} x i32> zeroinitializer"
        every = self.let(f"shufflevector {t} {one}, {t} poison, {same}")
        return self.let(f"sub {t} <{numbers}>, {every}")

    def halved(self, x: str, lanes: int, begin: int) -> str:
        """Half of the lanes of a register."""
        t, half = vector(self.scalar, lanes), lanes // 2
        if half == 1:
            return self.let(f"extractelement {t} {x}, i64 {begin}")
        chosen = ", ".join([f"i32 {begin + n}" for n in range(half)])
        return self.let(f"shufflevector {t} {x}, {t} poison, <{half} x i32> <{chosen}>")

    def multiply_add(self, x: str, y: str, z: str, lanes: int = 0) -> str:
        """x · y + z of registers, or of fewer lanes."""
        lanes = lanes or self.lanes
        if self.registers.fma:
            return self.intrinsic("fma", self.scalar, lanes, x, y, z)
        kind = vector(self.scalar, lanes)
        return self.let(f"fadd {kind} {z}, {self.let(f'fmul {kind} {x}, {y}')}")


class Tile(Vectors):
    """The text of the function that computes one tile.

    It can have fewer rows and columns than there is room for: missing rows repeat the last one,
    missing columns, which are lanes of the last register, are neither read nor written. Rows that
    lie in strips need one address for each strip, all of which fit into registers; what their
    missing rows give is thrown away.

    Args:
        kind: of all elements.
        registers: of the processor.
        rows: of the tile.
        vectors: registers that hold a row of it.
        direct: whether rows of B lie in a matrix, where what follows must not be read.
        strips: whether A is packed in strips.
    """

    def __init__(
        self,
        kind: str,
        registers: Registers,
        rows: int,
        vectors: int,
        direct: bool,
        strips: bool = False,
    ) -> None:
        super().__init__(kind, registers)
        self.rows, self.vectors, self.direct, self.strips = rows, vectors, direct, strips

    @property
    def name(self) -> str:
        size = f"{self.rows}x{self.vectors}x{self.lanes}"
        reads = ("direct" if self.direct else "panel") + "_strips" * self.strips
        return f"tile_{self.kind}_{size}_{reads}"

    ARGUMENTS = (
        "ptr %a", "ptr %rows", "i64 %row_count", "ptr %taps", "i64 %tap_count", "i64 %inner",
        "i64 %a_step", "ptr %b", "i64 %b_step", "i64 %ahead", "ptr %c", "ptr %c_rows",
        "i64 %columns", "i1 %fresh",
    )  # fmt: skip

    def text(self) -> str:
        numbers = self.row_numbers()
        targets = [self.element("%c", self.entry("%c_rows", r)) for r in numbers]
        if self.strips:
            targets = self.or_nowhere(targets)
            numbers = self.strip_numbers()
        bases = [self.element("%a", self.entry("%rows", r)) for r in numbers]
        self.left = self.let(f"add i64 %columns, {(1 - self.vectors) * self.lanes}")
        self.masks = [""] * (self.vectors - 1) + [self.first_lanes(self.left)]
        for target in targets:
            self.fetch(target, True)
            self.fetch(self.element(target, str(self.lanes * self.vectors - 1)), True)
        self.further = self.let(f"mul i64 %a_step, {AHEAD}")
        zeros = [(self.vector, "zeroinitializer")] * (self.rows * self.vectors)
        carried = [*zeros, ("ptr", "%b")]
        tap = self.strip_tap if self.strips else self.tap
        *sums, _ = self.each("0", "%tap_count", 1, carried, lambda t, v: tap(bases, t, v))
        self.finish(targets, self.added(targets, sums))
        head = f"define internal void @{self.name}({', '.join(self.ARGUMENTS)}) noinline {{"
        return "\n".join([head, "entry:", *self.frames[0].lines, "ret void", "}"])

    def row_numbers(self) -> list[str]:
        last = self.let("add i64 %row_count, -1")
        return ["0", *[self.least(last, str(r)) for r in range(1, self.rows)]]

    def strip_numbers(self) -> list[str]:
        """The first rows of the strips; one that is missing repeats the last."""
        last = self.let(f"and i64 {self.let('add i64 %row_count, -1')}, {-STRIP}")
        return ["0", *[self.least(last, str(r)) for r in range(STRIP, self.rows, STRIP)]]

    def or_nowhere(self, targets: list[str]) -> list[str]:
        """Where rows go: those that are missing to a place of no use."""
        spare = self.let(f"alloca [{self.vectors * self.lanes} x {self.scalar}], align 64")
        there = [self.let(f"icmp sgt i64 %row_count, {r}") for r in range(len(targets))]
        return [
            self.let(f"select i1 {is_row}, ptr {target}, ptr {spare}")
            for is_row, target in zip(there, targets, strict=True)
        ]

    def added(self, targets: list[str], sums: list[str]) -> list[str]:
        """The sums, with what C holds already unless it is fresh."""
        there, done, before = (
            self.fresh("more"),
            self.fresh("sums"),
            self.frames[-1].label,
        )
        self.write(f"br i1 %fresh, label %{done}, label %{there}")
        self.write(f"{there}:")
        new = []
        for n, x in enumerate(sums):
            r, v = divmod(n, self.vectors)
            old = self.load(self.element(targets[r], str(v * self.lanes)), self.masks[v])
            new.append(self.let(f"fadd {self.vector} {old}, {x}"))
        self.write(f"br label %{done}")
        self.write(f"{done}:")
        self.frames[-1].label = done
        return [
            self.let(f"phi {self.vector} [{x}, %{before}], [{y}, %{there}]")
            for x, y in zip(sums, new, strict=True)
        ]

    def tap(self, bases: list[str], t: str, values: list[str]) -> list[str]:
        """The products of one tap: the innermost loop."""
        offset = self.entry("%taps", t)
        rows = [self.element(base, offset) for base in bases]
        kinds = [self.vector] * (self.rows * self.vectors) + ["ptr", "i64"]
        carried = [*zip(kinds, [*values, "0"], strict=True)]
        return self.each("0", "%inner", 1, carried, lambda _, v: self.turn(rows, v))[:-1]

    def strip_tap(self, bases: list[str], t: str, values: list[str]) -> list[str]:
        """The products of one tap, several turns of the innermost loop at a time."""
        offset = self.entry("%taps", t)
        strips = [self.element(base, offset) for base in bases]
        kinds = [self.vector] * (self.rows * self.vectors) + ["ptr", "i64"]
        whole = self.let(f"and i64 %inner, {-TURNS}")

        def turns(count: int, v: list[str]) -> list[str]:
            *sums, b, at = v
            here = [self.element(strip, at) for strip in strips]
            for n in range(count):
                places = [
                    self.element(place, str(n * STRIP + r)) for place in here for r in range(STRIP)
                ]
                sums, b = self.products(places, sums, b)
            return [*sums, b, self.let(f"add i64 {at}, {count * STRIP}")]

        carried = [*zip(kinds, [*values, "0"], strict=True)]
        values = self.each("0", whole, TURNS, carried, lambda _, v: turns(TURNS, v))
        carried = [*zip(kinds, values, strict=True)]
        return self.each(whole, "%inner", 1, carried, lambda _, v: turns(1, v))[:-1]

    def turn(self, rows: list[str], values: list[str]) -> list[str]:
        *sums, b, at = values
        self.fetch(self.element(self.element(rows[-1], at), self.further), False, 2)
        sums, b = self.products([self.element(row, at) for row in rows], sums, b)
        return [*sums, b, self.let(f"add i64 {at}, %a_step")]

    def products(self, places: list[str], sums: list[str], b: str) -> tuple[list[str], str]:
        """The sums with one product more each: of the elements of A, and of a row of B."""
        for v in range(self.vectors):
            self.fetch(self.element(self.element(b, "%ahead"), str(v * self.lanes)), False)
        xs = [
            self.load(
                self.element(b, str(v * self.lanes)) if v else b,
                self.masks[v] if self.direct else "",
            )
            for v in range(self.vectors)
        ]
        sums = [*sums]
        for r, place in enumerate(places):
            scalar = self.let(f"load {self.scalar}, ptr {place}, align {self.bytes}")
            y = self.splat(self.kind, self.lanes, scalar)
            for v, x in enumerate(xs):
                n = r * self.vectors + v
                sums[n] = self.multiply_add(y, x, sums[n])
        return sums, self.element(b, "%b_step")

    def finish(self, targets: list[str], sums: list[str]) -> None:
        """Stores the tile: whole registers, then halves of the last one as far as columns go."""
        for v in range(self.vectors):
            places = [self.element(target, str(v * self.lanes)) for target in targets]
            own = sums[v :: self.vectors]
            if v < self.vectors - 1:
                self.put(places, own, self.lanes)
        self.choose(
            self.let(f"icmp sge i64 {self.left}, {self.lanes}"),
            lambda: self.put(places, own, self.lanes),
            lambda: self.some(places, own, self.left),
        )

    def put(self, places: list[str], xs: list[str], lanes: int) -> None:
        kind = vector(self.scalar, lanes)
        for place, x in zip(places, xs, strict=True):
            self.write(f"store {kind} {x}, ptr {place}, align {self.bytes}")

    def some(self, places: list[str], xs: list[str], count: str) -> None:
        """Stores the first lanes of registers: where masked stores exist at all, they are slow."""
        lanes = self.lanes
        while lanes > 1:
            half = lanes // 2
            low = [self.halved(x, lanes, 0) for x in xs]
            high = [self.halved(x, lanes, half) for x in xs]
            bit = self.let(f"and i64 {count}, {half}")
            wanted = self.let(f"icmp ne i64 {bit}, 0")
            before, there, done = (
                self.frames[-1].label,
                self.fresh("part"),
                self.fresh("done"),
            )
            self.write(f"br i1 {wanted}, label %{there}, label %{done}")
            self.write(f"{there}:")
            self.put(places, low, half)
            further = [self.element(place, str(half)) for place in places]
            self.write(f"br label %{done}")
            self.write(f"{done}:")
            self.frames[-1].label = done
            t = vector(self.scalar, half)
            xs = [
                self.let(f"phi {t} [{h}, %{there}], [{l}, %{before}]")
                for h, l in zip(high, low, strict=True)
            ]
            places = [
                self.let(f"phi ptr [{f}, %{there}], [{p}, %{before}]")
                for f, p in zip(further, places, strict=True)
            ]
            lanes = half
