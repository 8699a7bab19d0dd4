"""``rl.onnx.load``: an ONNX file as a module."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Mapping
from typing import Any

import numpy as np

from rushlight.errors import kind as kind_of
from rushlight.interop import from_numpy
from rushlight.nn.module import Module
from rushlight.onnx.build import Builder, Store, in_order, versions_of
from rushlight.onnx.elements import HELD, element_of
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.external import Folder
from rushlight.onnx.program import Body
from rushlight.tensor import Tensor, literal

MOST_BYTES = (1 << 31) - 1  # of a message of protobuf
LEAST_IR = 4  # from this version of the format on, initializers need not be inputs, too


def load(f: Any) -> OnnxModule:
    """The model in an ONNX file, as a module that runs, differentiates, trains and compiles.

    Float tensors of the file become parameters, under their names in the file; statistics of batch
    norm and numbers without dimensions become buffers. The module is in ``eval()`` mode; after
    ``train()``, dropout and batch norm behave as they do in training.

    Args:
        f: a path, a file opened for reading, or an ``onnx.ModelProto``. External data are read
            from the folder of the path, and from nowhere else.

    Raises:
        OnnxError: if the file is damaged or holds what is not supported; the message names the
            file, the node and the op.

    >>> model = rl.onnx.load("classifier.onnx")  # doctest: +SKIP
    >>> model(rl.rand(1, 3, 224, 224)).argmax(1)  # doctest: +SKIP
    """
    onnx = required()
    if isinstance(f, onnx.ModelProto):
        name, folder = "the model", None
        data = f.SerializeToString()
    elif isinstance(f, (str, os.PathLike)):
        name = os.fspath(f)
        folder = os.path.dirname(os.path.abspath(name))
        data = contents(name)
    elif callable(getattr(f, "read", None)):
        name, folder = getattr(f, "name", "the file") if isinstance(f, io.IOBase) else "it", None
        data = f.read()
    else:
        raise TypeError(f"onnx.load(): expected a path or a file to read from, got {kind_of(f)}")
    try:
        model = parsed(onnx, data)
        module = OnnxModule(model, Folder(folder))
        check(onnx, model)
    except OnnxError as error:
        raise OnnxError(f"{name}: {error}") from None
    except RecursionError:
        raise OnnxError(f"{name}: it is nested too deeply") from None
    except MemoryError:
        raise OnnxError(f"{name}: it describes more data than fits into memory") from None
    except Exception as error:  # names that are no text, among others
        raise OnnxError(f"{name}: the file is damaged ({error!r})") from error
    return module


def required() -> Any:
    """The package onnx, which knows the messages of the format."""
    try:
        import onnx
    except ImportError:
        raise ImportError("rl.onnx needs the package onnx: pip install 'rushlight[onnx]'") from None
    return onnx


def contents(path: str) -> bytes:
    """The bytes of a regular file."""
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(21, "cannot load a folder", path)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(22, "cannot load what is not a regular file", path)
    if found.st_size > MOST_BYTES:
        raise OnnxError(f"{path}: an ONNX file has at most 2 GiB; use external data beyond")
    with open(path, "rb") as file:
        return file.read()


def parsed(onnx: Any, data: Any) -> Any:
    """The message in ``data``, which is a model and not just any bytes."""
    if not isinstance(data, bytes):
        raise OnnxError("it is opened as text; open it with mode 'rb'")
    if not data:
        raise OnnxError("the file is empty")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # DecodeError of whichever protobuf is installed
        raise OnnxError(f"it is no ONNX file, or a damaged one ({error})") from None
    if not model.HasField("graph") or not model.opset_import:
        raise OnnxError("it is no ONNX file: there is no graph, or no version of its operators")
    return model


def check(onnx: Any, model: Any) -> None:
    """Lets ONNX's own checker see the nodes; the tensors, which are read already, are taken out."""
    for tensor in model.graph.initializer:
        name, kind = tensor.name, tensor.data_type
        tensor.Clear()
        tensor.name, tensor.data_type = name, kind
        tensor.dims.append(0)
    model.ir_version = max(model.ir_version, LEAST_IR)
    order = {tuple(node.output): i for i, node in enumerate(in_order(model.graph.node, set()))}
    model.graph.node.sort(key=lambda node: order[tuple(node.output)])
    for value in model.graph.output:  # what follows from the nodes need not be stated
        if value.type.WhichOneof("value") in (None, "tensor_type"):
            value.type.tensor_type.elem_type = value.type.tensor_type.elem_type or 1
            value.type.tensor_type.shape.SetInParent()
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise OnnxError(" ".join(str(error).split())) from None


