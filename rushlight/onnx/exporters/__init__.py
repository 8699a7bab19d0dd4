"""One function for each op that ONNX has a counterpart of, by families."""

from rushlight.onnx.exporters import (
    attention,
    contraction,
    control,
    creation,
    elementwise,
    formulas,
    indexing,
    joining,
    normalization,
    ordering,
    pooling,
    random,
    recurrent,
    reductions,
    rounding,
    running,
    scattering,
    views,
    windows,
)
from rushlight.onnx.writer import EXPORTERS

__all__ = ["EXPORTERS"]
