"""Workloads that are more than a network, over the namespace of ``rushlight`` or ``torch``.

Each takes the namespace and what to wrap functions in: the framework's ``compile``, or nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.models import images, sequences

Step = Callable[[], Any]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def small_add(lib: Any, wrap: Wrap) -> Step:
    a, b = lib.ones(4, 4), lib.ones(4, 4)
    return partial(wrap(lambda a, b: a + b), a, b)


def large_map(lib: Any, wrap: Wrap) -> Step:
    """sin(x) + cos(y), a million elements each."""
    x, y = lib.randn(1_000_000), lib.randn(1_000_000)
    return partial(wrap(lambda x, y: x.sin() + y.cos()), x, y)


def softmax(lib: Any, wrap: Wrap) -> Step:
    return partial(wrap(lambda x: lib.softmax(x, -1)), lib.randn(1000, 1000))


def layer_norm(lib: Any, wrap: Wrap) -> Step:
    norm = lib.nn.functional.layer_norm
    return partial(wrap(lambda x: norm(x, (1000,))), lib.randn(1000, 1000))


def gelu(lib: Any, wrap: Wrap) -> Step:
    return partial(wrap(lambda x: lib.nn.functional.gelu(x)), lib.randn(1000, 1000))


def draw(lib: Any, wrap: Wrap) -> Step:
    """A million normal numbers."""
    return wrap(lambda: lib.randn(1_000_000))


def twenty_ops(lib: Any, wrap: Wrap) -> Step:
    """Twenty small ops (and a sum) forward and backward."""
    x = lib.randn(4, 4)
    w = lib.randn(4, 4, requires_grad=True)

    def step() -> None:
        w.grad = None
        h = x
        for _ in range(5):
            h = (h * w + x).tanh() - w
        h.sum().backward()

    return wrap(step)


def two_layer_net(lib: Any, wrap: Wrap) -> Step:
    """The two-layer ReLU network 64×1000×100×10: autograd and update."""
    x, y = lib.randn(64, 1000), lib.randn(64, 10)
    w1 = lib.randn(1000, 100, requires_grad=True)
    w2 = lib.randn(100, 10, requires_grad=True)

    def step() -> None:
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        loss.backward()
        with lib.no_grad():
            w1.sub_(1e-6 * w1.grad)
            w2.sub_(1e-6 * w2.grad)
            w1.grad.zero_()
            w2.grad.zero_()

    return wrap(step)


def adam_step(lib: Any, wrap: Wrap) -> Step:
    """A step of Adam on 25 tensors: twelve weights 288×288, their biases, and one more."""
    shapes = [(288, 288), (288,)] * 12 + [(10,)]
    params = [lib.randn(*shape, requires_grad=True) for shape in shapes]
    for p in params:
        p.grad = lib.randn(*p.shape)
    optimizer = lib.optim.Adam(params)
    return wrap(lambda: optimizer.step())


def recurrence(lib: Any, wrap: Wrap) -> Step:
    """h = tanh(x[t] W + h U) while t < 200, for 32 sequences of 128 features: its gradients."""
    x = lib.randn(200, 32, 128)
    w, u = [(lib.randn(128, 128) / 128**0.5).requires_grad_() for _ in range(2)]

    @wrap
    def step() -> Any:
        h, t = lib.zeros(32, 128), lib.zeros((), dtype=lib.int64)
        while t < 200:
            h = (x[t] @ w + h @ u).tanh()
            t = t + 1
        return lib.autograd.grad(h.square().mean(), (w, u))

    return step


def lengths(lib: Any, wrap: Wrap) -> Step:
    """An LSTM of 128 units learns from 64 batches of 16 sequences, each of a length of its own."""
    model = lib.nn.LSTM(64, 128)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
    batches = [lib.randn(length, 16, 64) for length in range(17, 81)]
    random.Random(0).shuffle(batches)

    @wrap
    def learn(x: Any) -> None:
        optimizer.zero_grad()
        model(x)[0].square().mean().backward()
        optimizer.step()

    def step() -> None:
        for x in batches:
            learn(x)

    return step


def tree_lstm(lib: Any, wrap: Wrap) -> Step:
    """A tree-LSTM of 128 units over eight trees of 20 words, each of its own form."""
    chance = random.Random(0)
    trees = [random_tree(chance, leaves=20) for _ in range(8)]
    model = sequences.tree_lstm(lib, 1000, 128)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)

    @wrap
    def step() -> None:
        optimizer.zero_grad()
        lib.cat([model(tree)[0] for tree in trees]).square().mean().backward()
        optimizer.step()

    return step


def random_tree(chance: random.Random, leaves: int) -> sequences.Tree:
    if leaves == 1:
        return chance.randrange(1000)
    left = chance.randrange(1, leaves)
    return random_tree(chance, left), random_tree(chance, leaves - left)


def fed_lenet(lib: Any, wrap: Wrap) -> Step:
    """LeNet learns from fifty batches that a DataLoader shuffles."""
    digits = lib.randint(256, (3200, 1, 28, 28), dtype=lib.uint8)
    dataset = lib.utils.data.TensorDataset(digits, lib.randint(10, (3200,)))
    loader = lib.utils.data.DataLoader(dataset, 64, shuffle=True)
    model = images.lenet(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)

    @wrap
    def learn(x: Any, y: Any) -> None:
        optimizer.zero_grad()
        lib.nn.functional.cross_entropy(model(x.float() / 255), y).backward()
        optimizer.step()

    def step() -> None:
        for x, y in loader:
            learn(x, y)

    return step


def epoch_of_tensors(lib: Any, wrap: Wrap, workers: int) -> Step:
    """An epoch over 60,000 images of bytes and their labels, shuffled, in batches of 64."""
    digits = lib.randint(256, (60_000, 28, 28), dtype=lib.uint8)
    dataset = lib.utils.data.TensorDataset(digits, lib.randint(10, (60_000,)))
    return epoch(lib.utils.data.DataLoader(dataset, 64, True, num_workers=workers))


def epoch_of_samples(lib: Any, wrap: Wrap, workers: int) -> Step:
    """The same, from a dataset in Python that returns one image and its label as an int."""
    digits = lib.randint(256, (60_000, 28, 28), dtype=lib.uint8)
    labels = lib.randint(10, (60_000,)).tolist()

    class Digits(lib.utils.data.Dataset):
        def __len__(self) -> int:
            return len(labels)

        def __getitem__(self, index: int) -> Any:
            return digits[index], labels[index]

    return epoch(lib.utils.data.DataLoader(Digits(), 64, True, num_workers=workers))


def epoch(loader: Any) -> Step:
    def step() -> None:
        for _ in loader:
            pass

    return step
