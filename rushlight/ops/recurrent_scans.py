"""Loops over time: what graphs hold in the place of recurrent layers.

Rows lie step after step. ``z`` is what inputs alone contribute to the gates. All states of a layer
have a block of rows more than there are steps, that of the beginning: the first one, or the last if
``reverse``. Of their gradients only those of the beginning are results. Loops take and give
what their cells do (:mod:`rushlight.kernels.cells`), in the same order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.kernels import recurrent as kernels
from rushlight.kernels.cells import CELLS, Cell
from rushlight.ops.base import Op
from rushlight.tensor import Tensor

STATES, STATE = 0, -1  # of all times, of one
WEIGHT, BIAS = -2, -3  # w_hh, b_hh
Array = np.ndarray


class Scan(Op, abstract=True):
    """An op of rows; ``results`` names what it gives, and ``widths`` says their columns.

    A width is a number of blocks, or ``STATES`` of all times, or the ``STATE`` of one; ``given``
    are those of operands, among which there are a ``WEIGHT`` and perhaps a ``BIAS``.
    """

    function = method = differentiable = False
    once = True
    library = "a loop over time"
    backward = False
    cell: Cell
    given: tuple[int, ...]
    results: tuple[str, ...]
    widths: tuple[int, ...]

    def check(self, *operands: Tensor, steps: int, reverse: bool) -> Any:
        return operands, {"steps": steps, "reverse": reverse}

    def infer(self, arrays, attrs):
        rows, (_, size) = len(arrays[0]), arrays[self.given.index(WEIGHT)].shape
        more = rows // attrs["steps"]
        blocks = self.cell.gates * size
        special: dict[int, tuple[int, ...]] = {
            STATES: (rows + more, size), STATE: (more, size), WEIGHT: (blocks, size),
            BIAS: (blocks,),
        }  # fmt: skip
        needed, shapes = [
            [special.get(n, (rows, n * size)) for n in widths]
            for widths in (self.given, self.widths)
        ]
        operands = [a.shape for a in arrays]
        if (
            operands != needed
            or more * attrs["steps"] != rows
            or len({a.dtype for a in arrays}) > 1
        ):
            raise ValueError(f"its operands are {operands}, not {needed}")
        found = tuple([np.empty(shape, arrays[0].dtype) for shape in shapes])
        return found if len(found) > 1 else found[0]

    def eager(self, *arrays, steps, reverse):
        named = dict(zip(self.operands, arrays, strict=True))
        count = self.cell.states
        spans = kernels.spans([len(arrays[0]) // steps] * steps, reverse)
        first, others = arrays[1 : 1 + count], arrays[1 + count :]
        weights = kernels.Weights(named["w_hh"], named.get("b_hh"))
        if not self.backward:
            made = kernels.forward(self.cell, arrays[0], first, weights, spans)
            pairs = zip(made.before, made.last, strict=True)
            found = (*[joined(before, last, reverse) for before, last in pairs], *made.kept)
            return found if len(found) > 1 else found[0]
        read = others[: len(self.cell.reads)]
        taken = kernels.backward(self.cell, arrays[0], first, read, weights, spans)
        return (*taken.blocks, *taken.first)


def joined(states: Array, end: Array, reverse: bool) -> Array:
    """The states of all steps and the one at the end, in the order of their rows."""
    return np.concatenate((end, states) if reverse else (states, end))


class LstmScan(Scan):
    """All h and c, the gates (i, f, g, o), and tanh(c)."""

    cell = CELLS["lstm"]
    operands, given = ("z", "h", "c", "w_hh"), (4, STATE, STATE, WEIGHT)
    results, widths = ("hs", "cs", "gates", "tanh"), (STATES, STATES, 4, 1)


class LstmScanGradient(Scan):
    """The gradients of z, and of the first h and c."""

    cell, backward = CELLS["lstm"], True
    operands = ("dy", "dh", "dc", "gates", "tanh", "c_before", "w_hh")
    given = (1, STATE, STATE, 4, 1, 1, WEIGHT)
    results, widths = ("dz", "dh_first", "dc_first"), (4, STATE, STATE)


class GruScan(Scan):
    """All h, the gates (r, u, n), and what the state contributes to n."""

    cell = CELLS["gru"]
    operands, given = ("z", "h", "w_hh", "b_hh"), (3, STATE, WEIGHT, BIAS)
    results, widths = ("hs", "gates", "inner"), (STATES, 3, 1)


class GruScanGradient(Scan):
    """The gradients of z, of what states contribute to the gates, and of the first h."""

    cell, backward = CELLS["gru"], True
    operands = ("dy", "dh", "gates", "inner", "h_before", "w_hh")
    given = (1, STATE, 3, 1, 1, WEIGHT)
    results, widths = ("dx", "dz", "dh_first"), (3, 3, STATE)


class RnnTanhScan(Scan):
    """All h."""

    cell = CELLS["rnn_tanh"]
    operands, given = ("z", "h", "w_hh"), (1, STATE, WEIGHT)
    results, widths = ("hs",), (STATES,)


class RnnTanhScanGradient(Scan):
    """The gradients of z and of the first h."""

    cell, backward = CELLS["rnn_tanh"], True
    operands, given = ("dy", "dh", "y", "w_hh"), (1, STATE, 1, WEIGHT)
    results, widths = ("dz", "dh_first"), (1, STATE)


class RnnReluScan(RnnTanhScan):
    """All h."""

    cell = CELLS["rnn_relu"]


class RnnReluScanGradient(RnnTanhScanGradient):
    """The gradients of z and of the first h."""

    cell = CELLS["rnn_relu"]
