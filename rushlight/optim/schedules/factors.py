"""Schedules that multiply the learning rate by a factor."""

from __future__ import annotations

import types
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedules.base import LRScheduler, Rate, values

Lambda = Callable[[int], float]


class Factor(LRScheduler):
    """Schedules whose rates all change by the same ratio from one epoch to the next."""

    def ratio(self) -> float:
        """What the rates are multiplied by at ``last_epoch``."""
        raise NotImplementedError

    def total(self) -> float:
        """The product of all ratios up to ``last_epoch``."""
        raise NotImplementedError

    def get_lr(self) -> list[Rate]:
        """The present rates times the ratio."""
        self._warn_outside_step()
        ratio = self.ratio()
        return [rate * ratio for rate in values(self.optimizer, "lr")]

    def _get_closed_form_lr(self) -> list[Rate]:
        total = self.total()
        return [base * total for base in self.base_lrs]


class StepLR(Factor):
    """Multiplies the rate by ``gamma`` every ``step_size`` epochs.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for epoch in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.8, 0.8, 0.4, 0.4, 0.2]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        falls = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self.gamma if falls else 1.0

    def total(self) -> float:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(Factor):
    """Multiplies the rate by ``gamma`` at each of the epochs ``milestones``.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for epoch in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.8, 0.4, 0.4, 0.2, 0.2]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        return self.gamma ** self.milestones[self.last_epoch]

    def total(self) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(Factor):
    """Multiplies the rate by ``factor`` for the first ``total_iters`` epochs.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.4, 0.4, 0.8, 0.8]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1 / self.factor if self.last_epoch == self.total_iters else 1.0

    def total(self) -> float:
        return 1.0 if self.last_epoch >= self.total_iters else self.factor


class LinearLR(Factor):
    """Changes the factor of the rate evenly from ``start_factor`` to ``end_factor``.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += [round(rate, 4) for rate in scheduler.get_last_lr()]
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.4, 0.6, 0.8, 0.8]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)

    def total(self) -> float:
        rise = self.end_factor - self.start_factor
        return self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters


class ExponentialLR(Factor):
    """Multiplies the rate by ``gamma`` every epoch.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.4]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        return 1.0 if self._is_initial else self.gamma

    def total(self) -> float:
        return self.gamma**self.last_epoch


class PolynomialLR(Factor):
    """Lets the rate fall to zero as (1 − epoch/``total_iters``)^``power``.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 4)
    0.6
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        now, before = [
            1 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1)
        ]
        return (now / before) ** self.power

    def total(self) -> float:
        return (1 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power


class Lambdas(LRScheduler):
    """Schedules by functions of the epoch, one for all groups or one for each."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Lambda | list[Lambda], last_epoch: int = -1
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas: list[Lambda]
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != count:
                raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * count
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """What :class:`LRScheduler` saves; of callable objects their attributes, functions not."""
        saved = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy()
            for f in self.lr_lambdas
        ]
        return super().state_dict() | {"lr_lambdas": saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if saved is not None:
                function.__dict__.update(saved)


class LambdaLR(Lambdas):
    """Sets the rate to the initial one times a function of the epoch.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.4]
    """

    def get_lr(self) -> list[Rate]:
        """The initial rates times the functions of the epoch."""
        self._warn_outside_step()
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]


class MultiplicativeLR(Lambdas):
    """Multiplies the rate by a function of the epoch, every epoch.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.4]
    """

    def get_lr(self) -> list[Rate]:
        """The present rates times the functions of the epoch."""
        self._warn_outside_step()
        rates = values(self.optimizer, "lr")
        if self._is_initial:
            return rates
        pairs = zip(rates, self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]
