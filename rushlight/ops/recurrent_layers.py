"""A recurrent layer in one direction, over all steps of its sequences, as one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import recurrent as kernels
from rushlight.ops.base import ops, registry
from rushlight.ops.contraction import mixed
from rushlight.ops.fused import Fused, single
from rushlight.tensor import Tensor

Spans = kernels.Spans
Weights = Sequence[Tensor | None]


class RecurrentLayer(Fused, abstract=True):
    """One layer in one direction: from inputs (rows, features) and first states to all outputs.

    ``sizes`` says how many rows each step has, one for each sequence that takes part in it. The
    results are the outputs, the last states, and what ``backward`` reads.
    """

    operands: tuple[str, ...] = ("x", "h", "w_ih", "w_hh", "b_ih", "b_hh")
    differentiable: tuple[int, ...] = (0, 1)
    states = 1

    def forward(self, steps: Spans, *operands: Any) -> tuple[np.ndarray, ...]:
        """The kernel."""
        raise NotImplementedError

    def backward(self, steps: Spans, g: Any, y: Any, *operands: Any) -> Any:
        """The gradients of (W x + b) and (W h + b), all h, and makers of the other gradients."""
        raise NotImplementedError

    def step(self, x: Tensor, *operands: Any) -> tuple[Tensor, ...]:
        """One step, made with ops: the next states."""
        raise NotImplementedError

    def check(self, x: Tensor, states: Any, weights: Any, **attrs: Any) -> Any:
        w_ih, w_hh = weights[:2]
        for name, t in (("input", x), *[("hx", state) for state in states]):
            if t._array.ndim != 2:
                raise RuntimeError(f"{name} must have 2 dimensions, got {t._array.ndim}")
        for t in (*states, *weights):
            if t is not None and t._array.dtype is not x._array.dtype:
                raise mixed(self.name.removesuffix("_layer"), x._array, t._array)
        if x.shape[1] != w_ih.shape[1]:
            raise RuntimeError(
                f"input has inconsistent input_size: got {x.shape[1]} expected {w_ih.shape[1]}"
            )
        sizes = [w_hh.shape[1], w_hh.shape[0] // 4]
        for k, (state, size) in enumerate(zip(states, sizes, strict=False)):
            if state.shape[0] != attrs["sizes"][0]:
                raise RuntimeError(
                    f"Input batch size {attrs['sizes'][0]} doesn't match hidden{k} batch size "
                    f"{state.shape[0]}"
                )
            if state.shape[1] != size:
                raise RuntimeError(
                    f"hidden{k} has inconsistent hidden_size: got {state.shape[1]}, expected {size}"
                )
        return (x, *states, *weights), attrs

    def eager(self, *operands, sizes, reverse):
        results = self.forward(kernels.spans(sizes, reverse), *map(single, operands))
        kind = operands[0].dtype
        if kind in dtypes.HALF:
            public = [r.astype(kind) for r in results[: 1 + self.states]]
            return (*public, *results[1 + self.states :])
        return results

    def gradient(self, wanted, g, y, *operands, sizes, reverse):
        steps = kernels.spans(sizes, reverse)
        inner, outer, before, makers = self.backward(steps, g, y, *operands)
        x, w_ih = operands[0], operands[1 + self.states]
        makers |= {
            "x": lambda: inner.dot(w_ih),
            "w_ih": lambda: inner.T.dot(x),
            "w_hh": lambda: outer.T.dot(before),
            "b_ih": lambda: np.add.reduce(inner, 0),
            "b_hh": lambda: np.add.reduce(outer, 0),
        }
        return [makers[name]() for name in wanted]

    def formula(self, x, *operands, sizes, reverse):
        states, weights = list(operands[: self.states]), operands[self.states :]
        outputs: list[Any] = list(x.split(sizes))
        steps = reversed(range(len(sizes))) if reverse else range(len(sizes))
        for t in steps:
            n = sizes[t]
            after = self.step(outputs[t], *[s[:n] for s in states], *weights)
            outputs[t] = after[0]
            states = [ops.cat((new, old[n:])) for new, old in zip(after, states, strict=True)]
        return (ops.cat(outputs), *states)


def added(a: Any, b: Any) -> Any:
    """The sum of two arrays of which either may be None."""
    return b if a is None else a if b is None else a + b


class RnnTanhLayer(RecurrentLayer):
    """h' = tanh(W x + b + W h + b)."""

    relu = False

    def forward(self, steps, x, h, w_ih, w_hh, b_ih, b_hh):
        return kernels.rnn(x, h, w_ih, w_hh, added(b_ih, b_hh), steps, self.relu)

    def backward(self, steps, g, y, x, h, w_ih, w_hh, b_ih, b_hh):
        dy, dh = g
        dz, dh = kernels.rnn_gradient(dy, dh, y[0], w_hh, steps, self.relu)
        return dz, dz, y[2], {"h": lambda: dh}

    def step(self, x, h, w_ih, w_hh, b_ih, b_hh):
        z = ops.linear(x, w_ih, b_ih) + ops.linear(h, w_hh, b_hh)
        return (z.relu() if self.relu else z.tanh(),)


