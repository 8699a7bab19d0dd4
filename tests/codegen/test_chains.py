"""Products and the kernels after them, block of rows by block of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F

CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], bool]] = {
    "bias and activation": (lambda x, w, b: (x @ w + b).relu(), [(200, 64), (64, 48), (48,)], True),
    "elementwise alone": (lambda x, w: (x @ w).tanh(), [(200, 64), (64, 48)], True),
    "residual": (lambda x, w: x + x @ w, [(300, 64), (64, 64)], True),
    "softmax of rows": (lambda x, w: (x @ w).softmax(-1), [(200, 64), (64, 48)], True),
    "normalised rows": (lambda x, w: F.layer_norm(x @ w, (48,)), [(200, 64), (64, 48)], True),
    "batches": (lambda x, w: (x @ w).sigmoid(), [(6, 40, 32), (6, 32, 24)], True),
    "odd sizes": (lambda x, w, b: F.gelu(x @ w + b), [(97, 31), (31, 17), (17,)], True),
    "two convolutions": (
        lambda x, w, b, v: F.conv2d(F.conv2d(x, w, b, padding=1).relu(), v),
        [(3, 8, 12, 12), (16, 8, 3, 3), (16,), (4, 16, 1, 1)],
        True,
    ),
    "a convolution in tiles": (
        lambda x, w, b, v: F.conv2d(F.conv2d(x, w, b, padding=1).relu(), v),
        [(2, 32, 30, 27), (32, 32, 3, 3), (32,), (4, 32, 1, 1)],
        True,
    ),
    "few rows and a large matrix": (
        lambda x, w: (x @ w).relu(),
        [(64, 600), (600, 1000)],
        False,
    ),
    "sum of columns": (lambda x, w: (x @ w).sum(0), [(200, 64), (64, 48)], False),
    "transposed": (lambda x, w: (x @ w).T.contiguous() * 2, [(200, 64), (64, 48)], False),
    "a roll of rows": (lambda x, w: (x @ w).roll(1, 0) * 2, [(200, 64), (64, 48)], False),
}


def operands(shapes: list[tuple[int, ...]]) -> list[rl.Tensor]:
    generator = np.random.default_rng(0)
    return [rl.from_numpy(generator.standard_normal(shape)) for shape in shapes]


@pytest.mark.parametrize("name", CASES)
def test_chained_results_are_those_of_dynamic_mode(name: str) -> None:
    function, shapes, _ = CASES[name]
    xs = operands(shapes)
    found = rl.compile(function, fullgraph=True)(*xs)
    np.testing.assert_allclose(found.numpy(), function(*xs).numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_what_reads_its_own_rows_is_chained(name: str) -> None:
    function, shapes, chained = CASES[name]
    steps = rl.compile(function, fullgraph=True).explain(*operands(shapes)).steps
    assert any(["→" in step.what for step in steps]) is chained


def test_threads_change_nothing() -> None:
    function, shapes, _ = CASES["bias and activation"]
    xs = operands(shapes)
    compiled = rl.compile(function, fullgraph=True)
    before = rl.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            rl.set_num_threads(threads)
            results.append(compiled(*xs).numpy())
    finally:
        rl.set_num_threads(before)
    np.testing.assert_array_equal(*results)


def test_a_product_reads_what_it_is_about_to_change() -> None:
    """The update of a weight is not done before all rows have been multiplied with it."""

    def step(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        y = x @ w
        w.copy_(y[: len(w)] * 0.5)
        return y

    x, w = operands([(64, 64), (64, 64)])
    expected = x @ w
    found = rl.compile(step, fullgraph=True)(x, w)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10)
    np.testing.assert_allclose(w.numpy(), expected.numpy() * 0.5, rtol=1e-10)


def test_training_steps_agree() -> None:
    def make() -> tuple[Any, Any]:
        rl.manual_seed(0)
        net = rl.nn.Sequential(rl.nn.Linear(32, 64), rl.nn.GELU(), rl.nn.Linear(64, 32)).double()
        optimizer = rl.optim.SGD(net.parameters(), 0.1, momentum=0.9)

        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = (net(x) - x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step, net

    (x,) = operands([(96, 32)])
    (eager, _), (function, _) = make(), make()
    compiled = rl.compile(function, fullgraph=True)
    for _ in range(5):
        np.testing.assert_allclose(compiled(x).item(), eager(x).item(), rtol=1e-9)
