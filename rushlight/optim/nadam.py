"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_betas, need_rate
from rushlight.tensor import Tensor


class NAdam(Optimizer):
    """Adam that looks one step ahead, with a momentum μ that grows towards β₁.

        μₜ = β₁(1 − ½·0.96^(t·ψ)),   Π ← Π·μₜ
        m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²
        p ← p − lr · ((1 − μₜ)g/(1 − Π) + μₜ₊₁m/(1 − Π·μₜ₊₁)) / (√(v/(1 − β₂ᵗ)) + ε)

    ψ is ``momentum_decay``.

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8944, 1.8944], requires_grad=True)
    """

    scalars = ("step", "mu_product")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        need_rate(lr)
        need(eps >= 0, f"Invalid epsilon value: {eps}")
        need_betas(betas)
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        need(momentum_decay >= 0, f"Invalid momentum_decay value: {momentum_decay}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        scalars = {"step": 0.0, "mu_product": 1.0}
        return scalars | {"exp_avg": ops.zeros_like(p), "exp_avg_sq": ops.zeros_like(p)}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        lr, (beta1, beta2), t = group["lr"], group["betas"], state["step"] + 1
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p = p * (1 - lr * group["weight_decay"])
            else:
                g = g + group["weight_decay"] * p
        mu, mu_next = [
            beta1 * (1 - 0.5 * 0.96 ** (s * group["momentum_decay"])) for s in (t, t + 1)
        ]
        product = state["mu_product"] * mu
        m = beta1 * state["exp_avg"] + (1 - beta1) * g
        v = beta2 * state["exp_avg_sq"] + (1 - beta2) * (g * g)
        correction = (1 - beta2**t) ** 0.5
        ahead = (1 - mu) / (1 - product) * g + mu_next / (1 - product * mu_next) * m
        p = p - lr * correction * ahead / (v.sqrt() + group["eps"] * correction)
        return p, {"step": t, "mu_product": product, "exp_avg": m, "exp_avg_sq": v}
