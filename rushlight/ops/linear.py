"""Forms linear in two inputs; :mod:`rushlight.ops.affine` has the maps of one."""

from __future__ import annotations

from typing import Any

from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.contraction import rows
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        S(T(3, 4), T(3, 5), T(2, 4, 5)),
        S(T(3, 4), T(3, 5), T(2, 4, 5), T(2)),
        S(T(2, 3, 4), T(2, 3, 5), T(6, 4, 5), bias=T(6)),
        S(T(4), T(5), T(2, 4, 5), T(2)),
        S(T(0, 4), T(0, 5), T(2, 4, 5)),
    ],
    errors=[
        Fails(RuntimeError, "input1 .* weight dim 1", T(3, 2), T(3, 5), T(2, 4, 5)),
        Fails(RuntimeError, "input2 .* weight dim 2", T(3, 4), T(3, 4), T(2, 4, 5)),
        Fails(RuntimeError, "batch dim 0", T(2, 4), T(3, 5), T(2, 4, 5)),
        Fails(TypeError, "'weight' .* must be Tensor, not int", T(2, 4), T(2, 5), 3),
    ],
)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A form linear in each of two inputs: yₖ = x₁ᵀ·Aₖ·x₂ + bₖ.

    >>> import rushlight.nn.functional as F
    >>> F.bilinear(rl.ones(2), rl.ones(3), rl.ones(4, 2, 3))
    tensor([6., 6., 6., 6.])
    """
    x, y = need_tensor("bilinear", input1), need_tensor("bilinear", input2, "input2", 2)
    a = need_tensor("bilinear", weight, "weight", 3)
    check_bilinear(x.shape, y.shape, a.shape, None if bias is None else bias.shape)
    result = ops.einsum("bi,kij,bj->bk", rows_of(x), a, rows_of(y))
    if bias is not None:
        result = result + bias
    return result.reshape(*x.shape[:-1], a.shape[0])


def rows_of(x: Tensor) -> Tensor:
    return x.unsqueeze(0) if x.ndim == 1 else rows(x)


def check_bilinear(x: Any, y: Any, a: Any, bias: Any) -> None:
    if len(x) != len(y):
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {len(x)} and {len(y)}")
    for dim, (m, n) in enumerate(zip(x[:-1], y[:-1], strict=True)):
        if m != n:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at batch dim {dim}: "
                f"got {m} and {n}"
            )
    if len(a) != 3:
        raise RuntimeError(f"bilinear(): weight must have 3 dimensions, got shape {list(a)}")
    for number, size in ((1, x), (2, y)):
        if size[-1] != a[number]:
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size at weight dim "
                f"{number}: got {size[-1]} but expected {a[number]}"
            )
    if bias is not None and tuple(bias) != (a[0],):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {list(bias)} but expected "
            f"[{a[0]}]"
        )
