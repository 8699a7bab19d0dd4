"""The workloads, written once over a framework's namespace (``rushlight`` or ``torch``).

Each takes the namespace and what to wrap functions in: the framework's ``compile``, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

Step = Callable[[], Any]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def small_add(lib: Any, wrap: Wrap) -> Step:
    a, b = lib.ones(4, 4), lib.ones(4, 4)
    add = wrap(lambda a, b: a + b)
    return lambda: add(a, b)


def large_map(lib: Any, wrap: Wrap) -> Step:
    """sin(x) + cos(y), a million elements each."""
    lib.manual_seed(0)
    x, y = lib.randn(1_000_000), lib.randn(1_000_000)
    both = wrap(lambda x, y: x.sin() + y.cos())
    return lambda: both(x, y)


def of_matrix(lib: Any, wrap: Wrap, function: Callable[[Any, Any], Any]) -> Step:
    """A function of a matrix 1000×1000."""
    lib.manual_seed(0)
    x = lib.randn(1000, 1000)
    wrapped = wrap(lambda x: function(lib.nn.functional, x))
    return lambda: wrapped(x)


def draw(lib: Any, wrap: Wrap) -> Step:
    """A million normal numbers."""
    lib.manual_seed(0)
    return wrap(lambda: lib.randn(1_000_000))


def twenty_ops(lib: Any, wrap: Wrap) -> Step:
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

    return wrap(step)


def two_layer_net(lib: Any, wrap: Wrap) -> Step:
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

    return wrap(step)


def epoch_of_tensors(lib: Any, wrap: Wrap, workers: int) -> Step:
    """An epoch over 60,000 images of bytes and their labels, shuffled, in batches of 64."""
    lib.manual_seed(0)
    images = lib.randint(256, (60_000, 28, 28), dtype=lib.uint8)
    dataset = lib.utils.data.TensorDataset(images, lib.randint(10, (60_000,)))
    return epoch(lib.utils.data.DataLoader(dataset, 64, True, num_workers=workers))


def epoch_of_samples(lib: Any, wrap: Wrap, workers: int) -> Step:
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


def epoch(loader: Any) -> Step:
    def step() -> None:
        for _ in loader:
            pass

    return step


def adam_step(lib: Any, wrap: Wrap) -> Step:
    """A step of Adam on 25 tensors: twelve weights 288×288, their biases, and one more."""
    lib.manual_seed(0)
    shapes = [(288, 288), (288,)] * 12 + [(10,)]
    params = [lib.randn(*shape, requires_grad=True) for shape in shapes]
    for p in params:
        p.grad = lib.randn(*p.shape)
    optimizer = lib.optim.Adam(params)
    return wrap(lambda: optimizer.step())


def lenet(lib: Any, wrap: Wrap) -> Step:
    """A training step of LeNet-5 on 64 images of 28×28, with SGD."""
    nn = lib.nn
    lib.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )
    x, y = lib.randn(64, 1, 28, 28), lib.randint(0, 10, (64,))
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
    return wrap(training_step(optimizer, lambda: nn.functional.cross_entropy(model(x), y)))


def lstm(lib: Any, wrap: Wrap) -> Step:
    """A training step of an LSTM, 64 inputs to 256 units, on 64 steps of 32 sequences."""
    lib.manual_seed(0)
    model = lib.nn.LSTM(64, 256)
    x = lib.randn(64, 32, 64)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01)
    return wrap(training_step(optimizer, lambda: model(x)[0].square().mean()))


def transformer(lib: Any, wrap: Wrap, layers: int) -> Step:
    """A training step of a transformer: 256 features, 8 heads, 8 sequences of 128, with Adam."""
    nn = lib.nn
    lib.manual_seed(0)
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    x = lib.randn(8, 128, 256)
    optimizer = lib.optim.Adam(model.parameters(), lr=1e-3)
    return wrap(training_step(optimizer, lambda: model(x).square().mean()))


def training_step(optimizer: Any, loss: Callable[[], Any]) -> Step:
    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step


class Workload(NamedTuple):
    """How to make it, and the goals: our time over PyTorch's, our compiled one over the best."""

    make: Callable[[Any, Wrap], Step]
    eager: float | None = None
    compiled: float | None = None
    compiles: bool = True  # whether it is also run compiled


def softmax(functional: Any, x: Any) -> Any:
    return functional.softmax(x, -1)


def layer_norm(functional: Any, x: Any) -> Any:
    return functional.layer_norm(x, (1000,))


def gelu(functional: Any, x: Any) -> Any:
    return functional.gelu(x)


WORKLOADS = {
    "a + b on 4×4": Workload(small_add, eager=0.75),
    "20 small ops, forward + backward": Workload(twenty_ops, eager=0.5),
    "sin(x) + cos(y), 1M": Workload(large_map, compiled=0.5),
    "softmax 1000×1000": Workload(partial(of_matrix, function=softmax), 0.8, 0.8),
    "layer norm 1000×1000": Workload(partial(of_matrix, function=layer_norm), 0.8, 0.8),
    "exact gelu 1M": Workload(partial(of_matrix, function=gelu), 0.8, 0.8),
    "randn 1M": Workload(draw, eager=0.5),
    "two-layer net, training step": Workload(two_layer_net, 0.7, 0.5),
    "Adam step, 25 tensors, 1M parameters": Workload(adam_step, 0.5, 0.5),
    "LeNet batch 64, training step": Workload(lenet, compiled=0.5),
    "LSTM 32×64, 64→256, training step": Workload(lstm, compiled=0.6),
    "transformer layer, training step": Workload(partial(transformer, layers=1), compiled=0.65),
    "60,000 images of a TensorDataset": Workload(
        partial(epoch_of_tensors, workers=0), 1.0, compiles=False
    ),
    "the same, 2 workers": Workload(partial(epoch_of_tensors, workers=2), 1.0, compiles=False),
    "60,000 samples of a Python dataset": Workload(
        partial(epoch_of_samples, workers=0), 1.0, compiles=False
    ),
    "these, 2 workers": Workload(partial(epoch_of_samples, workers=2), 1.0, compiles=False),
}
"""By name, in the order of the table."""

FIRST_CALLS = {
    "two-layer net": two_layer_net,
    "LeNet": lenet,
    "transformer, 4 layers": partial(transformer, layers=4),
}
"""The training steps whose first call and whose memory are measured, in processes of their own."""
