"""Weights written as a length times a direction."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.tensor import Tensor

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norms of the slices of ``v`` along ``dim``, with all dimensions kept; of all for -1."""
    if dim == -1:
        return v.norm(pow)
    shape = [1] * v.ndim
    shape[dim] = v.shape[dim]
    return v.movedim(dim, 0).reshape(v.shape[dim], -1).norm(pow, 1).reshape(shape)


def weight_of(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """w = g·v/‖v‖."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook that computes a weight from its length and direction before each forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        return weight_of(
            getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g"), self.dim
        )

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        warnings.warn(
            "`nn.utils.weight_norm` is deprecated in favor of "
            "`nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        if any(isinstance(h, WeightNorm) and h.name == name for h in hooks_of(module)):
            raise RuntimeError(
                f"Cannot register two weight_norm hooks on the same parameter {name}"
            )
        norm = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        length = norm_except_dim(weight, 2, norm.dim).data
        module.register_parameter(f"{name}_g", Parameter(length))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, norm.compute_weight(module))
        module.register_forward_pre_hook(norm)
        return norm

    def remove(self, module: Module) -> None:
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[f"{self.name}_g"], module._parameters[f"{self.name}_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def hooks_of(module: Module) -> list[Any]:
    return list(module._forward_pre_hooks.values())


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Replaces a weight by its length ``<name>_g`` and direction ``<name>_v``: w = g·v/‖v‖.

    Use :func:`rushlight.nn.utils.parametrizations.weight_norm`.

    Args:
        module: the module that has the weight.
        name: its name.
        dim: the dimension along which each slice has a length of its own; None for one in all.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Makes the weight a parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")


__all__ = ["WeightNorm", "norm_except_dim", "remove_weight_norm", "weight_norm"]
