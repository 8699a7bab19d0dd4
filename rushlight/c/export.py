"""``export_c``: a function or module as C99 that needs nothing but the maths library."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rushlight.c.border import KEYWORDS, border, identifier
from rushlight.c.formulas import contiguous, plain
from rushlight.c.numbers import traced
from rushlight.c.program import Program
from rushlight.io.atomic import replacing
from rushlight.jit.originals import original
from rushlight.nn.module import Module
from rushlight.passes import pipeline
from rushlight.passes.order import plan

LONGEST = 48  # characters of a name


def export_c(
    function: Callable[..., Any],
    *args: Any,
    dir: str | os.PathLike[str],
    name: str | None = None,
    weights: str = "binary",
    **kwargs: Any,
) -> Path:
    """Writes ``function(*args, **kwargs)`` as a program in C.

    The directory gets ``<name>.h``, which says how the program is called, ``<name>.c``, an example
    ``<name>_main.c``, and the tensors that the function uses in ``<name>.weights``. What the
    function changes (parameters, an optimizer's state, running statistics, random generators) is
    the state of the program: a function that makes a training step is one in C, too.

    Args:
        function: a function, a module, or one of them compiled.
        args, kwargs: arguments whose shapes and dtypes are those of the program. Floats are
            arguments of the program, too; ints, strings and flags are constants.
        dir: where to write; made if it is not there. Other files in it stay.
        name: begins all names of the program; that of the function if None.
        weights: ``"binary"``: in a file of their own; ``"array"``: arrays in the C file.

    Returns:
        The path of the C file.

    >>> import tempfile
    >>> path = rl.export_c(rl.nn.Linear(3, 2), rl.ones(1, 3), dir=tempfile.mkdtemp())
    >>> path.name, sorted([other.name for other in path.parent.iterdir()])
    ('linear.c', ['linear.c', 'linear.h', 'linear.weights', 'linear_main.c'])
    """
    if weights not in ("binary", "array"):
        raise ValueError(f'export_c: weights must be "binary" or "array", got {weights!r}')
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"export_c() takes a function or a module, got {function!r}")
    inner = original(function)
    name = checked_name(name if name is not None else default_name(inner))
    found = border(inner, *traced(inner, (args, kwargs)))
    graph = contiguous(pipeline.run(plain(found.graph)))
    values = dict(zip(graph.captured, [found.values[n] for n in found.graph.captured], strict=True))
    arrays = weights == "array"
    program = Program(name, graph, plan(graph), found.inputs, values, arrays, found.numbers)
    folder = Path(dir)
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in program.files().items():
        with replacing(str(folder / path)) as file:
            file.write(content)
    return folder / f"{name}.c"


def default_name(function: Any) -> str:
    text = type(function).__name__ if isinstance(function, Module) else ""
    text = text or getattr(function, "__name__", type(function).__name__)
    return identifier(identifier(text).strip("_").lower()[:LONGEST] or "program")


def checked_name(name: str) -> str:
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{LONGEST - 1}}}", name) or name in KEYWORDS:
        raise ValueError(
            f"export_c: name must be a name of C with at most {LONGEST} characters, got {name!r}"
        )
    return name
