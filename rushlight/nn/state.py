"""The state of a module as a flat dictionary, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight.autograd.modes import no_grad
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.nn.module import Module

EXTRA_STATE = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """What a loaded dictionary lacked, and what it had beyond the module's state."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    def __str__(self) -> str:
        return repr(self)


def own_state(module: Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters and persistent buffers of a module without its children."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def load_own_state(
    module: Module,
    state_dict: Mapping[str, Any],
    prefix: str,
    assign: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
    keeps_extra_state: bool,
) -> None:
    """Loads what belongs to one module, and notes what does not fit."""
    own = dict(own_state(module))
    for name, t in own.items():
        key = prefix + name
        if key not in state_dict:
            missing_keys.append(key)
        elif error := load_one(module, name, t, key, state_dict[key], assign):
            error_msgs.append(error)
    extra = prefix + EXTRA_STATE
    if keeps_extra_state:
        if extra in state_dict:
            module.set_extra_state(state_dict[extra])
        else:
            missing_keys.append(extra)
    elif extra in state_dict:
        unexpected_keys.append(extra)
    for key in state_dict:
        if key.startswith(prefix) and key != extra:
            name, dot, _ = key[len(prefix) :].partition(".")
            if name not in (module._modules if dot else own):
                unexpected_keys.append(key)


def load_one(
    module: Module, name: str, target: Tensor, key: str, source: Any, assign: bool
) -> str | None:
    """Copies ``source`` into (or puts it in the place of) one tensor; the reason if it cannot."""
    if not isinstance(source, Tensor):
        return (
            f'While copying the parameter named "{key}", expected Tensor or Tensor-like object '
            f"from checkpoint but received {type(source)}"
        )
    if not is_lazy(target):
        if not target.ndim and source.shape == (1,):
            source = source[0]
        if source.shape != target.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {source.shape} from "
                f"checkpoint, the shape in current model is {target.shape}."
            )
    try:
        with no_grad():
            if not assign:
                if not is_lazy(target):  # else both wait for their shape
                    target.copy_(source)
                return None
            if isinstance(target, Parameter):
                wants = target.requires_grad
                if isinstance(source, Parameter):
                    source.requires_grad_(wants)
                else:
                    source = Parameter(source, wants)
            setattr(module, name, source)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{target.size()} and whose dimensions in the checkpoint are {source.size()}, "
            f"an exception occurred : {error.args}."
        )
    return None


def load(module: Module, state_dict: Any, strict: bool, assign: bool) -> _IncompatibleKeys:
    """``module.load_state_dict``: on any error, all are told and the module is as it was."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", {})
    entries: Any = OrderedDict(state_dict)
    entries._metadata = metadata
    found = _IncompatibleKeys([], [])
    error_msgs: list[str] = []
    backup = None if fits(module, entries) else Backup(module)
    load_tree(module, entries, "", metadata, assign, found, error_msgs)
    if strict:
        heads = ("Missing", found.missing_keys), ("Unexpected", found.unexpected_keys)
        error_msgs[:0] = [f"{head} key(s) in state_dict: {quoted(k)}. " for head, k in heads if k]
    if error_msgs:
        if backup is not None:
            backup.restore()
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t"
            + "\n\t".join(error_msgs)
        )
    return found


def quoted(keys: list[str]) -> str:
    return ", ".join([f'"{key}"' for key in keys])


def load_tree(
    module: Module,
    entries: dict[str, Any],
    prefix: str,
    metadata: Mapping[str, dict[str, Any]],
    assign: bool,
    found: _IncompatibleKeys,
    error_msgs: list[str],
) -> None:
    """Loads a module and then its children; ``entries`` are those that begin with ``prefix``."""
    local = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    missing, unexpected = found
    module._load_from_state_dict(entries, prefix, local, True, missing, unexpected, error_msgs)
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            below = {key: value for key, value in entries.items() if key.startswith(inner)}
            load_tree(child, below, inner, metadata, assign, found, error_msgs)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, found) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


def fits(module: Module, entries: Mapping[str, Any]) -> bool:
    """Whether ``entries`` have exactly the names and shapes of the module's state."""
    own = {
        f"{prefix}.{name}" if prefix else name: t
        for prefix, child in module.named_modules(remove_duplicate=False)
        for name, t in own_state(child)
    }
    return own.keys() == entries.keys() and all(
        isinstance(value := entries[key], Tensor) and not is_lazy(t) and value.shape == t.shape
        for key, t in own.items()
    )


class Backup:
    """The tensors of a module and a copy of their elements."""

    def __init__(self, module: Module) -> None:
        self.tensors = [(m, dict(m._parameters), dict(m._buffers)) for m in module.modules()]
        self.elements: dict[Tensor, np.ndarray] = {}
        for _, parameters, buffers in self.tensors:
            for t in (*parameters.values(), *buffers.values()):
                if t is not None and not is_lazy(t):
                    self.elements[t] = t._array.copy()

    def restore(self) -> None:
        for module, parameters, buffers in self.tensors:
            module._parameters.update(parameters)
            module._buffers.update(buffers)
        for t, array in self.elements.items():
            t._array[...] = array


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes ``prefix`` from the names that begin with it, such as ``"module."``, in place.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> rl.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in [key for key in metadata if key]:
        metadata[key[len(prefix) :]] = metadata.pop(key)
