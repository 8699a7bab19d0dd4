"""Products of tensors other than the matrix product: outer, inner, Kronecker, cross, chains."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, axes, axis, composite, into, need_tensor, ops
from rushlight.ops.contraction import matmul, mixed, mm, refuse_bool, rows
from rushlight.ops.elements import replaced, wide
from rushlight.ops.families import conjugate
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


@composite(
    aliases=("ger",),
    samples=[S(T(3), T(4)), S(T(0), T(4)), S(T(1), T(1))],
    errors=[
        Fails(RuntimeError, "Expected 1-D argument self, but got 2-D", T(2, 2), T(3)),
        Fails(RuntimeError, "Expected 1-D argument vec2, but got 0-D", T(2), T()),
    ],
)
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of two vectors' elements: yᵢⱼ = aᵢ·bⱼ.

    >>> rl.outer(rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    for name, vector in (("self", input), ("vec2", vec2)):
        if need_tensor("outer", vector, name).ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector.ndim}-D")
    y = input.unsqueeze(1) * vec2
    return y if out is None else into(out, y)


@composite(
    samples=[
        S(T(3), T(3)),
        S(T(2, 3), T(4, 3)),
        S(T(2, 3, 4), T(5, 4)),
        S(T(), T(2, 3)),
        S(T(0), T(0)),
    ],
    errors=[
        Fails(RuntimeError, r"last dimension must match .* \[2, 3\] and \[3, 4\]", T(2, 3), T(3, 4))
    ],
)
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimension of both; a scalar multiplies.

    >>> rl.inner(rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]))
    tensor(11.)
    """
    a, b = need_tensor("inner", input), need_tensor("inner", other, "other", 2)
    if not a.ndim or not b.ndim:
        y = a * b
    elif a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    elif a.ndim == b.ndim == 1:
        y = ops.dot(a, b)
    else:
        y = mm(rows(a), rows(b).mT).reshape(*a.shape[:-1], *b.shape[:-1])
    return y if out is None else into(out, y)


@composite(
    method=False,
    samples=[
        S(T(3, 4, 5), T(4, 5, 2)),
        S(T(3, 4), T(4, 5), dims=1),
        S(T(3, 4), T(2), dims=0),
        S(T(3, 4, 5), T(4, 3, 2), dims=([1, 0], [0, 1])),
        S(T(3, 4), T(5, 3), dims=((-2,), (-1,))),
        S(T(3, 0), T(0, 2), dims=1),
    ],
    errors=[
        Fails(
            RuntimeError,
            "first has size 3 in dim -1 and second has size 4 in dim 0",
            T(2, 3),
            T(4, 5),
            1,
        ),
        Fails(RuntimeError, "should have same length", T(2, 3), T(4, 5), ([0], [1, 0])),
        Fails(RuntimeError, "expects dims >= 0", T(2, 3), T(4, 5), -1),
    ],
)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The sum of products over some dimensions of both; those left stay, ``a``'s first.

    A summed dimension of size 1 is broadcast.

    Args:
        dims: how many of ``a``'s last dimensions meet ``b``'s first, or two lists of dimensions

    >>> rl.tensordot(rl.ones(2, 3, 4), rl.ones(3, 4, 5)).shape
    rushlight.Size([2, 5])
    """
    need_tensor("tensordot", a, "a")
    need_tensor("tensordot", b, "b", 2)
    left, right = contracted_dims(dims, a.ndim, b.ndim)
    for i, j in zip(left, right, strict=True):
        if a.shape[i] == 1 != b.shape[j]:
            b = b.sum(j, keepdim=True)
        elif b.shape[j] == 1 != a.shape[i]:
            a = a.sum(i, keepdim=True)
        elif a.shape[i] != b.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} "
                f"and second has size {b.shape[j]} in dim {j}"
            )
    meet_a, meet_b = axes(left, a.ndim), axes(right, b.ndim)
    rest_a = [i for i in range(a.ndim) if i not in meet_a]
    rest_b = [i for i in range(b.ndim) if i not in meet_b]
    shared = prod(a.shape[i] for i in meet_a)
    kept_a, kept_b = [a.shape[i] for i in rest_a], [b.shape[i] for i in rest_b]
    if a._array.dtype is not b._array.dtype:
        raise mixed("tensordot", a._array, b._array)
    y = mm(
        a.permute(*rest_a, *meet_a).reshape(prod(kept_a), shared),
        b.permute(*meet_b, *rest_b).reshape(shared, prod(kept_b)),
    ).reshape(*kept_a, *kept_b)
    return y if out is None else into(out, y)


def contracted_dims(dims: Any, a: int, b: int) -> tuple[list[int], list[int]]:
    """The two lists that ``dims`` of :func:`tensordot` means for tensors of ranks a and b."""
    if isinstance(dims, Tensor):
        dims = dims.tolist() if dims.numel() > 1 else int(dims.item())
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a, b):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims} for ranks {a}, {b}"
            )
        return list(range(-dims, 0)), list(range(dims))
    left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(left) != len(right):
        raise RuntimeError(f"both dimension lists should have same length, got {left} and {right}")
    return left, right


@composite(
    samples=[S(T(2, 3), T(4, 5)), S(T(2), T(3, 4)), S(T(), T(2)), S(T(2, 0), T(3, 2))],
    errors=[Fails(TypeError, "'other' .* must be Tensor, not int", T(2), 3)],
)
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: each element of ``input`` times all of ``other``, as blocks.

    >>> rl.kron(rl.tensor([[1, 2]]), rl.ones(2, 2, dtype=rl.int64))
    tensor([[1, 1, 2, 2],
            [1, 1, 2, 2]])
    """
    a, b = need_tensor("kron", input), need_tensor("kron", other, "other", 2)
    n = max(a.ndim, b.ndim)
    left = [1] * (n - a.ndim) + list(a.shape)
    right = [1] * (n - b.ndim) + list(b.shape)
    y = a.reshape([size for s in left for size in (s, 1)])
    y = y * b.reshape([size for s in right for size in (1, s)])
    y = y.reshape([i * j for i, j in zip(left, right, strict=True)])
    return y if out is None else into(out, y)


