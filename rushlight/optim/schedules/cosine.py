"""Schedules along a cosine: slow, quick, slow."""

from __future__ import annotations

import math

from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedules.base import LRScheduler, Rate, is_postponed, values


def hill(x: float) -> float:
    """1 at x = 0, 0 at x = 1, and along a cosine between.

    >>> hill(0.0), round(hill(0.5), 4), hill(1.0)
    (1.0, 0.5, 0.0)
    """
    return (1 + math.cos(math.pi * x)) / 2


class CosineAnnealingLR(LRScheduler):
    """Lets the rate fall from the initial one to ``eta_min`` along half a cosine wave.

        lr = eta_min + (lr₀ − eta_min) · (1 + cos(π·epoch/T_max))/2

    After ``T_max`` epochs it rises again. Each step goes from the present rate, so that other
    schedules may change it too.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 4)
    0.4
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The present rates, brought one epoch further along the wave."""
        self._warn_outside_step()
        rates, low = values(self.optimizer, "lr"), self.eta_min
        if self._is_initial:
            return rates
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # up from the lowest point
            rise = 1 - hill(1 / self.T_max)
            pairs = zip(rates, self.base_lrs, strict=True)
            return [rate + (base - low) * rise for rate, base in pairs]
        ratio = hill(self.last_epoch / self.T_max) / hill((self.last_epoch - 1) / self.T_max)
        return [low + (rate - low) * ratio for rate in rates]

    def _get_closed_form_lr(self) -> list[Rate]:
        height = hill(self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """:class:`CosineAnnealingLR` that jumps back to the initial rate when it is down.

    Args:
        optimizer: whose learning rates are set.
        T_0: how many epochs the first wave takes.
        T_mult: how much longer each wave is than the one before.
        eta_min: the lowest rate.
        last_epoch: the last epoch before a resumption.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += [round(rate, 4) for rate in scheduler.get_last_lr()]
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.8, 0.4, 0.8, 0.4]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0, self.T_i, self.T_mult = T_0, T_0, T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The rates at ``T_cur`` epochs of ``T_i``."""
        self._warn_outside_step()
        height = hill(self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes to the next epoch, or to a given one, which may be a fraction."""
        if is_postponed(self, epoch):
            return
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._find_wave(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set_rates(rates)

    def _find_wave(self, epoch: float) -> None:
        """Sets the length of the wave that ``epoch`` falls into, and how far into it that is."""
        self.T_cur, self.T_i = epoch, self.T_0
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**n
