"""The type stubs: current, true of what ops return, and of use to a type checker."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.ops import registry
from tests.sampling import Maker, supported
from tools import stubs

RIGHT = """
from collections.abc import Callable

import rushlight as rl

x = rl.zeros(2, 3).requires_grad_()
x = rl.zeros((2, 3), dtype=rl.float32).view(3, 2).reshape((2, -1)).permute(0, 1) + rl.ones(size=[3])
steps: rl.Tensor = rl.arange(3, dtype=rl.float) + rl.linspace(0, 1, steps=3)
w: rl.Tensor = rl.FloatTensor([1.0, 2.0])
y: rl.Tensor = (x + 1).sum(dim=0)
z: rl.Tensor = -x * 2 + 2**x - 1 / x @ x.T
mask: rl.Tensor = (x == y) & ~(x > 0)
row: rl.Tensor = x[0, 1:, None]
rows: list[rl.Tensor] = [r.softmax(dim=-1, dtype=rl.float64) for r in x]
shape: rl.Size = x.shape
sizes: list[int] = [x.size(0), *shape, x.dim()]
kind: rl.dtype = rl.promote_types(x.dtype, rl.int)
values, indices = x.max(dim=1)
best: rl.Tensor = x.max(1).values + x.max() + x.median() + rl.maximum(x, y)
u, s, vh = rl.linalg.svd(x)
q: rl.Tensor = rl.linalg.qr(x).Q
spectrum: rl.Tensor = rl.fft.rfft(x, dim=0).abs()
bessel: rl.Tensor = rl.special.bessel_j0(x) * rl.signal.windows.hann(3)
pieces: tuple[rl.Tensor, ...] = x.split(1) + rl.unbind(x)
x.add_(1.0).clamp_(min=0).transpose_(0, 1)
x += 1
x[0] = 5
number: float = float(x.sum().item())
truth: bool = rl.allclose(x, x)
function: Callable[[rl.Tensor], rl.Tensor] = rl.relu
with rl.no_grad():
    gradient: rl.Tensor | None = x.grad
if isinstance(x, rl.LongTensor):
    w = x
"""
WRONG = {
    "rl.zeros(2).sof()": 'has no attribute "sof"',
    'rl.zeros("a")': 'incompatible type "str"',
    "rl.zeros(2).softmax(axes=0)": 'Unexpected keyword argument "axes"',
    "rl.zeros(2).relu_(1)": "Too many arguments",
    "rl.zeros(2) + 'a'": "Unsupported operand types",
    "rl.linalg.inverse(rl.zeros(2))": 'has no attribute "inverse"',
    "rl.zeros(2, dtype=int)": '"type[int]"',
    "rl.zeros(2).sum(dim=1.5)": 'incompatible type "float"',
    "rl.zeros(2).sum() and rl.zeros(2).tolst()": 'has no attribute "tolst"',
}


def check_types(path: Path, program: str) -> tuple[int, str]:
    """What mypy in strict mode says of a program that imports the package."""
    path.write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-pretty"]
    where = {"cwd": Path(rl.__file__).parent.parent, "capture_output": True, "text": True}
    done = subprocess.run([*command, "--config-file=", str(path)], **where)
    return done.returncode, done.stdout + done.stderr


def test_stubs_are_current(capsys: pytest.CaptureFixture[str]) -> None:
    assert stubs.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("path", stubs.stubs(), ids=lambda path: path.name)
def test_stubs_are_python(path: Path) -> None:
    ast.parse(path.read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(registry))
def test_ops_return_what_their_stub_says(name: str) -> None:
    op = registry[name]
    stub = stubs.Stub("rushlight")
    text = "\n".join(stub.function("call", op.call))
    if "@typing.overload" in text or "-> Any" in text:
        return
    says = text.partition("\n")[0].rpartition(") -> ")[2].removesuffix(":").removesuffix(": ...")
    for sample in op.samples:
        for dtype in supported(op):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = Maker(dtype).call(op, sample)
            assert spelled(result, says), f"{name}{sample} gives {type(result)}, not {says}"
            break


def spelled(result: object, says: str) -> bool:
    """Whether ``result`` is of the type that is written ``says``."""
    if isinstance(result, rl.Tensor):
        return says == "Tensor"
    if type(result).__module__ == "rushlight.return_types":
        return says == f"_return_types.{type(result).__name__}"
    if isinstance(result, tuple) and not isinstance(result, rl.Size):
        if says == "builtins.tuple[Tensor, ...]":
            return True
        parts = says.removeprefix("builtins.tuple[").removesuffix("]").split(", ")
        kinds = ["None" if part is None else "Tensor" for part in result]
        return len(parts) == len(kinds) and all(map(str.__contains__, parts, kinds))
    return type(result).__name__ in says


class TestTypeChecker:
    @pytest.fixture(autouse=True)
    def _mypy(self) -> None:
        pytest.importorskip("mypy")

    def test_a_right_program_passes(self, tmp_path: Path) -> None:
        code, output = check_types(tmp_path / "right.py", RIGHT)
        assert code == 0, output

    def test_wrong_lines_are_refused(self, tmp_path: Path) -> None:
        program = "import rushlight as rl\n\n" + "\n".join(WRONG) + "\n"
        code, output = check_types(tmp_path / "wrong.py", program)
        assert code == 1, output
        for number, (line, message) in enumerate(WRONG.items(), 3):
            said = [text for text in output.splitlines() if f"wrong.py:{number}: error" in text]
            assert said, f"{line} is accepted:\n{output}"
            assert message in said[0]
