"""Modules called as functions of their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.nn.module import Module
from rushlight.nn.parallel import DataParallel
from rushlight.tensor import Tensor

Named = dict[str, Tensor]


def functional_call(
    module: Module,
    parameters_and_buffers: Named,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls ``module`` with other parameters and buffers in the place of its own.

    Args:
        parameters_and_buffers: the tensors by path. What the call puts in their place, such as
            new running means, is written back.
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
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


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
