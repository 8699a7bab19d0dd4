"""The cells of recurrent layers: what one step of time does to each element, and its gradient.

A cell is written once, in words that NumPy, ops and the builder of native loops all know:
operators, and the functions ``sigmoid``, ``tanh`` and ``where`` of ``f``. So it runs on arrays
(``ARRAYS``), on tensors (``ops``) and on the scalars of a kernel (``codegen.values.Builder``).

A cell takes blocks twice, what inputs and states contribute to the gates, and the states before. It
gives the states after, and blocks that its gradient reads. That one takes the gradients of the
states after, and what it reads; it gives the gradients of the blocks, and for each state before
what reaches it other than through the product with the weight (None if nothing does).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell.

    Args:
        gates: blocks that a product with the weight makes.
        states: how many there are, of which the product takes the first.
        keeps: how many blocks each of what is kept has.
        reads: and each of what the gradient reads.
        passes: whether the gradient of the first state has a part that passes by the product; then
            the contributions of inputs and of the product have two gradients.
        forward: (f, blocks of inputs, blocks of the product, states) → states, what is kept.
        backward: (f, gradients of states, what it reads) → gradients of blocks, rests of states.
    """

    gates: int
    states: int
    keeps: tuple[int, ...]
    reads: tuple[int, ...]
    passes: bool
    forward: Callable[..., Any]
    backward: Callable[..., Any]


ONES = {np.dtype(kind): np.ones((), kind) for kind in "fd"}  # quicker than Python's number


def sigmoid(x: np.ndarray) -> np.ndarray:
    y = np.negative(x)
    np.exp(y, y)
    np.add(y, ONES.get(y.dtype, 1), y)
    return np.reciprocal(y, y)


ARRAYS = SimpleNamespace(sigmoid=sigmoid, tanh=np.tanh, where=np.where)


class Blocks:
    """Blocks, each a value of its own."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts

    def __getitem__(self, number: int) -> Any:
        return self.parts[number]

    def __add__(self, other: Blocks) -> Blocks:
        return Blocks([x + y for x, y in zip(self.parts, other.parts, strict=True)])

    def each(self, function: Callable[[Any], Any]) -> Any:
        """A function of each block."""
        return [function(x) for x in self.parts]


class Columns:
    """Blocks side by side in one array, so that one call of NumPy does for all."""

    __slots__ = ("array", "size")

    def __init__(self, array: np.ndarray, size: int) -> None:
        self.array, self.size = array, size

    def __getitem__(self, number: int) -> np.ndarray:
        return self.array[:, number * self.size : (number + 1) * self.size]

    def __add__(self, other: Columns) -> Columns:
        return Columns(self.array + other.array, self.size)

    def each(self, function: Callable[[Any], Any]) -> Any:
        return split(function(self.array), self.size)


def split(array: np.ndarray, size: int) -> list[np.ndarray]:
    """The columns of an array as blocks of that size."""
    return [array[:, begin : begin + size] for begin in range(0, array.shape[1], size)]


def lstm(f: Any, z: Any, p: Any, _h: Any, c: Any) -> Any:
    """i, f, g, o = σ, σ, tanh, σ of z + p;  c' = f c + i g;  h' = o tanh(c').

    Kept are the gates, and tanh(c').
    """
    a = z + p
    i, forget, _, o = a.each(f.sigmoid)
    g = f.tanh(a[2])
    c = forget * c + i * g
    tanh = f.tanh(c)
    return (o * tanh, c), ((i, forget, g, o), (tanh,))


def lstm_gradient(f: Any, states: Any, gates: Any, tanh: Any, c: Any) -> Any:
    (dh, dc), (i, forget, g, o), (t,), (before,) = states, gates, tanh, c
    dc = dc + dh * o * (1 - t * t)
    di, dforget = dc * g * (i - i * i), dc * before * (forget - forget * forget)
    dg, do = dc * i * (1 - g * g), dh * t * (o - o * o)
    return ((di, dforget, dg, do),), (None, dc * forget)


def gru(f: Any, z: Any, p: Any, h: Any) -> Any:
    """r, u = σ of z + p;  n = tanh(z + r p);  h' = n + u (h - n).

    Kept are the gates, and the p in n.
    """
    r, u, _ = (z + p).each(f.sigmoid)
    n = f.tanh(z[2] + r * p[2])
    return (n + u * (h - n),), ((r, u, n), (p[2],))


def gru_gradient(f: Any, states: Any, gates: Any, inner: Any, h: Any) -> Any:
    (dh,), (r, u, n), (p,), (before,) = states, gates, inner, h
    rest = dh * u
    du, dn = dh * (before - n) * (u - u * u), (dh - rest) * (1 - n * n)
    dr = dn * p * (r - r * r)
    return ((dr, du, dn), (dr, du, dn * r)), (rest,)


def rnn_tanh(f: Any, z: Any, p: Any, _h: Any) -> Any:
    """h' = tanh(z + p)."""
    return (f.tanh(z[0] + p[0]),), ()


def rnn_tanh_gradient(f: Any, states: Any, y: Any) -> Any:
    (dh,), (h,) = states, y
    return ((dh * (1 - h * h),),), (None,)


def rnn_relu(f: Any, z: Any, p: Any, _h: Any) -> Any:
    """h' = relu(z + p)."""
    x = z[0] + p[0]
    return (f.where(x <= 0, 0, x),), ()


def rnn_relu_gradient(f: Any, states: Any, y: Any) -> Any:
    (dh,), (h,) = states, y
    return ((f.where(h <= 0, 0, dh),),), (None,)


CELLS = {
    "lstm": Cell(4, 2, (4, 1), (4, 1, 1), False, lstm, lstm_gradient),
    "gru": Cell(3, 1, (3, 1), (3, 1, 1), True, gru, gru_gradient),
    "rnn_tanh": Cell(1, 1, (), (1,), False, rnn_tanh, rnn_tanh_gradient),
    "rnn_relu": Cell(1, 1, (), (1,), False, rnn_relu, rnn_relu_gradient),
}
"""By the names of their layers."""
