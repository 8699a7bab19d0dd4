"""Parameters that are computed from others: ``module.weight`` becomes a function of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.autograd.modes import no_grad
from rushlight.errors import kind
from rushlight.nn.containers import ModuleDict, ModuleList
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.tensor import Tensor


class Cache:
    """What parametrizations gave since the outermost :func:`cached` began."""

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[tuple[int, str], Tensor] = {}


cache = Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed once, however often it is used.

    >>> layer = rl.nn.utils.parametrizations.weight_norm(rl.nn.Linear(2, 2))
    >>> with rl.nn.utils.parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    cache.depth += 1
    try:
        yield
    finally:
        cache.depth -= 1
        if not cache.depth:
            cache.values.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the ``original`` that they are functions of.

    A first parametrization whose ``right_inverse`` gives several tensors has them as
    ``original0``, ``original1``, …

    Args:
        modules: the parametrizations, the first one first.
        original: the parameter or buffer to be parametrized.
        unsafe: whether they may change its shape and dtype.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not len(modules):
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                new = inverse(module, new)
        self.is_tensor = isinstance(new, Tensor)
        if not self.is_tensor and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {kind(new)}"
            )
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if new.dtype != dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            original.data = new.data
            add(self, "original", original)
        else:
            for i, t in enumerate(new):
                if not isinstance(t, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type {kind(t)}."
                    )
                if isinstance(original, Parameter):
                    t = Parameter(t, original.requires_grad)
                add(self, f"original{i}", t.requires_grad_(original.requires_grad))
        if not unsafe:
            check_kept("the tensor", "unparametrized", self(), "parametrized", shape, dtype)

    def originals(self) -> list[Tensor]:
        """The tensors that are learnt."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parametrized tensor becomes ``value``."""
        new: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {kind(module)} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
        if self.is_tensor:
            if not isinstance(new, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {kind(new)}")
            new = [new]
        elif not isinstance(new, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {kind(new)}.")
        elif len(new) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(new)}."
            )
        for i, (original, t) in enumerate(zip(self.originals(), new, strict=True)):
            if t.dtype != original.dtype:
                which = "The tensor" if self.is_tensor else f"Tensor {i}"
                name = "original" if self.is_tensor else f"original{i}"
                raise ValueError(
                    f"{which} returned by `right_inverse` has dtype {t.dtype} while `{name}` has "
                    f"dtype {original.dtype}"
                )
            original.data = t.data

    def forward(self) -> Tensor:
        first, *rest = self
        x = first(*self.originals())
        for module in rest:
            x = module(x)
        return x


def inverse(module: Any, value: Any) -> Any:
    """``module.right_inverse(value)``; a parametrization without one takes any value."""
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def add(module: Module, name: str, t: Tensor) -> None:
    if isinstance(t, Parameter):
        module.register_parameter(name, t)
    else:
        module.register_buffer(name, t)


def check_kept(
    what: str, before: str, y: Any, after: str, shape: tuple[int, ...], dtype: Any
) -> None:
    """An error if a parametrization gave something else than a tensor of this shape and dtype."""
    if not isinstance(y, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {kind(y)}.")
    for word, old, new in (("dtype", dtype, y.dtype), ("shape", shape, y.shape)):
        if old != new:
            raise ValueError(
                f"Registering a parametrization may not change the {word} of {what}, unless "
                f"the `unsafe` flag is enabled.\n{before} {word}: {old}\n{after} {word}: {new}"
            )


def parametrized_class(cls: type[Module], names: Sequence[str]) -> type[Module]:
    """A subclass of ``cls`` whose attributes ``names`` are computed by parametrizations."""
    members: dict[str, Any] = {"_unparametrized": cls, "__getstate__": refuse_pickling}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = deepcopy
    members |= {name: computed(name) for name in names}
    return type(f"Parametrized{cls.__name__}", (cls,), members)


def computed(name: str) -> property:
    def get(self: Any) -> Tensor:
        if not cache.depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in cache.values:
            cache.values[key] = self.parametrizations[name]()
        return cache.values[key]

    def set_original(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, set_original)


def refuse_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict()."
    )


def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A copy with a class of its own, so that each can lose its parametrizations alone."""
    if id(self) in memo:
        return memo[id(self)]
    cls = parametrized_class(type_before_parametrizations(self), list(self.parametrizations))
    twin = memo[id(self)] = object.__new__(cls)
    twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return twin


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes ``module.<tensor_name>`` the result of ``parametrization`` of the tensor it was.

    Args:
        module: the module that has the tensor.
        tensor_name: the name of a parameter or buffer, or of one parametrized before.
        parametrization: a module from one tensor to another of the same shape and dtype. With a
            method ``right_inverse`` the tensor can be assigned to, and keeps its value now.
        unsafe: whether shape and dtype may change.

    >>> class Symmetric(rl.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = rl.nn.Linear(3, 3)
    >>> _ = rl.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> layer.weight.allclose(layer.weight.mT)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain: Any = module.parametrizations[tensor_name]
        if not unsafe:
            check_one_more(module, tensor_name, parametrization)
        chain.append(parametrization)
        chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        chain = ParametrizationList([parametrization], original, unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        cls = type_before_parametrizations(module)
        module.parametrizations[tensor_name] = chain
        module.__class__ = parametrized_class(cls, list(module.parametrizations))
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def check_one_more(module: Module, name: str, parametrization: Any) -> None:
    """An error if another parametrization of a tensor would change its shape or dtype."""
    y = getattr(module, name)
    x = parametrization(y)
    words = (f"module.{name}", f"parametrization(module.{name})")
    check_kept("the tensor", words[0], x, words[1], y.shape, y.dtype)
    z = inverse(parametrization, x)
    if not isinstance(z, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {kind(z)}")
    for word, old, new in (("dtype", y.dtype, z.dtype), ("shape", y.shape, z.shape)):
        if old != new:
            raise ValueError(
                "The tensor returned by parametrization.right_inverse must have the same "
                f"{word} as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{word}: {old}\nreturned {word}: {new}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of the tensor of this name."""
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Makes a parametrized tensor a plain parameter or buffer again.

    Args:
        module: the module that has it.
        tensor_name: its name.
        leave_parametrized: whether it keeps the value that the parametrizations gave it, or gets
            that of the original.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain: Any = module.parametrizations[tensor_name]
    if chain.is_tensor:
        original = chain.original
        if leave_parametrized:
            with no_grad():
                original.data = getattr(module, tensor_name).data
    elif leave_parametrized:
        t = getattr(module, tensor_name)
        original = Parameter(t) if t.requires_grad else t
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    cls = type_before_parametrizations(module)
    del module.parametrizations[tensor_name]
    left = list(module.parametrizations)
    if not left:
        del module.parametrizations
    module.__class__ = parametrized_class(cls, left) if left else cls
    add(module, tensor_name, original)
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of a module without parametrizations."""
    return vars(type(module)).get("_unparametrized", type(module))


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Gives ``to_module`` the parametrizations, and their originals, of ``from_module``."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        chain: Any = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in chain:
            register_parametrization(to_module, name, parametrization)
        twin: Any = to_module.parametrizations[name]
        for members in (chain._parameters, chain._buffers):
            for key, t in members.items():
                setattr(twin, key, t)
    return to_module


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
