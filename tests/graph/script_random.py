"""Functions written at random: branches, loops and jumps in each other, in plain Python.

Variables keep their types: ``a`` and ``b`` are vectors, ``s`` is a 0-d tensor, ``n`` an int. All
numbers are few-bit fractions, so that both modes compare the same values.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np


class Writer:
    """Writes the source of one function."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.lines: list[str] = []
        self.loops = 0

    def pick(self, *options: str) -> str:
        return options[self.random.integers(len(options))]

    def function(self, depth: int) -> str:
        self.lines = ["def function(x, w):", "    a, b, s, n = x, w[0], x.sum() * 0, 0"]
        self.block(depth, "    ", in_loop=False)
        self.line("    ", "return a, b * s, n")
        return "\n".join(self.lines) + "\n"

    def line(self, indent: str, text: str) -> None:
        self.lines.append(indent + text)

    def block(self, depth: int, indent: str, in_loop: bool) -> None:
        for _ in range(self.random.integers(1, 4)):
            self.statement(depth, indent, in_loop)

    def statement(self, depth: int, indent: str, in_loop: bool) -> None:
        kind = self.pick("assign", "assign", "if", "if", "while", "rows", "range", "count", "jump")
        if depth == 0 or kind == "assign":
            self.assignment(indent)
        elif kind == "jump":
            self.line(indent, f"if {self.condition()}:")
            self.assignment(indent + "    ")
            back = "return a, b, n"
            self.line(indent + "    ", self.pick("break", "continue", back) if in_loop else back)
            if self.random.random() < 0.3:
                self.line(indent, "else:")
                self.block(depth - 1, indent + "    ", in_loop)
        elif kind == "if":
            self.line(indent, f"if {self.condition()}:")
            self.block(depth - 1, indent + "    ", in_loop)
            if self.random.random() < 0.3:
                self.line(indent, f"elif {self.condition()}:")
                self.block(depth - 1, indent + "    ", in_loop)
            if self.random.random() < 0.6:
                self.line(indent, "else:")
                self.block(depth - 1, indent + "    ", in_loop)
        else:
            self.loop(kind, depth, indent)

    def loop(self, kind: str, depth: int, indent: str) -> None:
        self.loops += 1
        i, inner = f"i{self.loops}", indent + "    "
        if kind == "while":
            self.line(indent, f"{i} = 0")
            self.line(indent, f"while {i} < {self.random.integers(1, 5)} and ({self.condition()}):")
            self.line(inner, f"{i} += 1")
        elif kind == "rows":
            self.line(indent, f"for {i} in w:")
            self.line(inner, f"b = (b + {i}).clamp(-4, 4)")
        elif kind == "range":
            self.line(indent, f"for {i} in range({self.random.integers(1, 4)}):")
            self.line(inner, f"s = s + {i} * 0.5")
        else:
            self.line(indent, f"for {i} in range(int((a > 0).sum())):")
            self.line(inner, f"a = a + {i} * 0.25")
        self.block(depth - 1, inner, in_loop=True)
        if self.random.random() < 0.15:
            self.line(indent, "else:")
            self.assignment(inner)

    def assignment(self, indent: str) -> None:
        self.line(
            indent,
            self.pick(
                "a = (a + b).clamp(-4, 4)", "a = a * 0.5 + 0.25", "a, b = b, a", "b = -b",
                "b = (b * s).clamp(-2, 2)", "s = (s + a[0]).clamp(-4, 4)", "s = a.max() - b.min()",
                "n += 1", "n = n * 2 - 3", "a = a + n % 3", "b = a if s > 0 else b.abs()",
                "s = s * (0.5 if n > 2 else 1)", "a = b.abs() * 0.5",
                f"t = a - b\n{indent}a = t",
            ),
        )  # fmt: skip

    def condition(self) -> str:
        simple = self.pick(
            "s > 0.3", "a.sum() > b.sum()", "n < 3", "a[0] < 0.6", "(b > 0).all()", "n % 2 == 0",
            "-1 < s < 1.1", "a[1] > n", "not b[0] > 0.1",
        )  # fmt: skip
        if self.random.random() < 0.25:
            return f"{simple} {self.pick('and', 'or')} {self.condition()}"
        return simple


def written(seed: int, depth: int) -> tuple[Callable[[Any, Any], Any], str]:
    """A function made at random, and its source, which Python knows as that of a file."""
    text = Writer(seed).function(depth)
    file = f"/random/function_{seed}_{depth}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {}
    exec(compile(text, file, "exec"), space)
    return space["function"], text
