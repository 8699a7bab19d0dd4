"""Calls of native functions in the order of time, each with a table of buffers of its own.

Sequences do not depend on each other, so threads share *them*: each takes a block of rows through
all calls, and nobody waits for anybody in between.
"""

from __future__ import annotations

from rushlight.codegen.native import NativeText

FIELDS = ("count", "row_block", "calls")
"""The table: how many calls there are, the rows of a part, and for each call its function, the
address of its buffers, how many rows it has, and whether it counts rows (1) or blocks of them."""

CALL = 4  # words of a call
NAME = "timeline_u8"


class Timeline(NativeText):
    """The text of the function, whose one buffer is the table."""

    def __init__(self) -> None:
        super().__init__("u8")

    def text(self) -> str:
        self.head = self.fields(self.buffer(0), FIELDS, 1)
        self.each("%begin", "%end", 1, [], lambda part, _: self.part(part))
        return self.function(NAME)

    def part(self, part: str) -> list[str]:
        """A block of rows, through all calls."""
        begin = self.let(f"mul i64 {part}, {self.head['row_block']}")
        self.each("0", self.head["count"], 1, [], lambda n, _: self.called(n, part, begin))
        return []

    def called(self, number: str, part: str, begin: str) -> list[str]:
        """One call, if it has rows of the block."""
        own = self.offset(self.head["calls"], self.let(f"mul i64 {number}, {CALL}"))
        all_of_it = self.let(f"add i64 {begin}, {self.head['row_block']}")
        end = self.least(all_of_it, self.entry(own, 2))
        by_rows = self.let(f"icmp ne i64 {self.entry(own, 3)}, 0")
        next_part = self.let(f"add i64 {part}, 1")
        first = self.let(f"select i1 {by_rows}, i64 {begin}, i64 {part}")
        last = self.let(f"select i1 {by_rows}, i64 {end}, i64 {next_part}")
        function, buffers = [
            self.let(f"load ptr, ptr {self.offset(own, n)}, align 8") for n in (0, 1)
        ]
        there = self.let(f"icmp slt i64 {begin}, {end}")
        call = f"call void {function}(ptr {buffers}, i64 {first}, i64 {last})"
        self.choose(there, lambda: self.write(call), lambda: None)
        return []
