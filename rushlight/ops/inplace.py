"""In-place functions: ``rl.relu_(x)`` is ``x.relu_()``, for the ops that have both in PyTorch."""

from __future__ import annotations

from rushlight.ops import (  # noqa: F401 - they make the methods
    activation,
    affine,
    arithmetic,
    complex,
    floating,
    indexing,
    power,
    rounding,
    selection,
    special,
    strides,
    transcendental,
)
from rushlight.ops.base import ops
from rushlight.tensor import Tensor

NAMES = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan
    atanh ceil celu clamp clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2
    expm1 fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit nan_to_num neg
    negative rad2deg reciprocal relu round rrelu rsqrt selu sigmoid sin sinc sinh sqrt square tan
    tanh threshold trunc xlogy
"""

for name in NAMES.split():
    write = getattr(Tensor, f"{name}_")
    write.__module__ = "rushlight"  # where pickle finds it
    setattr(ops, f"{name}_", write)
