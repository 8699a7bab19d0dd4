"""Element types: the public ``dtype`` objects, promotion, limits and the default type."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from rushlight.config import config

Number = int | float | complex | bool


class dtype:  # noqa: N801 - PyTorch's spelling
    """The type of a tensor's elements, such as ``rl.float32``.

    >>> rl.float32.is_floating_point, rl.int64.itemsize
    (True, 8)
    """

    __slots__ = ("category", "itemsize", "name", "numpy", "storage_name")

    def __init__(self, name: str, numpy: np.dtype, category: int, storage_name: str) -> None:
        self.name = name
        self.numpy = numpy
        self.category = category
        self.itemsize = numpy.itemsize
        self.storage_name = storage_name

    def __repr__(self) -> str:
        return f"{config.public_name}.{self.name}"

    def __reduce__(self) -> str | tuple:
        return (_by_name, (self.name,))

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOAT

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    @property
    def is_signed(self) -> bool:
        return self is not bool_ and self.numpy.kind != "u"

    def to_complex(self) -> dtype:
        """The complex type whose parts have this precision."""
        return complex128 if self in (float64, complex128) else complex64

    def to_real(self) -> dtype:
        """The real type of a complex type's parts."""
        return {complex64: float32, complex128: float64}.get(self, self)


BOOL, INT, FLOAT, COMPLEX = range(4)

bool_ = dtype("bool", np.dtype(np.bool_), BOOL, "Bool")
uint8 = dtype("uint8", np.dtype(np.uint8), INT, "Byte")
int8 = dtype("int8", np.dtype(np.int8), INT, "Char")
int16 = dtype("int16", np.dtype(np.int16), INT, "Short")
int32 = dtype("int32", np.dtype(np.int32), INT, "Int")
int64 = dtype("int64", np.dtype(np.int64), INT, "Long")
uint16 = dtype("uint16", np.dtype(np.uint16), INT, "UInt16")
uint32 = dtype("uint32", np.dtype(np.uint32), INT, "UInt32")
uint64 = dtype("uint64", np.dtype(np.uint64), INT, "UInt64")
float16 = dtype("float16", np.dtype(np.float16), FLOAT, "Half")
bfloat16 = dtype("bfloat16", np.dtype(ml_dtypes.bfloat16), FLOAT, "BFloat16")
float32 = dtype("float32", np.dtype(np.float32), FLOAT, "Float")
float64 = dtype("float64", np.dtype(np.float64), FLOAT, "Double")
complex64 = dtype("complex64", np.dtype(np.complex64), COMPLEX, "ComplexFloat")
complex128 = dtype("complex128", np.dtype(np.complex128), COMPLEX, "ComplexDouble")

ALL = (
    *(bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64),
    *(float16, bfloat16, float32, float64, complex64, complex128),
)
HALF = frozenset((float16.numpy, bfloat16.numpy))

_from_numpy = {d.numpy: d for d in ALL}
_from_python = {bool: bool_, int: int64, float: float64, complex: complex128}


def _by_name(name: str) -> dtype:
    return next(d for d in ALL if d.name == name)


def from_numpy(numpy: np.dtype) -> dtype:
    """Our dtype of a NumPy dtype; ``TypeError`` for one that no tensor can have."""
    try:
        return _from_numpy[numpy]
    except KeyError:
        names = ", ".join(d.name for d in ALL)
        raise TypeError(
            f"can't convert np.ndarray of type {numpy}. The supported types are: {names}."
        ) from None


def as_dtype(value: dtype | type | np.dtype | None, argument: str = "dtype") -> dtype:
    """The dtype that a user's argument names: ours, Python's ``float``, or NumPy's."""
    if isinstance(value, dtype):
        return value
    if isinstance(value, type) and value in _from_python:
        return _from_python[value]
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return from_numpy(np.dtype(value))
    cure = f" (write rushlight.{value})" if value in [d.name for d in ALL] else ""
    raise TypeError(
        f"argument '{argument}' must be rushlight.dtype, not {type(value).__name__}{cure}"
    )


def of_scalar(value: Number) -> dtype:
    """The dtype that a Python number takes on its own."""
    if isinstance(value, float):  # np.float64 is one, too
        return get_default_dtype()
    if isinstance(value, np.generic):
        return from_numpy(value.dtype)
    if isinstance(value, int):
        return bool_ if isinstance(value, bool) else int64
    return get_default_dtype().to_complex()


_RANK = {d: i for i, d in enumerate(ALL)}
_NUMPY_LATTICE: dict[tuple[dtype, dtype], dtype] = {}


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest type that both can be converted to, by PyTorch's table.

    >>> rl.promote_types(rl.int64, rl.float16)
    rushlight.float16
    """
    key = (type1, type2)
    if key not in _NUMPY_LATTICE:
        _NUMPY_LATTICE[key] = _promote(type1, type2)
    return _NUMPY_LATTICE[key]


def _promote(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if a.category < b.category:
        a, b = b, a
    if a.category != b.category:
        if a.category == COMPLEX and b is float64:
            return complex128
        return a
    if a.category == FLOAT and {a, b} == {float16, bfloat16}:
        return float32
    if a.category == INT and a.is_signed != b.is_signed:
        return _mixed_integers(*((a, b) if a.is_signed else (b, a)))
    return max(a, b, key=_RANK.__getitem__)


def _mixed_integers(signed: dtype, unsigned: dtype) -> dtype:
    if unsigned is uint64:
        return float32
    wider = {1: int16, 2: int32, 4: int64}[unsigned.itemsize]
    return signed if signed.itemsize >= wider.itemsize else wider


def get_default_dtype() -> dtype:
    """The floating-point type of new tensors made from Python floats."""
    return config.default_dtype or float32


def set_default_dtype(d: dtype, /) -> None:
    """Makes ``d`` (a floating-point type) the type of new tensors made from Python floats."""
    d = as_dtype(d, "d")
    if d.category != FLOAT:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    config.default_dtype = None if d is float32 else d


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether PyTorch allows ``from_`` to be stored in ``to`` without an explicit conversion.

    >>> rl.can_cast(rl.float32, rl.int64)
    False
    """
    if to is bool_:
        return from_ is bool_
    return from_.category <= to.category


class finfo:  # noqa: N801 - PyTorch's spelling
    """Limits of a floating-point type.

    >>> rl.finfo(rl.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: dtype | None = None) -> None:
        self.dtype_ = as_dtype(type) if type is not None else get_default_dtype()
        if self.dtype_.category not in (FLOAT, COMPLEX):
            raise TypeError(
                f"rushlight.finfo() requires a floating point input type. Use rushlight.iinfo "
                f"to handle '{self.dtype_.name}'"
            )
        info = ml_dtypes.finfo(self.dtype_.to_real().numpy)
        self.bits = info.bits
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = float(info.resolution)
        self.dtype = self.dtype_.to_real().name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:  # noqa: N801 - PyTorch's spelling
    """Limits of an integer type.

    >>> rl.iinfo(rl.int8).max
    127
    """

    def __init__(self, type: dtype) -> None:
        kind = as_dtype(type)
        if kind.category != INT:
            raise TypeError(
                f"rushlight.iinfo() requires an integer input type. Use rushlight.finfo "
                f"to handle '{kind.name}'"
            )
        info = np.iinfo(kind.numpy)
        self.bits, self.max, self.min, self.dtype = info.bits, info.max, info.min, kind.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
