"""Loops over time are the steps of their layers, made with ops, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn
from rushlight.kernels import recurrent as kernels
from rushlight.ops import registry
from rushlight.ops.recurrent_scans import Scan

STEPS, ROWS, INPUTS, FEATURES = 5, 3, 4, 6
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
Values = dict[str, np.ndarray]


def given(gates: int, steps: int) -> Values:
    random = np.random.default_rng(0)
    wide, rows = gates * FEATURES, steps * ROWS
    shapes = {
        "z": (rows, wide), "h": (ROWS, FEATURES), "c": (ROWS, FEATURES), "w_hh": (wide, FEATURES),
        "b_hh": (wide,), "dy": (rows, FEATURES), "dh": (ROWS, FEATURES), "dc": (ROWS, FEATURES),
    }  # fmt: skip
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def scan(name: str, values: Values, steps: int, reverse: bool) -> Values:
    """The results of an op by their names; operands are taken from ``values``."""
    op, attrs = registry[name], {"steps": steps, "reverse": reverse}
    operands = [values[x] for x in op.operands]
    found = op.eager(*operands, **attrs)
    results = found if isinstance(found, tuple) else (found,)
    types = op.infer(operands, attrs)
    for y, kind in zip(results, types if isinstance(types, tuple) else (types,), strict=True):
        assert (y.shape, y.dtype) == (kind.shape, kind.dtype)
    return dict(zip(op.results, results, strict=True))


def formula(name: str, values: Values, steps: int, reverse: bool) -> tuple[Values, list[Any]]:
    """The tensors that have gradients; and outputs and last states, made with ops."""
    layer: Any = registry[f"{name}_layer"]
    leaves = {x: rl.tensor(values[x], requires_grad=True) for x in ("z", "h", "c", "w_hh", "b_hh")}
    states = [leaves[x] for x in layer.operands[1 : 1 + layer.states]]
    identity = rl.eye(values["z"].shape[1], dtype=rl.float64)
    bias = leaves["b_hh"] if name == "gru" else None
    weights = [identity, leaves["w_hh"], None, bias, *[None] * (name == "lstm")]
    attrs = {"steps": steps, "sizes": None, "reverse": reverse}
    return leaves, list(layer.formula(leaves["z"], *states, *weights, **attrs))


def agree(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_scans_are_the_formula_and_its_gradient(name: str, steps: int, reverse: bool) -> None:
    values = given(GATES[name], steps)
    leaves, (y, *last) = formula(name, values, steps, reverse)
    found = scan(f"{name}_scan", values, steps, reverse)
    states = [found[x] for x in ("hs", "cs") if x in found]
    before = [x[ROWS:] if reverse else x[:-ROWS] for x in states]
    after = [x[:-ROWS] if reverse else x[ROWS:] for x in states]
    agree(after[0], y.detach().numpy())
    for all_states, wanted, first in zip(states, last, "hc", strict=False):
        agree(all_states[:ROWS] if reverse else all_states[-ROWS:], wanted.detach().numpy())
        agree(all_states[-ROWS:] if reverse else all_states[:ROWS], values[first])

    tangents = [values[x] for x in ("dy", "dh", "dc")][: 1 + len(last)]
    wanted = [
        x for x in leaves if x != ("b_hh" if name != "gru" else "") and (x != "c" or last[1:])
    ]
    gradients = rl.autograd.grad(
        [y, *last], [leaves[x] for x in wanted], [rl.tensor(t) for t in tangents]
    )
    known = {"y": after[0], "h_before": before[0], "c_before": before[-1]}
    taken = scan(f"{name}_scan_gradient", values | found | known, steps, reverse)
    made = {"z": taken.get("dx", taken["dz"]), "h": taken["dh_first"], "c": taken.get("dc_first")}
    made |= {"w_hh": taken["dz"].T @ before[0], "b_hh": taken["dz"].sum(0)}
    for x, gradient in zip(wanted, gradients, strict=True):
        agree(made[x], gradient.numpy())


def test_every_scan_is_tested() -> None:
    names = {op.name for op in registry.values() if isinstance(op, Scan)}
    assert names == {f"{name}_scan{end}" for name in GATES for end in ("", "_gradient")}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_steps_are_taken_in_the_order_of_time(reverse: bool) -> None:
    found = [span.start for span in kernels.spans([2, 2, 1], reverse)]
    assert found == ([4, 2, 0] if reverse else [0, 2, 4])
