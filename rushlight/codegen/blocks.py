"""Blocks of LLVM assembly in nested loops, with values that move out of loops by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.codegen.instructions import Instructions

Number = str | int  # a name of LLVM's, or a number known now
Carried = list[tuple[str, str]]  # (type, value) of what each turn of a loop hands to the next


class Frame:
    """A part of the text that is still open: the values known in it, and its current block."""

    __slots__ = ("depth", "known", "label", "lines")

    def __init__(self, depth: int, label: str) -> None:
        self.depth, self.label = depth, label
        self.known: dict[Any, str] = {}
        self.lines: list[str] = []


class Blocks(Instructions):
    """Text in frames, one for each open loop.

    While a loop is open, its outer frame takes further lines: they come before the loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frames = [Frame(0, "entry")]

    def write(self, line: str) -> None:
        self.frames[-1].lines.append(line)

    @contextmanager
    def placed(self, depth: int) -> Iterator[None]:
        """Writes into the frame of the loop at ``depth``, before the loops inside of it."""
        frames = self.frames
        last = len(frames) - 1
        while frames[last].depth > depth:
            last -= 1
        self.frames = frames[: last + 1]
        yield
        self.frames = frames

    def find(self, key: Any) -> str | None:
        for frame in reversed(self.frames):
            found = frame.known.get(key)
            if found is not None:
                return found
        return None

    def inside(
        self, label: str, deeper: int, body: Callable[[], list[str]]
    ) -> tuple[Frame, list[str]]:
        """A closed frame in which ``body`` has been written."""
        inner = Frame(self.frames[-1].depth + deeper, label)
        self.frames = [*self.frames, inner]
        results = body()
        self.frames = self.frames[:-1]
        return inner, results

    def each(
        self,
        begin: Number,
        end: Number,
        step: int,
        carried: Carried,
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop; ``body(index, values)`` returns what the next turn gets. The last values."""
        starts = [start for _, start in carried]
        known = isinstance(begin, int) and isinstance(end, int)
        if isinstance(begin, int) and isinstance(end, int):
            if begin >= end:
                return starts
            if begin + step >= end:
                return self.once(begin, starts, body)
        head, done = self.fresh("loop"), self.fresh("done")
        index, phis = f"%{self.fresh('i')}", [f"%{self.fresh('c')}" for _ in carried]
        following = f"%{self.fresh('n')}"

        def turn() -> list[str]:
            new = body(index, phis)
            self.write(f"{following} = add nsw i64 {index}, {step}")
            again = self.let(f"icmp slt i64 {following}, {end}")
            self.write(f"br i1 {again}, label %{head}, label %{done}")
            return new

        inner, new = self.inside(head, 1, turn)
        if known:
            self.write(f"br label %{head}")
        else:
            some = self.let(f"icmp slt i64 {begin}, {end}")
            self.write(f"br i1 {some}, label %{head}, label %{done}")
        outer = self.frames[-1]
        before, last = f"%{outer.label}", f"%{inner.label}"
        ends = [*zip(phis, carried, new, strict=True)]
        self.write(f"{head}:")
        self.write(f"{index} = phi i64 [{begin}, {before}], [{following}, {last}]")
        for phi, (kind, start), x in ends:
            self.write(f"{phi} = phi {kind} [{start}, {before}], [{x}, {last}]")
        outer.lines.extend(inner.lines)
        self.write(f"{done}:")
        outer.label = done
        if known:
            return new
        return [
            self.let(f"phi {kind} [{start}, {before}], [{x}, {last}]")
            for _, (kind, start), x in ends
        ]

    def once(
        self, index: int, values: list[str], body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:
        """A loop of one turn."""
        label = self.fresh("once")
        inner, new = self.inside(label, 1, lambda: body(str(index), values))
        outer = self.frames[-1]
        outer.lines.extend([f"br label %{label}", f"{label}:", *inner.lines])
        outer.label = inner.label
        return new

    def unrolled(
        self, count: int, carried: Carried, body: Callable[[str, list[str]], list[str]]
    ) -> list[str]:
        """A short loop, written out."""
        values = [start for _, start in carried]
        for index in range(count):
            values = self.once(index, values, body)
        return values

    def branch(self, condition: str, kind: str, usual: str, body: Callable[[], str]) -> str:
        """``body``'s value if the condition holds, else ``usual``."""
        there, done = self.fresh("then"), self.fresh("done")
        inner, (x,) = self.inside(there, 0, lambda: [body()])
        outer = self.frames[-1]
        before = outer.label
        self.write(f"br i1 {condition}, label %{there}, label %{done}")
        outer.lines.extend([f"{there}:", *inner.lines, f"br label %{done}", f"{done}:"])
        outer.label = done
        return self.let(f"phi {kind} [{usual}, %{before}], [{x}, %{inner.label}]") if kind else ""
