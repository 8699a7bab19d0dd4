"""Loaded models beside onnxruntime: ops with many attributes, in many combinations."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import rushlight as rl

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from tests.onnx.models import model  # noqa: E402

pytestmark = pytest.mark.peers


def run(model: Any, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model.SerializeToString(), options).run(None, inputs)


def compare(
    text: str, inputs: dict[str, np.ndarray], opset: int = 21, **arrays: np.ndarray
) -> None:
    """Both on a model in the standard's notation."""
    found = model(text, opset, **arrays)
    expected = run(found, inputs)
    results = rl.onnx.load(found)(**inputs)
    for a, b in zip(results if isinstance(results, tuple) else [results], expected, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-4, atol=1e-5)


def noise(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


MODES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]


@pytest.mark.parametrize("where", MODES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode: str, where: str) -> None:
    for wanted, nearest in product(([7, 9], [3, 2], [5, 4]), ("floor", "round_prefer_ceil")):
        if (where, nearest, wanted) == ("half_pixel_symmetric", "floor", [3, 2]):
            continue  # 1.5 / 0.6 - 0.5 is 2, but not in float32
        text = f"""
        g (float[1, 2, 5, 4] x) => (float[A, B, C, D] y) {{
            y = Resize<mode = "{mode}", coordinate_transformation_mode = "{where}",
                       nearest_mode = "{nearest}">(x, none, none2, sizes)
        }}
        """
        empty = np.zeros(0, np.float32)
        sizes = np.array([1, 2, *wanted], np.int64)
        compare(text, {"x": noise(1, 2, 5, 4)}, 19, none=empty, none2=empty, sizes=sizes)


