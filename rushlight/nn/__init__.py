"""Networks: modules, their parameters, and the functions they are made of."""

from rushlight.nn import functional

__all__ = ["functional"]
