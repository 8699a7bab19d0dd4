"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.optimizer import (
    Optimizer,
    ParamsT,
    need,
    need_betas,
    need_one_way,
    need_rate,
)
from rushlight.tensor import Tensor


class Adam(Optimizer):
    """Adam, with weight decay λ in the gradient (or decoupled from it, as in :class:`AdamW`).

        m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²
        p ← p − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)

    With ``amsgrad`` the largest v so far takes the place of v. ``foreach``, ``fused`` and
    ``capturable`` are PyTorch's ways to run the same formula; here there is one.

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        refused = "as a Tensor is not supported for capturable=False and foreach=True"
        need(not (isinstance(lr, Tensor) and foreach and not capturable), f"lr {refused}")
        need_rate(lr)
        need(eps >= 0, f"Invalid epsilon value: {eps}")
        need_betas(betas)
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        tensors = [isinstance(beta, Tensor) for beta in betas]
        need(tensors[0] == tensors[1], "betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                need(capturable or not foreach, f"betas[{i}] {refused}")
                need(beta.numel() == 1, f"Tensor betas[{i}] must be 1-element")
        need_one_way(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        state = {"step": 0.0, "exp_avg": ops.zeros_like(p), "exp_avg_sq": ops.zeros_like(p)}
        return state | {"max_exp_avg_sq": ops.zeros_like(p)} if group["amsgrad"] else state

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
        if group["amsgrad"]:
            v = after["max_exp_avg_sq"] = state["max_exp_avg_sq"].maximum(v)
        correction = (1 - beta2**t) ** 0.5
        rate = lr * correction / (1 - beta1**t)
        return p - rate * m / (v.sqrt() + group["eps"] * correction), after
