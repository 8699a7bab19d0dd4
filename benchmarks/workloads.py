"""The workloads, written once over a framework's namespace (``rushlight`` or ``torch``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any


def small_add(lib: Any) -> Callable[[], Any]:
    a, b = lib.ones(4, 4), lib.ones(4, 4)
    return lambda: a + b


def twenty_ops(lib: Any) -> Callable[[], Any]:
    """Twenty small ops (and a sum) forward and backward."""
    lib.manual_seed(0)
    x = lib.randn(4, 4)
    w = lib.randn(4, 4, requires_grad=True)

    def step() -> None:
        w.grad = None
        h = x
        for _ in range(5):
            h = (h * w + x).tanh() - w
        h.sum().backward()

    return step


def two_layer_net(lib: Any) -> Callable[[], Any]:
    """The two-layer ReLU network 64×1000×100×10: autograd and update."""
    lib.manual_seed(0)
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

    return step


def epoch_of_tensors(lib: Any, workers: int) -> Callable[[], Any]:
    """An epoch over 60,000 images of bytes and their labels, shuffled, in batches of 64."""
    lib.manual_seed(0)
    images = lib.randint(256, (60_000, 28, 28), dtype=lib.uint8)
    dataset = lib.utils.data.TensorDataset(images, lib.randint(10, (60_000,)))
    return epoch(lib.utils.data.DataLoader(dataset, 64, True, num_workers=workers))


def epoch_of_samples(lib: Any, workers: int) -> Callable[[], Any]:
    """The same, from a dataset in Python that returns one image and its label as an int."""
    lib.manual_seed(0)
    images = lib.randint(256, (60_000, 28, 28), dtype=lib.uint8)
    labels = lib.randint(10, (60_000,)).tolist()

    class Digits(lib.utils.data.Dataset):
        def __len__(self) -> int:
            return len(labels)

        def __getitem__(self, index: int) -> Any:
            return images[index], labels[index]

    return epoch(lib.utils.data.DataLoader(Digits(), 64, True, num_workers=workers))


def epoch(loader: Any) -> Callable[[], Any]:
    def step() -> None:
        for _ in loader:
            pass

    return step


def adam_step(lib: Any) -> Callable[[], Any]:
    """A step of Adam on 25 tensors: twelve weights 288×288, their biases, and one more."""
    lib.manual_seed(0)
    shapes = [(288, 288), (288,)] * 12 + [(10,)]
    params = [lib.randn(*shape, requires_grad=True) for shape in shapes]
    for p in params:
        p.grad = lib.randn(*p.shape)
    return lib.optim.Adam(params).step


def lenet(lib: Any) -> Callable[[], Any]:
    """A training step of LeNet-5 on 64 images of 28×28, with SGD."""
    nn = lib.nn
    lib.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )
    x, y = lib.randn(64, 1, 28, 28), lib.randint(0, 10, (64,))
    return training_step(lib, model, lambda: nn.functional.cross_entropy(model(x), y))


def lstm(lib: Any) -> Callable[[], Any]:
    """A training step of an LSTM, 64 inputs to 256 units, on 64 steps of 32 sequences."""
    nn = lib.nn
    lib.manual_seed(0)
    model = nn.LSTM(64, 256)
    x = lib.randn(64, 32, 64)
    return training_step(lib, model, lambda: model(x)[0].square().mean())


def training_step(lib: Any, model: Any, loss: Callable[[], Any]) -> Callable[[], Any]:
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


WORKLOADS: dict[str, tuple[Callable[[Any], Callable[[], Any]], float | None]] = {
    "a + b on 4×4": (small_add, 0.75),
    "20 small ops, forward + backward": (twenty_ops, 0.5),
    "two-layer net, eager step": (two_layer_net, 0.7),
    "Adam step, 25 tensors, 1M parameters": (adam_step, 1.0),
    "60,000 images of a TensorDataset": (partial(epoch_of_tensors, workers=0), 1.0),
    "the same, 2 workers": (partial(epoch_of_tensors, workers=2), 1.0),
    "60,000 samples of a Python dataset": (partial(epoch_of_samples, workers=0), 1.0),
    "these, 2 workers": (partial(epoch_of_samples, workers=2), 1.0),
    "LeNet batch 64, training step": (lenet, None),
    "LSTM 32×64, 64→256, training step": (lstm, None),
}
"""Name → (workload, goal: our time over the best peer's; None: its goal needs the compiler)."""