RESIZED = {
    "Upsample": ("y = Upsample<mode = 'linear'>(x, factors)", 9, [1, 1, 2, 3]),
    "nearest": ("y = Resize<nearest_mode = 'ceil'>(x, none, factors)", 13, [1, 1, 0.6, 1.5]),
    "repeated": ("y = Resize<mode = 'nearest'>(x, none, factors)", 13, [1, 1, 2, 3]),
    "linear": ("y = Resize<mode = 'linear'>(x, none, factors)", 13, [1, 1, 0.5, 1.5]),
    "cubic": ("y = Resize<mode = 'cubic'>(x, none, factors)", 13, [1, 1, 2, 1.75]),
    "antialias": (
        "y = Resize<mode = 'linear', antialias = 1>(x, none, factors)", 18, [1, 1, 0.5, 0.5]
    ),
    **{
        f"{mode} as large as another, {where}": (
            f"sizes = Shape(z) y = Resize<mode = '{mode}', nearest_mode = 'round_prefer_ceil', "
            f"coordinate_transformation_mode = '{where}'>(x, none, none, sizes)",
            17, [],
        )
        for mode, where in product(("nearest", "linear", "cubic"), MODES)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", RESIZED)
def test_resized_by_a_file_of_any_height_and_width(name: str) -> None:
    body, opset, factors = RESIZED[name]
    text = f"""
    g (float[1, 2, H, W] x, float[1, 2, R, C] z) => (float[A, B, K, D] y) {{
        {body.replace("'", '"')}
    }}
    """
    numbers = {"none": [], "factors": factors}
    arrays = {name: np.array(values, np.float32) for name, values in numbers.items()}
    file = model(text, opset, **{name: arrays[name] for name in arrays if name in body})
    dynamic = {"x": {2: "height", 3: "width"}, "z": {2: "rows", 3: "columns"}}
    example = rl.tensor(noise(1, 2, 5, 7)), rl.tensor(noise(1, 2, 6, 9))
    again = rl.onnx.export(
        rl.onnx.load(file), example, input_names=["x", "z"], dynamic_axes=dynamic
    ).model_proto
    for h, w, r, c in ((5, 7, 6, 9), (8, 4, 3, 8), (3, 9, 1, 20), (4, 4, 4, 4)):
        inputs = {"x": noise(1, 2, h, w), "z": noise(1, 2, r, c)}
        expected, found = (run(m, inputs)[0] for m in (file, again))
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool"])
def test_pooling(kind: str) -> None:
    for ceil, pads, strides, kernel in product(
        (0, 1), ([0, 0, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]), ([1, 1], [2, 3]), ([2, 2], [3, 3])
    ):
        if kind == "LpPool" and ceil:
            continue  # onnxruntime has it only since a later version
        extra = f", ceil_mode = {ceil}" if kind != "LpPool" else ""
        text = f"""
        g (float[1, 2, 7, 8] x) => (float[A, B, C, D] y) {{
            y = {kind}<kernel_shape = {kernel}, strides = {strides}, pads = {pads}{extra}>(x)
        }}
        """
        compare(text, {"x": noise(1, 2, 7, 8)}, 17)


@pytest.mark.parametrize("auto", ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
def test_convolutions(auto: str) -> None:
    x = noise(2, 4, 8, 7)
    for strides, dilations, group in product(([1, 1], [2, 3]), ([1, 1], [2, 1]), (1, 2)):
        if auto.startswith("SAME") and dilations != [1, 1]:
            continue
        pads = ", pads = [1, 0, 2, 1]" if auto == "NOTSET" else ""
        text = f"""
        g (float[2, 4, 8, 7] x) => (float[A, B, C, D] y) {{
            y = Conv<auto_pad = "{auto}", strides = {strides}, dilations = {dilations},
                     group = {group}{pads}>(x, w, b)
        }}
        """
        compare(text, {"x": x}, w=noise(6, 4 // group, 3, 2), b=noise(6))


def test_transposed_convolutions() -> None:
    x = noise(1, 4, 5, 4)
    for strides, group, extra in product(
        ([1, 1], [2, 3]),
        (1, 2),
        ("", ", pads = [1, 0, 0, 1]", ", output_shape = [10, 9]", ", output_shape = [12, 13]"),
    ):
        if "shape" in extra and strides == [1, 1]:
            continue
        text = f"""
        g (float[1, 4, 5, 4] x) => (float[A, B, C, D] y) {{
            y = ConvTranspose<strides = {strides}, group = {group}{extra}>(x, w, b)
        }}
        """
        compare(text, {"x": x}, w=noise(4, 3, 3, 2), b=noise(3 * group))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("lengths", [False, True])
def test_recurrent_layers(kind: str, direction: str, lengths: bool) -> None:
    gates = {"RNN": 1, "LSTM": 4, "GRU": 3}[kind]
    count = 2 if direction == "bidirectional" else 1
    extra = ", linear_before_reset = 1" if kind == "GRU" and lengths else ""
    outputs = "y, h, c" if kind == "LSTM" else "y, h"
    types = ", ".join(f"float {name}" for name in outputs.split(", "))
    third = "lens" if lengths else "none"
    options = f'direction = "{direction}", hidden_size = 4{extra}'
    text = f"""
    g (float[6, 3, 5] x) => ({types}) {{
        {outputs} = {kind}<{options}>(x, w, r, b, {third}, h0)
    }}
    """
    arrays = {
        "w": noise(count, gates * 4, 5),
        "r": noise(count, gates * 4, 4),
        "b": noise(count, 2 * gates * 4),
        "h0": noise(count, 3, 4),
    }
    if lengths:
        arrays["lens"] = np.array([6, 2, 4], np.int32)
    found = text.replace("none, h0", '"", h0') if not lengths else text
    compare_shapeless(found, {"x": noise(6, 3, 5)}, **arrays)


def compare_shapeless(text: str, inputs: dict[str, np.ndarray], **arrays: np.ndarray) -> None:
    """With outputs whose shapes are not stated, and an input that is left out."""
    missing = '""' in text
    found = model(text.replace('""', "none"), 14, **arrays)
    for value in found.graph.output:
        value.type.tensor_type.ClearField("shape")
    if missing:
        names = found.graph.node[0].input
        names[list(names).index("none")] = ""
    expected = runtime.InferenceSession(found.SerializeToString()).run(None, inputs)
    for a, b in zip(rl.onnx.load(found)(**inputs), expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-4, atol=1e-5)


def test_quantised_networks() -> None:
    text = """
    g (float[2, 4] x) => (float[2, 3] y) {
        q, s, z = DynamicQuantizeLinear(x)
        i = MatMulInteger(q, w, z, wz)
        f = Cast<to = 1>(i)
        t = Mul(s, ws)
        y = Mul(f, t)
    }
    """
    weight = np.random.default_rng(0).integers(-127, 127, (4, 3)).astype(np.int8)
    compare(
        text,
        {"x": noise(2, 4)},
        w=weight,
        wz=np.array(3, np.int8),
        ws=np.array(0.02, np.float32),
    )
