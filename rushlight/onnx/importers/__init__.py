"""What serves each op of ONNX: one file for each family, one function for each op."""

from rushlight.onnx.importers import (
    activation,
    attention,
    classical,
    contraction,
    control,
    elementwise,
    images,
    indexing,
    loss,
    microsoft,
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
