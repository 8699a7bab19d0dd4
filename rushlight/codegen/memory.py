"""Loads and stores of elements: beside each other, apart from each other, or anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.codegen.elements import Elements, Terms
from rushlight.codegen.instructions import mangled, memory, repeated, vector, width
from rushlight.codegen.kernel import Kernel, Store
from rushlight.codegen.pull import Buffer
from rushlight.codegen.traverse import unguarded
from rushlight.codegen.values import Value
from rushlight.dims import Dim, Size


class Memory(Elements):
    """The buffers of a kernel, by the table of their addresses.

    One for all sizes gets a table of them, too, behind its buffers: it is ``sized``.
    """

    def __init__(self, kernel: Kernel, lanes: int, masks: bool, sized: bool) -> None:
        super().__init__(kernel.b, kernel.vector, kernel.errors)
        self.kernel, self.full, self.masks = kernel, lanes, masks
        self.table = {b: n for n, b in enumerate((*kernel.inputs, *kernel.outputs))}
        self.sizes: dict[Dim, int] = {}  # which a run knows, in the order of their table
        self.sized = sized

    def pointer(self, number: int) -> str:
        """An address of the table."""
        found = self.find(number)
        if found is None:
            with self.placed(0):
                place = self.let(f"getelementptr ptr, ptr %buffers, i64 {number}")
                found = self.frames[-1].known[number] = self.let(f"load ptr, ptr {place}")
        return found

    def error_slot(self) -> str:
        return self.pointer(len(self.table) + self.sized)

    def size(self, dim: Dim) -> str:
        """A size that a run knows, from the table of them behind all buffers."""
        found = self.find(dim)
        if found is None:
            assert self.sized, f"{dim} is in no table"
            number = self.sizes.setdefault(dim, len(self.sizes))
            table = self.pointer(len(self.table))
            with self.placed(0):
                place = self.let(f"getelementptr i64, ptr {table}, i64 {number}")
                found = self.frames[-1].known[dim] = self.let(f"load i64, ptr {place}")
        return found

    def local(self, buffer: Buffer) -> str:
        """Memory of a row, on the stack: elements, or vectors of them if rows are vectorised."""
        found = self.find(buffer)
        if found is None:
            whole = self.along in self.kernel.rows
            count = buffer.size * self.full if whole else buffer.size + self.full
            number = self.amount(count)
            with self.placed(0):
                line = f"alloca {memory(buffer.kind)}, i64 {number}, align 64"
                found = self.frames[-1].known[buffer] = self.let(line)
        return found

    def address(self, buffer: Buffer, terms: Terms, offset: Size, unit: str) -> str:
        """Where an element is, or the first lane of one; each loop adds its part once."""
        address = self.local(buffer) if buffer.local else self.pointer(self.table[buffer])
        parts: dict[int, Terms] = {}
        for atom, factor in terms:
            parts.setdefault(self.depth(atom), []).append((atom, factor))
        met: tuple[Any, ...] = (buffer, unit)
        for depth in sorted(parts):
            met = (*met, tuple(parts[depth]))
            found = self.find(met)
            if found is None:
                for atom, _ in parts[depth]:
                    if atom.op != "var":
                        self.need(atom)
                with self.placed(depth):
                    step = self.distance(parts[depth])
                    found = self.let(f"getelementptr {unit}, ptr {address}, i64 {step}")
                    self.frames[-1].known[met] = found
            address = found
        if offset == 0:
            return address
        return self.let(f"getelementptr {unit}, ptr {address}, i64 {self.amount(offset)}")

    def places(self, buffer: Buffer, place: Value, lanes: int) -> str:
        """An address for each lane."""
        even, moving, offset = self.split(place)
        kind = memory(buffer.kind)
        address = self.address(buffer, even, offset, kind)
        index = self.sum(moving, 0, lanes)
        return self.let(f"getelementptr {kind}, ptr {address}, <{lanes} x i64> {index}")

    def load(self, v: Value, lanes: int) -> str:
        found = self.load_bits(v.data, v.args[0], lanes)
        if v.data.kind == "b1":
            return self.let(f"icmp ne {vector('i8', lanes)} {found}, {repeated('i8', '0', lanes)}")
        return found

    def load_bits(self, buffer: Buffer, place: Value, lanes: int) -> str:
        """Elements as they are in memory."""
        kind, mask = memory(buffer.kind), self.mask
        t, align = vector(kind, lanes), width(buffer.kind)
        if lanes > 1 and self.masks:
            place, condition = unguarded(self.b, place)
            if condition is not None:
                inside = self.get(condition, lanes)
                mask = self.binary("and", "b1", lanes, inside, mask) if mask else inside
        even, moving, offset = self.split(place)
        if buffer.local and not moving:
            address = self.address(buffer, even, offset, t)
            return self.let(f"load {t}, ptr {address}, align {align}")
        steady = len(moving) == 1 and moving[0][0].op == "var"
        step = moving[0][1] if steady else 0
        if lanes == 1 or step == 1:
            address = self.address(buffer, [*even, *moving], offset, kind)
            if lanes == 1 or mask is None or buffer.local:
                return self.let(f"load {t}, ptr {address}, align {align}")
            return self.masked("load", kind, lanes, address, align, mask)
        if steady and mask is None:
            address = self.address(buffer, [*even, *moving], offset, kind)
            return self.load_apart(address, kind, lanes, step, align)
        return self.masked("gather", kind, lanes, self.places(buffer, place, lanes), align, mask)

    def masked(
        self,
        what: str,
        kind: str,
        lanes: int,
        where: str,
        align: int,
        mask: str | None,
        x: str = "",
    ) -> str:
        """Loads or stores some lanes, at one address or at many."""
        many = what in ("gather", "scatter")
        t, name = vector(kind, lanes), f"llvm.masked.{what}.{mangled(kind, lanes)}"
        name += f".{mangled('ptr', lanes if many else 1)}"
        chosen = (f"<{lanes} x i1>", mask or repeated("i1", "true", lanes))
        place = [(vector("ptr", lanes if many else 1), where), ("i32", str(align)), chosen]
        if x:
            return self.call(name, "void", [(t, x), *place])
        return self.call(name, t, [*place, (t, "zeroinitializer")])

    def load_apart(self, address: str, kind: str, lanes: int, step: Size, align: int) -> str:
        """Lanes that are a number of elements apart."""
        t, total = vector(kind, lanes), "poison"
        if step == -1:
            first = self.let(f"getelementptr {kind}, ptr {address}, i64 {1 - lanes}")
            x = self.let(f"load {t}, ptr {first}, align {align}")
            order = ", ".join([f"i32 {n}" for n in reversed(range(lanes))])
            return self.let(f"shufflevector {t} {x}, {t} poison, <{lanes} x i32> <{order}>")
        for lane in range(lanes):
            place = self.let(f"getelementptr {kind}, ptr {address}, i64 {self.amount(lane * step)}")
            x = self.let(f"load {kind}, ptr {place}, align {align}")
            total = self.let(f"insertelement {t} {total}, {kind} {x}, i64 {lane}")
        return total

    def store_all(self, stores: Sequence[Store]) -> None:
        """Stores, after all values are known: an output may have the memory of an input."""
        for store in stores:
            self.need(store.value)
            even, moving, _ = self.split(store.index)
            for atom, _ in (*even, *moving):
                if atom.op != "var":
                    self.need(atom)
        for store in stores:
            self.store(store)

    def store(self, store: Store) -> None:
        buffer, kind, unit = store.buffer, store.buffer.kind, memory(store.buffer.kind)
        even, moving, offset = self.split(store.index)
        whole = buffer.local and not moving and self.is_vector(store.value)
        lanes = self.lanes if moving or whole else 1
        t, align = vector(unit, lanes), width(kind)
        x = self.get(store.value, lanes)
        if store.how != "set":
            before = self.load_bits(buffer, store.index, lanes)
            if kind == "b1":
                before = self.let(f"trunc {t} {before} to {vector('i1', lanes)}")
            x = self.binary(store.how, kind, lanes, before, x)
        if kind == "b1":
            x = self.let(f"zext {vector('i1', lanes)} {x} to {t}")
        beside = len(moving) == 1 and moving[0][0].op == "var" and moving[0][1] == 1
        if lanes > 1 and not beside and not whole:
            places = self.places(buffer, store.index, lanes)
            self.masked("scatter", unit, lanes, places, align, self.mask, x)
            return
        address = self.address(buffer, [*even, *moving], offset, t if whole else unit)
        if lanes == 1 or self.mask is None or buffer.local:
            self.write(f"store {t} {x}, ptr {address}, align {align}")
        else:
            self.masked("store", unit, lanes, address, align, self.mask, x)
