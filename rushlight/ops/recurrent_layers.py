"""A recurrent layer in one direction, over all steps of its sequences, as one op."""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.kernels import recurrent as kernels
from rushlight.kernels.cells import CELLS, Blocks, Cell, split
from rushlight.ops import recurrent_scans  # noqa: F401 - registers the loops
from rushlight.ops.base import ops, registry
from rushlight.ops.channels_last import stored
from rushlight.ops.contraction import mixed
from rushlight.ops.fused import Fused, single
from rushlight.ops.programs import Programs, compilable
from rushlight.tensor import Tensor, wrap

Weights = Sequence[Tensor | None]

LARGE = 1 << 12  # elements of all gates from which on a program is quicker than NumPy


KINDS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})  # of loops in native code


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
        return (x, *states, *weights), attrs

    def check_dtype(self, x: Tensor) -> None:
        """An error for integers, if states of them would not be integers."""
        if self.refusal and x._array.dtype.kind in "biu":
            raise RuntimeError(f"{self.refusal} {x.dtype.storage_name}")

    def eager(self, *operands, steps, sizes, reverse):
        given = self.bound([*map(single, operands)])
        z = kernels.products(given.x, given.w_ih, self.bias(given))
        spans = kernels.spans(listed(sizes, steps, given), reverse)
        found = kernels.forward(self.cell, z, given.states, self.weights(given), spans)
        results = (found.y, *found.last, *found.before, *found.kept)
        return self.rounded(results, operands[0].dtype)

    def weights(self, given: Operands) -> kernels.Weights:
        return kernels.Weights(given.w_hh, given.b_hh if self.bias_within else None, given.w_hr)

    def rounded(self, results: Sequence[Any], kind: np.dtype) -> tuple[Any, ...]:
        """The results, of which users get to see the first ones: those are of the inputs' dtype."""
        public = 1 + self.states
        shown = [array.astype(kind, copy=False) for array in results[:public]]
        return (*shown, *results[public:])

    def gradient(self, wanted, g, y, *operands, steps, sizes, reverse):
        given, (dy, *last) = self.bound(operands), g
        spans = kernels.spans(listed(sizes, steps, given), reverse)
        read = [y[k] for k in self.reads]
        found = kernels.backward(self.cell, dy, last, read, self.weights(given), spans)
        makers = self.makers(given, found.blocks, found.first, y[1 + self.states])
        makers["w_hr"] = lambda: found.y.T @ self.unprojected(y)
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
            "x": lambda: inner @ given.w_ih,
            "w_ih": lambda: inner.T @ given.x,
            "w_hh": lambda: outer.T @ before,
            "b_ih": lambda: inner.sum(0),
            "b_hh": lambda: outer.sum(0),
        }

    def decompose(self, *operands, steps, sizes, reverse):
        """The product of all inputs, and a loop over time for sequences of one length."""
        if not scannable(sizes, operands):
            return NotImplemented
        found = self.looped(*operands, steps=steps, reverse=reverse, recording=True)
        return self.results(found, operands[1].shape[0], reverse)

    def looped(self, *operands: Any, steps: int, reverse: bool, recording: bool) -> Any:
        """All results of the loop over time, or the outputs and the last states alone."""
        given = self.bound(operands)
        z = ops.linear(given.x, given.w_ih, self.bias(given))
        weights = [given.w_hh]
        if self.bias_within:
            none = given.b_hh is None
            weights.append(ops.zeros(len(given.w_hh), dtype=z.dtype) if none else given.b_hh)
        found = scan(self, "scan", z, *given.states, *weights, steps=steps, reverse=reverse)
        found = found if isinstance(found, tuple) else (found,)
        if recording:
            return found
        rows, (first, *others) = given.states[0].shape[0], found[: self.states]
        return (first, *[around(state, rows, reverse)[2] for state in others])

    def results(self, found: Sequence[Any], rows: int, reverse: bool) -> tuple[Any, ...]:
        """The results of the layer: those of the loop, tensors or arrays, cut into their parts."""
        before, after, last = zip(
            *[around(x, rows, reverse) for x in found[: self.states]], strict=True
        )
        return (after[0], *last, *before, *found[self.states :])

    def unrolled_gradient(self, wanted, g, y, *operands, steps, sizes, reverse):
        """The gradients, made with a loop over time."""
        if not scannable(sizes, operands):
            return NotImplemented
        given, read = self.bound(operands), [y[k] for k in self.reads]
        before = y[1 + self.states]
        return self.looped_back(wanted, g, read, given, before, steps=steps, reverse=reverse)

    def looped_back(
        self,
        wanted: Sequence[str],
        g: Sequence[Any],
        read: Sequence[Any],
        given: Operands,
        before: Any,
        **options: Any,
    ) -> tuple[Any, ...]:
        found = scan(self, "scan_gradient", *g, *read, given.w_hh, **options)
        first = len(found) - self.states
        makers = self.makers(given, found[:first], found[first:], before)
        return tuple([makers[name]() for name in wanted])

    def compiled(self, operands, attrs, recording):
        if not self.worth_compiling(operands, attrs):
            return NotImplemented
        rows, reverse = operands[1]._array.shape[0], attrs["reverse"]
        options = {"steps": attrs["steps"], "reverse": reverse, "recording": recording}
        tensors, restored = bare(operands)

        def function(*tensors: Tensor) -> Any:
            return self.looped(*restored(tensors), **options)

        function.__qualname__ = self.name  # what profiles call it
        run = self.programs.find(kind_of(operands, recording, attrs), function)
        if run is None:
            return NotImplemented
        found = [t._array for t in run(*tensors)]
        if recording:
            results = self.results(found, rows, reverse)
        else:
            _, y, last = around(found[0], rows, reverse)
            results = (y, last, *found[1:])
        return tuple([wrap(array) for array in self.rounded(results, operands[0]._array.dtype)])

    def compiled_gradient(self, wanted, g, y, operands, attrs):
        if not self.worth_compiling(operands, attrs):
            return NotImplemented
        options = {"steps": attrs["steps"], "reverse": attrs["reverse"]}
        given, read = self.bound(operands), [y[k] for k in self.reads]
        weights = [given.x, given.w_ih, given.w_hh, y[1 + self.states]]
        tensors, restored = bare([*g, *read, *weights])

        def function(*tensors: Tensor) -> Any:
            *front, x, w_ih, w_hh, before = restored(tensors)
            inside = Operands(x, (), w_ih, w_hh)
            g, read = front[: 1 + self.states], front[1 + self.states :]
            return self.looped_back(wanted, g, read, inside, before, **options)

        function.__qualname__ = f"gradient of {self.name}"
        run = self.programs.find(kind_of(operands, wanted, attrs), function)
        return NotImplemented if run is None else run(*tensors)

    def worth_compiling(self, operands: Sequence[Any], attrs: dict[str, Any]) -> bool:
        """Whether a program does it, and does it sooner than NumPy."""
        x, w_hh = operands[0]._array, operands[2 + self.states]._array
        if len(x) * len(w_hh) < LARGE or attrs["steps"] == 1 or not compilable():
            return False
        return scannable(attrs["sizes"], operands, KINDS | dtypes.HALF)

    @functools.cached_property
    def programs(self) -> Programs:
        return Programs()

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


