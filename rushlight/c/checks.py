"""Exceptions that values lead to: a run ends with a code, and a message that says which."""

from __future__ import annotations

from rushlight.c.file import File
from rushlight.c.invocations import Invocation, Rules
from rushlight.graph.ir import Node
from rushlight.passes.clusters import types

RULES = Rules()


@RULES.add("script.check")
def check(node: Node, file: File) -> Invocation:
    """``assert`` and ``raise``; the values in their messages are not written."""
    text = "<value>".join(node.attrs["texts"])
    kind = node.attrs["kind"]
    file.snippets.need("require")

    def error(_: int) -> str:
        return f"{kind}: {text}" if text else kind

    return Invocation("require", (0, 1), tuple(types(node)), errors=(error,))
