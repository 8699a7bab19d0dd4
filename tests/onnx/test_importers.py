"""Importers of ONNX's ops beside the schemas of all versions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.symbol import TraceError
from rushlight.testing import assert_close

onnx = pytest.importorskip("onnx")

from rushlight.onnx.importers import registry  # noqa: E402
from tests.onnx.models import model  # noqa: E402

CHOSEN = {
    ("BatchNormalization", "is_test"): "whether a model trains is said by train() and eval()",
    ("Dropout", "ratio"): "what was an attribute is an input now, that may be missing",
    ("GridSample", "mode"): "linear is the new name of bilinear",
}
"""Defaults that differ from those of schemas, and why."""


def test_defaults_are_those_of_all_versions() -> None:
    """What an importer takes an attribute for that is not there, and which ones it knows."""
    different, unknown = [], []
    for schema in onnx.defs.get_all_schemas_with_history():
        importer = registry.find(schema.domain, schema.name, schema.since_version)
        if importer is None:
            continue
        parameters = importer.parameters
        variadic = any([p.kind is p.VAR_KEYWORD for p in parameters.values()])
        for name, attribute in schema.attributes.items():
            where = f"{schema.name}-{schema.since_version} {name}"
            if name not in parameters:
                if not variadic and "string" not in name:  # there are no tensors of strings
                    unknown.append(where)
            elif attribute.default_value.type and (schema.name, name) not in CHOSEN:
                expected = plain(onnx.helper.get_attribute_value(attribute.default_value))
                found = plain(parameters[name].default)
                if found != expected:
                    different.append(f"{where}: {found}, not {expected}")
    assert (different, unknown) == ([], [])


def plain(default: Any) -> Any:
    """As a file has it, where numbers are float32 and text is bytes."""
    if isinstance(default, (list, tuple)):
        return [plain(part) for part in default]
    if isinstance(default, float):
        return float(np.float32(default))
    return default.decode() if isinstance(default, bytes) else default


def test_regions_are_aligned_by_the_rule_of_their_version() -> None:
    text = """
    g (float[N, C, H, W] x, float[R, 4] rois, int64[R] which) => (float[R, C, 2, 2] y) {
        y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 1 MODE>(x, rois, which)
    }
    """
    x, rois = rl.arange(36.0).reshape(1, 1, 6, 6), rl.tensor([[1.0, 1.0, 4.0, 4.0]])

    def aligned(opset: int, mode: str = "") -> rl.Tensor:
        given = f', coordinate_transformation_mode = "{mode}"' if mode else ""
        return rl.onnx.load(model(text.replace("MODE", given), opset))(x, rois, rl.tensor([0]))

    half, corners = aligned(16, "half_pixel"), aligned(16, "output_half_pixel")
    assert half.flatten()[0] == corners.flatten()[0] - 3.5
    for opset, expected in ((10, corners), (15, corners), (16, half), (22, half)):
        assert_close(aligned(opset), expected)


@pytest.mark.parametrize(
    ("opset", "largest"), [(5, rl.inf), (6, 3.4028234663852886e38), (11, rl.inf)]
)
def test_clip_without_limits(opset: int, largest: float) -> None:
    net = rl.onnx.load(model("g (float[2] x) => (float[2] y) { y = Clip(x) }", opset))
    assert net(rl.tensor([-rl.inf, rl.inf])).tolist() == [-largest, largest]


@pytest.mark.parametrize(
    ("axes", "message"),
    [([7], "Dimension out of range .*got 7"), ([0, 1], "2 axes, 1 starts, 1 ends and 1 steps")],
)
def test_slices_that_are_damaged(axes: list[int], message: str) -> None:
    text = "g (float[3, 4] x) => (float[N, M] y) { y = Slice(x, starts, ends, axes) }"
    numbers = {"starts": [0], "ends": [2], "axes": axes}
    arrays = {name: np.array(value, np.int64) for name, value in numbers.items()}
    with pytest.raises(RuntimeError, match=rf"node 'y' \(Slice\): {message}"):
        rl.onnx.load(model(text, 13, **arrays))(rl.ones(3, 4))


@pytest.mark.parametrize(("start", "columns"), [(-3, [0]), (-2, [0]), (-1, [1, 0]), (5, [1, 0])])
def test_slices_that_go_back_begin_at_an_element(start: int, columns: list[int]) -> None:
    text = "g (float[3, N] x) => (float[3, M] y) { y = Slice(x, starts, ends, axes, steps) }"
    numbers = {"starts": [start], "ends": [-9], "axes": [1], "steps": [-1]}
    arrays = {name: np.array(value, np.int64) for name, value in numbers.items()}
    x = rl.randn(3, 2)
    assert rl.equal(rl.onnx.load(model(text, 13, **arrays))(x), x[:, columns])


ANY_SIZE = {
    "reflected": ('Pad<mode = "reflect">(x, pads)', lambda x: edges(x, "reflect")),
    "edges": ('Pad<mode = "edge">(x, pads)', lambda x: edges(x, "edge")),
    "wrapped": ('Pad<mode = "wrap">(x, pads)', lambda x: edges(x, "wrap")),
    "backwards": ("Slice(x, last, first, axes, back)", lambda x: x.flip(1)),
    "a shape": ("Where(chosen, s, twos)", lambda x: rl.tensor([2, x.shape[1]])),
}


def edges(x: rl.Tensor, mode: Any) -> rl.Tensor:
    return rl.from_numpy(np.pad(x.numpy(), ((0, 1), (1, 2)), mode))


@pytest.mark.parametrize("name", ANY_SIZE)
def test_one_program_for_all_sizes(name: str) -> None:
    node, function = ANY_SIZE[name]
    numbers = {
        "pads": [0, 1, 1, 2], "last": [-1], "first": [-(2**63)], "axes": [1], "back": [-1],
        "twos": [2, 2],
    }  # fmt: skip
    arrays = {name: np.array(value, np.int64) for name, value in numbers.items()}
    arrays["chosen"] = np.array([False, True])
    kind = "int64[2]" if name == "a shape" else "float[A, B]"
    net = rl.onnx.load(
        model(f"g (float[N, M] x) => ({kind} y) {{ s = Shape(x) y = {node} }}", 19, **arrays)
    )
    compiled = rl.compile(lambda x: net(x), dynamic=True, fullgraph=True)
    for shape in ((3, 4), (2, 7), (4, 3)):
        x = rl.randn(shape)
        for found in (net(x), compiled(x)):
            assert_close(found, function(x))
    assert not compiled.any_size.refused


STACKED = """
g (int64 n, float[3] x) => (float[3] y, {kind}[A, B] s) {{
    t = Constant<value = bool {{1}}>()
    y, s = Loop(n, t, x) <
        body = b (int64 i, bool c, float[3] h) => (bool co, float[3] ho, {kind}[{size}] r) {{
            co = Identity(c)
            ho = Add(h, h)
            r = {result}
        }}
    >
}}
"""


@pytest.mark.parametrize("size", ["3", "K"])
@pytest.mark.parametrize(
    ("kind", "result"), [("float", "Mul(h, h)"), ("int64", "Cast<to = 7>(h)")], ids=["f", "i"]
)
def test_the_stacked_results_of_a_loop_without_steps(kind: str, result: str, size: str) -> None:
    net = rl.onnx.load(model(STACKED.format(kind=kind, size=size, result=result)))
    dtype = rl.float32 if kind == "float" else rl.int64
    for n in (2, 0):
        stacked = net(rl.tensor(n), rl.ones(3))[1]
        assert (stacked.shape, stacked.dtype) == ((n, 3), dtype)


GROWING = """
g (NUMBERfloat[K, 2] x) => (float[N, 2] y) {
    CONSTANTy = Loop(n, , x) <
        body = b (int64 i, bool c, float[M, 2] h) => (bool co, float[L, 2] ho) {
            co = Identity(c)
            ho = Concat<axis = 0>(h, h)
        }
    >
}
"""


def test_a_loop_whose_values_grow_is_unrolled_if_its_steps_are_known() -> None:
    constant = "n = Constant<value = int64 {3}>() "
    net = rl.onnx.load(model(GROWING.replace("NUMBER", "").replace("CONSTANT", constant)))
    x = rl.randn(1, 2)
    assert rl.equal(rl.compile(net, fullgraph=True)(x), x.repeat(8, 1))
    net = rl.onnx.load(model(GROWING.replace("NUMBER", "int64 n, ").replace("CONSTANT", "")))
    with pytest.warns(UserWarning, match=r"node 'y' \(Loop\) at .*must keep the type"):
        assert rl.equal(rl.compile(net)(rl.tensor(2), x), x.repeat(4, 1))


def test_branches_of_two_types_run_in_dynamic_mode() -> None:
    text = """
    g (bool c, float[K] x) => (float[N] y) {
        y = If(c) <
            then_branch = yes () => (float[A] a) { a = Concat<axis = 0>(x, x) },
            else_branch = no () => (float[B] b) { b = Neg(x) }
        >
    }
    """
    compiled = rl.compile(rl.onnx.load(model(text)))
    with pytest.warns(UserWarning, match=r"node 'y' \(If\) at .*must return the same types"):
        assert compiled(rl.tensor(True), rl.ones(2)).shape == (4,)
    assert compiled(rl.tensor(False), rl.ones(2)).tolist() == [-1.0, -1.0]


def test_a_loop_with_as_many_rows_as_values_say_runs_in_dynamic_mode() -> None:
    net = rl.onnx.load(model(STACKED.format(kind="float", size=3, result="Mul(h, h)")))
    compiled = rl.compile(net)
    with pytest.warns(UserWarning, match=r"node 'y' \(Loop\) at .*test_importers.py:\d+: how many"):
        assert compiled(rl.tensor(2), rl.ones(3))[1].shape == (2, 3)
    assert compiled(rl.tensor(5), rl.ones(3))[1].shape == (5, 3)
    with pytest.raises(TraceError, match="run the model outside the compiled function"):
        rl.compile(net, fullgraph=True)(rl.tensor(2), rl.ones(3))
