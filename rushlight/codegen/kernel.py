"""Kernels: loop programs over scalar values.

A kernel runs over *rows*, which do not depend on each other, and for each row through *stages*: a
stage is a nest of loops in which folds are accumulated and elements are stored. An elementwise
group has one stage without loops; a softmax has three over its columns: maximum, sum, store.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rushlight.codegen.pull import Buffer
from rushlight.codegen.traverse import walk
from rushlight.codegen.values import Builder, Loop, Value
from rushlight.dims import Size, at, example


class Fault(Protocol):
    """What a program ends with: an exception for the position that was met."""

    def __call__(self, position: int) -> Exception: ...

    def at(self, sizes: Mapping[str, int]) -> Fault:
        """The same where symbols are these numbers."""


@dataclass(frozen=True, eq=False, slots=True)
class Store:
    """``buffer[index] = value``, or combined by ``how`` with what is there."""

    buffer: Buffer
    index: Value
    value: Value
    how: str = "set"

    def __repr__(self) -> str:
        return f"{show_buffer(self.buffer)}[{self.index!r}] {self.how} {self.value!r}"


@dataclass(frozen=True, eq=False, slots=True)
class Accumulation:
    """A fold (or scan), and what it combines: its operands, or values that are equal to them."""

    value: Value
    body: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """Loops in which folds and scans are accumulated and elements are stored."""

    loops: tuple[Loop, ...]
    folds: tuple[Accumulation, ...] = ()
    scans: tuple[Accumulation, ...] = ()
    stores: tuple[Store, ...] = ()

    @property
    def roots(self) -> list[Value]:
        """The values that one turn of the loops needs."""
        bodies = [arg for fold in (*self.folds, *self.scans) for arg in fold.body]
        return [*bodies, *[v for store in self.stores for v in (store.index, store.value)]]

    def with_roots(self, roots: Iterable[Value]) -> Stage:
        """The same stage made of other values, in the order of :attr:`roots`."""
        new = iter(roots)

        def renewed(parts: tuple[Accumulation, ...]) -> tuple[Accumulation, ...]:
            return tuple([Accumulation(p.value, tuple([next(new) for _ in p.body])) for p in parts])

        folds, scans = renewed(self.folds), renewed(self.scans)
        stores = [Store(s.buffer, next(new), next(new), s.how) for s in self.stores]
        return Stage(self.loops, folds, scans, tuple(stores))


@dataclass(frozen=True, slots=True)
class Window:
    """``loop`` runs over the part of ``chunk`` indices that the variable ``part`` counts."""

    part: Loop
    loop: Loop
    chunk: int


@dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """Loops over rows, the stages of a row, and the one loop that is vectorised.

    If the vectorised loop is a row, it is the innermost one. ``count`` is how many parts a caller
    may hand out (the product of the rows around it, or its own size if it is alone); ``chunk`` is
    how many of them are worth a thread's while. ``across`` is a row of which a part has all, in
    squares with the vectorised loop: its neighbours are read beside each other.
    """

    b: Builder
    rows: tuple[Loop, ...]
    stages: tuple[Stage, ...]
    vector: Loop | None
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    errors: tuple[Fault, ...]
    count: Size
    chunk: int
    work: int  # of one part, in elements
    window: Window | None = None
    across: Loop | None = None

    def __str__(self) -> str:
        return show(self)

    def parts_at(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """How many parts there are for these sizes, and how many of them make a chunk."""
        if min([at(loop.size, sizes) for loop in self.rows], default=0) < 0:
            raise ValueError(f"a loop has a size below 0 for the sizes {dict(sizes)}")
        count, lone = at(self.count, sizes), self.rows == (self.vector,)
        return count, chunk_of(count, self.work, LINE if lone else 1) if count else 1


def values_of(stages: Iterable[Stage]) -> list[Value]:
    """All values that some stages compute, operands first."""
    folds = {fold.value for stage in stages for fold in (*stage.folds, *stage.scans)}
    return walk([v for stage in stages for v in stage.roots], folds)


def make_kernel(
    b: Builder,
    rows: Sequence[Loop],
    stages: Sequence[Stage],
    vector: Loop | None,
    work: int,
    window: Window | None = None,
    across: Loop | None = None,
) -> Kernel:
    """A kernel with its buffers and errors found; ``work`` is the cost of one row in elements."""
    values = values_of(stages)
    stored = {s.buffer: None for stage in stages for s in stage.stores if not s.buffer.local}
    loaded = {v.data: None for v in values if v.op == "load" and not v.data.local}
    outer = [loop for loop in rows if loop is not vector and loop is not across]
    lone = vector in rows and not outer
    count = vector.size if vector is not None and lone else math.prod([n.size for n in outer])
    return Kernel(
        b=b,
        rows=(*outer, *[n for n in (across, vector) if n is not None and n in rows]),
        stages=tuple(stages),
        vector=vector,
        inputs=tuple([buffer for buffer in loaded if buffer not in stored]),
        outputs=tuple(stored),
        errors=tuple({v.data: None for v in values if v.op == "checked"}),
        count=count,
        chunk=chunk_of(max(1, example(count)), work, LINE if lone else 1),
        work=work,
        window=window,
        across=across,
    )


CHUNK = 32768
"""Elements that are worth a thread's while."""

CHUNKS = 32
"""Of a kernel at most: threads that take turns too often wait for each other's cache lines."""

LINE = 64  # elements that fill lines of the cache, and lanes, whatever their kind


def chunk_of(count: int, work: int, least: int = 1) -> int:
    """How many parts of a kernel make one chunk, by shape alone: chunks of about one size.

    Those of many small parts, and of lanes, end with a cache line.
    """
    chunks = min(CHUNKS, -(-count // max(least, CHUNK // max(1, work))))
    chunks += chunks % 2 if chunks > 1 else 0  # so that two threads end together
    chunk = max(least, -(-count // chunks))
    return min(count, -(-chunk // LINE) * LINE) if chunk >= LINE else chunk


def show_buffer(buffer: Buffer) -> str:
    name = "local" if buffer.local else "part" if buffer.node is None else buffer.node.op.name
    return f"{name}<{buffer.kind}{list(buffer.shape)}>"


def show(kernel: Kernel) -> str:
    """The loops as indented text."""
    lines, depth = [], 0
    for row in kernel.rows:
        mark = " vector" if row is kernel.vector else " parallel"
        lines.append(f"{'  ' * depth}for {row.name} in {row.size}{mark}")
        depth += 1
    for stage in kernel.stages:
        inner = depth
        for loop in stage.loops:
            mark = " vector" if loop is kernel.vector else ""
            lines.append(f"{'  ' * inner}for {loop.name} in {loop.size}{mark}")
            inner += 1
        for fold in (*stage.folds, *stage.scans):
            how = f"{fold.value.op} {fold.value.data.how}"
            lines.append(f"{'  ' * inner}{how} {list(fold.body)}")
        lines.extend([f"{'  ' * inner}{store!r}" for store in stage.stores])
    return "\n".join(lines)
