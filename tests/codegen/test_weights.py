"""The stages of attention, one block of weights at a time, as NumPy does them."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from rushlight.codegen.native import table
from rushlight.codegen.weights import FIELDS, STAGES
from rushlight.runtime import natives

NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
ROWS, COLUMNS, WIDE, STEP, SCALE = 5, 21, 11, 32, 0.5
KINDS = {"f32": (np.float32, 3e-6), "f64": (np.float64, 1e-14)}


def run(
    name: str, kind: str, arrays: dict[str, np.ndarray], here: tuple[int, int], causal: bool
) -> None:
    extras = tuple([x for x in ("bias", "noise") if x in arrays])
    stage = STAGES[name](kind, natives.registers(), extras)
    numbers = dict.fromkeys(FIELDS, 0) | {
        "columns": COLUMNS,
        "width": WIDE,
        "step": STEP,
        "y_step": WIDE,
        "g_step": WIDE,
        "causal": int(causal),
        "scale": struct.unpack("<q", struct.pack("<d", SCALE))[0],
        "bias_step": COLUMNS,
        "noise_step": COLUMNS,
    }
    own = {**arrays, "table": table(FIELDS, numbers, {}), "here": np.array(here)}
    buffers = np.array([own[x].ctypes.data for x in stage.buffers], np.int64)
    NATIVE(natives.address(stage.name))(buffers.ctypes.data, 0, ROWS)


def scores(draw: np.random.Generator, dtype: type) -> np.ndarray:
    s = np.full((ROWS, STEP), np.nan, dtype)
    s[:, :COLUMNS] = draw.standard_normal((ROWS, COLUMNS)) * 4
    return s


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_a_row(kind: str, causal: bool) -> None:
    """Two blocks, one after the other, and what is left of them: a softmax of both."""
    dtype, tolerance = KINDS[kind]
    draw, row = np.random.default_rng(0), COLUMNS + 2
    made = {
        "y": np.full((ROWS, WIDE), np.nan, dtype),
        "tops": np.full(ROWS, np.nan, dtype),
        "totals": np.full(ROWS, np.nan, dtype),
    }
    v = draw.standard_normal((2 * COLUMNS, WIDE)).astype(dtype)
    bias = draw.standard_normal((ROWS, 2 * COLUMNS)).astype(dtype)
    noise = draw.random((ROWS, 2 * COLUMNS)).astype(dtype)
    given = []
    for number in range(2):
        part = slice(number * COLUMNS, (number + 1) * COLUMNS)
        s = scores(draw, dtype)
        given.append(s[:, :COLUMNS].copy())
        extras = {"bias": bias[:, part].copy(), "noise": noise[:, part].copy()}
        run("weigh", kind, {"s": s, **made, **extras}, (row, part.start), causal)
        made["y"] += s[:, :COLUMNS] @ v[part]
    run("settle", kind, made, (row, 0), causal)
    z = np.concatenate(given, 1) * SCALE + bias
    if causal:
        z[np.arange(2 * COLUMNS) > np.arange(row, row + ROWS)[:, None]] = -np.inf
    p = np.exp(z - z.max(1, keepdims=True))
    total = p.sum(1, keepdims=True)
    np.testing.assert_allclose(made["tops"], z.max(1), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(made["totals"], total[:, 0], rtol=tolerance)
    expected = (p * noise) @ v / total
    np.testing.assert_allclose(made["y"], expected, rtol=0, atol=4 * tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_scores(kind: str) -> None:
    dtype, tolerance = KINDS[kind]
    draw = np.random.default_rng(0)
    s, d = scores(draw, dtype), scores(draw, dtype)
    g, y = draw.standard_normal((2, ROWS, WIDE)).astype(dtype)
    z, slope = s[:, :COLUMNS] * SCALE, d[:, :COLUMNS].copy()
    tops = z.max(1)
    p = np.exp(z - tops[:, None])
    totals, overlaps = p.sum(1), np.full(ROWS, np.nan, dtype)
    run("overlap", kind, {"g": g, "y": y, "overlaps": overlaps}, (0, 0), False)
    np.testing.assert_allclose(overlaps, (g * y).sum(1), rtol=0, atol=10 * tolerance)
    arrays = {"s": s, "d": d, "tops": tops, "totals": totals, "overlaps": overlaps}
    run("unweigh", kind, arrays, (0, 0), False)
    w = p / totals[:, None]
    np.testing.assert_allclose(s[:, :COLUMNS], w, rtol=10 * tolerance)
    expected = (slope - overlaps[:, None]) * w * SCALE
    np.testing.assert_allclose(d[:, :COLUMNS], expected, rtol=0, atol=20 * tolerance)
