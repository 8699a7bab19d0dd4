"""Sums of weighted elements, taken from planes at given places.

With x (images, channels, places), w and index (images, terms, results) and g (images, channels,
results), all three functions are derivatives of one form, the sum of w[n,k,o] · x[n,c,i] · g[n,c,o]
where i is index[n,k,o]. The place after the last holds zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

MANY = 1 << 13
"""So many results of one image are worth a call of their own."""

Cut = tuple[Any, Any, np.ndarray, np.ndarray]
"""Which results, which weights of a term, the elements they come from, the places of each term."""


def pick(x: np.ndarray, w: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The derivative by g: for each result the weighted sum of its elements."""
    y = np.zeros((*x.shape[:2], index.shape[2]), x.dtype)
    for results, images, elements, places in _cuts(_with_zero(x), index):
        for k, where in enumerate(places):
            part = elements.take(where, -1)
            part *= w[images, k]
            y[results] += part
    return y


def put(g: np.ndarray, w: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    """The derivative by x: each weighted result added to all places it was taken from."""
    planes = np.zeros((*g.shape[:2], count + 1), g.dtype)
    for results, images, elements, places in _cuts(planes, index):
        flat = elements.reshape(-1)
        rows = np.arange(len(elements)).reshape(-1, 1) * (count + 1) if elements.ndim > 1 else 0
        for k, where in enumerate(places):
            part = g[results] * w[images, k]
            np.add.at(flat, (rows + where).reshape(-1), part.reshape(-1))
    return planes[:, :, :count]


def products(g: np.ndarray, x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """The derivative by w: for each term the product of result and element, over all channels."""
    w = np.zeros(index.shape, g.dtype)
    for results, images, elements, places in _cuts(_with_zero(x), index):
        for k, where in enumerate(places):
            part = elements.take(where, -1)
            part *= g[results]
            w[images, k] += part if elements.ndim == 1 else np.add.reduce(part, 0)
    return w


def _cuts(planes: np.ndarray, index: np.ndarray) -> Iterator[Cut]:
    """The work image by image, all channels at once; if they are small, the other way round."""
    images, channels, size = planes.shape
    if channels > images or channels * index.shape[2] > MANY:
        for n in range(images):
            yield n, n, planes[n], index[n]
    else:
        beginnings = np.arange(images).reshape(-1, 1) * (channels * size)
        places = index.swapaxes(0, 1) + beginnings
        for c in range(channels):
            yield (slice(None), c), slice(None), planes.reshape(-1)[c * size :], places


def _with_zero(x: np.ndarray) -> np.ndarray:
    """Planes with a zero at the end of each."""
    planes = np.zeros((*x.shape[:2], x.shape[2] + 1), x.dtype)
    planes[:, :, :-1] = x
    return planes
