"""Exponentials, logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

import numpy as np

from rushlight.ops.families import Unary, conjugate
from rushlight.ops.samples import unary_samples


class Tanh(Unary):
    """Hyperbolic tangent, element by element.

    >>> rl.tensor([0.0, 1.0]).tanh()
    tensor([0.0000, 0.7616])
    """

    floats = True
    samples = unary_samples(-4, 4)
    eager = np.tanh

    def vjp(self, g, y, _x):
        return g * (1 - y * y)


class Exp(Unary):
    """e to the power of each element.

    >>> rl.tensor([0.0, 1.0]).exp()
    tensor([1.0000, 2.7183])
    """

    floats = True
    samples = unary_samples()
    eager = np.exp

    def vjp(self, g, y, _x):
        return g * conjugate(y)
