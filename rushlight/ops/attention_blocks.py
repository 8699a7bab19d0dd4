"""Attention and its gradient, block by block: what graphs hold in the place of attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.autograd.engine import is_expandable
from rushlight.kernels import attention as kernels
from rushlight.ops.base import Op
from rushlight.tensor import Tensor


class Blocked(Op, abstract=True):
    """An op that goes through blocks of weights; ``results`` names what it gives."""

    function = method = differentiable = False
    once = True
    library = "blocks of weights"
    results: tuple[str, ...]

    def check(self, *operands: Tensor | None, scale: float, causal: bool) -> Any:
        return operands, {"scale": scale, "causal": causal}


def rows_of(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | None, noise: np.ndarray | None
) -> tuple[int, ...]:
    """The shape of the rows of a result; an error unless the operands fit together."""
    rows, columns = (*kernels.batch_of(q, k, v), q.shape[-2]), k.shape[-2]
    added = [x for x in (bias, noise) if x is not None]
    fits = q.shape[-1] == k.shape[-1] and v.shape[-2] == columns and q.dtype == k.dtype == v.dtype
    if not fits or not all([is_expandable(x.shape, (*rows, columns)) for x in added]):
        shapes = [x.shape for x in (q, k, v, *added)]
        raise ValueError(f"operands {shapes} of attention do not fit")
    return rows


class Attend(Blocked):
    """Attention, and for its gradient each row's largest score and sum of exp(score - largest)."""

    operands = ("q", "k", "v", "bias", "noise")
    results = ("y", "tops", "totals")

    def infer(self, arrays, attrs):
        q, _, v = arrays[:3]
        rows = rows_of(*arrays)
        return tuple([np.empty((*rows, n), q.dtype) for n in (v.shape[-1], 1, 1)])

    def eager(self, q, k, v, bias, noise, *, scale, causal):
        return kernels.attention(scale, False, causal, q, k, v, bias, noise)[:3]


class AttendGradient(Blocked):
    """The gradients of q, k and v."""

    operands = ("g", "y", "tops", "totals", "q", "k", "v", "bias", "noise")
    results = ("dq", "dk", "dv")

    def infer(self, arrays, attrs):
        q, _, v = arrays[4:7]
        rows = rows_of(*arrays[4:])
        for a, n in zip(arrays[:4], (v.shape[-1], v.shape[-1], 1, 1), strict=True):
            if a.shape != (*rows, n) or a.dtype != q.dtype:
                raise ValueError(f"{a.dtype}{a.shape} beside rows {q.dtype}{rows}")
        return tuple([np.empty(a.shape, a.dtype) for a in arrays[4:7]])

    def eager(self, g, y, tops, totals, q, k, v, bias, noise, *, scale, causal):
        saved = g, y, tops, totals, np.empty(0, q.dtype)
        found = kernels.attention_gradient(scale, causal, False, *saved, q, k, v, bias, noise)
        return tuple([kernels.summed(d, x.shape) for d, x in zip(found, (q, k, v), strict=False)])
