"""Exported programs by PyTorch's names: sizes that change, files, what is taken and given."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.export import Dim, ExportedProgram, dims
from rushlight.symbol import TraceError
from rushlight.testing import assert_close
from tests.sampling import flat


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("scale", rl.tensor(2.0), persistent=False)

    def forward(self, x: Any, offset: Any = None, *, flag: bool = True) -> Any:
        y = self.norm(self.linear(x)) * self.scale
        return {"y": y if offset is None else y + offset, "x": x + 1 if flag else x}


def classifier() -> Classifier:
    rl.manual_seed(0)
    return Classifier().eval()


def reloaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    rl.export.save(program, file)
    return rl.export.load(io.BytesIO(file.getvalue()))


def test_a_namespace_that_is_a_function() -> None:
    assert rl.export(lambda x: x + 1, rl.ones(2))(rl.zeros(2)).tolist() == [1, 1]
    assert sys.modules["rushlight.export"] is rl.export
    assert rl.export.Dim is Dim


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": {0: Dim("batch")}},
        ({0: Dim("batch"), 1: None},),
        [(Dim("batch"), 3)],
        {"x": [Dim.DYNAMIC, Dim.STATIC]},
        {"x": {-2: Dim.AUTO, 1: Dim.AUTO}},
    ],
    ids=["names", "tuple", "list", "hints", "auto"],
)
def test_sizes_that_change(shapes: Any) -> None:
    model = classifier()
    program = rl.export.export(model, (rl.rand(4, 3),), dynamic_shapes=shapes)
    for module in (program.module(), reloaded(program).module()):
        for batch in (4, 1, 7):
            x = rl.rand(batch, 3)
            assert_close(module(x)["y"], model(x)["y"])
    with pytest.raises(TypeError, match=r"tensor f32\[(B|batch),3\], got f32\[4,2\]"):
        module(rl.rand(4, 2))


class Patches(nn.Module):
    """The beginning and the end of a vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, 6, 4, 4), nn.Linear(6, 7)
        self.token, self.places = nn.Parameter(rl.rand(1, 1, 6)), nn.Parameter(rl.rand(1, 5, 6))

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = rl.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(x).mean(1)


class Turned(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.transpose(1, 2)
        return y.sum(1), y.reshape(-1, 8), x.transpose(0, 1).contiguous().view(-1, 5)


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x)


@pytest.mark.parametrize("example", [1, 2, 4])
@pytest.mark.parametrize(
    ("make", "sides"),
    [
        (Patches, (3, 8, 8)),
        (Turned, (8, 5)),
        (Heads, (6, 8)),
        (lambda: nn.LSTM(5, 4, batch_first=True), (8, 5)),
        (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (6, 8)),
    ],
    ids=["patches", "turned", "heads", "lstm", "encoder"],
)
def test_a_batch_of_one_is_like_any_other(make: Any, sides: tuple[int, ...], example: int) -> None:
    model, batch = make(), Dim("batch", min=1, max=64)
    args = (rl.rand(example, *sides),)
    module = rl.export.export(model, args, dynamic_shapes=({0: batch},)).module()
    for size in (1, 2, 5):
        x = rl.rand(size, *sides)
        wanted, found = flat(model(x)), flat(module(x))
        assert [f.shape for f in found] == [w.shape for w in wanted]
        for f, w in zip(found, wanted, strict=True):
            assert_close(f, w)


def test_other_sizes_are_part_of_the_program() -> None:
    module = rl.export.export(classifier(), (rl.rand(4, 3),)).module()
    assert module(rl.rand(4, 3))["y"].shape == (4, 2)
    with pytest.raises(TypeError, match=r"expected a tensor f32\[4,3\], got f32\[5,3\]"):
        module(rl.rand(5, 3))


def test_bounds() -> None:
    batch = Dim("batch", min=2, max=64)
    program = rl.export.export(classifier(), (rl.rand(4, 3),), dynamic_shapes={"x": {0: batch}})
    for each in (program, reloaded(program)):
        assert each.range_constraints == {"batch": (2, 64)}
        assert each.module()(rl.rand(64, 3))["y"].shape == (64, 2)
        for size in (1, 65):
            with pytest.raises(TypeError, match=rf"the sizes \{{'batch': {size}\}}: batch"):
                each.module()(rl.rand(size, 3))
    with pytest.raises(ValueError, match="is 1, out of bounds"):
        rl.export.export(classifier(), (rl.rand(1, 3),), dynamic_shapes={"x": {0: batch}})
    with pytest.raises(ValueError, match="inconsistent min=3, max=2"):
        Dim("x", min=3, max=2)
    assert repr(dims("h", "w", min=8)) == "(Dim('h', min=8), Dim('w', min=8))"


