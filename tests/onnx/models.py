"""Small ONNX models, written in the standard's own notation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser


def model(text: str, opset: int = 21, **arrays: np.ndarray) -> Any:
    """The model of a graph in text, with ``arrays`` as initializers."""
    header = f'<ir_version: 10, opset_import: ["" : {opset}]>\n'
    found = parser.parse_model(header + text)
    for name, array in arrays.items():
        found.graph.initializer.append(numpy_helper.from_array(array, name))
    return found


def perceptron() -> Any:
    """Two linear layers, with the names that PyTorch gives."""
    rng = np.random.default_rng(0)
    found = model(
        """
        net (float[N, 4] x) => (float[N, 2] y) {
            h = Gemm<transB = 1>(x, w1, b1)
            r = Relu(h)
            y = Gemm<transB = 1>(r, w2, b2)
        }
        """
    )
    names = {"w1": "first.weight", "b1": "first.bias", "w2": "last.weight", "b2": "last.bias"}
    shapes = {"w1": (8, 4), "b1": (8,), "w2": (2, 8), "b2": (2,)}
    for key, shape in shapes.items():
        array = rng.standard_normal(shape).astype(np.float32)
        found.graph.initializer.append(numpy_helper.from_array(array, names[key]))
    for node in found.graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = names.get(name, name)
    return found


def write(path: Any, found: Any) -> str:
    """Saves a model and gives its path."""
    onnx.save(found, str(path))
    return str(path)
