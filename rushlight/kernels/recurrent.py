"""Recurrent layers over all time steps: one product for all inputs, then a loop over the states.

The rows of ``x`` lie step after step. A span is the rows of one step, one for each sequence that
takes part in it; those are always the first sequences. A state has a row for every sequence and a
step replaces the first ones: a sequence that has ended keeps its last state, and going backward in
time one that has not begun keeps its first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
Spans = list[slice]


def spans(sizes: Sequence[int], reverse: bool) -> Spans:
    """The rows of each step, in the order in which the steps are taken.

    >>> spans([2, 1], reverse=True)
    [slice(2, 3, None), slice(0, 2, None)]
    """
    found, start = [], 0
    for size in sizes:
        found.append(slice(start, start + size))
        start += size
    return found[::-1] if reverse else found


def sigmoid(x: Array) -> None:
    """Replaces x by 1 / (1 + exp(-x))."""
    np.negative(x, x)
    np.exp(x, x)
    np.add(x, x.dtype.type(1), x)
    np.reciprocal(x, x)


def split(gates: Array, count: int) -> Sequence[Array]:
    """The columns of ``gates`` as ``count`` equal blocks side by side."""
    size = gates.shape[1] // count
    return [gates[:, k * size : (k + 1) * size] for k in range(count)]


def products(x: Array, weight: Array, bias: Array | None) -> Array:
    y = x.dot(weight.T)
    if bias is not None:
        y += bias
    return y


def rnn(
    x: Array, h: Array, w_ih: Array, w_hh: Array, bias: Array | None, steps: Spans, relu: bool
) -> tuple[Array, ...]:
    """h' = f(W x + b + W h), f being tanh or relu.

    Gives all h' and the last; and for the gradient all h.
    """
    y = products(x, w_ih, bias)
    h, before = h.copy(), np.empty_like(y)
    for rows in steps:
        z, past = y[rows], before[rows]
        now = h[: len(z)]
        past[...] = now
        z += past.dot(w_hh.T)
        np.maximum(z, 0, out=z) if relu else np.tanh(z, out=z)
        now[...] = z
    return y, h, before


def rnn_gradient(
    dy: Array, dh: Array, y: Array, w_hh: Array, steps: Spans, relu: bool
) -> tuple[Array, Array]:
    """The gradients of what f is taken of, and of the first h."""
    dz = (y > 0).astype(y.dtype) if relu else 1 - y * y
    dh = dh.copy()
    for rows in reversed(steps):
        d = dz[rows]
        future = dh[: len(d)]
        future += dy[rows]
        d *= future
        d.dot(w_hh, future)
    return dz, dh


def lstm(
    x: Array,
    h: Array,
    c: Array,
    w_ih: Array,
    w_hh: Array,
    bias: Array | None,
    w_hr: Array | None,
    steps: Spans,
) -> tuple[Array, ...]:
    """i, f, g, o = σ, σ, tanh, σ of W x + b + W h;  c' = f c + i g;  h' = W (o tanh(c')).

    Gives all h', the last h' and c'; and for the gradient the gates, all tanh(c'), h and c.
    """
    gates = products(x, w_ih, bias)
    size = c.shape[1]
    h, c = h.copy(), c.copy()
    y, h_before = np.empty((2, len(x), h.shape[1]), x.dtype)
    tanh_c, c_before = np.empty((2, len(x), size), x.dtype)
    for rows in steps:
        z, out, tanh, h_past, c_past = [a[rows] for a in (gates, y, tanh_c, h_before, c_before)]
        h_now, c_now = h[: len(z)], c[: len(z)]
        h_past[...], c_past[...] = h_now, c_now
        z += h_past.dot(w_hh.T)
        i, f, g, o = split(z, 4)
        sigmoid(z[:, : 2 * size])
        np.tanh(g, g)
        sigmoid(o)
        c_now *= f
        c_now += i * g
        np.tanh(c_now, tanh)
        if w_hr is None:
            np.multiply(o, tanh, out)
        else:
            np.dot(o * tanh, w_hr.T, out)
        h_now[...] = out
    return y, h, c, gates, tanh_c, h_before, c_before


def lstm_gradient(
    dy: Array,
    dh: Array,
    dc: Array,
    gates: Array,
    tanh_c: Array,
    c_before: Array,
    w_hh: Array,
    w_hr: Array | None,
    steps: Spans,
) -> tuple[Array, ...]:
    """The gradients of what the gates are taken of, of the first h and c, and of all h'."""
    dz, dh, dc = np.empty_like(gates), dh.copy(), dc.copy()
    dr = np.empty_like(dy)
    for rows in reversed(steps):
        z, d, tanh = gates[rows], dz[rows], tanh_c[rows]
        h_future, c_future = dh[: len(z)], dc[: len(z)]
        h_future += dy[rows]
        dout = h_future
        if w_hr is not None:
            dr[rows] = dout
            dout = dout.dot(w_hr)
        i, f, g, o = split(z, 4)
        di, df, dg, do = split(d, 4)
        np.multiply(z, z, d)
        np.subtract(z, d, d)  # σ' = σ - σ²
        dg += 1 - g  # tanh' = 1 - tanh²
        term = dout * tanh
        do *= term
        term *= tanh
        np.subtract(dout, term, term)
        term *= o
        c_future += term
        di *= np.multiply(c_future, g, term)
        df *= np.multiply(c_future, c_before[rows], term)
        dg *= np.multiply(c_future, i, term)
        c_future *= f
        d.dot(w_hh, h_future)
    return dz, dh, dc, dr


def gru(
    x: Array,
    h: Array,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    steps: Spans,
) -> tuple[Array, ...]:
    """r, z = σ of W x + b + W h + b;  n = tanh(W x + b + r (W h + b));  h' = n + z (h - n).

    Gives all h' and the last; and for the gradient r, z and n, the (W h + b) in n, and all h.
    """
    gates = products(x, w_ih, b_ih)
    size = h.shape[1]
    h = h.copy()
    y, inner, before = np.empty((3, len(x), size), x.dtype)
    for rows in steps:
        a, out, inside, past = gates[rows], y[rows], inner[rows], before[rows]
        now = h[: len(a)]
        past[...] = now
        b = products(past, w_hh, b_hh)
        inside[...] = b[:, 2 * size :]
        r, z, n = split(a, 3)
        both = a[:, : 2 * size]
        both += b[:, : 2 * size]
        sigmoid(both)
        n += r * inside
        np.tanh(n, n)
        now -= n
        now *= z
        now += n
        out[...] = now
    return y, h, gates, inner, before


def gru_gradient(
    dy: Array, dh: Array, gates: Array, inner: Array, before: Array, w_hh: Array, steps: Spans
) -> tuple[Array, ...]:
    """The gradients of all W x + b and W h + b, and of the first h."""
    dx, dz, dh = np.empty_like(gates), np.empty_like(gates), dh.copy()
    size = dh.shape[1]
    for rows in reversed(steps):
        a, d, e = gates[rows], dx[rows], dz[rows]
        future = dh[: len(a)]
        future += dy[rows]
        r, z, n = split(a, 3)
        d_r, d_z, d_n = split(d, 3)
        np.multiply(a, a, d)
        np.subtract(a, d, d)  # σ' = σ - σ²
        d_n += 1 - n  # tanh' = 1 - tanh²
        term = before[rows] - n
        term *= future
        d_z *= term
        np.multiply(future, z, term)
        future -= term
        d_n *= future
        d_r *= np.multiply(d_n, inner[rows], future)
        e[:, : 2 * size] = d[:, : 2 * size]
        np.multiply(d_n, r, e[:, 2 * size :])
        e.dot(w_hh, future)
        future += term
    return dx, dz, dh
