"""The choices of an export, by PyTorch's names."""

from __future__ import annotations

import enum


class TrainingMode(enum.IntEnum):
    """The mode in which a model is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Which operators a file may hold; here they are always those of ONNX itself."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class OnnxExporterError(RuntimeError):
    """A model cannot be written to an ONNX file, or what was written computes something else."""


class State:
    """Whether an export is running."""

    exporting = False


state = State()


def is_in_onnx_export() -> bool:
    """Whether the model is being run to be exported.

    >>> rl.onnx.is_in_onnx_export()
    False
    """
    return state.exporting
