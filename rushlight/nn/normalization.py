"""Layers that normalise each row by itself, or over neighbouring channels."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.device import device as Device
from rushlight.dims import index
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import ops
from rushlight.ops.normalization import neighbours
from rushlight.tensor import Tensor

Shape = int | Sequence[int]


class _Affine(Module):
    """A layer that may multiply by a weight and add a bias in the end."""

    weight: Tensor | None
    bias: Tensor | None

    def _make_parameters(
        self,
        shape: Sequence[int],
        weight: bool,
        bias: bool,
        device: Device | str | None,
        dtype: DType | None,
    ) -> None:
        for name, wanted in (("weight", weight), ("bias", weight and bias)):
            new = Parameter(ops.empty(shape, device=device, dtype=dtype)) if wanted else None
            self.register_parameter(name, new)

    def reset_parameters(self) -> None:
        """Sets the weight to ones and the bias to zeros."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


def _as_shape(shape: Shape) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, Sequence) else (index(shape),)


class LayerNorm(_Affine):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last dimensions.

    Args:
        normalized_shape: the sizes of the dimensions that share one mean and one variance
        eps: what is added to the variance
        elementwise_affine: whether there are a weight and a bias, of that shape
        bias: whether there is a bias

    Shape:
        (*, *normalized_shape) to the same.

    >>> layer = rl.nn.LayerNorm(2)
    >>> layer(rl.tensor([[1.0, 2.0], [3.0, 7.0]])).detach()
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    >>> layer
    LayerNorm((2,), eps=1e-05, elementwise_affine=True, bias=True)
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_parameters(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """``x / sqrt(mean(x²) + eps) * weight`` over the last dimensions.

    Args:
        normalized_shape: the sizes of the dimensions that share one mean
        eps: what is added to it; by default the smallest number that makes a difference to 1
        elementwise_affine: whether there is a weight, of that shape

    Shape:
        (*, *normalized_shape) to the same.

    >>> rl.nn.RMSNorm(2)(rl.tensor([[3.0, 4.0], [1.0, 1.0]])).detach()
    tensor([[0.8485, 1.1314],
            [1.0000, 1.0000]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]
    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool
    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: Shape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        if elementwise_affine:
            self.weight = Parameter(ops.empty(self.normalized_shape, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the weight to ones."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(_Affine):
    """``(x - mean) / sqrt(variance + eps) * weight + bias`` by groups of channels.

    Args:
        num_groups: how many groups of equal size
        num_channels: the size of dimension 1
        eps: what is added to the variance
        affine: whether there are a weight and a bias, a number for each channel
        bias: whether there is a bias

    Shape:
        (N, num_channels, *) to the same.

    >>> rl.nn.GroupNorm(2, 4)(rl.tensor([[1.0, 3.0, 5.0, 9.0]])).detach()
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]
    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise ValueError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_parameters((num_channels,), affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """``x / (k + alpha * mean(x²))^beta``, the mean over ``size`` neighbouring channels.

    Shape:
        (N, C, *) to the same.

    >>> rl.nn.LocalResponseNorm(2, alpha=2.0, beta=1.0)(rl.tensor([[[1.0], [2.0]]])).flatten()
    tensor([0.5000, 0.3333])
    """

    __constants__ = ["size", "alpha", "beta", "k"]
    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """:class:`LocalResponseNorm` of an (N, C, H, W) tensor with as many neighbours on either side.

    The two differ where ``size`` is even: here the channel furthest before is left out.

    >>> rl.nn.CrossMapLRN2d(3, alpha=3.0, beta=1.0)(rl.ones(1, 2, 1, 1)).flatten()
    tensor([0.3333, 0.3333])
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        side = (self.size - 1) // 2
        around = neighbours(input * input, side, side)
        return input / (around * (self.alpha / self.size) + self.k).pow(self.beta)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
