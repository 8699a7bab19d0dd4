"""Ops that have a kernel for their gradient, besides the formula that defines them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.backward import grad
from rushlight.autograd.modes import local
from rushlight.ops.base import Op, any_tracked, registry
from rushlight.tensor import Tensor

Arrays = Sequence[Any]


class Fused(Op, abstract=True):
    """An op that does in one kernel what many ops would do, and so does its gradient.

    ``formula`` says the same with ops. A gradient that is itself recorded is that of the formula,
    so derivatives of any order are right; one that is not comes from ``gradient``.
    """

    function = method = False
    library = "one kernel does many steps"

    def formula(self, *operands: Any, **attrs: Any) -> Any:
        """The results that have gradients, made with ops."""
        raise NotImplementedError

    def gradient(
        self, wanted: Sequence[str], g: Arrays, y: Arrays, *operands: Any, **attrs: Any
    ) -> Sequence[np.ndarray]:
        """The kernel: the gradients of the ``wanted`` operands."""
        raise NotImplementedError

    def unrolled_gradient(
        self, wanted: Sequence[str], g: Any, y: Any, *operands: Any, **attrs: Any
    ) -> Any:
        """The gradients made with ops that are not to be recorded, if graphs should hold them."""
        return NotImplemented

    def unrecorded(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """The results that users see, if dynamic mode gets them sooner without the others."""
        return NotImplemented

    def apply(self, operands, attrs):
        state = local.state
        if state.trace is None and not (state.grad and any_tracked(operands)):
            results = self.unrecorded(operands, attrs)
            if results is not NotImplemented:
                return results
        return super().apply(operands, attrs)

    def vjp(self, g, y, *operands, **attrs):
        named = zip(self.operands, operands, strict=True)
        wanted = {name: t for name, t in named if isinstance(t, Tensor) and t.requires_grad}
        starts = g if isinstance(g, tuple) else (g,)
        if local.state.grad:
            found = self.recorded_gradient(wanted, starts, operands, attrs)
        else:
            how = {"op": self, "wanted": tuple(wanted), "attrs": attrs}
            found = fused_gradient.apply((*starts, *y, *operands), how)
        gradients = dict(zip(wanted, found, strict=True))
        return tuple([gradients.get(name) for name in self.operands])

    def recorded_gradient(
        self, wanted: dict[str, Tensor], g: Any, operands: Any, attrs: dict[str, Any]
    ) -> Sequence[Tensor | None]:
        """The gradient of the formula, taken of twins: operands may be one and the same tensor."""
        twins = {name: t.view_as(t) for name, t in wanted.items()}
        given = [twins.get(name, t) for name, t in zip(self.operands, operands, strict=True)]
        y = self.formula(*given, **attrs)
        pairs = zip(y if isinstance(y, tuple) else (y,), g, strict=True)
        roots, starts = zip(*[pair for pair in pairs if pair[0].requires_grad], strict=True)
        return grad(roots, list(twins.values()), starts, create_graph=True, allow_unused=True)


class FusedGradient(Op):
    """The gradients of the ``wanted`` operands of a fused op, not to be recorded."""

    function = method = differentiable = False
    library = "one kernel does many steps"

    def check(self, *operands: Any, **attrs: Any) -> Any:
        return operands, attrs

    def infer(self, arrays, attrs):
        if "bias" in attrs["wanted"]:  # its gradient has the shape of what it was added to
            return NotImplemented
        named = dict(zip(attrs["op"].operands, arrays[-len(attrs["op"].operands) :], strict=True))
        found = [named[name] for name in attrs["wanted"]]
        return tuple([np.empty(a.shape, single(a[:0]).dtype) for a in found])

    def decompose(self, *tensors, op, wanted, attrs):
        first, last = len(op.differentiable), len(tensors) - len(op.operands)
        g, y, operands = tensors[:first], tensors[first:last], tensors[last:]
        return op.unrolled_gradient(wanted, g, y, *operands, **attrs)

    def eager(self, *arrays, op, wanted, attrs):
        given = [single(a) for a in arrays]
        first, last = len(op.differentiable), len(given) - len(op.operands)
        g, y, operands = given[:first], given[first:last], given[last:]
        return tuple(op.gradient(wanted, g, y, *operands, **attrs))


fused_gradient = registry["fused_gradient"]


def single(array: Any) -> Any:
    """A half-precision array in float32, in which it is computed with; others as they are."""
    return array.astype(np.float32) if array is not None and array.dtype in dtypes.HALF else array