class Doubled(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return rl.cat([x, x]).sum(0) * len(x), y.flatten()


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [
        ("batch", "length", ("batch", "length")),
        ("T", "B", ("B", "T")),  # letters of other sizes, which would be misunderstood
        ("max", "of words", ("B", "T")),
    ],
)
def test_sizes_have_the_names_of_their_dims(first: str, second: str, shown: Any) -> None:
    shapes = {"x": {0: Dim(first)}, "y": {0: Dim(second)}}
    program = rl.export.export(Doubled(), (rl.rand(4, 3), rl.rand(5, 2)), dynamic_shapes=shapes)
    for each in (program, reloaded(program)):
        text = str(each)
        assert f"graph(%0: f32[{shown[0]},3], %1: f32[{shown[1]},2]" in text
        assert f"f32[2*{shown[0]},3] = cat(" in text
        assert list(each.range_constraints) == [*shown]
        with pytest.raises(TypeError, match=rf"expected a tensor f32\[{shown[1]},2\]"):
            each.module()(rl.rand(4, 3), rl.rand(5, 3))
        assert each.module()(rl.rand(2, 3), rl.rand(7, 2))[1].shape == (14,)


def test_a_multiple_of_a_size_has_no_name() -> None:
    class Halves(nn.Module):
        def forward(self, x: Any) -> Any:
            first, second = x.chunk(2)
            return first * second

    program = rl.export.export(Halves(), (rl.rand(4),), dynamic_shapes={"x": {0: Dim("n")}})
    assert "f32[2*B]" in str(program)


class Sum(nn.Module):
    def forward(self, x: Any, *others: Any, last: Any = None) -> Any:
        for other in (*others, *(last or {}).values()):
            x = x + other
        return x


def test_sizes_of_several_arguments() -> None:
    args, named = (rl.ones(4), rl.ones(4), rl.ones(4)), {"last": {"a": rl.ones(4)}}
    n = Dim("n")
    by_name = {"x": {0: n}, "others": ({0: n}, {0: n}), "last": {"a": {0: n}}}
    by_hints = {"x": {0: n}, "others": ([Dim.AUTO], [Dim.DYNAMIC]), "last": {"a": [Dim.AUTO]}}
    for shapes in (by_name, by_hints):
        module = rl.export.export(Sum(), args, named, dynamic_shapes=shapes).module()
        x = rl.ones(7)
        assert module(x, x, x, last={"a": x}).tolist() == [4] * 7
        with pytest.raises(TypeError, match=r"expected a tensor f32\[n\], got f32\[6\]"):
            module(x, x, x, last={"a": rl.ones(6)})


def test_many_sizes_without_names() -> None:
    x = rl.ones(4)
    spec = [Dim.AUTO(max=9)]
    program = rl.export.export(Sum(), (x,) * 9, dynamic_shapes={"x": spec, "others": (spec,) * 8})
    assert program.range_constraints == {"B": (0, 9)}
    assert program.module()(*[rl.ones(7)] * 9).tolist() == [9] * 7
    several = {"x": [Dim.AUTO], "others": ([Dim.AUTO, Dim.AUTO],) * 4}
    args = (rl.ones(30), *[rl.ones(2 * i, 2 * i + 1) for i in range(1, 5)])
    with pytest.raises(ValueError, match="9 sizes change, at most 8 can"):
        rl.export.export(Sum(), args, dynamic_shapes=several)


