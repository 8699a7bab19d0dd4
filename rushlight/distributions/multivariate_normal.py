"""The normal distribution of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from rushlight import linalg
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import standard_normal
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by one of three forms of its covariance.

    Args:
        loc: the mean.
        covariance_matrix: the covariance Σ,
        precision_matrix: or its inverse Σ⁻¹,
        scale_tril: or the lower triangular L of Σ = L·Lᵀ.

    >>> normal = rl.distributions.MultivariateNormal(rl.zeros(2), 4 * rl.eye(2))
    >>> normal.scale_tril
    tensor([[2., 0.],
            [0., 2.]])
    """

    has_rsample = True
    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        forms = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = [(name, matrix) for name, matrix in forms.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        [(name, matrix)] = given
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} matrix must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        matrix = matrix.expand((*batch_shape, -1, -1))
        vars(self)[name] = matrix
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _triangle(name, matrix)

    def expand(self, batch_shape: Sequence[int]) -> MultivariateNormal:
        new = super().expand(batch_shape)
        matrix = self._unbroadcasted_scale_tril
        new._unbroadcasted_scale_tril = matrix.expand((*batch_shape, *matrix.shape[-2:]))
        return new

    @cached_property
    def scale_tril(self) -> Tensor:
        """The lower triangular L of Σ = L·Lᵀ."""
        return self._unbroadcasted_scale_tril

    @cached_property
    def covariance_matrix(self) -> Tensor:
        """The covariance Σ."""
        return self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT

    @cached_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._unbroadcasted_scale_tril.cholesky_inverse()

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        size = self._event_shape[0]
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (size * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        size = self._event_shape[0]
        return 0.5 * size * (1.0 + math.log(2 * math.pi)) + self._half_log_det()

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _triangle(form: str, matrix: Tensor) -> Tensor:
    """The lower triangular L of the covariance L·Lᵀ that a matrix stands for."""
    if form == "scale_tril":
        return matrix
    if form == "covariance_matrix":
        return linalg.cholesky(matrix)
    # The factor of Σ⁻¹ with rows and columns reversed is upper triangular in the right order.
    factor = linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
    identity = ops.eye(matrix.shape[-1], dtype=matrix.dtype)
    return linalg.solve_triangular(factor, identity, upper=False)


def mahalanobis(triangle: Tensor, x: Tensor) -> Tensor:
    """xᵀ·(L·Lᵀ)⁻¹·x for vectors ``x`` and a lower triangular L."""
    shape = ops.broadcast_shapes(triangle.shape[:-1], x.shape)
    columns = x.expand(shape).unsqueeze(-1)
    whitened = linalg.solve_triangular(triangle, columns, upper=False)
    return whitened.squeeze(-1).pow(2).sum(-1)
