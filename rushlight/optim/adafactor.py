"""Adafactor: the second moments of a matrix kept as those of its rows and its columns."""

from __future__ import annotations

from typing import Any

from rushlight import dtypes
from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.numbers import between, element, larger, smaller
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_rate
from rushlight.tensor import Tensor


class Adafactor(Optimizer):
    """Adaptive steps with little memory.

        w = t^β,   R ← (1 − w)R + w·mean(g², −1),   C ← (1 − w)C + w·mean(g², −2)
        V = RC/max(mean(R), ε₁),   u = g/√max(V, ε₁²)
        p ← p − max(ε₂, rms(p)) · min(lr, 1/√t) · u/max(1, rms(u)/d)

    A vector keeps V itself: V ← (1 − w)V + w·g².

    Args:
        params: the parameters.
        lr: the largest relative step.
        beta2_decay: β, not above 0.
        eps: (ε₁, ε₂); None for ε₁ takes the machine precision of the parameter.
        d: where updates are clipped.
        weight_decay: λ of p ← p − lr·λp, before the step.

    >>> w = rl.tensor([[1.0, 2.0]], requires_grad=True)
    >>> optimizer = rl.optim.Adafactor([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([[0.8419, 1.8419]], requires_grad=True)
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        need_rate(lr, "Learning rate should be >= 0 but is:")
        need(beta2_decay <= 0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        need(eps[0] is None or eps[0] >= 0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        need(eps[1] >= 0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        need(d >= 1, f"Clipping threshold d should be >= 1 but is: {d}")
        need(weight_decay >= 0, f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def init(self, p: Tensor, group: Group) -> State:
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if p.dim() < 2:
            return {"step": 0.0, "variance": ops.zeros_like(p)}
        *batch, rows, columns = p.shape
        return {
            "step": 0.0,
            "row_var": p.new_zeros([*batch, rows, 1]),
            "col_var": p.new_zeros([*batch, 1, columns]),
        }

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        lr, (eps1, eps2), t = group["lr"], group["eps"], state["step"] + 1
        eps1 = dtypes.finfo(p.dtype).eps if eps1 is None else eps1
        weight = t ** group["beta2_decay"]
        size = larger(eps2, root_mean_square(p)) * smaller(lr, 1 / t**0.5)
        if group["weight_decay"] != 0:
            p = p * (1 - lr * group["weight_decay"])
        if g.dim() < 2:
            v = between(state["variance"], g * g, weight)
            after = {"step": t, "variance": v}
        else:
            rows = between(state["row_var"], (g * g).mean(-1, keepdim=True), weight)
            columns = between(state["col_var"], (g * g).mean(-2, keepdim=True), weight)
            v = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps1)
            after = {"step": t, "row_var": rows, "col_var": columns}
        u = g * v.clamp(min=eps1 * eps1).rsqrt()
        return p - size / larger(1.0, root_mean_square(u) / group["d"]) * u, after


def root_mean_square(x: Tensor) -> Any:
    """√mean(x²); 0 of nothing."""
    return element(x.norm()) / max(1, x.numel()) ** 0.5
