"""Attention and transformers against PyTorch: one seed, the same weights, results and curves."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:.*(nested|mismatched)")


def pair(values: np.ndarray, grad: bool = True) -> tuple[Any, Any]:
    """One array here and there."""
    ours, torchs = rl.from_numpy(values.copy()), torch.from_numpy(values.copy())
    return (ours.requires_grad_(), torchs.requires_grad_()) if grad else (ours, torchs)


def close(a: Any, b: Any, tolerance: float = 1e-10) -> None:
    if b is None:
        assert a is None
        return
    assert a.shape == b.shape
    np.testing.assert_allclose(
        a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance
    )


def made(name: str, *args: Any, seed: int, **options: Any) -> tuple[Any, Any]:
    """A module here and there, from one seed."""
    modules = []
    for lib in (rl, torch):
        lib.manual_seed(seed)
        modules.append(getattr(lib.nn, name)(*args, **options, dtype=lib.float64))
    ours, twin = modules
    assert repr(ours) == repr(twin)
    state, wanted = ours.state_dict(), twin.state_dict()
    assert list(state) == list(wanted)
    for key in state:
        close(state[key], wanted[key], 0)
    return ours, twin


def compare(ours: Any, torchs: Any, leaves: list[tuple[Any, Any]], numbers: Any) -> None:
    """Results, and the gradients of their weighted sum for the leaves."""
    total, wanted = 0, 0
    for a, b in zip(ours, torchs, strict=True):
        close(a, b)
        if b is not None:
            weights = numbers.standard_normal(tuple(b.shape))
            total = total + (a * rl.from_numpy(weights.copy())).sum()
            wanted = wanted + (b * torch.from_numpy(weights)).sum()
    total.backward()
    wanted.backward()
    for a, b in leaves:
        close(a.grad, b.grad, 1e-9)


def parameters(ours: Any, twin: Any) -> list[tuple[Any, Any]]:
    return list(zip(ours.parameters(), twin.parameters(), strict=True))


def random_mask(numbers: Any, shape: tuple[int, ...], boolean: bool, grad: bool = False) -> Any:
    """A mask here and there that leaves something open in each row."""
    closed = numbers.random(shape) < 0.4
    closed[..., 0] = False
    if boolean:
        return pair(closed, grad=False)
    return pair(np.where(closed, -np.inf, numbers.standard_normal(shape)), grad)


@pytest.mark.parametrize("seed", range(120))
def test_scaled_dot_product_attention(seed: int) -> None:
    chooser, numbers = random.Random(seed), np.random.default_rng(seed)
    batch = chooser.choice([(), (2,), (2, 3), (2, 1, 2)])
    rows, columns, size, width = [chooser.randint(1, 5) for _ in range(4)]
    shared = (*batch[:-1], 1) if batch and chooser.random() < 0.3 else batch
    q, k, v = (
        pair(numbers.standard_normal((*batch, rows, size))),
        pair(numbers.standard_normal((*shared, columns, size))),
        pair(numbers.standard_normal((*shared, columns, width))),
    )
    leaves, options, twins = [q, k, v], {}, {}
    kind = chooser.choice(["none", "none", "bool", "float", "causal"])
    if kind in ("bool", "float"):
        lead = chooser.choice([(), batch])
        mask = random_mask(numbers, (*lead, rows, columns), kind == "bool", grad=True)
        if kind == "bool":
            mask = ~mask[0], ~mask[1]
        else:
            leaves.append(mask)
        options["attn_mask"], twins["attn_mask"] = mask
    elif kind == "causal":
        options["is_causal"] = twins["is_causal"] = True
    if chooser.random() < 0.3:
        options["scale"] = twins["scale"] = 0.7
    if chooser.random() < 0.3:
        options["dropout_p"] = twins["dropout_p"] = 0.4
    rl.manual_seed(seed)
    ours = rl.nn.functional.scaled_dot_product_attention(q[0], k[0], v[0], **options)
    torch.manual_seed(seed)
    twin = torch.nn.functional.scaled_dot_product_attention(q[1], k[1], v[1], **twins)
    compare([ours], [twin], leaves, numbers)


@pytest.mark.parametrize("boolean", [True, False])
def test_rows_without_an_open_key_are_zero(boolean: bool) -> None:
    numbers = np.random.default_rng(0)
    leaves = [pair(numbers.standard_normal((2, 3, 4))) for _ in range(3)]
    ours, torchs = zip(*leaves, strict=True)
    closed = np.zeros((3, 3), bool)
    closed[1] = True
    mask = pair(~closed if boolean else np.where(closed, -np.inf, 0.0), grad=False)
    y = rl.nn.functional.scaled_dot_product_attention(*ours, mask[0])
    z = torch.nn.functional.scaled_dot_product_attention(*torchs, mask[1])
    assert (y[:, 1] == 0).all()
    compare([y], [z], leaves, numbers)
    grads = rl.autograd.grad(
        rl.nn.functional.scaled_dot_product_attention(*ours, mask[0]).square().sum(),
        ours,
        create_graph=True,
    )
    assert all(bool(g.isfinite().all()) for g in grads)


def test_blocks_of_a_long_sequence() -> None:
    numbers = np.random.default_rng(0)
    leaves = [pair(numbers.standard_normal((2, 3, 700, 8))) for _ in range(3)]
    ours, torchs = zip(*leaves, strict=True)
    y = rl.nn.functional.scaled_dot_product_attention(*ours, is_causal=True)
    z = torch.nn.functional.scaled_dot_product_attention(*torchs, is_causal=True)
    compare([y], [z], leaves, numbers)


def test_weights_too_many_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rushlight.ops.attention.KEPT", 0)
    numbers = np.random.default_rng(0)
    leaves = [pair(numbers.standard_normal((2, 3, 70, 8))) for _ in range(3)]
    leaves.append(pair(numbers.standard_normal((70, 70))))
    ours, torchs = zip(*leaves, strict=True)
    y = rl.nn.functional.scaled_dot_product_attention(*ours)
    z = torch.nn.functional.scaled_dot_product_attention(*torchs)
    compare([y], [z], leaves, numbers)


@pytest.mark.parametrize("seed", range(20))
def test_second_derivatives(seed: int) -> None:
    chooser, numbers = random.Random(seed), np.random.default_rng(seed)
    leaves = [pair(numbers.standard_normal((2, 3, 4))) for _ in range(3)]
    causal = chooser.random() < 0.5
    if not causal:
        leaves.append(pair(numbers.standard_normal((3, 3))))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for lib, tensors in zip((rl, torch), zip(*leaves, strict=True), strict=True):
            attention = lib.nn.functional.scaled_dot_product_attention
            y = attention(*tensors, is_causal=causal)
            grads = lib.autograd.grad((y**3).sum(), tensors, create_graph=True)
            sum([(g**2).sum() for g in grads]).backward()
    for a, b in leaves:
        close(a.grad, b.grad, 1e-8)


@pytest.mark.parametrize("seed", range(120))
def test_multi_head_attention(seed: int) -> None:
    chooser, numbers = random.Random(seed), np.random.default_rng(seed)
    heads = chooser.choice([1, 2, 3])
    size = heads * chooser.randint(1, 3)
    kinds = chooser.choice(["self", "memory", "apart"])
    options: dict[str, Any] = {
        "bias": chooser.random() < 0.7,
        "add_bias_kv": chooser.random() < 0.3,
        "add_zero_attn": chooser.random() < 0.3,
        "dropout": chooser.choice([0.0, 0.0, 0.3]),
        "batch_first": chooser.random() < 0.5,
    }
    if kinds == "apart" and chooser.random() < 0.5:
        options |= {"kdim": 3, "vdim": 2}
    ours, twin = made("MultiheadAttention", size, heads, seed=seed, **options)
    batch, rows, columns = 2, chooser.randint(1, 4), chooser.randint(1, 4)
    batched = chooser.random() < 0.8
    if kinds == "self":
        columns = rows

    def sequence(length: int, features: int) -> tuple[Any, Any]:
        lead = (batch, length) if options["batch_first"] else (length, batch)
        return pair(numbers.standard_normal((*(lead if batched else (length,)), features)))

    q = sequence(rows, size)
    k = q if kinds == "self" else sequence(columns, options.get("kdim", size))
    v = k if kinds != "apart" else sequence(columns, options.get("vdim", size))
    call: list[dict[str, Any]] = [{}, {}]
    boolean = chooser.random() < 0.5
    if chooser.random() < 0.5:
        lead = (batch * heads if batched else heads,) if chooser.random() < 0.5 else ()
        masks = random_mask(numbers, (*lead, rows, columns), boolean)
        call[0]["attn_mask"], call[1]["attn_mask"] = masks
    if chooser.random() < 0.5:
        masks = random_mask(numbers, (batch, columns) if batched else (columns,), boolean)
        call[0]["key_padding_mask"], call[1]["key_padding_mask"] = masks
    for name in ("need_weights", "average_attn_weights"):
        call[0][name] = call[1][name] = chooser.random() < 0.5
    rl.manual_seed(seed)
    result = ours(q[0], k[0], v[0], **call[0])
    torch.manual_seed(seed)
    expected = twin(q[1], k[1], v[1], **call[1])
    compare(result, expected, [q, k, v, *parameters(ours, twin)], numbers)


@pytest.mark.parametrize("seed", range(60))
def test_transformer_layers(seed: int) -> None:
    chooser, numbers = random.Random(seed), np.random.default_rng(seed)
    options: dict[str, Any] = {
        "dropout": chooser.choice([0.0, 0.2]),
        "activation": chooser.choice(["relu", "gelu"]),
        "batch_first": chooser.random() < 0.5,
        "norm_first": chooser.random() < 0.5,
        "bias": chooser.random() < 0.7,
        "layer_norm_eps": chooser.choice([1e-5, 1e-2]),
    }
    name = chooser.choice(["TransformerEncoderLayer", "TransformerDecoderLayer"])
    ours, twin = made(name, 6, 2, 5, seed=seed, **options)
    shape = (2, 3, 6) if options["batch_first"] else (3, 2, 6)
    leaves = [pair(numbers.standard_normal(shape))]
    if name == "TransformerDecoderLayer":
        memory = (2, 4, 6) if options["batch_first"] else (4, 2, 6)
        leaves.append(pair(numbers.standard_normal(memory)))
    side = "src" if len(leaves) == 1 else "tgt"
    call: list[dict[str, Any]] = [{}, {}]
    if chooser.random() < 0.5:
        masks = random_mask(numbers, (3, 3), chooser.random() < 0.5)
        call[0][f"{side}_mask"], call[1][f"{side}_mask"] = masks
    if chooser.random() < 0.5:
        masks = random_mask(numbers, (2, 3), chooser.random() < 0.5)
        call[0][f"{side}_key_padding_mask"], call[1][f"{side}_key_padding_mask"] = masks
    rl.manual_seed(seed)
    result = ours(*[a for a, _ in leaves], **call[0])
    torch.manual_seed(seed)
    expected = twin(*[b for _, b in leaves], **call[1])
    compare([result], [expected], [*leaves, *parameters(ours, twin)], numbers)


@pytest.mark.parametrize("seed", range(6))
def test_a_transformer_has_pytorchs_training_curve(seed: int) -> None:
    options = {"dim_feedforward": 8, "dropout": 0.2, "batch_first": seed % 2 == 0}
    ours, twin = made("Transformer", 4, 2, 2, 2, seed=seed, **options)
    numbers = np.random.default_rng(seed)
    source, target = (
        pair(numbers.standard_normal((3, 3, 4))),
        pair(numbers.standard_normal((3, 3, 4))),
    )
    curves: list[list[float]] = [[], []]
    for curve, lib, model, x, y in zip(
        curves, (rl, torch), (ours, twin), source, target, strict=True
    ):
        lib.manual_seed(seed)
        mask = model.generate_square_subsequent_mask(3, dtype=lib.float64)
        for _ in range(4):
            model.zero_grad()
            loss = (model(x, y, tgt_mask=mask, tgt_is_causal=True) - y.detach()).square().mean()
            loss.backward()
            with lib.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
            curve.append(loss.item())
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-9)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("normalised", [True, False])
def test_padding_is_left_out_without_gradients(aligned: bool, normalised: bool) -> None:
    results = []
    numbers = np.random.default_rng(0)
    x = numbers.standard_normal((2, 3, 4))
    padding = np.array([[False, False, True], [False, True, aligned]])
    for lib in (rl, torch):
        lib.manual_seed(0)
        layer = lib.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dtype=lib.float64)
        norm = lib.nn.LayerNorm(4, dtype=lib.float64) if normalised else None
        encoder = lib.nn.TransformerEncoder(layer, 2, norm).eval()
        with lib.no_grad():
            mask = lib.from_numpy(padding.copy())
            results.append(encoder(lib.from_numpy(x.copy()), src_key_padding_mask=mask))
    close(results[0], results[1])


@pytest.mark.parametrize("length", [3, 300])  # of weights that are kept, and of blocks of them
@pytest.mark.parametrize("how", ["dynamic", "whole", "forward", "any size", "recorded"])
def test_a_row_without_weights_passes_nan_on(how: str, length: int) -> None:
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal((1, 8, length, 4)).astype(np.float32) for _ in range(3)]
    arrays[2][0, 0, 1, 2] = np.nan
    mask = np.ones((length, length), bool)
    mask[1] = False

    def results(library: Any, how: str) -> list[np.ndarray]:
        q, k, v = (library.tensor(a, requires_grad=True) for a in arrays)

        def attend(*operands: Any) -> Any:
            return library.nn.functional.scaled_dot_product_attention(*operands)

        def gradients(*operands: Any) -> Any:
            y = attend(*operands)
            return library.autograd.grad(y.sum(), operands[:3], create_graph=how == "recorded")

        if how == "forward":
            attend = rl.compile(attend)
        elif how in ("whole", "any size"):
            gradients = rl.compile(gradients, dynamic=how == "any size")
        return [g.detach().numpy() for g in gradients(q, k, v, library.tensor(mask))]

    for found, expected in zip(results(rl, how), results(torch, "dynamic"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