class RnnReluLayer(RnnTanhLayer):
    """h' = relu(W x + b + W h + b)."""

    relu = True


class LstmLayer(RecurrentLayer):
    """i, f, g, o = σ, σ, tanh, σ of W x + b + W h + b;  c' = f c + i g;  h' = o tanh(c').

    With ``w_hr`` the state h' is multiplied by it.
    """

    operands = ("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr")
    differentiable = (0, 1, 2)
    states = 2

    def forward(self, steps, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr):
        return kernels.lstm(x, h, c, w_ih, w_hh, added(b_ih, b_hh), w_hr, steps)

    def backward(self, steps, g, y, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr):
        dy, dh, dc = g
        _, _, _, gates, new, tanh_c, before, c_before = y
        saved = (gates, new, tanh_c, c_before)
        dz, dh, dc, dr = kernels.lstm_gradient(dy, dh, dc, *saved, w_hh, w_hr, steps)
        o = kernels.split(gates, 4)[3]
        makers = {"h": lambda: dh, "c": lambda: dc, "w_hr": lambda: dr.T.dot(o * tanh_c)}
        return dz, dz, before, makers

    def step(self, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr):
        z = ops.linear(x, w_ih, b_ih) + ops.linear(h, w_hh, b_hh)
        i, f, g, o = z.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h if w_hr is None else ops.linear(h, w_hr), c


class GruLayer(RecurrentLayer):
    """r, z = σ of W x + b + W h + b;  n = tanh(W x + b + r (W h + b));  h' = (1 - z) n + z h."""

    def forward(self, steps, x, h, w_ih, w_hh, b_ih, b_hh):
        return kernels.gru(x, h, w_ih, w_hh, b_ih, b_hh, steps)

    def backward(self, steps, g, y, x, h, w_ih, w_hh, b_ih, b_hh):
        dy, dh = g
        _, _, gates, new, inner, before = y
        dx, dz, dh = kernels.gru_gradient(dy, dh, gates, new, inner, before, w_hh, steps)
        return dx, dz, before, {"h": lambda: dh}

    def step(self, x, h, w_ih, w_hh, b_ih, b_hh):
        r, z, n = ops.linear(x, w_ih, b_ih).chunk(3, 1)
        hr, hz, hn = ops.linear(h, w_hh, b_hh).chunk(3, 1)
        n = (n + (r + hr).sigmoid() * hn).tanh()
        return (n + (z + hz).sigmoid() * (h - n),)


RNN_TANH, RNN_RELU = registry["rnn_tanh_layer"], registry["rnn_relu_layer"]
LSTM, GRU = registry["lstm_layer"], registry["gru_layer"]
