"""Models of ONNX files as modules: names, training, compiling, control flow, shapes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.testing import assert_close

pytest.importorskip("onnx")

from tests.onnx.models import model, perceptron, write


def test_names_are_those_of_the_file() -> None:
    net = rl.onnx.load(perceptron())
    assert list(net.state_dict()) == ["first.weight", "first.bias", "last.weight", "last.bias"]
    assert net.input_names == ["x"]
    assert net.output_names == ["y"]
    assert not net.training
    x = rl.randn(3, 4)
    h = (x @ net.first.weight.T + net.first.bias).relu()
    assert_close(net(x), h @ net.last.weight.T + net.last.bias)
    assert_close(net(x=x), net(x))
    assert_close(net(x.numpy()), net(x))


def test_names_that_python_does_not_allow() -> None:
    ones = np.ones(2, np.float32)
    arrays = {
        "_body": 0 * ones,
        "/a/b": 0 * ones,
        "a": ones,
        "a.b": 2 * ones,
        "onnx::Add_3": 3 * ones,
        "forward": 4 * ones,
        "7": 5 * ones,
    }
    found = model("g (float[2] x) => (float[2] y) { y = Sum(x, m, n, p, q, r, s, t) }", **arrays)
    for i, name in enumerate(arrays, 1):
        found.graph.node[0].input[i] = name
    net = rl.onnx.load(found)
    names = ["body", "a_b", "a", "onnx__Add_3", "forward_1", "7", "a_1.b"]
    assert list(net.state_dict()) == names
    assert_close(net(rl.zeros(2)), rl.full((2,), 15.0))


def test_a_loaded_model_trains(tmp_path: Path) -> None:
    net = rl.onnx.load(write(tmp_path / "net.onnx", perceptron()))
    optimizer = rl.optim.Adam(net.parameters(), lr=0.02)
    rl.manual_seed(0)
    x = rl.randn(64, 4)
    target = x[:, :2] * x[:, 2:]
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = rl.nn.functional.mse_loss(net(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3


def test_a_loaded_model_compiles() -> None:
    net = rl.onnx.load(perceptron())
    compiled = rl.compile(net, fullgraph=True)
    x = rl.randn(5, 4)
    assert_close(compiled(x), net(x))
    with rl.no_grad():
        net.last.bias.zero_()
    assert_close(compiled(x), net(x))


def test_batch_norm_and_dropout_follow_the_mode() -> None:
    statistics = {"m": np.zeros(3, np.float32), "v": np.ones(3, np.float32)}
    scale = {"s": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    net = rl.onnx.load(
        model(
            """
            g (float[N, 3] x) => (float[N, 3] z) {
                y = BatchNormalization(x, s, b, m, v)
                z = Dropout(y)
            }
            """,
            **statistics,
            **scale,
        )
    )
    assert {name for name, _ in net.named_parameters()} == {"s", "b"}
    assert {name for name, _ in net.named_buffers()} == {"m", "v"}
    x = 4 + rl.randn(100, 3)
    assert_close(net(x), x, atol=1e-3, rtol=1e-4)
    net.train()
    y = net(x)
    assert (y == 0).float().mean() > 0.3
    assert_close(net.m, 0.1 * x.mean(0), rtol=1e-4, atol=1e-5)
    assert net(x).requires_grad


def test_what_is_not_learnt() -> None:
    found = model(
        """
        g (float[2, 3] x) => (float[2, 6] y) {
            w = Constant<value = float[3] {1.0, 2.0, 3.0}>()
            half = Constant<value = float {0.5}>()
            a = Mul(x, w)
            b = Mul(a, half)
            c = Mul(b, number)
            d = Gather<axis = 1>(c, table)
            y = Reshape(d, shape)
        }
        """,
        number=np.array(2.0, np.float32),
        table=np.array([[0, 1], [2, 0], [1, 1]], np.int64),
        shape=np.array([2, -1], np.int64),
    )
    net = rl.onnx.load(found)
    assert [name for name, _ in net.named_parameters()] == ["w"]
    assert [name for name, _ in net.named_buffers()] == ["number", "table"]
    expect = rl.tensor([[1.0, 2.0, 3.0, 1.0, 2.0, 2.0]] * 2)
    assert_close(net(rl.ones(2, 3)), expect.detach(), check_stride=False)


SHAPES = """
g (float[N, C, H, W] x) => (float[A, B] y) {
    shape = Shape(x)
    zero = Constant<value_ints = [0]>()
    one = Constant<value_ints = [1]>()
    three = Constant<value_ints = [3]>()
    batch = Gather(shape, zero)
    height = Slice(shape, one, three, zero)
    rest = Constant<value_ints = [-1]>()
    two = Constant<value_ints = [2]>()
    area = ReduceProd<keepdims = 1>(height)
    doubled = Mul(area, two)
    half = Div(doubled, two)
    joined = Concat<axis = 0>(batch, half, rest)
    z = Reshape(x, joined)
    y = ReduceSum<keepdims = 0>(z, rest)
}
"""


def test_shapes_are_computed_while_tracing() -> None:
    net = rl.onnx.load(model(SHAPES))
    compiled = rl.compile(net, fullgraph=True)
    for shape in ((2, 3, 4, 5), (1, 3, 2, 2)):
        x = rl.randn(shape)
        n, c, h, w = shape
        assert_close(net(x), x.reshape(n, c * h, w).sum(-1))
        assert_close(compiled(x), net(x))


BRANCH = """
g (float[3] x) => (float[3] y) {
    s = ReduceSum<keepdims = 0>(x)
    zero = Constant<value = float {0.0}>()
    positive = Greater(s, zero)
    y = If(positive) <
        then_branch = yes () => (float[3] a) { a = Mul(x, w) },
        else_branch = no () => (float[3] b) { b = Neg(x) }
    >
}
"""


def test_branches() -> None:
    net = rl.onnx.load(model(BRANCH, w=np.array([1, 2, 3], np.float32)))
    compiled = rl.compile(net, fullgraph=True)
    x = rl.tensor([1.0, 2.0, -1.0])
    for run in (net, compiled):
        assert_close(run(x).detach(), rl.tensor([1.0, 4.0, -3.0]))
        assert_close(run(-x).detach(), x)
    net(x).sum().backward()
    assert_close(net.w.grad, x)


def test_branches_that_fit_other_inputs() -> None:
    text = """
    g (float[N] x, int64 rate) => (float[M] y) {
        limit = Constant<value = int64 {8}>()
        high = Greater(rate, limit)
        y = If(high) <
            then_branch = yes () => (float[4] a) { a = Add(x, four) },
            else_branch = no () => (float[2] b) { b = Add(x, two) }
        >
    }
    """
    net = rl.onnx.load(model(text, four=np.zeros(4, np.float32), two=np.ones(2, np.float32)))
    compiled = rl.compile(net)
    x = rl.ones(4)
    assert_close(net(x, rl.tensor(16)).detach(), x)
    assert_close(compiled(x, 16).detach(), x)  # a number decides while the function is traced
    assert_close(compiled(x[:2], 8).detach(), x[:2] + 1)
    with pytest.warns(UserWarning, match="runs in dynamic mode"):
        assert_close(compiled(x, rl.tensor(16)).detach(), x)


COUNTED = """
g (int64 n, float[2] x) => (float[2] last, float[K, 2] all) {
    yes = Constant<value = bool {1}>()
    last, all = Loop(n, yes, x) <
        body = step (int64 i, bool go, float[2] before) => (bool more, float[2] after, float[2] y) {
            more = Identity(go)
            f = Cast<to = 1>(i)
            after = Add(before, f)
            y = Mul(after, w)
        }
    >
}
"""


def test_counted_loops_are_scans_in_programs() -> None:
    net = rl.onnx.load(model(COUNTED, w=np.array([1, 10], np.float32)))
    x = rl.ones(2)
    last, rows = net(rl.tensor(4), x)
    assert_close(last, rl.tensor([7.0, 7.0]))
    assert_close(rows[:, 1].detach(), rl.tensor([10.0, 20.0, 40.0, 70.0]))
    compiled = rl.compile(lambda x: net(4, x), fullgraph=True)
    for a, b in zip(compiled(x), (last, rows), strict=True):
        assert_close(a, b)


WHILE = """
g (float[2] x) => (float[2] y) {
    yes = Constant<value = bool {1}>()
    limit = Constant<value = float {100.0}>()
    y = Loop("", yes, x) <
        body = step (int64 i, bool go, float[2] before) => (bool more, float[2] after) {
            after = Mul(before, w)
            s = ReduceSum<keepdims = 0>(after)
            more = Less(s, limit)
        }
    >
}
"""


def test_loops_that_end_by_a_condition() -> None:
    found = model(WHILE.replace('""', "nothing"), w=np.array([2, 3], np.float32))
    found.graph.node[2].input[0] = ""
    net = rl.onnx.load(found)
    compiled = rl.compile(net, fullgraph=True)
    for x in (rl.ones(2), rl.tensor([5.0, 20.0])):
        y = x * net.w
        while y.sum() < 100:
            y = y * net.w
        assert_close(net(x), y)
        assert_close(compiled(x), y)


def test_functions_of_the_file() -> None:
    text = """
    g (float[3] x) => (float[3] y) { y = own.scaled<factor = 3.0>(x) }
    <opset_import: ["" : 21], domain: "own">
    scaled <factor: float = 2.0> (a) => (b) {
        f = Constant<value_float: float = @factor>()
        b = Mul(a, f)
    }
    """
    found = model(text)
    found.opset_import.add(domain="own", version=1)
    assert_close(rl.onnx.load(found)(rl.ones(3)), rl.full((3,), 3.0))
    del found.graph.node[0].attribute[:]
    assert_close(rl.onnx.load(found)(rl.ones(3)), rl.full((3,), 2.0))


def test_functions_that_call_themselves_are_refused() -> None:
    text = """
    g (float[3] x) => (float[3] y) { y = own.f(x) }
    <opset_import: ["" : 21, "own" : 1], domain: "own"> f (a) => (b) { b = own.f(a) }
    """
    found = model(text)
    found.opset_import.add(domain="own", version=1)
    with pytest.raises(rl.onnx.OnnxError, match="nested more than"):
        rl.onnx.load(found)


def functions_that_double(count: int) -> Any:
    """A model of 2 ** count negations: each function calls the next one twice."""
    text = "g (float[3] x) => (float[3] y) { y = own.f0(x) }"
    for i in range(count):
        text += f"""
        <opset_import: ["" : 21, "own" : 1], domain: "own">
        f{i} (a) => (c) {{ b = own.f{i + 1}(a) c = own.f{i + 1}(b) }}"""
    text += f'<opset_import: ["" : 21], domain: "own"> f{count} (a) => (b) {{ b = Neg(a) }}'
    found = model(text)
    found.opset_import.add(domain="own", version=1)
    return found


def test_functions_cannot_multiply_without_end() -> None:
    with pytest.raises(rl.onnx.OnnxError, match="more than 200000 nodes"):
        rl.onnx.load(functions_that_double(30))
    with pytest.raises(rl.onnx.OnnxError, match="nested more than 50 deep"):
        rl.onnx.load(functions_that_double(60))


def test_calls_of_a_function_share_its_body() -> None:
    net = rl.onnx.load(functions_that_double(10))
    assert net._body.count == 3 * 2**10 - 1  # with the calls
    assert net._body.height == 12
    assert_close(net(rl.ones(3)), rl.ones(3))


def test_calls_with_other_attributes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
    g (float[3] x) => (float[3] y) {
        a = own.f<k = 1.0>(x) b = own.f<k = 2.0>(a) c = own.f<k = 1.0>(b) y = own.f<k = 3.0>(c)
    }
    <opset_import: ["" : 21], domain: "own">
    f <k> (a) => (b) { c = Constant<value_float: float = @k>() b = Mul(a, c) }
    """
    found = model(text)
    found.opset_import.add(domain="own", version=1)
    assert rl.onnx.load(found)(rl.ones(3)).tolist() == [6, 6, 6]
    monkeypatch.setattr("rushlight.onnx.build.MOST_BODIES", 2)
    with pytest.raises(rl.onnx.OnnxError, match="more than 2 different calls"):
        rl.onnx.load(found)


