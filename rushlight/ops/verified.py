"""Values that must hold: a check of elements which a graph holds like any other op."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from rushlight.ops.base import Op, registry
from rushlight.ops.elements import Refusal, only
from rushlight.tensor import Tensor

ERRORS = {
    name: cls
    for name, cls in vars(builtins).items()
    if isinstance(cls, type) and issubclass(cls, Exception)
}
"""What a graph may raise, which may come from a file: errors, and nothing else of Python's."""


class Verified(Op):
    """``x``, of which every element ``holds``; else the error of this name and message."""

    function = method = tried = False

    def check(self, x: Tensor, holds: Tensor, error: str, message: str) -> Any:
        return (x, holds), {"error": error, "message": message}

    def eager(self, x, holds, *, error, message):
        if not holds.all():
            raise ERRORS[error](message)
        return x

    def infer(self, arrays, attrs):
        x, holds = arrays
        refusal = ERRORS[attrs["error"]](attrs["message"])
        if x.shape != holds.shape or holds.dtype != bool:
            raise TypeError(f"{refusal!r} would be raised for {holds.shape}, not {x.shape}")
        return np.empty_like(x)

    def at(self, b, i, x, holds, *, error, message):
        place = b.checked(b.where(holds[i], b.position(0), 1), 1, Refusal(ERRORS[error], message))
        return only(b, x[i], place)

    def vjp_x(self, g, _y, _x, _holds, *, error, message):
        return g

    def vjp_holds(self, g, _y, _x, _holds, *, error, message):
        return None


verified = registry["verified"].call
