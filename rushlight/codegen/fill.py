"""Zeros at regular places: the borders of what is padded, by one function for all sizes."""

from __future__ import annotations

import struct

from rushlight.codegen.instructions import width
from rushlight.codegen.kernel import Kernel
from rushlight.codegen.native import NativeText, table
from rushlight.codegen.pull import Buffer
from rushlight.codegen.tiling import Work

FIELDS = (
    "offset", "run", "outer_step", "middle_count", "middle_step", "inner_count", "inner_step",
)  # fmt: skip
"""The table, in bytes: runs of zeros, in three loops around them."""

NAME = "fill_u8"
CHUNK = 1 << 16  # bytes that are worth a thread's while


def fill_of(kernel: Kernel) -> tuple[Buffer, Work] | None:
    """The buffer that a kernel does nothing but fill with zeros, and the work that does it."""
    if kernel.inputs or len(kernel.stages) != 1 or kernel.window is not None:
        return None
    (stage,) = kernel.stages
    if stage.loops or stage.folds or stage.scans or len(stage.stores) != 1:
        return None
    (store,) = stage.stores
    value = store.value
    if store.how != "set" or value.op != "constant" or any(struct.pack("<d", value.data)):
        return None
    terms, offset = kernel.b.expand([(store.index, 1)])
    if any([atom.op != "var" or step < 1 for atom, step in terms.items()]):
        return None
    loops = sorted([(step, atom.data.size) for atom, step in terms.items()])
    size = width(store.buffer.kind)
    run = 1
    steps: list[tuple[int, int]] = []
    for step, count in loops:
        if step == run and not steps:
            run *= count
        else:
            steps.append((count, step * size))
    if len(steps) > 3 or len(loops) != len(kernel.rows):
        return None
    inner, middle, outer = (*steps, (1, 0), (1, 0), (1, 0))[:3]
    numbers = {
        "offset": offset * size,
        "run": run * size,
        "outer_step": outer[1],
        "middle_count": middle[0],
        "middle_step": middle[1],
        "inner_count": inner[0],
        "inner_step": inner[1],
    }
    parts = outer[0] * middle[0] * inner[0]
    chunk = max(1, min(parts, CHUNK // (run * size)))
    return store.buffer, Work(NAME, ("y", "table"), table(FIELDS, numbers, {}), parts, chunk)


class Fill(NativeText):
    """The text of the function."""

    def __init__(self) -> None:
        super().__init__("u8")

    def text(self) -> str:
        target, numbers = self.buffer(0), self.buffer(1)
        self.head = self.fields(numbers, FIELDS, 0)
        self.target = self.element(target, self.head["offset"])
        self.each("%begin", "%end", 1, [], lambda part, _: self.part(part))
        return self.function(NAME)

    def part(self, part: str) -> list[str]:
        """One run."""
        head, rest, place = self.head, part, self.target
        for level in ("inner", "middle"):
            rest, digit = self.divided(rest, head[f"{level}_count"])
            place = self.element(place, self.let(f"mul i64 {digit}, {head[f'{level}_step']}"))
        place = self.element(place, self.let(f"mul i64 {rest}, {head['outer_step']}"))
        arguments = [("ptr", place), ("i8", "0"), ("i64", head["run"]), ("i1", "false")]
        self.call("llvm.memset.p0.i64", "void", arguments)
        return []
