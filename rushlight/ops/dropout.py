"""Dropout: elements, or whole channels, set to zero at random.

The random numbers are drawn as PyTorch does on the CPU: one seed gives the same zeros.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from rushlight.dims import is_zero
from rushlight.ops.base import composite, in_place, need_tensor, ops, registry
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

SPACE = "nn.functional"
ALPHA = 1.7580993408473766  # what selu tends to from below, negated: scale * alpha
SAMPLES = [S(T(3, 4)), S(T(3, 4), 0.3), S(T(3, 4), p=0.0), S(T(3), training=False)]
SAMPLES += [S(T(2, 3), 1.0, True), S(T(0, 2), training=True)]
ERRORS = [
    Fails(ValueError, "has to be between 0 and 1, but got 1.5", T(2, 3), 1.5),
    Fails(ValueError, "has to be between 0 and 1, but got -0.1", T(2, 3), p=-0.1),
    Fails(ValueError, "has to be between 0 and 1, but got nan", T(2, 3), p=math.nan),
    Fails(TypeError, "must be Tensor, not float", 1.5),
]


def checked(name: str, input: Any, p: float) -> Tensor:
    """``input`` if it is a tensor and ``p`` a probability, else the error."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p} in {name}")
    return need_tensor(name, input)


def kept(x: Tensor, p: float, channels: bool = False) -> Tensor:
    """Ones with the probability 1 - p, else zeros: for each element, or each channel of each row.

    They have the strides of ``x``, since random numbers are drawn in the order of memory.
    """
    if not channels:
        return ops.empty_like(x).bernoulli_(1 - p)
    if x.ndim < 2:
        raise RuntimeError(
            f"Feature dropout requires at least 2 dimensions in the input, got {list(x.shape)}"
        )
    return x.new_empty((*x.shape[:2], *[1] * (x.ndim - 2))).bernoulli_(1 - p)


def dropped(x: Tensor, p: float, training: bool, channels: bool = False) -> Tensor:
    """``x`` with zeros at random, the rest scaled so that the expected value stays."""
    if not training or p == 0 or is_zero(x.numel()):
        return x
    if p == 1:
        return x * 0.0
    return x * kept(x, p, channels).div_(1 - p)


def alpha_dropped(x: Tensor, p: float, training: bool, channels: bool = False) -> Tensor:
    """``x`` with -ALPHA at random, then scaled and shifted: mean 0 and variance 1 stay so."""
    if not training or p == 0 or is_zero(x.numel()):
        return x
    if p == 1:
        return x * 0.0
    scale = 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
    mask = kept(x, p, channels)
    shift = (mask - 1).mul_(ALPHA * scale).add_(ALPHA * scale * p)
    return x * mask.mul_(scale) + shift


@composite(namespace=SPACE, method=False, samples=SAMPLES, errors=ERRORS)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros in place of elements with the probability ``p``; the others are divided by ``1 - p``.

    Args:
        training: if False, ``input`` is returned as it is
        inplace: writes the result over ``input``

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.functional.dropout(rl.ones(5), 0.5)
    tensor([0., 0., 2., 0., 0.])
    """
    x = checked("dropout", input, p)
    return dropout_(x, p) if inplace and training else dropped(x, p, training)


@composite(namespace=SPACE, method=False, samples=SAMPLES, errors=ERRORS)
def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for :func:`selu` networks: it keeps mean 0 and variance 1.

    Dropped elements become ``-1.7581``, the limit of selu, before all are scaled and shifted.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.functional.alpha_dropout(rl.ones(4), 0.5, training=True)
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """
    x = checked("alpha_dropout", input, p)
    return alpha_dropout_(x, p, True) if inplace and training else alpha_dropped(x, p, training)


