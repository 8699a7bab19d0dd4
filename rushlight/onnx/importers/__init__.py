"""What serves each op of ONNX: one file for each family, one function for each op."""

from rushlight.onnx.importers import (
    activation,
    attention,
    contraction,
    control,
    elementwise,
    images,
    indexing,
    loss,
    movement,
    normalization,
    optimizers,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    sequences,
    signal,
)
