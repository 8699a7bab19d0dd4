"""Adamax: Adam with the infinity norm."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_betas, need_rate
from rushlight.tensor import Tensor


class Adamax(Optimizer):
    """Adam whose scale is a decaying maximum of the gradient.

        m ← β₁m + (1 − β₁)g,   u ← max(β₂u, |g| + ε)
        p ← p − lr/(1 − β₁ᵗ) · m/u

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        need_rate(lr)
        need(eps >= 0, f"Invalid epsilon value: {eps}")
        need_betas(betas)
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        return {"step": 0.0, "exp_avg": ops.zeros_like(p), "exp_inf": ops.zeros_like(p)}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        (beta1, beta2), t = group["betas"], state["step"] + 1
        if group["weight_decay"] != 0:
            g = g + group["weight_decay"] * p
        m = beta1 * state["exp_avg"] + (1 - beta1) * g
        u = (beta2 * state["exp_inf"]).maximum(g.abs() + group["eps"])
        rate = group["lr"] / (1 - beta1**t)
        return p - rate * m / u, {"step": t, "exp_avg": m, "exp_inf": u}