def standard(onnx: Any) -> Any:
    """A function that finds the formulas by which the standard defines ops in terms of others."""

    def find(domain: str, name: str, version: int) -> Any:
        try:
            schema = onnx.defs.get_schema(name, version, domain)
        except onnx.defs.SchemaError:
            return None
        if not schema.has_function:
            return None
        defaults = {name: a.default_value for name, a in schema.attributes.items()}
        return schema.function_body, {name: a for name, a in defaults.items() if a.name}

    return find


class Argument:
    """An input of the model: its name, and the elements and shape that the file states."""

    def __init__(self, value: Any) -> None:
        self.name = value.name
        self.kind = value.type.WhichOneof("value")
        tensor = value.type.tensor_type
        try:
            self.dtype = element_of(tensor.elem_type).numpy if self.kind == "tensor_type" else None
        except OnnxError as error:
            raise OnnxError(f"input {value.name!r}: {error}") from None
        self.shape: list[int | None] | None = None
        if self.kind == "tensor_type" and tensor.HasField("shape"):
            dims = tensor.shape.dim  # some writers have -1 for a size that varies
            self.shape = [
                d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims
            ]

    def take(self, value: Any) -> Any:
        """The argument for it, checked."""
        if isinstance(value, (list, tuple)):
            return [self.take(v) for v in value]
        if isinstance(value, (bool, int, float)) and self.dtype is not None:
            value = np.array(value, self.dtype)  # known when a function is traced
            return value.reshape([1] * len(self.shape or ()))
        if value is None or self.kind != "tensor_type":
            return value if not isinstance(value, np.ndarray) else from_numpy(value)
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            value = from_numpy(array) if array.dtype in HELD else array
        if not isinstance(value, (Tensor, np.ndarray)):
            raise TypeError(f"input {self.name!r} must be a Tensor, not {kind_of(value)}")
        found = value._array.dtype if isinstance(value, Tensor) else value.dtype
        if found != self.dtype:
            raise OnnxError(f"input {self.name!r} must have elements of {self.dtype}, got {found}")
        shape = self.shape
        if shape is not None and (
            len(shape) != value.ndim
            or any([a is not None and a != b for a, b in zip(shape, value.shape, strict=True)])
        ):
            wanted = ", ".join("*" if size is None else str(size) for size in shape)
            raise OnnxError(
                f"input {self.name!r} must have the shape ({wanted}), got {tuple(value.shape)}"
            )
        return value


class OnnxModule(Module):
    """A model of an ONNX file, called with its inputs in order or by name."""

    def __init__(self, model: Any, external: Folder) -> None:
        super().__init__()
        onnx = required()
        functions = {(f.domain, f.name, getattr(f, "overload", "")): f for f in model.functions}
        builder = Builder(
            Store(self), versions_of(model.opset_import), functions, standard(onnx), external
        )
        self._body: Body = builder.graph(model.graph)
        given = {t.name for t in model.graph.initializer}
        given |= {t.values.name for t in model.graph.sparse_initializer}
        arguments = {value.name: Argument(value) for value in model.graph.input}
        self._arguments = [arguments[name] for name in self._body.inputs]
        self._needed = len([name for name in self._body.inputs if name not in given])
        self.eval()

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
    return value
