"""Recorded formulas give what the same formulas give on arrays."""

from __future__ import annotations

import multiprocessing
import random
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.config import config
from rushlight.optim import sweep as module
from rushlight.optim.sweep import PATIENCE, PIECE, WORTH, Lane, Native, Recording, native
from tests import waiting


class Plain:
    """An array with the methods that a formula uses."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def combined(self, operation: Any, other: Any) -> Plain:
        return Plain(operation(self.array, other.array if isinstance(other, Plain) else other))

    def __add__(self, other: Any) -> Plain:
        return self.combined(np.add, other)

    def __sub__(self, other: Any) -> Plain:
        return self.combined(np.subtract, other)

    def __mul__(self, other: Any) -> Plain:
        return self.combined(np.multiply, other)

    def maximum(self, other: Any) -> Plain:
        return self.combined(np.maximum, other)

    def abs(self) -> Plain:
        return Plain(np.abs(self.array))

    def __rsub__(self, other: float) -> Plain:
        return Plain(other - self.array)

    def __rtruediv__(self, other: float) -> Plain:
        return Plain(other / self.array)


def formula(seed: int, values: list[Any]) -> list[Any]:
    """A random expression of four values: what three of them become."""
    choose = random.Random(seed)
    known = list(values)
    for _ in range(choose.randint(0, 12)):
        a, b, number = choose.choice(known), choose.choice(known), choose.choice([1, 0.5, 3.0])
        known.append(
            choose.choice(
                [
                    lambda a=a, b=b: a + b,
                    lambda a=a, b=b: a - b,
                    lambda a=a, b=b: a.maximum(b),
                    lambda a=a, number=number: a * number,
                    lambda a=a, number=number: number - a,
                    lambda a=a, number=number: number / (a.abs() + 1.0),
                ]
            )()
        )
    return [choose.choice(known) for _ in range(3)]  # they may also change places


@pytest.mark.parametrize("seed", range(300))
def test_random_formulas(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = list(rng.standard_normal((4, 5)))
    wanted = [x.array for x in formula(seed, [Plain(a.copy()) for a in arrays])]
    gradient = arrays[1].copy()
    recording = Recording(4)
    new, *state = formula(seed, list(recording.lanes))
    recording.sweep([new, None, *state]).run([arrays], np.dtype(np.float64))
    np.testing.assert_array_equal(arrays[1], gradient)
    for found, expected in zip((arrays[0], *arrays[2:]), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_adam_needs_no_more_than_two_scratch_rows() -> None:
    recording = Recording(4)
    p, g, m, v = recording.lanes
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * (g * g)
    sweep = recording.sweep([p - 0.01 * m / (v.sqrt() + 1e-8), None, m, v])
    assert sweep.plan.scratch == 2
    assert len(sweep.plan.steps) == 12


def test_new_arrays_and_copies() -> None:
    recording = Recording(2)
    p, g = recording.lanes
    x, gradient, first, second = np.ones(3), np.arange(3.0), np.empty(3), np.empty(3)
    sweep = recording.sweep([p - g, None, g, p])
    sweep.run([[x, gradient, first, second]], x.dtype)
    assert (x.tolist(), first.tolist(), second.tolist()) == ([1, 0, -1], [0, 1, 2], [1, 1, 1])


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * PIECE - 1])
def test_sizes_around_a_piece(size: int) -> None:
    recording = Recording(2)
    p, g = recording.lanes
    x, y = np.ones(size, np.float32), np.arange(size, dtype=np.float32)
    recording.sweep([(p + g) * 2.0, None]).run([[x, y]], x.dtype)
    np.testing.assert_array_equal(x, (1 + y) * 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64])
def test_layouts_and_types(dtype: Any) -> None:
    recording = Recording(2)
    p, g = recording.lanes
    sweep = recording.sweep([p - 0.5 * g, None])
    base = (np.arange(24).reshape(4, 6) * (1 + (1j if dtype is np.complex64 else 0))).astype(dtype)
    for view in (lambda a: a, lambda a: a.T, lambda a: a[::2, 1::2], lambda a: a[:, 1]):
        x, y = view(base.copy()), view(base.copy() + 1)
        expected = x - (0.5 * y).astype(dtype)
        sweep.run([[x, y]], np.dtype(np.float32))
        np.testing.assert_allclose(x, expected)


def test_a_factor_of_one_costs_nothing() -> None:
    (p,) = Recording(1).lanes
    assert 1 * p is p
    assert isinstance(p * 1.0, Lane)


def test_numbers_of_numpy() -> None:
    (p,) = (recording := Recording(1)).lanes
    x = np.ones(2, np.float32)
    recording.sweep([np.float32(0.5) * p + np.float64(1)]).run([[x]], x.dtype)
    assert x.tolist() == [1.5, 1.5]


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads share the work, however little it is."""
    before = rl.get_num_threads()
    rl.set_num_threads(2)
    monkeypatch.setattr(module, "LARGE", 1)
    monkeypatch.setattr(module, "ENOUGH", 1)
    yield
    rl.set_num_threads(before)


