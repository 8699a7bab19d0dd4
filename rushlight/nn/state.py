"""The state of a module as a flat dictionary, and back."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rushlight.autograd.modes import no_grad
from rushlight.autograd.tape import RemovableHandle
from rushlight.nn.hooks import Hook, Hooks, add_hook
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.tensor import Tensor

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


class Stateful:
    """What has a state that can be saved and loaded: a module."""

    _version: int = 1  # of the form of its own state
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _state_dict_hooks: Hooks
    _state_dict_pre_hooks: Hooks
    _load_state_dict_pre_hooks: Hooks
    _load_state_dict_post_hooks: Hooks

    def _forget_state_hooks(self) -> None:
        self.__dict__.update(
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
        )

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by path: what is saved of a network.

        Args:
            destination: a dictionary to be filled and returned.
            prefix: put before each path.
            keep_vars: give the parameters themselves instead of detached tensors over their memory.

        >>> list(rl.nn.Sequential(rl.nn.Linear(1, 2)).state_dict())
        ['0.weight', '0.bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead.",
                FutureWarning,
                stacklevel=2,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            destination = given.get("destination", destination)
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}{name}."
                module.state_dict(destination=destination, prefix=inner, keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            answer = hook(self, destination, prefix, metadata)
            if answer is not None:
                destination = answer
        return destination

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        for name, t in own_state(self):
            destination[prefix + name] = t if keep_vars or is_lazy(t) else t.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copies parameters and buffers from a dictionary such as ``state_dict`` gives.

        If something does not fit, one error tells all of it and the module stays as it was.

        Args:
            state_dict: the values by path.
            strict: whether missing and unexpected keys are errors.
            assign: put the given tensors in place of the module's instead of copying.

        >>> a, b = rl.nn.Linear(1, 2), rl.nn.Linear(1, 2)
        >>> a.load_state_dict(b.state_dict())
        <All keys matched successfully>
        """
        return load(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads what is this module's own; a subclass may first bring old names up to date."""
        arguments = (prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, *arguments)
        extra = type(self).set_extra_state is not Stateful.set_extra_state
        assign = local_metadata.get("assign_to_params_buffers", False)
        keys = (missing_keys, unexpected_keys) if strict else ([], [])
        load_own_state(self, state_dict, prefix, assign, *keys, error_msgs, extra)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(module, prefix, keep_vars)`` before ``state_dict`` is made."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata)``, which may change it."""
        return add_hook(self._state_dict_hooks, functools.partial(without_answer, hook))

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """An old kind of post-hook: what it returns is the state_dict of the outermost module."""
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` before the module's own state is loaded."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        called = functools.partial(hook, self) if with_module else hook
        return add_hook(self._load_state_dict_pre_hooks, called)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(module, incompatible_keys)`` after loading; it may change the keys."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    def get_extra_state(self) -> Any:
        """Something more to be saved in ``state_dict``; for subclasses to write."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: it does not define any")

    def set_extra_state(self, state: Any) -> None:
        """Takes what :meth:`get_extra_state` gave; for subclasses to write."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: it does not define any")


def without_answer(hook: Hook, *args: Any) -> None:
    if hook(*args) is not None:
        raise RuntimeError("state_dict post-hook must return None")


def own_state(module: Stateful) -> Iterator[tuple[str, Tensor]]:
    """The parameters and persistent buffers of a module without its children."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def load_own_state(
    module: Any,
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
    module: Any, name: str, target: Tensor, key: str, source: Any, assign: bool
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


def load(module: Any, state_dict: Any, strict: bool, assign: bool) -> _IncompatibleKeys:
    """``module.load_state_dict``: on any error, all are told and the module is as it was."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", None) or {}
    entries: Any = OrderedDict(state_dict)
    entries._metadata = metadata
    found = _IncompatibleKeys([], [])
    error_msgs: list[str] = []
    backup = None if fits(module, entries) else Backup(module)
    try:
        load_tree(module, entries, "", metadata, assign, found, error_msgs)
    except Exception:
        if backup is not None:
            backup.restore()
        raise
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
    module: Any,
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


def fits(module: Any, entries: Mapping[str, Any]) -> bool:
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

    def __init__(self, module: Any) -> None:
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
