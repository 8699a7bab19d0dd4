"""Sums of weighted elements, taken from planes at given places.

With x (images, channels, places), w and index (images, results, terms) and g (images, channels,
results), all three functions are derivatives of one form, the sum of w[n,o,k] · x[n,c,i] · g[n,c,o]
where i is index[n,o,k]. The place after the last holds zero.
"""

from __future__ import annotations

import numpy as np


def pick(x: np.ndarray, w: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The derivative by g: for each result the weighted sum of its elements."""
    images, results, terms = index.shape
    y = np.zeros((images, x.shape[1], results), x.dtype)
    for n, plane in enumerate(_with_zero(x)):
        for k in range(terms):
            part = plane.take(index[n, :, k], 1)
            part *= w[n, :, k]
            y[n] += part
    return y


def put(g: np.ndarray, w: np.ndarray, index: np.ndarray, places: int) -> np.ndarray:
    """The derivative by x: each weighted result added to all places it was taken from."""
    images, channels, _ = g.shape
    x = np.zeros((images, channels, places + 1), g.dtype)
    first = np.arange(0, channels * (places + 1), places + 1).reshape(-1, 1)
    for n in range(images):
        for k in range(index.shape[2]):
            where = first + index[n, :, k]
            np.add.at(x[n].reshape(-1), where.reshape(-1), (g[n] * w[n, :, k]).reshape(-1))
    return x[:, :, :places]


def products(g: np.ndarray, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The derivative by w: for each term the product of result and element, over all channels."""
    w = np.empty(index.shape, g.dtype)
    for n, plane in enumerate(_with_zero(x)):
        for k in range(index.shape[2]):
            part = plane.take(index[n, :, k], 1)
            part *= g[n]
            np.add.reduce(part, 0, out=w[n, :, k])
    return w


def _with_zero(x: np.ndarray) -> np.ndarray:
    wide = np.zeros((*x.shape[:2], x.shape[2] + 1), x.dtype)
    wide[:, :, :-1] = x
    return wide