class Counted(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + rl.from_numpy(np.ones(x.shape[0], np.float32))


class Unrolled(nn.Module):
    def forward(self, x: Any) -> Any:
        return sum([row * i for i, row in enumerate(x)])


def test_errors_of_sizes() -> None:
    def export(*args: Any, shapes: Any, model: Any = None) -> None:
        rl.export.export(model or Sum(), args, dynamic_shapes=shapes)

    x = rl.ones(4)
    with pytest.raises(TraceError, match=r"size rows cannot change: .*test_export.py:\d+"):
        export(x, shapes=({0: "rows"},), model=Counted())  # a line of the user's, not of NumPy's
    with pytest.raises(TraceError, match=r"size rows cannot change: .*test_export.py:\d+"):
        export(rl.ones(3, 2), shapes={"x": {0: Dim("rows")}}, model=Unrolled())
    with pytest.raises(TraceError, match="sizes that must be equal need one name"):
        export(x, x, shapes={"x": [Dim("a")], "others": ([Dim("b")],)})
    with pytest.raises(ValueError, match="'a' is 4 and 1 in the example"):
        export(x, rl.ones(1), shapes={"x": [Dim("a")], "others": ([Dim("a")],)})
    with pytest.raises(ValueError, match="names 'z', but the arguments are called x"):
        export(x, shapes={"z": None})
    with pytest.raises(ValueError, match="'x' has 1 dimensions, and no dimension 1"):
        export(x, shapes={"x": {1: Dim("a")}})
    with pytest.raises(ValueError, match="'x' has 1 dimensions, and dynamic_shapes 2"):
        export(x, shapes=([None, None],))
    with pytest.raises(ValueError, match=r"must be a Dim, got 1\.5"):
        export(x, shapes=([1.5],))
    with pytest.raises(ValueError, match="has 4 for the size 0, not 3"):
        export(x, shapes=([3],))
    with pytest.raises(ValueError, match="an entry for each of the arguments x"):
        export(x, shapes=())
    with pytest.raises(ValueError, match=r"says nothing of others\[1\]"):
        export(x, x, x, shapes={"others": (None,)})


def test_errors_of_arguments() -> None:
    with pytest.raises(ValueError, match="Expected `mod` to be an instance"):
        rl.export.export(lambda x: x, (rl.ones(1),))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Expecting `args` to be a tuple"):
        rl.export.export(nn.ReLU(), rl.ones(1))  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="preserve_module_call_signature"):
        rl.export.export(nn.ReLU(), (rl.ones(1),), preserve_module_call_signature=("a",))
    with pytest.raises(RuntimeError, match=r"You should use `exported_program.module\(\)`"):
        rl.export.export(nn.ReLU(), (rl.ones(1),))(rl.ones(1))
    with pytest.raises(TypeError, match="must be an ExportedProgram, got ReLU"):
        rl.export.save(nn.ReLU(), io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Only dataclasses"):
        rl.export.register_dataclass(int)


def test_what_a_program_takes_and_gives() -> None:
    model = classifier()
    program = rl.export.export(model, (rl.rand(4, 3),), {"offset": rl.ones(2)})
    signature = program.graph_signature
    assert signature.parameters == tuple([name for name, _ in model.named_parameters()])
    assert signature.buffers == tuple([name for name, _ in model.named_buffers()])
    assert signature.non_persistent_buffers == ("scale",)
    assert signature.inputs_to_parameters["p_linear_weight"] == "linear.weight"
    assert signature.user_inputs == ("x", "offset", True)
    assert signature.user_outputs == ("output_y", "output_x")
    assert not signature.buffers_to_mutate
    assert list(program.state_dict) == list(model.state_dict())
    assert [n for n, _ in program.named_buffers()] == [n for n, _ in model.named_buffers()]
    assert all(a is b for a, b in zip(program.parameters(), model.parameters(), strict=True))
    assert "norm.running_mean: " in str(program).replace("b_norm_", "norm.")
    assert str(reloaded(program).graph_signature) == str(signature)
    assert program.run_decompositions(rl.export.default_decompositions()) is program


def test_constants() -> None:
    table = rl.arange(3.0)

    class Shifted(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + table

    program = reloaded(rl.export.export(Shifted(), (rl.zeros(3),)))
    assert [t.tolist() for t in program.constants.values()] == [[0, 1, 2]]
    assert program.graph_signature.lifted_tensor_constants == tuple(program.constants)
    assert not program.state_dict
    assert not [*program.buffers()]


def test_a_program_of_training_mode() -> None:
    model = classifier().train()
    program = rl.export.export(model, (rl.rand(4, 3),))
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    assert mutated == {f"norm.{name}" for name, _ in model.norm.named_buffers()}
    module = reloaded(program).module()
    x = rl.rand(4, 3)
    assert_close(module(x)["y"], model(x)["y"])
    assert_close(module.norm.running_mean, model.norm.running_mean)
    with pytest.raises(TypeError, match="without a program for evaluation mode"):
        module.eval()(x)


def test_a_loaded_program_trains() -> None:
    model = classifier()
    module = reloaded(rl.export.export(model, (rl.rand(4, 3),))).module()
    x = rl.rand(4, 3)
    for each in (model, module):
        each(x)["y"].square().sum().backward()
    for a, b in zip(module.parameters(), model.parameters(), strict=True):
        assert_close(a.grad, b.grad)


def test_files(tmp_path: Path) -> None:
    program = rl.export.export(classifier(), (rl.rand(4, 3),))
    path = tmp_path / "classifier.pt2"
    rl.export.save(program, path, extra_files={"notes": "of a test"})
    notes = {"notes": ""}
    x = rl.rand(4, 3)
    again = rl.export.load(path, extra_files=notes)
    assert_close(again.module()(x)["y"], program.module()(x)["y"])
    assert notes == {"notes": b"of a test"}
    assert_close(rl.jit.load(path)(x)["y"], program.module()(x)["y"])


def test_served_as_torch(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        """
import torch
import torch.export
from torch.export import Dim, ExportedProgram
from torch.export.dynamic_shapes import dims

batch = torch.export.Dim("batch", min=1, max=64)
program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),), dynamic_shapes=({0: batch},))
assert isinstance(program, ExportedProgram) and isinstance(batch, Dim)
torch.export.save(program, "relu.pt2")
print(torch.export.load("relu.pt2").module()(torch.arange(3.0) - 1).tolist())
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(rl.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[0.0, 0.0, 1.0]\n", done.stderr
