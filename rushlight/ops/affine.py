"""A product plus something: linear layers, and BLAS's ``beta * input + alpha * product``."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.ops.base import Op, broadcastable, composite, into, need_tensor, ops, record
from rushlight.ops.contraction import (
    check_batches,
    matmul,
    mixed,
    mm,
    mm_nt,
    mm_tn,
    refuse_bool,
    rows,
    shapes_error,
)
from rushlight.ops.families import conjugate
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, new

Number = int | float | complex
NO_ATTRS: dict[str, Any] = {}


class Linear(Op):
    """An affine map of the last dimension: y = x·Wᵀ + b.

    Args:
        input: (*, in_features)
        weight: (out_features, in_features), or (in_features) for a single output
        bias: (out_features), or None

    >>> x, w = rl.tensor([[1.0, 2.0]]), rl.tensor([[3.0, 4.0], [5.0, 6.0]])
    >>> rl.linear(x, w, rl.tensor([0.0, 1.0]))
    tensor([[11., 18.]])
    """

    method = False
    operands = ("x", "weight", "bias")
    samples = [
        S(T(3, 4), T(5, 4)),
        S(T(3, 4), T(5, 4), T(5)),
        S(T(2, 3, 4), T(5, 4), T(5)),
        S(T(4), T(5, 4), T(5)),
        S(T(3, 4), T(4), T()),
        S(T(0, 4), T(5, 4), T(5)),
        S(T(3, 0), T(5, 0), T(5)),
        S(T(3, 4), T(5, 4), T(3, 5)),
    ]
    errors = [
        Fails(RuntimeError, r"cannot be multiplied \(2x3 and 4x5\)", T(2, 3), T(5, 4)),
        Fails(RuntimeError, r"expanded size of the tensor \(4\)", T(2, 3), T(4, 3), T(2)),
        Fails(RuntimeError, "at least 1D, but they are 0D and 2D", T(), T(4, 3)),
        Fails(TypeError, "'weight' .* must be Tensor, not NoneType", T(2, 3), None),
    ]

    def make(self) -> Callable[..., Any]:
        op, eager = self, self.eager

        def function(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            try:
                x, w = input._array, weight._array
            except AttributeError:
                raise self.stranger(input, weight) from None
            if w.ndim != 2 or x.ndim < 2:
                return op.of_vectors(input, weight, bias)
            if x.ndim == 2 and bias is None:
                return mm_nt(input, weight)
            b = None if bias is None else need_tensor("linear", bias, "bias", 3)._array
            if x.shape[-1] != w.shape[1] or x.dtype is not w.dtype:
                raise op.refusal(x, w)
            if b is not None and (b.shape != w.shape[:1] or b.dtype is not x.dtype):
                op.check_bias(x, w, bias)
            state = local.state
            t = new(Tensor)
            t._array = state.run(eager, x, w, b)
            if state.grad:
                record(op, t, (input, weight, bias), NO_ATTRS)
            return t

        return function

    def eager(self, x, weight, bias):
        if x.dtype in dtypes.HALF:
            single = [None if a is None else a.astype(np.float32) for a in (x, weight, bias)]
            return self.eager(*single).astype(x.dtype)
        if x.ndim == 2:
            y = x.dot(weight.T)
        else:
            lead = x.shape[:-1]
            y = x.reshape(prod(lead), x.shape[-1]).dot(weight.T).reshape(*lead, len(weight))
        if bias is not None:
            y += bias
        return y

    def vjp_x(self, g, _y, _x, weight, _bias):
        return matmul(g, conjugate(weight))

    def vjp_weight(self, g, _y, x, _weight, _bias):
        return mm_tn(rows(g), rows(conjugate(x)))

    def vjp_bias(self, g, _y, _x, _weight, _bias):
        return g.sum_to_size(_bias.shape)

    def of_vectors(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """An input that is one vector, or a weight that is one row."""
        if not x.ndim or not weight.ndim:
            raise RuntimeError(
                "both arguments to linear need to be at least 1D, but they are "
                f"{x.ndim}D and {weight.ndim}D"
            )
        y = matmul(x, weight.t())
        return y if bias is None else y + expandable(bias, y)

    def check_bias(self, x: np.ndarray, weight: np.ndarray, bias: Tensor) -> None:
        if bias._array.dtype is not x.dtype:
            raise mixed("linear", x, weight, bias._array)
        if not broadcastable(bias._array.shape, (*x.shape[:-1], len(weight))):
            bias.expand(*x.shape[:-1], len(weight))

    def refusal(self, x: np.ndarray, weight: np.ndarray) -> RuntimeError:
        if x.dtype is not weight.dtype:
            return mixed("linear", x, weight)
        return shapes_error((prod(x.shape[:-1]), x.shape[-1]), weight.shape[::-1])

    def stranger(self, input: Any, weight: Any) -> TypeError:
        if not isinstance(input, Tensor):
            return messages.expected_tensor("linear", "input", 1, input)
        return messages.expected_tensor("linear", "weight", 2, weight)


def expandable(bias: Tensor, y: Tensor) -> Tensor:
    """``bias`` if it broadcasts to the shape of ``y``, else the error that says why not."""
    shape = y._array.shape
    return bias if broadcastable(bias._array.shape, shape) else bias.expand(shape)


def combine(name: str, input: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta·input + alpha·product; a beta of 0 ignores ``input``, whatever it holds."""
    expandable(need_tensor(name, input), product)
    if input._array.dtype is not product._array.dtype:
        raise mixed(name, input._array, product._array)
    if product._array.dtype.kind in "iu":
        beta, alpha = int(beta), int(alpha)
    y = product if alpha == 1 else product * alpha
    if beta == 0:
        return y
    return y + (input if beta == 1 else input * beta)


class Addmm(Op):
    """beta·input + alpha·(mat1 @ mat2), of matrices; ``input`` may be broadcast.

    With ``beta=0`` the values of ``input`` are ignored, NaN included.

    >>> rl.addmm(rl.ones(2), rl.ones(3, 4), rl.ones(4, 2), alpha=0.5)
    tensor([[3., 3.],
            [3., 3.],
            [3., 3.]])
    """

    inplace = True
    samples = [
        S(T(3, 5), T(3, 4), T(4, 5)),
        S(T(5), T(3, 4), T(4, 5), beta=2, alpha=0.5),
        S(T(), T(3, 4), T(4, 5), beta=0),
        S(T(3, 1), T(3, 0), T(0, 5)),
    ]
    errors = [
        Fails(RuntimeError, r"cannot be multiplied \(2x3 and 4x2\)", T(2, 2), T(2, 3), T(4, 2)),
        Fails(RuntimeError, r"existing size \(3\)", T(3, 2), T(2, 3), T(3, 2)),
        Fails(RuntimeError, "mat2 must be a matrix", T(2, 2), T(2, 3), T(3)),
    ]

    def check(
        self, input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1
    ) -> Any:
        need_tensor("addmm", input)
        a = need_tensor("addmm", mat1, "mat1", 2)._array
        b = need_tensor("addmm", mat2, "mat2", 3)._array
        for name, array in (("mat1", a), ("mat2", b)):
            if array.ndim != 2:
                raise RuntimeError(
                    f"addmm(): {name} must be a matrix, got shape {list(array.shape)}"
                )
        if a.shape[1] != b.shape[0]:
            raise shapes_error(a.shape, b.shape)
        if not input._array.dtype is a.dtype is b.dtype:
            raise mixed("addmm", input._array, a, b)
        refuse_bool("addmm", a)
        if not broadcastable(input._array.shape, (len(a), b.shape[1])):
            input.expand(len(a), b.shape[1])
        if a.dtype.kind in "iu":
            beta, alpha = int(beta), int(alpha)
        return (input, mat1, mat2), {"beta": beta, "alpha": alpha}

    def eager(self, input, a, b, *, beta, alpha):
        if a.dtype in dtypes.HALF:
            single = [array.astype(np.float32) for array in (input, a, b)]
            return self.eager(*single, beta=beta, alpha=alpha).astype(a.dtype)
        y = a.dot(b)
        if alpha != 1:
            y *= alpha
        if beta != 0:
            y += input if beta == 1 else beta * input
        return y

    def vjp_input(self, g, _y, _input, _a, _b, *, beta, alpha):
        return scaled(g, beta)

    def vjp_a(self, g, _y, _input, _a, b, *, beta, alpha):
        return scaled(mm_nt(g, conjugate(b)), alpha)

    def vjp_b(self, g, _y, _input, a, _b, *, beta, alpha):
        return scaled(mm_tn(conjugate(a), g), alpha)


def scaled(g: Tensor, factor: Number) -> Tensor:
    return g if factor == 1 else g * conjugate(factor)


@composite(
    inplace=True,
    samples=[
        S(T(3), T(3, 4), T(4)),
        S(T(), T(3, 4), T(4), beta=0, alpha=2),
        S(T(1), T(3, 0), T(0), beta=3),
    ],
    errors=[
        Fails(RuntimeError, r"mat \(3x3\), vec \(2\)", T(3), T(3, 3), T(2)),
        Fails(RuntimeError, r"existing size \(2\)", T(2), T(3, 3), T(3)),
    ],
)
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta·input + alpha·(mat @ vec).

    >>> rl.addmv(rl.ones(2), rl.ones(2, 3), rl.ones(3))
    tensor([4., 4.])
    """
    y = combine("addmv", input, ops.mv(mat, vec), beta, alpha)
    return y if out is None else into(out, y)


@composite(
    inplace=True,
    samples=[
        S(T(3, 5), T(2, 3, 4), T(2, 4, 5)),
        S(T(5), T(2, 3, 4), T(2, 4, 5), beta=0.5, alpha=2),
        S(T(3, 5), T(0, 3, 4), T(0, 4, 5)),
    ],
    errors=[Fails(RuntimeError, "batch1 must be a 3D tensor", T(2, 2), T(2, 3), T(2, 2, 3))],
)
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta·input + alpha·Σᵢ batch1[i] @ batch2[i].

    >>> rl.addbmm(rl.zeros(2, 2), rl.ones(5, 2, 3), rl.ones(5, 3, 2))
    tensor([[15., 15.],
            [15., 15.]])
    """
    check_batches("addbmm", batch1, batch2)
    (b, n, k), m = batch1.shape, batch2.shape[2]
    summed = mm(batch1.permute(1, 0, 2).reshape(n, b * k), batch2.reshape(b * k, m))
    y = combine("addbmm", input, summed, beta, alpha)
    return y if out is None else into(out, y)


@composite(
    inplace=True,
    samples=[
        S(T(2, 3, 5), T(2, 3, 4), T(2, 4, 5)),
        S(T(5), T(2, 3, 4), T(2, 4, 5), beta=0.5, alpha=2),
        S(T(1, 3, 1), T(2, 3, 0), T(2, 0, 5), beta=0),
    ],
    errors=[Fails(RuntimeError, r"existing size \(4\)", T(4, 4), T(2, 3, 4), T(2, 4, 5))],
)
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta·input + alpha·(batch1 @ batch2), for each matrix of the batches.

    >>> rl.baddbmm(rl.ones(1), rl.ones(5, 2, 3), rl.ones(5, 3, 4)).shape
    rushlight.Size([5, 2, 4])
    """
    y = combine("baddbmm", input, ops.bmm(batch1, batch2), beta, alpha)
    return y if out is None else into(out, y)


@composite(
    inplace=True,
    samples=[S(T(3, 4), T(3), T(4)), S(T(4), T(3), T(4), beta=0.5, alpha=2), S(T(), T(0), T(4))],
    errors=[
        Fails(RuntimeError, "Expected 1-D argument vec1, but got 2-D", T(2), T(3, 3), T(3)),
        Fails(RuntimeError, "Expected 1-D argument vec2, but got 0-D", T(2), T(3), T()),
    ],
)
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta·input + alpha·(vec1 ⊗ vec2), the outer product.

    >>> rl.addr(rl.zeros(2, 2), rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if need_tensor("addr", vector, name).ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {vector.ndim}-D")
    product = vec1.unsqueeze(1) * vec2
    expandable(need_tensor("addr", input), product)
    if product.dtype is dtypes.bool_ and input.dtype is dtypes.bool_:
        beta, alpha = bool(beta), bool(alpha)
    y = product if alpha == 1 else product * alpha
    if not beta:
        y = y.to(ops.result_type(input, y))
    else:
        y = y + (input if beta == 1 else input * beta)
    return y if out is None else into(out, y)


@composite(
    method=False,
    samples=[
        S(T(3, 4), T(3, 5), T(2, 4, 5)),
        S(T(3, 4), T(3, 5), T(2, 4, 5), T(2)),
        S(T(2, 3, 4), T(2, 3, 5), T(2, 4, 5), T(2)),
        S(T(0, 4), T(0, 5), T(2, 4, 5), T(2)),
        S(T(4), T(5), T(2, 4, 5)),
    ],
    errors=[
        Fails(RuntimeError, "input2 size does not match", T(2, 3), T(2, 4), T(5, 3, 3)),
        Fails(RuntimeError, "do not match at dim 0: got 2 and 3", T(2, 3), T(3, 4), T(5, 3, 4)),
        Fails(RuntimeError, "bias size does not match", T(2, 3), T(2, 4), T(5, 3, 4), T(4)),
    ],
)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A map linear in each of two inputs: y = x₁ᵀ·W·x₂ + b.

    Args:
        input1: (*, in1)
        input2: (*, in2)
        weight: (out, in1, in2)
        bias: (out), or None

    >>> rl.bilinear(rl.ones(2, 3), rl.ones(2, 4), rl.ones(5, 3, 4)).shape
    rushlight.Size([2, 5])
    """
    check_bilinear(input1, input2, weight, bias)
    lead = input1.shape[:-1]
    count, (outputs, left, right) = prod(lead), weight.shape
    half = mm(input1.reshape(count, left), weight.permute(1, 0, 2).reshape(left, outputs * right))
    y = ops.bmm(half.reshape(count, outputs, right), input2.reshape(count, right, 1))
    y = y.reshape(*lead, outputs)
    return y if bias is None else y + bias


def check_bilinear(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for position, (name, t) in enumerate((("input1", x), ("input2", y), ("weight", weight)), 1):
        need_tensor("bilinear", t, name, position)
    if x.ndim != y.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {x.ndim} and {y.ndim}")
    for i, (a, b) in enumerate(zip(x.shape[:-1], y.shape[:-1], strict=True)):
        if a != b:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got {a} and {b}"
            )
    if weight.ndim != 3:
        raise RuntimeError(f"bilinear(): weight must be 3-D, got shape {list(weight.shape)}")
    for i, t in ((1, x), (2, y)):
        if t.shape[-1] != weight.shape[i]:
            raise RuntimeError(
                f"bilinear(): input{i} size does not match weight size: got {t.shape[-1]} but "
                f"expected {weight.shape[i]}"
            )
    if bias is not None and need_tensor("bilinear", bias, "bias", 4).shape != weight.shape[:1]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
            f"{weight.shape[0]}"
        )
