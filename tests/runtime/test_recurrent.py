"""Loops over time of dynamic mode: where the rows of steps are, and that code stays there."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.microkernel import Registers
from rushlight.config import config
from rushlight.kernels import recurrent as kernels
from rushlight.kernels.recurrent import Weights
from rushlight.ops import registry
from rushlight.runtime import recurrent
from rushlight.runtime.host import WIDTHS, target
from rushlight.runtime.recurrent import ROW, SAME, Calls, Rows, product_of
from rushlight.runtime.verify import OutOfBounds

SIZES = np.array([3, 3, 2, 1])


@pytest.mark.parametrize("reverse", [False, True])
def test_states_before_and_after_steps(reverse: bool) -> None:
    rows = Rows(SIZES, reverse)
    first = np.arange(3.0)[:, None] + 100
    states = rows.states(first)
    after = np.arange(9.0)[:, None]
    steps = [*zip(rows.starts, rows.before, rows.after, SIZES, strict=True)]
    seen = []
    for start, before, behind, size in steps[::-1] if reverse else steps:
        seen.append(states[before : before + size, 0].tolist())
        states[behind : behind + size] = after[start : start + size]
    assert seen == (
        [[100], [8, 101], [6, 7, 102], [3, 4, 5]]
        if reverse
        else [[100, 101, 102], [0, 1, 2], [3, 4], [6]]
    )
    assert rows.at(states, rows.after).tolist() == after.tolist()
    assert rows.last(states)[:, 0].tolist() == ([0, 1, 2] if reverse else [8, 7, 5])
    order = seen[::-1] if reverse else seen
    assert rows.at(states, rows.before)[:, 0].tolist() == [x for step in order for x in step]


def test_steps_do_not_leave_their_arrays() -> None:
    calls = Calls(Rows(SIZES, False), False, 1)
    whole = np.zeros((9, 2), np.float32)
    assert calls.places([(whole, ROW), (whole, SAME)]).shape == (4, 2)
    for wrong in (whole[:8], np.zeros((9, 4), np.float32)[:, ::2]):
        with pytest.raises(OutOfBounds, match="steps need more rows"):
            calls.places([(wrong, ROW)])


def test_so_many_sequences_that_they_would_be_packed_are_left_to_numpy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    how = {"columns": 2048, "inner": 512, "kind": "f32", "vector_bytes": 0}
    assert product_of(rows=4, **how) is not None
    with monkeypatch.context() as patch:  # high tiles read them where they are
        patch.setattr(recurrent, "registers", lambda: Registers(32, 16, True))
        assert product_of.__wrapped__(rows=1 << 12, **how) is None
    net = rl.nn.RNN(1, 512)
    assert net(rl.ones(2, 1 << 12, 1))[0].shape == (2, 1 << 12, 512)


@pytest.mark.parametrize("width", WIDTHS)
def test_wide_layers_are_kernels_too(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if width > target().vector_bytes:
        pytest.skip(f"this processor has no registers of {width} bytes")
    monkeypatch.setattr(config, "vector_bytes", width)
    net = rl.nn.LSTM(8, 256)
    report = rl.compile(lambda x: net(x)[0].sum().backward()).explain(rl.randn(4, 32, 8))
    kinds = {step.kind for step in report.steps if step.what.startswith("lstm_scan")}
    assert kinds == {"kernel"}


def lstm(sizes: Any, features: int = 5) -> tuple[Any, ...]:
    rng, batch = np.random.default_rng(0), sizes[0]
    z = rng.standard_normal((sum(sizes), 4 * features))
    first = [rng.standard_normal((batch, features)) for _ in range(2)]
    weights = Weights(rng.standard_normal((4 * features, features)))
    return z, first, weights


def test_threads_of_python_may_run_loops_at_once() -> None:
    op, (z, first, weights) = registry["lstm_scan"], lstm(SIZES.tolist())
    wanted = kernels.forward(op.cell, z, first, weights, kernels.spans(SIZES.tolist(), False))
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            found: Any = recurrent.forward(op, z, first, weights, SIZES, False, True)
            if not np.allclose(found.y, wanted.y):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
