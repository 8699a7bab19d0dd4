"""The tests of the standard: a node, or a small network, with inputs and outputs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

# What fails, by patterns of names, and why. Everything else passes.
UNSUPPORTED = {
    "string|regex|strnorm|label_encoder": "there are no tensors of strings",
    "image_decoder": "no decoders of images: they are data, not layers",
    "tree_ensemble": "no trees",
    "gradient_of": "no gradients in graphs: loaded models have their own",
    "bernoulli|training_dropout": "other random numbers than those of NumPy",
    "scales_(linear|cubic)_align_corners": "as onnxruntime has it: between whole pixels",
    "attention_4d_causal_fp16": "the last bit of float16, which nobody rounds alike",
}
LEAST = 0.85  # of the tests of floats and integers


class Case:
    """A test: its model and pairs of inputs and outputs."""

    def __init__(self, found: Any) -> None:
        self.name, self.rtol, self.atol = found.name, found.rtol, found.atol
        if found.model is not None:
            self.model = found.model
            self.sets = [[plain(v) for v in part] for pair in found.data_sets for part in pair]
            return
        folder = Path(found.model_dir)
        self.model = onnx.load(folder / "model.onnx")
        self.sets = []
        for place in sorted(folder.glob("test_data_set_*")):
            for kind, values in (
                ("input", self.model.graph.input),
                ("output", self.model.graph.output),
            ):
                files = [place / f"{kind}_{i}.pb" for i in range(len(values))]
                pairs = [(f, v) for f, v in zip(files, values, strict=True) if f.exists()]
                self.sets.append([plain(read(f, v.type)) for f, v in pairs])

    def fails(self) -> str:
        """What goes wrong; nothing, if the results are right."""
        try:
            net = rl.onnx.load(self.model)
            names = [value.name for value in self.model.graph.input]
            for given, expected in zip(self.sets[::2], self.sets[1::2], strict=True):
                found = net(**dict(zip(names, given, strict=False)))
                found = found if isinstance(found, tuple) else (found,)
                for a, b in zip(found, expected, strict=False):
                    self.compare(a, b)
                self.compare_known(net, given, expected)
        except (rl.onnx.OnnxError, AssertionError) as error:
            return f"{type(error).__name__}: {error}"[:200]
        return ""

    def compare_known(self, net: Any, given: list[Any], expected: list[Any]) -> None:
        """What is known while a function is traced is computed alike, on arrays."""
        arrays = all([isinstance(value, np.ndarray) for value in given])
        if arrays and len(net._body.steps) == 1 and net._body.steps[0].importer.host:
            for a, b in zip(net._body.run({}, False, *given), expected, strict=False):
                self.compare(a, b)

    def compare(self, found: Any, expected: Any) -> None:
        if isinstance(expected, list):
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                self.compare(a, b)
        elif expected is None:
            assert found is None
        else:
            a = found.detach().numpy() if isinstance(found, rl.Tensor) else found
            assert a.dtype == expected.dtype
            assert a.shape == expected.shape
            rtol = max(self.rtol, 2**-6) if a.dtype.name == "bfloat16" else self.rtol
            if a.dtype.kind == "V":
                a, expected = a.astype(np.float32), expected.astype(np.float32)
            np.testing.assert_allclose(a, expected, rtol=rtol, atol=self.atol)


def read(path: Path, kind: Any) -> Any:
    """The message in a file of data."""
    which = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    message = which.get(kind.WhichOneof("value"), onnx.TensorProto)()
    message.ParseFromString(path.read_bytes())
    return message


def plain(value: Any) -> Any:
    """Arrays, lists and None in the place of messages."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, onnx.SequenceProto):
        return numpy_helper.to_list(value)
    if isinstance(value, onnx.OptionalProto):
        return numpy_helper.to_optional(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def cases(kind: str, expanded: bool) -> Iterator[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, while the expected results are computed
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind=kind)
    yield from [Case(case) for case in found if "_expanded" not in case.name or expanded]


KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]


@pytest.mark.parametrize("kind", KINDS)
def test_backend(kind: str) -> None:
    verify(kind, expanded=False)


@pytest.mark.slow
def test_backend_with_formulas() -> None:
    """Ops that the standard defines by others, as these others."""
    verify("node", expanded=True)


def verify(kind: str, expanded: bool) -> None:
    failures, surprises, count = {}, [], 0
    for case in cases(kind, expanded):
        count += 1
        excused = any(re.search(pattern, case.name) for pattern in UNSUPPORTED)
        message = case.fails()
        if message:
            failures[case.name] = message
        if message and not excused:
            surprises.append(f"{case.name}: {message}")
    print(f"{kind}: {count - len(failures)} of {count} pass")
    assert not surprises, "\n".join(surprises)
    assert len(failures) <= (1 - LEAST) * count or kind == "simple"
