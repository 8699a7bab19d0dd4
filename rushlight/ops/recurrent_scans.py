"""Loops over time: what graphs hold in the place of recurrent layers.

Rows lie step after step. ``z`` is what inputs alone contribute to the gates. States have a block of
rows more than there are steps, that of the beginning: the first one, or the last if ``reverse``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.ops.base import Op
from rushlight.tensor import Tensor

Array = np.ndarray


class Scan(Op, abstract=True):
    """An op of rows; ``results`` names what it gives, and ``widths`` says their columns.

    A width is a number of blocks, or 0 for states, which have one more block of rows.
    """

    function = method = differentiable = False
    once = True
    library = "a loop over time"
    results: tuple[str, ...]
    widths: tuple[int, ...]

    def check(self, *operands: Tensor, steps: int, reverse: bool) -> Any:
        return operands, {"steps": steps, "reverse": reverse}

    def infer(self, arrays, attrs):
        rows, size = len(arrays[0]), arrays[self.operands.index("w_hh")].shape[1]
        more = rows // attrs["steps"]
        shapes = [(rows, n * size) if n else (rows + more, size) for n in self.widths]
        found = tuple([np.empty(shape, arrays[0].dtype) for shape in shapes])
        return found if len(found) > 1 else found[0]


def times(steps: int, rows: int, reverse: bool) -> Iterator[tuple[slice, slice, slice]]:
    """The rows of each step in turn, and those of the states before and after it."""
    for t in reversed(range(steps)) if reverse else range(steps):
        here, there = slice(t * rows, (t + 1) * rows), slice((t + 1) * rows, (t + 2) * rows)
        yield (here, there, here) if reverse else (here, here, there)


def states(first: Array, steps: int) -> Array:
    """Memory for states, with that of the beginning in place, at whichever end it is."""
    rows = len(first)
    found = np.empty(((steps + 1) * rows, first.shape[1]), first.dtype)
    found[steps * rows :] = found[:rows] = first
    return found


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class LstmScan(Scan):
    """All h and c, the gates (i, f, g, o), and tanh(c)."""

    operands = ("z", "h", "c", "w_hh")
    results, widths = ("hs", "cs", "gates", "tanh"), (0, 0, 4, 1)

    def eager(self, z, h, c, w_hh, *, steps, reverse):
        hs, cs = states(h, steps), states(c, steps)
        gates, tanh = np.empty_like(z), np.empty((len(z), h.shape[1]), z.dtype)
        for now, past, after in times(steps, len(h), reverse):
            i, f, g, o = np.split(z[now] + hs[past] @ w_hh.T, 4, 1)
            i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
            cs[after] = f * cs[past] + i * g
            tanh[now] = np.tanh(cs[after])
            hs[after] = o * tanh[now]
            gates[now] = np.concatenate((i, f, g, o), 1)
        return hs, cs, gates, tanh


class LstmScanGradient(Scan):
    """The gradients of z, and of all h and c."""

    operands = ("dy", "dh", "dc", "gates", "tanh", "c_before", "w_hh")
    results, widths = ("dz", "dhs", "dcs"), (4, 0, 0)

    def eager(self, dy, dh, dc, gates, tanh, c_before, w_hh, *, steps, reverse):
        dhs, dcs, dz = states(dh, steps), states(dc, steps), np.empty_like(gates)
        for now, past, after in reversed([*times(steps, len(dh), reverse)]):
            i, f, g, o = np.split(gates[now], 4, 1)
            h, t = dhs[after] + dy[now], tanh[now]
            c = dcs[after] + h * o * (1 - t * t)
            parts = (c * g * (i - i * i), c * c_before[now] * (f - f * f), c * i * (1 - g * g))
            dz[now] = np.concatenate((*parts, h * t * (o - o * o)), 1)
            dcs[past] = c * f
            dhs[past] = dz[now] @ w_hh
        return dz, dhs, dcs


class GruScan(Scan):
    """All h, the gates (r, u, n), and what the state contributes to n."""

    operands = ("z", "h", "w_hh", "b_hh")
    results, widths = ("hs", "gates", "inner"), (0, 3, 1)

    def eager(self, z, h, w_hh, b_hh, *, steps, reverse):
        hs = states(h, steps)
        gates, inner = np.empty_like(z), np.empty((len(z), h.shape[1]), z.dtype)
        for now, past, after in times(steps, len(h), reverse):
            a, b, c = np.split(z[now], 3, 1)
            p, q, inner[now] = np.split(hs[past] @ w_hh.T + b_hh, 3, 1)
            r, u = sigmoid(a + p), sigmoid(b + q)
            n = np.tanh(c + r * inner[now])
            hs[after] = n + u * (hs[past] - n)
            gates[now] = np.concatenate((r, u, n), 1)
        return hs, gates, inner


class GruScanGradient(Scan):
    """The gradients of z, of what states contribute to the gates, and of all h."""

    operands = ("dy", "dh", "gates", "inner", "h_before", "w_hh")
    results, widths = ("dx", "dz", "dhs"), (3, 3, 0)

    def eager(self, dy, dh, gates, inner, h_before, w_hh, *, steps, reverse):
        dhs, dx, dz = states(dh, steps), np.empty_like(gates), np.empty_like(gates)
        for now, past, after in reversed([*times(steps, len(dh), reverse)]):
            r, u, n = np.split(gates[now], 3, 1)
            h = dhs[after] + dy[now]
            du, dn = h * (h_before[now] - n) * (u - u * u), (h - h * u) * (1 - n * n)
            dr = dn * inner[now] * (r - r * r)
            dx[now], dz[now] = np.concatenate((dr, du, dn), 1), np.concatenate((dr, du, dn * r), 1)
            dhs[past] = dz[now] @ w_hh + h * u
        return dx, dz, dhs


class RnnTanhScan(Scan):
    """All h."""

    operands = ("z", "h", "w_hh")
    results, widths = ("hs",), (0,)
    relu = False

    def eager(self, z, h, w_hh, *, steps, reverse):
        hs = states(h, steps)
        for now, past, after in times(steps, len(h), reverse):
            x = z[now] + hs[past] @ w_hh.T
            hs[after] = np.maximum(x, 0) if self.relu else np.tanh(x)
        return hs


class RnnTanhScanGradient(Scan):
    """The gradients of z and of all h."""

    operands = ("dy", "dh", "y", "w_hh")
    results, widths = ("dz", "dhs"), (1, 0)
    relu = False

    def eager(self, dy, dh, y, w_hh, *, steps, reverse):
        dhs, dz = states(dh, steps), np.empty_like(dy)
        for now, past, after in reversed([*times(steps, len(dh), reverse)]):
            h, d = y[now], dhs[after] + dy[now]
            dz[now] = np.where(h <= 0, 0, d) if self.relu else d * (1 - h * h)
            dhs[past] = dz[now] @ w_hh
        return dz, dhs


class RnnReluScan(RnnTanhScan):
    """All h."""

    relu = True


class RnnReluScanGradient(RnnTanhScanGradient):
    """The gradients of z and of all h."""

    relu = True
