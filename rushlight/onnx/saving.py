"""A written program: shown, run, and saved to files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from rushlight.errors import kind as kind_of
from rushlight.io.atomic import replacing
from rushlight.onnx.loading import load, required
from rushlight.onnx.proto import Beside, Messages, inline
from rushlight.onnx.writer import Writer, prune

MOST_BYTES = (1 << 31) - (1 << 20)  # of weights in one file, which may have 2 GiB


class ONNXProgram:
    """An exported model.

    ``save(path)`` writes a file, ``model_proto`` is its content, and a call runs it here: the
    outputs of the file are a tuple, even if there is one.

    >>> program = rl.onnx.export(lambda x: x * 2, rl.ones(3))
    >>> program(rl.ones(3))
    (tensor([2., 2., 2.]),)
    """

    def __init__(self, writer: Writer, name: str, sizes: Mapping[str, str]) -> None:
        self.writer, self.name, self.sizes = writer, name, sizes

    @property
    def messages(self) -> Messages:
        return Messages(self.sizes)

    @cached_property
    def model_proto(self) -> Any:
        """The ``onnx.ModelProto``, weights included."""
        return self.messages.model(self.writer, self.name, inline)

    @cached_property
    def module(self) -> Any:
        """The model as :func:`load` reads it."""
        if self.nbytes <= MOST_BYTES:
            return load(self.model_proto)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            self.save(path, external_data=True)
            return load(path)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        found = self.module(*args, **kwargs)
        return found if isinstance(found, tuple) else (found,)

    @property
    def nbytes(self) -> int:
        """The bytes of all weights."""
        used = prune(self.writer.root)
        return sum([a.nbytes for name, a in self.writer.initializers.items() if name in used])

    def save(
        self,
        destination: Any,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Writes the program to a path, or to a file that is open for writing.

        Args:
            include_initializers: False makes the weights inputs.
            keep_initializers_as_inputs: they are inputs too, with themselves as defaults.
            external_data: they go to a file of their own beside that of the model; if it is None,
                only if there are more than fit into one.
        """
        named = isinstance(destination, (str, os.PathLike))
        if not named and not callable(getattr(destination, "write", None)):
            raise TypeError(f"expected a path or a file to write to, got {kind_of(destination)}")
        beside = self.nbytes > MOST_BYTES if external_data is None else external_data
        if not include_initializers:
            model = self.messages.model(self.writer, self.name, None)
        elif beside:
            if not named:
                raise ValueError("external data need a path: they are written beside the model")
            path = os.fspath(destination)
            with replacing(f"{path}.data") as file:
                pack = Beside(file, f"{os.path.basename(path)}.data")
                model = self.messages.model(self.writer, self.name, pack)
        else:
            model = self.model_proto
        if keep_initializers_as_inputs:
            model = with_inputs(model)
        data = model.SerializeToString()
        if not named:
            destination.write(data)
            return
        with replacing(os.fspath(destination)) as file:
            file.write(data)

    def __str__(self) -> str:
        """The graph of the file, without weights."""
        return required().printer.to_text(self.messages.model(self.writer, self.name, None))

    def __repr__(self) -> str:
        count = len(self.writer.root.nodes)
        return f"<ONNXProgram {self.name}, opset {self.writer.opset}, {count} nodes>"


def with_inputs(model: Any) -> Any:
    """The model with an input for each of its weights."""
    onnx = required()
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for tensor in model.graph.initializer:
        info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        changed.graph.input.append(info)
    return changed
