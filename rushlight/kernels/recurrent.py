"""Recurrent layers over all time steps, with NumPy: a product and a cell for each step.

The rows of ``z`` lie step after step. A span is the rows of one step, one for each sequence that
takes part in it; those are always the first sequences. A state has a row for every sequence and a
step replaces the first ones: a sequence that has ended keeps its last state, and going backward in
time one that has not begun keeps its first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rushlight.kernels.cells import ARRAYS, Cell, Columns, split

Array = np.ndarray
Spans = list[slice]


class Weights(NamedTuple):
    """What states are multiplied by: the weight and bias of the gates, and of the state itself."""

    w_hh: Array
    b_hh: Array | None = None
    w_hr: Array | None = None


class Forward(NamedTuple):
    """All h', the last states, those before each step, and what the cell keeps for its gradient."""

    y: Array
    last: list[Array]
    before: list[Array]
    kept: list[Array]


class Backward(NamedTuple):
    """The gradients of blocks, of the first states, and of all h'."""

    blocks: list[Array]
    first: list[Array]
    y: Array


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


def products(x: Array, weight: Array, bias: Array | None) -> Array:
    y = x.dot(weight.T)
    if bias is not None:
        y += bias
    return y


def put(targets: Sequence[Array], here: slice, found: Sequence[Sequence[Array]]) -> None:
    """Writes blocks side by side to the rows of a step."""
    for target, blocks in zip(targets, found, strict=True):
        begin, rows = 0, target[here]
        for block in blocks:
            end = begin + block.shape[1]
            rows[:, begin:end] = block
            begin = end


def forward(
    cell: Cell, z: Array, first: Sequence[Array], weights: Weights, steps: Spans
) -> Forward:
    """The steps of a layer, whose inputs contribute ``z`` to the gates."""
    w_hh, b_hh, w_hr = weights
    states, whole = [state.copy() for state in first], len(first[0])
    before = [np.empty((len(z), state.shape[1]), z.dtype) for state in states]
    y, size = np.empty_like(before[0]), z.shape[1] // cell.gates
    kept = [np.empty((len(z), n * size), z.dtype) for n in cell.keeps]
    for here in steps:
        count = here.stop - here.start
        now = states if count == whole else [state[:count] for state in states]
        for past, state in zip(before, now, strict=True):
            past[here] = state
        product = Columns(products(now[0], w_hh, b_hh), size)
        (h, *others), found = cell.forward(ARRAYS, Columns(z[here], size), product, *now)
        put(kept, here, found)
        y[here] = h if w_hr is None else h.dot(w_hr.T)
        for state, new in zip(now, (y[here], *others), strict=True):
            state[...] = new
    return Forward(y, states, before, kept)


def backward(
    cell: Cell,
    dy: Array,
    last: Sequence[Array],
    read: Sequence[Array],
    weights: Weights,
    steps: Spans,
) -> Backward:
    """The steps taken back; ``last`` are gradients, ``read`` is what the cell's gradient reads."""
    w_hh, _, w_hr = weights
    states, whole, dr = [state.copy() for state in last], len(last[0]), np.empty_like(dy)
    gradients = [np.empty((len(dy), len(w_hh)), dy.dtype) for _ in range(1 + cell.passes)]
    size = len(w_hh) // cell.gates
    for here in reversed(steps):
        count = here.stop - here.start
        now = states if count == whole else [state[:count] for state in states]
        h, *others = now
        h += dy[here]
        dh = h
        if w_hr is not None:
            dr[here] = h
            dh = h.dot(w_hr)
        given = [split(array[here], size) for array in read]
        found, rests = cell.backward(ARRAYS, (dh, *others), *given)
        put(gradients, here, found)
        for state, rest in zip(others, rests[1:], strict=True):
            state[...] = rest
        gradients[-1][here].dot(w_hh, h)
        if rests[0] is not None:
            h += rests[0]
    return Backward(gradients, states, dr)