def test_a_function_that_is_known_counts_as_deep_as_it_is() -> None:
    functions = "".join(
        f"""<opset_import: ["" : 21, "own" : 1], domain: "own">
        f{i} (a) => (b) {{ b = own.f{i + 1}(a) }}"""
        for i in range(60)
        if i != 30
    )
    functions += """<opset_import: ["" : 21], domain: "own"> f60 (a) => (b) { b = Neg(a) }
    <opset_import: ["" : 21, "own" : 1], domain: "own"> f30 (a) => (b) { b = own.f31(a) }"""
    found = model("g (float[3] x) => (float[3] y) { t = own.f30(x) y = own.f0(t) }" + functions)
    found.opset_import.add(domain="own", version=1)
    with pytest.raises(rl.onnx.OnnxError, match="nested more than 50 deep"):
        rl.onnx.load(found)


def test_nodes_in_any_order() -> None:
    found = perceptron()
    nodes = list(found.graph.node)
    del found.graph.node[:]
    found.graph.node.extend(reversed(nodes))
    x = rl.randn(3, 4)
    assert_close(rl.onnx.load(found)(x), rl.onnx.load(perceptron())(x))


def test_inputs_are_checked() -> None:
    net = rl.onnx.load(perceptron())
    with pytest.raises(rl.onnx.OnnxError, match=r"input 'x' must have the shape \(\*, 4\), got"):
        net(rl.zeros(2, 5))
    with pytest.raises(rl.onnx.OnnxError, match="input 'x' must have elements of float32"):
        net(rl.zeros(2, 4, dtype=rl.float64))
    with pytest.raises(TypeError, match="inputs are missing: x"):
        net()
    with pytest.raises(TypeError, match="takes 1 inputs"):
        net(1, 2)
    with pytest.raises(TypeError, match="input 'x' must be a Tensor, not list"):
        net([[1.0, 2.0, 3.0, 4.0]])
    with pytest.raises(TypeError, match="'z' is unknown"):
        net(rl.zeros(2, 4), z=1)


