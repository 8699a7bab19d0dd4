"""Normalisation in PyTorch and here: several steps of training, then evaluation, and the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Scenarios, attempt, compare

pytest.importorskip("torch")

scenarios = Scenarios()
LAYERS = [
    ("BatchNorm1d", (3,), {}, (6, 3)),
    ("BatchNorm1d", (3,), {"momentum": None}, (6, 3, 2)),
    ("BatchNorm1d", (3,), {"affine": False}, (6, 3)),
    ("BatchNorm1d", (3,), {"track_running_stats": False}, (6, 3)),
    ("BatchNorm1d", (3,), {"bias": False, "eps": 0.1}, (6, 3)),
    ("BatchNorm2d", (3, 1e-3, 0.4), {}, (4, 3, 5, 2)),
    ("BatchNorm3d", (3,), {}, (2, 3, 2, 2, 2)),
    ("SyncBatchNorm", (3,), {}, (2, 3, 2, 2)),
    ("InstanceNorm1d", (3,), {}, (2, 3, 5)),
    ("InstanceNorm1d", (3,), {"affine": True, "track_running_stats": True}, (3, 5)),
    ("InstanceNorm2d", (3,), {"track_running_stats": True}, (2, 3, 4, 4)),
    ("InstanceNorm3d", (3,), {"affine": True, "bias": False}, (2, 3, 2, 2, 2)),
    ("LazyBatchNorm2d", (), {}, (2, 3, 4, 4)),
    ("LazyInstanceNorm1d", (), {}, (2, 3, 4)),
    ("LayerNorm", (4,), {}, (2, 3, 4)),
    ("LayerNorm", ([3, 4],), {"bias": False}, (2, 3, 4)),
    ("LayerNorm", (4,), {"elementwise_affine": False}, (3, 4)),
    ("GroupNorm", (2, 4), {}, (2, 4, 3, 3)),
    ("GroupNorm", (4, 4), {"affine": False}, (2, 4, 3)),
    ("RMSNorm", (4,), {}, (2, 3, 4)),
    ("RMSNorm", ((3, 4), 1e-3, False), {}, (2, 3, 4)),
    ("LocalResponseNorm", (3, 0.5), {}, (2, 5, 3)),
    ("LocalResponseNorm", (2, 0.5, 0.6, 2.0), {}, (2, 5, 3, 3)),
]


@pytest.mark.parametrize(("name", "arguments", "options", "shape"), LAYERS)
def test_training_then_evaluation(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    def body(lib: Any) -> Iterator[Any]:
        lib.manual_seed(0)
        layer = getattr(lib.nn, name)(*arguments, **options)
        for step in range(3):
            x = (lib.randn(shape) * (step + 1) + step).requires_grad_()
            y = layer(x)
            yield y
            (y * lib.randn(shape)).sum().backward()
            yield x.grad
        yield [p.grad for p in layer.parameters()]
        yield [(key, t) for key, t in layer.state_dict().items()]
        yield layer.state_dict()._metadata[""]["version"]
        yield repr(layer)
        yield layer.eval()(lib.randn(shape))

    compare(body, rtol=1e-4, atol=2e-6)


@scenarios
def far_from_zero(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    x = (lib.randn(16, 64, dtype=lib.float64) + 100).float()
    yield lib.nn.functional.layer_norm(x, (64,)) / 100
    yield lib.nn.functional.batch_norm(x, None, None, training=True) / 100


@scenarios
def channels_last(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    x = lib.randn(2, 6, 4, 4).to(memory_format=lib.channels_last)
    yield lib.nn.BatchNorm2d(6)(x)
    yield lib.nn.BatchNorm2d(6).eval()(x)
    yield lib.nn.GroupNorm(2, 6)(x)
    yield lib.nn.InstanceNorm2d(6)(x)


@scenarios
def normal_vectors(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    x = lib.randn(3, 4, requires_grad=True)
    for options in ({}, {"p": 1.0}, {"dim": 0}, {"p": float("inf"), "dim": -1}, {"eps": 5.0}):
        y = lib.nn.functional.normalize(x, **options)
        yield y
        yield lib.autograd.grad((y * y * y).sum(), x)[0]
    out = lib.empty(3, 4)
    lib.nn.functional.normalize(x.detach(), out=out)
    yield out


@scenarios
def second_derivatives(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    functional = lib.nn.functional
    x = lib.randn(3, 4, 5, dtype=lib.float64, requires_grad=True)
    w, b = (lib.rand(4, dtype=lib.float64, requires_grad=True) for _ in range(2))
    for y in (
        functional.batch_norm(x, None, None, w, b, True),
        functional.instance_norm(x, None, None, w, b),
        functional.group_norm(x, 2, w, b),
        functional.layer_norm(x.transpose(1, 2), (4,), w, b),
    ):
        first = lib.autograd.grad((y**3).sum(), (x, w, b), create_graph=True)
        yield list(first)
        yield list(lib.autograd.grad(sum((g * g).sum() for g in first), (x, w, b)))


@scenarios
def errors(lib: Any) -> Iterator[Any]:
    functional, nn = lib.nn.functional, lib.nn
    yield attempt(functional.layer_norm, lib.zeros(2, 3), (4,))
    yield attempt(functional.layer_norm, lib.zeros(2, 3), ())
    yield attempt(functional.layer_norm, lib.zeros(2, 3), (3,), lib.zeros(2))
    yield attempt(functional.layer_norm, lib.zeros(2, 3, dtype=lib.int64), (3,))
    yield attempt(functional.group_norm, lib.zeros(2, 3), 2)
    yield attempt(functional.group_norm, lib.zeros(3), 1)
    yield attempt(functional.batch_norm, lib.zeros(2, 3), None, None)
    yield attempt(functional.batch_norm, lib.zeros(1, 3), None, None, training=True)
    yield attempt(functional.batch_norm, lib.zeros(2, 3), lib.zeros(2), lib.zeros(3))
    yield attempt(functional.batch_norm, lib.zeros(2, 3), None, None, training=True, eps=-1.0)
    yield attempt(functional.instance_norm, lib.zeros(2, 3, 1))
    yield attempt(functional.local_response_norm, lib.zeros(2, 3), 2)
    yield attempt(nn.BatchNorm2d(3), lib.zeros(2, 3))
    yield attempt(nn.GroupNorm, 3, 4)
    yield attempt(nn.InstanceNorm1d(3, affine=True), lib.zeros(2, 4, 5))


@pytest.mark.parametrize("body", scenarios)
def test_scenario(body: Any) -> None:
    compare(body, atol=1e-6)