def squares(count: int) -> bool:
    """Whether a sweep over many arrays squares them all."""
    recording = Recording(1)
    (p,) = recording.lanes
    arrays = [np.full(7, i, np.float32) for i in range(count)]
    recording.sweep([p * p]).run([[a] for a in arrays], np.dtype(np.float32))
    return all([bool((a == i * i).all()) for i, a in enumerate(arrays)])


@pytest.mark.usefixtures("two_threads")
def test_threads_share_the_work() -> None:
    for _ in range(50):
        assert squares(100)


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_a_thread_is_raised() -> None:
    recording = Recording(2)
    p, g = recording.lanes
    sets = [[np.ones(3), np.ones(4)] for _ in range(9)]
    with pytest.raises(ValueError, match="could not be broadcast"):
        recording.sweep([p + g, None]).run(sets, np.dtype(np.float64))


@pytest.mark.usefixtures("two_threads")
def test_threads_are_as_quiet_as_the_caller() -> None:
    w = [rl.zeros(5) for _ in range(50)]
    for p in w:
        p.grad = rl.zeros(5)
    rl.optim.Adam(w, eps=0.0).step()  # warnings are errors here
    assert all([bool(p.isnan().all()) for p in w])


@pytest.mark.usefixtures("two_threads")
@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_forked_process_has_threads_of_its_own() -> None:
    assert squares(9)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(squares, (9,)).get(timeout=waiting.PATIENCE)


def trained(name: str, options: dict[str, Any], fused: bool, monkeypatch: Any) -> list[np.ndarray]:
    """Parameters and state after steps in which gradients are missing and options change."""
    monkeypatch.setattr(config, "fuse_eager", fused)
    random = np.random.default_rng(0)
    shapes = (300, 200), (70_001,), (3, 5), ()
    params = [rl.from_numpy(random.standard_normal(s).astype(np.float32)) for s in shapes]
    for p in params:
        p.requires_grad_()
    optimizer = getattr(rl.optim, name)(params, lr=0.01, **options)
    for i in range(5):
        for p in params:
            p.grad = rl.from_numpy(random.standard_normal(p.shape).astype(np.float32))
        params[i % 2].grad = None if i > 2 else params[i % 2].grad
        optimizer.param_groups[0]["lr"] = 0.01 / (i + 1)
        optimizer.step()
    state = [entry.values() for entry in optimizer.state.values()]
    return [t.detach().numpy() for t in [*params, *chain.from_iterable(state)]]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
        ("Adam", {"amsgrad": True}),
        ("AdamW", {"maximize": True}),
        ("NAdam", {}),
        ("RAdam", {}),
        ("Adamax", {}),
        ("Adadelta", {}),
        ("Adagrad", {}),
        ("RMSprop", {"momentum": 0.9, "centered": True}),
        ("ASGD", {"t0": 2}),
    ],
)
def test_native_code_gives_the_bits_of_numpy(name: str, options: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(native, "swept", PATIENCE)
    runs = [trained(name, options, fused, monkeypatch) for fused in (True, False)]
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_native_code_is_not_given_arrays_of_different_lengths(monkeypatch: Any) -> None:
    monkeypatch.setattr(native, "swept", PATIENCE)
    w = rl.zeros(WORTH, requires_grad=True)
    w.grad = rl.ones(WORTH)
    optimizer = rl.optim.SGD([w], lr=0.1, momentum=0.9)
    optimizer.step()
    optimizer.state[w]["momentum_buffer"] = rl.ones(WORTH - 1)
    with pytest.raises(ValueError, match="could not be broadcast"):
        optimizer.step()


def test_native_code_waits_until_it_is_worth_loading() -> None:
    waiting, formula = Native(), (((np.sqrt, 0),), 1, (1,))
    waiting.load = lambda: lambda *formula: "code"
    sizes = WORTH - 1, PATIENCE // 2, WORTH - 1, PATIENCE // 2, WORTH, WORTH - 1
    found = [waiting.wanted(formula, size, np.dtype(float)) for size in sizes]
    assert found == [None, None, None, "code", "code", None]
