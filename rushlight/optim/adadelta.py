"""Adadelta: steps whose scale is the ratio of two running averages, so that lr hardly matters."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_rate
from rushlight.tensor import Tensor


class Adadelta(Optimizer):
    """Steps as large, compared with the gradient, as past steps were.

        v ← ρv + (1 − ρ)g²,   d = g · √(u + ε)/√(v + ε),   u ← ρu + (1 − ρ)d²
        p ← p − lr·d

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.Adadelta([w], eps=0.01)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.6877, 1.6848], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        need_rate(lr)
        need(0 <= rho <= 1, f"Invalid rho value: {rho}")
        need(eps >= 0, f"Invalid epsilon value: {eps}")
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        return {"step": 0.0, "square_avg": ops.zeros_like(p), "acc_delta": ops.zeros_like(p)}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        rho, eps, u = group["rho"], group["eps"], state["acc_delta"]
        if group["weight_decay"] != 0:
            g = g + group["weight_decay"] * p
        v = rho * state["square_avg"] + (1 - rho) * (g * g)
        d = (u + eps).sqrt() / (v + eps).sqrt() * g
        u = rho * u + (1 - rho) * (d * d)
        after = {"step": state["step"] + 1, "square_avg": v, "acc_delta": u}
        return p - group["lr"] * d, after
