"""A recurrent layer in one direction, over all steps of its sequences, as one op."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rushlight.dims import is_zero
from rushlight.kernels import recurrent as kernels
from rushlight.kernels.cells import CELLS, Blocks, Cell, split
from rushlight.ops import recurrent_scans  # noqa: F401 - registers the loops
from rushlight.ops.base import ops, registry
from rushlight.ops.channels_last import stored
from rushlight.ops.contraction import mixed, times
from rushlight.ops.fused import Fused, single
from rushlight.ops.programs import compilable
from rushlight.tensor import Tensor, wrap

Weights = Sequence[Tensor | None]

LARGE, LONG = 1 << 12, 64
"""Elements of all gates, or gates of all steps, from which on native code is quicker than NumPy."""
KINDS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})  # of loops in native code


class Loops:
    """Where this layer finds native loops, which are made of later ones; set by the package."""

    load: Callable[[], Any]


class Operands(NamedTuple):
    """The operands of a layer, tensors or arrays."""

    x: Any
    states: tuple[Any, ...]
    w_ih: Any
    w_hh: Any
    b_ih: Any = None
    b_hh: Any = None
    w_hr: Any = None


class RecurrentLayer(Fused, abstract=True):
    """One layer in one direction: from inputs (rows, features) and first states to all outputs.

    ``sizes`` says how many rows each of the ``steps`` has, one for each sequence that takes part in
    it, or is None if all have as many. The results are the outputs, the last states, all states
    before steps, and what the cell keeps.
    """

    cell: Cell
    reads: tuple[int, ...]  # the results that the gradient of the cell reads
    refusal = "result type Float can't be cast to the desired output type"  # of integers
    bias_within = False  # whether the bias of states is added to their own contribution
    operands: tuple[str, ...] = ("x", "h", "w_ih", "w_hh", "b_ih", "b_hh")
    differentiable: tuple[int, ...] = (0, 1)
    states = 1

    def bound(self, operands: Sequence[Any]) -> Operands:
        """The operands by their names."""
        end = 1 + self.states
        return Operands(operands[0], tuple(operands[1:end]), *operands[end:])

    def bias(self, given: Operands) -> Any:
        """What is added to the contributions of inputs."""
        return added(given.b_ih, None if self.bias_within else given.b_hh)

    def check(self, x: Tensor, states: Any, weights: Any, **attrs: Any) -> Any:
        w_ih, w_hh = weights[:2]
        for name, t in (("input", x), *[("hx", state) for state in states]):
            if t._array.ndim != 2:
                raise RuntimeError(f"{name} must have 2 dimensions, got {t._array.ndim}")
        for t in (*states, *weights):
            if t is not None and t._array.dtype is not x._array.dtype:
                raise mixed(self.name.removesuffix("_layer"), x._array, t._array)
        self.check_dtype(x)
        if x.shape[1] != w_ih.shape[1]:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[1]} expected {w_ih.shape[1]}"
            )
        batch = attrs["sizes"][0] if attrs["sizes"] else x.shape[0] // attrs["steps"]
        widths = [w_hh.shape[1], w_hh.shape[0] // 4]
        for k, (state, size) in enumerate(zip(states, widths, strict=False)):
            if state.shape[0] != batch:
                raise RuntimeError(
                    f"Input batch size {batch} doesn't match hidden{k} batch size {state.shape[0]}"
                )
            if state.shape[1] != size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {state.shape[1]}, expected {size}"
                )
        gates, hidden = self.cell.gates, states[-1].shape[1]
        for name, w in (("weight_ih", w_ih), ("weight_hh", w_hh)):
            if w.shape[0] != gates * hidden:
                raise RuntimeError(
                    f"{name} first dim must be {gates} * hidden_size = {gates * hidden}, but got "
                    f"{w.shape[0]}"
                )
        return (x, *states, *weights), attrs

    def check_dtype(self, x: Tensor) -> None:
        """An error for integers, if states of them would not be integers."""
        if self.refusal and x._array.dtype.kind in "biu":
            raise RuntimeError(f"{self.refusal} {x.dtype.storage_name}")

    def eager(self, *operands, steps, sizes, reverse):
        found = self.forward(operands, steps, sizes, reverse, True)
        return (found.y, *found.last, *found.before, *found.kept)

    def unrecorded(self, operands, attrs):
        if not compilable():
            return NotImplemented
        arrays = [None if t is None else t._array for t in operands]
        found = self.forward(arrays, **attrs, recording=False)
        return tuple([wrap(array) for array in (found.y, *found.last)])

    def forward(
        self, operands: Sequence[Any], steps: int, sizes: Any, reverse: bool, recording: bool
    ) -> kernels.Forward:
        """All steps; what only a gradient reads may be left out unless recording."""
        given = self.bound([*map(single, operands)])
        z = registry["nn.functional.linear"].eager(given.x, given.w_ih, self.bias(given))
        rows, found = listed(sizes, steps, given), None
        if self.is_native(z, given, rows):
            call = scan_of(self, "scan"), z, given.states, self.weights(given), np.array(rows)
            found = Loops.load().forward(*call, reverse, recording)
        if found is None:
            spans = kernels.spans(rows, reverse)
            found = kernels.forward(self.cell, z, given.states, self.weights(given), spans)
        kind = operands[0].dtype  # that of what users get to see
        last = [state.astype(kind, copy=False) for state in found.last]
        return found._replace(y=found.y.astype(kind, copy=False), last=last)

    def is_native(self, z: Any, given: Operands, rows: Sequence[int]) -> bool:
        """Whether native code runs through all steps sooner than NumPy."""
        few = z.size < LARGE and len(rows) * self.cell.gates < LONG
        if few or len(rows) == 1 or not compilable():
            return False
        full = given.x.size and given.w_hh.size and falling(rows, z)
        return z.dtype in KINDS and bool(full)

    def weights(self, given: Operands) -> kernels.Weights:
        return kernels.Weights(given.w_hh, given.b_hh if self.bias_within else None, given.w_hr)

    def gradient(self, wanted, g, y, *operands, steps, sizes, reverse):
        given, (dy, *last) = self.bound(operands), g
        read, weights = [y[k] for k in self.reads], self.weights(given)
        rows, found = listed(sizes, steps, given), None
        if self.is_native(y[self.reads[0]], given, rows):
            call = scan_of(self, "scan_gradient"), dy, last, read, weights, np.array(rows)
            found = Loops.load().backward(*call, reverse)
        if found is None:
            spans = kernels.spans(rows, reverse)
            found = kernels.backward(self.cell, dy, last, read, weights, spans)
        makers = self.makers(given, found.blocks, found.first, y[1 + self.states])
        makers["w_hr"] = lambda: times(found.y.T, self.unprojected(y))
        return [makers[name]() for name in wanted]

    def unprojected(self, y: Sequence[Any]) -> Any:
        """All h before they were multiplied by ``w_hr``."""
        raise NotImplementedError

    def makers(
        self, given: Operands, blocks: Sequence[Any], first: Sequence[Any], before: Any
    ) -> dict[str, Any]:
        """How to make each gradient from those of blocks and of first states."""
        inner, outer = blocks[0], blocks[-1]
        states = zip(self.operands[1:], first, strict=False)
        return {name: functools.partial(same, array) for name, array in states} | {
            "x": lambda: times(inner, given.w_ih),
            "w_ih": lambda: times(inner.T, given.x),
            "w_hh": lambda: times(outer.T, before),
            "b_ih": lambda: inner.sum(0),
            "b_hh": lambda: outer.sum(0),
        }

    def decompose(self, *operands, steps, sizes, reverse):
        """The product of all inputs, and a loop over time for sequences of one length."""
        if not scannable(sizes, operands):
            return NotImplemented
        given = self.bound(operands)
        z = ops.linear(given.x, given.w_ih, self.bias(given))
        weights = [given.w_hh]
        if self.bias_within:
            none = given.b_hh is None
            weights.append(ops.zeros(len(given.w_hh), dtype=z.dtype) if none else given.b_hh)
        found = scan(self, "scan", z, *given.states, *weights, steps=steps, reverse=reverse)
        found = found if isinstance(found, tuple) else (found,)
        rows, states = operands[1].shape[0], found[: self.states]
        before, after, last = zip(*[around(x, rows, reverse) for x in states], strict=True)
        return (after[0], *last, *before, *found[self.states :])

    def unrolled_gradient(self, wanted, g, y, *operands, steps, sizes, reverse):
        """The gradients, made with a loop over time."""
        if not scannable(sizes, operands):
            return NotImplemented
        given, read = self.bound(operands), [y[k] for k in self.reads]
        options = {"steps": steps, "reverse": reverse}
        found = scan(self, "scan_gradient", *g, *read, given.w_hh, **options)
        first = len(found) - self.states
        makers = self.makers(given, found[:first], found[first:], y[1 + self.states])
        return tuple([makers[name]() for name in wanted])

    def step(self, x: Tensor, *operands: Any) -> tuple[Tensor, ...]:
        """One step, made with ops: the next states."""
        given = self.bound((x, *operands))
        z = ops.linear(x, given.w_ih, given.b_ih)
        product = ops.linear(given.states[0], given.w_hh, given.b_hh)
        blocks = [Blocks(t.chunk(self.cell.gates, 1)) for t in (z, product)]
        (h, *others), _ = self.cell.forward(ops, *blocks, *given.states)
        return (h if given.w_hr is None else ops.linear(h, given.w_hr), *others)

    def formula(self, x, *operands, steps, sizes, reverse):
        states, weights = list(operands[: self.states]), operands[self.states :]
        rows = listed(sizes, steps, self.bound((x, *operands)))
        outputs: list[Any] = list(x.split(rows))
        for t in reversed(range(steps)) if reverse else range(steps):
            n = rows[t]
            after = self.step(outputs[t], *[s[:n] for s in states], *weights)
            outputs[t] = after[0]
            states = [ops.cat((new, old[n:])) for new, old in zip(after, states, strict=True)]
        return (ops.cat(outputs), *states)


def listed(sizes: tuple[int, ...] | None, steps: int, given: Operands) -> tuple[int, ...]:
    """How many rows each step has."""
    return (given.states[0].shape[0],) * steps if sizes is None else sizes


def falling(rows: Sequence[int], z: Any) -> bool:
    """Whether these are the sizes of packed sequences: none is larger than the one before it."""
    return rows[-1] > 0 and sum(rows) == len(z) and all([a >= b for a, b in pairwise(rows)])


def scannable(sizes: Any, operands: Sequence[Tensor | None]) -> bool:
    """Whether graphs hold a loop of native code: sequences of one length, no projection."""
    if sizes is not None or (len(operands) == 8 and operands[-1] is not None):
        return False
    given = [t._array for t in operands if t is not None]
    return all([array.dtype in KINDS and not is_zero(array.size) for array in given])


def same(x: Any) -> Any:
    return x


def around(states: Any, rows: int, reverse: bool) -> tuple[Any, Any, Any]:
    """The states before and after each step, and the last one."""
    end = states.shape[0] - rows
    early, late = states[:end], states[rows:]
    return (late, early, states[:rows]) if reverse else (early, late, states[end:])


def added(a: Any, b: Any) -> Any:
    """The sum of two arrays of which either may be None."""
    return b if a is None else a if b is None else a + b


def scan(layer: Any, what: str, *operands: Tensor, **attrs: Any) -> Any:
    """The loop over time of a layer, or of its gradient."""
    first = [stored(t) for t in operands[: 1 + layer.states]]  # which may be views of anything
    return scan_of(layer, what).call(*first, *operands[1 + layer.states :], **attrs)


def scan_of(layer: Any, what: str) -> Any:
    """The op that is the loop over time of a layer, or of its gradient."""
    return registry[layer.name.replace("layer", what)]


class RnnTanhLayer(RecurrentLayer):
    """h' = tanh(W x + b + W h + b)."""

    cell, reads = CELLS["rnn_tanh"], (0,)
    refusal = "mat1 and mat2 must have the same dtype, but got Float and"


class RnnReluLayer(RecurrentLayer):
    """h' = relu(W x + b + W h + b)."""

    cell, reads = CELLS["rnn_relu"], (0,)
    refusal = ""


class LstmLayer(RecurrentLayer):
    """i, f, g, o = σ, σ, tanh, σ of W x + b + W h + b;  c' = f c + i g;  h' = o tanh(c').

    With ``w_hr`` the state h' is multiplied by it.
    """

    cell, reads = CELLS["lstm"], (5, 6, 4)
    operands = ("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr")
    differentiable = (0, 1, 2)
    states = 2

    def unprojected(self, y):
        return split(y[5], y[6].shape[1])[3] * y[6]


class GruLayer(RecurrentLayer):
    """r, z = σ of W x + b + W h + b;  n = tanh(W x + b + r (W h + b));  h' = (1 - z) n + z h."""

    cell, reads = CELLS["gru"], (3, 4, 2)
    bias_within = True


RNN_TANH, RNN_RELU = registry["rnn_tanh_layer"], registry["rnn_relu_layer"]
LSTM, GRU = registry["lstm_layer"], registry["gru_layer"]
