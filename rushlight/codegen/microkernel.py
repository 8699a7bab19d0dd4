"""The micro-kernel of all contractions: a small tile of a product, kept in registers.

    C[r, j] (+)= Σₜ Σᵢ A[rows[r] + taps[t] + i · step] · B[(t, i), j]

A tile has some rows and a panel of columns. An element of A goes into all lanes of a register, a
row of B's panel fills some registers, and each pair of them is one multiply-add. Rows and taps are
tables of offsets, so that one kernel reads matrices, transposed ones, and the windows of images.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.codegen.blocks import Blocks
from rushlight.codegen.instructions import TYPES, mangled, vector, width

UNROLL = 4  # turns of the innermost loop of a full tile that are written out


@dataclass(frozen=True, slots=True)
class Registers:
    """What a processor has for a tile: bytes of a register, how many, and fused multiply-add."""

    bytes: int
    count: int
    fma: bool


@dataclass(frozen=True, slots=True)
class Flavour:
    """How a family of tiles reads its operands.

    Args:
        kind: of all elements, ``"f32"`` or ``"f64"``.
        unit: whether the elements of A along the inner index lie beside each other, and its rows
            anywhere; else those of a tile's rows do, and its inner index has any step.
        packed: whether B lies in panels, one row of a panel after the other.
    """

    kind: str
    unit: bool
    packed: bool

    @property
    def name(self) -> str:
        return (
            f"{self.kind}_{'unit' if self.unit else 'beside'}_{'packed' if self.packed else 'rows'}"
        )


class Tile(Blocks):
    """The text of the function that computes one tile.

    Args:
        flavour: how the operands are read.
        registers: of the processor.
        rows: of the tile.
        vectors: registers that hold a row of it.
        masked: whether only some lanes of the last of them are columns.
    """

    def __init__(
        self, flavour: Flavour, registers: Registers, rows: int, vectors: int, masked: bool
    ) -> None:
        super().__init__()
        self.flavour, self.registers = flavour, registers
        self.rows, self.vectors, self.masked = rows, vectors, masked
        self.lanes = registers.bytes // width(flavour.kind)
        self.scalar = TYPES[flavour.kind]
        self.vector = vector(self.scalar, self.lanes)
        self.align = width(flavour.kind)

    @property
    def name(self) -> str:
        shape = f"{self.rows}x{self.vectors}{'_masked' if self.masked else ''}"
        return f"tile_{self.flavour.name}_{shape}"

    ARGUMENTS = (
        "ptr %a, ptr %rows, ptr %taps, i64 %tap_count, i64 %inner, i64 %a_step, ptr %b, "
        "i64 %b_step, ptr %c, ptr %c_rows, i64 %lanes, i1 %fresh"
    )

    def text(self) -> str:
        if self.masked:
            self.mask = self.lane_mask()
        count = self.rows if self.flavour.unit else 1
        bases = [self.element("%a", self.entry("%rows", r)) for r in range(count)]
        targets = [self.element("%c", self.entry("%c_rows", r)) for r in range(self.rows)]
        start = self.beginning(targets)
        carried = [(self.vector, x) for x in start] + [("ptr", "%b")]
        last = self.each("0", "%tap_count", 1, carried, lambda t, v: self.tap(bases, t, v))
        for r, target in enumerate(targets):
            for v in range(self.vectors):
                self.put(target, v, last[r * self.vectors + v])
        body = self.frames[0].lines
        head = f"define internal void @{self.name}({self.ARGUMENTS}) noinline {{"
        return "\n".join([head, "entry:", *body, "ret void", "}"])

    def lane_mask(self) -> str:
        """Which lanes of the last register are columns."""
        t = f"<{self.lanes} x i64>"
        before = self.lanes * (self.vectors - 1)
        counts = ", ".join([f"i64 {before + n}" for n in range(self.lanes)])
        first = self.let(f"insertelement {t} poison, i64 %lanes, i64 0")
        every = self.let(
            f"shufflevector {t} {first}, {t} poison, <{self.lanes} x i32> zeroinitializer"
        )
        return self.let(f"icmp slt {t} <{counts}>, {every}")

    def entry(self, table: str, number: int | str) -> str:
        place = self.let(f"getelementptr i64, ptr {table}, i64 {number}")
        return self.let(f"load i64, ptr {place}, align 8")

    def element(self, base: str, offset: str) -> str:
        return self.let(f"getelementptr {self.scalar}, ptr {base}, i64 {offset}")

    def beginning(self, targets: list[str]) -> list[str]:
        """Zeros, or what C holds already."""
        label, there, done = "start", "more", "begin"
        zeros = self.let(f"insertelement {self.vector} zeroinitializer, {self.scalar} 0.0, i64 0")
        self.write(f"br label %{label}")
        self.write(f"{label}:")
        self.write(f"br i1 %fresh, label %{done}, label %{there}")
        self.write(f"{there}:")
        old = [self.get(target, v, True) for target in targets for v in range(self.vectors)]
        self.write(f"br label %{done}")
        self.write(f"{done}:")
        self.frames[-1].label = done
        return [self.let(f"phi {self.vector} [{zeros}, %{label}], [{x}, %{there}]") for x in old]

    def get(self, row: str, v: int, tail: bool) -> str:
        """A register of a row of B or C."""
        place = self.element(row, str(v * self.lanes)) if v else row
        if not (tail and self.masked and v == self.vectors - 1):
            return self.let(f"load {self.vector}, ptr {place}, align {self.align}")
        name = f"llvm.masked.load.{mangled(self.scalar, self.lanes)}.p0"
        return self.call(
            name,
            self.vector,
            [
                ("ptr", place),
                ("i32", str(self.align)),
                (f"<{self.lanes} x i1>", self.mask),
                (self.vector, "zeroinitializer"),
            ],
        )

    def put(self, row: str, v: int, x: str) -> None:
        place = self.element(row, str(v * self.lanes)) if v else row
        if not (self.masked and v == self.vectors - 1):
            self.write(f"store {self.vector} {x}, ptr {place}, align {self.align}")
            return
        self.call(
            f"llvm.masked.store.{mangled(self.scalar, self.lanes)}.p0",
            "void",
            [
                (self.vector, x),
                ("ptr", place),
                ("i32", str(self.align)),
                (f"<{self.lanes} x i1>", self.mask),
            ],
        )

    def tap(self, bases: list[str], t: str, values: list[str]) -> list[str]:
        """The products of one tap: the innermost loop, some turns at a time and then one by one."""
        offset = self.entry("%taps", t)
        rows = [self.element(base, offset) for base in bases]
        unroll = UNROLL if self.rows * self.vectors >= 12 and not self.masked else 1
        kinds = [self.vector] * (self.rows * self.vectors) + ["ptr"]
        if not self.flavour.unit:
            kinds, values = [*kinds, "ptr"], [*values, *rows]
        begin = "0"
        if unroll > 1:
            begin = self.let(f"and i64 %inner, {-unroll}")
            carried = [*zip(kinds, values, strict=True)]
            values = self.each(
                "0", begin, unroll, carried, lambda i, v: self.turns(rows, i, v, unroll)
            )
        carried = [*zip(kinds, values, strict=True)]
        values = self.each(begin, "%inner", 1, carried, lambda i, v: self.turns(rows, i, v, 1))
        return values[: len(kinds) - (not self.flavour.unit)]

    def turns(self, rows: list[str], i: str, values: list[str], count: int) -> list[str]:
        unit = self.flavour.unit
        if unit:
            *sums, b = values
        else:
            *sums, b, a = values
        for turn in range(count):
            xs = [self.get(b, v, not self.flavour.packed) for v in range(self.vectors)]
            for r in range(self.rows):
                if unit:
                    at = self.element(rows[r], i)
                    at = self.element(at, str(turn)) if turn else at
                else:
                    at = self.element(a, str(r)) if r else a
                scalar = self.let(f"load {self.scalar}, ptr {at}, align {self.align}")
                y = self.splat(self.flavour.kind, self.lanes, scalar)
                for v, x in enumerate(xs):
                    n = r * self.vectors + v
                    sums[n] = self.multiply_add(y, x, sums[n])
            step = str(self.lanes * self.vectors_of_panel) if self.flavour.packed else "%b_step"
            b = self.element(b, step)
            if not unit:
                a = self.element(a, "%a_step")
        return [*sums, b] if unit else [*sums, b, a]

    vectors_of_panel = 2

    def multiply_add(self, x: str, y: str, z: str) -> str:
        if self.registers.fma:
            return self.intrinsic("fma", self.scalar, self.lanes, x, y, z)
        product = self.let(f"fmul {self.vector} {x}, {y}")
        return self.let(f"fadd {self.vector} {z}, {product}")
