"""The functions of networks: ``rl.nn.functional``, by custom ``F``.

>>> import rushlight.nn.functional as F
>>> F.linear(rl.ones(1, 3), rl.ones(2, 3))
tensor([[3., 3.]])
"""

from rushlight.ops import (  # noqa: F401 - importing a family registers its functions
    adaptive_pooling,
    attention,
    average_pooling,
    batch_normalization,
    classification_losses,
    convolution,
    ctc,
    distances,
    dropout,
    embedding,
    folding,
    fractional_pooling,
    grid_sampling,
    interpolation,
    linear,
    linear_cross_entropy,
    margin_losses,
    multi_head_attention,
    native,
    native_losses,
    network_activations,
    normalization,
    ops,
    pooling,
    probability_losses,
    recurrent,
    regression_losses,
    shuffling,
    transposed_convolution,
    unpooling,
)

globals().update(vars(ops.__dict__["nn.functional"]))
