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


def sigmoid(x: Array, one: Array) -> None:
    """Replaces x by 1 / (1 + exp(-x))."""
    np.negative(x, x)
    np.exp(x, x)
    np.add(x, one, x)
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

    Gives all h', the last h' and c'; and for the gradient the gates (i, f, unused, o), all g,
    tanh(c'), h and c. One σ over contiguous rows is quicker than two that leave g out.
    """
    gates, one = products(x, w_ih, bias), np.ones((), x.dtype)
    h, c = h.copy(), c.copy()
    y, h_before = np.empty((2, len(x), h.shape[1]), x.dtype)
    new, tanh_c, c_before = np.empty((3, len(x), c.shape[1]), x.dtype)
    for rows in steps:
        z, g, tanh, out = gates[rows], new[rows], tanh_c[rows], y[rows]
        h_past, c_past, h_now, c_now = h_before[rows], c_before[rows], h[: len(z)], c[: len(z)]
        h_past[...], c_past[...] = h_now, c_now
        z += h_past.dot(w_hh.T)
        i, f, before, o = split(z, 4)
        np.tanh(before, g)
        sigmoid(z, one)
        c_now *= f
        c_now += i * g
        np.tanh(c_now, tanh)
        if w_hr is None:
            np.multiply(o, tanh, out)
        else:
            np.dot(o * tanh, w_hr.T, out)
        h_now[...] = out
    return y, h, c, gates, new, tanh_c, h_before, c_before


def lstm_gradient(
    dy: Array,
    dh: Array,
    dc: Array,
    gates: Array,
    new: Array,
    tanh_c: Array,
    c_before: Array,
    w_hh: Array,
    w_hr: Array | None,
    steps: Spans,
) -> tuple[Array, ...]:
    """The gradients of what the gates are taken of, of the first h and c, and of all h'."""
    dz, dh, dc = np.empty_like(gates), dh.copy(), dc.copy()
    dr, one = np.empty_like(dy), np.ones((), dy.dtype)
    for rows in reversed(steps):
        z, d, g, tanh = gates[rows], dz[rows], new[rows], tanh_c[rows]
        h_future, c_future = dh[: len(z)], dc[: len(z)]
        h_future += dy[rows]
        dout = h_future
        if w_hr is not None:
            dr[rows] = dout
            dout = dout.dot(w_hr)
        i, f, _, o = split(z, 4)
        di, df, dg, do = split(d, 4)
        np.multiply(z, z, d)
        np.subtract(z, d, d)  # σ' = σ - σ²
        term = dout * tanh
        do *= term
        term *= tanh
        np.subtract(dout, term, term)
        term *= o
        c_future += term
        di *= np.multiply(c_future, g, term)
        df *= np.multiply(c_future, c_before[rows], term)
        np.multiply(g, g, term)
        np.subtract(one, term, term)  # tanh' = 1 - tanh²
        term *= c_future
        np.multiply(term, i, dg)
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

    Gives all h' and the last; and for the gradient the gates (r, z, unused), all n, the (W h + b)
    in n, and all h.
    """
    gates, one = products(x, w_ih, b_ih), np.ones((), x.dtype)
    size, h = h.shape[1], h.copy()
    y, new, inner, before = np.empty((4, len(x), size), x.dtype)
    for rows in steps:
        a, n, inside, past, out = gates[rows], new[rows], inner[rows], before[rows], y[rows]
        now = h[: len(a)]
        past[...] = now
        b = products(past, w_hh, b_hh)
        inside[...], n[...] = b[:, 2 * size :], a[:, 2 * size :]
        a += b
        sigmoid(a, one)
        r, z, _ = split(a, 3)
        n += r * inside
        np.tanh(n, n)
        now -= n
        now *= z
        now += n
        out[...] = now
    return y, h, gates, new, inner, before


def gru_gradient(
    dy: Array,
    dh: Array,
    gates: Array,
    new: Array,
    inner: Array,
    before: Array,
    w_hh: Array,
    steps: Spans,
) -> tuple[Array, ...]:
    """The gradients of all W x + b and W h + b, and of the first h."""
    dx, dz, dh = np.empty_like(gates), np.empty_like(gates), dh.copy()
    size, one = dh.shape[1], np.ones((), dy.dtype)
    for rows in reversed(steps):
        a, d, e, n = gates[rows], dx[rows], dz[rows], new[rows]
        future = dh[: len(a)]
        future += dy[rows]
        r, z, _ = split(a, 3)
        d_r, d_z, d_n = split(d, 3)
        np.multiply(a, a, d)
        np.subtract(a, d, d)  # σ' = σ - σ²
        term = before[rows] - n
        term *= future
        d_z *= term
        np.multiply(future, z, term)
        future -= term
        slope = n * n
        np.subtract(one, slope, slope)  # tanh' = 1 - tanh²
        slope *= future
        d_n[...] = slope
        d_r *= slope * inner[rows]
        e[...] = d
        e[:, 2 * size :] *= r
        e.dot(w_hh, future)
        future += term
    return dx, dz, dh
