"""Layers that set elements or channels to zero at random while training."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class _DropoutNd(Module):
    """A layer that drops something with the probability ``p``."""

    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """In training, zeros in place of elements with the probability ``p``, the rest scaled up.

    The rest is divided by ``1 - p``, so that the expected value stays. In evaluation the input is
    returned as it is.

    Args:
        p: the probability of a zero
        inplace: whether to write the result over the input

    >>> _ = rl.manual_seed(0)
    >>> layer = rl.nn.Dropout(0.5)
    >>> layer(rl.ones(5)), layer.eval()(rl.ones(5))
    (tensor([0., 0., 2., 0., 0.]), tensor([1., 1., 1., 1., 1.]))
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """:class:`Dropout` of whole channels of an (N, C, L) or (C, L) tensor.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.Dropout1d()(rl.ones(3, 2))
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """:class:`Dropout` of whole channels of an (N, C, H, W) tensor.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.Dropout2d()(rl.ones(1, 3, 2, 2)).sum((2, 3))
    tensor([[0., 0., 8.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """:class:`Dropout` of whole channels of an (N, C, D, H, W) or (C, D, H, W) tensor.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.Dropout3d()(rl.ones(3, 1, 1, 2)).flatten(1)
    tensor([[0., 0.],
            [0., 0.],
            [2., 2.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean 0 and variance 1, for networks of :class:`SELU`.

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.AlphaDropout(0.5)(rl.ones(4))
    tensor([-0.7792, -0.7792,  1.6656, -0.7792])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """:class:`AlphaDropout` of whole channels (dimension 1).

    >>> _ = rl.manual_seed(0)
    >>> rl.nn.FeatureAlphaDropout(0.5)(rl.ones(1, 3, 2))
    tensor([[[-0.7792, -0.7792],
             [-0.7792, -0.7792],
             [ 1.6656,  1.6656]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
