"""Recurrent layers: RNN, LSTM and GRU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rushlight import control, dtypes
from rushlight.nn import functional as F
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.registry import op
from rushlight.ops import ops
from rushlight.tensor import Tensor

Step = Callable[[Any, Tensor], Any]  # states and x Wᵀ + b → the next states


class Activation(NamedTuple):
    """A function of x and of up to two numbers, which have defaults."""

    function: Callable[[Tensor, Any, Any], Tensor]
    alpha: float | None = None
    beta: float | None = None


ACTIVATIONS = {
    "relu": Activation(lambda x, a, b: ops.relu(x)),
    "tanh": Activation(lambda x, a, b: ops.tanh(x)),
    "sigmoid": Activation(lambda x, a, b: ops.sigmoid(x)),
    "softsign": Activation(lambda x, a, b: F.softsign(x)),
    "softplus": Activation(lambda x, a, b: F.softplus(x)),
    "elu": Activation(lambda x, a, b: F.elu(x, a), 1.0),
    "leakyrelu": Activation(lambda x, a, b: F.leaky_relu(x, a), 0.01),
    "thresholdedrelu": Activation(lambda x, a, b: F.threshold(x, a, 0.0), 1.0),
    "affine": Activation(lambda x, a, b: a * x + b, 1.0, 0.0),
    "scaledtanh": Activation(lambda x, a, b: a * ops.tanh(b * x), 1.0, 1.0),
    "hardsigmoid": Activation(lambda x, a, b: ops.clamp(a * x + b, 0, 1), 0.2, 0.5),
}


class Layer:
    """What the three layers have in common: directions, activations, lengths and layout."""

    def __init__(
        self,
        x: Tensor,
        sequence_lens: Tensor | None,
        defaults: Sequence[str],
        *,
        hidden_size: int,
        activation_alpha: Sequence[float] = (),
        activation_beta: Sequence[float] = (),
        activations: Sequence[str] | None = None,
        clip: float | None = None,
        direction: str = "forward",
        layout: int = 0,
        output_sequence: int = 0,
    ) -> None:
        self.layout, self.clip = layout, clip
        self.x = x.transpose(0, 1) if layout else x  # time, batch, features
        self.size = hidden_size
        if direction not in ("forward", "reverse", "bidirectional"):
            raise OnnxError(f"the direction {direction!r} is unknown")
        self.backwards = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
        self.lens = None if sequence_lens is None else sequence_lens.to(dtypes.int64)
        usual = [name.lower() for name in defaults] * len(self.backwards)
        names = [name.lower() for name in activations or usual]
        alphas, betas = iter(activation_alpha), iter(activation_beta)
        self.functions = [self.activation(name, alphas, betas) for name in names]
        self.plain = clip is None and self.lens is None and names == usual

    def activation(self, name: str, alphas: Any, betas: Any) -> Callable[[Tensor], Tensor]:
        """A function by its name; those with parameters take the next of each list."""
        if name not in ACTIVATIONS:
            raise OnnxError(f"the activation {name!r} is not supported")
        function, alpha, beta = ACTIVATIONS[name]
        a = None if alpha is None else next(alphas, alpha)
        b = None if beta is None else next(betas, beta)
        return lambda x: function(self.clipped(x), a, b)

    def clipped(self, x: Tensor) -> Tensor:
        return x if self.clip is None else ops.clamp(x, -self.clip, self.clip)

    def start(self, given: Tensor | None, i: int) -> Tensor:
        """The first state of direction ``i``."""
        if given is None:
            return ops.zeros((self.x.shape[1], self.size), dtype=self.x.dtype)
        return given[:, i] if self.layout else given[i]

    def sweep(
        self, direction: Callable[[int], tuple[Tensor, Step]], *first: Tensor | None
    ) -> tuple[Tensor, ...]:
        """All directions; each says what enters its gates, and how it steps."""
        ys, lasts = [], []
        for i in range(len(self.backwards)):
            gates, step = direction(i)
            y, last = self.run(i, gates, tuple([self.start(state, i) for state in first]), step)
            ys.append(y)
            lasts.append(last)
        return self.results(ys, *zip(*lasts, strict=True))

    def run(self, i: int, gates: Tensor, first: Any, step: Step) -> tuple[Tensor, Any]:
        """All outputs and the last states of direction ``i``; ``gates`` has a row a time step."""
        back = self.backwards[i]
        if self.lens is None:

            def body(states: Any, row: Tensor) -> Any:
                states = step(states, row)
                return states, states[0]

            last, ys = control.scan(body, first, gates, reverse=bool(back))
            return ys, last
        gates = self.reversed(gates) if back else gates
        alive = ops.arange(len(gates))[:, None, None] < self.lens[:, None]

        def masked(states: Any, row: Any) -> Any:
            gate, on = row
            after = [
                ops.where(on, new, old) for new, old in zip(step(states, gate), states, strict=True)
            ]
            return tuple(after), ops.where(on, after[0], 0.0)

        last, ys = control.scan(masked, first, (gates, alive))
        return self.reversed(ys) if back else ys, last

    def reversed(self, x: Tensor) -> Tensor:
        """Each sequence backwards, as far as it is long."""
        assert self.lens is not None
        time = ops.arange(len(x))[:, None]
        places = ops.where(time < self.lens, self.lens - 1 - time, time)
        return ops.gather(x, 0, places[:, :, None].expand(x.shape))

    def results(self, ys: Sequence[Tensor], *lasts: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Outputs and last states of all directions, in the layout that is asked for."""
        y = ops.stack(list(ys), 1)
        states = [ops.stack(list(last)) for last in lasts]
        if self.layout:
            return y.permute(2, 0, 1, 3), *[s.transpose(0, 1) for s in states]
        return y, *states

    def fused(self, kernel: Callable[..., Any], weights: Sequence[Any], *first: Any) -> Any:
        """All directions by one op of PyTorch's kind; ``weights`` are in its order already."""
        both = len(self.backwards) == 2
        back = self.backwards == [1]
        x = self.x.flip(0) if back else self.x
        states = [self.states(given) for given in first]
        y, *lasts = kernel(
            x, states[0] if len(states) == 1 else tuple(states), list(weights), True, 1, 0.0,
            False, both, False,
        )  # fmt: skip
        y = y.flip(0) if back else y
        parts = y.reshape(*y.shape[:2], len(self.backwards), self.size).unbind(2)
        return self.results(parts, *[last.unbind(0) for last in lasts])

    def states(self, given: Tensor | None) -> Tensor:
        """The first states of all directions."""
        if given is None:
            shape = (len(self.backwards), self.x.shape[1], self.size)
            return ops.zeros(shape, dtype=self.x.dtype)
        return given.transpose(0, 1) if self.layout else given


