"""Kernels as C functions: loops over rows, and the stages of a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rushlight.c.scalars import COMPUTED, literal, loaded, stored
from rushlight.c.snippets import STORED, Snippets, bare
from rushlight.c.writer import Writer
from rushlight.codegen.kernel import Kernel, Stage, Store, values_of
from rushlight.codegen.pull import Buffer, identity
from rushlight.codegen.values import FLOATS, INDEX, Loop, Value

LANES = 16  # sums that are made side by side, so that a compiler may use vectors
LONG = 2 * LANES  # elements from which on that is worth it


class Function(NamedTuple):
    """A function without its name: parameters in the order of ``buffers``, and what can fail."""

    text: str
    buffers: tuple[Buffer, ...]
    errors: tuple[object, ...]


def function(kernel: Kernel, snippets: Snippets) -> Function:
    """The C function of a kernel, which is called ``NAME`` in its text."""
    writer = KernelWriter(kernel, snippets)
    writer.rows()
    params = [f"const {STORED[x.kind]} *{writer.buffers[x]}" for x in kernel.inputs]
    params += [f"{STORED[y.kind]} *{writer.buffers[y]}" for y in kernel.outputs]
    if writer.errors:
        params += ["fault *first", "int code"]
    body = "\n".join([f"    {line}" for line in writer.blocks[0].lines])
    text = f"static void NAME({', '.join(params)}) {{\n{body}\n}}"
    return Function(text, (*kernel.inputs, *kernel.outputs), tuple(writer.errors))


class KernelWriter(Writer):
    """The body of a kernel's function."""

    def __init__(self, kernel: Kernel, snippets: Snippets) -> None:
        super().__init__(kernel.b, snippets)
        self.kernel = kernel
        for letter, buffers in (("x", kernel.inputs), ("y", kernel.outputs)):
            for number, buffer in enumerate(buffers):
                self.buffers[buffer] = f"{letter}{number}"
        for v in values_of(kernel.stages):
            if v.op == "load" and v.data.local and v.data not in self.buffers:
                self.buffers[v.data] = f"row{len(self.buffers)}"
        window = kernel.window
        if window is not None:
            part, chunk = self.name(window.part), window.chunk
            end = f"({part} + 1) * {chunk}"
            if window.loop.size % chunk:
                snippets.need("min_i64")
                end = f"min_i64({end}, {literal(window.loop.size, INDEX)})"
            self.bounds[window.loop] = (f"{part} * {chunk}", end)

    def rows(self) -> None:
        """All rows, and in each of them the stages."""
        self.plan([v for stage in self.kernel.stages for v in stage.roots])
        with self.loops(self.kernel.rows):
            for buffer, name in self.buffers.items():
                if buffer.local:
                    self.write(f"{COMPUTED[buffer.kind]} {name}[{buffer.size}];")
            for stage in self.kernel.stages:
                self.stage(stage)

    def stage(self, stage: Stage) -> None:
        wide = self.lanes(stage)
        if wide is not None:
            self.sums(stage, wide)
            return
        names = [self.begin(fold) for fold in (*stage.folds, *stage.scans)]
        with self.loops(stage.loops):
            self.turn(stage, names)
        for fold, own in zip(stage.folds, names, strict=False):
            self.blocks[-1].known[fold.value] = own[-1]

    def turn(self, stage: Stage, names: Sequence[Sequence[str]], lane: str = "") -> None:
        """What is done in the innermost loop."""
        count = len(stage.folds)
        for fold, own in zip(stage.folds, names, strict=False):
            self.combine(fold, own, lane)
        for scan, own in zip(stage.scans, names[count:], strict=True):
            self.combine(scan, own)
            self.blocks[-1].known[scan.value] = own[-1]
        if len(stage.stores) > 1:  # of which one may overwrite what another one reads
            for store in stage.stores:
                self.hold(store.value)
        for store in stage.stores:
            self.store(store)

    def hold(self, v: Value) -> None:
        """Gives a value a name, so that it is computed now."""
        text = self.get(v)[0]
        if v.op not in ("constant", "var") and not text.isidentifier():
            self.let(v, text)

    def lanes(self, stage: Stage) -> Loop | None:
        """The loop whose turns are dealt out to several sums; none if order matters."""
        if not stage.folds or stage.scans or stage.stores or not stage.loops:
            return None
        if any([len(f.body) > 1 or f.body[0].kind not in FLOATS for f in stage.folds]):
            return None
        loop = stage.loops[-1]
        return loop if loop.size >= LONG and loop not in self.bounds else None

    def sums(self, stage: Stage, loop: Loop) -> None:
        """A stage of folds, with as many sums as there are lanes, added up in the end."""
        names = []
        for fold in stage.folds:
            kind, how = fold.body[0].kind, fold.value.data.how
            names.append([self.fresh("a")])
            self.write(f"{COMPUTED[kind]} {names[-1][0]}[{LANES}];")
            start = literal(identity(how, kind), kind)
            self.write(f"for (int l = 0; l < {LANES}; l++) {names[-1][0]}[l] = {start};")
        whole = loop.size - loop.size % LANES
        with self.loops(stage.loops[:-1]):
            name = self.name(loop)
            base = self.fresh("i")
            with self.block(f"for (int64_t {base} = 0; {base} < {whole}; {base} += {LANES})"):
                self.lane(stage, loop, names, LANES, f"{base} + l", name)
            if loop.size > whole:
                self.lane(stage, loop, names, loop.size - whole, f"{whole} + l", name)
        for fold, (own,) in zip(stage.folds, names, strict=True):
            kind, how = fold.body[0].kind, fold.value.data.how
            both = self.combined(how, kind, f"{own}[l]", f"{own}[l + n]")
            with self.block(f"for (int n = {LANES // 2}; n; n /= 2)"):
                self.write(f"for (int l = 0; l < n; l++) {own}[l] = {both};")
            self.blocks[-1].known[fold.value] = f"{own}[0]"

    def lane(
        self, stage: Stage, loop: Loop, names: list[list[str]], count: int, at: str, name: str
    ) -> None:
        """Neighbouring turns of a loop, each with sums of its own."""
        self.depths[loop] = len(self.blocks)
        with self.block(f"for (int l = 0; l < {count}; l++)"):
            self.write(f"const int64_t {name} = {at};")
            self.turn(stage, names, "[l]")

    def store(self, store: Store) -> None:
        """``buffer[index] = value``, or combined with what is there."""
        buffer = store.buffer
        index, value = self.text(store.index), self.get(store.value)[0]
        place = f"{self.buffers[buffer]}[{index}]"
        if store.how != "set":
            old = loaded(place, buffer.kind, self.snippets)
            value = self.combined(store.how, buffer.kind, old, value)
        if not buffer.local:
            value = stored(value, buffer.kind, self.snippets)
        self.write(f"{place} = {bare(value)};")
