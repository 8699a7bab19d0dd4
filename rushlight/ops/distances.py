"""Distances and similarities between pairs of vectors."""

from __future__ import annotations

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.ops.base import axis, composite, need_tensor, ops
from rushlight.ops.elementwise import common_dtype
from rushlight.ops.loss_reduction import floored
from rushlight.ops.norms import pdist
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

INFINITY = float("inf")


@composite(
    method=False,
    samples=[
        S(T(3, 4), T(3, 4)),
        S(T(3, 4), T(3, 4), 0, 0.1),
        S(T(2, 3, 4), T(1, 3, 1), dim=-2),
        S(T(4), T(4), dim=0),
        S(T(3, 4), T(4)),
        S(T(0, 4), T(0, 4)),
        S(T(low=0.5), T(low=0.5), 0),
    ],
    errors=[
        Fails(TypeError, r"'x2' \(position 2\) must be Tensor, not list", T(3), [1.0]),
        Fails(IndexError, r"range of \[-1, 0\], but got 1", T(3), T(3)),
        Fails(RuntimeError, r"a \(4\) must match .* b \(3\)", T(2, 4), T(2, 3)),
        Fails(
            RuntimeError,
            "expected common dtype to be floating point, yet common dtype is Long",
            *[T(2, 3, dtype=dtypes.int64)] * 2,
        ),
    ],
)
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along ``dim``: x1 · x2 / (‖x1‖ ‖x2‖).

    The tensors are broadcast to a common shape, which ``dim`` counts in; norms are taken to be
    at least ``eps``.

    >>> rl.cosine_similarity(rl.tensor([[1.0, 0.0], [1.0, 1.0]]), rl.tensor([[1.0, 1.0]]))
    tensor([0.7071, 1.0000])
    """
    a = need_tensor("cosine_similarity", x1, "x1")
    b = need_tensor("cosine_similarity", x2, "x2", 2)
    kind = common_dtype((a, b))
    if not kind.is_floating_point:
        raise RuntimeError(
            "expected common dtype to be floating point, yet common dtype is "
            f"{kind.storage_name} [cosine_similarity]"
        )
    a, b = ops.broadcast_tensors(a.to(kind), b.to(kind))
    d = axis(dim, a.ndim)
    return (unit(a, d, eps) * unit(b, d, eps)).sum(d)


def unit(x: Tensor, dim: int, eps: float) -> Tensor:
    """``x / ‖x‖`` along ``dim``; the norm counts at least ``eps``."""
    return x / floored(ops.linalg.vector_norm(x, 2, dim, True), eps)


@composite(
    method=False,
    samples=[
        S(T(3, 4), T(3, 4)),
        *(S(T(3, 4), T(3, 4), p) for p in (1, 3.0, 0.5, -1, INFINITY)),
        S(T(2, 3, 4), T(4), keepdim=True),
        S(T(4), T(4), eps=0.1),
        S(T(0, 4), T(0, 4)),
    ],
    errors=[
        Fails(TypeError, r"'x2' \(position 2\) must be Tensor, not list", T(3), [1.0]),
        Fails(TypeError, "'p' must be float, not str", T(3), T(3), "2"),
        Fails(RuntimeError, r"a \(4\) must match .* b \(3\)", T(2, 4), T(2, 3)),
    ],
)
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The distances between vectors of the last dimension: the p-norm of x1 - x2 + eps.

    >>> rl.pairwise_distance(rl.tensor([[0.0, 0.0], [1.0, 1.0]]), rl.tensor([[3.0, 4.0]]))
    tensor([5.0000, 3.6056])
    """
    a = need_tensor("pairwise_distance", x1, "x1")
    b = need_tensor("pairwise_distance", x2, "x2", 2)
    if not isinstance(p, (int, float)):
        raise TypeError(f"pairwise_distance(): argument 'p' must be float, not {messages.kind(p)}")
    difference = a - b + float(eps)
    return ops.linalg.vector_norm(difference, p, -1 if difference.ndim else None, keepdim)


for shared in (cosine_similarity, pairwise_distance, pdist):
    setattr(ops.__dict__["nn.functional"], shared.__name__, shared)