def test_initializers_that_are_inputs_can_be_replaced() -> None:
    found = model(
        "g (float[2] x, float[2] w) => (float[2] y) { y = Mul(x, w) }", w=np.float32([2, 3])
    )
    net = rl.onnx.load(found)
    x = rl.ones(2)
    assert net.input_names == ["x"]
    assert_close(net(x).detach(), rl.tensor([2.0, 3.0]))
    assert_close(net(x, w=rl.tensor([5.0, 7.0])), rl.tensor([5.0, 7.0]))


def test_errors_name_the_node() -> None:
    found = model("g (float[2] x, float[3] z) => (float[2] y) { y = Add(x, z) }")
    found.graph.node[0].name = "sum"
    net = rl.onnx.load(found)
    with pytest.raises(rl.onnx.OnnxError, match=r"node 'sum' \(Add\): .*size"):
        net(rl.zeros(2), rl.zeros(3))


VERSIONS: list[tuple[str, int, str, Any]] = [
    ("squeeze", 11, "y = Squeeze<axes = [0]>(x)", lambda x: x[0]),
    ("squeeze", 13, "a = Constant<value_ints = [0]>() y = Squeeze(x, a)", lambda x: x[0]),
    ("softmax", 11, "y = Softmax(x)", lambda x: x.reshape(1, -1).softmax(1).reshape(x.shape)),
    ("softmax", 13, "y = Softmax(x)", lambda x: x.softmax(-1)),
    ("clip", 6, "y = Clip<min = -0.5, max = 0.5>(x)", lambda x: x.clamp(-0.5, 0.5)),
    ("slice", 9, "y = Slice<starts = [1], ends = [3], axes = [2]>(x)", lambda x: x[:, :, 1:3]),
    ("pad", 2, "y = Pad<pads = [0, 0, 1, 0, 0, 2]>(x)", lambda x: rl.nn.functional.pad(x, (1, 2))),
    ("sum", 11, "y = ReduceSum<axes = [1], keepdims = 0>(x)", lambda x: x.sum(1)),
    ("split", 11, "y, z = Split<axis = 1, split = [1, 2]>(x)", lambda x: x[:, :1]),
    ("topk", 9, "y, i = TopK<k = 2>(x)", lambda x: x.topk(2).values),
    ("dropout", 7, "y = Dropout<ratio = 0.9>(x)", lambda x: x),
    ("upsample", 7, "y = Upsample<scales = [1.0, 1.0, 2.0]>(x)",
     lambda x: x.repeat_interleave(2, 2)),
    ("unsqueeze", 11, "y = Unsqueeze<axes = [0, -1]>(x)", lambda x: x[None, ..., None]),
    ("add", 6, "b = Constant<value = float[3] {1.0, 2.0, 3.0}>() "
               "y = Add<broadcast = 1, axis = 1>(x, b)",
     lambda x: x + rl.tensor([1.0, 2.0, 3.0])[:, None]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("opset", "text", "expect"),
    [pytest.param(*case[1:], id=f"{case[0]}-{case[1]}") for case in VERSIONS],
)
def test_earlier_versions_of_ops(opset: int, text: str, expect: Any) -> None:
    found = model(f"g (float[1, 3, 4] x) => (float y) {{ {text} }}", opset)
    found.graph.output[0].type.tensor_type.ClearField("shape")
    x = rl.randn(1, 3, 4)
    y = rl.onnx.load(found)(x)
    assert_close(y.detach(), expect(x), check_stride=False)


def test_statistics_that_are_one_with_weights() -> None:
    text = "g (float[4, 3] x) => (float[4, 3] y) { y = BatchNormalization(x, s, b, b, s) }"
    file = model(text, 15, s=np.ones(3, np.float32), b=np.zeros(3, np.float32))
    loaded = rl.onnx.load(file).train()
    loaded(rl.randn(4, 3)).sum().backward()
    assert [name for name, _ in loaded.named_parameters()] == ["s", "b"]
    assert loaded.s.tolist() == [1.0] * 3
    assert loaded.s_var.tolist() != [1.0] * 3


def test_tensors_that_are_merged_by_their_values() -> None:
    """Fresh layers of PyTorch: one tensor of ones and one of zeros, with many names."""
    text = """
    g (float[8, 3] x) => (float[8, 3] y) {
        var = Identity(s)
        t = Identity(s)
        next_var = Identity(t)
        mean = Identity(b)
        next_mean = Identity(mean)
        c = Identity(b)
        v = Identity(w)
        h = Gemm(x, w, b)
        z = BatchNormalization(h, s, c, mean, var)
        k = MatMul(z, v)
        y = BatchNormalization(k, t, c, next_mean, next_var)
    }
    """
    w = rl.randn(3, 3)
    file = model(text, 15, s=np.ones(3, np.float32), b=np.zeros(3, np.float32), w=w.numpy())
    loaded = rl.onnx.load(file)
    statistics = {"var", "next_var", "mean", "next_mean"}
    assert {name for name, _ in loaded.named_buffers()} == statistics
    assert {name for name, _ in loaded.named_parameters()} == {"s", "t", "b", "c", "w"}

    linear, first, second = rl.nn.Linear(3, 3), rl.nn.BatchNorm1d(3), rl.nn.BatchNorm1d(3)
    net = rl.nn.ModuleList([linear, first, second])
    with rl.no_grad():
        linear.weight.copy_(w.T)
        linear.bias.zero_()
    second.bias = first.bias  # which the file has under one name
    x = rl.randn(8, 3)
    for mode in (False, True):
        pairs = [(m.train(mode), rl.optim.SGD(m.parameters(), 0.1)) for m in (loaded, net)]
        for _ in range(3):
            losses = []
            for m, optimizer in pairs:
                y = m(x) if m is loaded else second(first(linear(x)) @ linear.weight.T)
                losses.append((y - 1).square().mean())
                optimizer.zero_grad()
                losses[-1].backward()
                optimizer.step()
            assert_close(*losses)
    assert_close(loaded.next_var, second.running_var)


def test_max_roi_pool() -> None:
    text = """
    g (float[N, C, H, W] x, float[R, 5] rois) => (float[R, C, 2, 2] y) {
        y = MaxRoiPool<pooled_shape = [2, 2], spatial_scale = 0.5>(x, rois)
    }
    """
    net = rl.onnx.load(model(text))
    x = rl.arange(32.0).reshape(2, 1, 4, 4)
    rois = rl.tensor([[0.0, 0, 0, 6, 6], [1, 2, 2, 3, 5], [0, 8, 8, 9, 9]])
    # Cells of 2 × 2 pixels; of 2 × 1, in which rows are shared; a region outside of the image.
    expected = [[[5, 7], [13, 15]], [[25, 26], [29, 30]], [[0, 0], [0, 0]]]
    for run in (net, rl.compile(net, fullgraph=True)):
        assert run(x, rois)[:, 0].tolist() == expected


def ml_model(text: str) -> Any:
    found = model(text)
    found.opset_import.add(domain="ai.onnx.ml", version=4)
    return found


def test_codes_of_categories() -> None:
    net = rl.onnx.load(
        ml_model("""
    g (int64[N] x) => (float[N, 3] y) {
        y = ai.onnx.ml.OneHotEncoder<cats_int64s = [5, 7, 9]>(x)
    }
    """)
    )
    assert net(rl.tensor([7, 5, 1])).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    net = rl.onnx.load(
        ml_model("""
    g (int64[N] x) => (int16[N] y) {
        y = ai.onnx.ml.LabelEncoder<
            keys_tensor = int64[2] {4, 6}, values_tensor = int16[2] {1, 2},
            default_tensor = int16[1] {9}
        >(x)
    }
    """)
    )
    assert net(rl.tensor([6, 4, 5])).tolist() == [2, 1, 9]


@pytest.mark.parametrize(
    ("mode", "expected"), [("TF", [0, 2, 1, 2]), ("IDF", [0, 3, 4, 2]), ("TFIDF", [0, 6, 4, 4])]
)
def test_counts_of_sequences(mode: str, expected: list[float]) -> None:
    text = f"""
    g (int64[N] x) => (float[4] y) {{
        y = TfIdfVectorizer<
            mode = "{mode}", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1,
            pool_int64s = [3, 8, 1, 2, 2, 1], ngram_counts = [0, 2], ngram_indexes = [1, 0, 3, 2],
            weights = [3.0, 5.0, 2.0, 4.0]
        >(x)
    }}
    """
    net = rl.onnx.load(model(text))
    assert net(rl.tensor([1, 3, 2, 3, 1, 2])).tolist() == expected


def test_modules_inside_a_model_stay_as_the_file_has_them() -> None:
    net, x = rl.onnx.load(perceptron()), rl.ones(3, 4)
    before = net(x)
    for change in (
        lambda: setattr(net, "last", rl.nn.Linear(5, 2)),
        lambda: net.add_module("last", rl.nn.Identity()),
        lambda: delattr(net, "last"),
        lambda: setattr(copy.deepcopy(net), "last", None),
    ):
        with pytest.raises(RuntimeError, match=r"'last' cannot be .*nn\.Sequential\(model"):
            change()
    with pytest.raises(RuntimeError, match="a module inside a program cannot have hooks"):
        net.first.register_forward_hook(print)
    with pytest.raises(RuntimeError, match="a module inside a program cannot be called"):
        net.first(x)
    assert_close(net(x), before)
    net.other = rl.nn.Linear(2, 2)
    net.other = rl.nn.Identity()
    del net.other


def test_tensors_of_a_model_may_be_replaced() -> None:
    net, x = rl.onnx.load(perceptron()), rl.ones(3, 4)
    width = net.last.weight.shape[1]
    net.last.weight = rl.nn.Parameter(rl.randn(7, width))
    net.last.bias = rl.nn.Parameter(rl.zeros(7))
    assert net(x).shape == (3, 7)
    again = rl.onnx.load(rl.onnx.export(net, (x,)).model_proto)
    assert_close(again(x), net(x))
    rl.nn.utils.parametrize.register_parametrization(net.last, "bias", rl.nn.Softplus())
    assert_close(net(x) - again(x), rl.full((3, 7), 2.0).log())


def test_a_file_for_newer_operators_is_told_of() -> None:
    text = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    with pytest.warns(UserWarning, match=r"version 999 of ONNX's operators, and the newest"):
        rl.onnx.load(model(text, opset=999))
