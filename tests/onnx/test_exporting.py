"""Exported models: what is in the file, and what it computes."""

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
from rushlight.export import Dim
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.exporters import EXPORTERS
from rushlight.onnx.options import OnnxExporterError, TrainingMode
from rushlight.onnx.verifying import interpreted
from rushlight.ops.base import registry
from rushlight.testing import assert_close
from tests.compiled.test_modules import CASES, DYNAMIC
from tests.export.test_empty import NAMES as EMPTY
from tests.export.test_empty import case, leaves, same
from tests.graph.script_programs import telling
from tests.onnx.examples import CONTROL, LARGE, NETWORKS, SIZES, Example, close, runs, tensors

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def net() -> nn.Module:
    rl.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def kinds(program: Any) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def shape_of(value: Any) -> list[Any]:
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize("name", list(CASES))
def test_every_module(name: str) -> None:
    make, draws = CASES[name]
    rl.manual_seed(0)
    generator = rl.Generator().manual_seed(1)
    module, args = make(), tuple([draw(generator, rl.float32) for draw in draws])
    with rl.no_grad():
        module(*args)  # shapes of lazy parameters
    program = rl.onnx.export(module, args)  # which compares the results
    onnx.checker.check_model(program.model_proto, full_check=True)


@pytest.mark.parametrize("name", EMPTY)
def test_a_batch_of_none(name: str) -> None:
    module, args, empty, dim = case(name)
    names = [f"x{i}" for i in range(len(leaves(args)))]
    sizes = [t.shape[dim] for t in leaves(args)]
    axes = {name: {dim: f"batch{n}"} for name, n in zip(names, sizes, strict=True)}
    program = rl.onnx.export(module, args, input_names=names, dynamic_axes=axes, verify=False)
    with rl.no_grad():
        same(program(*leaves(empty)), leaves(module(*empty)))


@pytest.mark.parametrize("name", list(DYNAMIC))
def test_modules_whose_python_looks_at_values(name: str) -> None:
    (make, draws), _ = DYNAMIC[name]
    generator = rl.Generator().manual_seed(1)
    args = tuple([draw(generator, rl.float32) for draw in draws])
    if name.startswith("RReLU"):
        rl.onnx.export(make(), args)  # in evaluation it looks at none
    else:
        with pytest.raises(RuntimeError, match=r"are needed in Python|draws random numbers"):
            rl.onnx.export(make(), args)


def check(example: Example) -> None:
    program, found = runs(example)
    onnx.checker.check_model(program.model_proto, full_check=True)
    for inputs, expected in found:
        with rl.no_grad(), interpreted():
            close(tensors(program(*[rl.from_numpy(a) for a in inputs])), expected)


@pytest.mark.parametrize("name", list(CONTROL))
def test_branches_and_loops(name: str) -> None:
    check(CONTROL[name])


@pytest.mark.parametrize("name", list(SIZES))
def test_sizes_that_change(name: str) -> None:
    check(SIZES[name])


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in NETWORKS],
)
def test_networks(name: str) -> None:
    check(NETWORKS[name])


@pytest.mark.parametrize("opset", range(13, 24))
def test_versions(opset: int) -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Hardswish(), nn.MaxPool2d(2), nn.Flatten(),
        nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(-1),
    )  # fmt: skip
    program = rl.onnx.export(model, rl.randn(2, 1, 6, 6), opset_version=opset)
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert program.model_proto.opset_import[0].version == opset
    assert ("LayerNormalization" in kinds(program)) == (opset >= 17)


def test_an_op_that_came_later_says_so() -> None:
    with pytest.raises(OnnxExporterError, match=r"col2im .*opset_version=18 or later"):
        rl.onnx.export(nn.Fold((4, 5), 2), rl.randn(2, 8, 12), opset_version=17)
    with pytest.raises(ValueError, match="versions 13 to"):
        rl.onnx.export(net(), rl.ones(2, 4), opset_version=9)


def test_names_of_weights_inputs_and_outputs() -> None:
    graph = rl.onnx.export(net(), rl.ones(2, 4)).model_proto.graph
    assert [t.name for t in graph.initializer] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert [i.name for i in graph.input] == ["input"]
    assert [o.name for o in graph.output] == ["output"]
    graph = rl.onnx.export(
        net(), rl.ones(2, 4), input_names=["x"], output_names=["y"]
    ).model_proto.graph
    assert (graph.input[0].name, graph.output[0].name) == ("x", "y")


