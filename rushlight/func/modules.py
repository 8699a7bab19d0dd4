"""Modules as functions: of several dictionaries of tensors, and of many models at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.nn.module import Module
from rushlight.nn.utils import stateless
from rushlight.nn.utils.stateless import Named
from rushlight.ops import ops


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Named | Sequence[Named],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls ``module`` with other parameters and buffers in the place of its own.

    Args:
        parameter_and_buffer_dicts: the tensors by path, in one dictionary or several. What the
            call puts in their place, such as new running means, is written back to a single one.
        args: the arguments of the module: a tuple, or one that is none.
        kwargs: its keyword arguments.
        tie_weights: a tensor that the module has under several names is replaced under all.
        strict: whether all of the module's tensors, and no others, must be given.

    >>> layer = rl.nn.Linear(1, 1)
    >>> tensors = {"weight": rl.tensor([[2.0]])}, {"bias": rl.tensor([1.0])}
    >>> rl.func.functional_call(layer, tensors, rl.tensor([[3.0]]))
    tensor([[7.]])
    """
    tensors = merged(parameter_and_buffer_dicts)
    return stateless.functional_call(
        module, tensors, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def merged(dicts: Named | Sequence[Named]) -> Named:
    """Several dictionaries as one; it is that one itself if there is one."""
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, (tuple, list)) or not all(isinstance(d, dict) for d in dicts):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    names = [name for d in dicts for name in d]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(
            f"{sorted(twice)[0]} appeared in multiple dictionaries; behavior of functional call "
            "is ambiguous"
        )
    return {name: t for d in dicts for name, t in d.items()}


def stack_module_state(models: Sequence[Module] | Any) -> tuple[Named, Named]:
    """The parameters, and the buffers, of several alike modules, each stacked to one tensor.

    They are made to be mapped over, together with :func:`functional_call`.

    >>> models = [rl.nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = rl.func.stack_module_state(models)
    >>> params["weight"].shape
    rushlight.Size([4, 3, 2])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    params = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return stacked(params), stacked(buffers)


def stacked(states: Sequence[Named]) -> Named:
    """Each tensor with those of the same name stacked; leaves where they were leaves."""
    found = {}
    for name, first in states[0].items():
        t = ops.stack([state[name] for state in states]).detach()
        found[name] = t.requires_grad_() if first.requires_grad else t
    return found
