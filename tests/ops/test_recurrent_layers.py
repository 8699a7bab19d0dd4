"""Recurrent layers in dynamic mode: programs from a size on, with the results of NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn.utils import rnn
from rushlight.ops import programs, registry

STEPS, ROWS, INPUTS, FEATURES = 12, 9, 5, 16
LAYERS = {
    "LSTM": {},
    "GRU": {},
    "RNN": {},
    "RNN of relu": {"nonlinearity": "relu"},
    "LSTM of two layers in two directions": {"num_layers": 2, "bidirectional": True},
    "GRU of two layers in two directions": {"num_layers": 2, "bidirectional": True},
    "LSTM without a bias": {"bias": False},
    "GRU without a bias": {"bias": False},
    "RNN in two directions": {"bidirectional": True, "batch_first": True},
    "LSTM, batches first": {"batch_first": True},
    "LSTM with a projection": {"proj_size": 3},
}
Step = tuple[Any, tuple[Any, ...]]


@pytest.fixture(autouse=True)
def small_layers_are_worth_a_program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("rushlight.ops.recurrent_layers.LARGE", 1)
    monkeypatch.setattr(programs, "SEEN", 0)
    yield
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        registry[f"{name}_layer"].__dict__.pop("programs", None)


def made(name: str) -> int:
    """How many programs there are for a layer."""
    kind = name.split()[0].strip(",").lower()
    layers = [op for key, op in registry.items() if key.startswith(kind) and "_layer" in key]
    return sum([len(layer.programs.known) for layer in layers])  # type: ignore[attr-defined]


def by_numpy(function: Any, *args: Any) -> Any:
    rl.config.fuse_eager = False
    try:
        return function(*args)
    finally:
        rl.config.fuse_eager = True


def layer_of(name: str, dtype: Any = rl.float64) -> Step:
    """A function of inputs and first states, and these: outputs, last states and all gradients."""
    kind, options = name.split()[0].strip(","), LAYERS[name]
    net = getattr(rl.nn, kind)(INPUTS, FEATURES, dtype=dtype, **options)
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shape = (ROWS, STEPS) if options.get("batch_first") else (STEPS, ROWS)
    x = rl.randn(*shape, INPUTS, dtype=dtype, requires_grad=True)
    sizes = (options.get("proj_size", FEATURES), FEATURES)[: 2 if kind == "LSTM" else 1]
    states = [rl.randn(count, ROWS, n, dtype=dtype, requires_grad=True) for n in sizes]

    def step(x: Any, *states: Any) -> tuple[Any, ...]:
        y, last = net(x, states if kind == "LSTM" else states[0])
        ends = last if kind == "LSTM" else (last,)
        if not rl.is_grad_enabled():
            return (y, *ends)
        loss = (y * y.cos()).sum() + sum([(end * end).sum() for end in ends])
        return (y, *ends, *rl.autograd.grad(loss, [x, *states, *net.parameters()]))

    return step, (x, *states)


def agree(found: Any, wanted: Any, tolerance: float) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype is b.dtype
        a, b = [t.detach().double().numpy() for t in (a, b)]
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", LAYERS)
def test_programs_give_what_numpy_gives(name: str) -> None:
    step, operands = layer_of(name)
    agree(step(*operands), by_numpy(step, *operands), 1e-10)
    with rl.no_grad():
        agree(step(*operands), by_numpy(step, *operands), 1e-10)
    assert (made(name) > 0) == ("projection" not in name)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_other_dtypes(name: str, dtype: str, tolerance: float) -> None:
    step, operands = layer_of(name, getattr(rl, dtype))
    agree(step(*operands), by_numpy(step, *operands), tolerance)
    assert made(name)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_threads_change_no_bit(name: str) -> None:
    before, results, (step, operands) = rl.get_num_threads(), [], layer_of(name, rl.float32)
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            results.append(step(*operands))
    finally:
        rl.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_sequences_of_several_lengths_are_left_to_numpy(kind: str) -> None:
    net = getattr(rl.nn, kind)(INPUTS, FEATURES, bidirectional=True)
    sequences = [rl.randn(n, INPUTS) for n in (7, 4, 2)]
    packed = net(rnn.pack_sequence(sequences))[0]
    for y, sequence in zip(rnn.unpack_sequence(packed), sequences, strict=True):
        assert rl.allclose(y, by_numpy(net, sequence)[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_second_derivatives_after_a_program(kind: str) -> None:
    net = getattr(rl.nn, kind)(2, 3, dtype=rl.float64)
    x = rl.randn(4, 2, 2, dtype=rl.float64, requires_grad=True)

    def curvature(x: Any) -> Any:
        (g,) = rl.autograd.grad(net(x)[0].sin().sum(), x, create_graph=True)
        return rl.autograd.grad(g.square().sum(), [x, *net.parameters()])

    agree(curvature(x), by_numpy(curvature, x), 1e-10)


def test_a_graph_can_be_walked_twice() -> None:
    net = rl.nn.LSTM(INPUTS, FEATURES)
    x = rl.randn(STEPS, ROWS, INPUTS, requires_grad=True)
    y = net(x)[0].square().sum()
    first, second = [rl.autograd.grad(y, x, retain_graph=True)[0] for _ in range(2)]
    assert first.equal(second)


def test_results_share_nothing_that_can_be_seen() -> None:
    net = rl.nn.LSTM(INPUTS, FEATURES)
    x = rl.randn(STEPS, ROWS, INPUTS)
    with rl.no_grad():
        y, (h, c) = net(x)
        kept = [t.clone() for t in (y, c)]
        h.zero_()
    assert y.equal(kept[0])
    assert c.equal(kept[1])
    y, (h, _) = net(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        h.sum().backward()


def test_kinds_of_calls_are_compiled_when_they_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SEEN", 2)
    net, counts = rl.nn.GRU(INPUTS, FEATURES), []
    for _ in range(4):
        net(rl.randn(STEPS, ROWS, INPUTS))
        counts.append(made("GRU"))
    assert counts == [0, 0, 1, 1]


def test_no_more_programs_than_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rl.config, "programs", 1)
    net = rl.nn.RNN(INPUTS, FEATURES)
    with rl.no_grad():
        for steps in (3, 4, 5):
            net(rl.randn(steps, ROWS, INPUTS))
    assert made("RNN") == 1


@pytest.mark.parametrize(
    ("kind", "gates", "message"),
    [
        ("lstm", 4, "result type Float can't be cast to the desired output type Long"),
        ("gru", 3, "result type Float can't be cast to the desired output type Long"),
        ("rnn_tanh", 1, "mat1 and mat2 must have the same dtype, but got Float and Long"),
    ],
)
def test_integers_are_refused(kind: str, gates: int, message: str) -> None:
    x, h = rl.ones(3, 2, 1, dtype=rl.int64), rl.zeros(1, 2, 2, dtype=rl.int64)
    weights = [rl.ones(2 * gates, n, dtype=rl.int64) for n in (1, 2)]
    states = (h, h) if kind == "lstm" else h
    with pytest.raises(RuntimeError, match=message):
        getattr(rl, kind)(x, states, weights, False, 1, 0.0, False, False, False)


def test_integers_stay_integers_in_a_layer_of_relu() -> None:
    x, h = rl.ones(3, 2, 1, dtype=rl.int64), rl.zeros(1, 2, 2, dtype=rl.int64)
    weights = [rl.ones(2, n, dtype=rl.int64) for n in (1, 2)]
    y, _ = rl.rnn_relu(x, h, weights, False, 1, 0.0, False, False, False)
    assert y[:, 0, 0].tolist() == [1, 3, 7]