def test_structures_of_arguments_and_results() -> None:
    class Model(nn.Module):
        def forward(self, pair: Any, scale: Any = None, *, mask: Any) -> Any:
            a, b = pair
            return {"sum": a + b * scale, "parts": [a * mask, b], "same": a}

    pair = (rl.ones(2), rl.arange(2.0))
    program = rl.onnx.export(Model(), (pair, 2.0), kwargs={"mask": rl.tensor([True, False])})
    graph = program.model_proto.graph
    assert [i.name for i in graph.input] == ["pair_0", "pair_1", "mask"]
    assert [o.name for o in graph.output] == ["sum", "parts_0", "parts_1", "same"]
    program = rl.onnx.export(Model(), (pair, rl.tensor(2.0), {"mask": rl.ones(2)}))
    assert len(program.model_proto.graph.input) == 4


def test_one_tensor_as_two_arguments() -> None:
    x = rl.ones(3)
    program = rl.onnx.export(lambda a, b: a - 2 * b, (x, x))
    assert len(program.model_proto.graph.input) == 2


def test_equal_weights_are_written_once_and_constants_are_folded() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    graph = rl.onnx.export(model, rl.ones(2, 4)).model_proto.graph
    assert [t.name for t in graph.initializer] == ["0.weight"]

    def scaled(x: Any) -> Any:
        return x * model[0].weight.exp()

    x = rl.ones(4)
    assert kinds(rl.onnx.export(scaled, x)) == ["Mul"]
    assert kinds(rl.onnx.export(scaled, x, do_constant_folding=False)) == ["Exp", "Mul"]


