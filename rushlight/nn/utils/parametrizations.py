"""Parametrizations that are often wanted: orthogonal, spectral norm, weight norm."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from rushlight import dtypes
from rushlight.autograd.modes import no_grad
from rushlight.nn.module import Module
from rushlight.nn.utils.parametrize import register_parametrization
from rushlight.nn.utils.spectral_norm import as_matrix, output_dim, unit
from rushlight.nn.utils.weight_norm import norm_except_dim, weight_of
from rushlight.ops import ops
from rushlight.tensor import Tensor


class _OrthMaps(Enum):
    matrix_exp = auto()
    cayley = auto()
    householder = auto()


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, if it has more columns) from any matrix.

    With ``base``, the map of zero is the matrix that was assigned, whatever map is used.
    """

    base: Tensor

    def __init__(
        self, weight: Tensor, orthogonal_map: _OrthMaps, *, use_trivialization: bool = True
    ) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map is _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        q = self.tall(X.mT if wide else X)
        if "base" in self._buffers:
            q = self.base @ q
        return q.mT if wide else q

    def tall(self, x: Tensor) -> Tensor:
        """The map of a matrix that has at least as many rows as columns."""
        n, k = x.shape[-2:]
        if self.orthogonal_map is _OrthMaps.householder:
            a = x.tril(-1)
            tau = 2.0 / (1.0 + (a * a).sum(-2))
            signs = x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
            return ops.linalg.householder_product(a, tau) * signs
        x = x.tril()
        if n != k:
            x = ops.cat([x, x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], -1)
        a = x - x.mH
        if self.orthogonal_map is _OrthMaps.matrix_exp:
            q = ops.matrix_exp(a)
        else:
            one = ops.eye(n, dtype=a.dtype)
            q = ops.linalg.solve(one - a / 2, one + a / 2)
        return q[..., :k] if n != k else q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if wide else Q
        if "base" in self._buffers:
            self.base = completed(q)
            start = ops.zeros_like(Q)
            start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
            return start
        if self.orthogonal_map is not _OrthMaps.householder:
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        a, tau = ops.geqrf(q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal[tau == 0.0] *= -1
        return a.mT if wide else a


def completed(q: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with the columns of ``q``, made orthonormal."""
    n, k = q.shape[-2:]
    if n != k:
        return orthonormal(ops.cat([q, ops.randn(*q.shape[:-2], n, n - k, dtype=q.dtype)], -1))
    one = ops.eye(n, dtype=q.dtype)
    near = 10.0 * n * dtypes.finfo(q.dtype).eps
    return q.clone() if ops.allclose(q.mH @ q, one, atol=near) else orthonormal(q)


def orthonormal(a: Tensor) -> Tensor:
    x, tau = ops.geqrf(a)
    signs = x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return ops.linalg.householder_product(x, tau) * signs


def tensor_called(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keeps a weight orthogonal: its columns, or rows if there are fewer, are orthonormal.

    Args:
        module: the module that has the weight.
        name: its name.
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``; by default the first
            for square matrices and the last for others.
        use_trivialization: start from the weight that is assigned, at some cost in memory.

    >>> layer = rl.nn.utils.parametrizations.orthogonal(rl.nn.Linear(20, 40))
    >>> (layer.weight.T @ layer.weight).allclose(rl.eye(20), atol=1e-5)
    True
    """
    weight = tensor_called(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    chosen = _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization=use_trivialization)
    return register_parametrization(module, name, chosen, unsafe=True)


class _WeightNorm(Module):
    """w = g·v/‖v‖."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_of(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Writes a weight as length times direction, w = g·v/‖v‖, which are learnt apart.

    Args:
        module: the module that has the weight.
        name: its name.
        dim: the dimension along which each slice has a length of its own; None for one in all.

    >>> layer = rl.nn.utils.parametrizations.weight_norm(rl.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape
    rushlight.Size([40, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(OldNames(name))
    return module


class OldNames:
    """Loads a state that :func:`rushlight.nn.utils.weight_norm` has saved."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        old = f"{prefix}{self.name}_g", f"{prefix}{self.name}_v"
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{self.name}.original{i}"
                state_dict[new] = state_dict.pop(key)


class _SpectralNorm(Module):
    """A weight divided by its largest singular value; see :func:`spectral_norm`."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        n = weight.ndim
        if not -n <= dim < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{n}, {n - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % n
        self.eps = eps
        if n > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            u = matrix.new_empty(matrix.shape[0]).normal_(0, 1)
            v = matrix.new_empty(matrix.shape[1]).normal_(0, 1)
            self.register_buffer("_u", unit(u, eps))
            self.register_buffer("_v", unit(v, eps))
            self.improve(matrix, 15)

    @no_grad()
    def improve(self, matrix: Tensor, iterations: int) -> None:
        """Brings u and v nearer to the singular vectors of the largest singular value."""
        for _ in range(iterations):
            self._u.copy_(unit(matrix.mv(self._v), self.eps))
            self._v.copy_(unit(matrix.H.mv(self._u), self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return unit(weight, self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self.improve(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next forward writes over them
        return weight / ops.vdot(u, matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a weight by its largest singular value, which makes the layer 1-Lipschitz.

    Args:
        module: the module that has the weight.
        name: its name.
        n_power_iterations: how often the singular vectors are improved in each forward.
        eps: the smallest norm that is divided by.
        dim: the dimension of the outputs; by default 0, and 1 for transposed convolutions.

    >>> layer = rl.nn.utils.parametrizations.spectral_norm(rl.nn.Linear(20, 40))
    >>> rl.linalg.matrix_norm(layer.weight, 2) < 1.1
    tensor(True)
    """
    weight = tensor_called(module, name)
    chosen = output_dim(module) if dim is None else dim
    return register_parametrization(
        module, name, _SpectralNorm(weight, n_power_iterations, chosen, eps)
    )


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
