"""Rprop: each element has a step of its own, which grows until the gradient turns."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.numbers import number
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_rate
from rushlight.tensor import Tensor


class Rprop(Optimizer):
    """Resilient backpropagation: of the gradient only the sign counts.

        s ← clamp(s·η⁺) if g has the sign it had, clamp(s·η⁻) and g ← 0 if it has the other
        p ← p − sign(g)·s

    Args:
        params: the parameters.
        lr: the first step s of every element.
        etas: (η⁻, η⁺).
        step_sizes: the bounds of s.

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.Rprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    elementwise = False  # it compares

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        need_rate(lr)
        need(0 < etas[0] < 1 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        lr = number(group["lr"])
        first = ops.full_like(p, complex(lr, lr) if p.is_complex() else lr)
        return {"step": 0.0, "prev": ops.zeros_like(p), "step_size": first}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        (down, up), size = group["etas"], state["step_size"]
        agree = g * state["prev"]
        size = ops.where(agree > 0, up * size, ops.where(agree < 0, down * size, size))
        size = size.clamp(*group["step_sizes"])
        g = ops.where(agree < 0, 0.0, g)
        return p - g.sign() * size, {"step": state["step"] + 1, "prev": g, "step_size": size}
