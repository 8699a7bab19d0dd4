"""Large ops in dynamic mode: programs for shapes that come again, few of them for many shapes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops import programs
from rushlight.ops.convolution import convolution_work
from rushlight.ops.programs import Programs, steady

F = rl.nn.functional
LENGTHS = range(20, 30)


@pytest.fixture(autouse=True)
def few_shapes_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SEEN": 0, "EXACT": 2, "MANY": 8, "LONG": 30}.items():
        monkeypatch.setattr(programs, name, value)


def softmax(x: Any) -> Any:
    return (x * 2).softmax(-1)


def normalised(x: Any, weight: Any) -> Any:
    return F.layer_norm(x, weight.shape, weight)


def test_few_programs_serve_many_shapes() -> None:
    own = Programs(softmax)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            for n in LENGTHS:
                x = rl.randn(3, n)
                np.testing.assert_allclose(own.run((x,), {}), softmax(x), rtol=1e-5)
    exact, shared = own.compiled.values()
    assert len(exact.known) == 2  # type: ignore[attr-defined]
    assert len(shared.known) == 1  # type: ignore[attr-defined]
    assert [len(made) for made in shared.any_size.known.values()] == [1]  # type: ignore[attr-defined]
    assert len(own.known) == 8


def test_gradients_of_shared_programs() -> None:
    own, weight = Programs(normalised), rl.randn(8, requires_grad=True)
    for n in LENGTHS:
        x = rl.randn(n, 8, requires_grad=True)
        found, wanted = [
            rl.autograd.grad(y.square().sum(), (x, weight))
            for y in (own.run((x,), {"weight": weight}), normalised(x, weight))
        ]
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_shapes_that_come_no_more_make_room() -> None:
    own = Programs(softmax)
    for _ in range(3):
        for n in LENGTHS:  # the last two find no room, since all others come again
            own.run((rl.randn(3, n),), {})
        assert {shape[1] for _, shape in own.known} == {*LENGTHS[:8]}
    for _ in range(10):
        for n in LENGTHS[4:]:
            own.run((rl.randn(3, n),), {})
    assert {shape[1] for _, shape in own.known} >= {*LENGTHS[4:]}


def test_each_layer_of_a_network_has_its_own_program() -> None:
    own = Programs(normalised)
    for _ in range(2):
        for n in range(4, 10):
            weight = rl.ones(n, requires_grad=True)
            own.run((rl.randn(5, n),), {"weight": weight})
    assert [exact for _, exact in own.compiled] == [True] * 6


def test_parameters_of_other_sizes_have_other_programs() -> None:
    parameter, x = rl.ones(3, requires_grad=True), rl.ones(2, 3)
    assert steady(parameter) == steady(rl.nn.Parameter(x[0], requires_grad=False)) == (3,)
    assert steady(x) == steady(parameter * rl.ones(2, 3)) == 2


def test_what_cannot_be_a_program_is_left_to_numpy() -> None:
    own = Programs(lambda x: rl.tensor(x.tolist()))
    x = rl.randn(3)
    for _ in range(2):
        assert own.run((x,), {}).equal(x)
    assert [*own.known.values()] == [own.call]


def test_shapes_are_compiled_when_they_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SEEN", 2)
    own, counts = Programs(softmax), []
    for _ in range(4):
        own.run((rl.randn(3, 4),), {})
        counts.append(len(own.known))
    assert counts == [0, 0, 1, 1]


def test_what_takes_numpy_long_is_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SEEN": 2, "HUGE": 100, "HEAVY": 1000}.items():
        monkeypatch.setattr(programs, name, value)
    own = Programs(softmax, work=lambda x: x[0] * x[1] ** 2)
    for shape in ((3, 4), (3, 18), (3, 19), (1, 99), (1, 10), (10, 10)):
        own.run((rl.randn(shape),), {})
    assert [shape for _, shape in own.known] == [(3, 19), (1, 99), (10, 10)]


@pytest.mark.parametrize(
    ("x", "weight", "work"),
    [
        ((2, 3, 8, 8), (5, 3, 3, 3), 2 * 64 * 5 * 27),
        ((3, 8, 8), (5, 3, 3, 3), 64 * 5 * 27),
        ((2, 4, 8), (4, 1, 3), 2 * 8 * 4 * 3),  # each channel by itself
        ((2, 0, 8), (4, 0, 3), 0),
        ((8,), (4, 1, 3), 0),
    ],
)
def test_work_of_convolutions(x: Any, weight: Any, work: int) -> None:
    assert convolution_work(x, weight) == work


@pytest.mark.parametrize("name", ["silu", "relu", "elu", "hardswish", "leaky_relu", "mish"])
def test_large_activations_in_place(name: str) -> None:
    weight = rl.randn(64, 512, requires_grad=True)
    for _ in range(4):
        own, copied = [
            rl.autograd.grad(getattr(F, name)(weight * 2, inplace=inplace).sum(), weight)[0]
            for inplace in (True, False)
        ]
        np.testing.assert_allclose(own, copied, rtol=1e-5, atol=1e-6)


def places(count: int, *shape: int) -> rl.Tensor:
    return rl.randint(0, count, shape, generator=rl.Generator().manual_seed(1))


LARGE = {
    "sigmoid": lambda x: x.sigmoid(),
    "erf": lambda x: x.erf(),
    "lgamma": lambda x: x.lgamma(),
    "selu": lambda x: rl.selu(x),
    "softplus": lambda x: F.softplus(x, 2.0),
    "logsigmoid": lambda x: F.logsigmoid(x),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "mish": lambda x: F.mish(x),
    "prelu": lambda x: F.prelu(x, x[0]),
    "prod": lambda x: (x / 2 + 1).prod(1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: (x / 9 + 1).cumprod(1),
    "tril": lambda x: x.tril(2),
    "flip": lambda x: x.flip(0, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "gather": lambda x: x.gather(1, places(16, 1040, 20)),
    "index_select": lambda x: x.index_select(0, places(1040, 50)),
    "index_add": lambda x: x.index_add(0, places(1040, 50), x[:50], alpha=2),
    "scatter_add": lambda x: x.scatter_add(1, places(16, 1040, 16), x * x),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x.view(10, 104, 16), x[:104, :6, None] / 99),
}


@pytest.mark.parametrize("name", LARGE)
def test_large_operands_run_as_programs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, x, run, calls = LARGE[name], rl.randn(1040, 16, requires_grad=True), Programs.run, []

    def counted(self: Programs, args: Any, kwargs: Any) -> Any:
        calls.append(self.call.__name__)
        return run(self, args, kwargs)

    monkeypatch.setattr(Programs, "run", counted)
    found = []
    for fuse in (True, False):
        monkeypatch.setattr(rl.config, "fuse_eager", fuse)
        y = function(x)
        (slope,) = rl.autograd.grad(y.square().sum(), x, create_graph=True)
        found.append((y, slope, *rl.autograd.grad(slope.square().sum(), x)))
    assert name in calls
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["sigmoid", "erf", "cumsum", "tril"])
def test_large_operands_in_place(name: str) -> None:
    weight, own = rl.randn(200, 100, requires_grad=True), (1,) if name == "cumsum" else ()
    kept, written = weight * 2, weight * 2
    both = getattr(kept, name)(*own), getattr(written, f"{name}_")(*own)
    slopes = [rl.autograd.grad(y.square().sum(), weight)[0] for y in both]
    for a, b in (both, slopes):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-5, atol=1e-5)
