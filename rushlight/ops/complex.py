"""Complex numbers: their parts, conjugates and angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.ops.base import Op, composite, into, need_tensor, ops, registry
from rushlight.ops.elementwise import masked, mismatch, zero
from rushlight.ops.families import Unary
from rushlight.ops.samples import Fails, S, T, unary_samples
from rushlight.ops.views import View
from rushlight.tensor import Tensor, install

COMPLEX = T(3, 4, dtype=dtypes.complex128)
NOT_A_TENSOR = Fails(TypeError, "must be Tensor, not list", [1j])
NO_KIND = "programs have no complex scalars"


class RealPart(View):
    """The real parts of a complex tensor."""

    library = NO_KIND
    function = method = False

    def check(self, input):
        return (input,), {}

    def eager(self, x):
        return x.real

    def vjp(self, g, _y, _x):
        return g


class ImagPart(View):
    """The imaginary parts of a complex tensor."""

    library = NO_KIND
    function = method = False

    def check(self, input):
        return (input,), {}

    def eager(self, x):
        return x.imag

    def vjp(self, g, _y, _x):
        return g * 1j


real_part, imag_part = registry["real_part"].call, registry["imag_part"].call


@composite(method=False, samples=[S(COMPLEX), S(T(3))], errors=[NOT_A_TENSOR])
def real(input: Tensor) -> Tensor:
    """The real parts, as a view; a real tensor is its own real part.

    >>> rl.tensor([1 + 2j, 3j]).real
    tensor([1., 0.])
    """
    return real_part(input) if need_tensor("real", input).dtype.is_complex else input


@composite(
    method=False,
    samples=[S(COMPLEX)],
    errors=[Fails(RuntimeError, "non-complex dtypes", T(2, dtype=dtypes.float32))],
)
def imag(input: Tensor) -> Tensor:
    """The imaginary parts of a complex tensor, as a view.

    >>> rl.tensor([1 + 2j, 3j]).imag
    tensor([2., 3.])
    """
    if not need_tensor("imag", input).dtype.is_complex:
        raise RuntimeError(
            f"imag is not implemented for tensors with non-complex dtypes, got {input.dtype}."
        )
    return imag_part(input)


def set_real(self: Tensor, value: Any) -> None:
    self.real.copy_(value if isinstance(value, Tensor) else ops.tensor(value))


def set_imag(self: Tensor, value: Any) -> None:
    self.imag.copy_(value if isinstance(value, Tensor) else ops.tensor(value))


install(
    real=property(ops.real, set_real, doc=real.__doc__),
    imag=property(ops.imag, set_imag, doc=imag.__doc__),
)


class ConjPhysical(Unary):
    """The complex conjugate of each element, as a new tensor.

    >>> rl.conj_physical(rl.tensor([1 + 2j]))
    tensor([1.-2.j])
    """

    samples = [S(COMPLEX), S(T(3, 4))]
    eager = np.conjugate

    def kernel(self, numpy_dtype: np.dtype) -> Any:
        return np.copy if numpy_dtype.kind == "b" else super().kernel(numpy_dtype)

    def vjp(self, g, _y, _x):
        return g.conj()


@composite(samples=[S(COMPLEX), S(T(3))], errors=[NOT_A_TENSOR])
def conj(input: Tensor) -> Tensor:
    """The complex conjugate of each element; a real tensor is its own conjugate.

    >>> rl.tensor([1 + 2j, 3j]).conj()
    tensor([1.-2.j, 0.-3.j])
    """
    x = need_tensor("conj", input)
    return ops.conj_physical(x) if x._array.dtype.kind == "c" else x


@composite(samples=[S(COMPLEX), S(T(3))], errors=[NOT_A_TENSOR])
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: conjugates are always computed here.

    >>> rl.tensor([1 + 2j]).conj().resolve_conj()
    tensor([1.-2.j])
    """
    return need_tensor("resolve_conj", input)


