"""The maps of linear layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.ops.base import Op, composite, need_tensor, ops
from rushlight.ops.contraction import conjugated, mixed, refuse_bool, rounded, rows
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


class Linear(Op):
    """An affine map of the last dimension: y = x·Aᵀ + b.

    ``weight`` is A, of shape (out, in), or a vector (in) that gives one number a row.

    >>> import rushlight.nn.functional as F
    >>> F.linear(rl.tensor([1.0, 2.0]), rl.tensor([[1.0, 1.0], [0.0, 3.0]]), rl.tensor([0.5, 0.0]))
    tensor([3.5000, 6.0000])
    """

    namespace = "nn.functional"
    method = False
    operands = ("x", "weight", "bias")
    arithmetic = True
    samples = [
        S(T(3, 4), T(5, 4)),
        S(T(3, 4), T(5, 4), T(5)),
        S(T(2, 3, 4), T(5, 4), T(5)),
        S(T(4), T(5, 4), bias=T(5)),
        S(T(3, 4), T(4)),
        S(T(2, 3, 4), T(4), T()),
        S(T(4), T(4), T()),
        S(T(0, 4), T(5, 4), T(5)),
        S(T(3, 0), T(5, 0), T(5)),
        S(T(3, 4), T(0, 4), T(0)),
    ]
    errors = [
        Fails(RuntimeError, r"cannot be multiplied \(2x3 and 4x5\)", T(2, 3), T(5, 4)),
        Fails(RuntimeError, r"cannot be multiplied \(6x3 and 4x5\)", T(2, 3, 3), T(5, 4)),
        Fails(RuntimeError, r"bias of shape \[4\]", T(2, 3), T(5, 3), T(4)),
        Fails(RuntimeError, "weight must be a vector or a matrix", T(2, 3), T(1, 5, 3)),
        Fails(TypeError, "'weight' .* must be Tensor, not list", T(2, 3), [[1.0]]),
    ]

    def check(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        x = need_tensor("linear", input)._array
        w = need_tensor("linear", weight, "weight", 2)._array
        if bias is not None:
            need_tensor("linear", bias, "bias", 3)
        if w.ndim not in (1, 2):
            raise RuntimeError(
                f"linear(): weight must be a vector or a matrix, got shape {list(w.shape)}"
            )
        if not x.ndim:
            raise RuntimeError("linear(): input must have at least one dimension, got a 0-d tensor")
        if x.shape[-1] != w.shape[-1]:
            raise self.mismatch(x.shape, w.shape)
        if x.dtype is not w.dtype or (bias is not None and bias._array.dtype is not x.dtype):
            raise mixed("linear", *[t._array for t in (input, weight, bias) if t is not None])
        if bias is not None and bias._array.shape not in ((), w.shape[:-1], (1,) * (w.ndim - 1)):
            raise RuntimeError(
                f"linear(): a bias of shape {list(bias.shape)} does not fit a weight of shape "
                f"{list(w.shape)}: expected {list(w.shape[:-1])}"
            )
        refuse_bool("linear", x)
        return (input, weight, bias), {}

    def mismatch(self, x: tuple[int, ...], w: tuple[int, ...]) -> RuntimeError:
        count = int(np.prod(x[:-1]))
        shape = f"{w[1]}x{w[0]}" if len(w) == 2 else f"{w[0]}"
        cure = f"; for this input the layer needs in_features={x[-1]}, it has {w[-1]}"
        return RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({count}x{x[-1]} and {shape}){cure}"
        )

    def eager(self, x, weight, bias):
        return rounded(affine, *[a for a in (x, weight, bias) if a is not None])

    def vjp_x(self, g, _y, _x, weight, _bias):
        if len(weight.shape) == 1:
            return g[..., None] * conjugated(weight)
        return (rows(g) @ conjugated(weight)).reshape(_x.shape)

    def vjp_weight(self, g, _y, x, _weight, _bias):
        x = rows(conjugated(x))
        if len(_weight.shape) == 1:
            return x.mT @ g.reshape(-1)
        return rows(g).mT @ x

    def vjp_bias(self, g, _y, _x, _weight, _bias):
        return g


def affine(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    if x.ndim > 2:
        y = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1]).dot(weight.T)
        y = y.reshape(*x.shape[:-1], *weight.shape[:-1])
    else:
        y = x.dot(weight.T)
    return y if bias is None else np.add(y, bias, out=y if isinstance(y, np.ndarray) else None)


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
