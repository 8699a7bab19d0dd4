"""Kernels as text for people: loops with one line for each value that they compute.

a: f32[64,1000] = input
y: f32[64] = sum
for rx in 64, parallel
  for cx in 1000, vector
    %1 = a[1000·rx + cx]
    %2 = exp(%1)
    %3 = fold add(%2)
  y[rx] = %3
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rushlight.codegen.kernel import Accumulation, Kernel, Stage, Store
from rushlight.codegen.pull import Buffer
from rushlight.codegen.traverse import walk
from rushlight.codegen.values import INDEX, RELATIONS, Loop, Value
from rushlight.graph.ir import Node

SIGNS = {
    "add": "+", "sub": "−", "mul": "·", "div": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<",
    "shr": ">>", "lt": "<", "le": "≤", "gt": ">", "ge": "≥", "eq": "=", "ne": "≠",
}  # fmt: skip


def listing(kernel: Kernel, names: Mapping[Node, str] | None = None) -> str:
    """The loops of a kernel, one line for each value; ``names`` says what to call some buffers."""
    return "\n".join(Listing(kernel, names or {}).lines)


class Listing:
    """The lines of one kernel; a value is written once in each stage that computes it."""

    def __init__(self, kernel: Kernel, named: Mapping[Node, str]) -> None:
        self.kernel, self.named = kernel, named
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.count = 0
        self.buffers: dict[Buffer, str] = {}
        for i, buffer in enumerate(kernel.inputs):
            self.declare(buffer, letter("abcdefgh", i))
        for i, buffer in enumerate(kernel.outputs):
            self.declare(buffer, letter("yzuvw", i))
        depth = 0
        for row in kernel.rows:
            self.enter(row, depth, "parallel")
            depth += 1
        for stage in kernel.stages:
            self.stage(stage, depth)

    def declare(self, buffer: Buffer, name: str) -> None:
        self.buffers[buffer] = name
        node = buffer.node
        what = "part of a result" if node is None else self.named.get(node) or node.op.name
        self.lines.append(f"{name}: {buffer.kind}[{','.join(map(str, buffer.shape))}] = {what}")

    def write(self, depth: int, text: str) -> None:
        self.lines.append(f"{'  ' * depth}{text}")

    def enter(self, loop: Loop, depth: int, how: str = "") -> None:
        window = self.kernel.window
        size = f"{loop.size}"
        if window is not None and window.loop is loop:
            size = f"{window.chunk}·{window.part.name} … of {loop.size}"
        marks = ["vector"] if loop is self.kernel.vector else [how] if how else []
        self.write(depth, ", ".join([f"for {loop.name} in {size}", *marks]))

    def stage(self, stage: Stage, depth: int) -> None:
        outer = dict(self.names)
        for loop in stage.loops:
            self.enter(loop, depth)
            depth += 1
        for scan in stage.scans:
            self.names[scan.value] = self.accumulate(scan, depth)
        results = {fold.value: self.accumulate(fold, depth) for fold in stage.folds}
        for store in stage.stores:
            self.define((store.index, store.value), depth)
            self.write(depth, self.store(store))
        if stage.loops:  # what a loop computed is gone after it
            self.names = outer
        self.names.update(results)

    def accumulate(self, part: Accumulation, depth: int) -> str:
        self.define(part.body, depth)
        operands = ", ".join([self.text(v) for v in part.body])
        name = self.fresh()
        self.write(depth, f"{name} = {part.value.op} {part.value.data.how}({operands})")
        return name

    def store(self, store: Store) -> str:
        place = f"{self.buffer(store.buffer)}[{self.index(store.index)}]"
        how = "=" if store.how == "set" else f"{SIGNS.get(store.how, store.how)}="
        return f"{place} {how} {self.text(store.value)}"

    def define(self, roots: Sequence[Value], depth: int) -> None:
        """Lines for the values that are not known yet; indices and numbers stand where they are."""
        for v in walk(roots, self.names):
            if v.op == "fold":  # inside of another one
                loops = ", ".join([f"{n.name} in {n.size}" for n in v.data.loops])
                self.name(v, depth, f"fold {v.data.how} for {loops} ({self.operands(v)})")
            elif v.op != "constant" and v.kind != INDEX:
                self.name(v, depth, self.formula(v))

    def name(self, v: Value, depth: int, text: str) -> None:
        self.names[v] = self.fresh()
        self.write(depth, f"{self.names[v]} = {text}")

    def fresh(self) -> str:
        self.count += 1
        return f"%{self.count}"

    def operands(self, v: Value) -> str:
        return ", ".join([self.text(a) for a in v.args])

    def formula(self, v: Value) -> str:
        match v.op:
            case "load":
                return f"{self.buffer(v.data)}[{self.index(v.args[0])}]"
            case "cast" | "bits":
                return f"{v.kind}({self.operands(v)}){' bits' if v.op == 'bits' else ''}"
            case "where":
                condition, a, b = [self.text(arg) for arg in v.args]
                return f"{a} if {condition} else {b}"
            case _ if v.op in SIGNS and len(v.args) == 2:
                a, b = [self.text(arg) for arg in v.args]
                return f"{a} {SIGNS[v.op]} {b}"
        return f"{v.op}({self.operands(v)})"

    def text(self, v: Value) -> str:
        """How a value is named where it is used."""
        known = self.names.get(v)
        if known is not None:
            return known
        if v.op == "constant":
            return f"{v.data:g}" if isinstance(v.data, float) else f"{v.data}"
        return self.index(v)

    def index(self, v: Value) -> str:
        """An index as a formula of loop variables."""
        match v.op:
            case _ if v in self.names:
                return self.names[v]
            case "var":
                return str(v.data.name)
            case "constant":
                return str(v.data)
            case "affine":
                return self.affine(v.args, *v.data)
            case "floor":
                return f"({self.index(v.args[0])}) // {v.data}"
            case "mod":
                return f"({self.index(v.args[0])}) % {v.data}"
            case "checked":
                return f"checked({self.index(v.args[0])} < {self.index(v.args[1])})"
            case "cast":
                return self.text(v.args[0])
            case "where":
                condition, a, b = [self.text(arg) for arg in v.args]
                return f"({a} if {condition} else {b})"
            case _ if v.op in RELATIONS:
                return f"{self.index(v.args[0])} {SIGNS[v.op]} {self.index(v.args[1])}"
        return f"{v.op}({self.operands(v)})"

    def affine(self, args: Iterable[Value], factors: Iterable[int], offset: int) -> str:
        terms = [
            self.index(a) if f == 1 else f"{f}·{bracketed(self.index(a))}"
            for a, f in zip(args, factors, strict=True)
        ]
        if offset:
            terms.append(str(offset))
        return " + ".join(terms).replace("+ -", "− ")

    def buffer(self, buffer: Any) -> str:
        if buffer not in self.buffers:  # of one row, in cache
            own = len([b for b in self.buffers if b.local])
            self.buffers[buffer] = f"row{own or ''}"
        return self.buffers[buffer]


def bracketed(text: str) -> str:
    return f"({text})" if " " in text and not text.startswith("checked(") else text


def letter(letters: str, number: int) -> str:
    turn, place = divmod(number, len(letters))
    return f"{letters[place]}{turn or ''}"
