"""A schedule by success: less when a measurement gets no better."""

from __future__ import annotations

import math
import warnings
from typing import Any, SupportsFloat

from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedules.base import (
    EPOCH_WARNING,
    LRScheduler,
    assign,
    need_optimizer,
    values,
)
from rushlight.symbol import refuse_in_trace


class ReduceLROnPlateau(LRScheduler):
    """Lowers the rate when a measurement has not improved for some epochs.

    Args:
        optimizer: whose learning rates are set.
        mode: ``"min"`` if less is better, ``"max"`` if more is.
        factor: what the rate is multiplied by.
        patience: how many epochs without improvement are borne.
        threshold: how much better counts as better.
        threshold_mode: ``"rel"`` if ``threshold`` is a share of the best value, or ``"abs"``.
        cooldown: how many epochs to wait after a reduction.
        min_lr: the lowest rate, or one for each group.
        eps: smaller changes are not made.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in [1.0, 1.0, 1.0]:
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.4]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if not factor < 1.0:
            raise ValueError("Factor should be < 1.0.")
        self.optimizer = need_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = self._lowest(min_lr)
        self.last_epoch = 0
        self._last_lr = values(optimizer, "lr")
        self._reset()

    def _lowest(self, min_lr: Any) -> list[float]:
        count = len(self.optimizer.param_groups)
        if not isinstance(min_lr, (list, tuple)):
            return [min_lr] * count
        if len(min_lr) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
        return list(min_lr)

    def _reset(self) -> None:
        """Forgets what was measured."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether it waits after a reduction."""
        return self.cooldown_counter > 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes note of a measurement, and lowers the rates if there were too many bad ones."""
        refuse_in_trace("ReduceLROnPlateau.step()")
        current = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = values(self.optimizer, "lr")

    def _is_better(self, a: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            bound = best * (1 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due "
                    "to a new param group being added to the optimizer. Please modify the "
                    "`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = self._lowest(self.default_min_lr)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                assign(group, "lr", new)