@composite(samples=[S(COMPLEX), S(T(3))], errors=[NOT_A_TENSOR])
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: negatives are always computed here.

    >>> rl.tensor([1.0]).resolve_neg()
    tensor([1.])
    """
    return need_tensor("resolve_neg", input)


@composite(samples=[S(COMPLEX), S(T(3))], errors=[NOT_A_TENSOR])
def is_conj(input: Tensor) -> bool:
    """Whether the conjugate is still to be computed: never so here.

    >>> rl.tensor([1 + 2j]).conj().is_conj()
    False
    """
    need_tensor("is_conj", input)
    return False


@composite(samples=[S(COMPLEX), S(T(3))], errors=[NOT_A_TENSOR])
def is_neg(input: Tensor) -> bool:
    """Whether the negative is still to be computed: never so here.

    >>> rl.tensor([1.0]).is_neg()
    False
    """
    need_tensor("is_neg", input)
    return False


@composite(samples=[S(COMPLEX), S(T(3))], errors=[NOT_A_TENSOR])
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers.

    >>> rl.tensor([1 + 2j]).is_complex()
    True
    """
    return need_tensor("is_complex", input).dtype.is_complex


class Angle(Unary):
    """The angle of each element in the complex plane, in radians; π for negative real numbers.

    >>> rl.tensor([1 + 1j, -1j]).angle()
    tensor([ 0.7854, -1.5708])
    """

    floats = True
    inplace = False
    samples = [*unary_samples(), S(COMPLEX)]

    def eager(self, x):
        if x.dtype.kind == "c":
            return np.angle(x)
        return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(math.pi), x.dtype.type(0)))

    def vjp(self, g, _y, x):
        if not x.dtype.is_complex:
            return zero(g)
        size = x.abs()
        return masked(size != 0, g * x * 1j / (size * size))


class Complex(Op):
    """The complex numbers with these real and imaginary parts.

    >>> rl.complex(rl.tensor([1.0, 2.0]), rl.tensor([3.0, 4.0]))
    tensor([1.+3.j, 2.+4.j])
    """

    library = NO_KIND
    method = False
    samples = [S(T(3, 4, dtype=dtypes.float64), T(4, dtype=dtypes.float64))]
    errors = [
        Fails(RuntimeError, "Float or Double tensors", T(2, dtype=dtypes.int64), T(2)),
        Fails(
            RuntimeError,
            "scalar type Float but got scalar type Double",
            T(2, dtype=dtypes.float32),
            T(2, dtype=dtypes.float64),
        ),
    ]

    def check(self, real: Tensor, imag: Tensor) -> Any:
        return parts("complex", real, imag, ("real", "imag")), {}

    def eager(self, re, im):
        kind = dtypes.from_numpy(re.dtype).to_complex().numpy
        try:
            z = np.empty(np.broadcast_shapes(re.shape, im.shape), kind)
        except ValueError as error:
            raise mismatch("complex", (re, im), error) from None
        z.real, z.imag = re, im
        return z

    def vjp_re(self, g, _y, _re, _im):
        return g.real

    def vjp_im(self, g, _y, _re, _im):
        return g.imag


