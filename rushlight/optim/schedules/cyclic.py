"""Schedules that raise the learning rate and lower it again, and the momentum the other way."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedules.base import (
    LRScheduler,
    Rate,
    assign,
    for_each_group,
    need_optimizer,
)
from rushlight.optim.schedules.cosine import hill


class WithMomentum(LRScheduler):
    """Schedules that may also move the momentum, or β₁ of the Adam family."""

    cycle_momentum: bool
    use_beta1: bool

    def _prepare_momentum(self, base: Any, maximum: Any, last_epoch: int) -> None:
        """Keeps the bounds of the momentum in the groups, and begins at the upper one."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        bounds = zip(base, maximum, optimizer.param_groups, strict=True)
        for low, high, group in bounds if last_epoch == -1 else ():
            self._set_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def _set_momentum(self, group: dict[str, Any], value: float) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(WithMomentum):
    """Moves the rate up and down between two bounds, and the momentum down and up.

    Args:
        optimizer: whose learning rates are set.
        base_lr: the lower bound, or one for each group.
        max_lr: the upper bound, or one for each group.
        step_size_up: how many steps the way up takes.
        step_size_down: how many the way down takes; by default as many.
        mode: ``"triangular"``: every cycle alike; ``"triangular2"``: each half as high as the
            one before; ``"exp_range"``: the height falls by ``gamma`` every step.
        gamma: see ``mode``.
        scale_fn: the height of a cycle as a function of its number, instead of ``mode``.
        scale_mode: ``"cycle"``, or ``"iterations"`` if ``scale_fn`` takes the number of the step.
        cycle_momentum: whether to move the momentum too.
        base_momentum: its lower bound.
        max_momentum: its upper bound.
        last_epoch: the last step before a resumption.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> scheduler = rl.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.3, step_size_up=2)
    >>> rates = []
    >>> for step in range(5):
    ...     rates += [round(rate, 4) for rate in scheduler.get_last_lr()]
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.1, 0.2, 0.3, 0.2, 0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = need_optimizer(optimizer)
        base_lrs = for_each_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                assign(group, "lr", rate)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        if scale_fn is None:
            if mode not in ("triangular", "triangular2", "exp_range"):
                raise ValueError("mode is invalid and scale_fn is None")
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom, self.scale_mode = scale_fn, scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = for_each_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = for_each_group("max_momentum", optimizer, max_momentum)
            self._prepare_momentum(self.base_momentums, self.max_momentums, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of cycle or step ``x``, as a share of the first one's."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return self.gamma**x
        return 1.0 if self.mode == "triangular" else 1 / 2.0 ** (x - 1)

    def get_lr(self) -> list[Rate]:
        """The rates at this step of the cycle; it also sets the momentum."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                self._set_momentum(group, high - (high - low) * height)
        bounds = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height for low, high in bounds]

    def state_dict(self) -> dict[str, Any]:
        """What :class:`LRScheduler` saves; of a callable ``scale_fn`` its attributes."""
        custom = self._scale_fn_custom
        plain = custom is None or isinstance(custom, types.FunctionType)
        return super().state_dict() | {
            "_scale_fn_custom": None if plain else vars(custom).copy(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what :meth:`state_dict` returned."""
        saved = state_dict["_scale_fn_custom"]
        rest = {k: v for k, v in state_dict.items() if k != "_scale_fn_custom"}
        super().load_state_dict(rest)
        if saved is not None:
            vars(self._scale_fn_custom).update(saved)


class OneCycleLR(WithMomentum):
    """Raises the rate to ``max_lr`` and then lowers it far below where it began.

    It starts at ``max_lr / div_factor`` and ends at a ``final_div_factor``-th of that. The
    momentum goes the other way. ``step`` is called after every batch.

    Args:
        optimizer: whose learning rates are set.
        max_lr: the highest rate, or one for each group.
        total_steps: how many steps there will be; or
        epochs: how many epochs of
        steps_per_epoch: so many steps.
        pct_start: the share of the steps that go up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether to move the momentum too.
        base_momentum: its lowest value.
        max_momentum: its highest value.
        div_factor: see above.
        final_div_factor: see above.
        three_phase: come back down as quickly as up, and only then go below the start.
        last_epoch: the last step before a resumption.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.1, momentum=0.9)
    >>> scheduler = rl.optim.lr_scheduler.OneCycleLR(
    ...     optimizer, max_lr=1.0, total_steps=10, div_factor=10, anneal_strategy="linear"
    ... )
    >>> rates = []
    >>> for step in range(4):
    ...     rates += [round(rate, 4) for rate in scheduler.get_last_lr()]
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.1, 0.55, 1.0, 0.8571]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = need_optimizer(optimizer)
        if total_steps is not None:
            self.total_steps = positive("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = positive("epochs", epochs)
            self.total_steps *= positive("steps_per_epoch", steps_per_epoch)
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        top, end = pct_start * self.total_steps, self.total_steps - 1
        if three_phase:
            self._schedule_phases = [
                phase(top - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                phase(2 * top - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                phase(end, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases = [
                phase(top - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                phase(end, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        maxima = for_each_group("max_lr", optimizer, max_lr)
        for group, high in zip(optimizer.param_groups, maxima, strict=True):
            if last_epoch == -1:
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._prepare_momentum(
                for_each_group("base_momentum", optimizer, base_momentum),
                for_each_group("max_momentum", optimizer, max_momentum),
                last_epoch,
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The rates at this step; it also sets the momentum."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        phases = self._schedule_phases
        number = next((i for i, p in enumerate(phases) if step <= p["end_step"]), len(phases) - 1)
        now = phases[number]
        start = phases[number - 1]["end_step"] if number else 0.0
        share = (step - start) / (now["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[now["start_lr"]], group[now["end_lr"]], share))
            if self.cycle_momentum:
                low, high = group[now["start_momentum"]], group[now["end_momentum"]]
                self._set_momentum(group, self._between(low, high, share))
        return rates

    def _between(self, start: Any, end: Any, share: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) * hill(share)


def phase(end: float, lr0: str, lr1: str, momentum0: str, momentum1: str) -> dict[str, Any]:
    """A part of the cycle: until which step, and between which entries of a group it goes."""
    return {
        "end_step": end,
        "start_lr": lr0,
        "end_lr": lr1,
        "start_momentum": momentum0,
        "end_momentum": momentum1,
    }


def positive(name: str, value: Any) -> int:
    """``value`` if it is a positive int, else the error that names the argument."""
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value
