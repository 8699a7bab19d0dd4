"""The backward engine: deep graphs, memory, cycles, threads, and gradients of one's own."""

from __future__ import annotations

import gc
import resource
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl

DEPTH = 100_000


class Identity(rl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 1
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


CHAINS: dict[str, Callable[[Any], Any]] = {
    "keeps nothing": lambda y: y + 1,
    "keeps operands": lambda y: y * y,
    "keeps its result": lambda y: y.tanh(),
    "in place": lambda y: y.mul_(1.0),
    "custom": Identity.apply,
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Without the cycle collector: what is freed is freed by reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def chain(step: Callable[[Any], Any], depth: int) -> tuple[Any, Any]:
    x = rl.ones(2, requires_grad=True)
    y = x * 1
    for _ in range(depth):
        y = step(y)
    return x, y


@pytest.mark.parametrize("kind", CHAINS)
def test_a_deep_graph_goes_backward_without_recursion(kind: str) -> None:
    depth = DEPTH if kind == "keeps nothing" else DEPTH // 10
    x, y = chain(CHAINS[kind], depth)
    y.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("kind", CHAINS)
def test_a_deep_graph_is_dropped_without_recursion(kind: str) -> None:
    depth = DEPTH if kind == "keeps nothing" else DEPTH // 10
    x, y = chain(CHAINS[kind], depth)
    del y
    assert x.grad is None


def test_a_wide_graph() -> None:
    x = rl.ones(2, requires_grad=True)
    total = rl.zeros(2)
    for _ in range(20_000):
        total = total + x * 2
    total.sum().backward()
    assert x.grad.tolist() == [40_000, 40_000]


GRAPHS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda x: ((x * x + 1) / (x - 5)).sum(),
    "results kept": lambda x: x.exp().tanh().sigmoid().sum(),
    "views": lambda x: x.view(3, 1).t()[0, 1:].sum(),
    "several results": lambda x: sum(part.sum() for part in x.split(1)),
    "sorted": lambda x: x.sort().values.sum(),
    "written to": lambda x: (x * 1).mul_(2).exp_().sum(),
    "written through a view": lambda x: written_through_a_view(x * 1).sum(),
    "matrix product": lambda x: (x.view(3, 1) @ x.view(1, 3)).sum(),
    "custom": lambda x: Identity.apply(x).sum(),
    "hooked": lambda x: hooked(x * 2).sum(),
}


def written_through_a_view(y: Any) -> Any:
    y[1:].mul_(3)
    return y


def hooked(y: Any) -> Any:
    y.register_hook(lambda g: g * 2)
    y.retain_grad()
    return y


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("backward", ["never", "once", "retained", "second order"])
@pytest.mark.usefixtures("no_collector")
def test_a_graph_is_freed_by_reference_counts_alone(kind: str, backward: str) -> None:
    x = rl.tensor([0.5, 1.5, 2.0], requires_grad=True)
    y = GRAPHS[kind](x)
    watched = weakref.ref(y.grad_fn)
    if backward == "once":
        y.backward()
    elif backward == "retained":
        y.backward(retain_graph=True)
    elif backward == "second order":
        (g,) = rl.autograd.grad(y, x, create_graph=True)
        if g.requires_grad:
            g.sum().backward()
        del g
    del y
    assert watched() is None


@pytest.mark.usefixtures("no_collector")
def test_a_million_small_tensors_leave_the_memory_flat() -> None:
    x = rl.ones(4)
    w = rl.ones(4, requires_grad=True)

    def work(count: int) -> None:
        for _ in range(count):
            x + 1
            (w * x).sum()

    work(20_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(120_000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4_000, f"{grown} KiB more"


@pytest.mark.usefixtures("no_collector")
def test_training_leaves_the_memory_flat() -> None:
    w = rl.ones(16, 16, requires_grad=True)
    data = rl.ones(4, 16)

    def work(count: int) -> None:
        for _ in range(count):
            (data @ w).tanh().pow(2).mean().backward()
            with rl.no_grad():
                w.sub_(w.grad * 0.1)
            w.grad = None

    work(1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work(3000)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4_000, f"{grown} KiB more"


def memory(t: Any) -> Any:
    return t.detach().numpy()


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: (a + b).sum(),
        lambda a, b: a.sum() + b.sum(),
        lambda a, b: (a - b).view(4).sum(),
        lambda a, b: (a.t() + b.t()).sum(),
        lambda a, b: rl.cat([a, b]).sum(),
        lambda a, b: rl.stack([a, b]).sum(),
        lambda a, b: (a.expand(3, 2, 2) + b).sum(),
        lambda a, b: (a @ b).sum(),
        lambda a, b: (a * b).sum(),
    ],
)
def test_gradients_are_contiguous_and_share_no_memory(function: Any) -> None:
    a, b = rl.ones(2, 2, requires_grad=True), rl.ones(2, 2, requires_grad=True)
    function(a, b).backward()
    everything = [a, b, a.grad, b.grad]
    for i, first in enumerate(everything):
        for second in everything[i + 1 :]:
            assert not np.shares_memory(memory(first), memory(second))
    for g in (a.grad, b.grad):
        assert g.is_contiguous()
        assert memory(g).flags.writeable


def test_the_gradient_given_to_backward_is_not_taken() -> None:
    x, y = rl.ones(3, requires_grad=True), rl.ones(3, requires_grad=True)
    seed = rl.ones(3)
    (x + y).backward(seed)
    x.grad.add_(5)
    assert seed.tolist() == [1, 1, 1]
    assert y.grad.tolist() == [1, 1, 1]
    x.backward(seed)
    x.grad.add_(5)
    assert seed.tolist() == [1, 1, 1]


def test_two_threads_train_two_models() -> None:
    def train(seed: int) -> list[float]:
        random = np.random.default_rng(seed)
        w = rl.tensor(random.normal(size=(4, 4)), requires_grad=True)
        x = rl.tensor(random.normal(size=(8, 4)))
        losses = []
        for _ in range(100):
            loss = ((x @ w).tanh() - x).pow(2).mean()
            loss.backward()
            losses.append(loss.item())
            with rl.no_grad():
                w -= 0.1 * w.grad
                w.grad = None
        return losses

    expected = [train(seed) for seed in range(2)]
    got: dict[int, list[float]] = {}
    threads = [
        threading.Thread(target=lambda seed=seed: got.update({seed: train(seed)}))
        for seed in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[0], got[1]] == expected


def test_a_hook_may_go_backward_itself() -> None:
    depth = []
    w = rl.ones(2, requires_grad=True)

    def deeper(g: Any) -> None:
        depth.append(len(depth))
        if len(depth) < 5:
            with rl.enable_grad():
                y = w * 1
                y.register_hook(deeper)
                (y * y).sum().backward()

    y = w * 1
    y.register_hook(deeper)
    y.sum().backward()
    assert depth == [0, 1, 2, 3, 4]
    assert w.grad.tolist() == [9, 9]


def test_an_error_in_a_hook_leaves_the_engine_usable() -> None:
    x = rl.ones(2, requires_grad=True)

    def fail(g: Any) -> None:
        raise KeyError("hook")

    for target in (x, x * 1):
        handle = target.register_hook(fail)
        with pytest.raises(KeyError, match="hook"):
            (target * target).sum().backward()
        handle.remove()
    assert rl.is_grad_enabled()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_leaf_that_is_a_view_is_not_written_to() -> None:
    buffer = rl.ones(4)
    leaf = buffer[1:].requires_grad_()
    for part in (leaf, leaf[1:], leaf.split([1, 2])[0]):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            part.mul_(2)
    (leaf[1:] * 3).sum().backward()
    assert leaf.grad.tolist() == [0, 3, 3]
    assert not buffer.requires_grad


def test_an_unrecorded_view_of_a_tracked_tensor_is_not_written_to() -> None:
    y = rl.ones(3, requires_grad=True) * 1
    with rl.no_grad():
        v = y.view(3, 1)
    with pytest.raises(RuntimeError, match="view was created in no_grad"):
        v.add_(1)
    assert y.tolist() == [1, 1, 1]
    with rl.no_grad():
        v.add_(1)
    assert y.tolist() == [2, 2, 2]


def test_the_error_names_the_line_that_wrote() -> None:
    x = rl.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"needed by ExpBackward0.*test_engine\.py:\d+"):
        y.sum().backward()


def test_anomaly_mode_names_the_forward_line() -> None:
    x = rl.tensor([-1.0], requires_grad=True)
    with rl.autograd.detect_anomaly():
        y = x.sqrt()
        with pytest.raises(
            RuntimeError, match=r"Function 'SqrtBackward0' returned nan values.*test_engine\.py:\d+"
        ):
            y.sum().backward()


def test_anomaly_mode_names_the_forward_line_of_an_error() -> None:
    class Broken(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise LookupError("broken")

    with rl.autograd.detect_anomaly():
        y = Broken.apply(rl.ones(2, requires_grad=True)).sum()
        where = r"Error detected in BrokenBackward.*test_engine\.py:\d+"
        with pytest.warns(UserWarning, match=where), pytest.raises(LookupError, match="broken"):
            y.backward()


def test_a_graph_made_in_one_thread_goes_backward_in_another() -> None:
    x = rl.ones(3, requires_grad=True)
    y = (x * x).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == [2, 2, 2]


class TestParametersFromGenerators:
    """What a module's ``parameters()`` yields is taken as it is, without a list around it."""

    def test_grad(self) -> None:
        model = rl.nn.Linear(2, 1)
        found = rl.autograd.grad(model(rl.ones(1, 2)).sum(), model.parameters())
        assert [g.tolist() for g in found] == [[[1.0, 1.0]], [1.0]]

    def test_outputs_and_their_gradients(self) -> None:
        x = rl.ones(2, requires_grad=True)
        outputs = (x * k for k in (1.0, 2.0))
        (slope,) = rl.autograd.grad(outputs, x, (rl.ones(2) for _ in range(2)))
        assert slope.tolist() == [3.0, 3.0]

    def test_backward(self) -> None:
        model, x = rl.nn.Linear(2, 1), rl.ones(1, 2, requires_grad=True)
        rl.autograd.backward(model(x).sum(), inputs=model.parameters())
        assert model.bias.grad.tolist() == [1.0]
        assert x.grad is None

    def test_backward_to_what_is_no_leaf(self) -> None:
        x = rl.ones(2, requires_grad=True)
        y = x * 2
        (y * 3).sum().backward(inputs=iter([y]))
        assert y.grad.tolist() == [3.0, 3.0]
