"""Layers that put a border around their input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.tuples import _ntuple, _pair, _quadruple
from rushlight.tensor import Tensor

Sizes = int | Sequence[int]
_sextuple = _ntuple(6, "_sextuple")


class _BorderPadNd(Module):
    """A border of the input's own elements; ``sizes`` makes one padding one for each side."""

    __constants__ = ["padding"]
    sizes: Callable[[Sizes], tuple[int, ...]]
    padding: tuple[int, ...]

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = self.sizes(padding)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_BorderPadNd):
    def forward(self, input: Tensor) -> Tensor:
        rank = len(self.padding) // 2
        if input.dim() not in (rank + 1, rank + 2):
            raise ValueError(
                f"expected {rank + 1}D or {rank + 2}D input (got {input.dim()}D input)"
            )
        return F.pad(input, self.padding, "circular")


class _ReflectionPadNd(_BorderPadNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class _ReplicationPadNd(_BorderPadNd):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class _ConstantPadNd(Module):
    """A border of one value; ``sizes`` makes one padding one for each side."""

    __constants__ = ["padding", "value"]
    sizes: Callable[[Sizes], tuple[int, ...]]
    padding: tuple[int, ...]
    value: float

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__()
        self.padding = self.sizes(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class CircularPad1d(_CircularPadNd):
    """A border around the last dimension in which the elements of the opposite end come again.

    Args:
        padding: (left, right), or one number for both.

    Shape:
        (N, C, L) or (C, L), with L + left + right for L.

    >>> rl.nn.CircularPad1d(2)(rl.tensor([[0.0, 1.0, 2.0, 3.0]]))
    tensor([[2., 3., 0., 1., 2., 3., 0., 1.]])
    """

    sizes = staticmethod(_pair)


class CircularPad2d(_CircularPadNd):
    """A border around the last two dimensions; see :class:`CircularPad1d`.

    Args:
        padding: (left, right, top, bottom), or one number for all.

    Shape:
        (N, C, H, W) or (C, H, W), with H + top + bottom and W + left + right.

    >>> rl.nn.CircularPad2d((1, 1, 0, 0))(rl.tensor([[[0.0, 1.0, 2.0]]]))
    tensor([[[2., 0., 1., 2., 0.]]])
    """

    sizes = staticmethod(_quadruple)


class CircularPad3d(_CircularPadNd):
    """A border around the last three dimensions; see :class:`CircularPad1d`.

    Args:
        padding: (left, right, top, bottom, front, back), or one number for all.

    Shape:
        (N, C, D, H, W) or (C, D, H, W), each of the last three longer by its two paddings.

    >>> rl.nn.CircularPad3d(1)(rl.zeros(16, 3, 8, 5, 6)).shape
    rushlight.Size([16, 3, 10, 7, 8])
    """

    sizes = staticmethod(_sextuple)


class ReflectionPad1d(_ReflectionPadNd):
    """A border around the last dimension in which elements are mirrored at the outermost one.

    Args:
        padding: (left, right), or one number for both.

    Shape:
        (N, C, L) or (C, L), with L + left + right for L.

    >>> rl.nn.ReflectionPad1d(2)(rl.tensor([[0.0, 1.0, 2.0, 3.0]]))
    tensor([[2., 1., 0., 1., 2., 3., 2., 1.]])
    """

    sizes = staticmethod(_pair)


class ReflectionPad2d(_ReflectionPadNd):
    """A border around the last two dimensions; see :class:`ReflectionPad1d`.

    Args:
        padding: (left, right, top, bottom), or one number for all.

    Shape:
        (N, C, H, W) or (C, H, W), with H + top + bottom and W + left + right.

    >>> rl.nn.ReflectionPad2d((1, 1, 0, 0))(rl.tensor([[[0.0, 1.0, 2.0]]]))
    tensor([[[1., 0., 1., 2., 1.]]])
    """

    sizes = staticmethod(_quadruple)


class ReflectionPad3d(_ReflectionPadNd):
    """A border around the last three dimensions; see :class:`ReflectionPad1d`.

    Args:
        padding: (left, right, top, bottom, front, back), or one number for all.

    Shape:
        (N, C, D, H, W) or (C, D, H, W), each of the last three longer by its two paddings.

    >>> rl.nn.ReflectionPad3d(1)(rl.zeros(16, 3, 8, 5, 6)).shape
    rushlight.Size([16, 3, 10, 7, 8])
    """

    sizes = staticmethod(_sextuple)


class ReplicationPad1d(_ReplicationPadNd):
    """A border around the last dimension in which the outermost elements come again.

    Args:
        padding: (left, right), or one number for both.

    Shape:
        (N, C, L) or (C, L), with L + left + right for L.

    >>> rl.nn.ReplicationPad1d(2)(rl.tensor([[0.0, 1.0, 2.0, 3.0]]))
    tensor([[0., 0., 0., 1., 2., 3., 3., 3.]])
    """

    sizes = staticmethod(_pair)


class ReplicationPad2d(_ReplicationPadNd):
    """A border around the last two dimensions; see :class:`ReplicationPad1d`.

    Args:
        padding: (left, right, top, bottom), or one number for all.

    Shape:
        (N, C, H, W) or (C, H, W), with H + top + bottom and W + left + right.

    >>> rl.nn.ReplicationPad2d((1, 1, 0, 0))(rl.tensor([[[0.0, 1.0, 2.0]]]))
    tensor([[[0., 0., 1., 2., 2.]]])
    """

    sizes = staticmethod(_quadruple)


class ReplicationPad3d(_ReplicationPadNd):
    """A border around the last three dimensions; see :class:`ReplicationPad1d`.

    Args:
        padding: (left, right, top, bottom, front, back), or one number for all.

    Shape:
        (N, C, D, H, W) or (C, D, H, W), each of the last three longer by its two paddings.

    >>> rl.nn.ReplicationPad3d((3, 3, 6, 6, 1, 1))(rl.zeros(16, 3, 8, 5, 6)).shape
    rushlight.Size([16, 3, 10, 17, 12])
    """

    sizes = staticmethod(_sextuple)


class ConstantPad1d(_ConstantPadNd):
    """A border of ``value`` around the last dimension.

    Args:
        padding: (left, right), or one number for both; negative ones take away.

    Shape:
        (*, L) to (*, L + left + right).

    >>> rl.nn.ConstantPad1d((3, 1), 3.5)(rl.tensor([[1.0, 2.0]]))
    tensor([[3.5000, 3.5000, 3.5000, 1.0000, 2.0000, 3.5000]])
    """

    sizes = staticmethod(_pair)


class ConstantPad2d(_ConstantPadNd):
    """A border of ``value`` around the last two dimensions.

    Args:
        padding: (left, right, top, bottom), or one number for all; negative ones take away.

    Shape:
        (*, H, W) to (*, H + top + bottom, W + left + right).

    >>> rl.nn.ConstantPad2d((1, 0, 0, 1), 9.0)(rl.tensor([[1.0, 2.0]]))
    tensor([[9., 1., 2.],
            [9., 9., 9.]])
    """

    sizes = staticmethod(_quadruple)


class ConstantPad3d(_ConstantPadNd):
    """A border of ``value`` around the last three dimensions.

    Args:
        padding: (left, right, top, bottom, front, back), or one number for all; negative ones take
            away.

    Shape:
        (*, D, H, W), each longer by its two paddings.

    >>> rl.nn.ConstantPad3d(1, 0.5)(rl.zeros(16, 3, 8, 5, 6)).shape
    rushlight.Size([16, 3, 10, 7, 8])
    """

    sizes = staticmethod(_sextuple)


class ZeroPad1d(ConstantPad1d):
    """A border of zeros around the last dimension; ``padding`` as in :class:`ConstantPad1d`.

    >>> rl.nn.ZeroPad1d(1)(rl.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2., 0.]])
    """

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """A border of zeros around the last two dimensions; ``padding`` as in :class:`ConstantPad2d`.

    >>> rl.nn.ZeroPad2d((1, 0, 0, 1))(rl.tensor([[1.0, 2.0]]))
    tensor([[0., 1., 2.],
            [0., 0., 0.]])
    """

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """A border of zeros around the last three dimensions; ``padding`` as in :class:`ConstantPad3d`.

    >>> rl.nn.ZeroPad3d(1)(rl.zeros(16, 3, 8, 5, 6)).shape
    rushlight.Size([16, 3, 10, 7, 8])
    """

    def __init__(self, padding: Sizes) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"
