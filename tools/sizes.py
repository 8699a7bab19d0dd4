"""How large the source is and how long its import takes.

Lines per folder and file, the files that are too long, the longest functions.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LIMIT = 600
LONGEST = 10
PROBE = """
import time; start = time.perf_counter()
import numpy; numpy_done = time.perf_counter()
import rushlight; print(numpy_done - start, time.perf_counter() - numpy_done)
"""


def report(root: Path) -> Iterator[str]:
    """The report on the folder `root`, line by line."""
    lines = {path: len(path.read_text("utf-8").splitlines()) for path in sorted(root.rglob("*.py"))}
    for folder in sorted({path.parent for path in lines}):
        files = [path for path in lines if path.parent == folder]
        yield f"{sum(lines[path] for path in files):6}  {folder}/"
        for path in files:
            mark = f"  over {FILE_LIMIT}" if lines[path] > FILE_LIMIT else ""
            yield f"{lines[path]:12}  {path.name}{mark}"
    yield f"{sum(lines.values()):6}  in all, {len(lines)} files"
    yield ""
    yield "the longest functions"
    everywhere = [entry for path in lines for entry in functions(path)]
    for length, place in sorted(everywhere, key=lambda entry: -entry[0])[:LONGEST]:
        yield f"{length:6}  {place}"


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """The length and the place of each function in a file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            yield length, f"{path}:{node.lineno} {node.name}"


def import_seconds() -> tuple[float, float]:
    """How long a fresh interpreter imports NumPy, and then Rushlight."""
    output = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True).stdout
    numpy, rushlight = map(float, output.split())
    return numpy, rushlight


if __name__ == "__main__":
    print(*report(Path("rushlight")), "", sep="\n")
    print("import numpy {:.3f} s, rushlight {:.3f} s more".format(*import_seconds()))
