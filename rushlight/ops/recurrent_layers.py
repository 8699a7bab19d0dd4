"""A recurrent layer in one direction, over all steps of its sequences, as one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.kernels import recurrent as kernels
from rushlight.ops import recurrent_scans  # noqa: F401 - registers the loops
from rushlight.ops.base import ops, registry
from rushlight.ops.channels_last import stored
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

    def decompose(self, *operands, sizes, reverse):
        """The product of all inputs, and a loop over time for sequences of one length."""
        if not scannable(sizes, *[t for t in operands if t is not None]):
            return NotImplemented
        return self.scanned(*operands, steps=len(sizes), reverse=reverse)

    def scanned(self, *operands: Any, steps: int, reverse: bool) -> Any:
        """The results, made with a scan."""
        raise NotImplementedError

    def unrolled_gradient(self, wanted, g, y, *operands, sizes, reverse):
        """The gradients, made with a scan."""
        if not scannable(sizes, *[t for t in operands if t is not None]) or "w_hr" in wanted:
            return NotImplemented
        inner, outer, before, makers = self.scanned_gradient(
            g, y, *operands, steps=len(sizes), reverse=reverse
        )
        x, w_ih = operands[0], operands[1 + self.states]
        makers |= {
            "x": lambda: inner @ w_ih,
            "w_ih": lambda: inner.T @ x,
            "w_hh": lambda: outer.T @ before,
            "b_ih": lambda: inner.sum(0),
            "b_hh": lambda: outer.sum(0),
        }
        return tuple([makers[name]() for name in wanted])

    def scanned_gradient(self, g: Any, y: Any, *operands: Any, steps: int, reverse: bool) -> Any:
        """As :meth:`backward`, made with a scan."""
        raise NotImplementedError

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


def scannable(sizes: Sequence[int], *operands: Tensor) -> bool:
    """Whether a scan does it: sequences of one length, of a common dtype."""
    kinds = (np.dtype(np.float32), np.dtype(np.float64))
    filled = all([t._array.dtype in kinds and t._array.size for t in operands])
    return filled and len(set(sizes)) == 1


def around(states: Tensor, rows: int, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The states before and after each step, and the last one."""
    early, late = states[:-rows], states[rows:]
    return (late, early, states[:rows]) if reverse else (early, late, states[-rows:])


def added(a: Any, b: Any) -> Any:
    """The sum of two arrays of which either may be None."""
    return b if a is None else a if b is None else a + b


def scan(layer: Any, *operands: Tensor, gradient: bool = False, **attrs: Any) -> Any:
    """The loop over time of a layer, or of its gradient."""
    name = layer.name.removesuffix("_layer") + ("_scan_gradient" if gradient else "_scan")
    first = [stored(t) for t in operands[: 1 + layer.states]]  # which may be views of anything
    return registry[name].call(*first, *operands[1 + layer.states :], **attrs)


def begun(rows: Tensor, late: bool) -> Tensor:
    """Rows of states as an operand of a scan: ``late`` ones begin within their memory."""
    return stored(rows) if late else rows


class RnnTanhLayer(RecurrentLayer):
    """h' = tanh(W x + b + W h + b)."""

    relu = False

    def forward(self, steps, x, h, w_ih, w_hh, b_ih, b_hh):
        return kernels.rnn(x, h, w_ih, w_hh, added(b_ih, b_hh), steps, self.relu)

    def backward(self, steps, g, y, x, h, w_ih, w_hh, b_ih, b_hh):
        dy, dh = g
        dz, dh = kernels.rnn_gradient(dy, dh, y[0], w_hh, steps, self.relu)
        return dz, dz, y[2], {"h": lambda: dh}

    def scanned(self, x, h, w_ih, w_hh, b_ih, b_hh, *, steps, reverse):
        z = ops.linear(x, w_ih, added(b_ih, b_hh))
        hs = scan(self, z, h, w_hh, steps=steps, reverse=reverse)
        before, y, last = around(hs, len(h), reverse)
        return y, last, before

    def scanned_gradient(self, g, y, x, h, w_ih, w_hh, b_ih, b_hh, *, steps, reverse):
        dy, dh = g
        after = begun(y[0], not reverse)
        dz, dhs = scan(self, dy, dh, after, w_hh, gradient=True, steps=steps, reverse=reverse)
        first = around(dhs, len(h), not reverse)[2]
        return dz, dz, y[2], {"h": lambda: first}

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

    def scanned(self, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, *, steps, reverse):
        if w_hr is not None:
            return NotImplemented
        z = ops.linear(x, w_ih, added(b_ih, b_hh))
        hs, cs, gates, tanh = scan(self, z, h, c, w_hh, steps=steps, reverse=reverse)
        before, y, last = around(hs, len(h), reverse)
        c_before, _, c_last = around(cs, len(h), reverse)
        return y, last, c_last, gates, gates.chunk(4, 1)[2], tanh, before, c_before

    def scanned_gradient(self, g, y, x, h, c, w_ih, w_hh, b_ih, b_hh, w_hr, *, steps, reverse):
        dy, dh, dc = g
        _, _, _, gates, _, tanh, before, c_before = y
        operands = (dy, dh, dc, gates, tanh, begun(c_before, reverse), w_hh)
        dz, dhs, dcs = scan(self, *operands, gradient=True, steps=steps, reverse=reverse)
        first, c_first = [around(d, len(h), not reverse)[2] for d in (dhs, dcs)]
        return dz, dz, before, {"h": lambda: first, "c": lambda: c_first}

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

    def scanned(self, x, h, w_ih, w_hh, b_ih, b_hh, *, steps, reverse):
        z = ops.linear(x, w_ih, b_ih)
        bias = ops.zeros(len(w_hh), dtype=x.dtype) if b_hh is None else b_hh
        hs, gates, inner = scan(self, z, h, w_hh, bias, steps=steps, reverse=reverse)
        before, y, last = around(hs, len(h), reverse)
        return y, last, gates, gates.chunk(3, 1)[2], inner, before

    def scanned_gradient(self, g, y, x, h, w_ih, w_hh, b_ih, b_hh, *, steps, reverse):
        dy, dh = g
        _, _, gates, _, inner, before = y
        operands = (dy, dh, gates, inner, begun(before, reverse), w_hh)
        dx, dz, dhs = scan(self, *operands, gradient=True, steps=steps, reverse=reverse)
        first = around(dhs, len(h), not reverse)[2]
        return dx, dz, before, {"h": lambda: first}

    def step(self, x, h, w_ih, w_hh, b_ih, b_hh):
        r, z, n = ops.linear(x, w_ih, b_ih).chunk(3, 1)
        hr, hz, hn = ops.linear(h, w_hh, b_hh).chunk(3, 1)
        n = (n + (r + hr).sigmoid() * hn).tanh()
        return (n + (z + hz).sigmoid() * (h - n),)


RNN_TANH, RNN_RELU = registry["rnn_tanh_layer"], registry["rnn_relu_layer"]
LSTM, GRU = registry["lstm_layer"], registry["gru_layer"]
