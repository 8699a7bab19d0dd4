"""Cells say the same of arrays, of tensors and of the scalars of kernels; gradients are theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels.cells import ARRAYS, CELLS, Blocks, Cell, Columns, split
from rushlight.ops.base import ops

ROWS, SIZE = 3, 4


def given(cell: Cell) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """The contributions of inputs and of the product, and the states before."""
    random = np.random.default_rng(0)
    z, p = random.normal(size=(2, ROWS, cell.gates * SIZE))
    return z, p, list(random.normal(size=(cell.states, ROWS, SIZE)))


@pytest.mark.parametrize("name", CELLS)
def test_arrays_and_tensors_agree(name: str) -> None:
    cell = CELLS[name]
    z, p, states = given(cell)
    new, kept = cell.forward(ARRAYS, Columns(z, SIZE), Columns(p, SIZE), *states)
    blocks = [Blocks(rl.tensor(x).chunk(cell.gates, 1)) for x in (z, p)]
    found = cell.forward(ops, *blocks, *[rl.tensor(x) for x in states])
    assert tuple([len(parts) for parts in kept]) == cell.keeps
    for a, b in zip(new, found[0], strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-13)
    for parts, others in zip(kept, found[1], strict=True):
        for a, b in zip(parts, others, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-13)


@pytest.mark.parametrize("name", CELLS)
def test_gradients_are_those_of_the_cell(name: str) -> None:
    cell = CELLS[name]
    z, p, states = given(cell)
    leaves = [rl.tensor(x, requires_grad=True) for x in (z, p, *states)]
    blocks = [Blocks(x.chunk(cell.gates, 1)) for x in leaves[:2]]
    new, kept = cell.forward(ops, *blocks, *leaves[2:])
    tangents = [np.random.default_rng(k).normal(size=(ROWS, SIZE)) for k in range(cell.states)]
    wanted: list[Any] = list(
        rl.autograd.grad(new, leaves, [rl.tensor(t) for t in tangents], allow_unused=True)
    )

    arrays = [[part.detach().numpy() for part in parts] for parts in kept]
    last = [[states[-1]]] if kept else [[new[0].detach().numpy()]]  # what backward reads besides
    found, rests = cell.backward(ARRAYS, tangents, *arrays, *last)
    for gradient, parts in zip(wanted[:2], (found[0], found[-1]), strict=True):
        np.testing.assert_allclose(np.concatenate(parts, 1), gradient.numpy(), rtol=1e-12)
    for gradient, rest in zip(wanted[2:], rests, strict=True):
        assert (gradient is None) == (rest is None)
        if rest is not None:
            np.testing.assert_allclose(rest, gradient.numpy(), rtol=1e-12)
    assert (rests[0] is not None) == cell.passes
    assert len(found) == 1 + cell.passes


def test_columns_are_blocks() -> None:
    array = np.arange(12.0).reshape(2, 6)
    columns = Columns(array, 2) + Columns(array, 2)
    assert columns[1].tolist() == [[4.0, 6.0], [16.0, 18.0]]
    assert [part.tolist() for part in columns.each(np.negative)] == [
        (-2 * part).tolist() for part in split(array, 2)
    ]


def test_a_nan_goes_through_a_cell_of_relu() -> None:
    x = np.array([[np.nan, -1.0, -0.0, 2.0]])
    (h,), _ = CELLS["rnn_relu"].forward(ARRAYS, Columns(x, 4), Columns(0 * x, 4), x)
    np.testing.assert_array_equal(h, [[np.nan, 0, 0, 2]])