@composite(
    method=False,
    samples=[S(T(3, 4, dtype=dtypes.float64, low=0.5), T(4, dtype=dtypes.float64))],
    errors=[Fails(RuntimeError, "Float or Double tensors", T(2, dtype=dtypes.int64), T(2))],
)
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex numbers with these moduli and angles.

    >>> rl.polar(rl.tensor([1.0, 2.0]), rl.tensor([0.0, math.pi / 2])).imag
    tensor([0., 2.])
    """
    size, direction = parts("polar", abs, angle, ("abs", "angle"))
    z = ops.complex(size * direction.cos(), size * direction.sin())
    return z if out is None else into(out, z)


def parts(op: str, a: Any, b: Any, names: tuple[str, str]) -> tuple[Tensor, Tensor]:
    """Two real tensors of one floating-point dtype that make complex numbers."""
    x, y = need_tensor(op, a, names[0], 1), need_tensor(op, b, names[1], 2)
    pair = {x.dtype, y.dtype}
    if not pair <= {dtypes.float32, dtypes.float64}:
        raise RuntimeError(
            f"{op}: Expected both inputs to be Float or Double tensors but got "
            f"{x.dtype.storage_name} and {y.dtype.storage_name}"
        )
    if len(pair) > 1:
        raise RuntimeError(
            f"{op}: Expected object of scalar type {x.dtype.storage_name} but got scalar type "
            f"{y.dtype.storage_name} for second argument"
        )
    return x, y


class ViewAsReal(View):
    """A complex tensor seen as a real one whose last dimension holds both parts.

    >>> rl.view_as_real(rl.tensor([1 + 2j, 3j]))
    tensor([[1., 2.],
            [0., 3.]])
    """

    library = NO_KIND
    method = False
    samples = [S(COMPLEX), S(T(dtype=dtypes.complex128))]
    errors = [Fails(RuntimeError, "only supported for complex", T(2, dtype=dtypes.float32))]

    def check(self, input: Tensor) -> Any:
        x = need_tensor("view_as_real", input)
        if not x.dtype.is_complex:
            raise RuntimeError(f"view_as_real is only supported for complex tensors, got {x.dtype}")
        return (x,), {}

    def eager(self, x):
        return x[..., None].view(x.real.dtype)

    def vjp(self, g, _y, _x):
        return ops.view_as_complex(g.contiguous())


class ViewAsComplex(View):
    """A real tensor whose last dimension holds real and imaginary parts, seen as a complex one.

    >>> rl.view_as_complex(rl.tensor([[1.0, 2.0], [0.0, 3.0]]))
    tensor([1.+2.j, 0.+3.j])
    """

    library = NO_KIND
    method = False
    samples = [S(T(3, 2, dtype=dtypes.float64)), S(T(1, 2, dtype=dtypes.float64))]
    errors = [
        Fails(RuntimeError, "only supported for Float", T(2, dtype=dtypes.int64)),
        Fails(RuntimeError, "must have one or more dimensions", T(dtype=dtypes.float32)),
        Fails(RuntimeError, "last dimension of size 2", T(3, dtype=dtypes.float32)),
    ]

    def check(self, input: Tensor) -> Any:
        x = need_tensor("view_as_complex", input)
        array = x._array
        if x.dtype not in (dtypes.float32, dtypes.float64):
            raise RuntimeError(
                "view_as_complex is only supported for Float and Double tensors, but got a tensor "
                f"of scalar type {x.dtype.storage_name}"
            )
        if not array.ndim:
            raise RuntimeError("view_as_complex: Input tensor must have one or more dimensions")
        if array.shape[-1] != 2:
            raise RuntimeError(
                f"view_as_complex: Tensor must have a last dimension of size 2, got {list(x.shape)}"
            )
        if array.strides[-1] != array.itemsize and array.size:
            raise RuntimeError("view_as_complex: Tensor must have a last dimension with stride 1")
        if any(stride % (2 * array.itemsize) for stride in array.strides[:-1]):
            raise RuntimeError(
                "view_as_complex: Tensor must have a stride divisible by 2 for all but the last "
                "dimension"
            )
        return (x,), {}

    def eager(self, x):
        return x.view(dtypes.from_numpy(x.dtype).to_complex().numpy)[..., 0]

    def compute(self, arrays, attrs):
        return self.eager(np.ascontiguousarray(arrays[0]))

    def vjp(self, g, _y, _x):
        return ops.view_as_real(g)


@composite(
    method=False,
    samples=[S(COMPLEX)],
    errors=[Fails(RuntimeError, "only supported for complex", T(2, dtype=dtypes.float32))],
)
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`view_as_real`, copied.

    >>> rl.view_as_real_copy(rl.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    y = ops.view_as_real(input).clone()
    return y if out is None else into(out, y)


@composite(
    method=False,
    samples=[S(T(3, 2, dtype=dtypes.float64))],
    errors=[Fails(RuntimeError, "last dimension of size 2", T(3, dtype=dtypes.float32))],
)
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`view_as_complex`, copied.

    >>> rl.view_as_complex_copy(rl.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    y = ops.view_as_complex(input).clone()
    return y if out is None else into(out, y)


install(conjugate=conj)  # Python's name: rules say it of numbers, arrays and tensors alike
