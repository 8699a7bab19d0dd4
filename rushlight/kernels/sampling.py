"""Sums of weighted elements, taken from planes at given places.

With x (images, channels, places), w and index (images, terms, results) and g (images, channels,
results), all three functions are derivatives of one form, the sum of w[n,k,o] · x[n,c,i] · g[n,c,o]
where i is index[n,k,o]. The place after the last holds zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

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
            part = elements.take(where, -1, mode="clip")
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
            part = elements.take(where, -1, mode="clip")
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


class Side(NamedTuple):
    """What results are made of along one dimension: one element, or two that follow each other."""

    first: np.ndarray
    outside: list[np.ndarray]
    weights: list[Any]
    slope: Any
    """How a place moves with the number that names it."""


def side(x: np.ndarray, size: int, nearest: bool, padding: str, aligned: bool) -> Side:
    """The elements that the numbers ``x`` name along a dimension, and their weights."""
    kind = x.dtype.type
    slope = kind((size - 1) / 2 if aligned else size / 2)
    place = x + kind(1)
    place *= slope
    if not aligned:
        place -= kind(0.5)
    if padding != "zeros":
        place, slope = _bounded(place, slope, size, padding == "reflection", aligned)
    first = np.rint(place) if nearest else np.floor(place)
    # Written so that NaN is outside.
    outside = [~((first >= -tap) & (first < size - tap)) for tap in range(1 if nearest else 2)]
    if nearest:
        return Side(first.astype(np.int64), outside, [kind(1)], slope)
    place -= first
    return Side(first.astype(np.int64), outside, [kind(1) - place, place], slope)


def _bounded(
    place: np.ndarray, slope: Any, size: int, mirrored: bool, aligned: bool
) -> tuple[np.ndarray, Any]:
    """Places outside brought in: to the border, or mirrored there; and how these places move."""
    kind = place.dtype.type
    if mirrored:
        low, span = (kind(0), kind(size - 1)) if aligned else (kind(-0.5), kind(size))
        if not span:
            return place * kind(0), kind(0)
        distance = place - low
        slope = slope * np.sign(distance)
        distance = np.abs(distance)
        rest, there = np.fmod(distance, span), np.fmod(np.floor_divide(distance, span), 2) == 0
        place = low + np.where(there, rest, span - rest)
        slope = np.where(there, slope, -slope)
    inside = (place > 0) & (place < size - 1)
    # NaN counts as the first place, as in PyTorch.
    clipped = np.nan_to_num(place, nan=0).clip(0, kind(size - 1))
    return np.where(inside, place, clipped), np.where(inside, slope, kind(0))


def sides(
    grid: np.ndarray, plane: tuple[int, ...], mode: str, padding: str, aligned: bool
) -> list[Side]:
    """The sides of all dimensions; the first number of a place belongs to the last of them."""
    numbers = grid.reshape(len(grid), math.prod(grid.shape[1:-1]), len(plane))
    how = mode == "nearest", padding, aligned
    last = len(plane) - 1
    with np.errstate(invalid="ignore"):
        return [side(numbers[..., last - d], n, *how) for d, n in enumerate(plane)]


def places(
    grid: np.ndarray, plane: tuple[int, ...], mode: str, padding: str, aligned: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The weights and the places of the elements that each result of a grid is made of."""
    found = sides(grid, plane, mode, padding, aligned)
    terms = list(itertools.product(*[range(len(s.weights)) for s in found]))
    shape = (len(grid), len(terms), math.prod(grid.shape[1:-1]))
    weights, index = np.empty(shape, grid.dtype), np.empty(shape, np.int64)
    steps = [math.prod(plane[d + 1 :]) for d in range(len(plane))]
    start = found[0].first * steps[0]
    for s, step in zip(found[1:], steps[1:], strict=True):
        start += s.first * step
    for k, taps in enumerate(terms):
        outside, weight = found[0].outside[taps[0]], found[0].weights[taps[0]]
        for s, tap in zip(found[1:-1], taps[1:-1], strict=True):
            outside, weight = outside | s.outside[tap], weight * s.weights[tap]
        np.multiply(weight, found[-1].weights[taps[-1]], weights[:, k])
        offset = sum([step * tap for step, tap in zip(steps, taps, strict=True)])
        np.add(start, offset, index[:, k])
        np.copyto(index[:, k], math.prod(plane), where=outside | found[-1].outside[taps[-1]])
    return weights, index


def places_gradient(
    g: np.ndarray,
    grid: np.ndarray,
    plane: tuple[int, ...],
    mode: str,
    padding: str,
    aligned: bool,
) -> np.ndarray:
    """The gradient of ``grid`` by that of the weights of :func:`places`."""
    slopes = np.zeros(grid.shape, grid.dtype)
    if mode == "nearest":
        return slopes
    found = sides(grid, plane, mode, padding, aligned)
    flat = slopes.reshape(len(grid), g.shape[2], len(plane))
    for k, taps in enumerate(itertools.product(*[range(2)] * len(plane))):
        for d in range(len(plane)):
            part = g[:, k]
            for e, (s, tap) in enumerate(zip(found, taps, strict=True)):
                if e != d:
                    part = part * s.weights[tap]
            column = flat[..., len(plane) - 1 - d]
            (np.add if taps[d] else np.subtract)(column, part, column)
    for d, s in enumerate(found):
        flat[..., len(plane) - 1 - d] *= s.slope
    return slopes
