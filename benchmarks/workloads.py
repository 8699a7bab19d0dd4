"""The workloads, written once over a framework's namespace (``rushlight`` or ``torch``)."""

from __future__ import annotations

from collections.abc import Callable
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


WORKLOADS: dict[str, tuple[Callable[[Any], Callable[[], Any]], float]] = {
    "a + b on 4×4": (small_add, 0.75),
    "20 small ops, forward + backward": (twenty_ops, 0.5),
    "two-layer net, eager step": (two_layer_net, 0.7),
}
"""Name → (workload, goal: our time over the best peer's)."""
