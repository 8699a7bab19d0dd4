"""Adagrad: steps scaled by the sum of all squared gradients so far."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State, state_of
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_one_way, need_rate
from rushlight.tensor import Tensor


class Adagrad(Optimizer):
    """Elements that have moved much move less.

        s ← s + g²,   p ← p − lr/(1 + (t − 1)η) · g/(√s + ε)

    η is ``lr_decay``; s begins with ``initial_accumulator_value``.

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        need_rate(lr)
        need(lr_decay >= 0, f"Invalid lr_decay value: {lr_decay}")
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        need(
            initial_accumulator_value >= 0,
            f"Invalid initial_accumulator_value value: {initial_accumulator_value}",
        )
        need(eps >= 0, f"Invalid epsilon value: {eps}")
        need_one_way(foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                state_of(self, p, group)

    def share_memory(self) -> None:
        """Moves the sums into memory that other processes see."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def init(self, p: Tensor, group: Group) -> State:
        start = group["initial_accumulator_value"]
        total = ops.full_like(p, complex(start, start) if p.is_complex() else start)
        return {"step": 0.0, "sum": total}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        t = state["step"] + 1
        if group["weight_decay"] != 0:
            g = g + group["weight_decay"] * p
        s = state["sum"] + g * g
        rate = group["lr"] / (1 + (t - 1) * group["lr_decay"])
        return p - rate * g / (s.sqrt() + group["eps"]), {"step": t, "sum": s}