class Tied(nn.Module):
    """Attention takes slices of its weights, and both ends have one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.decode = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any, memory: Any) -> Any:
        return self.head(self.decode(self.embed(x), memory))


def test_parameters_of_which_views_are_taken_stay_whole(tmp_path: Path) -> None:
    rl.manual_seed(0)
    model, path = Tied().eval(), tmp_path / "net.onnx"
    args = rl.randint(0, 20, (2, 5)), rl.randn(2, 3, 8)
    rl.onnx.export(model, args, path)
    loaded = rl.onnx.load(path)
    own, found = dict(model.named_parameters()), dict(loaded.named_parameters())
    assert {*own} == {*found}
    assert all([rl.equal(own[name], found[name]) for name in own])
    for net in (model, loaded):
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        net(*args).square().mean().backward()
        optimizer.step()
    close(tensors(loaded(*args)), tensors(model(*args)))
    rl.onnx.export(loaded, args, path)
    assert {*dict(rl.onnx.load(path).named_parameters())} == {*own}


def test_the_mode_is_that_of_evaluation_and_comes_back() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4))
    model[1].eval()
    before = model[2].running_mean.clone()
    rl.onnx.export(model, rl.randn(3, 4))
    assert [m.training for m in model] == [True, False, True]
    assert rl.equal(model[2].running_mean, before)
    assert not rl.onnx.is_in_onnx_export()
    with pytest.raises(OnnxExporterError, match=r"writes to .*running_mean"):
        rl.onnx.export(model[2], rl.randn(3, 4), training=TrainingMode.TRAINING)


def test_what_a_model_prints_and_checks_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    weight = rl.ones(3)

    def function(x):
        print(weight)
        while x.sum() < 10:
            print(x)
            x = x * 2
        return x

    for call, lines, ops in ((telling, 3, {"Log"}), (function, 2, None)):
        with pytest.warns(UserWarning, match="prints nothing and checks no values") as caught:
            program = rl.onnx.export(call, rl.ones(3), dynamic_axes={"x": [0]})
        (warning,) = [str(w.message) for w in caught]
        assert warning.count(".py:") == lines
        assert ops is None or {*kinds(program)} == ops
        assert not capsys.readouterr().out
        (y,) = program(rl.ones(5))
        assert not capsys.readouterr().out
        assert rl.equal(y, call(rl.ones(5)))
        capsys.readouterr()


def test_dropout_of_training() -> None:
    model = nn.Sequential(nn.Dropout(0.25), nn.Linear(4, 4), nn.Dropout(0.25), nn.Dropout2d())
    x = rl.ones(2, 3, 50, 4)
    program = rl.onnx.export(model, x, training=TrainingMode.TRAINING, dynamic_axes={"input": [0]})
    assert kinds(program).count("Dropout") == 2
    assert kinds(program).count("RandomUniformLike") == 1  # for whole channels
    program = rl.onnx.export(nn.Dropout(0.25), x, training=TrainingMode.TRAINING)
    (y,) = program(x)
    assert 0.15 < (y == 0).float().mean() < 0.35
    assert y.unique().tolist() == pytest.approx([0, 4 / 3])
    assert not kinds(rl.onnx.export(model[0], x)).count("Dropout")


def test_random_numbers() -> None:
    def model(x: Any) -> Any:
        alike = rl.rand(100), rl.rand(100)
        noise = rl.randn_like(x).half(), rl.randint(2, 5, (100,)), rl.bernoulli(x)
        return *alike, *noise, x.clone().uniform_(2, 3)

    a, b, normal, whole, coins, uniform = rl.onnx.export(model, rl.full((100,), 0.5))(
        rl.full((100,), 0.5)
    )
    assert not rl.equal(a, b)
    assert normal.dtype is rl.float16
    assert 0.5 < normal.float().std() < 1.5
    assert whole.unique().tolist() == [2, 3, 4]
    assert coins.unique().tolist() == [0, 1]
    assert 2 <= uniform.min() < uniform.max() <= 3
    with pytest.raises(OnnxExporterError, match="random numbers inside a branch or loop"):
        rl.onnx.export(lambda x: rl.fori_loop(0, 3, lambda i, y: y + rl.rand(2), x), rl.ones(2))
    with pytest.raises(OnnxExporterError, match=r"randperm at .*: ONNX has no such operator"):
        rl.onnx.export(lambda x: x + rl.randperm(2), rl.ones(2))


def test_a_model_knows_that_it_is_exported() -> None:
    class Model(nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if rl.onnx.is_in_onnx_export() else x + x

    assert kinds(rl.onnx.export(Model(), rl.ones(2))) == ["Mul"]


def test_buffers_that_are_written_to() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", rl.zeros(()))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * 2

    model = Counter()
    with pytest.warns(UserWarning, match="does not write to count"):
        rl.onnx.export(model, rl.ones(2), verify=False)
    assert model.count == 0


def test_the_check_leaves_buffers_as_they_are() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", rl.zeros(()))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * self.count, self.count

    model = Counter()
    with pytest.warns(UserWarning, match="does not write to count"):
        program = rl.onnx.export(model, rl.ones(2), dynamic_axes={"x": [0]})
    assert model.count == 0
    assert program(rl.ones(3))[0].tolist() == [1.0, 1.0, 1.0]


def test_files(tmp_path: Path) -> None:
    x, path = rl.ones(2, 4), tmp_path / "net.onnx"
    model = net()
    program = rl.onnx.export(model, x, path)
    assert path.read_bytes() == program.model_proto.SerializeToString()
    close(tensors(rl.onnx.load(path)(x)), tensors(model(x)))
    stream = io.BytesIO()
    assert rl.onnx.export(model, x, stream, dynamo=False) is None
    close(tensors(rl.onnx.load(io.BytesIO(stream.getvalue()))(x)), tensors(model(x)))
    assert os.listdir(tmp_path) == ["net.onnx"]
    with pytest.raises(TypeError, match="a path or a file to write to, got int"):
        rl.onnx.export(model, x, 3)
    with pytest.raises(FileNotFoundError, match="folder"):
        rl.onnx.export(model, x, tmp_path / "none" / "net.onnx")


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    model, x = nn.Sequential(nn.Linear(40, 80), nn.Linear(80, 3)), rl.randn(2, 40)
    path = tmp_path / "net.onnx"
    rl.onnx.export(model, x, str(path), external_data=True)
    assert path.stat().st_size < 4 * 40 * 80 <= (tmp_path / "net.onnx.data").stat().st_size
    close(tensors(rl.onnx.load(path)(x)), tensors(model(x)))
    assert len(onnx.load(path).graph.initializer) == 4
    with pytest.raises(ValueError, match="external data need a path"):
        rl.onnx.export(model, x, io.BytesIO(), external_data=True)


def test_weights_as_inputs() -> None:
    model, x, stream = nn.Linear(40, 80), rl.randn(2, 40), io.BytesIO()
    rl.onnx.export(model, x, stream, keep_initializers_as_inputs=True)
    graph = onnx.load_from_string(stream.getvalue()).graph
    assert [i.name for i in graph.input] == ["input", "weight", "bias"]
    stream = io.BytesIO()
    rl.onnx.export(model, x, stream, export_params=False)
    graph = onnx.load_from_string(stream.getvalue()).graph
    assert [i.name for i in graph.input] == ["input", "weight"]
    assert len(stream.getvalue()) < 4 * 40 * 80


def test_the_graph_is_printed_without_its_weights(capsys: pytest.CaptureFixture[str]) -> None:
    program = rl.onnx.export(nn.Linear(100, 50), rl.ones(2, 100), verbose=True)
    text = capsys.readouterr().out
    assert "Gemm" in text
    assert len(text) < 3000
    assert repr(program) == "<ONNXProgram Linear, opset 18, 1 nodes>"


def test_nodes_know_the_line_they_come_from() -> None:
    program = rl.onnx.export(net(), rl.ones(2, 4))
    assert program.model_proto.graph.node[0].doc_string.startswith(
        "Sequential.0  test_exporting.py"
    )


def test_what_cannot_be_exported_names_module_and_line() -> None:
    class Inverse(nn.Module):
        def forward(self, x: Any) -> Any:
            return rl.linalg.inv(x)

    model = nn.Sequential(nn.ReLU(), Inverse())
    with pytest.raises(OnnxExporterError, match=r"in Sequential\.1 at .*test_exporting\.py:\d+"):
        rl.onnx.export(model, rl.eye(3))


def test_a_batch_of_one_stands_for_all() -> None:
    model = nn.LSTM(3, 4, batch_first=True)
    file = io.BytesIO()
    axes = {"input": {0: "b"}}
    rl.onnx.export(model, (rl.ones(1, 5, 3),), file, dynamic_axes=axes)
    loaded = rl.onnx.load(io.BytesIO(file.getvalue()))
    for batch in (1, 4):
        x = rl.randn(batch, 5, 3)
        np.testing.assert_allclose(loaded(x)[0].detach(), model(x)[0].detach(), atol=1e-6)


def test_names_of_sizes() -> None:
    model = nn.Conv1d(2, 3, 3, stride=2)
    program = rl.onnx.export(model, rl.ones(2, 2, 9), dynamic_axes={"input": {0: "batch", -1: "n"}})
    graph = program.model_proto.graph
    assert shape_of(graph.input[0]) == ["batch", 2, "n"]
    batch, channels, length = shape_of(graph.output[0])
    assert (batch, channels, "n" in length) == ("batch", 3, True)
    program = rl.onnx.export(model, rl.ones(2, 2, 9), dynamic_axes={"input": [0]})
    assert shape_of(program.model_proto.graph.input[0]) == ["input_dim_0", 2, 9]


@pytest.mark.parametrize(
    "shapes", [({0: "b"}, {0: "b"}), [{0: "b"}, ["b", None]], {"x": {0: "b"}, "y": ("b", 3)}]
)
def test_dynamic_shapes(shapes: Any) -> None:
    def model(x: Any, y: Any) -> Any:
        return x.sum(1) + y[:, 0]

    program = rl.onnx.export(model, (rl.ones(2, 5), rl.ones(2, 3)), dynamic_shapes=shapes)
    graph = program.model_proto.graph
    assert [shape_of(v) for v in (*graph.input, *graph.output)] == [["b", 5], ["b", 3], ["b"]]
    assert program(rl.ones(7, 5), rl.ones(7, 3))[0].shape == (7,)


def test_sizes_without_names() -> None:
    def model(x: Any, *others: Any) -> Any:
        return x + others[0], x[:, : x.shape[1] // 2].sum(0), sum([*others[1]])

    auto, args = Dim.AUTO, (rl.ones(2, 5), rl.ones(2, 1), rl.ones(2, 3))
    shapes = {"x": [auto, auto], "others": ([auto, None], [auto, auto])}
    program = rl.onnx.export(model, args, dynamic_shapes=shapes)
    found = [shape_of(v) for v in program.model_proto.graph.input]
    # The first sizes must be equal, and one is the number of terms of a sum.
    assert found == [["x_dim_0", "x_dim_1"], ["x_dim_0", 1], [2, "others_1_dim_1"]]
    assert [y.shape for y in program(rl.ones(7, 4), rl.ones(7, 1), rl.ones(2, 9))] == [
        (7, 4),
        (2,),
        (9,),
    ]


def test_an_exported_program() -> None:
    batch, x = Dim("batch", max=64), rl.randn(2, 4)
    exported = rl.export.export(net().eval(), (x,), dynamic_shapes={"input": {0: batch}})
    program = rl.onnx.export(exported)
    assert shape_of(program.model_proto.graph.input[0])[0] == "batch"
    y = rl.randn(7, 4)
    assert_close(program(y)[0], exported.module()(y))
    loaded = rl.export.load(io.BytesIO(saved(exported)))
    assert_close(rl.onnx.export(loaded, x)(x)[0], exported.module()(x))


def saved(program: Any) -> bytes:
    file = io.BytesIO()
    program.save(file)
    return file.getvalue()


def test_a_float_is_a_constant_with_a_warning() -> None:
    def scale(x: rl.Tensor, k: float) -> rl.Tensor:
        return x * k

    with pytest.warns(UserWarning, match=r"onnx.export\(\): k is a number, and a constant"):
        program = rl.onnx.export(scale, (rl.ones(2), 3.0))
    assert [each.name for each in program.model_proto.graph.input] == ["x"]
    program = rl.onnx.export(scale, (rl.ones(2), rl.tensor(3.0)))
    assert program(rl.ones(2), rl.tensor(0.5))[0].tolist() == [0.5, 0.5]


def test_what_no_graph_can_hold() -> None:
    with pytest.raises(OnnxExporterError, match=r"bincount at .*test_exporting.py:\d+"):
        rl.onnx.export(lambda x: rl.bincount(x), rl.tensor([1, 2, 2]))


def test_errors_of_sizes() -> None:
    x = rl.ones(4, 6)
    with pytest.raises(
        ValueError, match="dynamic_axes names 'y', but the inputs and outputs are x"
    ):
        rl.onnx.export(lambda x: x, x, dynamic_axes={"y": [0]})
    with pytest.raises(ValueError, match="'x' has 2 dimensions, and no dimension 2"):
        rl.onnx.export(lambda x: x, x, dynamic_axes={"x": [2]})
    with pytest.raises(ValueError, match="dynamic_shapes names"):
        rl.onnx.export(lambda x: x, x, dynamic_shapes={"z": {0: "b"}})
    with pytest.raises(
        OnnxExporterError, match=r"size rows cannot change: .*test_exporting.py:\d+"
    ):
        rl.onnx.export(
            lambda x: sum([x[i] for i in range(x.shape[0])]), x, dynamic_axes={"x": {0: "rows"}}
        )
    with pytest.raises(OnnxExporterError, match=r"largest_apart .*must be numbers"):
        rl.onnx.export(
            lambda x: nn.functional.adaptive_max_pool2d(x[None], 3), x, dynamic_axes={"x": [0]}
        )
    with pytest.raises(OnnxExporterError, match="returns no tensor"):
        rl.onnx.export(lambda x: 3, x)


OTHERWISE: dict[str, tuple[Any, int, int]] = {
    "the last three": (lambda x: x[:, -3:], 3, 2),
    "at least one": (lambda x: x[:, : max(x.shape[1] - 2, 1)] * 2, 5, 2),
    "a choice": (lambda x: x * 2 if x.shape[1] != 4 else x, 5, 4),
    "thirds": (lambda x: x.chunk(3, 1)[0] * 2, 6, 7),
    "halves": (lambda x: x.chunk(2, 1)[0] * 2, 6, 1),
}
"""Functions, and sizes at which they have different graphs."""


@pytest.mark.parametrize("name", OTHERWISE)
def test_sizes_of_another_graph_are_an_error(name: str) -> None:
    function, first, other = OTHERWISE[name]
    program = rl.onnx.export(function, rl.randn(2, first), dynamic_axes={"x": [1]})
    x = rl.randn(2, first + 6)
    assert rl.equal(program(x)[0], function(x))
    with pytest.raises(OnnxError):
        program(rl.ones(2, other))


@pytest.mark.parametrize("shift", [5, -3, 1, -1])
def test_a_roll_by_more_than_a_size(shift: int) -> None:
    program = rl.onnx.export(lambda x: x.roll(shift, 1), rl.randn(2, 7), dynamic_axes={"x": [1]})
    for n in (7, 4, 2, 1, 0):
        x = rl.randn(2, n)
        assert rl.equal(program(x)[0], x.roll(shift, 1))


def test_arguments_that_are_wrong() -> None:
    with pytest.raises(ValueError, match="2 input_names for 1 tensors"):
        rl.onnx.export(net(), rl.ones(2, 4), input_names=["a", "b"])
    with pytest.raises(ValueError, match="output_names must differ"):
        rl.onnx.export(lambda x: (x, x + 1), rl.ones(2), output_names=["a", "a"])
    with pytest.raises(NotImplementedError, match="custom_opsets is not supported"):
        rl.onnx.export(net(), rl.ones(2, 4), custom_opsets={"mine": 1})
    with pytest.raises(TypeError, match="expected a module or a function, got 3"):
        rl.onnx.export(3, rl.ones(2))


def test_a_file_that_computes_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = EXPORTERS["relu"]._replace(write=lambda w, node, x: w("Sigmoid", x))
    monkeypatch.setitem(EXPORTERS, "relu", wrong)
    with pytest.raises(OnnxExporterError, match=r"output\[0\] is 0\.5, and 0 in the model"):
        rl.onnx.export(lambda x: x.relu(), rl.zeros(2))
    rl.onnx.export(lambda x: x.relu(), rl.zeros(2), verify=False)


DECIMALS = [
    *(2.675, 1.005, 0.125, -0.125, 0.5, 1.5, -2.5, 150.0, 250.0, -350.0, 49.99999, 123456.789),
    *(1e15 + 0.25, 1e300, 5e-324, float("inf"), -0.0),
]


@pytest.mark.parametrize("digits", [0, 1, 2, 15, -1, -2])
@pytest.mark.parametrize("kind", [rl.float64, rl.int64])
def test_numbers_are_rounded_as_python_does(digits: int, kind: Any) -> None:
    values: list[Any] = DECIMALS if kind is rl.float64 else [-25, -15, -5, 0, 4, 5, 15, 149, 151]
    program = rl.onnx.export(
        lambda x: round(x.item(), digits), (rl.tensor(values[0], dtype=kind),), verify=False
    )
    for value in values:
        with rl.no_grad(), interpreted():
            found = tensors(program(rl.tensor(value, dtype=kind)))
        assert [x.item() for x in found] == [round(value, digits)]


def test_more_digits_than_a_file_can_round_to() -> None:
    with pytest.raises(OnnxExporterError, match="to 30 digits, and a file to at most 22"):
        rl.onnx.export(lambda x: round(x.item(), 30), (rl.tensor(0.5),))


def test_half_precision() -> None:
    for dtype in (rl.float16, rl.bfloat16):
        model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4)).to(dtype)
        program = rl.onnx.export(model, rl.randn(2, 4, dtype=dtype))
        onnx.checker.check_model(program.model_proto, full_check=True)


def test_masks_that_are_written_through() -> None:
    def model(x: Any) -> Any:
        y = x.clone()
        y[x > 0] = 3.0
        y[:, 1:] += 1
        y[0] = x[1]
        return y

    rl.onnx.export(model, rl.randn(3, 4))


def test_exporters_are_of_ops_that_exist() -> None:
    known = {*registry, "formula"}
    assert [name for name in EXPORTERS if name not in known and "control" not in name] == []


def test_reference_implementation() -> None:
    """The onnx package has a runtime of its own, in Python."""
    reference = pytest.importorskip("onnx.reference").ReferenceEvaluator
    model, x = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten()), rl.randn(2, 1, 5, 5)
    program = rl.onnx.export(model, x)
    found = reference(program.model_proto).run(None, {"input": x.numpy()})
    close([np.asarray(a) for a in found], tensors(model(x)))


def test_importing_the_framework_does_not_import_onnx() -> None:
    code = "import sys, rushlight as rl; rl.onnx; sys.exit('onnx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_models_that_are_too_large_for_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rushlight.onnx.saving.MOST_BYTES", 1000)
    model, x, path = nn.Linear(40, 80), rl.randn(2, 3, 40), tmp_path / "net.onnx"
    rl.onnx.export(model, x, path)
    assert sorted(os.listdir(tmp_path)) == ["net.onnx", "net.onnx.data"]
    close(tensors(rl.onnx.load(path)(x)), tensors(model(x)))
    assert [t.name for t in onnx.load(path).graph.initializer] == ["weight", "bias"]


def test_attention_with_masks() -> None:
    def model(q: Any, mask: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    q = rl.randn(2, 2, 5, 4)
    for mask in (rl.randn(5, 5) > 0, rl.zeros(5, 5, dtype=rl.bool), rl.randn(2, 1, 5, 5)):
        rl.onnx.export(model, (q, mask))


def test_what_runtimes_join() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU())
    assert kinds(rl.onnx.export(model, rl.randn(2, 4))) == [
        *("Gemm", "Div", "Erf", "Add", "Mul", "Mul"),
    ]


def test_compiled_and_scripted_models() -> None:
    model, x = net(), rl.randn(2, 4)
    for kind in (rl.compile(model), rl.jit.script(model), rl.jit.trace(model, (x,))):
        graph = rl.onnx.export(kind, x).model_proto.graph
        assert [i.name for i in graph.input] == ["input"]
        assert [t.name for t in graph.initializer] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def doublings(x: Any) -> Any:
    count = 0
    while x.sum() < 100:
        x, count = x * 2, count + 1
    return x, count


class Sign(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1


def test_control_flow_of_scripted_and_loaded_programs() -> None:
    x, file = rl.ones(3), io.BytesIO()
    scripted = rl.jit.trace(doublings, x)
    scripted.save(file)
    file.seek(0)
    for function in (doublings, rl.compile(doublings), scripted, rl.jit.load(file)):
        program = rl.onnx.export(function, x)  # the number is a result, too
        y, count = program(rl.full((3,), 3.0))
        assert (y.tolist(), count.tolist()) == ([48.0] * 3, 4)
    for module in (rl.jit.script(Sign()), rl.jit.trace(Sign(), x)):
        assert rl.onnx.export(module, x)(-x)[0].tolist() == [-2.0] * 3


def test_padding_masks() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(layer, 2)
    x, padding = rl.randn(2, 5, 8), rl.tensor([[False] * 4 + [True], [False] * 5])
    program = rl.onnx.export(
        model, (x,), kwargs={"src_key_padding_mask": padding},
        dynamic_axes={key: {0: "batch", 1: "time"} for key in ("src", "src_key_padding_mask")},
    )  # fmt: skip
    assert program(x, padding)[0][0, -1].tolist() == [0.0] * 8  # as in PyTorch


def test_names_of_a_model_that_was_loaded_stay(tmp_path: Path) -> None:
    x, path = rl.randn(2, 4), tmp_path / "net.onnx"
    rl.onnx.export(net(), x, path, input_names=["image"], output_names=["logits"])
    loaded = rl.onnx.load(path)
    graph = rl.onnx.export(loaded, x, dynamic_axes={"logits": {0: "n"}}).model_proto.graph
    assert [[v.name for v in values] for values in (graph.input, graph.output)] == [
        ["image"], ["logits"]
    ]  # fmt: skip


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_can_be_put_back(tmp_path: Path, affine: bool) -> None:
    rl.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=affine), nn.ReLU())
    x, path = rl.randn(2, 3, 8, 8), tmp_path / "net.onnx"
    assert kinds(rl.onnx.export(model, x, path)) == ["Conv", "BatchNormalization", "Relu"]
    loaded = rl.onnx.load(path).train()
    before = loaded.state_dict()["1.running_mean"].clone()
    loaded(x)
    assert not rl.equal(before, loaded.state_dict()["1.running_mean"])
    model.load_state_dict(loaded.state_dict(), strict=False)
    assert rl.allclose(model.eval()(x), loaded.eval()(x), atol=1e-6)


def test_arguments_that_make_no_sense() -> None:
    with pytest.raises(TypeError, match="opset_version must be an int, not 'a'"):
        rl.onnx.export(lambda x: x * 2, rl.ones(2), opset_version="a")
    with pytest.raises(ValueError, match="an input and an output are called 'o'"):
        rl.onnx.export(lambda x: x * 2, rl.ones(2), input_names=["o"], output_names=["o"])
