"""Optimizer: groups of parameters, a state for each parameter, and steps that change both."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any, SupportsFloat

from rushlight.autograd.modes import enable_grad, local, set_grad_enabled
from rushlight.autograd.tape import RemovableHandle
from rushlight.nn.hooks import Hook, Hooks, add_hook
from rushlight.optim.apply import Group, State, scalar, step_group
from rushlight.optim.traced import condition, trace_foreign, trace_step
from rushlight.settings import typename
from rushlight.symbol import refuse_in_trace
from rushlight.tensor import Tensor

ParamsT = Iterable[Tensor] | Iterable[Group] | Iterable[tuple[str, Tensor]]
Closure = Callable[[], Any]


class Required:
    """The default of a hyper-parameter that every group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = Required()

before_every_step: Hooks = OrderedDict()
after_every_step: Hooks = OrderedDict()


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before each step of every optimizer."""
    return add_hook(before_every_step, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` after each step of every optimizer."""
    return add_hook(after_every_step, hook)


def hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` between the hooks of its optimizer and those of all optimizers."""

    @functools.wraps(step)
    def run(*args: Any, **kwargs: Any) -> Any:
        self = args[0]
        if type(self).step is not run:  # called by the step of a subclass, which has run the hooks
            return step(*args, **kwargs)
        if local.state.trace is not None:
            condition(lambda: list(map(id, hooks_of(self))))
        for hook in (*before_every_step.values(), *self._optimizer_step_pre_hooks.values()):
            answer = hook(self, args, kwargs)
            if answer is not None:
                if not isinstance(answer, tuple) or len(answer) != 2:
                    raise RuntimeError(
                        f"{hook} must return None or a tuple of (new_args, new_kwargs), "
                        f"but got {answer}."
                    )
                args, kwargs = answer
        self._opt_called = True
        foreign = local.state.trace is not None and run is not Optimizer.step
        result = (trace_foreign(self, step) if foreign else step)(*args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(), *after_every_step.values()):
            hook(self, args, kwargs)
        return result

    return run


def hooks_of(optimizer: Optimizer) -> Iterator[Hook]:
    """Everything that is called before or after a step."""
    own = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    return chain.from_iterable([h.values() for h in (before_every_step, *own, after_every_step)])


class Optimizer:
    """The base of all optimizers.

    A subclass says in ``init`` what it remembers of a parameter, and in ``update`` how parameter
    and memory change; both are plain algebra. (One that works otherwise overrides ``step``.)

    Args:
        params: the tensors to optimize, or pairs (name, tensor), or dicts, each with ``"params"``
            and with hyper-parameters of its own.
        defaults: the hyper-parameters of groups that do not give them.

    >>> class Heavy(rl.optim.Optimizer):
    ...     def init(self, p, group):
    ...         return {"speed": rl.zeros_like(p)}
    ...     def update(self, p, g, state, group):
    ...         v = 0.5 * state["speed"] + g
    ...         return p - group["lr"] * v, {"speed": v}
    >>> w = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = Heavy([w], {"lr": 0.1})
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    scalars: tuple[str, ...] = ("step",)  # names in its state that stand for a single number
    elementwise: bool = True  # whether ``update`` treats each element alone

    _opt_called: bool = False  # whether it ever stepped, which learning rate schedules ask
    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    def __init_subclass__(cls) -> None:
        if "step" in cls.__dict__:
            cls.step = hooked(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._forget_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}"
            )
        if callable(getattr(params, "parameters", None)):
            raise TypeError(
                f"{typename(params)} is not an iterable of Tensors or dicts; pass its "
                "parameters: model.parameters()"
            )
        given: Any = params
        if inspect.ismethod(given):
            raise TypeError(
                f"the optimizer got the method {given.__qualname__} and not what it gives; call "
                f"it: model.{given.__name__}()"
            )
        self.state: defaultdict[Any, State] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups: list[Any] = list(params)
        if not groups:
            hint = " (a generator serves only once)" if isinstance(params, Iterator) else ""
            raise ValueError(f"optimizer got an empty parameter list{hint}")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def init(self, p: Tensor, group: Group) -> State:
        """What is remembered of a parameter at first: for ``scalars`` numbers, else tensors."""
        return {}

    def update(self, p: Any, g: Any, state: State, group: Group) -> tuple[Any, State]:
        """The parameter and its state after a step with gradient ``g``: a pure function.

        An elementwise one is not only called with tensors but with stand-ins that have their
        arithmetic, ``sqrt``, ``abs`` and ``maximum``.
        """
        raise NotImplementedError

    @hooked
    def step(self, closure: Closure | None = None) -> Any:
        """Changes the parameters by their gradients.

        Args:
            closure: computes the loss anew, with gradients, before the step; its result is
                returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            if local.state.trace is not None:
                trace_step(self)
                return loss
            for group in self.param_groups:
                step_group(self, group, [p for p in group["params"] if p.grad is not None])
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or fills them with zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.detach_().zero_()

    def add_param_group(self, param_group: Group) -> None:
        """Adds parameters with hyper-parameters of their own.

        Args:
            param_group: ``"params"`` and what shall differ from the defaults.
        """
        refuse_in_trace(f"{type(self).__name__}.add_param_group()")
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        self._list_params(param_group)
        if "lr" in param_group and self.defaults.get("lr") is not None:
            need_number("lr", param_group["lr"])
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        params = param_group["params"]
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; each of them is "
                "changed twice by a step. In future this will be an error",
                stacklevel=3,
            )
        named = "param_names" in param_group
        for group in self.param_groups:
            if named != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {'with' if named else 'without'} names to the optimizer"
                )
            if not set(params).isdisjoint(group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _list_params(self, group: Group) -> None:
        """Makes ``group["params"]`` a list of tensors, checked; names go to a list of their own."""
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        listed = [params] if isinstance(params, Tensor) else list(params)
        names = [item[0] for item in listed if isinstance(item, tuple)]
        if names and len(names) != len(listed):
            raise ValueError(
                "all optimizer params should be with/without names. Some param names are missing"
            )
        group["params"] = listed = [p[1] if isinstance(p, tuple) else p for p in listed]
        if names:
            group["param_names"] = names
        for p in listed:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {typename(p)}"
                )
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")

    def state_dict(self) -> dict[str, Any]:
        """The state by number of parameter, and the groups with numbers for their parameters.

        Parameters count from 0 through all groups; their values are not part of it.

        >>> w = rl.ones(2, requires_grad=True)
        >>> rl.optim.SGD([w], lr=0.1).state_dict()["param_groups"][0]["params"]
        [0]
        """
        for before in self._optimizer_state_dict_pre_hooks.values():
            before(self)
        count: dict[int, int] = {}
        groups = []
        offset = 0
        for group in self.param_groups:
            for i, p in enumerate(group["params"], offset):
                count.setdefault(id(p), i)
            offset += len(group["params"])
            numbers = [count[id(p)] for p in group["params"]]
            groups.append({k: v for k, v in group.items() if k != "params"} | {"params": numbers})
        state = {count[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for after in self._optimizer_state_dict_post_hooks.values():
            answer = after(self, result)
            result = result if answer is None else answer
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from what :meth:`state_dict` returned, here or in PyTorch.

        The parameters are matched by their order; tensors take the dtype of their parameter.
        """
        refuse_in_trace(f"{type(self).__name__}.load_state_dict()")
        loaded = state_dict.copy()
        for before in self._optimizer_load_state_dict_pre_hooks.values():
            answer = before(self, loaded)
            loaded = loaded if answer is None else answer
        groups = deepcopy(loaded["param_groups"])
        if len(groups) != len(self.param_groups):
            raise ValueError(
                "loaded state dict has a different number of parameter groups: "
                f"{len(groups)}, expected {len(self.param_groups)}"
            )
        for i, (saved, group) in enumerate(zip(groups, self.param_groups, strict=True)):
            if len(saved["params"]) != len(group["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    f"optimizer's group: group {i} has {len(saved['params'])} parameters, "
                    f"expected {len(group['params'])}"
                )
        numbers = chain.from_iterable(saved["params"] for saved in groups)
        params = chain.from_iterable(group["params"] for group in self.param_groups)
        parameter = dict(zip(numbers, params, strict=True))
        state: defaultdict[Any, State] = defaultdict(dict)
        refuse_misfits(loaded["state"], parameter)
        for key, value in loaded["state"].items():
            if key in parameter:
                state[parameter[key]] = cast(value, parameter[key], self.scalars)
            else:
                state[key] = value
        for saved, group in zip(groups, self.param_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": groups})
        for after in self._optimizer_load_state_dict_post_hooks.values():
            after(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            self._forget_hooks()
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)
            for p in group["params"]:
                memory = self.state.get(p, {})
                for k in self.scalars:
                    if k in memory and not isinstance(memory[k], Tensor):
                        memory[k] = scalar(memory[k], group)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])

    def _forget_hooks(self) -> None:
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self._optimizer_state_dict_pre_hooks = OrderedDict()
        self._optimizer_state_dict_post_hooks = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks = OrderedDict()
        self._optimizer_load_state_dict_post_hooks = OrderedDict()

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step.

        It may return ``(args, kwargs)`` for the step; the optimizer is the first of ``args``.
        """
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before :meth:`state_dict`."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` after it; it may return another one."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before loading; it may return another one."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after :meth:`load_state_dict`."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def cast(value: Any, p: Tensor, scalars: Sequence[str], key: Any = None) -> Any:
    """A copy of a loaded value, whose tensors but for ``scalars`` get the dtype of their parameter.

    What is loaded may go on being used elsewhere, and steps write to the state in place.
    """
    if isinstance(value, Tensor):
        own = key in ("step", *scalars) or not p.is_floating_point()
        return value.detach().to(value.dtype if own else p.dtype, copy=True)
    if isinstance(value, dict):
        return {k: cast(v, p, scalars, k) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([cast(v, p, scalars) for v in value])
    return value


LIKE_PARAMETER = frozenset(
    (
        *("acc_delta", "ax", "exp_avg", "exp_avg_sq", "exp_inf", "grad_avg", "max_exp_avg_sq"),
        *("momentum_buffer", "prev", "square_avg", "step_size", "sum"),
    )
)
"""State that has the shape of its parameter."""


def refuse_misfits(state: dict[Any, Any], parameter: dict[Any, Tensor]) -> None:
    """An error that lists all saved tensors whose shape is not that of their parameter."""
    wrong = []
    for key, values in state.items():
        if key not in parameter or not isinstance(values, dict):
            continue
        shape = parameter[key].shape
        for name, value in values.items():
            if isinstance(value, Tensor) and name in LIKE_PARAMETER and value.shape != shape:
                wrong.append(f"{name} of parameter {key}: {list(value.shape)} for {list(shape)}")
    if wrong:
        raise RuntimeError(
            "loaded state dict does not fit the parameters' shapes:\n  " + "\n  ".join(wrong)
        )


def need(condition: Any, message: str) -> None:
    """A hyper-parameter's ``ValueError`` unless the condition holds, which a NaN never fulfils."""
    if not condition:
        raise ValueError(message)


def need_rate(lr: float | Tensor, invalid: str = "Invalid learning rate:") -> None:
    """An error unless ``lr`` is a number, or a tensor of one, that is not negative."""
    need_number("lr", lr)
    need(lr >= 0, f"{invalid} {lr}")


def need_number(name: str, value: Any) -> None:
    """An error unless a hyper-parameter is a number, or a tensor of one."""
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__})")
    need(not isinstance(value, Tensor) or value.numel() == 1, f"Tensor {name} must be 1-element")


def need_betas(betas: tuple[Any, Any]) -> None:
    """An error unless both decay rates are in [0, 1)."""
    need(len(betas) == 2, f"Invalid betas: expected two numbers, got {betas}")
    for i, beta in enumerate(betas):
        need(0 <= beta < 1, f"Invalid beta parameter at index {i}: {beta}")


def need_one_way(foreach: bool | None, fused: bool | None, differentiable: bool) -> None:
    """PyTorch's refusals of flags that exclude each other; here they change nothing."""
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]
