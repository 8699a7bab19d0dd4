"""Programs of calls: ``rl.export(f, *args)``; and of modules, by PyTorch's names.

>>> program = rl.export.export(rl.nn.Linear(3, 2), (rl.ones(1, 3),))
>>> program.graph_signature.parameters
('weight', 'bias')
>>> program.module()(rl.zeros(1, 3)).shape
rushlight.Size([1, 2])
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from rushlight.export.dynamic_shapes import Dim, dims
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import ExportGraphSignature
from rushlight.export.recording import export
from rushlight.jit import files
from rushlight.jit.tracing import trace

__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "default_decompositions", "dims",
    "draft_export", "export", "load", "register_dataclass", "save",
]  # fmt: skip

draft_export = export


def save(
    ep: ExportedProgram,
    f: Any,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: Any = None,
    pickle_protocol: int = 2,
) -> None:
    """Writes an exported program to a path or a file, without any code.

    Args:
        extra_files: more texts for the file, by name.
        opset_version, pickle_protocol: nothing depends on them.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an ExportedProgram, got {type(ep).__name__}")
    ep.save(f, extra_files)


def load(
    f: Any, *, extra_files: dict[str, Any] | None = None, expected_opset_version: Any = None
) -> ExportedProgram:
    """The program in a file, which needs nothing of the Python that it was made of.

    Args:
        extra_files: a dict whose values become those of the file.
        expected_opset_version: nothing depends on it.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.export.save(rl.export.export(rl.nn.Tanh(), (rl.ones(3),)), file)
    >>> rl.export.load(io.BytesIO(file.getvalue())).module()(rl.zeros(3))
    tensor([0., 0., 0.])
    """
    return ExportedProgram(files.load(f, extra_files))


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Accepted for PyTorch programs: an error if ``cls`` is no dataclass."""
    if not dataclasses.is_dataclass(cls):
        raise TypeError(f"Only dataclasses can be registered, got {cls!r}")


def default_decompositions() -> dict[Any, Any]:
    """Empty: ops are taken apart when a program is compiled, and not before."""
    return {}


class Namespace(ModuleType):
    """This module, which is a function as well."""

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The program of ``function(*args, **kwargs)``, which is not called: ``rl.export``.

        A whole training step can be one: its tensors (parameters, the state of an optimizer) and
        numbers (a learning rate) are part of it, and of the file that ``save`` writes.

        >>> program = rl.export(lambda x, y: x @ y, rl.ones(2, 3), rl.ones(3, 1))
        >>> program(rl.ones(2, 3), rl.ones(3, 1))
        tensor([[3.],
                [3.]])
        """
        return trace(function, args, example_kwarg_inputs=kwargs)


sys.modules[__name__].__class__ = Namespace
