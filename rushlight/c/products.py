"""Products of tensors as C: sums over letters, in blocks of rows and columns.

A block of columns of the second operand is copied to a *panel*, where its elements lie beside each
other; then a *tile* of a few rows by that many columns is summed in registers. Where there are too
few rows for that to pay, columns are summed where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rushlight.c.file import File
from rushlight.c.scalars import COMPUTED, loaded, stored
from rushlight.c.snippets import STORED
from rushlight.codegen.products import Place
from rushlight.codegen.pull import strides
from rushlight.codegen.values import FLOATS
from rushlight.graph.ir import Node

ROWS, COLUMNS = 4, 16  # of a tile
Lines = Iterator[str]


class Operand(NamedTuple):
    """A tensor: how far apart neighbours are along each letter, and where it begins."""

    name: str
    steps: Mapping[str, int]
    offset: int

    def place(self, letters: Sequence[str]) -> str:
        """Where the element is whose position along each letter the letter itself counts."""
        moving = [x for x in letters if self.steps.get(x)]
        terms = [x if self.steps[x] == 1 else f"{self.steps[x]} * {x}" for x in moving]
        text = " + ".join([*terms, *[str(self.offset)] * (self.offset != 0)]) or "0"
        return text.replace("+ -", "- ")


class Product:
    """One product: its letters, and the text of its functions."""

    def __init__(self, node: Node, places: Sequence[Place], file: File) -> None:
        self.file, self.kind = file, node.type.kind
        letters = node.op.subscripts(node.attrs, *[p.shape for p in places])
        of_a, of_b, of_c = [[f"{x}0" for x in own] for own in letters]  # names of variables
        first, second = places
        names = "ab"
        if of_c and of_c[-1] not in of_b:
            of_a, of_b, first, second, names = of_b, of_a, second, first, "ba"
        self.sizes: dict[str, int] = {}
        for own, shape in ((of_a, first.shape), (of_b, second.shape), (of_c, node.type.shape)):
            for x, n in zip(own, shape, strict=True):
                self.sizes[x] = max(n, self.sizes.get(x, 0)) if self.sizes.get(x) != 0 else 0
        whole = Place(node.type.shape, strides(node.type.shape))
        self.a, self.b = operand(names[0], of_a, first), operand(names[1], of_b, second)
        self.y = operand("y", of_c, whole)
        self.batch = [x for x in of_c if (x in of_a) == (x in of_b)]
        self.rows = [x for x in of_c if x in of_a and x not in of_b]
        self.columns = [x for x in of_c if x in of_b and x not in of_a]
        self.inner = [x for x in of_a if x in of_b and x not in of_c]
        self.depth = math.prod([self.sizes[x] for x in self.inner])
        count = math.prod([self.sizes[x] for x in self.rows])
        self.row = max(self.rows, key=self.sizes.__getitem__, default="")
        self.column = self.columns[-1] if self.columns else ""
        width = self.sizes.get(self.column, 1)
        self.tiled = self.kind in FLOATS and bool(self.row) and width >= COLUMNS // 2
        self.tiled = self.tiled and self.sizes[self.row] >= ROWS and count >= ROWS

    @property
    def panel(self) -> int:
        """Elements of the panel."""
        return self.depth * COLUMNS if self.tiled else 0

    @property
    def sum(self) -> str:
        """The type in which sums are made."""
        return COMPUTED[self.kind]

    def text(self) -> str:
        """The function that is called, after those that it calls."""
        kind = STORED[self.kind]
        params = [f"const {kind} *a", f"const {kind} *b", f"{kind} *y"]
        body = self.tiles() if self.tiled else self.plain()
        if self.tiled:
            params.append(f"{self.sum} *panel")
        head = f"static void NAME({', '.join(params)}) {{"
        return "\n".join([head, *indented(body), "}"])

    def loops(self, letters: Sequence[str], body: Lines) -> Lines:
        """A body in loops over some letters."""
        if not letters:
            yield from body
            return
        x, *others = letters
        yield f"for (int64_t {x} = 0; {x} < {self.sizes[x]}; {x}++) {{"
        yield from indented(self.loops(others, body))
        yield "}"

    def plain(self) -> Lines:
        """Each element of the result as one sum."""
        yield from self.loops([*self.batch, *self.rows, *self.columns], self.element())

    def element(self) -> Lines:
        letters = [*self.batch, *self.rows, *self.columns]
        every = [*letters, *self.inner]
        last = self.inner[-1] if self.inner else ""
        x = self.load(self.a, self.a.place(every))
        w = self.load(self.b, self.b.place(every))
        beside = last and self.a.steps.get(last) == self.b.steps.get(last) == 1
        if beside and self.kind in FLOATS and self.sizes[last] >= 2 * COLUMNS:
            yield from self.lanes(last, x, w)
        else:
            yield f"{self.sum} sum = 0;"
            yield from self.loops(self.inner, iter([f"sum = {self.multiplied('sum', x, w)};"]))
        result = stored("sum", self.kind, self.file.snippets)
        yield f"y[{self.y.place(letters)}] = {result};"

    def lanes(self, last: str, x: str, w: str) -> Lines:
        """A sum along memory: several of them side by side, added up in the end."""
        size = self.sizes[last]
        whole = size - size % COLUMNS
        turn = f"sums[l] = {self.multiplied('sums[l]', x, w)};"
        inner = [
            f"for (int64_t n = 0; n < {whole}; n += {COLUMNS})",
            f"    for (int l = 0; l < {COLUMNS}; l++) {{",
            f"        const int64_t {last} = n + l;",
            f"        {turn}",
            "    }",
        ]
        if size > whole:
            inner += [
                f"for (int l = 0; l < {size - whole}; l++) {{",
                f"    const int64_t {last} = {whole} + l;",
                f"    {turn}",
                "}",
            ]
        yield f"{self.sum} sums[{COLUMNS}] = {{0}}, sum;"
        yield from self.loops(self.inner[:-1], iter(inner))
        yield f"for (int n = {COLUMNS // 2}; n; n /= 2)"
        yield "    for (int l = 0; l < n; l++) sums[l] += sums[l + n];"
        yield "sum = sums[0];"

    def tiles(self) -> Lines:
        """Blocks of columns, and for each of them tiles of rows."""
        yield from self.loops([*self.batch, *self.columns[:-1]], self.blocks())

    def blocks(self) -> Lines:
        snippets, n, size = self.file.snippets, self.column, self.sizes[self.column]
        rest = size % COLUMNS
        snippets.need("min_i64")
        yield f"for (int64_t block = 0; block < {size}; block += {COLUMNS}) {{"
        width = str(COLUMNS)
        if rest:
            yield f"    const int64_t width = min_i64({COLUMNS}, {size} - block);"
            width = "width"
        yield f"    {self.sum} *p = panel;"
        outside = [*self.batch, *self.columns[:-1]]
        place = self.b.place([*outside, *self.inner, n])
        column = [
            f"for (int64_t l = 0; l < {width}; l++) {{",
            *[f"    const int64_t {n} = block + l;"] * bool(self.b.steps[n]),
            f"    p[l] = {self.load(self.b, place)};",
            "}",
        ]
        if rest:
            column.append(f"for (int64_t l = width; l < {COLUMNS}; l++) p[l] = 0;")
        column.append(f"p += {COLUMNS};")
        yield from indented(self.loops(self.inner, iter(column)))
        others = [x for x in self.rows if x != self.row]
        yield from indented(self.loops(others, self.tile_rows(outside, others, width)))
        yield "}"

    def tile_rows(self, outside: list[str], others: list[str], width: str) -> Lines:
        """The rows of one block of columns, some at a time."""
        tile, row, size = self.file.function(self.tile(), "tile"), self.row, self.sizes[self.row]
        a = f"{self.a.name} + {self.a.place([*outside, *others, row])}"
        fixed = self.y.place([*outside, *others, row])
        step = self.y.steps[self.column]
        y = f"y + {fixed} + {'' if step == 1 else f'{step} * '}block"
        whole = size - size % ROWS
        yield f"for (int64_t {row} = 0; {row} < {whole}; {row} += {ROWS})"
        yield f"    {tile}({a}, panel, {y}, {ROWS}, {width});"
        if size > whole:
            yield f"for (int64_t {row} = {whole}; {row} < {size}; {row}++)"
            yield f"    {tile}({a}, panel, {y}, 1, {width});"

    def tile(self) -> str:
        """The function of a tile."""
        kind, down = STORED[self.kind], self.a.steps[self.row]
        inner = Operand("a", {x: self.a.steps[x] for x in self.inner}, 0)
        place = inner.place(self.inner)
        x = self.load(inner, f"{down} * r + {place}" if place != "0" else f"{down} * r")
        yield_to = f"y[{self.y.steps[self.row]} * r + {self.y.steps[self.column]} * l]"
        body = [
            "for (int r = 0; r < rows; r++) {",
            f"    const {self.sum} x = {x};",
            f"    for (int l = 0; l < {COLUMNS}; l++)",
            f"        sum[r][l] = {self.multiplied('sum[r][l]', 'x', 'panel[l]')};",
            "}",
            f"panel += {COLUMNS};",
        ]
        lines = [
            f"{self.sum} sum[{ROWS}][{COLUMNS}] = {{{{0}}}};",
            *self.loops(self.inner, iter(body)),
            "for (int r = 0; r < rows; r++)",
            "    for (int64_t l = 0; l < width; l++)",
            f"        {yield_to} = {stored('sum[r][l]', self.kind, self.file.snippets)};",
        ]
        params = f"const {kind} *a, const {self.sum} *panel, {kind} *y, int rows, int64_t width"
        return "\n".join([f"static inline void NAME({params}) {{", *indented(iter(lines)), "}"])

    def load(self, operand: Operand, place: str) -> str:
        return loaded(f"{operand.name}[{place}]", self.kind, self.file.snippets)

    def multiplied(self, total: str, x: str, w: str) -> str:
        """``total + x * w``."""
        if self.kind in FLOATS:
            name = "multiply_add_f64" if self.kind == "f64" else "multiply_add_f32"
            return self.file.snippets.call(name, x, w, total)
        wide = "uint64_t" if self.kind[-2:] == "64" else "uint32_t"
        return f"({STORED[self.kind]})(({wide}){total} + ({wide}){x} * ({wide}){w})"


def operand(name: str, letters: Sequence[str], place: Place) -> Operand:
    """A tensor by its letters; what is broadcast stays where it is, and a letter may come twice."""
    steps: dict[str, int] = {}
    for x, size, step in zip(letters, place.shape, place.strides, strict=True):
        steps[x] = steps.get(x, 0) + (0 if size == 1 else step)
    return Operand(name, steps, place.offset)


def indented(lines: Lines) -> Lines:
    for line in lines:
        yield f"    {line}"


def product(node: Node, places: Sequence[Place], file: File) -> tuple[str, int]:
    """The function of a product, and how many elements its panel has."""
    made = Product(node, places, file)
    return file.function(made.text(), "product"), made.panel
