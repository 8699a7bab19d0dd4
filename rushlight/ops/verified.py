"""Values that must hold: a check of elements which a graph holds like any other op."""

from __future__ import annotations

import builtins
from typing import Any

from rushlight.ops.base import Op, registry
from rushlight.ops.elements import Refusal, only
from rushlight.tensor import Tensor


class Verified(Op):
    """``x``, of which every element ``holds``; else the error of this name and message."""

    function = method = False

    def check(self, x: Tensor, holds: Tensor, error: str, message: str) -> Any:
        return (x, holds), {"error": error, "message": message}

    def eager(self, x, holds, *, error, message):
        if not holds.all():
            raise getattr(builtins, error)(message)
        return x

    def at(self, b, i, x, holds, *, error, message):
        place = b.checked(
            b.where(holds[i], b.position(0), 1), 1, Refusal(getattr(builtins, error), message)
        )
        return only(b, x[i], place)

    def vjp_x(self, g, _y, _x, _holds, *, error, message):
        return g

    def vjp_holds(self, g, _y, _x, _holds, *, error, message):
        return None


verified = registry["verified"].call
