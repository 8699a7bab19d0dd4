"""Modules called as functions of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.nn.module import Module
from rushlight.nn.parallel import DataParallel
from rushlight.ops import ops
from rushlight.tensor import Tensor

Named = dict[str, Tensor]


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
            call puts in their place, such as new running means, is written back.
        args: the arguments of the module: a tuple, or one that is none.
        kwargs: its keyword arguments.
        tie_weights: a tensor that the module has under several names is replaced under all.
        strict: whether all of the module's tensors, and no others, must be given.

    >>> layer = rl.nn.Linear(1, 1)
    >>> tensors = {"weight": rl.tensor([[2.0]]), "bias": rl.tensor([1.0])}
    >>> rl.nn.utils.stateless.functional_call(layer, tensors, rl.tensor([[3.0]]))
    tensor([[7.]])
    """
    if isinstance(module, DataParallel):
        raise RuntimeError("The stateless API can't be used with nn.DataParallel module")
    if not isinstance(args, tuple):
        args = () if args is None else (args,)
    with _reparametrize_module(module, merged(parameter_and_buffer_dicts), tie_weights, strict):
        return module(*args, **(kwargs or {}))


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


@contextmanager
def _reparametrize_module(
    module: Module, tensors: Named, tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """While it lasts, ``module`` has ``tensors`` in the place of its own."""
    chosen = tied(module, tensors) if tie_weights else dict(tensors)
    if strict:
        check_names(module, chosen)
    before: dict[str, Any] = {}
    try:
        for name, t in chosen.items():
            before[name] = swap(module, name, t)
        yield
    finally:
        for name, t in before.items():
            now = swap(module, name, t)
            if name in tensors:
                tensors[name] = now


def named_tensors(module: Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def tied(module: Module, tensors: Named) -> Named:
    """``tensors`` also under the other names that the module has for the tensors they replace."""
    names_of: dict[Tensor, list[str]] = {}
    for name, t in named_tensors(module):
        names_of.setdefault(t, []).append(name)
    chosen = dict(tensors)
    for names in names_of.values():
        given = [name for name in names if name in tensors]
        if len({id(tensors[name]) for name in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        if given:
            chosen.update(dict.fromkeys(names, tensors[given[0]]))
    return chosen


def check_names(module: Module, tensors: Named) -> None:
    own = dict(named_tensors(module))
    problems = [
        f"{head} key(s): {', '.join(map(repr, names))}."
        for head, names in (
            ("Unexpected", [name for name in tensors if name not in own]),
            ("Missing", [name for name in own if name not in tensors]),
        )
        if names
    ]
    if problems:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(problems)
        )


NOTHING: Any = object()


def swap(module: Module, path: str, value: Any) -> Any:
    """Puts ``value`` at ``path`` without the checks of assignment; returns what was there."""
    prefix, _, name = path.rpartition(".")
    owner = module.get_submodule(prefix)
    for members in (owner._parameters, owner._buffers):
        if name in members and value is not NOTHING:
            old, members[name] = members[name], value
            return old
    old = getattr(owner, name, NOTHING)
    if value is NOTHING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)
    return old


def stack_module_state(models: Sequence[Module] | Any) -> tuple[Named, Named]:
    """The parameters, and the buffers, of several alike modules, each stacked to one tensor.

    They are made to be mapped over, together with :func:`functional_call`.

    >>> models = [rl.nn.Linear(2, 3) for _ in range(4)]
    >>> params, buffers = rl.nn.utils.stateless.stack_module_state(models)
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
