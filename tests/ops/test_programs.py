"""Large ops in dynamic mode: programs from the first call on, and the same bits at every call."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops import programs
from rushlight.ops.programs import Programs

F = rl.nn.functional
LENGTHS = range(20, 30)
CALLS: dict[str, tuple[Any, list[list[int | None]], list[Any]]] = {
    "softmax": (F.softmax, [[None, 90]], [0]),
    "layer_norm": (F.layer_norm, [[None, 100]], [(100,)]),
    "group_norm": (F.group_norm, [[4, 8, None, 5]], [2]),
    "batch_norm": (F.batch_norm, [[4, 8, None, 5]], [None, None, None, None, True]),
    "gelu": (F.gelu, [[None, 100]], []),
    "silu": (F.silu, [[None, 100]], []),
    "cross_entropy": (F.cross_entropy, [[None, 90], [None, 90]], []),
    "conv2d": (F.conv2d, [[2, 8, None, 9], [8, 8, 3, 3]], []),
    "depthwise": (F.conv2d, [[2, 8, None, 9], [8, 1, 3, 3]], [None, 1, 0, 1, 8]),
    "attention": (F.scaled_dot_product_attention, [[2, None, 70]] * 3, [None, 0.0, True]),
}  # functions, shapes of tensors, other arguments


@pytest.fixture
def small_ones_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "LARGE", 1000)


def softmax(x: Any) -> Any:
    return (x * 2).softmax(-1)


def doubled(x: Any) -> Any:
    return x * 2 + 1


def digest(name: str, n: int) -> str:
    """What stands for the bits of a result and of its gradients."""
    call, shapes, numbers = CALLS[name]
    rl.manual_seed(n)
    tensors = [rl.randn([n if size is None else size for size in s]) for s in shapes]
    y = call(*[t.requires_grad_() for t in tensors], *numbers)
    found = [y, *rl.autograd.grad(y.square().sum(), tensors)]
    return hashlib.sha1(b"".join([t.detach().numpy().tobytes() for t in found])).hexdigest()


@pytest.mark.usefixtures("small_ones_are_large")
@pytest.mark.parametrize("name", CALLS)
def test_equal_calls_give_equal_bits_whatever_came_before(name: str) -> None:
    sizes = [64, 40, 41, 64, 40, 64, 41, 41, 64]
    found = [(n, digest(name, n)) for n in sizes]
    assert len({*found}) == 3


def test_bits_do_not_depend_on_the_process() -> None:
    x = "rl.nn.functional.softmax(rl.arange(20000.0).sin().reshape(200, 100), 0)"
    text = f"import rushlight as rl; print([float.hex(n) for n in {x}[7].tolist()])"
    here = [float.hex(n) for _ in range(3) for n in eval(x)[7].tolist()][-100:]
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(here)


def test_each_shape_has_a_program_of_its_own() -> None:
    own = Programs(softmax)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            for n in LENGTHS:
                x = rl.randn(3, n)
                np.testing.assert_allclose(own.run((x,), {}), softmax(x), rtol=1e-5)
    assert [shape for _, shape in own.known] == [(3, n) for n in LENGTHS]


def test_one_program_serves_all_shapes_where_nothing_is_added() -> None:
    own = Programs(doubled, sums=False)
    for n in LENGTHS:
        x = rl.randn(3, n)
        assert own.run((x,), {}).equal(doubled(x))
    (shared,) = own.known.values()
    assert len(shared.known) == 1  # type: ignore[attr-defined]
    assert [len(made) for made in shared.any_size.known.values()] == [1]  # type: ignore[attr-defined]


def test_the_first_programs_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MANY", 4)
    own = Programs(softmax)
    for n in LENGTHS:
        own.run((rl.randn(3, n),), {})
    assert [shape[1] for _, shape in own.known] == [*LENGTHS[-4:]]


def test_what_cannot_be_a_program_is_left_to_numpy() -> None:
    own = Programs(lambda x: rl.tensor(x.tolist()))
    x = rl.randn(3)
    for _ in range(2):
        assert own.run((x,), {}).equal(x)
    assert [*own.known.values()] == [own.call]


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
