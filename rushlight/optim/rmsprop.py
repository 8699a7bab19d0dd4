"""RMSprop: steps scaled by a running average of the squared gradient."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_rate
from rushlight.tensor import Tensor


class RMSprop(Optimizer):
    """Gradients divided by the root of their mean square.

        v ← αv + (1 − α)g²,   d = g/(√v + ε)
        b ← μb + d,   p ← p − lr·b   (without momentum μ: p ← p − lr·d)

    ``centered`` subtracts the squared average of g from v: d = g/(√(v − ḡ²) + ε).

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.RMSprop([w], lr=0.1, alpha=0.75)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.8000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        need_rate(lr)
        need(eps >= 0, f"Invalid epsilon value: {eps}")
        need(momentum >= 0, f"Invalid momentum value: {momentum}")
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        need(alpha >= 0, f"Invalid alpha value: {alpha}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        state = {"step": 0.0, "square_avg": ops.zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = ops.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = ops.zeros_like(p)
        return state

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        alpha, momentum = group["alpha"], group["momentum"]
        if group["weight_decay"] != 0:
            g = g + group["weight_decay"] * p
        v = alpha * state["square_avg"] + (1 - alpha) * (g * g)
        after = {"step": state["step"] + 1, "square_avg": v}
        if group["centered"]:
            mean = after["grad_avg"] = alpha * state["grad_avg"] + (1 - alpha) * g
            v = v - mean * mean
        d = g / (v.sqrt() + group["eps"])
        if momentum > 0:
            d = after["momentum_buffer"] = momentum * state["momentum_buffer"] + d
        return p - group["lr"] * d, after
