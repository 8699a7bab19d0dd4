"""ASGD: gradient descent that also keeps the average of the parameters."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.numbers import choose, larger, number
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_rate
from rushlight.tensor import Tensor


class ASGD(Optimizer):
    """Averaged gradient descent; the average is ``optimizer.state[p]["ax"]``.

        p ← (1 − λη)p − ηg,   a ← a + μ(p − a)
        η ← lr/(1 + λ·lr·t)^α,   μ ← 1/max(1, t − t₀)

    λ is ``lambd``; η begins with lr, μ with 1.

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.ASGD([w], lr=0.1, lambd=0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    scalars = ("step", "eta", "mu")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        need_rate(lr)
        need(weight_decay >= 0, f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        return {"step": 0.0, "eta": number(group["lr"]), "mu": 1.0, "ax": ops.zeros_like(p)}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        lr, lambd, t = group["lr"], group["lambd"], state["step"] + 1
        eta, mu, a = state["eta"], state["mu"], state["ax"]
        if group["weight_decay"] != 0:
            g = g + group["weight_decay"] * p
        p = (1 - lambd * eta) * p - eta * g
        a = choose(mu == 1, lambda: p, lambda: a + mu * (p - a))
        eta = lr / (1 + lambd * lr * t) ** group["alpha"]
        return p, {"step": t, "eta": eta, "mu": 1 / larger(1, t - group["t0"]), "ax": a}
