"""Hooks: functions of the user that run before or after modules, forward and backward."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.autograd.function import Function
from rushlight.autograd.modes import is_grad_enabled
from rushlight.autograd.tape import RemovableHandle
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.nn.module import Module

Hook = Callable[..., Any]
Hooks = OrderedDict[int, Hook]


class Hookable:
    """What has hooks: a module, or ``everywhere``, whose hooks are those of all modules."""

    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _backward_hooks: Hooks
    _backward_pre_hooks: Hooks
    _is_full_backward_hook: bool | None
    _hooked: bool = False  # whether a hook was ever registered, here or for all modules

    def _forget_hooks(self) -> None:
        self.__dict__.update(
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs={},
            _forward_hooks_always_called={},
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs={},
            _backward_hooks=OrderedDict(),
            _backward_pre_hooks=OrderedDict(),
            _is_full_backward_hook=None,
        )

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(module, args)`` before forward; what it returns replaces the arguments.

        Args:
            prepend: put it before the hooks there are.
            with_kwargs: call ``hook(module, args, kwargs)``, which may return ``(args, kwargs)``.
        """
        handle = self._add(self._forward_pre_hooks, hook, prepend)
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls ``hook(module, args, result)`` after forward; what it returns is the new result.

        Args:
            prepend: put it before the hooks there are.
            with_kwargs: call ``hook(module, args, kwargs, result)``.
            always_call: call it even if forward raised an error.

        >>> layer = rl.nn.Identity()
        >>> handle = layer.register_forward_hook(lambda module, args, result: result + 1)
        >>> layer(rl.zeros(2))
        tensor([1., 1.])
        >>> handle.remove()
        """
        handle = self._add(self._forward_hooks, hook, prepend)
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_output)`` when the gradients of the results are known.

        ``grad_output`` is a tuple; another one that the hook returns takes its place.
        """
        return self._add(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are
        known; a tuple that it returns takes the place of ``grad_input``.

        >>> layer = rl.nn.Linear(2, 1)
        >>> handle = layer.register_full_backward_hook(
        ...     lambda module, grad_input, grad_output: print(grad_output)
        ... )
        >>> layer(rl.ones(1, 2, requires_grad=True)).sum().backward()
        (tensor([[1.]]),)
        """
        self._refuse_mixture(full=True)
        return self._add(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """An old kind of hook that sees no more than the last op of the module.

        Use :meth:`register_full_backward_hook`.
        """
        self._refuse_mixture(full=False)
        return self._add(self._backward_hooks, hook)

    def _refuse_mixture(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            where = "as a global Module hook" if self is everywhere else "on a single Module"
            raise RuntimeError(
                f"Cannot use both regular backward hooks and full backward hooks {where}. "
                "Please use only one of them."
            )
        self._is_full_backward_hook = full

    def _add(self, hooks: Hooks, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Puts ``hook`` at the end, or at the beginning, of ``hooks``."""
        owner = Hookable if self is everywhere else self
        owner._hooked = True
        return add_hook(hooks, hook, prepend)


class Everywhere(Hookable):
    """The hooks of all modules."""

    def __init__(self) -> None:
        self._forget_hooks()
        self.registration: dict[str, Hooks] = {
            "parameter": OrderedDict(),
            "buffer": OrderedDict(),
            "module": OrderedDict(),
        }


everywhere = Everywhere()


def add_hook(hooks: Hooks, hook: Hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(module, args)`` before the forward of every module."""
    return everywhere.register_forward_pre_hook(hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Calls ``hook(module, args, result)`` after the forward of every module."""
    return everywhere.register_forward_hook(hook, with_kwargs=with_kwargs, always_call=always_call)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(module, grad_output)`` before the backward of every module."""
    return everywhere.register_full_backward_pre_hook(hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(module, grad_input, grad_output)`` after the backward of every module."""
    return everywhere.register_full_backward_hook(hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """:meth:`Module.register_backward_hook` for every module."""
    return everywhere.register_backward_hook(hook)


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(module, name, parameter)`` whenever a module gets a parameter.

    What it returns is registered instead.
    """
    return add_hook(everywhere.registration["parameter"], hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(module, name, buffer)`` whenever a module gets a buffer."""
    return add_hook(everywhere.registration["buffer"], hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(module, name, child)`` whenever a module gets a child."""
    return add_hook(everywhere.registration["module"], hook)


def registered(kind: str, module: Module, name: str, value: Any) -> Any:
    """What the global registration hooks make of a new parameter, buffer or module."""
    for hook in everywhere.registration[kind].values():
        answer = hook(module, name, value)
        if answer is not None:
            value = answer
    return value


def call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls ``module.forward`` between the hooks."""
    if not has_hooks(module) and not has_hooks(everywhere):
        module._hooked = Hookable._hooked = False  # they were removed: calls are quick again
        return module.forward(*args, **kwargs)
    call = HookedCall(module, args, kwargs)
    try:
        return call.run()
    except Exception:
        call.finish()
        raise


def has_hooks(owner: Hookable) -> bool:
    return bool(
        owner._forward_hooks
        or owner._forward_pre_hooks
        or owner._backward_hooks
        or owner._backward_pre_hooks
    )


class HookedCall:
    """One call of a module that has hooks."""

    def __init__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.called: set[int] = set()

    def run(self) -> Any:
        module = self.module
        self.call_forward_pre_hooks()
        full, old = backward_hooks(module)
        before = [*everywhere._backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
        watch = Watch(module, full, before) if full or before else None
        if watch is not None:
            self.args = watch.enter(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for owner in (everywhere, module):
            for key, hook in tuple(owner._forward_hooks.items()):
                self.call_forward_hook(owner, key, hook)
        if watch is not None:
            if not isinstance(self.result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple "
                    f"of Tensors but received {type(self.result)}",
                    stacklevel=5,
                )
            self.result = watch.leave(self.result)
        if old:
            hook_first_result(module, old, self.result)
        return self.result

    def call_forward_pre_hooks(self) -> None:
        module = self.module
        for hook in tuple(everywhere._forward_pre_hooks.values()):
            self.replace_args(hook(module, self.args))
        for key, hook in tuple(module._forward_pre_hooks.items()):
            if key not in module._forward_pre_hooks_with_kwargs:
                self.replace_args(hook(module, self.args))
                continue
            answer = hook(module, self.args, self.kwargs)
            if answer is not None:
                if not isinstance(answer, tuple) or len(answer) != 2:
                    raise RuntimeError(
                        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {answer}."
                    )
                self.args, self.kwargs = answer

    def replace_args(self, answer: Any) -> None:
        if answer is not None:
            self.args = answer if isinstance(answer, tuple) else (answer,)

    def call_forward_hook(self, owner: Any, key: int, hook: Callable[..., Any]) -> None:
        self.called.add(key)
        if key in owner._forward_hooks_with_kwargs:
            answer = hook(self.module, self.args, self.kwargs, self.result)
        else:
            answer = hook(self.module, self.args, self.result)
        if answer is not None:
            self.result = answer

    def finish(self) -> None:
        """After an error: runs the forward hooks that are to be called in any case."""
        for owner in (everywhere, self.module):
            for key, hook in tuple(owner._forward_hooks.items()):
                if key not in owner._forward_hooks_always_called or key in self.called:
                    continue
                try:
                    self.call_forward_hook(owner, key, hook)
                except Exception as error:
                    which = "global module" if owner is everywhere else "module"
                    warnings.warn(
                        f"{which} forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}",
                        stacklevel=5,
                    )


def backward_hooks(module: Module) -> tuple[list[Any], list[Any]]:
    """The full backward hooks of all modules and of this one, and the old ones."""
    full: list[Any] = []
    old: list[Any] = []
    for owner in (everywhere, module):
        if owner._backward_hooks:
            chosen = full if owner._is_full_backward_hook else old
            chosen += owner._backward_hooks.values()
    return full, old


class Watch:
    """Sees the gradients of a call's results and inputs go by, and calls the hooks with them."""

    def __init__(
        self, module: Module, hooks: Sequence[Callable], pre_hooks: Sequence[Callable]
    ) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.inputs = 0
        self.sees_inputs = False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.inputs = len(args)
        args, self.sees_inputs = watched(args, self.inputs_arrived)
        return args

    def leave(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return watched(result, self.outputs_arrived)[0]
        return watched((result,), self.outputs_arrived)[0][0]

    def outputs_arrived(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.pre_hooks:
            grads = answered("pre hook", "grad_output", hook(self.module, grads), grads)
        if self.sees_inputs:
            self.grad_outputs = grads
            return grads
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module "
            "outputs since no inputs require gradients.",
            stacklevel=2,
        )
        for hook in self.hooks:
            answer = hook(self.module, (None,) * self.inputs, grads)
            if answer is not None and any(part is not None for part in answer):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        return grads

    def inputs_arrived(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_outputs is None:
            return grads  # the gradient came another way than through the results
        for hook in self.hooks:
            answer = hook(self.module, grads, self.grad_outputs)
            grads = answered("hook", "grad_input", answer, grads)
        self.grad_outputs = None
        return grads


def answered(hook: str, what: str, answer: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients after a hook: its answer, or the old ones if it has none."""
    if answer is None:
        return grads
    if not isinstance(answer, (tuple, list)):
        answer = (answer,)
    if len(answer) != len(grads):
        raise RuntimeError(
            f"Backward {hook} returned an invalid number of {what}, "
            f"got {len(answer)}, but expected {len(grads)}"
        )
    return tuple(answer)


class BackwardHookFunction(Function):
    """Its tensors as they are; on the way back, ``arrived`` sees and may change the gradients."""

    @staticmethod
    def forward(ctx: Any, arrived: Callable[..., Any], *tensors: Tensor) -> Any:
        ctx.arrived = arrived
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *ctx.arrived(grads)


def watched(values: tuple[Any, ...], arrived: Callable[..., Any]) -> tuple[Any, bool]:
    """``values`` with tensors whose gradients pass ``arrived``, and whether there are any.

    ``arrived`` gets one gradient for each value, None for those that cannot have one.
    """
    places = [i for i, t in enumerate(values) if isinstance(t, Tensor) and t.requires_grad]
    if not places or not is_grad_enabled():
        return values, False

    def of_all_values(grads: tuple[Any, ...]) -> list[Any]:
        spread: list[Any] = [None] * len(values)
        for i, g in zip(places, grads, strict=True):
            spread[i] = g
        changed = arrived(tuple(spread))
        return [changed[i] for i in places]

    passed = BackwardHookFunction.apply(of_all_values, *[values[i] for i in places])
    several = list(values)
    for i, t in zip(places, passed, strict=True):
        several[i] = t
    return tuple(several) if type(values) is tuple else type(values)(*several), True


def hook_first_result(module: Module, hooks: Sequence[Callable], result: Any) -> None:
    """Puts old backward hooks on the last op of the first result, which is all they see."""
    while not isinstance(result, Tensor):
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    node = result.grad_fn
    if node is not None:
        for hook in hooks:
            node.register_hook(bound(hook, module))


def bound(hook: Callable[..., Any], module: Module) -> Callable[..., Any]:
    return lambda *grads: hook(module, *grads)
