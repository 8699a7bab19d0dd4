"""Programs of the sizes that users have: what was saved is loaded, and computes the same."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from tests.sampling import flat

F = nn.functional

CALLS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "flatten": (nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), (64, 1, 28, 28)),
    "linear of 3-D": (nn.Linear(64, 64), (32, 16, 64)),
    "encoder": (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval(), (32, 16, 64)),
    "conv": (nn.Conv2d(3, 16, 3), (64, 3, 64, 64)),
    "group norm": (nn.GroupNorm(4, 16), (64, 16, 32, 32)),
    "adaptive pool": (nn.AdaptiveAvgPool2d(1), (64, 64, 16, 16)),
    "bilinear": (nn.Upsample(size=(64, 64), mode="bilinear"), (8, 16, 32, 32)),
    "pixel shuffle": (nn.PixelShuffle(2), (8, 16, 32, 32)),
    "unfold": (nn.Unfold(3), (16, 8, 32, 32)),
    "fold": (lambda x: F.fold(F.unfold(x, 3), (32, 32), 3), (16, 8, 32, 32)),
    "expand": (lambda x: x.unsqueeze(1).expand(-1, 64, -1) + 1, (64, 512)),
    "repeat": (lambda x: x.repeat(1, 64), (64, 512)),
    "repeat and roll": (lambda x: x[100:400].repeat(4, 4).roll(3, 0), (512, 512)),
    "chunk": (lambda x: rl.cat(x.chunk(4, 1)[::-1], 1), (64, 4096)),
    "slice": (lambda x: x[100:400, 50:300] * 2, (512, 512)),
    "windows": (lambda x: x.unfold(0, 7, 3) + 1, (512, 128)),
    "reflect": (lambda x: F.pad(x, (30, 30), "reflect"), (64, 512)),
    "unflatten": (lambda x: x.unflatten(1, (8, 64)) + 1, (256, 512)),
    "choice": (lambda x: x.topk(50)[0], (512, 512)),
}


def again(made: Any) -> Any:
    file = io.BytesIO()
    made.save(file)
    return rl.jit.load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    function, shape = CALLS[name]
    x = rl.randn(shape, generator=rl.Generator().manual_seed(0))
    loaded = again(rl.jit.trace(function, x))
    np.testing.assert_allclose(loaded(x).detach(), function(x).detach(), rtol=1e-4, atol=1e-5)


ONES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "lstm": (lambda: nn.LSTM(3, 4, batch_first=True), (5, 3)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (6, 8)),
    "reshape": (lambda: lambda x: x.transpose(1, 2).reshape(-1, 8), (8, 5)),
    "sum": (lambda: lambda x: x.transpose(1, 2).sum(1), (8, 5)),
    "expand": (lambda: lambda x: rl.ones(1, 5).expand(x.shape[0], -1) + x.sum(1), (8, 5)),
}


@pytest.mark.parametrize("example", [1, 3])
@pytest.mark.parametrize("name", ONES)
def test_a_batch_of_one_stands_for_all(name: str, example: int) -> None:
    make, sides = ONES[name]
    function = make()
    loaded = again(rl.jit.trace(function, rl.randn(example, *sides)))
    for batch in (1, 2, 7):
        x = rl.randn(batch, *sides)
        wanted, found = flat(function(x)), flat(loaded(x))
        for f, w in zip(found, wanted, strict=True):
            assert f.shape == w.shape
            np.testing.assert_allclose(f.detach(), w.detach(), rtol=1e-4, atol=1e-5)


def test_many_classes() -> None:
    numbers = rl.arange(4096).reshape(64, 64) % 3000
    loaded = again(rl.jit.trace(lambda x: F.one_hot(x, 3000).to(rl.int8).sum((0, 1)), numbers))
    assert loaded(numbers).sum() == 4096


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5000, 32)
        self.layer = nn.LSTM(32, 64, batch_first=True)
        self.head = nn.Linear(64, 5000)

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.head(self.layer(self.embedding(x))[0])


class Images(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 16, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(16), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, 2), nn.AdaptiveAvgPool2d(7), nn.Flatten(),
            nn.Linear(32 * 49, 100),
        )  # fmt: skip


@pytest.mark.parametrize("made", [Words, Images])
def test_training_steps(made: Any) -> None:
    rl.manual_seed(0)
    model = made()
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)
    if made is Words:
        x, y = rl.randint(0, 5000, (16, 32)), rl.randint(0, 5000, (16, 32))
    else:
        x, y = rl.randn(16, 3, 64, 64), rl.randint(0, 100, (16,))

    def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        scores = model(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    loaded = again(rl.export(step, x, y))
    for _ in range(2):
        assert loaded(x, y).item() == pytest.approx(step(x, y).item(), rel=1e-4)
