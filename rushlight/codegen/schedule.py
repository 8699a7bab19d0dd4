"""Schedules: how the loops of a nest are split, joined, ordered, vectorised and cut in stages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rushlight.codegen.kernel import Accumulation, Kernel, Stage, Store, Window, make_kernel
from rushlight.codegen.pull import Buffer, Columns
from rushlight.codegen.traverse import substitute, unguarded, walk
from rushlight.codegen.values import INDEX, MATH, Fold, Loop, Value
from rushlight.dims import at_least, example, is_known

LOCAL_BYTES = 32768  # of a row that is kept between stages: what a first-level cache holds
PARALLEL = 65536  # elements beyond which a few long rows are cut in parts
LONG = 16384  # elements of a part
PARTS = 64  # at most
WIDE = 4096  # sums beside each other from which on each thread has some, and goes through all rows
TILE = 16  # elements of a row that are gathered from as many lines before the next row is
PAGE = 1024  # elements from which on lines are on pages of their own
SQUARES = 16  # parts of a kernel that turns squares, if there are so many
LANES = 16  # elements that one turn of a vectorised loop may take


class Nest:
    """Stores over rows and columns, before their loops are in order.

    Columns are the loops that stores of a whole row share with folds; a nest without folds has
    none.
    """

    def __init__(
        self,
        b: Columns,
        rows: Sequence[Loop],
        columns: Sequence[Loop],
        stores: Sequence[Store],
        ordered: bool = False,
    ) -> None:
        self.b = b
        self.rows = [loop for loop in rows if loop.size not in (0, 1)]
        self.columns = [loop for loop in columns if loop.size not in (0, 1)]
        self.stores = list(stores)
        self.ordered = ordered  # columns must be gone through in order

    @property
    def roots(self) -> list[Value]:
        return [v for store in self.stores for v in (store.index, store.value)]

    def values(self) -> list[Value]:
        return walk(self.roots)

    def scans(self) -> list[Value]:
        return [v for v in self.values() if v.op == "scan"]

    def replace(
        self, values: Mapping[Value, Value], loops: Mapping[Loop, tuple[Loop, ...]]
    ) -> None:
        """Puts other values and loops in the place of some."""
        new = iter(substitute(self.b, self.roots, values, loops))
        self.stores = [Store(s.buffer, next(new), next(new), s.how) for s in self.stores]
        self.rows = [m for n in self.rows for m in loops.get(n, (n,))]
        self.columns = [m for n in self.columns for m in loops.get(n, (n,))]

    def split(self) -> None:
        """Splits loops until no index needs a quotient or a remainder, where sizes allow it."""
        while (found := next(self.divisions(), None)) is not None:
            loop, size = found
            outer = Loop(f"{loop.name}a", loop.size // size)
            inner = Loop(f"{loop.name}b", size)
            b = self.b
            index = b.variable(outer) * size + b.variable(inner)
            self.replace({b.variable(loop): index}, {loop: (outer, inner)})

    def divisions(self) -> Iterator[tuple[Loop, int]]:
        """Loops with the size of the inner one of the two that they should be."""
        for v in self.values():
            if v.kind != INDEX or v.op not in ("floor", "mod"):
                continue
            terms, _ = self.b.expand([(v.args[0], 1)])
            for atom, factor in terms.items():
                if atom.op != "var" or not at_least(factor, 1) or v.data % factor != 0:
                    continue
                size = v.data // factor
                if size != 1 and size != atom.data.size and atom.data.size % size == 0:
                    yield atom.data, size

    def collapse(self) -> None:
        """Makes one loop of two wherever that is possible."""
        while (found := self.pair()) is not None:
            outer, inner = found
            both = Loop(inner.name, outer.size * inner.size)
            b = self.b
            zero = b.constant(0, INDEX)
            self.replace(
                {b.variable(outer): zero, b.variable(inner): b.variable(both)},
                {outer: (), inner: (both,)},
            )

    def pair(self) -> tuple[Loop, Loop] | None:
        """An outer and an inner loop that every index goes through as through one."""
        uses: list[dict[Loop, int]] = []
        nests = {tuple(self.rows): None, tuple(self.columns): None}
        for v in self.values():
            if v.op == "affine":
                parts = zip(v.args, v.data[0], strict=True)
                uses.append({a.data: f for a, f in parts if a.op == "var"})
                continue
            uses.extend([{a.data: 1} for a in v.args if a.op == "var"])
            if v.op in ("fold", "scan"):
                nests[v.data.loops] = None
        uses.extend([{v.data: 1} for v in self.roots if v.op == "var"])
        kept = self.columns if self.ordered else ()
        for nest in nests:
            for outer, inner in itertools.permutations([n for n in nest if n not in kept], 2):
                if all([u.get(outer, 0) == u.get(inner, 0) * inner.size for u in uses]):
                    if all([(inner in n) == (outer in n) for n in nests]):
                        return outer, inner
        return None

    def accesses(self) -> list[tuple[Value, bool]]:
        """The places of all loads and stores, and which are stores."""
        places = [(v.args[0], False) for v in self.values() if v.op == "load"]
        return [*places, *[(s.index, True) for s in self.stores]]

    def vectorised(self) -> Loop | None:
        """The loop that most accesses run along with step 1."""
        folds = [v for v in self.values() if v.op == "fold"]
        places = [(p, s, self.b.free(p)) for p, s in self.accesses()]
        columns = () if self.ordered else self.columns
        best, found = 0.0, None
        for loop in dict.fromkeys(
            [*self.rows, *columns, *[n for f in folds for n in f.data.loops]]
        ):
            score = 0.0
            for place, stored, free in places:
                if loop in free:
                    gain = 4.0 if step(place, loop, self.b) == 1 else -2.0 if stored else 1.0
                    score += gain * math.prod([n.example for n in free])
            score *= loop.example / (-(-loop.example // 8) * 8)
            for fold in folds:
                if loop in fold.data.loops:  # lanes must be combined in the end
                    score -= 6 * math.prod([n.example for n in self.b.free(fold)])
            if score > best:
                best, found = score, loop
        return found

    def stages(self, vector: Loop | None, late: Collection[Buffer] = ()) -> list[Stage]:
        """The order of folds and stores within a row."""
        rows, columns = frozenset(self.rows), tuple(self.columns)
        level: dict[Value, int] = {}
        phases: list[dict[Any, tuple[list[Accumulation], list[Store]]]] = []

        def phase(number: int, *key: Any) -> tuple[list[Accumulation], list[Store]]:
            phases.extend([{} for _ in range(number + 1 - len(phases))])
            return phases[number].setdefault(key, ([], []))

        for v in self.values():
            level[v] = max([level[a] for a in v.args], default=0)
            free = self.b.free(v)
            if v.op == "fold" and free <= rows:
                phase(level[v], v.data.loops, free)[0].append(Accumulation(v, v.args))
                level[v] += 1
        whole = [s for s in self.stores if not self.b.free(s.index) <= rows or self.ordered]
        last = max([level[s.value] for s in whole], default=0)
        for store in whole:
            known = last if store.buffer in late else max(level[store.value], level[store.index])
            phase(known, columns, rows)[1].append(store)
        rest = tuple([s for s in self.stores if s not in whole])
        scans = tuple([Accumulation(scan, scan.args) for scan in self.scans()])
        stages = [
            Stage(key[0], tuple(folds), scans if stores else (), tuple(stores))
            for number in phases
            for key, (folds, stores) in number.items()
        ]
        return self.spill([*stages, Stage((), stores=rest)] if rest else stages, vector)

    def spill(self, stages: list[Stage], vector: Loop | None) -> list[Stage]:
        """Keeps costly values that a later stage needs again in memory of the row."""
        b, columns, rows = self.b, self.columns, frozenset(self.rows)
        places = list(zip([b.variable(n) for n in columns], steps(columns), strict=True))
        place = b.affine(places)
        shape = tuple([n.size for n in columns])
        size = math.prod(shape) * 8 * (LANES if vector in rows else 1)
        if not columns or example(size) > LOCAL_BYTES:
            return stages
        folds = {fold.value: fold.value for stage in stages for fold in stage.folds}
        kept: dict[Value, Value] = {}
        lanes = [b.variable(vector)] if vector is not None and vector in rows else []
        results: list[Stage] = []
        for stage in stages:
            new = stage.with_roots(substitute(b, stage.roots, {**folds, **kept}))
            results.append(new)
            if set(stage.loops) == set(columns):
                for v in walk(new.roots, folds):
                    if v.op in MATH and b.free(v) - rows == set(columns):
                        buffer = Buffer(v.kind, shape, local=True)
                        across = lanes if vector in b.free(v) else []
                        kept[v] = b.load(buffer, v.kind, [place, *across])
        used = {v for stage in results for v in walk(stage.roots, folds)}
        kept = {v: load for v, load in kept.items() if load in used}
        for number, stage in enumerate(results):
            here = [v for v in walk(stage.roots, folds) if v in kept]
            stores = [Store(kept[v].data, place, v) for v in here]
            results[number] = replace(stage, stores=(*stage.stores, *stores))
        return results

    def cost(self) -> int:
        """A row's work in elements, those of costly functions counted tenfold."""
        rows = set(self.rows)
        seen = self.values()
        inner = [math.prod([n.example for n in self.b.free(v) - rows]) for v in seen]
        heavy = [10 * n for v, n in zip(seen, inner, strict=True) if v.op in MATH]
        loads = [n for v, n in zip(seen, inner, strict=True) if v.op in ("load", "div")]
        return max(1, (sum(heavy) + sum(loads)) // 2)

    def kernels(self, late: Collection[Buffer] = ()) -> list[Kernel]:
        """The kernels of this nest: one, or two if a long fold is cut in parts."""
        vector = self.vectorised()
        first = self.parts(vector)
        if first is not None:
            return [first, *self.kernels(late)]
        work, window = self.cost(), None
        if vector is not None and vector in self.rows and len(self.rows) > 1:
            outer = math.prod([n.example for n in self.rows if n is not vector])
            across = self.across(vector)
            if across is not None and self.has_squares(vector, across):
                return [self.turned(vector, across, late)]
            if outer < PARTS and outer * vector.example > PARALLEL:
                window = Window(Loop("part", -(-vector.size // LONG)), vector, LONG)
            elif across is not None and vector.example >= 2 * TILE:
                window = Window(Loop("part", -(-vector.size // TILE)), vector, TILE)
                self.rows.remove(across)
                self.rows.append(across)
            elif across is not None and vector.example < 2 * TILE:
                self.turn(across)
            if window is not None:
                self.rows.insert(0, window.part)
            work *= window.chunk if window else vector.example
        return [make_kernel(self.b, self.rows, self.stages(vector, late), vector, work, window)]

    def has_squares(self, vector: Loop, across: Loop) -> bool:
        """Whether elements are turned in registers: squares of them fit into both loops."""
        plain = not self.columns and not [v for v in self.values() if v.op in ("fold", "scan")]
        sizes = vector.size, across.size
        return plain and is_known(sizes) and min(sizes) >= TILE

    def turned(self, vector: Loop, across: Loop, late: Collection[Buffer]) -> Kernel:
        """The kernel in which all of ``across`` is in one part; few of these are cut further."""
        outer = math.prod([n.example for n in self.rows if n not in (vector, across)])
        lines = [p for p, s in self.accesses() if not s and step(p, across, self.b) == 1]
        far = max([step(place, vector, self.b) or 0 for place in lines])
        length, window = vector.size, None
        if far > across.size or far >= PAGE:
            length = TILE  # lines that are far apart are read to their end, few at a time
        elif outer < SQUARES:
            length = -(-vector.size * outer // SQUARES // (4 * LANES)) * 4 * LANES
        cuts = [n for n in (16, 8, 4, 2) if across.size % (n * TILE) == 0]
        large = outer * vector.size * across.size > PARALLEL
        if cuts and large and -(-vector.size // length) * outer < SQUARES:
            across = self.cut(across, across.size // cuts[0])
        if length < vector.size or len(self.rows) == 2:
            window = Window(Loop("part", -(-vector.size // length)), vector, length)
            self.rows.insert(0, window.part)
        work, stages = self.cost() * length * across.size, self.stages(vector, late)
        return make_kernel(self.b, self.rows, stages, vector, work, window, across)

    def cut(self, loop: Loop, size: int) -> Loop:
        """The inner one, of this size, of the two that a loop becomes."""
        outer, inner = Loop(f"{loop.name}a", loop.size // size), Loop(f"{loop.name}b", size)
        index = self.b.variable(outer) * size + self.b.variable(inner)
        self.replace({self.b.variable(loop): index}, {loop: (outer, inner)})
        return inner

    def turn(self, across: Loop) -> None:
        """Goes on by lines that are read: a few elements across come before other rows do."""
        if not is_known((across.size,)) or across.size % TILE or across.size == TILE:
            return
        inner = self.cut(across, TILE)
        self.rows.remove(inner)
        self.rows.append(inner)

    def across(self, vector: Loop) -> Loop | None:
        """The loop whose neighbours lie beside each other where those of the vector are apart."""
        for place, stored in self.accesses():
            if not stored and step(place, vector, self.b) not in (0, 1):
                for loop in self.rows:
                    if step(place, loop, self.b) == 1:
                        return loop
        return None

    def sweep(self) -> Kernel:
        """The kernel of an ordered nest whose vectorised rows are gone through in each column."""
        self.split()
        self.collapse()
        vector, window = self.vectorised(), None
        if vector is not None and step(self.stores[0].index, vector, self.b) != 1:
            vector = None
        if vector is not None:
            self.rows.remove(vector)
            self.columns.append(vector)
        work = self.cost()
        if vector is not None and not self.rows and work > PARALLEL:
            chunk = -(-vector.example // 8 // 64) * 64
            window = Window(Loop("part", -(-vector.size // chunk)), vector, chunk)
            self.rows.append(window.part)
            work = work * chunk // vector.example
        return make_kernel(self.b, self.rows, self.stages(vector), vector, work, window)

    def parts(self, vector: Loop | None) -> Kernel | None:
        """A kernel that folds parts of columns, if rows are few; the nest then folds the parts."""
        b, rows = self.b, frozenset(self.rows)
        folds = [v for v in self.values() if v.op == "fold"]
        inner = walk([a for fold in folds for a in fold.args])
        if (
            len({fold.data.loops for fold in folds}) != 1
            or any([not b.free(v) <= rows for v in (*folds, *[s.index for s in self.stores])])
            or any([v.op == "fold" for v in inner])
        ):
            return None
        count = math.prod([n.example for n in self.rows])
        loop = max(folds[0].data.loops, key=lambda n: n.example)
        total = count * math.prod([n.example for n in folds[0].data.loops])
        chunk = -(-loop.example // min(PARTS, max(1, total // LONG)))
        chunk = -(-chunk // 64) * 64 if loop is vector else chunk
        part = Loop("part", -(-loop.size // chunk))
        if count >= (WIDE if vector in rows else 8) or total < PARALLEL or part.size == 1:
            return None
        loops = [part, *self.rows]
        shape = tuple([n.size for n in loops])
        place = b.affine(list(zip([b.variable(n) for n in loops], steps(loops), strict=True)))
        stores, results = [], {}
        for fold in folds:
            values = [fold]
            if len(fold.args) == 2:
                best = Fold(fold.data.how.removeprefix("arg"), fold.data.loops)
                values = [b.make("fold", fold.args[0].kind, fold.args[:1], best), fold]
            buffers = [Buffer("i64" if v.kind == INDEX else v.kind, shape) for v in values]
            stores += [Store(m, place, v) for m, v in zip(buffers, values, strict=True)]
            loads = tuple([b.load(m, m.kind, (place,)) for m in buffers])
            results[fold] = b.make("fold", fold.kind, loads, Fold(fold.data.how, (part,)))
        first = Nest(b, self.rows, (), stores)
        stages, work = first.stages(vector), first.cost() * chunk // loop.example
        if vector is not None and vector in rows:
            work *= vector.example
        self.replace(results, {})
        window = Window(part, loop, chunk)
        return make_kernel(b, [part, *self.rows], stages, vector, work, window)


def steps(loops: Sequence[Loop]) -> list[int]:
    """The distance of neighbours of each loop in a C-contiguous array over all of them."""
    return [math.prod([n.size for n in loops[k + 1 :]]) for k in range(len(loops))]


def step(place: Value, loop: Loop, b: Columns) -> int | None:
    """How far a place moves with a loop; None if not evenly."""
    terms, _ = b.expand([(unguarded(b, place)[0], 1)])
    total = 0
    for atom, factor in terms.items():
        if atom.op == "var" and atom.data is loop:
            total += factor
        elif loop in b.free(atom):
            return None
    return total
