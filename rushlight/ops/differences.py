"""Finite differences and the integrals that undo them, along a dimension."""

from __future__ import annotations

from typing import Any

from rushlight import dtypes
from rushlight.ops.base import axis, composite, into, need_tensor, ops
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


@composite(
    samples=[
        S(T(3, 4)),
        S(T(3, 4), dim=0),
        S(T(5), n=2),
        S(T(3), n=4),
        S(T(3, 4), prepend=T(3, 1), append=T(3, 2)),
        S(T(4, dtype=dtypes.bool_)),
        S(T(0, 3)),
    ],
    errors=[
        Fails(RuntimeError, "at least one-dimensional", T()),
        Fails(RuntimeError, "order must be non-negative but got -1", T(3), n=-1),
        Fails(IndexError, r"range of \[-1, 0\], but got 1", T(3), dim=1),
    ],
)
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The ``n``-th differences along ``dim``: yᵢ = xᵢ₊₁ - xᵢ, n times over.

    ``prepend`` and ``append`` are put before and behind ``input`` first, unless ``n`` is 0.

    >>> rl.tensor([1, 4, 9, 16]).diff()
    tensor([3, 5, 7])
    """
    x = need_tensor("diff", input)
    if not x.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = axis(dim, x.ndim)
    if n == 0:
        return x.clone() if out is None else into(out, x)
    around = [t for t in (prepend, x, append) if t is not None]
    y = ops.cat(around, dim) if len(around) > 1 else x
    for _ in range(min(n, y.shape[dim])):
        left, right = neighbours(y, dim)
        y = left.logical_xor(right) if y.dtype is dtypes.bool_ else right - left
    return y if out is None else into(out, y)


def neighbours(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All elements along ``dim`` but the last, and all but the first."""
    n = max(x.shape[dim] - 1, 0)
    return x.narrow(dim, 0, n), x.narrow(dim, min(1, x.shape[dim]), n)


TRAPEZOID_SAMPLES = [
    S(T(3, 4)),
    S(T(3, 4), dx=0.5, dim=0),
    S(T(3, 4), T(4, distinct=True)),
    S(T(2, 3, 4), T(3, 4, distinct=True), dim=1),
    S(T(3, 1)),
    S(T(3, 0)),
]
TRAPEZOID_ERRORS = [
    Fails(RuntimeError, "one `x` value for each sample point", T(3, 4), T(3)),
    Fails(RuntimeError, "bool is not supported", T(3, dtype=dtypes.bool_)),
    Fails(IndexError, r"range of \[-2, 1\], but got 2", T(3, 4), dim=2),
]


@composite(method=False, samples=TRAPEZOID_SAMPLES, errors=TRAPEZOID_ERRORS)
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The integral of samples ``y`` along ``dim`` by the trapezoidal rule.

    The samples are at the points ``x``, or ``dx`` (1) apart.

    >>> rl.trapezoid(rl.tensor([1.0, 2.0, 4.0]))
    tensor(4.5000)
    """
    step, dim = trapezoid_step("trapezoid", y, x, dx, dim)
    if isinstance(step, Tensor):
        left, right = neighbours(y, dim)
        return ((left + right) * step).sum(dim) / 2
    if y.shape[dim] == 0:
        return y.sum(dim)
    ends = y.select(dim, 0) + y.select(dim, -1)
    return (y.sum(dim) - ends * 0.5) * step


@composite(method=False, samples=TRAPEZOID_SAMPLES, errors=TRAPEZOID_ERRORS)
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Another name of :func:`trapezoid`.

    >>> rl.trapz(rl.tensor([1.0, 2.0, 4.0]), dx=2)
    tensor(9.)
    """
    return ops.trapezoid(y, x, dx=dx, dim=dim)


