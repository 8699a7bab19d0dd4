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
from rushlight.kernels.engine import dot

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


def put(targets: Sequence[Array], here: slice, found: Sequence[Sequence[Array]]) -> None:
    """Writes blocks side by side to the rows of a step."""
    for target, blocks in zip(targets, found, strict=True):
        if len(blocks) == 1:
            target[here] = blocks[0]
        else:
            np.concatenate(blocks, 1, target[here])


def replaced(states: Sequence[Array], new: Sequence[Array]) -> Sequence[Array]:
    """The states of all sequences, of which the first ones have new ones."""
    count = len(new[0])
    if count == len(states[0]):
        return new
    return [np.concatenate((x, old[count:])) for x, old in zip(new, states, strict=True)]


def forward(
    cell: Cell, z: Array, first: Sequence[Array], weights: Weights, steps: Spans
) -> Forward:
    """The steps of a layer, whose inputs contribute ``z`` to the gates."""
    w_hh, b_hh, w_hr = weights
    size, states, w_hh = z.shape[1] // cell.gates, first, w_hh.T
    before = [np.empty((len(z), state.shape[1]), z.dtype) for state in first]
    kept = [np.empty((len(z), n * size), z.dtype) for n in cell.keeps]
    y = np.empty_like(before[0])
    for here in steps:
        given = z[here]
        now = [state[: len(given)] for state in states]
        for target, state in zip(before, now, strict=True):
            target[here] = state
        product = dot(now[0], w_hh)
        if b_hh is not None:
            product += b_hh
        new, found = cell.forward(ARRAYS, Columns(given, size), Columns(product, size), *now)
        if w_hr is not None:
            new = (dot(new[0], w_hr.T), *new[1:])
        put(kept, here, found)
        y[here] = new[0]
        states = replaced(states, new)
    return Forward(y, list(states), before, kept)


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
    size, states, dr = len(w_hh) // cell.gates, last, np.empty_like(dy)
    gradients = [np.empty((len(dy), len(w_hh)), dy.dtype) for _ in range(1 + cell.passes)]
    for here in reversed(steps):
        given = dy[here]
        h, *others = [state[: len(given)] for state in states]
        h = h + given
        if w_hr is not None:
            dr[here] = h
            h = dot(h, w_hr)
        saved = [split(array[here], size) for array in read]
        found, (rest, *rests) = cell.backward(ARRAYS, (h, *others), *saved)
        put(gradients, here, found)
        h = dot(gradients[-1][here], w_hh)
        if rest is not None:
            h += rest
        states = replaced(states, (h, *rests))
    return Backward(gradients, list(states), dr)
