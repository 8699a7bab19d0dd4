"""SGD: gradient descent, with momentum if wanted."""

from __future__ import annotations

from typing import Any

from rushlight.optim.apply import Group, State
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_one_way, need_rate
from rushlight.tensor import Tensor


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum μ, dampening τ and weight decay λ.

        g ← g + λp,   b ← μb + (1 − τ)g,   p ← p − lr·b

    The first b is g itself. With ``nesterov``, p ← p − lr·(g + μb).

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        need_rate(lr)
        need(momentum >= 0, f"Invalid momentum value: {momentum}")
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        need(
            not nesterov or (momentum > 0 and dampening == 0),
            "Nesterov momentum requires a momentum and zero dampening",
        )
        need_one_way(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        momentum = group["momentum"]
        if group["weight_decay"] != 0:
            g = g + group["weight_decay"] * p
        if momentum == 0:
            return p - group["lr"] * g, {}
        b = state.get("momentum_buffer")
        b = g if b is None else momentum * b + (1 - group["dampening"]) * g
        g = g + momentum * b if group["nesterov"] else b
        return p - group["lr"] * g, {"momentum_buffer": b}