@composite(
    namespace=SPACE,
    method=False,
    samples=[*SAMPLES, S(T(2, 3, 4), 0.4, True)],
    errors=[
        *ERRORS,
        Fails(RuntimeError, "requires at least 2 dimensions .* got \\[3\\]", T(3), training=True),
    ],
)
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """:func:`alpha_dropout` of whole channels (dimension 1).

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.functional.feature_alpha_dropout(rl.ones(1, 3, 2), 0.5, training=True)
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656]]])
    """
    x = checked("feature_alpha_dropout", input, p)
    if inplace and training:
        return feature_alpha_dropout_(x, p, True)
    return alpha_dropped(x, p, training, channels=True)


@composite(
    namespace=SPACE,
    method=False,
    samples=[S(T(2, 3, 4), 0.4), S(T(3, 4)), S(T(3, 4), 0.5, False)],
    errors=[
        *ERRORS,
        Fails(RuntimeError, "Expected 2D or 3D input, but received a 1D input", T(3)),
    ],
)
def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeros in place of whole channels of an (N, C, L) or (C, L) tensor.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.functional.dropout1d(rl.ones(3, 2))
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """
    x = checked("dropout1d", input, p)
    if x.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {x.ndim}D input. It drops whole "
            "channels of inputs with one spatial dimension: (N, C, L) or (C, L)."
        )
    if inplace and training:
        return dropout1d_(x, p)
    if x.ndim == 3:
        return dropped(x, p, training, channels=True)
    return dropped(x.unsqueeze(0), p, training, channels=True).squeeze(0)


@composite(
    namespace=SPACE,
    method=False,
    samples=[S(T(2, 3, 2, 2), 0.4), S(T(2, 3, 4)), S(T(3, 4), 0.5, False)],
    errors=[*ERRORS, Fails(RuntimeError, "requires at least 2 dimensions", T(3))],
)
def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeros in place of whole channels (dimension 1) of an (N, C, H, W) tensor.

    A tensor of three dimensions is taken as (N, C, L), as in PyTorch.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.functional.dropout2d(rl.ones(1, 3, 1, 2))
    tensor([[[[0., 0.]],
    <BLANKLINE>
             [[0., 0.]],
    <BLANKLINE>
             [[2., 2.]]]])
    """
    x = checked("dropout2d", input, p)
    if x.ndim == 3:
        warnings.warn(
            "dropout2d: a 3D input is taken as (N, C, L) and whole channels C are dropped. Use "
            "dropout1d to keep that, or unsqueeze(0) for an input (C, H, W).",
            stacklevel=2,
        )
    elif x.ndim != 4:
        warn_of_sizes("dropout2d", x, "(N, C, H, W)")
    return dropout2d_(x, p) if inplace and training else dropped(x, p, training, channels=True)


@composite(
    namespace=SPACE,
    method=False,
    samples=[S(T(2, 3, 2, 1, 2), 0.4), S(T(3, 2, 2, 2)), S(T(3, 4), 0.5, False)],
    errors=ERRORS,
)
def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Zeros in place of whole channels of an (N, C, D, H, W) or (C, D, H, W) tensor.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.functional.dropout3d(rl.ones(3, 1, 1, 2)).view(3, 2)
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """
    x = checked("dropout3d", input, p)
    if x.ndim not in (4, 5):
        warn_of_sizes("dropout3d", x, "(N, C, D, H, W) or (C, D, H, W)")
    if inplace and training:
        return dropout3d_(x, p)
    if x.ndim == 5:
        return dropped(x, p, training, channels=True)
    return dropped(x.unsqueeze(0), p, training, channels=True).squeeze(0)


def warn_of_sizes(name: str, x: Tensor, expected: str) -> None:
    warnings.warn(
        f"{name}: Received a {x.ndim}-D input to {name}, which is deprecated and will result in "
        f"an error in a future release. Use dropout, or give it an input {expected}.",
        stacklevel=3,
    )


def written(name: str) -> Any:
    return in_place(registry[f"{SPACE}.{name}"])


dropout_, alpha_dropout_ = written("dropout"), written("alpha_dropout")
dropout1d_, dropout2d_, dropout3d_ = (
    written("dropout1d"),
    written("dropout2d"),
    written("dropout3d"),
)
feature_alpha_dropout_ = written("feature_alpha_dropout")
