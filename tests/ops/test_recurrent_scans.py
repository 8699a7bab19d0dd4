"""Loops over time agree with the kernels of recurrent layers, step by step and backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import rushlight.nn  # noqa: F401 - registers the loops
from rushlight.kernels import recurrent as kernels
from rushlight.ops import registry
from rushlight.ops.recurrent_scans import Scan, times

STEPS, ROWS, INPUTS, FEATURES = 5, 3, 4, 6
Values = dict[str, np.ndarray]
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


class Layer(NamedTuple):
    """What a layer is given, and what its kernels make of it."""

    given: Values
    steps: kernels.Spans
    reverse: bool

    def scan(self, name: str, values: Values) -> Values:
        """The results of an op by their names; operands are taken from ``values``."""
        op = registry[name]
        operands = [values[x] for x in op.operands]
        found = op.eager(*operands, steps=len(self.steps), reverse=self.reverse)
        results = found if isinstance(found, tuple) else (found,)
        types = op.infer(operands, {"steps": len(self.steps), "reverse": self.reverse})
        for y, kind in zip(results, types if isinstance(types, tuple) else (types,), strict=True):
            assert (y.shape, y.dtype) == (kind.shape, kind.dtype)
        return dict(zip(op.results, results, strict=True))

    def after(self, states: np.ndarray) -> np.ndarray:
        """Of the states of all times, those after each step."""
        return states[:-ROWS] if self.reverse else states[ROWS:]

    def before(self, states: np.ndarray) -> np.ndarray:
        return states[ROWS:] if self.reverse else states[:-ROWS]

    def first(self, states: np.ndarray) -> np.ndarray:
        return states[-ROWS:] if self.reverse else states[:ROWS]


def layer(gates: int, steps: int, reverse: bool) -> Layer:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape)

    wide, rows = gates * FEATURES, steps * ROWS
    given = {
        "x": normal(rows, INPUTS),
        "h": normal(ROWS, FEATURES),
        "c": normal(ROWS, FEATURES),
        "w_ih": normal(wide, INPUTS),
        "w_hh": normal(wide, FEATURES),
        "b_ih": normal(wide),
        "b_hh": normal(wide),
        "dy": normal(rows, FEATURES),
        "dh": normal(ROWS, FEATURES),
        "dc": normal(ROWS, FEATURES),
    }
    given["z"] = given["x"] @ given["w_ih"].T + given["b_ih"]
    return Layer(given, kernels.spans([ROWS] * steps, reverse), reverse)


def lstm(of: Layer) -> tuple[Values, Values]:
    """(forward, backward) by the kernels."""
    v = of.given
    y, _, c, gates, new, tanh, h_before, c_before = kernels.lstm(
        v["x"], v["h"], v["c"], v["w_ih"], v["w_hh"], v["b_ih"], None, of.steps
    )
    dz, dh, dc, _ = kernels.lstm_gradient(
        v["dy"], v["dh"], v["dc"], gates, new, tanh, c_before, v["w_hh"], None, of.steps
    )
    all_gates = gates.copy()
    all_gates[:, 2 * FEATURES : 3 * FEATURES] = new
    forward = {"y": y, "last c": c, "gates": all_gates, "tanh": tanh}
    forward |= {"h_before": h_before, "c_before": c_before}
    return forward, {"dz": dz, "dh": dh, "dc": dc}


def gru(of: Layer) -> tuple[Values, Values]:
    v = of.given
    y, _, gates, new, inner, before = kernels.gru(
        v["x"], v["h"], v["w_ih"], v["w_hh"], v["b_ih"], v["b_hh"], of.steps
    )
    dx, dz, dh = kernels.gru_gradient(
        v["dy"], v["dh"], gates, new, inner, before, v["w_hh"], of.steps
    )
    all_gates = np.concatenate((gates[:, : 2 * FEATURES], new), 1)
    forward = {"y": y, "gates": all_gates, "inner": inner, "h_before": before}
    return forward, {"dx": dx, "dz": dz, "dh": dh}


def rnn(of: Layer, relu: bool) -> tuple[Values, Values]:
    v = of.given
    y, _, before = kernels.rnn(v["x"], v["h"], v["w_ih"], v["w_hh"], v["b_ih"], of.steps, relu)
    dz, dh = kernels.rnn_gradient(v["dy"], v["dh"], y, v["w_hh"], of.steps, relu)
    return {"y": y, "h_before": before}, {"dz": dz, "dh": dh}


KERNELS: dict[str, Callable[[Layer], tuple[Values, Values]]] = {
    "lstm": lstm,
    "gru": gru,
    "rnn_tanh": lambda of: rnn(of, False),
    "rnn_relu": lambda of: rnn(of, True),
}


def agree(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("steps", [1, STEPS])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_scans_are_the_kernels(name: str, steps: int, reverse: bool) -> None:
    of = layer(GATES[name], steps, reverse)
    forward, backward = KERNELS[name](of)
    found = of.scan(f"{name}_scan", of.given)
    agree(of.after(found["hs"]), forward["y"])
    agree(of.before(found["hs"]), forward["h_before"])
    agree(of.first(found["hs"]), of.given["h"])
    if name == "lstm":
        agree(of.before(found["cs"]), forward["c_before"])
        agree(of.after(found["cs"])[of.steps[-1]], forward["last c"])
    for part in ("gates", "tanh", "inner"):
        if part in found:
            agree(found[part], forward[part])

    gradients = of.scan(f"{name}_scan_gradient", of.given | forward | found)
    agree(gradients["dz"], backward["dz"])
    agree(of.first(gradients["dhs"]), backward["dh"])
    if name == "lstm":
        agree(of.first(gradients["dcs"]), backward["dc"])
    if name == "gru":
        agree(gradients["dx"], backward["dx"])


def test_every_scan_is_tested() -> None:
    names = {op.name for op in registry.values() if isinstance(op, Scan)}
    assert names == {f"{name}_scan{end}" for name in KERNELS for end in ("", "_gradient")}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_each_step_reads_what_the_one_before_wrote(reverse: bool) -> None:
    steps = [*times(4, 2, reverse)]
    assert [now for now, _, _ in steps] == kernels.spans([2] * 4, reverse)
    assert [past for _, past, _ in steps[1:]] == [after for _, _, after in steps[:-1]]
