"""The checks that guard the source."""

from __future__ import annotations

import doctest
import re

import pytest

from tools import imports, sizes


@pytest.fixture
def package(tmp_path):
    """Writes a package `rushlight` of the given files."""

    def write(files: dict[str, str]):
        root = tmp_path / "rushlight"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return write


class TestImports:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("tensor.py", "from rushlight import dtypes"),
            ("tensor.py", "from rushlight.autograd import modes"),
            ("tensor.py", "import rushlight.autograd.modes"),
            ("ops/reduce.py", "from .base import Op"),
            ("ops/reduce.py", "from ..tensor import Tensor"),
            ("ops/reduce.py", "from . import base"),
            ("dtypes.py", "if TYPE_CHECKING:\n    from rushlight.tensor import Tensor"),
            ("codegen/llvm.py", "def emit():\n    from llvmlite import binding"),
            ("cli.py", "from rushlight import __version__"),
            ("__init__.py", "from rushlight.board import show"),
        ],
    )
    def test_accepted(self, package, name, text):
        files = {"dtypes.py": "", "autograd/modes.py": "", "ops/base.py": "", name: text}
        assert list(imports.violations(package(files))) == []

    @pytest.mark.parametrize(
        ("name", "text", "expected"),
        [
            ("dtypes.py", "\nfrom rushlight import tensor", r"dtypes.py:2: dtypes imports tensor,"),
            ("dtypes.py", "import rushlight.tensor", r":1: dtypes imports tensor,"),
            ("dtypes.py", "from .tensor import Tensor", r":1: dtypes imports tensor,"),
            ("ops/base.py", "from ..nn import Module", r"base.py:1: ops.base imports nn,"),
            ("ops/base.py", "from rushlight import zeros", r":1: ops.base imports rushlight,"),
            ("tensor.py", "from rushlight import autograd", r":1: tensor imports autograd,"),
            ("ops/base.py", "def f():\n    import math", r":2: f\(\) imports math; "),
            ("ops/base.py", "class C:\n  def f(self):\n    import math", r":3: f\(\) imports math"),
            ("novel.py", "", r"novel.py:1: novel is in no layer"),
        ],
    )
    def test_refused(self, package, capsys, name, text, expected):
        files = {"tensor.py": "", "autograd/__init__.py": "", name: text}
        assert imports.main(package(files)) == 1
        (line,) = capsys.readouterr().out.splitlines()
        assert re.search(expected, line)

    def test_examples(self):
        assert doctest.testmod(imports).failed == 0

    def test_a_clean_package_is_silent(self, package, capsys):
        assert imports.main(package({"dtypes.py": "import math"})) == 0
        assert capsys.readouterr().out == ""


class TestSizes:
    def test_report(self, package):
        long = "def f():\n" + "    x = 1\n" * sizes.FILE_LIMIT
        root = package({"ops/long.py": long, "ops/short.py": "def g():\n    return 1\n"})
        lines = [line.strip() for line in sizes.report(root)]
        assert f"601  long.py  over {sizes.FILE_LIMIT}" in lines
        assert "2  short.py" in lines
        assert f"603  {root}/ops/" in lines
        assert "603  in all, 2 files" in lines
        assert lines[-2:] == [f"601  {root}/ops/long.py:1 f", f"2  {root}/ops/short.py:1 g"]

    def test_import_seconds(self):
        assert all(seconds > 0 for seconds in sizes.import_seconds())
