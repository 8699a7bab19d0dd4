"""RAdam: Adam whose first steps, when the variance is not known yet, are plain momentum."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.numbers import choose
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_betas, need_rate
from rushlight.tensor import Tensor


class RAdam(Optimizer):
    """Rectified Adam: the adaptive scale comes in as its variance becomes known.

        m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²
        ρ∞ = 2/(1 − β₂) − 1,   ρ = ρ∞ − 2tβ₂ᵗ/(1 − β₂ᵗ)
        r = √((ρ − 4)(ρ − 2)ρ∞ / ((ρ∞ − 4)(ρ∞ − 2)ρ))
        p ← p − lr · m/(1 − β₁ᵗ) · r√(1 − β₂ᵗ)/(√v + ε)   if ρ > 5, else without the last factor

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        return {"step": 0.0, "exp_avg": ops.zeros_like(p), "exp_avg_sq": ops.zeros_like(p)}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        lr, (beta1, beta2), t = group["lr"], group["betas"], state["step"] + 1
        if group["weight_decay"] != 0:
            if group["decoupled_weight_decay"]:
                p = p * (1 - lr * group["weight_decay"])
            else:
                g = g + group["weight_decay"] * p
        m = beta1 * state["exp_avg"] + (1 - beta1) * g
        v = beta2 * state["exp_avg_sq"] + (1 - beta2) * (g * g)
        after = {"step": t, "exp_avg": m, "exp_avg_sq": v}
        rate = lr / (1 - beta1**t)
        limit = 2 / (1 - beta2) - 1
        rho = limit - 2 * t * beta2**t / (1 - beta2**t)

        def rectified() -> Any:
            r = ((rho - 4) * (rho - 2) * limit / ((limit - 4) * (limit - 2) * rho)) ** 0.5
            return rate * r * (1 - beta2**t) ** 0.5 * m / (v.sqrt() + group["eps"])

        return p - choose(rho > 5, rectified, lambda: rate * m), after
