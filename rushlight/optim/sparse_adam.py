"""SparseAdam: Adam that leaves rows without a gradient as they are."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.numbers import between
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_betas, need_number
from rushlight.tensor import Tensor


class SparseAdam(Optimizer):
    """:class:`Adam` for tables of which a step uses few rows, such as embeddings.

    Gradients here are dense: a row whose gradient is zero throughout counts as not used, and
    neither it nor its running averages change.

    >>> w = rl.tensor([[1.0], [2.0]], requires_grad=True)
    >>> optimizer = rl.optim.SparseAdam([w], lr=0.1)
    >>> w[1].sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([[1.0000],
            [1.9000]], requires_grad=True)
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        need_number("lr", lr)
        need(lr > 0, f"Invalid learning rate: {lr}")
        need(eps > 0, f"Invalid epsilon value: {eps}")
        need_betas(betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        found = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if p.is_complex()
        ]
        need(
            not found,
            f"Complex params at indices {found}: SparseAdam does not support complex parameters",
        )

    def init(self, p: Tensor, group: Group) -> State:
        return {"step": 0.0, "exp_avg": ops.zeros_like(p), "exp_avg_sq": ops.zeros_like(p)}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        (beta1, beta2), t = group["betas"], state["step"] + 1
        used = g != 0
        if g.dim() > 1:
            used = used.reshape(len(g), -1).any(1).reshape(-1, *[1] * (g.dim() - 1))
        m = ops.where(used, between(state["exp_avg"], g, 1 - beta1), state["exp_avg"])
        v = ops.where(used, between(state["exp_avg_sq"], g * g, 1 - beta2), state["exp_avg_sq"])
        rate = group["lr"] * (1 - beta2**t) ** 0.5 / (1 - beta1**t)
        p = ops.where(used, p - rate * m / (v.sqrt() + group["eps"]), p)
        return p, {"step": t, "exp_avg": m, "exp_avg_sq": v}