def reordered(w: Tensor, order: Sequence[int]) -> Tensor:
    """The gates of a weight or bias in another order."""
    parts = w.chunk(len(order))
    return ops.cat([parts[i] for i in order])


def weights_of(w: Tensor, r: Tensor, b: Tensor | None, order: Sequence[int]) -> list[Tensor]:
    """The weights of all directions as PyTorch's layers have them."""
    found = []
    for i in range(w.shape[0]):
        bias = ops.zeros(2 * w.shape[1], dtype=w.dtype) if b is None else b[i]
        found += [reordered(part, order) for part in (w[i], r[i], *bias.chunk(2))]
    return found


def biases(b: Tensor | None, i: int) -> tuple[Any, Any]:
    """The biases of the inputs and of the recurrence, in direction ``i``."""
    return (0.0, 0.0) if b is None else tuple(b[i].chunk(2))  # type: ignore[return-value]


@op("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    **options: Any,
) -> Any:
    layer = Layer(x, sequence_lens, ["Tanh"], **options)
    if layer.plain:
        return layer.fused(ops.rnn_tanh, weights_of(w, r, b, [0]), initial_h)

    def direction(i: int) -> tuple[Tensor, Step]:
        f = layer.functions[i]

        def step(states: Any, row: Tensor) -> Any:
            return (f(row + F.linear(states[0], r[i])),)

        return F.linear(layer.x, w[i]) + sum(biases(b, i)), step

    return layer.sweep(direction, initial_h)


@op("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    input_forget: int = 0,
    **options: Any,
) -> Any:
    """Gates are in the order input, output, forget, cell; ``p`` lets them look at the cell."""
    layer = Layer(x, sequence_lens, LSTM_DEFAULTS, **options)
    if layer.plain and p is None and not input_forget:
        weights = weights_of(w, r, b, [0, 2, 3, 1])
        return layer.fused(ops.lstm, weights, initial_h, initial_c)

    def direction(i: int) -> tuple[Tensor, Step]:
        gates = F.linear(layer.x, w[i]) + sum(biases(b, i))
        peep = None if p is None else p[i]
        return gates, cell_step(layer, i, lambda h: F.linear(h, r[i]), peep, bool(input_forget))

    return layer.sweep(direction, initial_h, initial_c)


LSTM_DEFAULTS = ("Sigmoid", "Tanh", "Tanh")


def cell_step(
    layer: Layer,
    i: int,
    recur: Callable[[Tensor], Tensor],
    peep: Tensor | None = None,
    coupled: bool = False,
) -> Step:
    """A step of an LSTM; ``coupled`` gates forget as much as enters."""
    f, g, h = layer.functions[3 * i : 3 * i + 3]
    first, second, third = (0.0, 0.0, 0.0) if peep is None else peep.chunk(3)

    def step(states: Any, row: Tensor) -> Any:
        before, cell = states
        enter, leave, forget, new = (row + recur(before)).chunk(4, -1)
        enter = f(enter + first * cell)
        forget = 1 - enter if coupled else f(forget + third * cell)
        cell = forget * cell + enter * g(new)
        return f(leave + second * cell) * h(cell), cell

    return step


@op("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    linear_before_reset: int = 0,
    **options: Any,
) -> Any:
    """Gates are in the order update, reset, hidden."""
    layer = Layer(x, sequence_lens, ["Sigmoid", "Tanh"], **options)
    if layer.plain and linear_before_reset:
        return layer.fused(ops.gru, weights_of(w, r, b, [1, 0, 2]), initial_h)
    n = 2 * layer.size

    def direction(i: int) -> tuple[Tensor, Step]:
        f, g = layer.functions[2 * i : 2 * i + 2]
        own, bias = biases(b, i)
        both, hidden = (0.0, 0.0) if b is None else (bias[:n], bias[n:])

        def step(states: Any, row: Tensor) -> Any:
            (before,) = states
            gates = f(row[..., :n] + F.linear(before, r[i][:n]) + both)
            update, reset = gates.chunk(2, -1)
            if linear_before_reset:
                inner = reset * (F.linear(before, r[i][n:]) + hidden)
            else:
                inner = F.linear(reset * before, r[i][n:]) + hidden
            new = g(row[..., n:] + inner)
            return ((1 - update) * new + update * before,)

        return F.linear(layer.x, w[i]) + own, step

    return layer.sweep(direction, initial_h)
