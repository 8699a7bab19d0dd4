"""What the arguments of a convolution must be, and the geometry that they mean."""

from __future__ import annotations

from typing import Any

from rushlight import errors as messages
from rushlight.dims import by_sizes, index
from rushlight.kernels.windows import Geometry, Sizes
from rushlight.layouts import whole
from rushlight.ops.base import need_tensor
from rushlight.ops.contraction import refuse_bool
from rushlight.tensor import Tensor


def checked_operands(
    op: str, dims: int, input: Any, weight: Any, bias: Any
) -> tuple[Tensor, Tensor, bool]:
    """The input as a batch, the weight, and whether the input was a batch already."""
    x, w = need_tensor(op, input), need_tensor(op, weight, "weight", 2)
    shape, kernel = x._array.shape, w._array.shape
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {op}, but got "
            f"input of size: {list(shape)}"
        )
    if len(kernel) != dims + 2:
        raise RuntimeError(
            f"Expected {len(kernel)}-dimensional input for {len(kernel)}-dimensional weight "
            f"{list(kernel)}, but got {len(shape)}-dimensional input of size {list(shape)} instead"
        )
    kind = x._array.dtype
    if kind is not w._array.dtype:
        raise RuntimeError(
            f"expected scalar type {x.dtype.storage_name} but found {w.dtype.storage_name}: "
            f"{op}() takes an input and a weight of one dtype"
        )
    if bias is not None and need_tensor(op, bias, "bias", 3)._array.dtype is not kind:
        raise RuntimeError(
            f"Input type ({x.dtype.name}) and bias type ({bias.dtype.name}) should be the same"
        )
    refuse_bool(op, x._array)
    batched = len(shape) == dims + 2
    return x if batched else x.unsqueeze(0), w, batched


def per_dimension(op: str, argument: str, value: Any, dims: int) -> Sizes:
    """A number for each dimension: all the same one, or given one by one."""
    if type(value) is int:
        return (value,) * dims
    several = isinstance(value, (tuple, list))
    try:
        given = tuple([index(v) for v in (value if several else (value,))])
    except TypeError:
        found = messages.kind(value)
        if several:
            found = f"({', '.join([messages.kind(v) for v in value])})"
        raise TypeError(
            f"{op}(): argument '{argument}' must be tuple of ints, not {found}"
        ) from None
    if len(given) == 1:
        return given * dims
    if len(given) != dims:
        raise RuntimeError(
            f"expected {argument} to be a single integer value or a list of {dims} values to "
            f"match the convolution dimensions, but got {argument}={list(given)}"
        )
    return given


def geometry_of(
    op: str, dims: int, stride: Any, padding: Any, dilation: Any, groups: Any
) -> Geometry:
    """The numbers of a call, checked to be numbers."""
    return Geometry(
        per_dimension(op, "stride", stride, dims),
        per_dimension(op, "padding", padding, dims),
        per_dimension(op, "dilation", dilation, dims),
        whole(groups, op, "groups"),
    )


@by_sizes
def planned(
    x: Sizes, w: Sizes, bias: Sizes | None, geometry: Geometry, padding: str
) -> tuple[Geometry, Sizes]:
    """The geometry of a convolution, with ``padding`` by name if it has one, and its places."""
    check(x, w, bias, geometry, transposed=False)
    size, kernel, span = x[2:], w[2:], geometry.span(w[2:])
    if padding == "same":
        if max(geometry.stride) > 1:
            raise RuntimeError("padding='same' is not supported for strided convolutions")
        check_not_empty(x)
        return geometry._replace(padding=tuple([(s - 1) // 2 for s in span])), size
    if padding not in ("", "valid"):
        raise RuntimeError(f"Invalid padding string: '{padding}'. Use 'same' or 'valid'.")
    padded = tuple([n + 2 * p for n, p in zip(size, geometry.padding, strict=True)])
    if any([n < s for n, s in zip(padded, span, strict=True)]):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({by(padded)}). Kernel size: ({by(span)}). "
            "Kernel size can't be greater than actual input size"
        )
    check_not_empty(x)
    return geometry, geometry.counts(kernel, size)


@by_sizes
def planned_transposed(
    x: Sizes, w: Sizes, bias: Sizes | None, geometry: Geometry, extra: Sizes
) -> Sizes:
    """The size of the result of a transposed convolution, ``extra`` at its end included."""
    check(x, w, bias, geometry, transposed=True)
    check_not_empty(x)
    if min(extra) < 0:
        raise RuntimeError(f"negative output_padding is not supported, got {extra}")
    limits = map(max, geometry.stride, geometry.dilation)
    if any([e >= limit for e, limit in zip(extra, limits, strict=True)]):
        raise RuntimeError(
            "output padding must be smaller than either stride or dilation, but got "
            f"output_padding={extra}, stride={geometry.stride}, dilation={geometry.dilation}"
        )
    reach = geometry.reach(w[2:], x[2:])
    size = tuple([r - 2 * p + e for r, p, e in zip(reach, geometry.padding, extra, strict=True)])
    if any([n <= 0 for n in size]):
        raise RuntimeError(
            f"Given input size per channel: ({by(x[2:])}). Calculated output size per channel: "
            f"({by(size)}). Output size is too small"
        )
    return size


def check(x: Sizes, w: Sizes, bias: Sizes | None, geometry: Geometry, transposed: bool) -> None:
    """An error unless the numbers are possible, and channels, groups and bias fit."""
    groups = geometry.groups
    if min(geometry.stride) <= 0:
        raise RuntimeError(f"non-positive stride is not supported, got {geometry.stride}")
    if min(geometry.padding) < 0:
        raise RuntimeError(f"negative padding is not supported, got {geometry.padding}")
    if min(geometry.dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {geometry.dilation}")
    if groups <= 0:
        raise RuntimeError(f"non-positive groups is not supported, got {groups}")
    if min(w[2:]) <= 0:
        raise RuntimeError(f"kernel size should be greater than zero, but got {list(w[2:])}")
    if w[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {list(w)} instead"
        )
    if w[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size {list(w)} instead"
        )
    given, channels, results = f"groups={groups}", w[1] * groups, w[0]
    if transposed:
        given, channels, results = "transposed=1", w[0], w[1] * groups
    if x[1] != channels:
        raise RuntimeError(
            f"Given {given}, weight of size {list(w)}, expected input{list(x)} to have {channels} "
            f"channels, but got {x[1]} channels instead"
        )
    if bias is not None and bias != (results,):
        raise RuntimeError(
            f"Given {given}, weight of size {list(w)}, expected bias to be 1-dimensional with "
            f"{results} elements, but got bias of size {list(bias)} instead"
        )


def check_not_empty(x: Sizes) -> None:
    if 0 in x[2:]:
        raise RuntimeError(
            f"Only zero batch or zero channel inputs are supported, but got input shape: {list(x)}"
        )


def by(sizes: Sizes) -> str:
    return " x ".join(map(str, sizes))
