"""Sets that parameters and samples of distributions lie in: ``positive.check(x)``."""

from __future__ import annotations

from typing import Any

from rushlight import linalg
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = [
    "Constraint",
    "boolean",
    "dependent",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "real",
    "real_vector",
    "simplex",
    "unit_interval",
]


class Constraint:
    """A set of values. ``event_dim`` dimensions from the right together are one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value lies in the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other values: only the distribution itself knows it."""

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # not NaN


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Bounded(Constraint):
    """Numbers between bounds; a bound is None, a number or a tensor."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        given = ", ".join(f"{name}={bound}" for name, bound in bounds.items() if bound is not None)
        return f"{type(self).__name__.strip('_')}({given})"


class _GreaterThan(_Bounded):
    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    def check(self, value: Tensor) -> Tensor:
        return self.lower_bound <= value


class _LessThan(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Bounded):
    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounded):
    def check(self, value: Tensor) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        triangular = (value.tril() == value).flatten(-2).all(-1)
        return triangular & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _PositiveDefinite(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        symmetric = ops.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)
        return symmetric & (linalg.cholesky_ex(value).info == 0)


class _Independent(Constraint):
    """A constraint whose last dimensions together are one value."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inner = self.base_constraint.check(value)
        if inner.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        if self.reinterpreted_batch_ndims == 0:
            return inner
        return inner.flatten(inner.dim() - self.reinterpreted_batch_ndims).all(-1)

    def __repr__(self) -> str:
        return f"Independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


def is_dependent(constraint: Constraint) -> bool:
    """Whether only the distribution itself knows the set."""
    return isinstance(constraint, _Dependent)


greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval = _Interval, _HalfOpenInterval
integer_interval, independent = _IntegerInterval, _Independent
dependent, real, boolean = _Dependent(), _Real(), _Boolean()
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
simplex, one_hot = _Simplex(), _OneHot()
lower_cholesky, positive_definite = _LowerCholesky(), _PositiveDefinite()
real_vector = _Independent(real, 1)
