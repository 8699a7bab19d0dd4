"""Learning rate schedules: warnings, errors, state."""

from __future__ import annotations

import copy
import pickle
import types
from typing import Any

import pytest

import rushlight as rl
from rushlight.optim import lr_scheduler as schedules


def optimizer_of(groups: int = 1, **kwargs: Any) -> rl.optim.SGD:
    params = [{"params": [rl.ones(2, requires_grad=True)]} for _ in range(groups)]
    return rl.optim.SGD(params, lr=0.8, **kwargs)


def test_the_order_of_steps() -> None:
    optimizer = optimizer_of()
    scheduler = schedules.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before"):
        scheduler.step()
    optimizer = optimizer_of()
    scheduler = schedules.StepLR(optimizer, 1)
    optimizer.step()
    scheduler.step()  # warnings are errors here


def test_a_step_that_was_replaced() -> None:
    optimizer = optimizer_of()
    scheduler = schedules.StepLR(optimizer, 1)
    optimizer.step = types.MethodType(lambda self: None, optimizer)  # type: ignore[method-assign]
    with pytest.warns(UserWarning, match="has been overridden after learning rate scheduler"):
        scheduler.step()


def test_rates_are_asked_for_by_another_name() -> None:
    scheduler = schedules.StepLR(optimizer_of(), 1)
    with pytest.warns(UserWarning, match="please use `get_last_lr"):
        scheduler.get_lr()


def test_a_given_epoch_is_old_style() -> None:
    optimizer = optimizer_of()
    scheduler = schedules.ExponentialLR(optimizer, 0.5)
    optimizer.step()
    with pytest.warns(UserWarning, match="The epoch parameter"):
        scheduler.step(3)
    assert scheduler.get_last_lr() == [0.1]


def test_initial_rates_are_kept_with_the_groups() -> None:
    optimizer = optimizer_of()
    schedules.ExponentialLR(optimizer, 0.5)
    assert optimizer.param_groups[0]["initial_lr"] == 0.8
    with pytest.raises(KeyError, match="param 'initial_lr' is not specified in param_groups"):
        schedules.ExponentialLR(optimizer_of(), 0.5, last_epoch=3)


def test_a_metric_is_needed() -> None:
    scheduler = schedules.ReduceLROnPlateau(optimizer_of())
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'metrics'"):
        scheduler.step()  # type: ignore[call-arg]


def test_new_groups_have_a_lowest_rate_too() -> None:
    optimizer = optimizer_of()
    scheduler = schedules.ReduceLROnPlateau(optimizer, patience=0, factor=0.5, min_lr=[0.1])
    optimizer.add_param_group({"params": [rl.ones(1, requires_grad=True)]})
    scheduler.step(1.0)
    with pytest.raises(RuntimeError, match=r"differs from when .* was initialized \(1\)"):
        scheduler.step(1.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda o: schedules.StepLR(3, 1), TypeError, "int is not an Optimizer"),
        (lambda o: schedules.ConstantLR(o, factor=2.0), ValueError, "between 0 and 1"),
        (lambda o: schedules.LinearLR(o, start_factor=0), ValueError, "greater than 0"),
        (lambda o: schedules.LinearLR(o, end_factor=2), ValueError, "between 0 and 1"),
        (lambda o: schedules.LambdaLR(o, [abs, abs]), ValueError, "Expected 1 lr_lambdas"),
        (lambda o: schedules.MultiplicativeLR(o, 3), TypeError, "should be a function"),
        (lambda o: schedules.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor should be"),
        (lambda o: schedules.ReduceLROnPlateau(o, "best"), ValueError, "mode best is unknown"),
        (lambda o: schedules.ReduceLROnPlateau(3), TypeError, "int is not an Optimizer"),
        (lambda o: schedules.CyclicLR(o, 0.1, 1, mode="x"), ValueError, "mode is invalid"),
        (lambda o: schedules.CyclicLR(o, [0.1, 0.2], 1), ValueError, "base_lr must have the same"),
        (lambda o: schedules.OneCycleLR(o, 1), ValueError, "You must define either total_steps"),
        (lambda o: schedules.OneCycleLR(o, 1, total_steps=-2), ValueError, "positive integer"),
        (lambda o: schedules.OneCycleLR(o, 1, 9, pct_start=2.0), ValueError, "between 0 and 1"),
        (lambda o: schedules.OneCycleLR(o, 1, 9, anneal_strategy="x"), ValueError, "one of 'cos'"),
        (lambda o: schedules.CosineAnnealingWarmRestarts(o, 0), ValueError, "positive integer T_0"),
        (lambda o: schedules.SequentialLR(o, [], []), ValueError, "at least one scheduler"),
        (
            lambda o: schedules.SequentialLR(o, [schedules.StepLR(o, 1)], [3]),
            ValueError,
            "one more than the number of milestone",
        ),
        (
            lambda o: schedules.ChainedScheduler([schedules.ReduceLROnPlateau(o)]),
            ValueError,
            "does not support `ReduceLROnPlateau`",
        ),
        (
            lambda o: schedules.ChainedScheduler([schedules.StepLR(optimizer_of(), 1)], o),
            ValueError,
            "belong to the same optimizer",
        ),
    ],
)
def test_wrong_arguments(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(optimizer_of(momentum=0.9))


def test_momentum_can_only_be_cycled_if_there_is_one() -> None:
    adagrad = rl.optim.Adagrad([rl.ones(1, requires_grad=True)])
    with pytest.raises(ValueError, match="must support momentum or beta1"):
        schedules.CyclicLR(adagrad, 0.1, 1.0)


def test_one_cycle_ends() -> None:
    optimizer = optimizer_of(momentum=0.9)
    scheduler = schedules.OneCycleLR(optimizer, 1.0, total_steps=3)
    optimizer.step()
    for _ in range(3):
        scheduler.step()
    with pytest.raises(ValueError, match="Tried to step 4 times"):
        scheduler.step()


def test_attributes_of_callables_belong_to_the_state() -> None:
    class Factor:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __call__(self, epoch: int) -> float:
            return self.factor**epoch

    saved = schedules.LambdaLR(optimizer_of(2), [Factor(0.5), lambda epoch: 1.0]).state_dict()
    assert saved["lr_lambdas"] == [{"factor": 0.5}, None]
    scheduler = schedules.LambdaLR(optimizer_of(2), [Factor(0.9), lambda epoch: 1.0])
    scheduler.load_state_dict(saved)
    assert scheduler.lr_lambdas[0](1) == 0.5
    assert saved["lr_lambdas"] == [{"factor": 0.5}, None]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_go_on_alike(duplicate: Any) -> None:
    optimizer = optimizer_of(momentum=0.9)
    scheduler = schedules.OneCycleLR(optimizer, 1.0, total_steps=20)
    optimizer.step()
    scheduler.step()
    twin = duplicate(scheduler)
    assert twin.optimizer is not optimizer
    twin.step()
    scheduler.step()
    assert twin.get_last_lr() == scheduler.get_last_lr()
