"""Weights divided by their largest singular value."""

from __future__ import annotations

from typing import Any, TypeVar

from rushlight.autograd.modes import no_grad
from rushlight.nn.convolution import _ConvTransposeNd
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.tensor import Tensor

M = TypeVar("M", bound=Module)


def unit(x: Tensor, eps: float) -> Tensor:
    """x / ‖x‖, or x / eps if that is smaller."""
    return x / x.norm().clamp(min=eps)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with ``dim`` as its rows and all other dimensions as columns."""
    return weight.movedim(dim, 0).flatten(1)


def output_dim(module: Module) -> int:
    """The dimension of a weight that counts outputs: 1 for transposed convolutions, else 0."""
    return int(isinstance(module, _ConvTransposeNd))


class SpectralNorm:
    """The hook that divides a weight by its largest singular value before each forward.

    ``u`` and ``v`` approximate the singular vectors; each forward in training improves them.
    """

    _version = 1

    def __init__(
        self,
        name: str = "weight",
        n_power_iterations: int = 1,
        dim: int = 0,
        eps: float = 1e-12,
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        weight, u, v = [getattr(module, self.name + end) for end in ("_orig", "_u", "_v")]
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(unit(matrix.T.mv(u), self.eps))
                    u.copy_(unit(matrix.mv(v), self.eps))
            u, v = u.clone(), v.clone()  # the next forward writes over them
        return weight / u.dot(matrix.mv(v))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name}"
                )
        norm = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            )
        with no_grad():
            rows, columns = as_matrix(weight, dim).shape
            u = unit(weight.new_empty(rows).normal_(0, 1), eps)
            v = unit(weight.new_empty(columns).normal_(0, 1), eps)
        delattr(module, name)
        module.register_parameter(f"{name}_orig", weight)
        setattr(module, name, weight.data)
        module.register_buffer(f"{name}_u", u)
        module.register_buffer(f"{name}_v", v)
        module.register_forward_pre_hook(norm)
        module._register_state_dict_hook(norm.note_version)
        return norm

    def note_version(self, module: Module, state: Any, prefix: str, metadata: Any) -> None:
        metadata.setdefault("spectral_norm", {})[f"{self.name}.version"] = self._version

    def remove(self, module: Module) -> None:
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))
        for key, hook in list(module._state_dict_hooks.items()):
            if hook == self.note_version:
                del module._state_dict_hooks[key]

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divides a weight by its largest singular value, which makes the layer 1-Lipschitz.

    Args:
        module: the module that has the weight.
        name: its name; the parameter is then called ``<name>_orig``.
        n_power_iterations: how often the singular vectors are improved in each forward.
        eps: the smallest norm that is divided by.
        dim: the dimension of the outputs; by default 0, and 1 for transposed convolutions.

    >>> layer = rl.nn.utils.spectral_norm(rl.nn.Linear(20, 40), n_power_iterations=50)
    >>> _ = layer(rl.zeros(1, 20))
    >>> rl.allclose(rl.linalg.matrix_norm(layer.weight, 2), rl.tensor(1.0), atol=0.01)
    True
    """
    SpectralNorm.apply(
        module, name, n_power_iterations, output_dim(module) if dim is None else dim, eps
    )
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Makes the weight, as it is, a parameter again."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, SpectralNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"spectral_norm of '{name}' not found in {module}")


__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]