def scannable(sizes: Any, operands: Sequence[Tensor | None], kinds: Container[Any] = KINDS) -> bool:
    """Whether a loop of native code does it: sequences of one length, no projection."""
    if sizes is not None or (len(operands) == 8 and operands[-1] is not None):
        return False
    given = [t._array for t in operands if t is not None]
    return all([array.size and array.dtype in kinds for array in given])


def kind_of(operands: Sequence[Tensor | None], result: Any, attrs: dict[str, Any]) -> Any:
    """What a program is made for: the operands, what is wanted, and how."""
    shapes = [None if t is None else t._array.shape for t in operands]
    dtype = operands[0]._array.dtype  # type: ignore[union-attr]
    return (dtype, *shapes, result, attrs["steps"], attrs["reverse"])


def bare(tensors: Sequence[Tensor | None]) -> tuple[list[Tensor], Any]:
    """Those that are there, in the dtype that is computed with; and what puts None between them."""
    present = [t is not None for t in tensors]

    def restored(others: Sequence[Tensor]) -> list[Tensor | None]:
        rest = iter(others)
        return [next(rest) if there else None for there in present]

    return [wrap(single(t._array)) for t in tensors if t is not None], restored


def same(x: Any) -> Any:
    return x


def around(states: Any, rows: int, reverse: bool) -> tuple[Any, Any, Any]:
    """The states before and after each step, and the last one."""
    early, late = states[:-rows], states[rows:]
    return (late, early, states[:rows]) if reverse else (early, late, states[-rows:])


def added(a: Any, b: Any) -> Any:
    """The sum of two arrays of which either may be None."""
    return b if a is None else a if b is None else a + b


def scan(layer: Any, what: str, *operands: Tensor, **attrs: Any) -> Any:
    """The loop over time of a layer, or of its gradient."""
    first = [stored(t) for t in operands[: 1 + layer.states]]  # which may be views of anything
    op = registry[layer.name.replace("layer", what)]
    return op.call(*first, *operands[1 + layer.states :], **attrs)


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