@composite(method=False, samples=TRAPEZOID_SAMPLES, errors=TRAPEZOID_ERRORS)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The running integral of samples ``y`` along ``dim`` by the trapezoidal rule.

    >>> rl.cumulative_trapezoid(rl.tensor([1.0, 2.0, 4.0]))
    tensor([1.5000, 4.5000])
    """
    step, dim = trapezoid_step("cumulative_trapezoid", y, x, dx, dim)
    left, right = neighbours(y, dim)
    return ((left + right) * step).cumsum(dim) / 2


def trapezoid_step(
    op: str, y: Tensor, x: Tensor | None, dx: float | None, dim: int
) -> tuple[Any, int]:
    """The distance of neighbouring samples, a number or a tensor, and the dimension."""
    need_tensor(op, y, "y")
    dim = axis(dim, y.ndim)
    if dtypes.bool_ in (y.dtype, None if x is None else need_tensor(op, x, "x", 2).dtype):
        raise RuntimeError(f"{op}: received a bool input for `x` or `y`, but bool is not supported")
    if x is None:
        return 1 if dx is None else dx, dim
    if dx is not None and dx != 1:
        raise TypeError(f"{op}(): give either x or dx, not both")
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim] != 0:
            raise RuntimeError(
                f"{op}: There must be one `x` value for each sample point: got {x.shape[0]} "
                f"values for {y.shape[dim]} points"
            )
        x = x.reshape([-1 if i == dim else 1 for i in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + x.shape)
    left, right = neighbours(x, dim)
    return right - left, dim


@composite(
    method=False,
    samples=[
        S(T(5)),
        S(T(4, 5)),
        S(T(4, 5), spacing=0.5, dim=1),
        S(T(4, 5), spacing=[2.0, 0.5], edge_order=2),
        S(T(4, 5), spacing=[T(5, distinct=True)], dim=1),
        S(T(4, 5), spacing=[T(5, distinct=True)], dim=1, edge_order=2),
    ],
    errors=[
        Fails(RuntimeError, "edge_order=1 and edge_order=2", T(4), edge_order=3),
        Fails(RuntimeError, r"dimension size to be at least edge_order\+1", T(2), edge_order=2),
        Fails(RuntimeError, "expected spacing to be", T(4, 5), spacing=[1.0]),
        Fails(RuntimeError, "appears multiple times", T(4, 5), dim=(0, 0)),
    ],
)
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """The derivative of samples along each of the dimensions ``dim``, by central differences.

    Args:
        spacing: the distance of samples, one for each dimension, or their coordinates as tensors
        edge_order: the order of the one-sided differences at both ends, 1 or 2

    >>> rl.gradient(rl.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    x = need_tensor("gradient", input)
    spacing = 1 if spacing is None else spacing
    dims = gradient_dims(x, dim, edge_order)
    steps = spacing if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length "
            f"equal to the number of dimensions {len(dims)}, got a list of length {len(steps)}"
        )
    return tuple(
        [gradient_along(x, d, step, edge_order) for d, step in zip(dims, steps, strict=True)]
    )


def gradient_dims(x: Tensor, dim: Any, edge_order: int) -> list[int]:
    if edge_order not in (1, 2):
        raise RuntimeError(
            f"torch.gradient only supports edge_order=1 and edge_order=2, got {edge_order}"
        )
    wanted = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [axis(d, x.ndim) for d in wanted]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {dims} appears multiple times in the list of dims")
    for d in dims:
        if x.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"shape {list(x.shape)}"
            )
    return dims


def gradient_along(x: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    """The slopes of the parabolas through each element and its two neighbours."""
    n = x.shape[dim]
    even = not (isinstance(step, Tensor) and step.ndim)
    gap = step if even else step.diff().reshape([-1 if i == dim else 1 for i in range(x.ndim)])
    before, after = (gap, gap) if even else neighbours(gap, dim)
    slope = x.diff(dim=dim) / gap
    left, right = neighbours(slope, dim)
    bend = (right - left) / (before + after)
    if even:
        inner = (x.narrow(dim, 2, n - 2) - x.narrow(dim, 0, n - 2)) / (2 * gap)
    else:
        inner = left + bend * before
    first, last = slope.narrow(dim, 0, 1), slope.narrow(dim, n - 2, 1)
    if edge_order == 2:
        first = first - (bend * before).narrow(dim, 0, 1)
        last = last + (bend * after).narrow(dim, n - 3, 1)
    return ops.cat([first, inner, last], dim)
