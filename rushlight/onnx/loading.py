"""``rl.onnx.load``: an ONNX file as a module."""

from __future__ import annotations

import io
import os
import stat
from typing import Any

from rushlight.errors import kind as kind_of
from rushlight.errors import warn
from rushlight.onnx.build import Finder, in_order, versions_of
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.external import Folder
from rushlight.onnx.module import OnnxModule

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

    >>> from onnx import parser
    >>> graph = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    >>> file = parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>' + graph)
    >>> model = rl.onnx.load(file)
    >>> model(rl.ones(2))
    tensor([-1., -1.])
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
        module = OnnxModule(model, standard(onnx), Folder(folder))
        check(onnx, model)
        tell_of_version(onnx, model, name)
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
        raise ImportError("rl.onnx needs the package onnx: pip install onnx") from None
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


def tell_of_version(onnx: Any, model: Any, name: str) -> None:
    """A warning if the file's operators are newer than any that is known."""
    newest, version = onnx.defs.onnx_opset_version(), versions_of(model.opset_import).get("", 0)
    if version > newest:
        warn(
            f"{name}: it needs version {version} of ONNX's operators, and the newest one known "
            f"here is {newest}: operators are taken as they are there."
        )


def standard(onnx: Any) -> Finder:
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
