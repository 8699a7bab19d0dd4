"""Comparison of results in tests: ``assert_close`` says how much and where two of them differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dtypes import bfloat16, complex64, complex128, float16, float32, float64
from rushlight.literals import as_tensor
from rushlight.tensor import Tensor

Message = str | Callable[[str], str] | None
TOLERANCES = {
    float16: (1e-3, 1e-5),
    bfloat16: (1.6e-2, 1e-5),
    float32: (1.3e-6, 1e-5),
    float64: (1e-7, 1e-7),
    complex64: (1.3e-6, 1e-5),
    complex128: (1e-7, 1e-7),
}
"""The relative and the absolute difference allowed by default; exact types allow none."""

NUMBER = (bool, int, float, complex, np.number, np.bool_)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    r"""An ``AssertionError`` that says what differs, unless ``actual`` and ``expected`` are close.

    Elements are close if :math:`|a - e| \le atol + rtol \cdot |e|`. Sequences and mappings are
    compared item by item; there is one device and one layout, so these cannot differ.

    Args:
        allow_subclasses: whether values of related types can be compared.
        rtol, atol: both or none; by default they depend on the dtype.
        equal_nan: whether NaN is close to NaN.
        msg: the error's message, or a function that makes it from the one given by default.

    >>> rl.testing.assert_close(rl.tensor([1.0, 2.0]), rl.tensor([1.0, 2.0 + 1e-7]))
    >>> rl.testing.assert_close(rl.tensor([1, 2]), rl.tensor([1, 3]))
    Traceback (most recent call last):
    AssertionError: Tensor-likes are not equal!
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 1 at index (1,)
    Greatest relative difference: 0.3333333333333333 at index (1,)
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        )
    if not allow_subclasses and type(actual) is not type(expected):
        raise incomparable(actual, expected)
    compare = Comparison(rtol, atol, equal_nan, check_dtype, check_stride)
    try:
        compare(actual, expected, "")
    except AssertionError as error:
        text = msg(str(error)) if callable(msg) else msg or str(error)
        raise AssertionError(text) from None


class Comparison:
    """How two values are compared, whatever they are made of."""

    def __init__(
        self,
        rtol: float | None,
        atol: float | None,
        equal_nan: bool,
        check_dtype: bool,
        check_stride: bool,
    ) -> None:
        self.tolerances = None if rtol is None or atol is None else (rtol, atol)
        self.equal_nan, self.check_dtype, self.check_stride = equal_nan, check_dtype, check_stride

    def __call__(self, actual: Any, expected: Any, where: str) -> None:
        if isinstance(expected, Mapping) and isinstance(actual, Mapping):
            self.mappings(actual, expected, where)
        elif is_sequence(expected) and is_sequence(actual):
            self.sequences(actual, expected, where)
        elif actual is None or expected is None:
            if actual is not expected:
                raise differs(f"None mismatch: {actual} is not {expected}", where)
        elif isinstance(actual, NUMBER) and isinstance(expected, NUMBER):
            self.numbers(actual, expected, where)
        elif is_array(actual) and is_array(expected):
            self.tensors(as_tensor(actual), as_tensor(expected), where)
        else:
            raise incomparable(actual, expected)

    def mappings(self, actual: Mapping, expected: Mapping, where: str) -> None:
        missing = sorted(set(expected) - set(actual), key=str)
        more = sorted(set(actual) - set(expected), key=str)
        if missing or more:
            text = "The keys of the mappings do not match:"
            text += f"\nMissing keys in the actual mapping: {missing}" if missing else ""
            text += f"\nAdditional keys in the actual mapping: {more}" if more else ""
            raise differs(text, where)
        for key in expected:
            self(actual[key], expected[key], f"{where}[{key!r}]")

    def sequences(self, actual: Sequence, expected: Sequence, where: str) -> None:
        if len(actual) != len(expected):
            raise differs(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", where
            )
        for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
            self(a, e, f"{where}[{i}]")

    def numbers(self, actual: Any, expected: Any, where: str) -> None:
        if self.check_dtype and type(actual) is not type(expected):
            raise differs(f"The (d)types do not match: {type(actual)} != {type(expected)}.", where)
        kind = float64 if isinstance(expected, float) else dtypes.of_scalar(expected)
        self.elements(np.asarray(actual), np.asarray(expected), kind, where)

    def tensors(self, actual: Tensor, expected: Tensor, where: str) -> None:
        attributes: list[tuple[str, Any, Any]] = [("shape", actual.shape, expected.shape)]
        if self.check_dtype:
            attributes.append(("dtype", actual.dtype, expected.dtype))
        if self.check_stride:
            attributes.append(("stride()", actual.stride(), expected.stride()))
        for name, a, e in attributes:
            if a != e:
                raise differs(f"The values for attribute '{name}' do not match: {a} != {e}.", where)
        kind = dtypes.promote_types(actual.dtype, expected.dtype)
        self.elements(widened(actual), widened(expected), kind, where)

    def elements(self, a: np.ndarray, e: np.ndarray, kind: dtypes.dtype, where: str) -> None:
        rtol, atol = self.tolerances or TOLERANCES.get(kind, (0.0, 0.0))
        with np.errstate(all="ignore"):
            close = np.isclose(a, e, rtol, atol, self.equal_nan) if rtol or atol else a == e
            if close.all():
                return
            difference = np.abs(np.subtract(a, e, dtype=np.result_type(a, e, np.int8)))
            relative = difference / np.abs(e)
        equal = "close" if rtol or atol else "equal"
        if not a.ndim:
            text = f"Scalars are not {equal}!\n\nExpected {e.item()} but got {a.item()}.\n"
            text += greatest("Absolute", difference, atol, close) + "\n"
            raise differs(text + greatest("Relative", relative, rtol, close), where)
        count = int((~close).sum())
        text = f"Tensor-likes are not {equal}!\n\n"
        text += f"Mismatched elements: {count} / {close.size} ({count / close.size:.1%})\n"
        text += greatest("Greatest absolute", difference, atol, close) + "\n"
        raise differs(text + greatest("Greatest relative", relative, rtol, close), where)


def widened(t: Tensor) -> np.ndarray:
    """The elements as NumPy can subtract them: bfloat16 as float32, bools as bytes."""
    array = t._array
    if t.dtype is bfloat16:
        return array.astype(np.float32)
    return array.view(np.uint8) if t.dtype is dtypes.bool_ else array


def greatest(kind: str, difference: np.ndarray, allowed: float, close: np.ndarray) -> str:
    """The largest difference among the elements that are not close, and where it is."""
    place = np.unravel_index(np.argmax(np.where(close, -1, difference)), difference.shape)
    text = f"{kind} difference: {difference[place].item()}"
    if difference.ndim:
        text += f" at index {tuple(int(i) for i in place)}"
    return text + (f" (up to {allowed} allowed)" if allowed else "")


def differs(text: str, where: str) -> AssertionError:
    return AssertionError(text + (f"\n\nThe failure occurred for item {where}" if where else ""))


def incomparable(actual: Any, expected: Any) -> TypeError:
    return TypeError(
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    )


def is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def is_array(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray))


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """An old form of :func:`assert_close`: any dtype, and NaN is close to NaN.

    >>> rl.testing.assert_allclose(rl.tensor([1.0]), [1.0])
    """
    assert_close(
        as_tensor(actual),
        as_tensor(expected),
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_dtype=False,
        msg=msg or None,
    )


__all__ = ["assert_allclose", "assert_close"]
