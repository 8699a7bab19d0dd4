"""Muon: momentum for matrices, with all directions made equally long."""

from __future__ import annotations

from typing import Any

from rushlight.ops import ops
from rushlight.optim.apply import Group, State
from rushlight.optim.numbers import between
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_rate
from rushlight.tensor import Tensor

SIZES = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """Gradient descent in which the momentum of a matrix is replaced by a near-orthogonal one.

        b ← μb + (1 − μ)g,   u = orthogonal(g + μ(b − g))   (without ``nesterov``: of b)
        p ← p − lr·λp − lr·s·u

    The factor s makes up for the shape (m, n): √max(1, m/n) or, with
    ``adjust_lr_fn="match_rms_adamw"``, 0.2√max(m, n).

    Args:
        params: matrices; leave biases and embeddings to another optimizer.
        lr: the learning rate.
        weight_decay: λ.
        momentum: μ.
        nesterov: whether to look ahead.
        ns_coefficients: the polynomial that :func:`orthogonal` iterates.
        eps: the smallest norm that is divided by.
        ns_steps: how often it is iterated.
        adjust_lr_fn: ``"original"`` or ``"match_rms_adamw"``.

    >>> w = rl.tensor([[1.0, 0.0], [0.0, 2.0]], requires_grad=True)
    >>> optimizer = rl.optim.Muon([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> bool((w.diag() < 1.95).all())
    True
    """

    elementwise = False

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        need_rate(lr, "Learning rate should be >= 0 but is:")
        need(momentum >= 0, f"momentum should be >= 0 but is: {momentum}")
        need(weight_decay >= 0, f"weight decay should be >= 0 but is: {weight_decay}")
        need(
            adjust_lr_fn in SIZES, f"Adjust learning rate function {adjust_lr_fn} is not supported"
        )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                need(
                    p.dim() == 2,
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{p.shape}",
                )

    def init(self, p: Tensor, group: Group) -> State:
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return {"momentum_buffer": ops.zeros_like(p)}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        lr, momentum, (m, n) = group["lr"], group["momentum"], p.shape
        b = between(state["momentum_buffer"], g, 1 - momentum)
        u = between(g, b, momentum) if group["nesterov"] else b
        u = orthogonal(u, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rms = group["adjust_lr_fn"] == "match_rms_adamw"
        factor = 0.2 * max(m, n) ** 0.5 if rms else max(1, m / n) ** 0.5
        p = p * (1 - lr * group["weight_decay"]) - lr * factor * u.to(p.dtype)
        return p, {"momentum_buffer": b}


def orthogonal(
    g: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """A matrix with the singular vectors of ``g`` and singular values near 1, in bfloat16.

    The polynomial x ← ax + bx³ + cx⁵ is iterated on all singular values at once:
    X ← aX + (bA + cA²)X with A = XXᵀ.
    """
    need(steps < 100, "Number of steps must be less than 100 for computational efficiency")
    need(g.dim() == 2, "Input tensor gradient must be a 2D matrix")
    need(len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = g.shape[0] > g.shape[1]
    x = g.bfloat16()
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        square = x @ x.T
        x = ops.addmm(x, ops.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
