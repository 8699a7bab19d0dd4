"""Recurrent layers as loops of native code."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl

LAYERS = {
    "LSTM": {},
    "GRU": {},
    "RNN": {},
    "LSTM in two directions": {"bidirectional": True},
    "GRU in two directions": {"bidirectional": True},
    "RNN in two directions": {"bidirectional": True},
    "LSTM of two layers": {"num_layers": 2},
    "LSTM without a bias": {"bias": False},
    "GRU without a bias": {"bias": False},
    "RNN of relu": {"nonlinearity": "relu"},
    "LSTM, batches first": {"batch_first": True},
    "LSTM with a projection": {"proj_size": 3},
}


def step_of(name: str, steps: int, rows: int) -> tuple[Any, tuple[Any, ...]]:
    """A function of inputs and first states: the outputs, last states and all gradients."""
    kind, options = name.split()[0].strip(","), LAYERS[name]
    rl.manual_seed(0)
    net = getattr(rl.nn, kind)(5, 7, dtype=rl.float64, **options)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shape = (rows, steps, 5) if options.get("batch_first") else (steps, rows, 5)
    x = rl.randn(shape, dtype=rl.float64, requires_grad=True)
    sizes = (options.get("proj_size", 7), 7)
    states = [rl.randn(count, rows, n, dtype=rl.float64, requires_grad=True) for n in sizes]

    def step(x: Any, *states: Any) -> tuple[Any, ...]:
        y, last = net(x, states if kind == "LSTM" else states[0])
        ends = last if kind == "LSTM" else (last,)
        loss = (y * y.cos()).sum() + sum([(end * end).sum() for end in ends])
        wanted = [x, *states[: len(ends)], *net.parameters()]
        return (y, *ends, *rl.autograd.grad(loss, wanted))

    return step, (x, *states)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("steps", "rows"), [(6, 3), (1, 4), (4, 1)], ids=str)
def test_compiled_layers_are_those_of_dynamic_mode(name: str, steps: int, rows: int) -> None:
    step, operands = step_of(name, steps, rows)
    found = rl.compile(step, fullgraph=True)(*operands)
    for a, b in zip(found, step(*operands), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_no_step_comes_back_to_python(name: str) -> None:
    step, operands = step_of(name, 6, 8)
    steps = rl.compile(step, fullgraph=True).explain(*operands).steps
    assert {found.kind for found in steps} <= {"kernel", "copy"}
    assert [found.what for found in steps if found.what.endswith("_scan_gradient")]


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_threads_change_nothing(name: str) -> None:
    before, results = rl.get_num_threads(), []
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            step, operands = step_of(name, 5, 13)
            results.append(rl.compile(step, fullgraph=True)(*operands))
    finally:
        rl.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("room", [0, 1 << 15], ids=["no room", "room"])
def test_what_only_gradients_read_is_not_kept(
    name: str, room: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("rushlight.codegen.recurrent.LOCAL_BYTES", room)
    monkeypatch.setattr(rl.config, "cache_dir", str(tmp_path))  # where no programs are yet
    step, operands = step_of(name, 6, 3)
    net = rl.nn.Sequential(getattr(rl.nn, name)(5, 7, dtype=rl.float64))
    x = operands[0].detach()
    compiled = rl.compile(lambda x: net(x)[0], fullgraph=True)
    with rl.no_grad():
        found, wanted = compiled(x), net(x)[0]
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)
    with rl.no_grad():
        inference = compiled.explain(x)
    training = rl.compile(step, fullgraph=True).explain(*operands)
    assert inference.totals.arena < training.totals.arena


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("two_ways", [False, True], ids=["forward", "both ways"])
def test_one_program_serves_all_lengths(name: str, two_ways: bool) -> None:
    rl.manual_seed(0)
    layer = getattr(rl.nn, name)(3, 4, bidirectional=two_ways)

    def function(x):
        y = layer(x)[0]
        return [y.detach(), *rl.autograd.grad(y.square().sum(), [*layer.parameters()])]

    compiled = rl.compile(function, fullgraph=True)
    for length in (5, 7, 1, 12, 2):
        x = rl.randn(length, 2, 3)
        for a, b in zip(compiled(x), function(x), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=2e-5)
    assert not compiled.any_size.refused
