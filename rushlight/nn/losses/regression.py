"""Layers of losses of predicted numbers."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.losses.base import _Loss
from rushlight.tensor import Tensor


class L1Loss(_Loss):
    """The mean absolute error: mean of abs(input - target).

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> rl.nn.L1Loss()(rl.tensor([1.0, 2.0]), rl.tensor([0.0, 5.0]))
    tensor(2.)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The mean squared error: mean of (input - target)².

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> rl.nn.MSELoss()(rl.tensor([1.0, 2.0]), rl.tensor([0.0, 5.0]))
    tensor(5.)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squared below ``beta``, absolute above: mean of d² / (2 beta), or abs(d) - beta / 2.

    Here d is input - target. Large errors pull no harder than others.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        beta: where the parabola ends; 0 makes it :class:`L1Loss`.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> rl.nn.SmoothL1Loss(reduction="none")(rl.tensor([1.0, 5.0]), rl.zeros(2))
    tensor([0.5000, 4.5000])
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Squared below ``delta``, absolute above: mean of d² / 2, or delta · (abs(d) - delta / 2).

    Here d is input - target; it is ``delta`` times :class:`SmoothL1Loss`.

    Args:
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        delta: where the parabola ends.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> rl.nn.HuberLoss(reduction="none", delta=2.0)(rl.tensor([1.0, 5.0]), rl.zeros(2))
    tensor([0.5000, 8.0000])
    """

    __constants__ = ["delta", "reduction"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts that follow a Poisson law, up to a constant.

    The mean of exp(input) - target · input, where ``input`` is the logarithm of the rate.

    Args:
        log_input: False if ``input`` is the rate: input - target · log(input + eps).
        full: adds Stirling's approximation of log(target!), the constant, where target > 1.
        eps: keeps log(input + eps) finite.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> rl.nn.PoissonNLLLoss()(rl.tensor([0.0, 1.0]), rl.tensor([1.0, 3.0]))
    tensor(0.3591)
    """

    __constants__ = ["eps", "full", "log_input", "reduction"]
    log_input: bool
    full: bool
    eps: float

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """The negative log likelihood of numbers that follow a normal law, up to a constant.

    The mean of (log(var) + (input - target)² / var) / 2, with ``var`` at least ``eps``.

    Args:
        full: adds the constant log(2π) / 2.
        eps: the least variance.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Input and target of one shape (*); the variances of that shape, without its last dimension,
        with one dimension of size 1, or a number. The result is a scalar, or (*) without reduction.

    >>> loss = rl.nn.GaussianNLLLoss()
    >>> loss(rl.tensor([1.0, 3.0]), rl.tensor([0.0, 5.0]), rl.tensor([1.0, 4.0]))
    tensor(0.8466)
    """

    __constants__ = ["eps", "full", "reduction"]
    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )
