"""Resampling along a dimension: each result is a weighted sum of a few neighbouring elements.

That is a product with a band matrix. It goes by blocks of results: each needs a short run of
elements, so a small dense matrix and NumPy's matrix product serve it. The transpose of the matrix,
cut into blocks in the same way, is the derivative.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rushlight.kernels.engine import matmul

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
BLOCK = 32
"""So many results (or elements, if these are more) make a block: few zeros, a quick product."""


class Map(NamedTuple):
    """How ``outputs`` results come from ``length`` elements: a row of RULES, and what it reads.

    Results are ``scale`` elements apart. The outermost ones stand at the centres of the outermost
    elements if ``aligned``, else all divide the same stretch evenly (:func:`nearest` differs).
    """

    rule: str
    length: int
    outputs: int
    scale: float
    aligned: bool = False


Taps = tuple[np.ndarray, np.ndarray]
"""For each result a row of elements, and a row of their weights."""
Band = tuple[slice, slice, np.ndarray]
"""Results, the run of elements that they need, and the matrix from these to those."""


def resample(x: np.ndarray, dim: int, m: Map, transposed: bool) -> np.ndarray:
    """The product of the matrix of ``m``, or of its transpose, with ``x`` along ``dim``."""
    if m.rule == "nearest":
        index = taps(m, DOUBLE if x.dtype == DOUBLE else FLOAT)[0].reshape(-1)
        if not transposed:
            return x.take(index, dim)
        times = m.outputs // m.length
        if index.size == times * m.length and (index == np.arange(m.outputs) // times).all():
            return _add_neighbours(x, dim, times)
    size = m.length if transposed else m.outputs
    outer, inner = math.prod(x.shape[:dim]), math.prod(x.shape[dim + 1 :])
    shape = (*x.shape[:dim], size, *x.shape[dim + 1 :])
    y = np.empty((outer, size, inner), x.dtype)
    source = x.reshape(outer, x.shape[dim], inner)
    for results, elements, matrix in bands(m, x.dtype, transposed):
        if inner == 1:
            matmul(source[:, elements, 0], matrix.T, y[:, results, 0])
        else:
            matmul(matrix, source[:, elements], y[:, results])
    return y.reshape(shape)


def _add_neighbours(x: np.ndarray, dim: int, count: int) -> np.ndarray:
    """The sums of every ``count`` elements that follow each other."""
    keys = [(slice(None),) * dim + (slice(k, None, count),) for k in range(count)]
    y = x[keys[0]].copy()
    for key in keys[1:]:
        y += x[key]
    return y


def resample_unbounded(x: np.ndarray, dim: int, m: Map, transposed: bool) -> np.ndarray:
    """:func:`resample` of NaN and infinities, which the zeros of a matrix would spread."""
    size = m.length if transposed else m.outputs
    y = np.zeros((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype)
    results, elements = np.moveaxis(y, dim, 0), np.moveaxis(x, dim, 0)
    fillers = has_fillers(m, transposed)
    for r, (row, weights) in enumerate(zip(*taps(m, x.dtype), strict=True)):
        for e, weight in zip(row, weights, strict=True):
            if fillers and not weight:
                continue
            target, source = (e, r) if transposed else (r, e)
            results[target] += weight * elements[source]
    return y


@functools.lru_cache(256)
def bands(m: Map, kind: np.dtype, transposed: bool) -> tuple[Band, ...]:
    """The matrix of ``m``, or its transpose, as blocks of rows without the zeros at their ends."""
    elements, weights = taps(m, kind)
    rows, columns = np.arange(m.outputs).repeat(elements.shape[1]), elements.reshape(-1)
    size = m.outputs
    if transposed:
        rows, columns, size = columns, rows, m.length
    order = rows.argsort(kind="stable")
    rows, columns, weights = rows[order], columns[order], weights.reshape(-1)[order]
    step = max(1, BLOCK * size // max(m.length, m.outputs))
    found = []
    for first in range(0, size, step):
        last = min(first + step, size)
        part = slice(*rows.searchsorted([first, last]))
        run = columns[part]
        start, stop = (int(run.min()), int(run.max()) + 1) if run.size else (0, 0)
        matrix = np.zeros((last - first, stop - start), kind)
        np.add.at(matrix, (rows[part] - first, run - start), weights[part])
        found.append((slice(first, last), slice(start, stop), matrix))
    return tuple(found)


def has_fillers(m: Map, transposed: bool) -> bool:
    """Whether weights of 0 only fill short rows: what they would weigh, NaN or not, is left out."""
    return transposed or m.rule not in ("nearest", "linear", "cubic")


@functools.lru_cache(256)
def taps(m: Map, kind: np.dtype) -> Taps:
    """The elements and weights of each result, computed in the precision ``kind``."""
    return RULES[m.rule](m, kind)


@functools.lru_cache(256)
def transposed_taps(m: Map, kind: np.dtype) -> Taps:
    """The results and weights that each element has a part in; short rows end with weights 0."""
    elements, weights = taps(m, kind)
    order = elements.reshape(-1).argsort(kind="stable")
    times = np.bincount(elements.reshape(-1), minlength=m.length)
    first = np.cumsum(times) - times
    steps = np.arange(times.max(initial=1))
    inside = steps < times.reshape(-1, 1)
    if not order.size:
        return np.zeros((m.length, 0), np.int64), np.zeros((m.length, 0), kind)
    place = order.take(np.minimum(first.reshape(-1, 1) + steps, order.size - 1))
    return place // elements.shape[1], np.where(inside, weights.reshape(-1).take(place), 0)


def centres(m: Map, kind: np.dtype) -> np.ndarray:
    """Where the results stand, if the centres of the elements are 0, 1, 2, …"""
    i, scale, half = np.arange(m.outputs, dtype=kind), kind.type(m.scale), kind.type(0.5)
    return i * scale if m.aligned else (i + half) * scale - half


def nearest(m: Map, kind: np.dtype) -> Taps:
    """The one element under a result: under its left edge, or under its centre if ``aligned``."""
    # Rounding decides between neighbours: as in PyTorch, a fused multiply-add, floored in float32.
    i, scale, half = np.arange(m.outputs), float(kind.type(m.scale)), kind.type(0.5)
    centre = np.maximum((i + 0.5) * scale - 0.5, 0).astype(kind)
    place = centre + half if m.aligned else (i * scale).astype(kind)
    elements = np.minimum(place.astype(np.float32).astype(np.int64), m.length - 1)
    return elements.reshape(-1, 1), np.ones((m.outputs, 1), kind)


def linear(m: Map, kind: np.dtype) -> Taps:
    """The two elements around a result, by nearness."""
    place = np.maximum(centres(m, kind), 0)
    first = np.minimum(place.astype(np.int64), m.length - 1)
    share = np.clip(place - first.astype(kind), 0, 1)
    return np.stack([first, np.minimum(first + 1, m.length - 1)], 1), np.stack(
        [1 - share, share], 1
    )


def cubic(m: Map, kind: np.dtype) -> Taps:
    """The four elements around a result, by the cubic convolution with a = −3/4."""
    place = centres(m, kind)
    first = np.minimum(np.floor(place), m.length - 1)
    share = np.clip(place - first, 0, 1)
    steps = np.arange(-1, 3)
    weights = cubic_kernel(share.reshape(-1, 1) - steps.astype(kind), -0.75)
    elements = first.astype(np.int64).reshape(-1, 1) + steps
    return elements.clip(0, m.length - 1), weights.astype(kind)


def area(m: Map, kind: np.dtype) -> Taps:
    """All elements that a result overlaps, averaged."""
    i = np.arange(m.outputs)
    start, stop = i * m.length // m.outputs, -(-(i + 1) * m.length // m.outputs)
    return _runs(start, stop, lambda _: np.ones(1), kind)


def smooth(radius: float, kernel: Callable[[np.ndarray], np.ndarray]) -> Callable[..., Taps]:
    """The rule that averages by a kernel, which is as wide as results are apart."""

    def rule(m: Map, kind: np.dtype) -> Taps:
        width = max(m.scale, 1.0)
        centre = (np.arange(m.outputs) + 0.5) * m.scale
        start = np.maximum((centre - radius * width + 0.5).astype(np.int64), 0)
        stop = np.minimum((centre + radius * width + 0.5).astype(np.int64), m.length)
        middle = centre.reshape(-1, 1) - 0.5
        return _runs(start, stop, lambda element: kernel((element - middle) / width), kind)

    return rule


def _runs(
    start: np.ndarray, stop: np.ndarray, weigh: Callable[[np.ndarray], np.ndarray], kind: np.dtype
) -> Taps:
    """The elements from ``start`` to ``stop``, weighed so that the weights of a result sum to 1."""
    steps = np.arange(max(1, (stop - start).max(initial=0)))
    elements = start.reshape(-1, 1) + steps
    inside = elements < stop.reshape(-1, 1)
    weights = np.where(inside, weigh(elements), 0.0)
    elements = np.where(inside, elements, start.reshape(-1, 1))
    return elements, (weights / weights.sum(1, keepdims=True)).astype(kind)


def triangle(t: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(t), 0)


def cubic_kernel(t: np.ndarray, a: float = -0.5) -> np.ndarray:
    """The cubic convolution: 1 at 0, 0 at all other integers and beyond ±2, slope ``a`` at ±1."""
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    return np.where(t < 1, near, np.where(t < 2, far, 0.0))


def lanczos_kernel(t: np.ndarray) -> np.ndarray:
    return np.where(np.abs(t) < 3, np.sinc(t) * np.sinc(t / 3), 0.0)


RULES: dict[str, Callable[[Map, np.dtype], Taps]] = {
    "nearest": nearest,
    "linear": linear,
    "cubic": cubic,
    "area": area,
    "smooth linear": smooth(1, triangle),
    "smooth cubic": smooth(2, cubic_kernel),
    "smooth lanczos": smooth(3, lanczos_kernel),
}
