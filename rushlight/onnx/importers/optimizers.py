"""Steps of optimizers, as training graphs of ONNX hold them (``ai.onnx.preview.training``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor

DOMAIN = "ai.onnx.preview.training"


def stepped(rest: tuple[Tensor, ...], kinds: int, step: Callable[..., Any]) -> tuple[Tensor, ...]:
    """``step`` for each tensor; inputs and outputs are grouped by what they are."""
    count = len(rest) // kinds
    groups = [rest[i * count : (i + 1) * count] for i in range(kinds)]
    results = [step(*values) for values in zip(*groups, strict=True)]
    return tuple([value for column in zip(*results, strict=True) for value in column])


@op("Adagrad", domain=DOMAIN)
def adagrad(
    r: Tensor,
    t: Tensor,
    *rest: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Any:
    rate = r / (1 + t.to(r.dtype) * decay_factor)

    def step(x: Tensor, g: Tensor, h: Tensor) -> Any:
        g = norm_coefficient * x + g
        h = h + g * g
        return x - rate * g / (h.sqrt() + epsilon), h

    return stepped(rest, 3, step)


@op("Momentum", domain=DOMAIN)
def momentum(
    r: Tensor,
    t: Tensor,
    *rest: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> Any:
    fresh = ops.where(t > 0, beta, 1.0)

    def step(x: Tensor, g: Tensor, v: Tensor) -> Any:
        g = norm_coefficient * x + g
        v = (alpha * v + fresh * g).to(x.dtype)
        move = g + alpha * v if mode == "nesterov" else v
        return x - r * move, v

    return stepped(rest, 3, step)


@op("Adam", domain=DOMAIN)
def adam(
    r: Tensor,
    t: Tensor,
    *rest: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Any:
    power = t.to(r.dtype)
    corrected = r * (1 - beta**power).sqrt() / (1 - alpha**power)
    rate = ops.where(t > 0, corrected, r)

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> Any:
        g = norm_coefficient * x + g
        v = alpha * v + (1 - alpha) * g
        h = beta * h + (1 - beta) * g * g
        new = x - rate * v / (h.sqrt() + epsilon)
        return (1 - norm_coefficient_post) * new, v, h

    return stepped(rest, 4, step)
