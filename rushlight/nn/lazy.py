"""Modules that find out the shapes of their parameters when they see their first input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.modes import no_grad
from rushlight.autograd.tape import RemovableHandle
from rushlight.nn.parameter import (
    Uninitialized,
    UninitializedBuffer,
    UninitializedParameter,
    is_lazy,
)

if TYPE_CHECKING:
    from rushlight.nn.module import Module

    Base = Module
else:
    Base = object


class LazyModuleMixin(Base):
    """Mixed into a module class, before it, makes its parameters wait for the first input.

    The subclass gives itself uninitialized parameters in ``__init__``, materializes them in
    ``initialize_parameters(*inputs)``, which runs before the first forward, and names in
    ``cls_to_become`` the class that its instances then have.

    >>> class LazyScale(rl.nn.modules.lazy.LazyModuleMixin, rl.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scale = rl.nn.UninitializedParameter()
    ...
    ...     def initialize_parameters(self, x):
    ...         self.scale.materialize(x.shape[-1:])
    ...         rl.nn.init.ones_(self.scale)
    ...
    ...     def forward(self, x):
    ...         return self.scale * x
    >>> module = LazyScale()
    >>> module(rl.zeros(2, 3)).shape, module.scale.shape
    (rushlight.Size([2, 3]), rushlight.Size([3]))
    """

    cls_to_become: type[Module] | None = None
    _load_hook: RemovableHandle
    _initialize_hook: RemovableHandle

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materializes and fills the parameters, given the inputs of forward."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer still waits for its shape."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _lazy_load_hook(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Takes the shapes from a state that is going to be loaded."""
        for members in (self._parameters, self._buffers):
            for name, t in members.items():
                source = state_dict.get(prefix + name)
                if isinstance(t, Uninitialized) and source is not None and not is_lazy(source):
                    t.materialize(source.shape)

    def _infer_parameters(
        self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> None:
        with no_grad():
            module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become


__all__ = ["LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]
