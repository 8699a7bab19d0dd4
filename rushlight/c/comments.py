"""Comments of C: what a statement computes, and which line of the user's it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rushlight.graph.ir import ITEM, Node

MOST = 60  # characters of the names of ops


def harmless(text: str) -> str:
    """A text that neither ends a comment or a string, nor joins the next line to it.

    >>> harmless("a */ b \\\\ c.py:3")
    'a _/ b _ c.py:3'
    """
    return re.sub(r"[^A-Za-z0-9 _.,:;()<>=/+'\[\]-]", "_", text).replace("//", "/_")


def origin(nodes: Sequence[Node]) -> str:
    """The module and the line of the user's that some nodes come from."""
    sources = [node.source for node in nodes if node.source is not None]
    return harmless(str(sources[-1])) if sources else ""


def comment(nodes: Sequence[Node]) -> str:
    """What some nodes do, as a line of C."""
    names = ", ".join([n.op.full_name for n in nodes if n.op is not ITEM])
    if len(names) > MOST:
        names = f"{names[:MOST].rpartition(',')[0]}, ..."
    where = origin(nodes)
    return f"/* {harmless(names)}{f': {where}' if where else ''} */"
