"""Module: a part of a network, with parameters, buffers, children and hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from rushlight import dtypes
from rushlight.device import device as Device
from rushlight.graph.epoch import Entries, epoch
from rushlight.layouts import preserve_format
from rushlight.nn import hooks
from rushlight.nn.parameter import Buffer, Parameter, is_lazy
from rushlight.nn.state import Stateful
from rushlight.ops import ops
from rushlight.ops.conversion import read_target
from rushlight.settings import typename
from rushlight.tensor import Tensor

Self = TypeVar("Self", bound="Module")

FORGOTTEN = "; call super().__init__() first in the module's __init__"


class Module(hooks.Hookable, Stateful):
    """The base of all networks and their layers.

    A subclass makes its parts in ``__init__``, after ``super().__init__()``, and computes with
    them in ``forward``. Parameters, buffers and modules that are assigned as attributes become
    part of it: they are trained, converted, saved and printed with it.

    >>> class Double(rl.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = rl.nn.Parameter(rl.tensor(2.0))
    ...
    ...     def forward(self, x):
    ...         return self.factor * x
    >>> model = Double()
    >>> model(rl.ones(2))
    tensor([2., 2.], grad_fn=<MulBackward0>)
    >>> dict(model.state_dict())
    {'factor': tensor(2.)}
    """

    call_super_init: bool = False
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
                if kwargs
                else f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        self.__dict__.update(
            training=True,
            _parameters=Entries(),
            _buffers=Entries(),
            _non_persistent_buffers_set=set(),
            _modules=Entries(),
        )
        self._forget_hooks()
        self._forget_state_hooks()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooked:
            return hooks.call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses write it, and callers call the module itself."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind in own and name in own[kind]:
                return own[kind][name]
        cure = FORGOTTEN if "_parameters" not in own else ""
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{cure}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError(
                    "cannot assign parameters before Module.__init__() call" + FORGOTTEN
                )
            if name not in own["_parameters"]:
                self._forget(name)
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError(
                    "cannot assign module before Module.__init__() call" + FORGOTTEN
                )
            if name not in own["_modules"]:
                self._refuse_in(name, value, "_parameters")
                self._forget(name)
            own["_modules"][name] = hooks.registered("module", self, name, value)
        elif isinstance(value, Buffer):
            self._refuse_in(name, value, "_parameters", "_modules")
            self.register_buffer(name, value, value.persistent)
        elif "_modules" not in own:
            object.__setattr__(self, name, value)
        elif name in own["_parameters"]:
            self._refuse_in(name, value, "_parameters")
            own["_parameters"][name] = None
        elif name in own["_modules"]:
            self._refuse_in(name, value, "_modules")
            own["_modules"][name] = hooks.registered("module", self, name, value)
        elif name in own["_buffers"]:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' "
                    "(rushlight.nn.Buffer, rushlight.Tensor or None expected)"
                )
            own["_buffers"][name] = hooks.registered("buffer", self, name, value)
        else:
            object.__setattr__(self, name, value)
        epoch.end()

    def _refuse_in(self, name: str, value: Any, *kinds: str) -> None:
        """An error if ``name`` is a parameter or child, whose place ``value`` cannot take."""
        wanted = {"_parameters": ("parameter", "Parameter"), "_modules": ("child module", "Module")}
        for kind in kinds:
            if value is not None and name in self.__dict__.get(kind, ()):
                what, cls = wanted[kind]
                raise TypeError(
                    f"cannot assign '{typename(value)}' as {what} '{name}' "
                    f"(rushlight.nn.{cls} or None expected)"
                )

    def _forget(self, name: str) -> None:
        """Takes away whatever is called ``name``, so that something else can be."""
        own = self.__dict__
        for kind in (own, own["_parameters"], own["_buffers"], own["_modules"]):
            kind.pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        for kind in (self._parameters, self._buffers, self._modules):
            if name in kind:
                del kind[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)
        epoch.end()

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if not name[0].isdigit())

    def _check_name(self, kind: str, name: Any, taken: Mapping[str, Any]) -> None:
        """An error if ``name`` cannot be that of a new parameter, buffer or module."""
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in taken and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is not learnt; a persistent one is part of ``state_dict``.

        >>> module = rl.nn.Module()
        >>> module.register_buffer("mean", rl.zeros(1))
        >>> module.mean
        tensor([0.])
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call" + FORGOTTEN)
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(rushlight Tensor or None required)"
            )
        self._buffers[name] = hooks.registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None keeps its place in the order without there being one."""
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                "cannot assign parameter before Module.__init__() call" + FORGOTTEN
            )
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(rushlight.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    f"be created explicitly. To express '{name}' as a function of another Tensor, "
                    "compute the value in the forward() method."
                )
            param = hooks.registered("parameter", self, name, param)
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child, which is then also the attribute ``name``."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass{cure_of(module)}")
        self._check_name("module", name, self._modules)
        self._modules[name] = hooks.registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of :meth:`add_module`."""
        self.add_module(name, module)

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"encoder.layers.0"``; itself for the empty one.

        >>> model = rl.nn.Sequential(rl.nn.Linear(1, 2), rl.nn.Sequential(rl.nn.Identity()))
        >>> model.get_submodule("1.0")
        Identity()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            module = _member(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Puts ``module`` at a path; with ``strict`` there must be one already."""
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            if not isinstance(_member(parent, name), Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as ``"encoder.weight"``."""
        path, _, name = target.rpartition(".")
        found = _member(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path such as ``"norm.running_mean"``."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = _member(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, each with its path.

        >>> for name, module in rl.nn.Sequential(rl.nn.Identity()).named_modules():
        ...     print(repr(name), type(module).__name__)
        '' Sequential
        '0' Identity
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one, each with its name."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly below this one."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        modules: Iterable[tuple[str, Module]] = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and those below it, each with its path.

        >>> [name for name, _ in rl.nn.Linear(1, 2).named_parameters()]
        ['weight', 'bias']
        """
        return self._named_members(parameters_of, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and those below it, as an optimizer wants them."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers of this module and those below it, each with its path."""
        return self._named_members(buffers_of, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and those below it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Calls ``fn`` with each module below this one, children first, and then with this one.

        >>> _ = rl.nn.Sequential(rl.nn.Identity(), rl.nn.Identity()).apply(print)
        Identity()
        Identity()
        Sequential(
          (0): Identity()
          (1): Identity()
        )
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replaces the elements of each parameter and gradient, and each buffer, by ``fn`` of it.

        Parameters stay the same objects, so that an optimizer that has them keeps them.
        """
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                parameter.data = fn(parameter.data)
                if parameter._grad is not None:
                    parameter._grad.data = fn(parameter._grad.data)
        for name, buffer in self._buffers.items():
            if buffer is None:
                continue
            if is_lazy(buffer):  # it shall stay one that has no shape yet
                buffer.data = fn(buffer.data)
            else:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Converts the floating-point parameters and buffers, in place: see :meth:`Tensor.to`.

        >>> rl.nn.Linear(1, 2).to(rl.float64).weight.dtype
        rushlight.float64
        """
        device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        memory_format = kwargs.pop("memory_format", preserve_format)
        args = (*args, *[kwargs.pop(key) for key in ("tensor", "non_blocking") if key in kwargs])
        if kwargs:
            raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if args and not isinstance(args[0], bool):
            device, dtype, _ = read_target(args, device, dtype)
        if dtype is not None:
            dtype = dtypes.as_dtype(dtype)
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                    f"dtype={dtype}"
                )

        def convert(t: Tensor) -> Tensor:
            kind = dtype if t._array.dtype.kind in "fcV" else None
            form = memory_format if t._array.ndim in (4, 5) else preserve_format
            return t.to(device=device, dtype=kind, memory_format=form)

        return self._apply(convert)

    def type(self: Self, dst_type: dtypes.dtype | str) -> Self:
        """Converts all parameters and buffers to ``dst_type``."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self: Self) -> Self:
        """Converts the floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self: Self) -> Self:
        """Converts the floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self: Self) -> Self:
        """Converts the floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self: Self) -> Self:
        """Converts the floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self: Self) -> Self:
        """Moves the parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: Device | str | int | None = None) -> Self:
        """Moves the parameters and buffers to a CUDA device; an error, since there is none."""
        return self._apply(lambda t: t.cuda(device))

    def to_empty(self: Self, *, device: Device | str | int | None, recurse: bool = True) -> Self:
        """Moves the parameters and buffers to a device without their values."""
        return self._apply(lambda t: ops.empty_like(t, device=device), recurse=recurse)

    def share_memory(self: Self) -> Self:
        """Moves the elements to memory that forked processes share."""
        for t in (*self.parameters(), *self.buffers()):
            t.share_memory_()
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Sets training mode, which dropout and normalisation heed; :meth:`eval` is its contrary.

        >>> rl.nn.Identity().eval().training
        False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Sets evaluation mode: the same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Says whether the parameters are to have gradients; False freezes them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Takes away the gradients of all parameters, or sets them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif (grad := parameter.grad) is not None:
                (grad.requires_grad_(False) if grad.is_leaf else grad.detach_()).zero_()

    def extra_repr(self) -> str:
        """What is written between the parentheses of ``repr``; for subclasses to write."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        if not self._modules and len(lines) < 2:
            return f"{self._get_name()}({extra})"
        for name, module in self._modules.items():
            lines.append(f"({name}): " + repr(module).replace("\n", "\n  "))
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def parameters_of(module: Module) -> Iterable[tuple[str, Parameter | None]]:
    return module._parameters.items()


def buffers_of(module: Module) -> Iterable[tuple[str, Tensor | None]]:
    return module._buffers.items()


def _member(module: Module, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)


def cure_of(value: Any) -> str:
    """What to do instead of putting ``value`` among modules."""
    function = "; a function goes into forward, or use its layer, such as nn.ReLU()"
    many = "; give them one by one, with a * before the list: nn.Sequential(*layers)"
    return function if callable(value) else many * isinstance(value, (list, tuple))
