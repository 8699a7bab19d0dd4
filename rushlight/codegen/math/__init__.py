"""Functions of float32 and float64 numbers as basic operations, so that they vectorise anywhere.

No branch, no table, no library: polynomials of our own (``tools/minimax.py``), with selects between
cases. ``rare`` marks the side of a select that is worth skipping if no lane needs it.

Errors are the greatest that were found, in units in the last place: of float32 (the first number)
among all numbers or a good part of them, of float64 among random ones. They hold where each product
and sum is rounded, except in ``fma``: the code must not be contracted or reassociated.
"""

from rushlight.codegen.math import exponential, power, special, trigonometry
from rushlight.codegen.math.base import EXPANSIONS
from rushlight.codegen.values import Builder, Value

__all__ = ["EXPANSIONS", "expand"]


def expand(b: Builder, value: Value) -> Value:
    """A call of a function of ``values.MATH``, of kind f32 or f64, as basic operations.

    >>> b = Builder()
    >>> expand(b, b.rsqrt(b.load("x", "f32", ()))).op
    'div'
    """
    return EXPANSIONS[value.op](b, *value.args)
