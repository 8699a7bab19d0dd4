"""What a writer has written, as the messages of an ONNX file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from rushlight.graph.ir import TensorType, tensor_type
from rushlight.graph.multiples import Line, line_of, lines_of
from rushlight.onnx.elements import EXTERNAL, NUMBERS
from rushlight.onnx.loading import required
from rushlight.onnx.writer import Body, Entry, Writer, prune
from rushlight.version import RELEASE

LETTERS = re.compile(r"[A-Z]")  # symbols in the text of a size
LARGE = 1024  # bytes from which on a tensor goes to a file of its own
ALIGNED = 4096  # where tensors begin there, so that they can be mapped


class Messages:
    """Makes messages; ``sizes`` are the names of sizes that change."""

    def __init__(self, sizes: Mapping[str, str]) -> None:
        self.onnx, self.sizes = required(), sizes
        self.lines: dict[str, Line] = {}  # how the sizes of inputs depend on their symbols

    def model(self, w: Writer, name: str, pack: Callable[[Any, np.ndarray], None] | None) -> Any:
        """The whole file. ``pack`` puts elements into messages; None leaves weights out of it."""
        lines = lines_of([kind.shape for _, kind in w.root.inputs])
        self.lines = {line.name: line for line in lines}
        graph = self.graph(w.root, name)
        used = prune(w.root)
        for own, array in w.initializers.items():
            if own in used:
                if pack is None and array.nbytes >= LARGE:
                    graph.input.append(self.value(own, tensor_type(array.shape, array.dtype)))
                else:
                    graph.initializer.append(self.tensor(array, own, pack or inline))
        opset = self.onnx.OperatorSetIdProto(domain="", version=w.opset)
        return self.onnx.ModelProto(
            ir_version=self.onnx.helper.find_min_ir_version_for([opset]),
            producer_name="rushlight",
            producer_version=RELEASE,
            graph=graph,
            opset_import=[opset],
        )

    def graph(self, body: Body, name: str) -> Any:
        graph = self.onnx.GraphProto(name=name)
        graph.input.extend([self.value(n, kind) for n, kind in body.inputs])
        graph.output.extend([self.value(n, kind) for n, kind in body.outputs])
        graph.node.extend([self.node(entry) for entry in body.nodes])
        return graph

    def value(self, name: str, kind: TensorType) -> Any:
        """The name and type of an input or output."""
        info = self.onnx.ValueInfoProto(name=name)
        tensor = info.type.tensor_type
        tensor.elem_type = NUMBERS[kind.dtype.numpy]
        tensor.shape.SetInParent()
        for size in kind.shape:
            dim = tensor.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = self.text(size)
        return info

    def text(self, size: Any) -> str:
        """A size in terms of those of the inputs, which have names."""
        line = line_of(size)
        if line is not None and line == self.lines.get(line.name):
            return self.sizes.get(line.name, line.name)
        return LETTERS.sub(self.label, str(size))

    def label(self, letter: re.Match[str]) -> str:
        name, line = self.sizes.get(letter[0], letter[0]), self.lines.get(letter[0])
        return name if line is None or line.step == 1 else f"({name}//{line.step})"

    def node(self, entry: Entry) -> Any:
        node = self.onnx.NodeProto(op_type=entry.kind, doc_string=entry.source)
        node.name = f"{entry.kind}_{entry.outputs[0]}"
        node.input.extend(entry.inputs)
        node.output.extend(entry.outputs)
        while node.input and not node.input[-1]:  # operands that are left out at the end
            node.input.pop()
        for name, value in entry.attrs.items():
            if isinstance(value, Body):
                value = self.graph(value, name)
            elif isinstance(value, np.ndarray):
                value = self.tensor(value, "", inline)
            node.attribute.append(self.onnx.helper.make_attribute(name, value))
        return node

    def tensor(self, array: np.ndarray, name: str, pack: Callable[[Any, np.ndarray], None]) -> Any:
        message = self.onnx.TensorProto(name=name, data_type=NUMBERS[array.dtype], dims=array.shape)
        pack(message, array)
        return message


def inline(message: Any, array: np.ndarray) -> None:
    """Elements in the message itself."""
    message.raw_data = elements(array)


def elements(array: np.ndarray) -> bytes:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).tobytes()


class Beside:
    """Elements in a file beside that of the model, if there are many of them."""

    def __init__(self, file: BinaryIO, location: str) -> None:
        self.file, self.location = file, location

    def __call__(self, message: Any, array: np.ndarray) -> None:
        if array.nbytes < LARGE:
            inline(message, array)
            return
        self.file.write(b"\0" * (-self.file.tell() % ALIGNED))
        message.data_location = EXTERNAL
        entries = {"location": self.location, "offset": self.file.tell(), "length": array.nbytes}
        for key, value in entries.items():
            message.external_data.add(key=key, value=str(value))
        self.file.write(elements(array))
