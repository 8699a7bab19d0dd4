"""Every Python block of README.md and of the documentation runs, in order, one file at a time."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    names: dict[str, Any] = {"__name__": page.stem}
    lines = [""] * text.count("\n")  # those that are code, where the page has them
    for block in BLOCK.finditer(text):
        before = text.count("\n", 0, block.start(1))
        inside = block[1].splitlines()
        lines[before : before + len(inside)] = inside
        source = [f"{line}\n" for line in lines]
        linecache.cache[str(page)] = (len("".join(source)), None, source, str(page))
        code = compile("\n" * before + block[1], str(page), "exec")
        exec(code, names)
