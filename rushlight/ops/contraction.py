"""Products that sum over one shared index: matrices, vectors, and batches of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.autograd.modes import local, run_quietly
from rushlight.autograd.tape import NO_ATTRS
from rushlight.dims import broadcast
from rushlight.kernels.engine import HALVES, WORTH, apply, dot, engine, inner, letters, stacked
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.families import pair_recorder
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, install, new

ndarray = np.ndarray
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


class Product(Op, abstract=True):
    """Ops of two tensors of one dtype and given ranks that sum over an index both have.

    ``eager`` is bilinear and raises ``ValueError`` where sizes do not fit.
    """

    operands = ("a", "b")
    arguments = ("input", "mat2")
    ranks = (2, 2)
    arithmetic = True
    product: Callable[[Any, Any], Tensor]  # the op without ``out``
    record_pair: Callable[..., None]
    library = "a contraction"

    def make(self) -> Callable[..., Any]:
        self.record_pair = pair_recorder(self)
        self.product = self.closure()
        return self.public(self.product)

    def public(self, product: Callable[[Any, Any], Tensor]) -> Callable[..., Any]:
        """``product`` with the names of its arguments, and ``out``."""
        raise NotImplementedError

    def closure(self) -> Callable[[Any, Any], Tensor]:
        """The eager path: two floating-point arrays of one dtype; all else takes a detour."""
        kernel, record_pair, detour = self.eager, self.record_pair, self.detour
        first, second = self.ranks

        def product(a: Any, b: Any) -> Tensor:
            try:
                x, y = a._array, b._array
            except AttributeError:
                return detour(a, b)
            kind = x.dtype
            if kind is not y.dtype or x.ndim != first or y.ndim != second:
                return detour(a, b)
            if kind is not FLOAT32 and kind is not FLOAT64:
                return detour(a, b)
            try:
                z = run_quietly(kernel, x, y)
            except ValueError:
                raise self.refusal(x, y) from None
            except RuntimeError:  # a trace, or another thread, is inside
                return detour(a, b)
            t = new(Tensor)
            t._array = z if type(z) is ndarray else np.asarray(z)
            if a._history is not None or b._history is not None:
                record_pair(t, a, b, a._history, b._history)
            return t

        return product

    def detour(self, a: Any, b: Any) -> Tensor:
        """The product of any two arguments, or the error."""
        try:
            x, y = a._array, b._array
        except AttributeError:
            raise self.stranger(a, b) from None
        state = local.state
        self.check(a, b)
        if state.trace is not None:
            return self.traced((a, b), NO_ATTRS)
        t = new(Tensor)
        t._array = np.asarray(state.run(product_of, self, x, y))
        if a._history is not None or b._history is not None:
            self.record_pair(t, a, b, a._history, b._history)
        return t

    def compute(self, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        return product_of(self, *arrays)

    def compute_into(self, arrays: Sequence[Any], attrs: Mapping[str, Any], out: ndarray) -> None:
        if out.dtype in dtypes.HALF:
            out[...] = product_of(self, *arrays)
        else:
            np.dot(arrays[0], arrays[1], out=out)

    def infer(self, arrays, attrs):
        x, y = arrays
        return np.empty((*x.shape[:-1], *y.shape[1:]), x.dtype)

    def subscripts(self, attrs: Any, a: Sequence[int], b: Sequence[int]) -> tuple[str, str, str]:
        rows, columns = "m" * (len(a) - 1), "n" * (len(b) - 1)
        return f"{rows}k", f"k{columns}", rows + columns

    def check(self, input: Tensor, mat2: Tensor) -> Any:
        x, y = input._array, mat2._array
        fits = (x.ndim, y.ndim) == self.ranks and x.shape[-1] == y.shape[0]
        if not fits or x.dtype is not y.dtype:
            raise self.refusal(x, y)
        refuse_bool(self.name, x)
        return (input, mat2), {}

    def refusal(self, x: ndarray, y: ndarray) -> RuntimeError:
        """The error that says why the operands do not fit."""
        if (x.ndim, y.ndim) != self.ranks:
            return self.wrong_rank(x, y)
        if x.dtype is not y.dtype:
            return mixed(self.name, x, y)
        return self.mismatch(x.shape, y.shape)

    def wrong_rank(self, x: ndarray, y: ndarray) -> RuntimeError:
        wanted = "matrix" if self.ranks[0] == 2 else f"{self.ranks[0]}-D tensor"
        name, array = ("self", x) if x.ndim != self.ranks[0] else (self.arguments[1], y)
        return RuntimeError(
            f"{self.name}(): {name} must be a {wanted}, got shape {list(array.shape)}"
        )

    def mismatch(self, x: tuple[int, ...], y: tuple[int, ...]) -> RuntimeError:
        return shapes_error(x, y)

    def stranger(self, a: Any, b: Any) -> TypeError:
        first, second = self.arguments
        if not isinstance(a, Tensor):
            return messages.expected_tensor(self.name, first, 1, a)
        return messages.expected_tensor(self.name, second, 2, b)


def conjugated(x: Any) -> Any:
    """A tensor or array, conjugated if it is complex."""
    array = x if type(x) is ndarray else x._array
    return x.conj() if array.dtype.kind == "c" else x


def rows(x: Any) -> Any:
    """A tensor or array (…, k) as the matrix of the rows along its last dimension."""
    shape = x.shape
    return x if len(shape) == 2 else x.reshape(prod(shape[:-1]), shape[-1])


def shapes_error(x: tuple[int, ...], y: tuple[int, ...]) -> RuntimeError:
    (n, k), (l, m) = x, y
    return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {l}x{m})")


def mixed(name: str, *arrays: ndarray) -> RuntimeError:
    kinds = [dtypes.from_numpy(a.dtype).storage_name for a in arrays]
    return RuntimeError(
        f"{name}(): expected the tensors to have the same dtype, but got {', '.join(kinds)}"
    )


def refuse_bool(name: str, x: ndarray) -> None:
    if x.dtype.kind == "b":
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")


def times(a: Any, b: Any) -> Any:
    """``a @ b`` of tensors or of arrays, whose ``@`` knows nothing of the engine."""
    if type(a) is not ndarray:
        return a @ b
    if a.ndim == 2 and b.ndim <= 2:
        return dot(a, b) if b.ndim == 2 else apply(a, b)
    return product_of(cast(Bmm, registry["bmm"]), a, b)


def product_of(op: Product | Bmm, a: ndarray, b: ndarray) -> ndarray:
    """What ``op.eager`` gives, for half types summed in float32 and rounded once."""
    if a.dtype in dtypes.HALF and a.size * b.size >= HALVES * b.shape[-min(2, b.ndim)] > 0:
        product = engine(a.dtype)
        if product is not None and b.ndim == 1:
            return product(op.subscripts(None, a.shape, b.shape), a, b)
        if product is not None and fit_together(a.shape, b.shape):
            return stacked(product, a, b)
    return rounded(op.eager, a, b)


def rounded(kernel: Callable[..., Any], *arrays: ndarray) -> ndarray:
    """``kernel(*arrays)``, for half types computed in float32 and rounded once."""
    kind = arrays[0].dtype
    if kind in dtypes.HALF:
        return np.asarray(kernel(*[a.astype(np.float32) for a in arrays])).astype(kind)
    return kernel(*arrays)


class Mm(Product):
    """The product of two matrices: (n, k) by (k, m) gives (n, m).

    >>> rl.ones(2, 3).mm(rl.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    """

    samples = [S(T(3, 4), T(4, 5)), S(T(3, 0), T(0, 2)), S(T(1, 1), T(1, 1)), S(T(2, 3), T(3, 0))]
    errors = [
        Fails(RuntimeError, r"cannot be multiplied \(2x3 and 4x5\)", T(2, 3), T(4, 5)),
        Fails(RuntimeError, "mat2 must be a matrix", T(2, 3), T(3)),
        Fails(RuntimeError, "same dtype", T(2, 3), T(3, 2, dtype=dtypes.int64)),
        Fails(NotImplementedError, "for 'Bool'", *[T(2, 2, dtype=dtypes.bool_)] * 2),
        Fails(TypeError, "'mat2' .* must be Tensor, not int", T(2, 2), 3),
    ]
    eager = staticmethod(dot)
    rowwise = {"b": "a"}

    def public(self, product):
        def function(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
            t = product(input, mat2)
            return t if out is None else into(out, t)

        return function

    def vjp_a(self, g, _y, _a, b):
        return times(g, conjugated(b).mT)

    def vjp_b(self, g, _y, a, _b):
        return times(conjugated(a).mT, g)


mm = cast(Product, registry["mm"]).product


class Mv(Product):
    """A matrix (n, m) times a vector (m): a vector (n).

    >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]]).mv(rl.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """

    arguments = ("input", "vec")
    ranks = (2, 1)
    samples = [S(T(3, 4), T(4)), S(T(3, 0), T(0)), S(T(0, 4), T(4))]
    errors = [
        Fails(RuntimeError, r"mat \(2x3\), vec \(4\)", T(2, 3), T(4)),
        Fails(RuntimeError, "matrix @ vector expected, got 1, 2, 2", T(2, 2), T(2, 2)),
    ]
    eager = staticmethod(apply)

    def public(self, product):
        def function(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
            t = product(input, vec)
            return t if out is None else into(out, t)

        return function

    def vjp_a(self, g, _y, _a, b):
        return g[:, None] * conjugated(b)

    def vjp_b(self, g, _y, a, _b):
        return times(conjugated(a).mT, g)

    def wrong_rank(self, x, y):
        return RuntimeError(f"vector + matrix @ vector expected, got 1, {x.ndim}, {y.ndim}")

    def mismatch(self, x, y):
        return RuntimeError(f"size mismatch, got input ({x[0]}), mat ({x[0]}x{x[1]}), vec ({y[0]})")


class Dot(Product):
    """The sum of the products of two vectors: Σ aᵢ·bᵢ.

    >>> rl.tensor([1.0, 2.0]).dot(rl.tensor([3.0, 4.0]))
    tensor(11.)
    """

    arguments = ("input", "tensor")
    ranks = (1, 1)
    samples = [S(T(4), T(4)), S(T(0), T(0))]
    errors = [
        Fails(RuntimeError, r"expected tensor \[2\] and src \[3\]", T(2), T(3)),
        Fails(RuntimeError, "1D tensors expected, but got 2D and 1D", T(2, 2), T(2)),
    ]
    eager = staticmethod(inner)

    def public(self, product):
        def function(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
            t = product(input, tensor)
            return t if out is None else into(out, t)

        return function

    def vjp_a(self, g, _y, _a, b):
        return g * conjugated(b)

    def vjp_b(self, g, _y, a, _b):
        return g * conjugated(a)

    def wrong_rank(self, x, y):
        return RuntimeError(f"1D tensors expected, but got {x.ndim}D and {y.ndim}D tensors")

    def mismatch(self, x, y):
        return RuntimeError(
            f"inconsistent tensor size, expected tensor {list(x)} and src {list(y)} to have the "
            f"same number of elements, but got {x[0]} and {y[0]} elements respectively"
        )


@composite(
    samples=[S(T(4), T(4)), S(T(0), T(0))],
    errors=[Fails(RuntimeError, "1D tensors expected, but got 2D and 1D", T(2, 2), T(2))],
)
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of products of two vectors, the first conjugated: Σ conj(aᵢ)·bᵢ.

    >>> rl.vdot(rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]))
    tensor(11.)
    """
    t = ops.dot(conjugated(need_tensor("vdot", input)), need_tensor("vdot", other, "other", 2))
    return t if out is None else into(out, t)


class Bmm(Op):
    """Products of the matrices of two batches: (b, n, k) by (b, k, m) gives (b, n, m).

    >>> rl.ones(10, 3, 4).bmm(rl.ones(10, 4, 5)).shape
    rushlight.Size([10, 3, 5])
    """

    operands = ("a", "b")
    arithmetic = True
    batched: Callable[[Tensor, Tensor], Tensor]  # of any batches that broadcast
    library = "a contraction"
    samples = [S(T(2, 3, 4), T(2, 4, 5)), S(T(0, 3, 4), T(0, 4, 5)), S(T(2, 3, 0), T(2, 0, 5))]
    errors = [
        Fails(RuntimeError, r"to be: \[2, 3\] but got: \[2, 4\]", T(2, 2, 3), T(2, 4, 5)),
        Fails(RuntimeError, r"to be: \[2, 3\] but got: \[1, 3\]", T(2, 2, 3), T(1, 3, 5)),
        Fails(RuntimeError, "batch1 must be a 3D tensor", T(2, 3), T(2, 3, 4)),
        Fails(RuntimeError, "batch2 must be a 3D tensor", T(2, 3, 4), T(4, 2)),
    ]

    def make(self) -> Callable[..., Any]:
        check, record_pair, traced = self.check, pair_recorder(self), self.traced

        def batched(a: Tensor, b: Tensor) -> Tensor:
            x, y = a._array, b._array
            if x.dtype is not y.dtype:
                raise mixed("bmm", x, y)
            refuse_bool("bmm", x)
            if local.state.trace is not None:
                if not fit_together(x.shape, y.shape):
                    raise batch_error(x.shape, y.shape)
                return traced((a, b), NO_ATTRS)
            try:
                z = local.state.run(product_of, self, x, y)
            except ValueError:
                raise batch_error(x.shape, y.shape) from None
            t = new(Tensor)
            t._array = z
            if a._history is not None or b._history is not None:
                record_pair(t, a, b, a._history, b._history)
            return t

        def function(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
            check(input, mat2)
            t = batched(input, mat2)
            return t if out is None else into(out, t)

        self.batched = batched
        return function

    def infer(self, arrays, attrs):
        x, y = arrays
        batch = broadcast(x.shape[:-2], y.shape[:-2])
        return np.empty((*batch, x.shape[-2], y.shape[-1]), x.dtype)

    def subscripts(self, attrs: Any, a: Sequence[int], b: Sequence[int]) -> tuple[str, str, str]:
        return letters(len(a), len(b))

    def compute(self, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        return product_of(self, *arrays)

    def compute_into(self, arrays: Sequence[Any], attrs: Mapping[str, Any], out: ndarray) -> None:
        a, b = arrays
        if out.dtype in dtypes.HALF:
            out[...] = product_of(self, a, b)
        elif b.ndim == 2:
            np.dot(rows(a), b, out=rows(out))
        else:
            np.matmul(a, b, out=out)

    def check(self, input: Tensor, mat2: Tensor) -> Any:
        check_batches("bmm", input, mat2)
        return (input, mat2), {}

    def eager(self, a, b):
        if b.ndim == 2 and a.size:
            return dot(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
        if b.size and a.size * b.shape[-1] >= WORTH and fit_together(a.shape, b.shape):
            product = engine(a.dtype)
            if product is not None:
                return stacked(product, a, b)
        return np.matmul(a, b)

    def vjp_a(self, g, _y, _a, b):
        if b.ndim > 2:
            return times(g, conjugated(b).mT)
        return times(rows(g), conjugated(b).mT).reshape(_a.shape)

    def vjp_b(self, g, _y, a, _b):
        if len(_b.shape) > 2:
            return times(conjugated(a).mT, g)
        return times(rows(conjugated(a)).mT, rows(g))


batched = cast(Bmm, registry["bmm"]).batched


def check_batches(name: str, batch1: Tensor, batch2: Tensor) -> None:
    """An error unless both are 3-D and fit."""
    x = need_tensor(name, batch1)._array.shape
    y = need_tensor(name, batch2, "mat2", 2)._array.shape
    if len(x) != 3:
        raise RuntimeError(f"batch1 must be a 3D tensor, got shape {list(x)}")
    if len(y) != 3:
        raise RuntimeError(f"batch2 must be a 3D tensor, got shape {list(y)}")
    if x[0] != y[0] or x[2] != y[1]:
        raise batch_sizes(x, y)


def batch_sizes(x: tuple[int, ...], y: tuple[int, ...]) -> RuntimeError:
    return RuntimeError(
        "Expected size for first two dimensions of batch2 tensor to be: "
        f"[{x[0]}, {x[2]}] but got: [{y[0]}, {y[1]}]."
    )


def fit_together(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether matrices of these shapes can be multiplied, batches being broadcast."""
    lead = zip(reversed(a[:-2]), reversed(b[:-2]), strict=False)
    return a[-1] == b[-2] and all([n == m or 1 in (n, m) for n, m in lead])


def batch_error(x: tuple[int, ...], y: tuple[int, ...]) -> RuntimeError:
    """Why two stacks of matrices do not fit: their batches, or the matrices themselves."""
    if len(y) == 2:
        return shapes_error((prod(x[:-1]), x[-1]), y)
    for offset in range(1, min(len(x), len(y)) - 1):
        a, b = x[-2 - offset], y[-2 - offset]
        if a != b and 1 not in (a, b):
            return RuntimeError(
                f"The size of tensor a ({a}) must match the size of tensor b ({b}) at "
                f"non-singleton dimension {max(len(x), len(y)) - 2 - offset}. [matmul of batches: "
                f"shapes {list(x)} and {list(y)}]"
            )
    count = prod(broadcast(x[:-2], y[:-2]))
    return batch_sizes((count, *x[-2:]), (count, *y[-2:]))


@composite(
    samples=[
        S(T(2, 3), T(3, 4)),
        S(T(3), T(3)),
        S(T(2, 3), T(3)),
        S(T(3), T(3, 4)),
        S(T(2, 3, 4), T(2, 4, 5)),
        S(T(2, 3, 4), T(4, 5)),
        S(T(2, 3), T(4, 3, 5)),
        S(T(2, 1, 3, 4), T(5, 4, 2)),
        S(T(2, 3, 4), T(4)),
        S(T(3), T(2, 3, 4)),
        S(T(2, 3, 0), T(0, 2)),
    ],
    errors=[
        Fails(RuntimeError, r"cannot be multiplied \(2x3 and 4x5\)", T(2, 3), T(4, 5)),
        Fails(RuntimeError, r"cannot be multiplied \(4x3 and 4x5\)", T(2, 2, 3), T(4, 5)),
        Fails(RuntimeError, r"cannot be multiplied \(1x2 and 4x5\)", T(2), T(4, 5)),
        Fails(RuntimeError, r"a \(2\) must match .* b \(3\)", T(2, 2, 3), T(3, 3, 5)),
        Fails(RuntimeError, "at least 1D, but they are 0D and 2D", T(), T(2, 4)),
        Fails(TypeError, "'other' .* must be Tensor, not float", T(2, 2), 1.0),
    ],
)
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product, also written ``input @ other``.

    Two vectors give their dot product; a vector beside a matrix is a row before it and a column
    after it; dimensions before the last two are batches, which broadcast.

    >>> rl.tensor([[1.0, 2.0], [3.0, 4.0]]) @ rl.tensor([1.0, 1.0])
    tensor([3., 7.])
    >>> (rl.ones(5, 2, 3) @ rl.ones(3, 4)).shape
    rushlight.Size([5, 2, 4])
    """
    try:
        n, m = input._array.ndim, other._array.ndim
    except AttributeError:
        need_tensor("matmul", input)
        raise messages.expected_tensor("matmul", "other", 2, other) from None
    if n == 2 and m == 2:
        t = mm(input, other)
    elif n > 1 and m > 1:
        t = batched(input, other)
    else:
        t = vector_matmul(input, other, n, m)
    return t if out is None else into(out, t)


def vector_matmul(a: Tensor, b: Tensor, n: int, m: int) -> Tensor:
    """:func:`matmul` where one operand is a vector."""
    if not n or not m:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {n}D and {m}D"
        )
    if m == 1:
        if n == 1:
            return ops.dot(a, b)
        return ops.mv(a, b) if n == 2 else batched(a, b.unsqueeze(1)).squeeze(-1)
    return matmul(a.unsqueeze(0), b).squeeze(-2)


def matmul_operator(a: Tensor, b: Any) -> Any:
    if not isinstance(b, Tensor):
        return NotImplemented
    return mm(a, b) if a._array.ndim == 2 == b._array.ndim else matmul(a, b)


def matmul_reflected(b: Tensor, a: Any) -> Any:
    return matmul(a, b) if isinstance(a, Tensor) else NotImplemented


install(__matmul__=matmul_operator, __rmatmul__=matmul_reflected)
