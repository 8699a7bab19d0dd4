"""The text of native functions that read their sizes from a table while they run.

Such a function has the form of a kernel, ``void @NAME(ptr %buffers, i64 %begin, i64 %end)``. One of
its buffers is a table of 64-bit integers: a head of named fields, then the lists they point to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from rushlight.codegen.blocks import Blocks
from rushlight.codegen.instructions import TYPES, width

FLUSH = 0x8040  # small results, and small operands, of x86's vector instructions are zeros


def table(
    fields: Sequence[str], numbers: Mapping[str, int], lists: Mapping[str, object]
) -> np.ndarray:
    """The table of these numbers and lists, in the order of ``fields``.

    >>> table(("count", "items"), {"count": 2}, {"items": [7, 8]}).tolist()
    [2, 2, 7, 8]
    """
    place, head, tail = len(fields), [], []
    for name in fields:
        if name in numbers:
            head.append(numbers[name])
            continue
        tail.append(np.ravel(np.asarray(lists[name], np.int64)))
        head.append(place)
        place += tail[-1].size
    return np.concatenate([np.array(head, np.int64), *tail])


def written(body: Callable[[], None]) -> list[str]:
    """What a body carries on: nothing."""
    body()
    return []


class NativeText(Blocks):
    """Writes one function."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.scalar, self.bytes = kind, TYPES[kind], width(kind)

    def function(self, name: str) -> str:
        """All that was written, as a function."""
        head = f"define void @{name}(ptr %buffers, i64 %begin, i64 %end) {{"
        own = "\n".join([head, "entry:", *self.frames[0].lines, "ret void", "}"])
        return "\n\n".join([*sorted(self.declared.values()), own])

    def buffers_from(self, number: int | str) -> str:
        """The table of buffers from a number on."""
        return self.let(f"getelementptr ptr, ptr %buffers, i64 {number}")

    def buffer(self, number: int | str) -> str:
        """An address of the table of buffers."""
        return self.let(f"load ptr, ptr {self.buffers_from(number)}, align 8")

    def fields(self, table: str, names: Sequence[str], lists: int) -> dict[str, str]:
        """The head of a table; the last fields are ``lists``."""
        head = {name: self.entry(table, n) for n, name in enumerate(names)}
        return head | {name: self.offset(table, head[name]) for name in names[len(names) - lists :]}

    def entry(self, table: str, number: int | str) -> str:
        place = self.let(f"getelementptr i64, ptr {table}, i64 {number}")
        return self.let(f"load i64, ptr {place}, align 8")

    def offset(self, table: str, number: int | str) -> str:
        return self.let(f"getelementptr i64, ptr {table}, i64 {number}")

    def element(self, base: str, offset: str) -> str:
        return self.let(f"getelementptr {self.scalar}, ptr {base}, i64 {offset}")

    def of_batch(self, offsets: str, batch: str, bases: Sequence[str]) -> list[str]:
        """Where the elements of a batch begin, by a list with an offset for each of the bases."""
        own = self.offset(offsets, self.let(f"mul i64 {batch}, {len(bases)}"))
        return [self.element(base, self.entry(own, n)) for n, base in enumerate(bases)]

    def least(self, x: str, y: str) -> str:
        return self.call("llvm.smin.i64", "i64", [("i64", x), ("i64", y)])

    def divided(self, number: str, size: str) -> tuple[str, str]:
        """Quotient and remainder."""
        return self.let(f"udiv i64 {number}, {size}"), self.let(f"urem i64 {number}, {size}")

    def range(self, number: str, size: str, end: str) -> tuple[str, str]:
        """Where the block of that number begins and ends."""
        first = self.let(f"mul i64 {number}, {size}")
        return first, self.least(self.let(f"add i64 {first}, {size}"), end)

    def parts(self, part: Callable[[str], list[str]], flush: bool) -> None:
        """All parts of a call; numbers below all normal ones may count as zeros meanwhile."""
        before = self.flushed() if flush else ""
        self.each("%begin", "%end", 1, [], lambda number, _: part(number))
        if flush:
            self.call("llvm.x86.sse.ldmxcsr", "void", [("ptr", before)])

    def flushed(self) -> str:
        """Lets the processor count small numbers as zeros: a place with what it did before."""
        before, after = self.let("alloca i32, align 4"), self.let("alloca i32, align 4")
        self.call("llvm.x86.sse.stmxcsr", "void", [("ptr", before)])
        state = self.let(f"load i32, ptr {before}, align 4")
        self.write(f"store i32 {self.let(f'or i32 {state}, {FLUSH}')}, ptr {after}, align 4")
        self.call("llvm.x86.sse.ldmxcsr", "void", [("ptr", after)])
        return before

    def choose(self, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """One of two bodies."""
        there, other, done = self.fresh("yes"), self.fresh("no"), self.fresh("done")
        self.write(f"br i1 {condition}, label %{there}, label %{other}")
        for label, body in ((there, yes), (other, no)):
            inner, _ = self.inside(label, 0, partial(written, body))
            outer = self.frames[-1]
            outer.lines.extend([f"{label}:", *inner.lines, f"br label %{done}"])
        self.write(f"{done}:")
        self.frames[-1].label = done
