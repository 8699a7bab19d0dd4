"""Recurrent layers in dynamic mode: native code from a size on, with the results of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn.utils import rnn
from rushlight.runtime import recurrent

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
def small_layers_are_worth_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rushlight.ops.recurrent_layers.LARGE", 1)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The native loops that ran."""
    names: list[str] = []

    def noted(function: Any) -> Any:
        def run(op: Any, *args: Any) -> Any:
            names.append(op.name)
            return function(op, *args)

        return run

    for function in (recurrent.forward, recurrent.backward):
        monkeypatch.setattr(recurrent, function.__name__, noted(function))
    return names


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
def test_native_loops_give_what_numpy_gives(name: str, ran: list[str]) -> None:
    step, operands = layer_of(name)
    agree(step(*operands), by_numpy(step, *operands), 1e-10)
    with rl.no_grad():
        agree(step(*operands), by_numpy(step, *operands), 1e-10)
    assert {"gradient" in loop for loop in ran} == {False, True}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "LSTM with a projection"])
def test_other_dtypes(name: str, dtype: str, tolerance: float, ran: list[str]) -> None:
    step, operands = layer_of(name, getattr(rl, dtype))
    agree(step(*operands), by_numpy(step, *operands), tolerance)
    assert ran


def test_many_steps_of_a_small_layer_are_a_native_loop(
    ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rushlight.ops.recurrent_layers.LARGE", 1 << 12)
    net = rl.nn.LSTM(3, 2)
    for steps in (15, 16):
        x = rl.randn(steps, 1, 3)
        agree([net(x)[0]], [by_numpy(net, x)[0]], 1e-6)
        assert len(ran) == (steps == 16)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "RNN of relu"])
def test_graphs_hold_the_same_loops(name: str) -> None:
    """Of the inputs' product, which dynamic mode leaves to BLAS, nothing is left over here."""
    kind, options = name.split()[0], LAYERS[name]
    net = getattr(rl.nn, kind)(INPUTS, FEATURES, **options)
    for parameter in (net.weight_ih_l0, net.bias_ih_l0, net.bias_hh_l0):
        rl.nn.init.zeros_(parameter)
    states = [rl.randn(1, ROWS, FEATURES) for _ in range(2 if kind == "LSTM" else 1)]

    def step(x: Any, *states: Any) -> Any:
        return net(x, states if kind == "LSTM" else states[0])[0]

    x = rl.randn(STEPS, ROWS, INPUTS)
    assert step(x, *states).equal(rl.compile(step)(x, *states))


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN", "LSTM with a projection"])
def test_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrent, "WAKE", 1)
    before, results, (step, operands) = rl.get_num_threads(), [], layer_of(name, rl.float32)
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            results.append(step(*operands))
    finally:
        rl.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [name for name in LAYERS if "batch" not in name.lower()])
def test_sequences_of_several_lengths(
    name: str, threads: int, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent, "WAKE", 1)
    kind, options = name.split()[0], LAYERS[name]
    net = getattr(rl.nn, kind)(INPUTS, FEATURES, dtype=rl.float64, **options)
    packed = rnn.pack_sequence([rl.randn(n, INPUTS, dtype=rl.float64) for n in (7, 4, 4, 2, 1)])
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    sizes = (options.get("proj_size", FEATURES), FEATURES)[: 2 if kind == "LSTM" else 1]
    states = [rl.randn(count, 5, n, dtype=rl.float64, requires_grad=True) for n in sizes]

    def step() -> Any:
        data = packed.data.clone().requires_grad_()
        given = rnn.PackedSequence(data, packed.batch_sizes)
        y, last = net(given, states if kind == "LSTM" else states[0])
        ends = last if kind == "LSTM" else (last,)
        loss = (y.data * y.data.cos()).sum() + sum([(end * end.sin()).sum() for end in ends])
        return (y.data, *ends, *rl.autograd.grad(loss, [data, *states, *net.parameters()]))

    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        agree(step(), by_numpy(step), 1e-10)
    finally:
        rl.set_num_threads(before)
    assert {"gradient" in loop for loop in ran} == {False, True}


def test_sizes_of_no_packed_sequences_are_left_to_numpy(ran: list[str]) -> None:
    x, h = rl.ones(6, 2), rl.zeros(1, 2, FEATURES)
    weights = [rl.ones(FEATURES, n) for n in (2, FEATURES)]
    rl.rnn_tanh(x, rl.tensor([2, 1, 2, 1]), h, weights, False, 1, 0.0, False, False)
    assert not ran


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


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_equal_calls_give_equal_bits(kind: str, ran: list[str]) -> None:
    net = getattr(rl.nn, kind)(INPUTS, FEATURES, 2, bidirectional=True)
    x, found = rl.randn(STEPS, ROWS, INPUTS), []
    for _ in range(3):
        y = net(x)[0]
        found.append([y, *rl.autograd.grad(y.square().sum(), [*net.parameters()])])
    with rl.no_grad():
        found.append([net(x)[0], *found[0][1:]])
    assert all([a.equal(b) for other in found[1:] for a, b in zip(found[0], other, strict=True)])
    assert len(ran) == 4 * 7


def test_one_kernel_serves_all_lengths_and_batches(ran: list[str]) -> None:
    net = rl.nn.LSTM(INPUTS, FEATURES)
    net(rl.randn(STEPS, ROWS, INPUTS))[0].sum().backward()
    before = recurrent.code_of_cell.cache_info().misses
    for steps in range(2, 8):
        for rows in (1, 2, 5, 30):
            net(rl.randn(steps, rows, INPUTS))[0].sum().backward()
    assert recurrent.code_of_cell.cache_info().misses == before
    assert len(ran) == 50


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
