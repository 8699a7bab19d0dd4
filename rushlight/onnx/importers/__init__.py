"""What serves each op of ONNX: one file for each family, one function for each op."""

from rushlight.onnx.importers import (  # noqa: F401 - importing a family registers its ops
    activation,
    contraction,
    elementwise,
    indexing,
    movement,
    normalization,
    pooling,
    reduction,
)
