"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedules.base import LRScheduler, assign, is_postponed, values
from rushlight.optim.schedules.plateau import ReduceLROnPlateau


class Combined(LRScheduler):
    """A schedule that steps others."""

    _schedulers: Sequence[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, that of the schedules included."""
        parts = [scheduler.state_dict() for scheduler in self._schedulers]
        return super().state_dict() | {"_schedulers": parts}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)

    def _check(self, optimizer: Optimizer) -> None:
        name = type(self).__name__
        for i, scheduler in enumerate(self._schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {i} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )


class SequentialLR(Combined):
    """One schedule after the other, changing over at the epochs ``milestones``.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> warm_up = rl.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> decay = rl.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = rl.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, decay], [2])
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.4, 0.4, 0.8, 0.4]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        self._schedulers = schedulers
        self._check(optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each schedule has already taken its first step: that is taken back, but for the first one.
        for group in optimizer.param_groups:
            assign(group, "lr", group["initial_lr"])
        take_back(schedulers)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Steps the schedule whose turn it is."""
        if is_postponed(self):
            return
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def take_back(schedulers: Sequence[LRScheduler]) -> None:
    """Sets all schedules, also those inside others, one epoch back."""
    for scheduler in schedulers:
        if isinstance(scheduler, Combined):
            take_back(scheduler._schedulers)
        else:
            scheduler.last_epoch -= 1


class ChainedScheduler(Combined):
    """Several schedules at once, each changing the rate that the one before has set.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> half = rl.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> decay = rl.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = rl.optim.lr_scheduler.ChainedScheduler([half, decay])
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.2]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        self._schedulers = schedulers
        self.optimizer = optimizer or schedulers[0].optimizer
        self._check(self.optimizer)
        self._last_lr = values(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Steps all schedules."""
        if is_postponed(self):
            return
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = values(self.optimizer, "lr")
