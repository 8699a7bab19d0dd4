"""Calls of C functions: what an op that is neither loops nor a product becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.c.file import File
from rushlight.graph.ir import Node, TensorType


class Invocation(NamedTuple):
    """A call: ``name(operands, results, scratch, numbers)``.

    Args:
        operands: which of the node's operands are given, by their numbers.
        kinds: the types of its results.
        numbers: further arguments.
        scratch: bytes of working memory.
        errors: what it can fail with.
    """

    name: str
    operands: tuple[int, ...]
    kinds: tuple[TensorType, ...]
    numbers: tuple[str, ...] = ()
    scratch: int = 0
    errors: tuple[Any, ...] = ()


Rule = Callable[[Node, File], Invocation | None]


class Rules(dict[str, Rule]):
    """How ops are called, by their names; a rule answers None to what it does not know."""

    def add(self, *names: str) -> Callable[[Rule], Rule]:
        """Registers the rule of some ops."""

        def register(function: Rule) -> Rule:
            self.update(dict.fromkeys(names, function))
            return function

        return register
