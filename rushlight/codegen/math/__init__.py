"""Functions of float32 and float64 numbers as basic operations, so that they vectorise anywhere.

No branch, no table, no library: polynomials of our own (``tools/minimax.py``), with selects between
cases. ``rare`` marks the side of a select that is worth skipping if no lane needs it. The stated
errors hold where products and sums are rounded one by one, except in ``fma``: code made of these
must not be contracted or reassociated.
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
