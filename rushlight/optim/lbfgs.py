"""L-BFGS: Newton's method with a Hessian guessed from the last gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.modes import enable_grad, no_grad
from rushlight.ops import ops
from rushlight.optim.apply import as_real
from rushlight.optim.line_search import Point, strong_wolfe
from rushlight.optim.numbers import number
from rushlight.optim.optimizer import Optimizer, ParamsT, need, need_rate
from rushlight.tensor import Tensor


class LBFGS(Optimizer):
    """Limited-memory BFGS: each call of ``step`` takes up to ``max_iter`` steps.

    The direction is d = −Hg, where H, the inverse of the Hessian, is guessed from the last
    ``history_size`` changes of the parameters and of the gradient. All parameters are one vector,
    so there is one group.

    Args:
        params: the parameters.
        lr: the length of a step, or of the first one that the line search tries.
        max_iter: how many steps to take.
        max_eval: how often to evaluate the function at most; by default 1.25 times ``max_iter``.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when neither the function nor any parameter changes more.
        history_size: how many changes to remember.
        line_search_fn: ``"strong_wolfe"`` or None.

    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = rl.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - 3) ** 4).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure)
    tensor(17., grad_fn=<SumBackward0>)
    >>> bool((w - 3).abs().max() < 0.01)
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        need_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        need(
            len(self.param_groups) == 1,
            "LBFGS doesn't support per-parameter options (parameter groups)",
        )

    def step(self, closure: Callable[[], Any]) -> Any:
        """Takes up to ``max_iter`` steps.

        Args:
            closure: clears the gradients, computes the loss and its gradients, returns the loss.
        """
        with no_grad():
            return self._minimize(enable_grad()(closure))

    def _minimize(self, closure: Callable[[], Any]) -> Any:
        (group,) = self.param_groups
        lr, small = number(group["lr"]), group["tolerance_change"]
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        g = self._gradient()
        # The state of all parameters is kept with the first one, as PyTorch keeps it.
        state = self.state[group["params"][0]]
        state["func_evals"] = state.get("func_evals", 0) + 1
        state.setdefault("n_iter", 0)
        if largest(g) <= group["tolerance_grad"]:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            first = state["n_iter"] == 1
            d = state["d"] = self._direction(g, state, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = g, loss
            t = state["t"] = min(1.0, 1 / g.abs().sum().item()) * lr if first else lr
            slope = g.dot(d).item()
            if slope > -small:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                point, calls = strong_wolfe(
                    self._along(closure, d),
                    Point(0.0, loss, g, slope),
                    t,
                    largest(d),
                    group["max_eval"] - evaluations,
                )
                t, loss, g = point.t, point.f, point.g
                state["t"] = t
                self._move(t, d)
            else:
                self._move(t, d)
                if iteration < group["max_iter"]:
                    loss, g, calls = float(closure()), self._gradient(), 1
            evaluations += calls
            state["func_evals"] += calls
            if (
                evaluations >= group["max_eval"]
                or largest(g) <= group["tolerance_grad"]
                or largest(d) * abs(t) <= small
                or abs(loss - state["prev_loss"]) < small
            ):
                break
        return first_loss

    def _direction(self, g: Tensor, state: dict[str, Any], history_size: int) -> Tensor:
        """−Hg, where H has learnt from the last step."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -g
        changes, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = g - state["prev_flat_grad"], state["d"] * number(state["t"])
        curvature = y.dot(s).item()
        if curvature > 1e-10:
            if len(changes) == history_size:
                del changes[0], steps[0], ro[0]
            changes.append(y)
            steps.append(s)
            ro.append(1 / curvature)
            state["H_diag"] = curvature / y.dot(y).item()
        q = -g
        weights = []
        for y, s, r in zip(reversed(changes), reversed(steps), reversed(ro), strict=True):
            weights.append(s.dot(q).item() * number(r))
            q = q - weights[-1] * y
        q = q * number(state["H_diag"])
        for y, s, r in zip(changes, steps, ro, strict=True):
            q = q + (weights.pop() - y.dot(q).item() * number(r)) * s
        return q

    def _along(self, closure: Callable[[], Any], d: Tensor) -> Callable[[float], Point]:
        """The function on the line from the present parameters along ``d``."""
        params = self.param_groups[0]["params"]
        origin = [p.clone() for p in params]

        def evaluate(t: float) -> Point:
            self._move(t, d)
            loss, g = float(closure()), self._gradient()
            for p, value in zip(params, origin, strict=True):
                p.copy_(value)
            return Point(t, loss, g, g.dot(d).item())

        return evaluate

    def _gradient(self) -> Tensor:
        """The gradients of all parameters as one vector."""
        params = self.param_groups[0]["params"]
        parts = [ops.zeros_like(p) if p.grad is None else p.grad for p in params]
        return ops.cat([as_real(g).reshape(-1) for g in parts])

    def _move(self, t: float, d: Tensor) -> None:
        """Adds ``t`` times the vector ``d`` to the parameters."""
        offset = 0
        for p in self.param_groups[0]["params"]:
            p = as_real(p)
            p.add_(d[offset : offset + p.numel()].reshape(p.shape), alpha=t)
            offset += p.numel()


def largest(x: Tensor) -> float:
    """The largest magnitude in ``x``."""
    return x.abs().max().item()
