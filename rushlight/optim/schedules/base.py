"""LRScheduler: sets the learning rates of an optimizer, epoch by epoch."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from rushlight.autograd.modes import local
from rushlight.optim.optimizer import Optimizer
from rushlight.tensor import Tensor

Rate = float | Tensor

EPOCH_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)
ORDER_WARNING = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the "
    "opposite order: `optimizer.step()` before `lr_scheduler.step()`. Otherwise the first value of "
    "the learning rate schedule is skipped."
)
OVERRIDDEN_WARNING = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
    "initialization. Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`."
)


class LRScheduler:
    """The base of all schedules: a subclass computes the rates of the groups in ``get_lr``.

    ``step`` is called once an epoch, after the optimizer's steps. Schedules of one optimizer can
    be combined, since most of them change the present rate rather than compute it from the first.

    Args:
        optimizer: whose learning rates are set.
        last_epoch: the last epoch before a resumption; -1 for a fresh start, which makes the
            present rates the initial ones.

    >>> class Halving(rl.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = Halving(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.4]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False  # while the scheduler is being made

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = need_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0. Load the optimizer's state first, or begin "
                    "anew with last_epoch=-1."
                )
        self.base_lrs: list[Rate] = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_last_lr(self) -> list[Rate]:
        """The rates of all groups as they were set last."""
        trace = local.state.trace
        if trace is None:
            return self._last_lr
        trace.refuse_postponed(self.optimizer, f"{type(self).__name__}.get_last_lr()")
        trace.decide(lambda: len(self._last_lr), len(self._last_lr))
        return [trace.host(partial(self._read_rate, i)) for i in range(len(self._last_lr))]

    def _read_rate(self, number: int) -> float:
        return float(self._last_lr[number])

    def get_lr(self) -> list[Rate]:
        """The rates of all groups for ``last_epoch``; called by :meth:`step`."""
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[Rate]:
        """The rates computed from the initial ones alone, for a step to a given epoch."""
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch, or to a given one, and sets the rates."""
        if is_postponed(self, epoch):
            return
        if self._step_count == 1:
            if "step" in vars(self.optimizer):
                warnings.warn(OVERRIDDEN_WARNING, UserWarning, stacklevel=2)
            elif not self.optimizer._opt_called:
                warnings.warn(ORDER_WARNING, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = self._get_closed_form_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set_rates(rates)

    def _set_rates(self, rates: list[Rate]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            assign(group, "lr", rate)
        self._last_lr = values(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """All that is needed to go on later, but for the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned, here or in PyTorch."""
        self.__dict__.update(state_dict)


def need_optimizer(optimizer: Any) -> Optimizer:
    """``optimizer``, or the error that it is none."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def is_postponed(scheduler: LRScheduler, *args: Any) -> bool:
    """Whether a graph is being made: its program is followed by the step, at each call."""
    trace = local.state.trace
    if trace is not None:
        what = f"{type(scheduler).__name__}.step()"
        trace.postpone(scheduler.optimizer, partial(scheduler.step, *args), what)
    return trace is not None


def copied(value: Any) -> Any:
    """``value``; a tensor is copied, since a rate that is one is written in place."""
    return value.clone() if isinstance(value, Tensor) else value


def values(optimizer: Optimizer, key: str) -> list[Any]:
    """A hyper-parameter in all groups."""
    return [copied(group[key]) for group in optimizer.param_groups]


def assign(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets a hyper-parameter; one that is a tensor stays the same tensor."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.squeeze() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """An argument that is one value for all groups, or a list with one for each."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copied(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {count}."
        )
    return [copied(v) for v in value]
