"""Functions of square matrices: inverse, determinant, power, exponential."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.kernels import linalg as kernels
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.contraction import matmul
from rushlight.ops.families import conjugate
from rushlight.ops.results import result_type
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, install


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive definite, or an algorithm did not converge.

    >>> try:
    ...     rl.linalg.inv(rl.zeros(2, 2))
    ... except rl.linalg.LinAlgError:
    ...     print("singular")
    singular
    """


WELL = [[3.0, 1.0, -0.5], [0.4, -2.1, 0.9], [-1.2, 0.7, 2.8]]
"""A well-conditioned matrix for samples, and a batch of two."""
BATCH = [[[2.0, 0.6], [-1.3, 1.7]], [[1.1, 2.0], [-0.5, 3.2]]]
POSITIVE = [[4.0, 1.0, -0.5], [1.0, 3.0, 0.7], [-0.5, 0.7, 2.0]]


def check_matrices(name: str, A: Any, square: bool = True, argument: str = "A") -> Tensor:
    """``A`` if it is a batch of (square) matrices of a dtype that LAPACK knows, else the error."""
    a = need_tensor(name, A, argument)
    shape = a._array.shape
    if len(shape) < 2:
        raise RuntimeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions, got shape "
            f"{list(shape)}."
        )
    kind = a.dtype
    if kind.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {kind.storage_name}"
        )
    if kind.numpy in dtypes.HALF:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {kind.storage_name}")
    if square and shape[-1] != shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {shape[-2]} by "
            f"{shape[-1]} matrices"
        )
    return a


def matrix_errors(*args: Any, square: bool = True, **kwargs: Any) -> list[Fails]:
    """Error samples of a function whose first argument is a batch of matrices."""
    fails = [
        Fails(RuntimeError, "at least 2 dimensions", T(3), *args, **kwargs),
        Fails(RuntimeError, "Got Long", T(2, 2, dtype=dtypes.int64), *args, **kwargs),
        Fails(RuntimeError, "Low precision", T(2, 2, dtype=dtypes.float16), *args, **kwargs),
    ]
    if square:
        fails.append(Fails(RuntimeError, "they are 2 by 3 matrices", T(2, 3), *args, **kwargs))
    return fails


def check_info(name: str, text: str, info: np.ndarray) -> None:
    """A LinAlgError if LAPACK's ``info`` is not 0 for some matrix; ``{}`` in ``text`` is it."""
    if info.any():
        first = np.unravel_index(np.argmax(info != 0), info.shape)
        where = f"(Batch element {np.argmax(info != 0)}): " if info.ndim else ""
        raise LinAlgError(f"{name}: {where}{text.format(info[first])}")


class Sound(Op):
    """``x``, a result of LAPACK, if ``info`` says that all went well."""

    function = method = False
    library = "linear algebra"

    def check(self, x: Tensor, info: Tensor, caller: str, text: str) -> Any:
        return (x, info), {"caller": caller, "text": text}

    def eager(self, x, info, *, caller, text):
        check_info(caller, text, info)
        return x

    def vjp(self, g, _y, _x, _info, *, caller, text):
        return g, None


def sound(name: str, text: str, info: Tensor, *results: Tensor) -> tuple[Tensor, ...]:
    """The results, or the error of :func:`check_info`; a graph looks when it runs."""
    if local.state.trace is None:
        check_info(name, text, info._array)
        return results
    op = registry["sound"]
    return tuple([op.apply((x, info), {"caller": name, "text": text}) for x in results])


def also(name: str, call: Any, method: bool = False) -> None:
    """Publishes a function of ``rl.linalg`` as ``rl.name`` too, and as a method."""
    setattr(ops, name, call)
    if method:
        install(**{name: call})


def adjoint(x: Tensor) -> Tensor:
    """xᴴ, the conjugate transpose of each matrix."""
    return conjugate(x).mT


def zeros_of(x: Tensor) -> Tensor:
    """Zeros of the shape of ``x`` that depend on it: a constant with a gradient, which is zero."""
    return x.narrow(-1, 0, 0) @ x.narrow(-2, 0, 0)


class InvInfo(Op):
    """The inverse of each matrix, and LAPACK's info."""

    function = method = False
    differentiable = (0,)
    library = "linear algebra"

    def check(self, A: Tensor) -> Any:
        return (A,), {}

    def eager(self, a):
        try:
            return np.linalg.inv(a), np.zeros(a.shape[:-2], np.int32)
        except np.linalg.LinAlgError:
            info = kernels.lu_factor(a)[2]
            bad = (info != 0)[..., None, None]
            y = np.linalg.inv(np.where(bad, np.eye(a.shape[-1], dtype=a.dtype), a))
            return np.where(bad, np.array(np.nan, a.dtype), y), info

    def vjp(self, g, y, _a):
        h = adjoint(y[0])
        return -(h @ g @ h)


inv_info = registry["inv_info"].call
InvEx = result_type("linalg_inv_ex", "inverse", "info")
SINGULAR_MATRIX = [[1.0, 2.0], [2.0, 4.0]]
SINGULAR = (
    "The diagonal element {} is zero, the inversion could not be completed because the input "
    "matrix is singular."
)


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(values=WELL)), S(T(values=BATCH)), S(T(0, 0)), S(T(2, 0, 0))],
    errors=[
        *matrix_errors(),
        Fails(LinAlgError, "element 2 is zero", T(values=SINGULAR_MATRIX), check_errors=True),
    ],
)
def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """The inverse of each matrix, and ``info``: 0, or the first pivot that is zero.

    >>> rl.linalg.inv_ex(rl.tensor([[2.0, 0.0], [0.0, 4.0]])).inverse
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    y = InvEx(*inv_info(check_matrices("linalg.inv_ex", A)))
    if check_errors:
        y = InvEx(*sound("linalg.inv_ex", SINGULAR, y.info, y.inverse), y.info)
    return y if out is None else into(out, y)


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(values=WELL)), S(T(values=BATCH)), S(T(0, 0)), S(T(2, 0, 0))],
    errors=[
        *matrix_errors(),
        Fails(LinAlgError, "The diagonal element 2 is zero", T(values=SINGULAR_MATRIX)),
        Fails(LinAlgError, r"\(Batch element 1\)", T(values=[[[1.0]], [[0.0]]])),
    ],
)
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of each matrix: A·A⁻¹ = 1.

    >>> rl.linalg.inv(rl.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    y, info = inv_info(check_matrices("linalg.inv", A))
    (y,) = sound("linalg.inv", SINGULAR, info, y)
    return y if out is None else into(out, y)


also("inverse", inv, method=True)
ops.linalg.LinAlgError, ops.linalg.matmul = LinAlgError, matmul


class Det(Op):
    """The determinant of each matrix.

    >>> rl.linalg.det(rl.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """

    namespace = "linalg"
    library = "linear algebra"
    samples = [S(T(values=WELL)), S(T(values=BATCH)), S(T(0, 0)), S(T(2, 1, 1)), S(T(0, 2, 2))]
    errors = matrix_errors()

    def check(self, A: Tensor) -> Any:
        return (check_matrices("linalg.det", A),), {}

    def eager(self, a):
        return np.linalg.det(a)

    def vjp(self, g, y, a):
        if local.state.grad:
            return (g * conjugate(y)).unsqueeze(-1).unsqueeze(-1) * adjoint(inv(a))
        return g.unsqueeze(-1).unsqueeze(-1) * cofactors(a)


also("det", ops.linalg.det)


class Cofactors(Op):
    """det(A)*·A⁻ᴴ of each matrix, which singular matrices have too: the gradient of det.

    With A = U·S·Vᴴ it is det(U·Vᴴ)*·U·adj(S)·Vᴴ, where adj(S)ᵢᵢ is the product of all sⱼ but sᵢ.
    """

    function = method = differentiable = False
    library = "linear algebra"

    def check(self, A: Tensor) -> Any:
        return (A,), {}

    def eager(self, a):
        u, s, vh = np.linalg.svd(a)
        n = s.shape[-1]
        others = np.where(np.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
        phase = np.linalg.det(u @ vh).conj()
        return (phase[..., None, None] * (u * others[..., None, :]) @ vh).astype(a.dtype)


cofactors = registry["cofactors"].call


class Slogdet(Op):
    """The determinant of each matrix as its sign and the logarithm of its size.

    det(A) = sign·exp(logabsdet), without overflow; for a singular matrix 0 and -inf.

    >>> rl.linalg.slogdet(rl.tensor([[1.0, 2.0], [3.0, 4.0]])).sign
    tensor(-1.)
    """

    namespace = "linalg"
    result = result_type("linalg_slogdet", "sign", "logabsdet")
    library = "linear algebra"
    samples = [S(T(values=WELL)), S(T(values=BATCH)), S(T(0, 0)), S(T(0, 2, 2))]
    errors = matrix_errors()

    def check(self, A: Tensor) -> Any:
        return (check_matrices("linalg.slogdet", A),), {}

    def eager(self, a):
        sign, size = np.linalg.slogdet(a)
        return np.asarray(sign), np.asarray(size)

    def vjp(self, g, y, a):
        turn, scale = g
        if a.is_complex():
            scale = ops.complex(scale, -(conjugate(turn) * y[0]).imag)
        return scale.unsqueeze(-1).unsqueeze(-1) * adjoint(inv_info(a)[0])


also("slogdet", ops.linalg.slogdet)


@composite(
    samples=[S(T(values=POSITIVE)), S(T(values=BATCH)), S(T(0, 0))],
    errors=matrix_errors(),
)
def logdet(input: Tensor) -> Tensor:
    """The logarithm of each matrix's determinant: NaN if that is negative, -inf if it is 0.

    >>> rl.logdet(rl.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor(0.)
    """
    sign, size = ops.linalg.slogdet(check_matrices("logdet", input))
    if sign.is_complex():
        return size + sign.log()
    return ops.where(sign == -1.0, float("nan"), size)


class MatrixExp(Op):
    """The exponential of each matrix: Σ Aᵏ / k!.

    >>> rl.linalg.matrix_exp(rl.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    namespace = "linalg"
    library = "linear algebra"
    samples = [S(T(values=WELL)), S(T(values=BATCH)), S(T(0, 0)), S(T(2, 1, 1)), S(T(0, 3, 3))]
    errors = matrix_errors()

    def check(self, A: Tensor) -> Any:
        return (check_matrices("linalg.matrix_exp", A),), {}

    def eager(self, a):
        return kernels.matrix_exp(a)

    def vjp(self, g, _y, a):
        h, n = adjoint(a), a.shape[-1]
        top, bottom = ops.cat([h, g], -1), ops.cat([ops.zeros_like(h), h], -1)
        return ops.linalg.matrix_exp(ops.cat([top, bottom], -2))[..., :n, n:]


also("matrix_exp", ops.linalg.matrix_exp)


@composite(
    namespace="linalg",
    samples=[
        S(T(values=WELL), 3),
        S(T(values=BATCH), 6),
        S(T(values=WELL), 0),
        S(T(values=WELL), 1),
        S(T(values=WELL), -2),
        S(T(0, 0), 2),
    ],
    errors=[
        Fails(RuntimeError, "they are 2 by 3 matrices", T(2, 3), 2),
        Fails(RuntimeError, "at least 2 dimensions", T(3), 2),
        Fails(TypeError, "must be int, not float", T(3, 3), 0.5),
        Fails(LinAlgError, "singular", T(values=SINGULAR_MATRIX), -1),
    ],
)
def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Each matrix to an integer power; negative powers are those of the inverse.

    >>> rl.linalg.matrix_power(rl.tensor([[1, 1], [0, 1]]), 5)
    tensor([[1, 5],
            [0, 1]])
    """
    a = need_tensor("linalg.matrix_power", A, "A")
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        check_matrices("linalg.matrix_power", a.to(dtypes.float32))
    if not isinstance(n, int):
        raise TypeError(f"matrix_power(): argument 'n' must be int, not {type(n).__name__}")
    if n < 0:
        a, n = inv(a), -n
    y = power(a, n) if n else zeros_of(a) + ops.eye(a.shape[-1], dtype=a.dtype)
    y = y.clone() if y is A else y
    return y if out is None else into(out, y)


def power(a: Tensor, n: int) -> Tensor:
    """aⁿ for n > 0, by squaring."""
    if n == 1:
        return a
    half = power(a, n // 2)
    y = half @ half
    return y @ a if n % 2 else y


also("matrix_power", matrix_power)


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(2, 3, 6, distinct=True)), S(T(4, 2, 2, distinct=True), ind=1)],
    errors=[
        Fails(RuntimeError, "strictly positive integer for 'ind', but got 0", T(2, 3), ind=0),
        Fails(RuntimeError, "but got 3 != 2", T(2, 3), ind=1),
    ],
)
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse for :func:`tensordot`: ``tensordot(tensorinv(A, ind), B, ind)`` solves A·X = B.

    >>> rl.linalg.tensorinv(rl.eye(6).reshape(2, 3, 6)).shape
    rushlight.Size([6, 2, 3])
    """
    need_tensor("linalg.tensorinv", A, "A")
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = A.shape[:ind], A.shape[ind:]
    if prod(first) != prod(last):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {prod(last)} != {prod(first)}"
        )
    y = inv(A.reshape(prod(first), prod(last))).reshape(*last, *first)
    return y if out is None else into(out, y)


def powers(x: Tensor, count: int) -> Tensor:
    """Powers 0, 1, …, count - 1 of each element, in a new last dimension."""
    ones = ops.ones((*x.shape, min(count, 1)), dtype=x.dtype)
    if count < 2:
        return ones
    return ops.cat([ones, x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)], -1)


def summable(x: Tensor) -> Tensor:
    """Integers as int64, in which their products are."""
    return x.to(dtypes.int64) if x.dtype.category < dtypes.FLOAT else x


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(3)), S(T(2, 3), N=4), S(T(0))],
    errors=[Fails(RuntimeError, "N must be greater than 1", T(3), N=1)],
)
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The Vandermonde matrix: powers 0, 1, …, N - 1 of each element, by default as many as x has.

    >>> rl.linalg.vander(rl.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [1, 2, 4],
            [1, 3, 9]])
    """
    need_tensor("linalg.vander", x, "x")
    if (not x.ndim and N is None) or (N is not None and N <= 1):
        raise RuntimeError(f"N must be greater than 1, got {1 if N is None else N}.")
    x = x if x.ndim else x.unsqueeze(0)
    return powers(summable(x), x.shape[-1] if N is None else N)


@composite(
    name="vander",
    method=False,
    samples=[S(T(3)), S(T(3), 5), S(T(4), N=2, increasing=True), S(T(2), 0)],
    errors=[Fails(RuntimeError, "x must be a one-dimensional tensor", T(3, 3))],
)
def old_vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix with falling powers N - 1, …, 1, 0 of each element.

    >>> rl.vander(rl.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    if need_tensor("vander", x, "x").ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor, got shape {list(x.shape)}")
    if N is not None and N < 0:
        raise RuntimeError(f"N must be non-negative, got {N}")
    y = powers(summable(x), len(x) if N is None else N)
    return y if increasing else y.flip(1)


@composite(
    namespace="linalg",
    method=False,
    samples=[S(T(3, 4)), S(T(2, 3, 4), offset=1), S(T(2, 3, 4), dim1=0, dim2=2)],
    errors=[Fails(IndexError, "out of range", T(3))],
)
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonal of each matrix.

    >>> rl.linalg.diagonal(rl.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    return need_tensor("linalg.diagonal", A, "A").diagonal(offset, dim1, dim2)
