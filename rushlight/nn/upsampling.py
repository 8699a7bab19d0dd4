"""Layers that resample planes to another size."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.tensor import Tensor

Size = int | Sequence[int] | None
Scale = float | Sequence[float] | None


class Upsample(Module):
    """Planes of one to three dimensions resampled to a size, or by a factor.

    Args:
        size: the new size, one number or one for each dimension.
        scale_factor: the new size divided by the old one, in place of ``size``.
        mode: ``"nearest"``, ``"linear"``, ``"bilinear"``, ``"bicubic"`` or ``"trilinear"``; see
            :func:`rushlight.nn.functional.interpolate`.
        align_corners: the outermost elements stay at the borders; not for ``"nearest"``.
        recompute_scale_factor: take as scale the quotient of the sizes, not ``scale_factor``.

    Shape:
        (N, C, L), (N, C, H, W) or (N, C, D, H, W), with the new sizes in place of those after C.

    >>> x = rl.tensor([[[[1.0, 2.0]]]])
    >>> rl.nn.Upsample(scale_factor=(1, 2), mode="nearest")(x)
    tensor([[[[1., 1., 2., 2.]]]])
    >>> rl.nn.Upsample(size=(1, 3), mode="bilinear", align_corners=True)(x)
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    __constants__ = [
        "size",
        "scale_factor",
        "mode",
        "align_corners",
        "name",
        "recompute_scale_factor",
    ]
    name: str
    size: Size
    scale_factor: float | tuple[float, ...] | None
    mode: str
    align_corners: bool | None
    recompute_scale_factor: bool | None

    def __init__(
        self,
        size: Size = None,
        scale_factor: Scale = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, Sequence):
            self.scale_factor = tuple([float(factor) for factor in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """:class:`Upsample` of two dimensions with ``mode="nearest"``.

    >>> rl.nn.UpsamplingNearest2d(scale_factor=2)(rl.zeros(1, 3, 4, 5)).shape
    rushlight.Size([1, 3, 8, 10])
    """

    def __init__(self, size: Size = None, scale_factor: Scale = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """:class:`Upsample` of two dimensions with ``mode="bilinear"`` and ``align_corners=True``.

    >>> rl.nn.UpsamplingBilinear2d(size=(1, 3))(rl.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: Size = None, scale_factor: Scale = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