@composite(
    samples=[S(T(3, 4)), S(T(4, 3)), S(T(0, 3)), S(T(1, 1))],
    errors=[Fails(RuntimeError, "expected a matrix, but got tensor with dim 1", T(2))],
)
def trace(input: Tensor) -> Tensor:
    """The sum of the elements on a matrix's diagonal.

    >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]]).trace()
    tensor(5.)
    """
    if need_tensor("trace", input).ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    refuse_bool("trace", input._array)
    return input.diagonal().sum()


class Cross(Op):
    """The vector product of 3-vectors: c = a × b, at right angles to both.

    >>> rl.linalg.cross(rl.tensor([1.0, 0.0, 0.0]), rl.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """

    namespace = "linalg"
    method = False
    samples = [S(T(2, 3), T(2, 3)), S(T(3, 4), T(3, 1), dim=0), S(T(0, 3), T(0, 3)), S(T(3), T(3))]
    errors = [
        Fails(RuntimeError, "dimension -1 must have length 3. Got 2 and 2", T(3, 2), T(3, 2)),
        Fails(RuntimeError, "same number of dimensions", T(2, 3), T(3)),
        Fails(IndexError, "out of range", T(2, 3), T(2, 3), dim=2),
    ]

    def check(self, input: Tensor, other: Tensor, *, dim: int = -1) -> Any:
        a, b = need_tensor("linalg.cross", input), need_tensor("linalg.cross", other, "other", 2)
        if a.ndim != b.ndim:
            raise RuntimeError(
                "linalg.cross: inputs must have the same number of dimensions, got "
                f"{list(a.shape)} and {list(b.shape)}."
            )
        d = axis(dim, a.ndim)
        if not a.ndim or a.shape[d] != 3 or b.shape[d] != 3:
            sizes = [t.shape[d] if t.ndim else 1 for t in (a, b)]
            raise RuntimeError(
                f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and "
                f"{sizes[1]}"
            )
        if a._array.dtype is not b._array.dtype:
            raise mixed("linalg.cross", a._array, b._array)
        refuse_bool("cross", a._array)
        return (a, b), {"dim": d}

    def eager(self, a, b, *, dim):
        return np.cross(a, b, axis=dim)

    def at(self, b, i, x, y, *, dim):
        def part(t: Any, shift: int) -> Any:
            return wide(t.broadcast(replaced(i, (dim,), (b.position(i[dim] + shift) % 3,))))

        return part(x, 1) * part(y, 2) - part(x, 2) * part(y, 1)

    def vjp_a(self, g, _y, _a, b, *, dim):
        return ops.linalg.cross(conjugate(b).expand(g.shape), g, dim=dim)

    def vjp_b(self, g, _y, a, _b, *, dim):
        return ops.linalg.cross(g, conjugate(a).expand(g.shape), dim=dim)


@composite(
    samples=[S(T(2, 3), T(2, 3)), S(T(3, 2), T(3, 2)), S(T(2, 3, 3), T(2, 3, 3), dim=2)],
    errors=[Fails(RuntimeError, "no dimension of size 3 in input", T(2, 2), T(2, 2))],
)
def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The vector product of 3-vectors along ``dim``: by default the first dimension of size 3.

    >>> rl.cross(rl.tensor([1.0, 0.0, 0.0]), rl.tensor([0.0, 1.0, 0.0]), dim=0)
    tensor([0., 0., 1.])
    """
    if dim is None:
        shape = need_tensor("cross", input).shape
        if 3 not in shape:
            raise RuntimeError(f"no dimension of size 3 in input, its shape is {list(shape)}")
        dim = shape.index(3)
    y = ops.linalg.cross(input, other, dim=dim)
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(2, 3), T(2, 3)), S(T(2, 3), T(3)), S(T(2, 3), T(2, 1), dim=0), S(T(0), T(0))],
    errors=[
        Fails(RuntimeError, "floating point or complex", *[T(2, dtype=dtypes.int64)] * 2),
        Fails(RuntimeError, r"a \(3\) must match .* b \(4\)", T(2, 3), T(2, 4)),
    ],
)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Σ conj(x)·y along one dimension of two tensors that broadcast.

    >>> rl.linalg.vecdot(rl.ones(2, 3), rl.ones(2, 3))
    tensor([3., 3.])
    """
    need_tensor("linalg.vecdot", x, "x")
    need_tensor("linalg.vecdot", y, "y", 2)
    if x.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            "linalg.vecdot: Expected a floating point or complex tensor as input. Got "
            f"{x.dtype.storage_name}"
        )
    if x._array.dtype is not y._array.dtype:
        raise mixed("linalg.vecdot", x._array, y._array)
    z = (conjugate(x) * y).sum(dim)
    return z if out is None else into(out, z)


@composite(
    namespace="linalg",
    method=False,
    samples=[
        S([T(2, 3), T(3, 4)]),
        S([T(2, 3), T(3, 4), T(4, 5), T(5, 2)]),
        S([T(3), T(3, 4), T(4)]),
        S([T(3), T(3)]),
        S([T(2, 0), T(0, 3), T(3)]),
    ],
    errors=[
        Fails(RuntimeError, "at least 2 tensors but got 1", [T(2, 3)]),
        Fails(RuntimeError, r"\[2, 3\] and \[4, 5\] cannot be multiplied", [T(2, 3), T(4, 5)]),
        Fails(RuntimeError, "tensor 1 must be 2D but got 3D", [T(2, 3), T(4, 4, 5), T(3)]),
    ],
)
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of several matrices, multiplied in the order that costs least.

    The first and the last may be vectors.

    >>> rl.linalg.multi_dot([rl.ones(2, 3), rl.ones(3, 4), rl.ones(4)])
    tensor([12., 12.])
    """
    matrices = [need_tensor("multi_dot", t, "tensors") for t in tensors]
    count = len(matrices)
    if count < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {count}")
    row, column = matrices[0].ndim == 1, matrices[-1].ndim == 1
    if row:
        matrices[0] = matrices[0].unsqueeze(0)
    if column:
        matrices[-1] = matrices[-1].unsqueeze(1)
    for i, t in enumerate(matrices):
        if t.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D")
    for i, (a, b) in enumerate(pairwise(matrices)):
        if a.shape[1] != b.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i].shape)} and "
                f"{list(tensors[i + 1].shape)} cannot be multiplied"
            )
    y = chain(matrices, cheapest_splits([*[t.shape[0] for t in matrices], matrices[-1].shape[1]]))
    if column:
        y = y.squeeze(1)
    if row:
        y = y.squeeze(0)
    return y if out is None else into(out, y)


def cheapest_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each run i…j of a chain of matrices ``sizes[i] × sizes[i+1]`` in two.

    Dynamic programming: the cost of a run is that of its halves and of their product.
    """
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length - 1
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return split


def chain(matrices: Sequence[Tensor], split: dict[tuple[int, int], int]) -> Tensor:
    def product(i: int, j: int) -> Tensor:
        if i == j:
            return matrices[i]
        k = split[i, j]
        return matmul(product(i, k), product(k + 1, j))

    return product(0, len(matrices) - 1)


@composite(
    method=False,
    samples=[S(T(2, 3), T(3, 4), T(4, 5)), S(T(2, 3))],
    errors=[
        Fails(RuntimeError, "Tensor dimension is 1, expected 2 instead", T(2, 3), T(3)),
        Fails(RuntimeError, "at least 1 matrix"),
    ],
)
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of several matrices; the older name of :func:`linalg.multi_dot`.

    >>> rl.chain_matmul(rl.ones(2, 3), rl.ones(3, 4), rl.ones(4, 5)).shape
    rushlight.Size([2, 5])
    """
    if not matrices:
        raise RuntimeError("chain_matmul(): expected at least 1 matrix")
    for t in matrices:
        if need_tensor("chain_matmul", t, "matrices").ndim != 2:
            raise RuntimeError(f"Tensor dimension is {t.ndim}, expected 2 instead.")
    y = matrices[0] if len(matrices) == 1 else multi_dot(matrices)
    return y if out is None else into(out, y)
