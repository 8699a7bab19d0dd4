"""The ops, family by family. Importing this package fills the registry and Tensor's methods."""

from rushlight.ops import (  # noqa: F401 - imported to register
    arithmetic,
    contraction,
    conversion,
    creation,
    movement,
    random,
    reduce,
    transcendental,
)
from rushlight.ops.base import ops, registry

__all__ = ["ops", "registry"]
