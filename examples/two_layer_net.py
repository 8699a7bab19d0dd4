"""A two-layer ReLU network trained twice: gradients by hand, then gradients by autograd.

python examples/two_layer_net.py [--steps 500]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import rushlight as rl

BATCH, INPUTS, HIDDEN, OUTPUTS = 64, 1000, 100, 10
LEARNING_RATE = 1e-6


def data() -> tuple[rl.Tensor, ...]:
    """Inputs, targets and the two weight matrices, the same for both ways."""
    rl.manual_seed(0)
    x, y = rl.randn(BATCH, INPUTS), rl.randn(BATCH, OUTPUTS)
    return x, y, rl.randn(INPUTS, HIDDEN), rl.randn(HIDDEN, OUTPUTS)


def by_hand(steps: int) -> Iterator[float]:
    """Every gradient written out, as on paper."""
    x, y, w1, w2 = data()
    for _ in range(steps):
        h = x.mm(w1)
        h_relu = h.clamp(min=0)
        error = h_relu.mm(w2) - y
        yield error.pow(2).sum().item()
        grad_y = 2.0 * error
        grad_w2 = h_relu.t().mm(grad_y)
        grad_h = grad_y.mm(w2.t())
        grad_h[h < 0] = 0
        w1 -= LEARNING_RATE * x.t().mm(grad_h)
        w2 -= LEARNING_RATE * grad_w2


def by_autograd(steps: int) -> Iterator[float]:
    """Only the forward pass is written; ``backward`` finds the gradients."""
    x, y, w1, w2 = data()
    w1.requires_grad_()
    w2.requires_grad_()
    for _ in range(steps):
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        yield loss.item()
        loss.backward()
        with rl.no_grad():
            w1 -= LEARNING_RATE * w1.grad
            w2 -= LEARNING_RATE * w2.grad
            w1.grad = w2.grad = None


def train(name: str, way: Callable[[int], Iterator[float]], steps: int) -> list[float]:
    """Runs one way with a progress bar and says how long it took."""
    losses: list[float] = []
    start = time.perf_counter()
    for step, loss in enumerate(way(steps), 1):
        losses.append(loss)
        if sys.stderr.isatty() and (step % 10 == 0 or step == steps):
            bar = "█" * (20 * step // steps)
            print(
                f"\r{name:<12} {bar:<20} {step}/{steps}  loss {loss:.4g} ", end="", file=sys.stderr
            )
    if sys.stderr.isatty():
        print(file=sys.stderr)
    seconds = time.perf_counter() - start
    shown = [losses[i] for i in (0, steps // 10, steps // 2, -1)]
    curve = " → ".join(f"{loss:.4g}" for loss in shown)
    print(f"{name:<12} loss {curve}   {seconds:.2f} s, {1e6 * seconds / steps:.0f} µs a step")
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    steps = parser.parse_args().steps
    if steps < 1:
        parser.error(f"--steps must be at least 1, got {steps}")
    print(f"a two-layer network, {INPUTS} → {HIDDEN} → {OUTPUTS}, batch {BATCH}, {steps} steps")
    hand = train("by hand", by_hand, steps)
    auto = train("by autograd", by_autograd, steps)
    difference = max(abs(a - b) / abs(a) for a, b in zip(hand, auto, strict=True))
    print(f"largest relative difference between the two loss curves: {difference:.1e}")


if __name__ == "__main__":
    main()
