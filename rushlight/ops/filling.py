"""Ops that write over all elements of a tensor: ``copy_``, ``fill_``, ``zero_``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.dtypes import int8, int64
from rushlight.kernels.casting import cast, checked
from rushlight.ops.base import (
    any_tracked,
    check_writable,
    composite,
    is_expandable,
    need_tensor,
    ops,
    registry,
    touched,
)
from rushlight.ops.creation import NUMBER
from rushlight.ops.elements import among, flat
from rushlight.ops.replacement import Write
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, literal


def plain(*shape: int, **options: Any) -> T:
    """A sample that wants no gradient: a leaf that does cannot be written over."""
    return T(*shape, grad=False, **options)


class Overwrite(Write, abstract=True):
    """An op that exists in place alone: ``write(x, …)`` fills the array of its first operand."""

    function = inplace = False
    operands: tuple[str, ...] = ("x",)

    def vjp_x(self, g, _y, _x, *_others, **attrs):
        return ops.zeros_like(g)

    def make(self) -> Callable[..., Tensor]:
        check, change, write, name = self.check, self.change, self.write, self.name.rstrip("_")

        def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            operands, attrs = check(self, *args, **kwargs)
            state = local.state
            if state.grad or not self._array.flags.writeable:
                check_writable(self, name)
                if any_tracked(operands):
                    return change(self, operands[1:], attrs)
            if state.trace is not None:
                return change(self, operands[1:], attrs)
            arrays = [t._array if isinstance(t, Tensor) else t for t in operands]
            state.run(write, *arrays, **attrs)
            touched(self)
            return self

        method.__wrapped__ = check  # type: ignore[attr-defined]
        type(self).check.__qualname__ = self.name
        return method


class Copy(Overwrite):
    """Writes the elements of ``src``, broadcast and cast, over this tensor's.

    >>> rl.zeros(2, 2).copy_(rl.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
    """

    name = "copy_"
    operands = ("x", "source")
    samples = [
        S(plain(3, 4), plain(3, 4)), S(plain(3, 4), plain(4)), S(plain(2), plain()),
        S(plain(0, 2), plain(2)), S(plain(2), T(2, dtype=int64), non_blocking=True),
    ]  # fmt: skip
    errors = [
        Fails(RuntimeError, r"size of tensor a \(3\) must match .* tensor b \(2\)", T(3), T(2)),
        Fails(TypeError, "argument 'src' .* must be Tensor, not str", T(3), "a"),
    ]

    def check(self, input: Tensor, src: Tensor | float, non_blocking: bool = False) -> Any:
        if not isinstance(src, Tensor):
            src = (
                literal(np.asarray(src))
                if isinstance(src, NUMBER)
                else need_tensor("copy_", src, "src", 2)
            )
        target, shape = input._array.shape, src._array.shape
        if shape != target and not is_expandable(shape, target):
            raise uncopyable(target, shape)
        return (input, src), {}

    def write(self, x, source):
        x[...] = source if source.dtype is x.dtype else cast(source, x.dtype)

    def at(self, b, i, x, source):
        return source.broadcast(i)

    def vjp_source(self, g, _y, _x, _source):
        return g


def uncopyable(target: tuple[int, ...], shape: tuple[int, ...]) -> RuntimeError:
    """The error for elements of ``shape`` that cannot be broadcast to ``target``."""
    for offset in range(1, min(len(shape), len(target)) + 1):
        if shape[-offset] not in (1, target[-offset]):
            return RuntimeError(
                f"The size of tensor a ({target[-offset]}) must match the size of tensor b "
                f"({shape[-offset]}) at non-singleton dimension {len(target) - offset} "
                f"[copy_: shapes {list(target)} and {list(shape)}]"
            )
    return RuntimeError(
        f"output with shape {list(target)} doesn't match the broadcast shape {list(shape)}"
    )


FILL_ERRORS = [
    Fails(RuntimeError, "0-dimension value tensor but got tensor with 1 dim", T(2), T(1)),
    Fails(TypeError, "argument 'value' .* must be Number, not str", T(2), "a"),
    Fails(RuntimeError, "without overflow", T(2, dtype=int8), 300),
]


class Fill(Overwrite):
    """Writes ``value``, a number or 0-d tensor, to every element.

    >>> rl.zeros(2).fill_(3)
    tensor([3., 3.])
    """

    name = "fill_"
    operands = ("x", "value")
    samples = [
        S(T(3, 4, grad=False), 1),
        S(T(grad=False), 1),
        S(T(2, 3, grad=False), T(grad=False)),
    ]
    errors = FILL_ERRORS

    def check(self, input: Tensor, value: Any) -> Any:
        if isinstance(value, Tensor):
            if value.ndim:
                raise RuntimeError(
                    "fill_ only supports 0-dimension value tensor but got tensor with "
                    f"{value.ndim} dimensions."
                )
            return (input, value), {}
        if isinstance(value, NUMBER):
            number = value.item() if isinstance(value, np.generic) else value
            return (input, checked(number, input.dtype)), {}
        raise TypeError(
            f"fill_(): argument 'value' (position 1) must be Number, not {messages.kind(value)}"
        )

    def write(self, x, value):
        x.fill(cast(value, x.dtype) if isinstance(value, np.ndarray) else value)

    def at(self, b, i, x, value):
        return value[()]

    def vjp_value(self, g, _y, _x, _value):
        return g.sum()


class FillDiagonal(Overwrite):
    """Writes ``fill_value`` to the elements whose indices are all equal.

    Args:
        wrap: below the last row of a tall matrix's diagonal, begin anew after one row left out.

    >>> rl.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """

    name = "fill_diagonal_"
    samples = [
        S(plain(3, 4), 1), S(plain(7, 2), 2.0, wrap=True), S(plain(7, 2), 2.0),
        S(plain(3, 3, 3), 1), S(plain(0, 2), 1),
    ]  # fmt: skip
    errors = [
        Fails(RuntimeError, "dimensions must larger than 1", T(2), 1),
        Fails(RuntimeError, "must be of equal length", T(2, 3, 2), 1),
        Fails(TypeError, "argument 'value' .* must be Number, not str", T(2, 2), "a"),
    ]

    def check(self, input: Tensor, fill_value: Any, wrap: bool = False) -> Any:
        shape = need_tensor("fill_diagonal_", input)._array.shape
        if len(shape) < 2:
            raise RuntimeError(f"dimensions must larger than 1, got shape {list(shape)}")
        if len(shape) > 2 and len(set(shape)) > 1:
            raise RuntimeError(
                f"all dimensions of input must be of equal length, got shape {list(shape)}"
            )
        value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
        (_, number), _ = registry["fill_"].check(input, value)
        return (input,), {"value": number, "wrap": wrap}

    def write(self, x, *, value, wrap):
        if x.size:
            np.fill_diagonal(x, value, wrap)

    def at(self, b, i, x, *, value, wrap):
        step = sum(
            [x.shape[-1] ** d for d in range(x.ndim)]
        )  # the sides are equal, or they are two
        place = b.position(flat(i, x.shape))
        conditions = [(place % step).eq(0)]
        if x.ndim == 2 and not wrap:
            conditions.append(place < x.shape[1] ** 2)
        return b.where(among(b, conditions), b.constant(value, x.kind), x[i])

    def vjp_x(self, g, _y, _x, *, value, wrap):
        return g.clone().fill_diagonal_(0, wrap)


class Zero(Overwrite):
    """Writes zero to every element.

    >>> rl.ones(2).zero_()
    tensor([0., 0.])
    """

    name = "zero_"
    samples = [S(plain(3, 4)), S(plain()), S(plain(0, 2))]
    errors = [Fails(TypeError, "takes 1 positional argument but 2 were given", T(2), 3)]

    def make(self) -> Callable[..., Tensor]:
        general = super().make()

        def zero_(self: Tensor) -> Tensor:
            state = local.state
            if state.grad or state.trace is not None or not self._array.flags.writeable:
                return general(self)
            self._array.fill(0)
            touched(self)
            return self

        return zero_

    def check(self, input: Tensor) -> Any:
        return (input,), {}

    def write(self, x):
        x.fill(0)

    def decompose(self, x):
        return ops.zeros(x.shape, dtype=x.dtype)


@composite(
    method=False,
    samples=[S(T(3, 4), 1), S(T(), 1), S(T(0, 2), 1), S(T(2, 3), T())],
    errors=FILL_ERRORS,
)
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor of the shape of ``input`` with every element ``value``, a number or 0-d tensor.

    >>> rl.fill(rl.zeros(2), 3)
    tensor([3., 3.])
    """
    return need_tensor("fill", input).clone().fill_(value)
