"""Exported models run in ONNX Runtime, with the results of the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.onnx.options import OnnxExporterError
from rushlight.symbol import TraceError
from tests.compiled.test_modules import CASES
from tests.compiled.test_ops import DEFINED, PUBLIC
from tests.onnx.examples import CONTROL, NETWORKS, SIZES, Example, close, runs, tensors
from tests.sampling import Maker, flat, supported

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore::UserWarning")]

# What ONNX has no operator for, or none that is defined like ours.
NO_OPERATOR = {
    "linear algebra": (
        "cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "linalg.cholesky",
        "linalg.cholesky_ex", "linalg.cond", "linalg.eigh", "linalg.eigvalsh", "linalg.inv",
        "linalg.inv_ex", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve",
        "linalg.lstsq", "linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu_solve",
        "linalg.matrix_exp", "linalg.matrix_norm", "linalg.matrix_power", "linalg.matrix_rank",
        "linalg.norm", "linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.solve",
        "linalg.solve_ex", "linalg.solve_triangular", "linalg.svd", "linalg.svdvals",
        "linalg.tensorinv", "linalg.tensorsolve", "logdet", "lu", "lu_solve", "lu_unpack",
        "matrix_exp", "matrix_power", "orgqr", "ormqr", "pca_lowrank", "pinverse", "qr", "slogdet",
        "svd", "svd_lowrank", "triangular_solve",
    ),
    "complex numbers": (
        "angle", "fft.hfft", "fft.hfft2", "fft.hfftn", "fft.irfft", "fft.irfft2", "fft.irfftn",
        "imag", "istft", "real", "stft", "view_as_real", "view_as_real_copy",
    ),
    "counts, and what lies in the middle of NaN": (
        "histc", "histogram", "histogramdd", "mode", "nanmedian",
        "nn.functional.linear_cross_entropy",
    ),
    "averages of integers": ("nn.functional.avg_pool1d", "nn.functional.avg_pool2d"),
    "special functions": (
        "digamma", "erfinv", "frexp", "gcd", "igamma", "igammac", "lcm", "lgamma", "mvlgamma",
        "nextafter", "polygamma",
    ),
    "draws of other distributions": (
        "multinomial", "nn.functional.gumbel_softmax", "normal", "poisson", "randint_like",
        "randperm",
    ),
}  # fmt: skip
"""Ops of which some call cannot be exported, by reasons."""

LACKING = {
    "polygamma": "tangents of doubles",
    "nn.functional.conv_transpose1d": "an output_padding larger than the stride",
}
"""What ONNX Runtime does not do."""


DRAWS = {"RandomNormalLike", "RandomUniformLike", "Dropout"}
"""Operators of which each runtime has numbers of its own."""


def draws(program: Any) -> bool:
    """Whether a model draws random numbers."""
    return any([node.op_type in DRAWS for node in program.model_proto.graph.node])


def run(program: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if draws(program):  # its optimiser drops every Dropout but the last node, in training too
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        onnxruntime.set_seed(0)
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


@pytest.mark.parametrize("name", list(CASES))
def test_every_module(name: str) -> None:
    make, draws = CASES[name]
    rl.manual_seed(0)
    generator = rl.Generator().manual_seed(1)
    module, args = make(), tuple([draw(generator, rl.float32) for draw in draws])
    with rl.no_grad():
        module(*args)  # shapes of lazy parameters
        expected = tensors(module.eval()(*args))
    close(run(rl.onnx.export(module, args, verify=False), tensors(list(args))), expected)


EXAMPLES: dict[str, Example] = {**CONTROL, **SIZES, **NETWORKS}


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_branches_sizes_and_networks(name: str) -> None:
    program, found = runs(EXAMPLES[name], verify=False)
    for inputs, expected in found:
        close(run(program, inputs), expected)


@pytest.mark.parametrize("opset", [13, 15, 17, 20, 22])
def test_versions(opset: int) -> None:
    for name in ("GPT", "LSTM of characters", "LeNet"):
        program, found = runs(NETWORKS[name], verify=False, opset_version=opset)
        for inputs, expected in found:
            close(run(program, inputs), expected)


def exportable(name: str) -> bool:
    known = {op for ops in NO_OPERATOR.values() for op in ops}
    return name not in known and not name.startswith(("special.", "masked."))


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFINED)
def test_every_op(name: str) -> None:
    op = PUBLIC[name]
    kinds = [dtype for dtype in supported(op) if dtype is rl.float32]
    for sample in op.samples if kinds else ():
        maker = Maker(dtype=rl.float32)
        args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
        inputs = [np.array(t.numpy()) for t in maker.tensors]
        rl.manual_seed(0)
        expected = tensors([t.clone() for t in flat(op.call(*args, **kwargs))])
        plain = [*inputs, *expected]
        if not expected or any([not a.size or a.dtype.kind not in "fib" for a in plain]):
            continue  # ONNX Runtime fails for empty tensors here and there
        if any([np.isnan(a).any() for a in inputs]):
            continue  # whose order is not defined

        def function(*args: Any, op: Any = op, **kwargs: Any) -> Any:
            return [t.clone() for t in flat(op.call(*args, **kwargs))]

        maker = Maker(dtype=rl.float32)
        args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
        try:
            program = rl.onnx.export(function, tuple(args), kwargs=kwargs, verify=False)
        except TraceError:
            continue  # values decide what it does
        except OnnxExporterError as error:
            if "cannot be exported" in str(error) and exportable(name):
                raise
            continue
        if maker.tensors and name not in LACKING:
            found = run(program, inputs)
            if draws(program):  # what they have in common is tested below
                assert types_of(found) == types_of(expected)
            else:
                close(found, expected, 1e-3)


def types_of(arrays: list[np.ndarray]) -> list[Any]:
    return [(a.shape, a.dtype) for a in arrays]


RANDOM = {
    "rand_like": rl.rand_like,
    "randn_like": rl.randn_like,
    "randint": lambda x: rl.randint(3, 8, x.shape),
    "normal_": lambda x: x.clone().normal_(2, 3),
    "uniform_": lambda x: x.clone().uniform_(-3, 5),
    "bernoulli": lambda x: x.sigmoid().bernoulli(),
    "bernoulli of one chance": lambda x: x.bernoulli(0.3),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout1d": lambda x: F.dropout1d(x, 0.3),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.3, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.3),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_have_the_distribution_of_our_own(name: str) -> None:
    rl.manual_seed(0)
    x = rl.randn(1000, 40, 10)  # so many features that means of both differ by less than 0.01
    program = rl.onnx.export(RANDOM[name], (x,), verify=False)
    assert draws(program)
    (found,), expected = run(program, tensors([x])), RANDOM[name](x).numpy()
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    for moment in (np.mean, np.std, share_of_zeros):
        np.testing.assert_allclose(moment(found), moment(expected), rtol=0.05, atol=0.03)


def share_of_zeros(a: np.ndarray) -> float:
    return float((a == 0).mean())
