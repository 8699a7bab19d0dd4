"""Recurrent layers and packed sequences against PyTorch: one seed, the same weights and results."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn.utils import rnn as packing

torch = pytest.importorskip("torch")
theirs = torch.nn.utils.rnn
CLASSES = ("RNN", "LSTM", "GRU")


def pair(values: np.ndarray) -> tuple[Any, Any]:
    """One array as a leaf here and there."""
    ours = rl.from_numpy(values.copy()).requires_grad_()
    return ours, torch.from_numpy(values.copy()).requires_grad_()


def close(a: Any, b: Any, tolerance: float = 1e-10) -> None:
    if b is None:
        assert a is None
        return
    assert a.shape == b.shape
    np.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance
    )


def configuration(seed: int) -> tuple[str, dict[str, Any]]:
    chooser = random.Random(seed)
    kind = chooser.choice(CLASSES)
    options = {
        "input_size": chooser.randint(1, 4),
        "hidden_size": chooser.randint(2, 5),
        "num_layers": chooser.randint(1, 3),
        "bias": chooser.random() < 0.7,
        "batch_first": chooser.random() < 0.5,
        "bidirectional": chooser.random() < 0.5,
    }
    if options["num_layers"] > 1 and chooser.random() < 0.4:
        options["dropout"] = chooser.choice((0.3, 1.0))
    if kind == "RNN":
        options["nonlinearity"] = chooser.choice(("tanh", "relu"))
    if kind == "LSTM" and chooser.random() < 0.4:
        options["proj_size"] = 1
    return kind, options


def layers(kind: str, options: dict[str, Any], seed: int) -> tuple[Any, Any]:
    """The layer here and there, made from one seed."""
    made = []
    for lib in (rl, torch):
        lib.manual_seed(seed)
        made.append(getattr(lib.nn, kind)(**options, dtype=lib.float64))
    return made[0], made[1]


def states(layer: Any, batch: int | None, numbers: Any) -> tuple[Any, Any]:
    """First states here and there."""
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size]
    if layer.mode == "LSTM":
        sizes.append(layer.hidden_size)
    middle = () if batch is None else (batch,)
    pairs = [pair(numbers.standard_normal((count, *middle, size))) for size in sizes]
    ours, torchs = zip(*pairs, strict=True)
    return (ours, torchs) if len(sizes) == 2 else (ours[0], torchs[0])


def flat(value: Any) -> list[Any]:
    return [value] if not isinstance(value, tuple) else [t for part in value for t in flat(part)]


def compare(ours: Any, torchs: Any, leaves: list[tuple[Any, Any]], numbers: Any) -> None:
    """Results and the gradients of their weighted sum, for the leaves and all weights."""
    results, expected = flat(ours), flat(torchs)
    total, wanted = 0, 0
    for a, b in zip(results, expected, strict=True):
        if b is None or not b.is_floating_point():
            continue
        close(a, b)
        weights = numbers.standard_normal(tuple(b.shape))
        total = total + (a * rl.from_numpy(weights.copy())).sum()
        wanted = wanted + (b * torch.from_numpy(weights)).sum()
    total.backward()
    wanted.backward()
    for a, b in leaves:
        close(a.grad, b.grad, 1e-9)


def run(layer: Any, twin: Any, x: Any, y: Any, hx: Any, hy: Any, seed: int) -> tuple[Any, Any]:
    rl.manual_seed(seed)
    ours = layer(x, hx)
    torch.manual_seed(seed)
    return ours, twin(y, hy)


def weights(layer: Any, twin: Any) -> list[tuple[Any, Any]]:
    names = [name for name, _ in layer.named_parameters()]
    assert names == [name for name, _ in twin.named_parameters()]
    return [(getattr(layer, n), getattr(twin, n)) for n in names]


@pytest.mark.parametrize("seed", range(150))
def test_random_layers(seed: int) -> None:
    kind, options = configuration(seed)
    layer, twin = layers(kind, options, seed)
    assert repr(layer) == repr(twin)
    for a, b in weights(layer, twin):
        close(a, b, 0)
    numbers = np.random.default_rng(seed)
    time, batch = int(numbers.integers(1, 6)), int(numbers.integers(1, 4))
    batched = numbers.random() < 0.8
    lead = ((batch, time) if options["batch_first"] else (time, batch)) if batched else (time,)
    x, y = pair(numbers.standard_normal((*lead, options["input_size"])))
    given = numbers.random() < 0.6
    hx, hy = states(layer, batch if batched else None, numbers) if given else (None, None)
    ours, torchs = run(layer, twin, x, y, hx, hy, seed)
    leaves = [(x, y), *weights(layer, twin)]
    if given:
        leaves += zip(flat(hx), flat(hy), strict=True)
    compare(ours, torchs, leaves, numbers)


@pytest.mark.parametrize("seed", range(100))
def test_random_packed_sequences(seed: int) -> None:
    kind, options = configuration(1000 + seed)
    layer, twin = layers(kind, options, seed)
    numbers = np.random.default_rng(seed)
    batch = int(numbers.integers(1, 5))
    lengths = numbers.integers(1, 6, batch).tolist()
    ordered = numbers.random() < 0.4
    if ordered:
        lengths.sort(reverse=True)
    pairs = [pair(numbers.standard_normal((n, options["input_size"]))) for n in lengths]
    ours, torchs = zip(*pairs, strict=True)
    x = packing.pack_sequence(ours, enforce_sorted=ordered)
    y = theirs.pack_sequence(torchs, enforce_sorted=ordered)
    given = numbers.random() < 0.6
    hx, hy = states(layer, batch, numbers) if given else (None, None)
    (packed, last), (wanted, final) = run(layer, twin, x, y, hx, hy, seed)
    assert packed.batch_sizes.tolist() == wanted.batch_sizes.tolist()
    first, value = bool(numbers.random() < 0.5), float(numbers.random())
    padded, sizes = packing.pad_packed_sequence(packed, first, value, total_length=7)
    expected, counts = theirs.pad_packed_sequence(wanted, first, value, total_length=7)
    assert sizes.tolist() == counts.tolist() == lengths
    leaves = [*pairs, *weights(layer, twin)]
    if given:
        leaves += zip(flat(hx), flat(hy), strict=True)
    compare((padded, last), (expected, final), leaves, numbers)


@pytest.mark.parametrize("seed", range(30))
def test_random_cells(seed: int) -> None:
    chooser = random.Random(seed)
    kind = chooser.choice(("RNNCell", "LSTMCell", "GRUCell"))
    options: dict[str, Any] = {"input_size": 3, "hidden_size": 4, "bias": chooser.random() < 0.6}
    if kind == "RNNCell":
        options["nonlinearity"] = chooser.choice(("tanh", "relu"))
    cell, twin = layers(kind, options, seed)
    assert repr(cell) == repr(twin)
    numbers = np.random.default_rng(seed)
    lead = (2,) if chooser.random() < 0.7 else ()
    x, y = pair(numbers.standard_normal((*lead, 3)))
    hx = hy = None
    leaves = [(x, y), *weights(cell, twin)]
    if chooser.random() < 0.6:
        count = 2 if kind == "LSTMCell" else 1
        pairs = [pair(numbers.standard_normal((*lead, 4))) for _ in range(count)]
        leaves += pairs
        hx, hy = zip(*pairs, strict=True) if count == 2 else pairs[0]
    compare(cell(x, hx), twin(y, hy), leaves, numbers)


@pytest.mark.parametrize("seed", range(24))
def test_second_derivatives(seed: int) -> None:
    kind, options = configuration(2000 + seed)
    options["dropout"] = 0.0
    layer, twin = layers(kind, options, seed)
    numbers = np.random.default_rng(seed)
    x, y = pair(numbers.standard_normal((3, 2, options["input_size"])))
    for lib, network, value in ((rl, layer, x), (torch, twin, y)):
        output, last = network(value)
        total = (output**2).sum() + sum([(t**3).sum() for t in flat(last)])
        wanted = [value, *network.parameters()]
        grads = lib.autograd.grad(total, wanted, create_graph=True)
        sum([(g**2).sum() for g in grads]).backward()
    for a, b in [(x, y), *weights(layer, twin)]:
        close(a.grad, b.grad, 1e-8)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", CLASSES)
def test_half_types_are_close_to_single(kind: str, dtype: str) -> None:
    rl.manual_seed(0)
    layer = getattr(rl.nn, kind)(3, 4, 2)
    x = rl.randn(5, 2, 3)
    expected = layer(x)[0]
    layer.to(getattr(rl, dtype))
    y = layer(x.to(getattr(rl, dtype)))[0]
    assert y.dtype is getattr(rl, dtype)
    close(y.float(), expected, 3e-2)
    y.sum().backward()
    assert layer.weight_hh_l0.grad.dtype is y.dtype


def test_padded_sequences() -> None:
    values = [np.arange(3.0 * n).reshape(n, 3) for n in (2, 4, 1)]
    for first in (False, True):
        for side in ("left", "right"):
            ours = packing.pad_sequence([rl.from_numpy(v) for v in values], first, -1.0, side)
            wanted = theirs.pad_sequence([torch.from_numpy(v) for v in values], first, -1.0, side)
            close(ours, wanted)
            if side == "right":
                lengths = [len(v) for v in values]
                parts = packing.unpad_sequence(ours, rl.tensor(lengths), first)
                for part, v in zip(parts, values, strict=True):
                    close(part, torch.from_numpy(v))


def test_reading_a_packed_sequence() -> None:
    ours = packing.pack_sequence([rl.tensor([1, 2]), rl.tensor([3, 4, 5])], enforce_sorted=False)
    wanted = theirs.pack_sequence(
        [torch.tensor([1, 2]), torch.tensor([3, 4, 5])], enforce_sorted=False
    )
    assert repr(ours) == repr(wanted)
    assert ours.to(rl.float32).data.tolist() == wanted.to(torch.float32).data.tolist()
    assert ours.to(rl.int64) is ours
    assert ours.cpu() is ours
