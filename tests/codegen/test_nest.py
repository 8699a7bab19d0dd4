"""Nests run their calls for the blocks that they should, where they should."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from rushlight.codegen.fill import FIELDS, NAME
from rushlight.codegen.native import table
from rushlight.codegen.nest import NAME as NEST
from rushlight.codegen.nest import TABLE, Call, Nest, Spot, Unit
from rushlight.runtime import natives

NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
ROWS, COLUMNS, UNITS = 3, 5, 4  # blocks, of one byte each


def zero(spot: Spot) -> Call:
    """A call that writes one byte."""
    numbers = dict.fromkeys(FIELDS, 0) | {"run": 1, "middle_count": 1, "inner_count": 1}
    return Call(NAME, (spot, TABLE), table(FIELDS, numbers, {}), 1)


def touched(calls: dict[tuple[str, bool, bool], list[Call]], causal: bool = False) -> np.ndarray:
    """Which bytes of all units a nest writes."""
    units = [Unit(0, ROWS, COLUMNS)] * UNITS
    nest = Nest(1, 1, ROWS, COLUMNS, causal, units, [0, 1, UNITS], calls)
    memory = np.ones((UNITS, ROWS, COLUMNS), np.uint8)
    numbers = nest.table()
    functions = [natives.address(name) for name in nest.functions]
    buffers = np.array([numbers.ctypes.data, *functions, memory.ctypes.data], np.int64)
    NATIVE(natives.address(NEST))(buffers.ctypes.data, 0, nest.shares)
    return memory == 0


def block() -> Spot:
    offsets = tuple([n * ROWS * COLUMNS for n in range(UNITS)])
    return Spot("memory", 0, offsets, row=COLUMNS, column=1)


@pytest.mark.parametrize("last_row", [False, True])
@pytest.mark.parametrize("last_column", [False, True])
def test_pairs(last_row: bool, last_column: bool) -> None:
    """A call belongs to blocks in the middle, or to the last ones."""
    rows = [ROWS - 1] if last_row else range(ROWS - 1)
    columns = [COLUMNS - 1] if last_column else range(COLUMNS - 1)
    expected = np.zeros((UNITS, ROWS, COLUMNS), bool)
    expected[np.ix_(range(UNITS), rows, columns)] = True
    found = touched({("pair", last_row, last_column): [zero(block())]})
    assert np.array_equal(found, expected)


def test_pairs_above_the_diagonal_are_left_out() -> None:
    both = (False, True)
    found = touched({("pair", r, c): [zero(block())] for r in both for c in both}, causal=True)
    assert np.array_equal(found, np.broadcast_to(np.tri(ROWS, COLUMNS, dtype=bool), found.shape))


@pytest.mark.parametrize("moment", ["begin", "end"])
def test_rows(moment: str) -> None:
    found = touched({(moment, last, False): [zero(block())] for last in (False, True)})
    assert found[:, :, 0].all()
    assert not found[:, :, 1:].any()


def test_columns_and_shares() -> None:
    """Each share writes to memory of its own; there are two."""
    spot = Spot("memory", share=COLUMNS, column=1)
    found = touched({("columns", False, last): [zero(spot)] for last in (False, True)})
    assert found.reshape(-1).tolist() == [n < 2 * COLUMNS for n in range(found.size)]
