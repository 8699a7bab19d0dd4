"""The ops, family by family. Importing this package fills the registry and Tensor's methods."""

from rushlight.ops import (  # noqa: F401 - imported to register
    activation,
    affine,
    arithmetic,
    bessel,
    comparison,
    complex,
    contraction,
    conversion,
    creation,
    einsum,
    floating,
    logical,
    movement,
    power,
    products,
    random,
    reduce,
    rounding,
    selection,
    special,
    transcendental,
)
from rushlight.ops.base import ops, registry

__all__ = ["ops", "registry"]
