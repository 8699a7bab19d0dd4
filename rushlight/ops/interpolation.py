"""Planes resampled to another size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.dims import index, is_extent
from rushlight.kernels import resampling as kernels
from rushlight.kernels.resampling import Map
from rushlight.layouts import shape_of
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.reduce import in_float32
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, literal

Size = int | Sequence[int] | None
Scale = float | Sequence[float] | None

MODES = {
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
    "lanczos": ("lanczos", (2,)),
    "area": ("area", (1, 2, 3)),
}
"""The rule of each mode, and how many dimensions it can resample."""
SIMPLE = 1 << 10  # the largest denominator of a factor that multiplies sizes exactly


class Resample(Op):
    """The last dimensions resampled by one map each, or by the transposes of the maps."""

    function = method = False

    def check(self, input: Tensor, maps: tuple[Map, ...], transposed: bool) -> Any:
        return (input,), {"maps": maps, "transposed": transposed}

    def infer(self, arrays, attrs):
        (x,), maps = arrays, attrs["maps"]
        sides = [(m.length, m.outputs)[:: -1 if attrs["transposed"] else 1] for m in maps]
        before, after = zip(*sides, strict=True)
        if x.shape[-len(maps) :] != before:
            raise ValueError(f"maps of {before} elements do not fit to shape {x.shape}")
        return np.empty((*x.shape[: -len(maps)], *after), x.dtype)

    @in_float32
    def eager(self, x, *, maps, transposed):
        exact = maps[0].rule == "nearest" and not transposed
        along = kernels.resample if exact or np.isfinite(x).all() else kernels.resample_unbounded
        steps = [
            (dim, m)
            for dim, m in enumerate(maps, x.ndim - len(maps))
            if not (m.scale == 1 and m.outputs == m.length)
        ]
        # The last dimension is the quickest to resample: its turn is when there is most to do.
        grows = math.prod([m.outputs for m in maps]) > math.prod([m.length for m in maps])
        y = x
        for dim, m in steps if grows != transposed else reversed(steps):
            y = along(y, dim, m, transposed)
        return y.copy() if y is x else y

    def decompose(self, x, *, maps, transposed):
        y = x.float() if x._array.dtype in dtypes.HALF else x.clone()
        for dim, m in enumerate(maps, x.ndim - len(maps)):
            if not (m.scale == 1 and m.outputs == m.length):
                y = resampled_along(y, dim, m, transposed)
        return y.to(x.dtype)

    def vjp(self, g, _y, _x, *, maps, transposed):
        return resample(g, maps, not transposed)


resample = registry["resample"].call


def resampled_along(x: Tensor, dim: int, m: Map, transposed: bool) -> Tensor:
    """:func:`kernels.resample` with ops: elements are picked by tables, and weighed."""
    kind = kernels.DOUBLE if x._array.dtype == kernels.DOUBLE else kernels.FLOAT
    elements, weights = (kernels.transposed_taps if transposed else kernels.taps)(m, kind)
    if m.rule == "nearest" and not transposed:
        return x.index_select(dim, literal(elements.reshape(-1)))
    layout = (False,) * dim + (True,)
    picked = registry["index"].apply((x, literal(elements)), {"layout": layout})
    share = literal(weights.reshape(*weights.shape, *[1] * (x.ndim - dim - 1)))
    parts = picked * share
    if kernels.has_fillers(m, transposed) and not weights.all():
        parts = ops.where(share == 0, 0.0, parts)
    return parts.sum(dim + 1)


def resampled_at_run(x: Tensor, dim: int, m: Map) -> Tensor:
    """:func:`resampled_along` for a map whose sizes only a run knows: the tables are computed."""
    kind = dtypes.float64 if x._array.dtype == kernels.DOUBLE else dtypes.float32
    i = ops.arange(m.outputs).double()
    scale = (ops.ones((), dtype=dtypes.float64) * m.scale).to(kind)
    if m.rule == "nearest":
        exact = i * scale.double()
        centre = ((i + 0.5) * scale.double() - 0.5).clamp(min=0).to(kind) + 0.5
        place = centre if m.aligned else exact.to(kind)
        return x.index_select(dim, at_most(place.float().long(), m.length - 1))
    place = i.to(kind) * scale if m.aligned else (i.to(kind) + 0.5) * scale - 0.5
    place = place.clamp(min=0) if m.rule == "linear" else place
    first = at_most(place.floor().long(), m.length - 1)
    share = (place - first.to(kind)).clamp(0, 1).unsqueeze(1)
    steps = ops.arange(2) if m.rule == "linear" else ops.arange(-1, 3)
    t = (share - steps.to(kind)).abs()
    weights = 1 - t
    if m.rule == "cubic":
        near, far = (1.25 * t - 2.25) * t * t + 1, (((t - 5) * t + 8) * t - 4) * -0.75
        weights = ops.where(t < 1, near, ops.where(t < 2, far, 0.0))
    elements = at_most((first.unsqueeze(1) + steps).clamp(min=0), m.length - 1)
    layout = (False,) * dim + (True,)
    picked = registry["index"].apply((x, elements), {"layout": layout})
    return (picked * weights.reshape(-1, len(steps), *[1] * (x.ndim - dim - 1))).sum(dim + 1)


def at_most(x: Tensor, most: Any) -> Tensor:
    return (x - most).clamp(max=0) + most


def scaled(n: Any, factor: Any) -> Any:
    """A size times a factor, in whole elements."""
    if is_extent(n):
        above, below = float(factor).as_integer_ratio()
        if below <= SIMPLE:
            return n * above // below
    return int(n * factor)


def resized(name: str, x: Tensor, size: Any, scale: Any) -> tuple[list[int], list[float | None]]:
    """The sizes that ``size`` or ``scale`` asks for, and the scale of each, None if not given."""
    plane = x._array.shape[2:]
    rank = len(plane)
    if (size is None) == (scale is None):
        wrong = (
            "either size or scale_factor" if size is None else "only one of size or scale_factor"
        )
        raise ValueError(f"{wrong} should be defined")
    given, argument = (size, "output size") if scale is None else (scale, "scale_factor")
    each = list(given) if isinstance(given, (tuple, list)) else [given] * rank
    if len(each) != rank:
        raise ValueError(
            f"Input and {argument.removesuffix(' size')} must have the same number of spatial "
            f"dimensions, but got input with spatial dimensions of {list(plane)} and {argument} of "
            f"{given}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and {argument} "
            "with one number for each of d1, d2, ...,dK."
        )
    try:
        if scale is None:
            return [index(n) for n in each], [None] * rank
        return [scaled(n, s) for n, s in zip(plane, each, strict=True)], [float(s) for s in each]
    except (TypeError, ValueError, OverflowError):
        kinds = [messages.kind(n) for n in each]
        raise TypeError(
            f"{name}(): expected {argument} to be a number or one for each of {rank} dimensions, "
            f"but got {argument} {given} with types {kinds}"
        ) from None


def need_sizes(name: str, x: Tensor, sizes: Sequence[int]) -> None:
    """An error if there is nothing to resample, or nothing to make of it."""
    shape = x._array.shape
    if 0 in shape[2:] or any([n < 1 for n in sizes]):
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"{list(shape[2:])} and output {list(sizes)}"
        )
    if not shape[1]:
        raise RuntimeError(
            f"Non-empty {len(shape)}D data tensor expected but got a tensor with sizes "
            f"{list(shape)}"
        )
    shape_of(name, [*shape[:2], *sizes], x._array.dtype)


def rule_of(mode: str, ndim: int) -> str:
    """The rule by which ``mode`` resamples tensors of ``ndim`` dimensions, or the error."""
    rule, ranks = MODES.get(mode, ("", ()))
    if ndim - 2 in ranks:
        return rule
    if rule == "linear" and ndim in (3, 4, 5):
        raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {ranks[0] + 2}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: "
        f"{' | '.join(MODES)} (got {mode})"
    )


def apart(n: int, count: int, factor: float | None, aligned: bool) -> float:
    """How many elements lie between two results."""
    if aligned:
        return (n - 1) / (count - 1) if count > 1 else 0.0
    return n / count if factor is None else 1 / factor


def maps_of(
    mode: str,
    rule: str,
    plane: Sequence[int],
    sizes: Sequence[int],
    factors: Sequence[float | None],
    aligned: bool,
) -> tuple[Map, ...]:
    """The maps from a plane to the new sizes."""
    maps = []
    for n, count, factor in zip(plane, sizes, factors, strict=True):
        # PyTorch disregards the factor where the size is kept or doubled, if not in every mode.
        kept = list(sizes) == list(plane) if rule == "cubic" else count == n
        if kept and rule != "nearest":
            factor = None
        if mode == "nearest" and len(plane) == 2 and count in (n, 2 * n):
            factor = None
        scale = apart(n, count, factor, aligned)
        maps.append(Map(rule, n, count, scale, aligned or mode == "nearest-exact"))
    return tuple(maps)


def resample_bytes(x: Tensor, maps: tuple[Map, ...]) -> Tensor:
    """uint8 resampled in float32, dimension by dimension from the last, each rounded to bytes."""
    y = x.float()
    for dim in reversed(range(len(maps))):
        sizes = y._array.shape[-len(maps) :]
        alone = [Map(m.rule, n, n, 1.0) for m, n in zip(maps, sizes, strict=True)]
        alone[dim] = maps[dim]
        y = (resample(y, tuple(alone), False) + 0.5).floor().clamp(0, 255)
    return y.to(dtypes.uint8)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(1, 2, 5), 8),
        S(T(2, 2, 3, 4), scale_factor=2),
        S(T(1, 1, 3, 4), scale_factor=(1.3, 0.7), mode="nearest-exact"),
        S(T(1, 1, 2, 3, 2), (3, 2, 5), mode="nearest"),
        S(T(1, 2, 5), 8, mode="linear", align_corners=True),
        S(T(1, 2, 3, 4), scale_factor=2.0, mode="bilinear"),
        S(T(1, 2, 3, 4), (1, 7), mode="bilinear", align_corners=True),
        S(T(1, 1, 3, 4), scale_factor=1.6, mode="bilinear", recompute_scale_factor=True),
        S(T(1, 1, 4, 5), (3, 7), mode="bicubic"),
        S(T(1, 1, 4, 5), (3, 7), mode="bicubic", align_corners=True),
        S(T(1, 1, 2, 3, 2), (3, 2, 4), mode="trilinear"),
        S(T(1, 1, 5, 6), (3, 9), mode="bilinear", antialias=True),
        S(T(1, 1, 5, 6), (2, 9), mode="bicubic", antialias=True),
        S(T(1, 1, 5, 6), (2, 9), mode="lanczos", antialias=True),
        S(T(1, 1, 5, 6), scale_factor=0.5, mode="area"),
        S(T(0, 2, 3, 4), 2, mode="bilinear"),
        S(T(1, 2, 3, 4), (3, 4), mode="bilinear"),
        S(T(1, 1, 70, 3), (150, 2), mode="bilinear"),
    ],
    errors=[
        Fails(TypeError, "must be Tensor, not float", 1.5, 2),
        Fails(ValueError, "either size or scale_factor should be", T(1, 2, 3)),
        Fails(ValueError, "only one of size or scale_factor should be", T(1, 2, 3), 2, 2.0),
        Fails(ValueError, "same number of spatial dimensions", T(1, 2, 3), (2, 2)),
        Fails(ValueError, "same number of spatial", T(1, 2, 3), scale_factor=(2.0, 2.0)),
        Fails(TypeError, "but got output size 2.5 with types", T(1, 2, 3), 2.5),
        Fails(TypeError, "but got scale_factor nan", T(1, 2, 3), scale_factor=math.nan),
        Fails(RuntimeError, r"greater than 0, but got input \[3\] and output \[0\]", T(1, 2, 3), 0),
        Fails(RuntimeError, r"greater than 0, but got input \[0\]", T(1, 2, 0), 2),
        Fails(RuntimeError, "Non-empty 3D data tensor expected", T(1, 0, 3), 2),
        Fails(NotImplementedError, "Only 3D, 4D and 5D .*got 2D", T(2, 3), 2),
        Fails(NotImplementedError, r"\(got foo\)", T(1, 2, 3), 2, mode="foo"),
        Fails(NotImplementedError, "bilinear mode needs 4D", T(1, 2, 3), 2, mode="bilinear"),
        Fails(NotImplementedError, "linear mode needs 3D", T(1, 2, 3, 3), 2, mode="linear"),
        Fails(ValueError, "align_corners option can only", T(1, 2, 3), 2, align_corners=True),
        Fails(ValueError, "Anti-alias option is restricted", T(1, 2, 3), 2, antialias=True),
        Fails(ValueError, "requires antialias=True", T(1, 2, 3, 3), 2, mode="lanczos"),
        Fails(ValueError, "explicit size", T(1, 2, 3), 2, recompute_scale_factor=True),
        *(
            Fails(
                NotImplementedError,
                "not implemented for 'Long'",
                T(1, 2, 3, dtype=dtypes.int64),
                2,
                mode=mode,
            )
            for mode in ("linear", "nearest")
        ),
        Fails(NotImplementedError, "for 'ComplexFloat'", T(1, 2, 3, dtype=dtypes.complex64), 2),
    ],
)
def interpolate(
    input: Tensor,
    size: Size = None,
    scale_factor: Scale = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """``input``, (N, C, *plane*), with its planes of one to three dimensions resampled.

    Args:
        size: the new size, one number or one for each dimension of the plane.
        scale_factor: the new size divided by the old one, in place of ``size``.
        mode: ``"nearest"``, ``"nearest-exact"`` or ``"area"``; ``"linear"``, ``"bilinear"`` or
            ``"trilinear"`` for one, two or three dimensions; ``"bicubic"`` or ``"lanczos"`` for
            two.
        align_corners: the outermost elements stay at the borders; else the borders of the
            outermost elements do.
        recompute_scale_factor: take as scale the quotient of the sizes, which are whole numbers,
            not ``scale_factor`` itself.
        antialias: a result averages over all elements that it covers, when there are fewer results.

    >>> x = rl.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> rl.nn.functional.interpolate(x, scale_factor=2)
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.],
              [3., 3., 4., 4.],
              [3., 3., 4., 4.]]]])
    >>> rl.nn.functional.interpolate(x, size=(2, 3), mode="bilinear", align_corners=True)
    tensor([[[[1.0000, 1.5000, 2.0000],
              [3.0000, 3.5000, 4.0000]]]])
    """
    x = need_tensor("interpolate", input)
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            f"| bicubic | trilinear, not {mode}"
        )
    sizes, factors = resized("interpolate", x, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and x._array.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "lanczos" and (align_corners or not antialias):
        wrong = (
            "does not support align_corners=True" if align_corners else "requires antialias=True"
        )
        raise ValueError(f"Lanczos mode {wrong}")
    rule = rule_of(mode, x._array.ndim)
    if mode == "area":
        return registry[f"nn.functional.adaptive_avg_pool{len(sizes)}d"].call(x, sizes)
    need_sizes("interpolate", x, sizes)
    if recompute_scale_factor:
        factors = [None] * len(sizes)
    if antialias:
        rule = f"smooth {rule}"
    maps = maps_of(mode, rule, x._array.shape[2:], sizes, factors, bool(align_corners))
    kind = x._array.dtype
    moving = any([is_extent(n) for m in maps for n in (m.length, m.outputs)])
    if (
        moving
        and kind in (kernels.FLOAT, kernels.DOUBLE)
        and rule in ("nearest", "linear", "cubic")
    ):
        for dim, m in enumerate(maps, 2):
            x = resampled_at_run(x, dim, m)
        return x
    if kind.kind == "f" or kind in dtypes.HALF or (rule == "nearest" and kind == np.uint8):
        return resample(x, maps, False)
    if kind == np.uint8 and mode != "linear":
        return resample_bytes(x, maps)
    raise NotImplementedError(f"\"interpolate\" not implemented for '{x.dtype.storage_name}'")


@composite(
    namespace="nn.functional",
    method=False,
    samples=[S(T(1, 2, 5), 8), S(T(1, 1, 3, 4), scale_factor=2.0, mode="bilinear")],
    errors=[Fails(ValueError, "either size or scale_factor should be", T(1, 2, 3))],
)
def upsample(
    input: Tensor,
    size: Size = None,
    scale_factor: Scale = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The former name of :func:`interpolate`; it warns.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     rl.nn.functional.upsample(rl.tensor([[[1.0, 2.0]]]), size=4)
    tensor([[[1., 1., 2., 2.]]])
    """
    deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[S(T(1, 2, 5), 8), S(T(1, 1, 3, 4), scale_factor=2)],
    errors=[Fails(ValueError, "either size or scale_factor should be", T(1, 2, 3))],
)
def upsample_nearest(input: Tensor, size: Size = None, scale_factor: Scale = None) -> Tensor:
    """The former name of ``interpolate(…, mode="nearest")``; it warns.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     rl.nn.functional.upsample_nearest(rl.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


@composite(
    namespace="nn.functional",
    method=False,
    samples=[S(T(1, 2, 3, 4), (5, 2)), S(T(1, 1, 3, 4), scale_factor=2)],
    errors=[Fails(ValueError, "either size or scale_factor should be", T(1, 2, 3, 3))],
)
def upsample_bilinear(input: Tensor, size: Size = None, scale_factor: Scale = None) -> Tensor:
    """The former name of ``interpolate(…, mode="bilinear", align_corners=True)``; it warns.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     rl.nn.functional.upsample_bilinear(rl.tensor([[[[1.0, 2.0]]]]), size=(1, 3))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """
    deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def deprecated(name: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )
