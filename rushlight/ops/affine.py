"""A product plus something: linear layers, and BLAS's ``beta * input + alpha * product``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.autograd.tape import NO_ATTRS, Node, Plan, edge, version
from rushlight.errors import user_line
from rushlight.kernels.engine import dot
from rushlight.ops.base import Op, composite, into, is_expandable, need_tensor, ops, registry
from rushlight.ops.contraction import (
    check_batches,
    conjugated,
    matmul,
    mixed,
    mm,
    refuse_bool,
    rows,
    shapes_error,
    times,
)
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, new

Number = int | float | complex
NO_GRADIENT = (False, False, False)
UNUSUAL = dtypes.HALF | {dtypes.bool_.numpy}


def fused(op: Op) -> Callable[..., Tensor]:
    """Runs and records an op of three operands, the last perhaps None, without loops."""
    eager, plans = op.eager, op.plans

    def run(a: Tensor, b: Tensor, c: Tensor | None) -> Tensor:
        state = local.state
        if state.trace is not None:
            return op.traced((a, b, c), NO_ATTRS)
        t = new(Tensor)
        t._array = y = state.run(eager, a._array, b._array, None if c is None else c._array)
        if not state.grad:
            return t
        edges = first, second, third = edge(a), edge(b), None if c is None else edge(c)
        needed = (first is not None, second is not None, third is not None)
        if needed == NO_GRADIENT:
            return t
        plan = plans.get(needed)
        if plan is None:
            plan = plans[needed] = Plan(op, needed)
        keep = plan.keep
        saved = (a if keep[0] else None, b if keep[1] else None, c if keep[2] else None)
        node = t._history = Node(plan, edges, saved, y)
        node.versions = (version(a), version(b), version(c))
        if state.anomaly:
            node.where = user_line()
        return t

    return run


class Linear(Op):
    """An affine map of the last dimension: y = x·Wᵀ + b.

    Args:
        input: (*, in_features)
        weight: (out_features, in_features), or (in_features) for a single output
        bias: (out_features), or None

    >>> x, w = rl.tensor([[1.0, 2.0]]), rl.tensor([[3.0, 4.0], [5.0, 6.0]])
    >>> rl.nn.functional.linear(x, w, rl.tensor([0.0, 1.0]))
    tensor([[11., 18.]])
    """

    namespace = "nn.functional"
    method = False
    operands = ("x", "weight", "bias")
    arithmetic = True
    rowwise = {"weight": "x"}
    library = "a contraction"
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
        Fails(NotImplementedError, "for 'Bool'", *[T(2, 2, dtype=dtypes.bool_)] * 2),
    ]

    def make(self) -> Callable[..., Any]:
        run, check, of_vectors = fused(self), self.check, self.of_vectors

        def function(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            try:
                x, w = input._array, weight._array
                b = None if bias is None else bias._array
            except AttributeError:
                raise stranger(input, weight, bias) from None
            if w.ndim != 2 or x.ndim < 2:
                return of_vectors(input, weight, bias)
            kind = x.dtype
            if (
                x.shape[-1] != w.shape[1]
                or w.dtype is not kind
                or (b is not None and (b.shape != w.shape[:1] or b.dtype is not kind))
            ):
                check(input, weight, bias)
            return run(input, weight, bias)

        return function

    def check(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        x, w = input._array, weight._array
        if x.dtype is not w.dtype:
            raise mixed("linear", x, w)
        if x.shape[-1] != w.shape[1]:
            raise wrong_features(x.shape, w.shape)
        if bias is not None:
            if bias._array.dtype is not x.dtype:
                raise mixed("linear", x, w, bias._array)
            check_expandable(bias, (*x.shape[:-1], len(w)))
        return (input, weight, bias), {}

    def infer(self, arrays, attrs):
        x, weight, bias = arrays
        if x.dtype in UNUSUAL:
            return NotImplemented
        rows, count = x.shape[:-1], len(weight)
        check_product("linear", x, weight.T, bias, (*rows, count))
        return np.empty((*rows, count), x.dtype)

    def eager(self, x, weight, bias):
        if x.dtype in UNUSUAL:
            refuse_bool("addmm_impl_cpu_", x)
            single = [None if a is None else a.astype(np.float32) for a in (x, weight, bias)]
            return self.eager(*single).astype(x.dtype)
        if x.ndim == 2:
            y = dot(x, weight.T)
        else:
            y = dot(rows(x), weight.T).reshape(*x.shape[:-1], len(weight))
        if bias is not None:
            y += bias
        return y

    def decompose(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
        if input._array.dtype in UNUSUAL:
            return NotImplemented
        y = by_rows(input, weight.mT)
        return y if bias is None else y + bias

    def vjp_x(self, g, _y, _x, weight, _bias):
        return by_rows(g, conjugated(weight))

    def vjp_weight(self, g, _y, x, _weight, _bias):
        if g.ndim > 2:
            order = memory_order(g if g.shape[-1] > x.shape[-1] else x)
            g, x = permuted(g, order), permuted(x, order)
        return times(rows(g).mT, rows(conjugated(x)))

    def vjp_bias(self, g, _y, _x, _weight, _bias):
        return g

    def of_vectors(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """An input that is one vector, or a weight that is one row."""
        if not x.ndim or not weight.ndim:
            raise RuntimeError(
                "both arguments to linear need to be at least 1D, but they are "
                f"{x.ndim}D and {weight.ndim}D"
            )
        y = matmul(x, weight.t())
        if bias is None:
            return y
        check_expandable(bias, y._array.shape)
        return y + bias


ops.linear = registry["nn.functional.linear"].call


def memory_order(x: Any) -> list[int]:
    """The dimensions of rows in the order in which memory holds them, and the last one."""
    steps = (x if isinstance(x, np.ndarray) else x._array).strides
    last = len(steps) - 1
    return [*sorted(range(last), key=lambda d: -steps[d]), last]


def permuted(x: Any, order: Sequence[int]) -> Any:
    """A tensor or array with its dimensions in another order."""
    return x.transpose(order) if isinstance(x, np.ndarray) else x.permute(*order)


def by_rows(x: Any, matrix: Any) -> Any:
    """The product of all rows of ``x``, taken as memory holds them: so they are not copied."""
    if x.ndim == 2:
        return times(x, matrix)
    order = memory_order(x)
    x = permuted(x, order)
    y = times(rows(x), matrix).reshape(*x.shape[:-1], matrix.shape[1])
    return permuted(y, [order.index(d) for d in range(x.ndim)])


def stranger(input: Any, weight: Any, bias: Any) -> TypeError:
    arguments = (("input", input), ("weight", weight), ("bias", bias))
    position, (name, value) = next(
        (i, pair) for i, pair in enumerate(arguments, 1) if not isinstance(pair[1], Tensor)
    )
    return messages.expected_tensor("linear", name, position, value)


def check_expandable(bias: Tensor, shape: tuple[int, ...]) -> None:
    """An error unless ``bias`` broadcasts to ``shape``."""
    if not is_expandable(bias._array.shape, shape):
        bias.expand(shape)


def wrong_features(x: tuple[int, ...], w: tuple[int, ...]) -> RuntimeError:
    """PyTorch's error, which knows matrices alone, and the shapes of input and weight."""
    product = shapes_error((prod(x[:-1]), x[-1]), w[::-1])
    flat = len(x) > 2 and prod(x[1:]) == w[1]
    cure = ": input.flatten(1) has as many" if flat else ""
    return RuntimeError(
        f"{product} [linear: input of shape {list(x)} and weight of shape {list(w)}: the last "
        f"dimension should have {w[1]} features, got {x[-1]}{cure}]"
    )


def check_product(
    name: str, a: np.ndarray, b: np.ndarray, added: np.ndarray | None, shape: tuple[int, ...]
) -> None:
    """An error unless rows of ``a`` and a matrix ``b`` can be multiplied and added to."""
    if b.ndim != 2 or a.shape[-1:] != b.shape[:1]:
        raise ValueError(f"{name}: shapes {a.shape} and {b.shape} cannot be multiplied")
    if added is not None and not is_expandable(added.shape, shape):
        raise ValueError(f"{name}: {added.shape} cannot be added to {shape}")
    if a.dtype is not b.dtype or (added is not None and added.dtype is not a.dtype):
        raise mixed(name, a, b, *[x for x in (added,) if x is not None])


def combine(
    name: str,
    input: Any,
    product: Callable[[Tensor, Tensor], Tensor],
    a: Tensor,
    b: Tensor,
    beta: Any,
    alpha: Any,
) -> Tensor:
    """beta·input + alpha·product(a, b); a beta of 0 ignores ``input``, whatever it holds."""
    x, kind = need_tensor(name, input), need_tensor(name, a)._array.dtype
    if x._array.dtype is not kind:
        raise mixed(name, x._array, a._array)
    if kind in dtypes.HALF and need_tensor(name, b)._array.dtype is kind:
        return combine(name, x.float(), product, a.float(), b.float(), beta, alpha).to(a.dtype)
    y = product(a, b)
    check_expandable(x, y._array.shape)
    if kind.kind in "iu":
        beta, alpha = int(beta), int(alpha)
    if alpha != 1:
        y = y * alpha
    if beta == 0:
        return y
    return y + (x if beta == 1 else x * beta)


class PlusMm(Op):
    """input + a·b, for matrices a and b."""

    function = method = False
    operands = ("input", "a", "b")
    arithmetic = True
    rowwise = {"b": "a"}
    library = "a contraction"

    def check(self, input: Tensor, a: Tensor, b: Tensor) -> Any:
        return (input, a, b), {}

    def infer(self, arrays, attrs):
        input, a, b = arrays
        shape = (len(a), b.shape[1])
        check_product("addmm", a, b, input, shape)
        return np.empty(shape, a.dtype)

    def eager(self, input, a, b):
        if a.dtype in dtypes.HALF:
            return self.eager(*[x.astype(np.float32) for x in (input, a, b)]).astype(a.dtype)
        y = dot(a, b)
        y += input
        return y

    def vjp_input(self, g, _y, _input, _a, _b):
        return g

    def vjp_a(self, g, _y, _input, _a, b):
        return times(g, conjugated(b).mT)

    def vjp_b(self, g, _y, _input, a, _b):
        return times(conjugated(a).mT, g)


plus_mm = fused(registry["plus_mm"])


@composite(
    inplace=True,
    samples=[
        S(T(3, 5), T(3, 4), T(4, 5)),
        S(T(5), T(3, 4), T(4, 5), beta=2, alpha=0.5),
        S(T(), T(3, 4), T(4, 5), beta=0),
        S(T(3, 1), T(3, 0), T(0, 5)),
    ],
    errors=[
        Fails(RuntimeError, r"cannot be multiplied \(2x3 and 4x2\)", T(2, 2), T(2, 3), T(4, 2)),
        Fails(RuntimeError, r"existing size \(3\)", T(3, 2), T(2, 3), T(3, 2)),
        Fails(RuntimeError, "mat2 must be a matrix", T(2, 2), T(2, 3), T(3)),
        Fails(TypeError, "'mat1' .* must be Tensor, not int", T(2, 2), 3, T(3, 2)),
    ],
)
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """beta·input + alpha·(mat1 @ mat2), of matrices; ``input`` may be broadcast.

    With ``beta=0`` the values of ``input`` are ignored, NaN included.

    >>> rl.addmm(rl.ones(2), rl.ones(3, 4), rl.ones(4, 2), alpha=0.5)
    tensor([[3., 3.],
            [3., 3.],
            [3., 3.]])
    """
    x = need_tensor("addmm", input)._array
    a = need_tensor("addmm", mat1, "mat1", 2)._array
    b = need_tensor("addmm", mat2, "mat2", 3)._array
    if a.ndim != 2 or b.ndim != 2:
        name, array = ("mat1", a) if a.ndim != 2 else ("mat2", b)
        raise RuntimeError(f"addmm(): {name} must be a matrix, got shape {list(array.shape)}")
    if a.shape[1] != b.shape[0]:
        raise shapes_error(a.shape, b.shape)
    if x.dtype is not a.dtype or a.dtype is not b.dtype:
        raise mixed("addmm", x, a, b)
    if beta == 1 and alpha == 1:
        refuse_bool("addmm", a)
        check_expandable(input, (len(a), b.shape[1]))
        y = plus_mm(input, mat1, mat2)
    else:
        y = combine("addmm", input, mm, mat1, mat2, beta, alpha)
    return y if out is None else into(out, y)


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
    y = combine("addmv", input, ops.mv, mat, vec, beta, alpha)
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
    y = combine("addbmm", input, summed_bmm, batch1, batch2, beta, alpha)
    return y if out is None else into(out, y)


def summed_bmm(batch1: Tensor, batch2: Tensor) -> Tensor:
    """Σᵢ batch1[i] @ batch2[i], as one product of matrices side by side."""
    check_batches("addbmm", batch1, batch2)
    (b, n, k), m = batch1.shape, batch2.shape[2]
    return mm(batch1.permute(1, 0, 2).reshape(n, b * k), batch2.reshape(b * k, m))


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
    y = combine("baddbmm", input, ops.bmm, batch1, batch2, beta, alpha)
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
    check_expandable(need_tensor("addr", input), product._array.shape)
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
