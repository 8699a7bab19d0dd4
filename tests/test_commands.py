"""``rushlight show`` and ``rushlight infer``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight.cli import main

ROOT = str(Path(rl.__file__).parents[1])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program, a checkpoint, arrays and a broken file, where commands run."""
    monkeypatch.chdir(tmp_path)
    rl.manual_seed(0)
    net = rl.nn.Sequential(rl.nn.Linear(3, 2), rl.nn.Dropout(0.5), rl.nn.Tanh())
    rl.jit.trace(net, rl.rand(4, 3)).save("net.pt")
    rl.export(lambda x, k: (x * k, {"n": x.sum()}), rl.ones(2), 2.0).save("pair.pt")
    rl.save(net.state_dict(), "state.pt")
    np.save("x.npy", np.ones((5, 3)))
    np.save("two.npy", np.ones(2, np.float32))
    data = Path("net.pt").read_bytes()
    Path("broken.pt").write_bytes(data[: len(data) // 2])
    return tmp_path


class TestShow:
    def test_program(self, folder, capsys):
        assert main(["show", "net.pt"]) == 0
        text = capsys.readouterr().out
        assert "Sequential(input: f32[4,3]) -> f32[4,2] in evaluation mode" in text
        assert "Sequential(input: f32[B,3]) -> f32[B,2] in training mode" in text
        assert "= tanh(" in text
        assert "0.weight  float32  [2, 3]" in text
        assert "2 tensors, 8 elements, 32 bytes" in text

    def test_checkpoint_and_arrays(self, folder, capsys):
        assert main(["show", "state.pt"]) == 0
        assert "0.bias    float32  [2]" in capsys.readouterr().out
        assert main(["show", "x.npy"]) == 0
        assert "float64  [5, 3]" in capsys.readouterr().out

    def test_pictures(self, folder, capsys):
        assert main(["show", "net.pt", "--svg", "net.svg", "--html=net.html"]) == 0
        assert capsys.readouterr().out == ""
        drawn = Path("net.svg").read_text()
        assert all([f">{name}<" in drawn for name in ("tanh", "input", "0.weight")])
        page = Path("net.html").read_text()
        assert "<svg" in page
        assert "f32[B,3]" in page


class TestInfer:
    def test_result_on_the_screen(self, folder, capsys):
        assert main(["infer", "net.pt", "--input", "x.npy"]) == 0
        text = capsys.readouterr().out
        expected = rl.jit.load("net.pt").eval()(rl.ones(5, 3)).detach()
        assert text == f"{expected}\n"

    def test_result_in_a_file(self, folder, capsys):
        assert main(["infer", "net.pt", "--input=x.npy", "--output=y.npy"]) == 0
        assert np.load("y.npy").shape == (5, 2)
        assert main(["infer", "pair.pt", "--input", "two.npy", "--input", "3", "--output",
                     "y.npz"]) == 0  # fmt: skip
        found = np.load("y.npz")
        assert found["0"].tolist() == [3.0, 3.0]
        assert found["1.n"].item() == 2.0
        assert capsys.readouterr().out == ""

    def test_whole_numbers_and_names(self, folder, capsys):
        rl.export(lambda x, n, k=0.5: x.repeat(n) * k, rl.ones(2), 3).save("several.pt")
        assert main(["infer", "several.pt", "--input", "two.npy", "--input", "3"]) == 0
        assert (
            capsys.readouterr().out == "tensor([0.5000, 0.5000, 0.5000, 0.5000, 0.5000, 0.5000])\n"
        )
        np.save("a=b.npy", np.ones(2))
        command = ["infer", "several.pt", "--input", "a=b.npy", "--input=k=2", "--input", "n=3"]
        assert main(command) == 0
        assert capsys.readouterr().out == "tensor([2., 2., 2., 2., 2., 2.])\n"

    def test_results_that_are_numbers(self, folder, capsys):
        @rl.jit.script
        def halve(x):
            n = 0
            while x.norm() > 1:
                x = x / 2
                n += 1
            return x, n, 0.5

        halve(rl.ones(2) * 9)
        rl.jit.save(halve, "halve.pt")
        np.save("nine.npy", np.full(2, 9, "f4"))
        assert main(["infer", "halve.pt", "--input", "nine.npy"]) == 0
        assert capsys.readouterr().out == "0: tensor([0.5625, 0.5625])\n1: 4\n2: 0.5\n"
        assert main(["infer", "halve.pt", "--input=nine.npy", "--output=y.npz"]) == 0
        found = np.load("y.npz")
        assert [*found] == ["0", "1", "2"]
        assert found["1"].item() == 4
        assert main(["infer", "net.pt", "--input=x.npy", "--output=one.npz"]) == 0
        assert [*np.load("one.npz")] == ["0"]


class TestOnnx:
    @pytest.fixture
    def models(self, folder):
        """A network of named inputs and outputs, and a loop with two results."""
        pytest.importorskip("onnx")
        rl.manual_seed(0)
        net = rl.nn.Sequential(rl.nn.Linear(3, 2), rl.nn.ReLU()).eval()
        names = {"input_names": ["features"], "output_names": ["scores"]}
        rl.onnx.export(net, (rl.ones(4, 3),), "net.onnx", dynamic_axes={"features": [0]}, **names)

        def halve(x):
            n = 0
            while x.norm() > 1:
                x = x / 2
                n = n + 1
            return x, n

        script = rl.jit.script(halve)
        rl.onnx.export(script, (rl.ones(2),), "halve.onnx", output_names=["half", "n"])
        return net

    def test_text(self, models, capsys):
        assert main(["show", "net.onnx"]) == 0
        text = capsys.readouterr().out
        assert "model(features: f32[*,3]) -> scores\n" in text
        assert "scores = Relu(" in text
        assert "0.weight  float32  [2, 3]" in text
        assert main(["show", "halve.onnx"]) == 0
        text = capsys.readouterr().out
        assert " = Loop(None, " in text
        assert "\n    body(" in text
        assert "Div(carried_1, 2)" in text

    def test_pictures(self, models, capsys):
        assert main(["show", "halve.onnx", "--svg=halve.svg", "--html=halve.html"]) == 0
        assert capsys.readouterr().out == ""
        drawn = Path("halve.svg").read_text()
        assert all([f">{text}<" in drawn for text in ("Loop", "body", "Div(·, 2)", "half")])
        assert drawn in Path("halve.html").read_text()

    def test_results(self, models, capsys):
        assert main(["infer", "net.onnx", "--input", "x.npy", "--output", "y.npy"]) == 0
        assert np.allclose(np.load("y.npy"), models(rl.ones(5, 3)).detach().numpy())
        assert main(["infer", "net.onnx", "--input", "features=x.npy", "--output=z.npy"]) == 0
        assert Path("y.npy").read_bytes() == Path("z.npy").read_bytes()
        assert main(["infer", "net.onnx", "--input", "x.npy", "--output", "y.npz"]) == 0
        assert [*np.load("y.npz")] == ["scores"]
        np.save("nine.npy", np.full(2, 9, "f4"))
        assert main(["infer", "halve.onnx", "--input", "nine.npy"]) == 0
        assert capsys.readouterr().out == "half: tensor([0.5625, 0.5625])\nn: 4\n"

    @pytest.mark.parametrize(
        ("arguments", "status", "expected"),
        [
            (["show", "missing.onnx"], 2, "cannot read missing.onnx: No such file"),
            (["show", "broken.onnx"], 1, "broken.onnx: "),
            (["infer", "net.onnx"], 1, "net.onnx: inputs are missing: features"),
            (
                ["infer", "net.onnx", "--input", "two.npy"],
                1,
                "must have the shape (*, 3), got (2,)",
            ),
            (["infer", "net.onnx", "--input=x.npy", "--input=x.npy"], 1, "takes 1 inputs"),
        ],
    )
    def test_errors_are_one_line(self, models, capsys, arguments, status, expected):
        Path("broken.onnx").write_bytes(Path("net.onnx").read_bytes()[:50])
        assert main(arguments) == status
        output = capsys.readouterr()
        assert output.out == ""
        assert expected in output.err
        assert output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["show"], 2, "which file"),
        (["show", "a", "b"], 2, "one file"),
        (["show", "missing.pt"], 2, "cannot read missing.pt: No such file"),
        (["show", "."], 2, "cannot read .: cannot load a folder"),
        (["show", "net.pt", "--png", "x"], 2, "unknown flag --png"),
        (["show", "net.pt", "--htm", "x"], 2, "unknown flag --htm, did you mean --html?"),
        (["infer", "net.pt", "-i", "x.npy"], 2, "unknown flag -i"),
        (["infer", "net.pt", "x.npy"], 2, "arrays follow --input"),
        (["show", "net.pt", "--svg"], 2, "--svg needs a value"),
        (["show", "broken.pt"], 1, "broken.pt: the archive is damaged"),
        (["show", "state.pt", "--svg", "x.svg"], 1, "holds no program"),
        (["show", "net.pt", "--svg", "no/folder.svg"], 1, "cannot write no/folder.svg"),
        (["infer", "net.pt", "--input=x.npy", "--output=y.txt"], 2, "ends in .npy or .npz"),
        (["infer", "state.pt"], 1, "state.pt holds no program"),
        (["infer", "net.pt"], 1, r"net.pt: Sequential(): input: expected a tensor f32[4,3]"),
        (["infer", "net.pt", "--input", "missing.npy"], 2, "cannot read missing.npy"),
        (["infer", "net.pt", "--input", "input=missing.npy"], 2, "cannot read missing.npy"),
        (
            ["infer", "net.pt", "--input", "y=x.npy"],
            1,
            "net.pt: Sequential(): takes (input), got 'y'",
        ),
        (["infer", "net.pt", "--input=x.npy", "--input=input=x.npy"], 1, "input: given twice"),
        (["infer", "net.pt", "--input=input=1", "--input=input=1"], 2, "input is given twice"),
        (["infer", "net.pt", "--input", "broken.pt"], 1, "broken.pt"),
        (["infer", "pair.pt", "--input=two.npy", "--input=1", "--output=y.npy"], 1, "2 results"),
    ],
)
def test_errors_are_one_line(folder, capsys, arguments, status, expected):
    assert main(arguments) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert expected in output.err
    assert output.err.count("\n") == 1
    assert not Path("y.npy").exists()


def test_a_program_runs_where_nothing_else_is_known(folder):
    command = [sys.executable, "-m", "rushlight", "infer", "net.pt", "--input", "x.npy"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={"PYTHONPATH": ROOT}
    )
    assert done.stdout.startswith("tensor([[")
