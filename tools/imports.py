"""Checks that imports point down the pipeline, and that none hides in a function.

A module may import its own layer and the layers before it. Imports for annotations only (under
``if TYPE_CHECKING``) are free, since they never run.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# A line is one layer, from the foundation to the command line. The longest name that fits counts.
LAYERS = (
    ("errors", "config", "memory"),
    ("dtypes", "dims"),
    ("device", "layouts"),
    ("generator",),
    ("kernels",),
    ("autograd.modes",),
    ("symbol",),
    ("tensor",),
    ("interop", "literals", "printing", "random", "storage", "typed"),
    ("autograd",),
    ("ops",),
    ("fft", "linalg", "masked", "return_types", "signal", "special"),  # namespaces of ops
    ("drawing", "func", "testing"),
    ("control",),
    ("accelerator", "amp", "backends", "cuda", "settings", "version", "xpu"),
    ("graph",),
    ("passes",),
    ("codegen",),
    ("runtime",),
    ("nn",),
    ("func.modules",),  # functions of modules, loaded on demand
    ("distributions",),
    ("optim",),
    ("compile",),
    ("compiler",),
    ("profiler",),
    ("autograd.profiler",),  # PyTorch's older names, loaded on demand
    ("_dynamo", "_inductor"),  # names of PyTorch's
    ("data",),
    ("io",),
    ("jit",),
    ("export",),
    ("c", "onnx"),
    ("multiprocessing", "serialization", "types"),
    ("vision",),
    ("frontends",),
    ("distributed",),
    ("board",),
    ("utils",),
    ("",),  # the package itself: the public names
    ("cli", "commands", "__main__"),
)
# What a function may import, since it is heavy or optional.
LAZY = ("llvmlite", "onnx", "mpi4py", "pyopencl", "tensorboard", "PIL")

RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}


class Import(NamedTuple):
    """One imported module: its full name, and the function that the statement stands in."""

    line: int
    target: str
    function: str


def violations(root: Path) -> Iterator[str]:
    """The refused imports of the package in the folder `root`, each as ``file:line: why``."""
    paths = {name_of(path.relative_to(root)): path for path in sorted(root.rglob("*.py"))}
    known = {f"{root.name}.{module}".rstrip(".") for module in paths}
    for module, path in paths.items():
        own = rank(module)
        if own is None:
            yield f"{path}:1: {module} is in no layer of tools/imports.py"
            continue
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        tree = ast.parse(path.read_text("utf-8"))
        for line, target, function in imports(tree, f"{root.name}.{package}".rstrip("."), known):
            top, _, name = target.partition(".")
            if function and top not in LAZY:
                yield f"{path}:{line}: {function}() imports {target}; import it at the top"
            elif top == root.name and (rank(name) or 0) > own:
                yield f"{path}:{line}: {module or root.name} imports {name or top}, a later layer"


def imports(node: ast.AST, package: str, known: set[str], function: str = "") -> Iterator[Import]:
    """The imports below a node of a module in `package`, those for annotations left out."""
    match node:
        case ast.Import():
            yield from (Import(node.lineno, alias.name, function) for alias in node.names)
        case ast.ImportFrom():
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *filter(None, [base])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield Import(node.lineno, inner if inner in known else base, function)
        case ast.If(test=ast.Name("TYPE_CHECKING")):
            for statement in node.orelse:
                yield from imports(statement, package, known, function)
        case _:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                function = node.name
            for child in ast.iter_child_nodes(node):
                yield from imports(child, package, known, function)


def rank(module: str) -> int | None:
    """The layer of a module, which is named without the package; None if it is in none.

    >>> rank("autograd.modes") < rank("tensor") < rank("autograd.engine") < rank("")
    True
    """
    parts = module.split(".")
    fits = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((RANKS[name] for name in fits if name in RANKS), None)


def name_of(path: Path) -> str:
    """The module in a file of the package.

    >>> name_of(Path("autograd/modes.py")), name_of(Path("autograd/__init__.py"))
    ('autograd.modes', 'autograd')
    """
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main(root: Path) -> int:
    found = list(violations(root))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path("rushlight")))
