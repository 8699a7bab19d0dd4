"""Averages of a model over its training: stochastic weight averaging and moving averages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from rushlight.autograd.modes import local, no_grad
from rushlight.device import device as Device
from rushlight.dtypes import int64
from rushlight.literals import tensor
from rushlight.nn.batch_normalization import _BatchNorm
from rushlight.nn.module import Module
from rushlight.ops import ops
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.schedules.base import LRScheduler, Rate, for_each_group
from rushlight.optim.schedules.cosine import hill
from rushlight.tensor import Tensor

Average = Callable[[Tensor, Tensor, Any], Tensor]
Averages = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential moving average of one parameter: decay·average + (1 − decay)·present.

    >>> average = rl.optim.swa_utils.get_ema_avg_fn(0.75)
    >>> average(rl.tensor(4.0), rl.tensor(8.0), 3)
    tensor(5.)
    """
    check_decay(decay)

    @no_grad()
    def average(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return average


def get_swa_avg_fn() -> Average:
    """The plain average of one parameter over all models so far.

    >>> average = rl.optim.swa_utils.get_swa_avg_fn()
    >>> average(rl.tensor(4.0), rl.tensor(8.0), 3)
    tensor(5.)
    """

    @no_grad()
    def average(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """:func:`get_ema_avg_fn` for lists of parameters, written in place."""
    return in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Averages:
    """:func:`get_swa_avg_fn` for lists of parameters, written in place."""
    return in_place(get_swa_avg_fn())


def in_place(average: Average) -> Averages:
    """``average`` for lists of parameters, written over the first one."""

    @no_grad()
    def averages(
        averaged_params: Sequence[Tensor], current_params: Sequence[Tensor], num_averaged: Any
    ) -> None:
        for averaged, current in zip(averaged_params, current_params, strict=True):
            averaged.copy_(average(averaged, current, num_averaged))

    return averages


def check_decay(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over the training.

    The first ``update_parameters`` copies the model; each further one adds it to the averages.

    Args:
        model: the model to copy.
        device: where to keep the copy.
        avg_fn: the new average of (average, parameter, how many were averaged); by default every
            model counts alike.
        multi_avg_fn: the same for lists of parameters, writing over the averages.
        use_buffers: whether to average the buffers too; otherwise they are copied.

    >>> model = rl.nn.Linear(1, 1, bias=False)
    >>> averaged = rl.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     weight = rl.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Device | str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the present parameters of ``model`` into the averages."""
        pairs = list(zip(self._averaged(self.module), self._averaged(model), strict=True))
        first, traced = self.n_averaged == 0, local.state.trace is not None
        if traced or not first:
            self._average(pairs)
        if traced or first:
            for average, current in pairs:
                average.copy_(ops.where(first, current, average))
        if not self.use_buffers:
            for kept, current in zip(self.module.buffers(), model.buffers(), strict=True):
                kept.detach().copy_(current.detach())
        self.n_averaged += 1

    def _average(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Takes into each average the tensor beside it."""
        if self.avg_fn is not None:
            for average, current in pairs:
                average.copy_(self.avg_fn(average, current, self.n_averaged))
            return
        function = self.multi_avg_fn or get_swa_multi_avg_fn()
        by_type: dict[Any, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for average, current in pairs:
            by_type[average.dtype].append((average, current))
        for same in by_type.values():
            averages, currents = zip(*same, strict=True)
            function(list(averages), list(currents), self.n_averaged)

    def _averaged(self, module: Module) -> list[Tensor]:
        buffers = module.buffers() if self.use_buffers else ()
        return [t.detach() for t in chain(module.parameters(), buffers)]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Device | str | None = None) -> None:
    """Computes the running statistics of all batch normalisations anew, in one pass over data.

    Args:
        loader: batches: tensors, or lists and tuples whose first entry is the model's input.
        model: the model, whose weights were averaged.
        device: where to move the inputs.

    >>> model = rl.nn.BatchNorm1d(1)
    >>> rl.optim.swa_utils.update_bn([rl.tensor([[1.0], [3.0]])], model)
    >>> model.running_mean
    tensor([2.])
    """
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None  # averages all batches alike
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x if device is None else x.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Brings the rates to ``swa_lr`` within some epochs, and keeps them there.

    Args:
        optimizer: whose learning rates are set.
        swa_lr: the rate in the end, or one for each group.
        anneal_epochs: how many epochs the way takes.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: the last epoch before a resumption.

    >>> optimizer = rl.optim.SGD([rl.ones(1, requires_grad=True)], lr=0.8)
    >>> scheduler = rl.optim.swa_utils.SWALR(
    ...     optimizer, swa_lr=0.2, anneal_epochs=2, anneal_strategy="linear"
    ... )
    >>> rates = []
    >>> for epoch in range(4):
    ...     rates += [round(rate, 4) for rate in scheduler.get_last_lr()]
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.8, 0.5, 0.2, 0.2]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = for_each_group("swa_lr", optimizer, swa_lr)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """The present rates, brought one epoch further towards ``swa_lr``."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates

    def _share(self, step: float) -> float:
        """How much of the way is done."""
        t = max(0, min(1, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else 1 - hill(t)


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
