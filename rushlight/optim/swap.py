"""Stepping other parameters for a while with an optimizer that has its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.optim.optimizer import Optimizer
from rushlight.tensor import Tensor

NAME = "swap_in_optimizer_params_and_state"


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Inside, the optimizer has other parameters and another state.

    Its steps write to the given tensors; nothing else of what they change remains.

    Args:
        optimizer: one that has taken a step.
        swapin_parameters: tensors in the order of the optimizer's parameters.
        swapin_optim_state: a state for them, as ``optimizer.state_dict()`` returns it.

    >>> w = rl.ones(1, requires_grad=True)
    >>> optimizer = rl.optim.Adagrad([w], lr=0.5)
    >>> twin = rl.zeros(1)
    >>> twin.grad = rl.ones(1)
    >>> state = optimizer.state_dict()
    >>> with rl.optim.swap_in_optimizer_params_and_state(optimizer, {"w": twin}, state):
    ...     optimizer.step()
    >>> w, twin
    (tensor([1.], requires_grad=True), tensor([-0.5000]))
    """
    state, groups = checked(optimizer, swapin_parameters, swapin_optim_state)
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    try:
        optimizer.state = defaultdict(dict)
        parameters = iter(swapin_parameters.values())
        for group, other in zip(optimizer.param_groups, groups, strict=True):
            group.update({k: v for k, v in other.items() if k != "params"})
            group["params"] = [next(parameters) for _ in other["params"]]
            for p, number in zip(group["params"], other["params"], strict=True):
                optimizer.state[p] = dict(state.get(number, {}))
        yield
    finally:
        optimizer.state = own_state
        for group, own in zip(optimizer.param_groups, own_groups, strict=True):
            group.clear()
            group.update(own)


def checked(
    optimizer: Optimizer, parameters: dict[str, Tensor], state_dict: Any
) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
    """The state and the groups of ``state_dict``, if they fit the optimizer."""
    if not optimizer.state:
        raise RuntimeError(f"{NAME} requires initialized optimizer state.")
    if not isinstance(state_dict, dict):
        raise RuntimeError(f"{NAME} requires a DCP-style optimizer state_dict.")
    state, groups = state_dict.get("state"), state_dict.get("param_groups")
    if not isinstance(state, dict) or any(isinstance(k, Tensor) for k in state):
        raise RuntimeError(
            f"{NAME} requires optimizer.state_dict()-style state keyed by packed parameter ids."
        )
    if not isinstance(groups, list):
        raise RuntimeError(f"{NAME} requires a list of param-group dicts.")
    if len(groups) != len(optimizer.param_groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    for i, (group, other) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        if set(group) != set(other):
            raise RuntimeError(
                f"{NAME} requires param group keys to exactly match the live optimizer group keys "
                f"for group {i}: {sorted(other)}, expected {sorted(group)}."
            )
        if len(group["params"]) != len(other["params"]):
            raise RuntimeError(
                f"swapin_optim_state param group {i} has a different number of params than the "
                "live optimizer param group."
            )
    numbers = {number for group in groups for number in group["params"]}
    if len(parameters) < sum([len(group["params"]) for group in groups]):
        raise RuntimeError(
            f"{NAME} requires the explicit parameter state to match optimizer.param_groups "
            "ordering."
        )
    extra = [k for k in state if k not in numbers]
    if extra:
        raise RuntimeError(
            f"{NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter ids "
            f"from param_groups[*]['params']; got extra keys {extra!r}."
        )
    return state, groups
