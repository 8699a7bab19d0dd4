"""A LeNet learns handwritten digits, is saved, and gives the same answers in another process.

python examples/digits.py [--epochs 20] [--file lenet.pt]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

import rushlight as rl
from rushlight import nn
from rushlight.utils.data import DataLoader
from rushlight.vision.datasets import Digits

BAR = "█·" if (sys.stdout.encoding or "").lower().startswith("utf") else "#."


class LeNet(nn.Module):
    """Two convolutions with pooling, three linear layers: LeNet-5 for images of 8×8."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(16 * 2 * 2, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.classifier(self.features(x))


def accuracy(model: nn.Module) -> float:
    """The share of the test images that are recognised."""
    test = Digits(train=False)
    model.eval()
    with rl.no_grad():
        right = (model(test.data).argmax(1) == test.targets).float().mean().item()
    model.train()
    return right


def train(epochs: int) -> LeNet:
    """Trains on the digits for training, with a progress bar."""
    rl.manual_seed(0)
    model = LeNet()
    loader = DataLoader(Digits(), batch_size=32, shuffle=True)
    optimizer = rl.optim.Adam(model.parameters(), lr=2e-3)
    schedule = rl.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=epochs * len(loader))
    loss_function = nn.CrossEntropyLoss()
    start = time.perf_counter()
    for epoch in range(epochs):
        total = 0.0
        for i, (images, labels) in enumerate(loader):
            loss = loss_function(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
            show(epoch, epochs, (i + 1) / len(loader), total / (i + 1), start)
    print()
    return model


def show(epoch: int, epochs: int, share: float, loss: float, start: float) -> None:
    done = (epoch + share) / epochs
    if not sys.stdout.isatty() and share < 1:
        return
    full, empty = BAR
    bar = full * round(30 * done) + empty * (30 - round(30 * done))
    end = "" if sys.stdout.isatty() else "\n"
    begin = "\r" if sys.stdout.isatty() else ""
    seconds = time.perf_counter() - start
    print(
        f"{begin}epoch {epoch + 1:2}/{epochs} {bar} loss {loss:.4f}  {seconds:4.1f} s",
        end=end,
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--file", help="where to save the model; default: a temporary file")
    parser.add_argument("--test", metavar="FILE", help="only say how good a saved model is")
    args = parser.parse_args()
    if args.test:
        model = LeNet()
        model.load_state_dict(rl.load(args.test)["model"])
        print(f"loaded in a new process: {accuracy(model):.2%} of the test digits recognised")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = args.file or os.path.join(folder, "lenet.pt")
        model = train(args.epochs)
        print(f"trained: {accuracy(model):.2%} of the test digits recognised")
        rl.save({"model": model.state_dict(), "epochs": args.epochs}, path)
        print(f"saved to {path}, {os.path.getsize(path) / 1024:.0f} kB")
        subprocess.run([sys.executable, __file__, "--test", path], check=True)


if __name__ == "__main__":
    main()
