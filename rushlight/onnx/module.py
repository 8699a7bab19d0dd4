"""The module that an ONNX file becomes: inputs by name, checked, and outputs as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.dims import is_extent
from rushlight.errors import kind as kind_of
from rushlight.interop import from_numpy
from rushlight.jit.parts import fix
from rushlight.nn.module import Module
from rushlight.onnx.build import Builder, Finder, Store, versions_of
from rushlight.onnx.elements import HELD, element_of
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.external import Folder
from rushlight.onnx.importers.registry import tensor_of
from rushlight.tensor import Tensor, literal

CURE = (
    "replace its tensors (model.fc.weight = nn.Parameter(...), which may have more or fewer rows), "
    "put layers behind, nn.Sequential(model, nn.Linear(10, 2)), or cut the file before it with "
    "onnx.utils.extract_model"
)


class Argument:
    """An input of the model: its name, and the elements and shape that the file states.

    ``dtype`` is None for sequences and optional values, ``shape`` if the file has none; a size that
    varies is None.
    """

    def __init__(self, value: Any) -> None:
        self.name = value.name
        self.dtype: np.dtype | None = None
        self.shape: list[int | None] | None = None
        if value.type.WhichOneof("value") != "tensor_type":
            return
        tensor = value.type.tensor_type
        try:
            self.dtype = element_of(tensor.elem_type).numpy
        except OnnxError as error:
            raise OnnxError(f"input {self.name!r}: {error}") from None
        if tensor.HasField("shape"):
            self.shape = [
                d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None  # -1: any
                for d in tensor.shape.dim
            ]

    def take(self, value: Any) -> Any:
        """What is given for the input, checked, and with tensors in the place of arrays."""
        if self.dtype is None:
            return (
                [self.take(v) for v in value] if isinstance(value, (list, tuple)) else held(value)
            )
        if isinstance(value, (bool, int, float)):  # known, also while a function is traced
            return np.array(value, self.dtype).reshape([1] * len(self.shape or ()))
        value = held(value)
        if not isinstance(value, (Tensor, np.ndarray)):
            raise TypeError(f"input {self.name!r} must be a Tensor, not {kind_of(value)}")
        found = value._array.dtype if isinstance(value, Tensor) else value.dtype
        if found != self.dtype:
            raise OnnxError(f"input {self.name!r} must have elements of {self.dtype}, got {found}")
        if self.shape is not None and not fits(value.shape, self.shape):
            wanted = ", ".join("*" if size is None else str(size) for size in self.shape)
            raise OnnxError(
                f"input {self.name!r} must have the shape ({wanted}), got {tuple(value.shape)}"
            )
        return value


def held(value: Any) -> Any:
    """A tensor in the place of an array, where there are tensors of such elements."""
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return from_numpy(array) if array.dtype in HELD else array
    return value


def fits(shape: Any, wanted: list[int | None]) -> bool:
    if len(shape) != len(wanted):
        return False
    return all([b is None or a == b for a, b in zip(shape, wanted, strict=True)])


class OnnxModule(Module):
    """A model of an ONNX file, called with its inputs in order or by name."""

    def __init__(self, model: Any, standard: Finder, external: Folder) -> None:
        super().__init__()
        functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        versions = versions_of(model.opset_import)
        self._body = Builder(Store(self), versions, functions, standard, external).graph(
            model.graph
        )
        given = {t.name for t in model.graph.initializer}
        given |= {t.values.name for t in model.graph.sparse_initializer}
        arguments = {value.name: Argument(value) for value in model.graph.input}
        self._arguments = [arguments[name] for name in self._body.inputs]
        self._needed = len([name for name in self._body.inputs if name not in given])
        self.eval()
        fix(self, CURE, grows=True)

    @property
    def input_names(self) -> list[str]:
        """What the file calls the inputs."""
        return [argument.name for argument in self._arguments[: self._needed]]

    @property
    def output_names(self) -> list[str]:
        """What the file calls the outputs."""
        return list(self._body.outputs)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The output of the graph, or a tuple of several."""
        results = self._body.compute({}, self.training, self._values(inputs, named))
        results = tuple([result_of(value) for value in results])
        return results[0] if len(results) == 1 else results

    def _values(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs by name, checked."""
        names = [argument.name for argument in self._arguments]
        if len(inputs) > self._needed:
            raise TypeError(
                f"the model takes {self._needed} inputs ({', '.join(self.input_names)}), "
                f"got {len(inputs)}"
            )
        given = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                raise TypeError(f"input {name!r} is unknown or given twice; there are {names}")
            given[name] = value
        missing = [name for name in names[: self._needed] if name not in given]
        if missing:
            raise TypeError(f"inputs are missing: {', '.join(missing)}")
        return {a.name: a.take(given[a.name]) for a in self._arguments if a.name in given}

    def extra_repr(self) -> str:
        return f"{', '.join(self.input_names)} → {', '.join(self.output_names)}"


def result_of(value: Any) -> Any:
    """What a user gets: a tensor in the place of an array, where there are such tensors."""
    if isinstance(value, list):
        return [result_of(v) for v in value]
    if isinstance(value, np.ndarray) and value.dtype in HELD:
        return literal(value.copy())
    if isinstance(value, np.ndarray) and any(map(is_extent, value.flat)):
        return tensor_of(value)
    return value
