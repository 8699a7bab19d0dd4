"""Training steps that are run twice from the same seed: in dynamic mode, and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.symbol import TraceError

Step = Callable[..., Any]
Values = dict[str, np.ndarray]


def values(net: rl.nn.Module, *optimizers: rl.optim.Optimizer) -> Values:
    """All that a training has made: parameters, buffers, gradients, the optimizers' memory."""
    found = dict(net.state_dict())
    found |= {f"{name}.grad": p.grad for name, p in net.named_parameters() if p.grad is not None}
    for i, optimizer in enumerate(optimizers):
        for j, entries in optimizer.state_dict()["state"].items():
            found |= {f"optimizer {i}, parameter {j}: {k}": v for k, v in entries.items()}
    return {k: rl.as_tensor(t).detach().double().numpy().copy() for k, t in found.items()}


def programs(compiled: Any) -> int:
    return sum([len(made) for made in compiled.known.values()])


def check_same(a: Values, b: Values, tolerance: float) -> None:
    assert list(a) == list(b)
    for name, expected in a.items():
        near = tolerance * (0.1 + np.abs(expected).max(initial=0))  # sums may cancel to nothing
        np.testing.assert_allclose(b[name], expected, tolerance, near, err_msg=name)


def both(scenario: Callable[[Callable[[Step], Any]], Values], tolerance: float = 1e-10) -> Any:
    """Runs a scenario, which is given what compiles, in both modes; returns what was compiled."""
    made: list[Any] = []

    def compiled(step: Step) -> Any:
        made.append(rl.compile(step, fullgraph=True))
        return made[-1]

    check_same(scenario(lambda step: step), scenario(compiled), tolerance)
    return made[-1]


def dynamic(scenario: Callable[[Callable[[Step], Any]], Values], why: str) -> None:
    """What a graph cannot hold runs in dynamic mode: right, and with one warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = scenario(rl.compile)
    assert [why in str(w.message) for w in caught] == [True], [str(w.message) for w in caught]
    check_same(scenario(lambda step: step), found, 0)
    with pytest.raises(TraceError, match=why):
        scenario(lambda step: rl.compile(step, fullgraph=True))
