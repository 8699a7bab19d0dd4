"""Recurrent networks: layer upon layer, in one or two directions, and single steps of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import dtypes
from rushlight.ops.base import composite, need_tensor, ops
from rushlight.ops.dropout import dropped
from rushlight.ops.recurrent_layers import GRU, LSTM, RNN_RELU, RNN_TANH, Weights
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


def stacked(
    layer: Any,
    x: Tensor,
    steps: int,
    sizes: tuple[int, ...] | None,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[Tensor, ...]:
    """Layer upon layer, each in one or two directions: the outputs and the last states.

    ``sizes`` says how many sequences take part in each of the steps; None, that all do.
    """
    if not steps:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    directions = 2 if bidirectional else 1
    groups = grouped(layer, params, has_biases, num_layers * directions)
    for k, state in enumerate(hx):
        if state.ndim != 3 or len(state) != len(groups):
            raise RuntimeError(
                f"Expected hidden[{k}] of shape ({len(groups)}, batch size, hidden size), got "
                f"{list(state.shape)}"
            )
    first = list(zip(*[state.unbind(0) for state in hx], strict=True))
    last = []
    for k in range(num_layers):
        outputs = []
        for n in range(directions * k, directions * (k + 1)):
            reverse = n > directions * k
            attrs = {"steps": steps, "sizes": sizes, "reverse": reverse}
            call = layer.check(x, first[n], groups[n], **attrs)
            y, *states = layer.apply(*call)[: 1 + layer.states]
            outputs.append(y)
            last.append(states)
        x = outputs[0] if directions == 1 else ops.cat(outputs, 1)
        if dropout and train and k < num_layers - 1:
            x = dropped(x, dropout, True)
    return (x, *[ops.stack(states) for states in zip(*last, strict=True)])


def grouped(layer: Any, params: Sequence[Tensor], has_biases: bool, count: int) -> list[Weights]:
    """The weights of each layer and direction as its op takes them, None where there are none."""
    names = layer.operands[1 + layer.states :]
    present = [name for name in names if has_biases or not name.startswith("b_")]
    size, rest = divmod(len(params), count)
    if rest or size not in (len(present), len(present) - names.count("w_hr")):
        raise RuntimeError(
            f"Expected the weights {', '.join(present)} for each of {count} layers and directions, "
            f"got {len(params)} weights"
        )
    groups = [params[k : k + size] for k in range(0, len(params), size)]
    named = [dict(zip(present, group, strict=False)) for group in groups]
    return [[weights.get(name) for name in names] for weights in named]


def padded(
    layer: Any,
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """:func:`stacked` for sequences of one length, side by side."""
    if input.ndim != 3:
        raise RuntimeError(f"input must have 3 dimensions, got {input.ndim}")
    x = input.transpose(0, 1) if batch_first else input
    steps, batch, features = x.shape
    options = (params, has_biases, num_layers, dropout, train, bidirectional)
    y, *states = stacked(layer, x.reshape(steps * batch, features), steps, None, hx, *options)
    y = y.reshape(steps, batch, y.shape[1])
    return (y.transpose(0, 1) if batch_first else y, *states)


def packed(
    layer: Any, data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], *options: Any
) -> tuple[Tensor, ...]:
    """:func:`stacked` for sequences of any lengths, packed."""
    if data.ndim != 2:
        raise RuntimeError(f"input must have 2 dimensions, got {data.ndim}")
    sizes = tuple(batch_sizes.tolist())
    even = bool(sizes) and sizes[0] == sizes[-1]
    return stacked(layer, data, len(sizes), None if even else sizes, hx, *options)


def run(layer: Any, name: str, input: Any, second: Any, *rest: Any) -> Any:
    """:func:`packed` if the second argument is the sizes of batches, else :func:`padded`."""
    need_tensor(name, input)
    if isinstance(second, Tensor) and second.ndim == 1 and not second.is_floating_point():
        return packed(layer, input, second, states_of(layer, name, rest[0]), *rest[1:])
    return padded(layer, input, states_of(layer, name, second), *rest)


def states_of(layer: Any, name: str, hx: Any) -> Sequence[Tensor]:
    if layer.states == 1:
        return (need_tensor(name, hx, "hx", 2),)
    if len(hx) != 2:
        raise RuntimeError(f"{name} expects two hidden states")
    return [need_tensor(name, t, "hx", 2) for t in hx]


def one_step(
    layer: Any, name: str, input: Any, hx: Any, *weights: Tensor | None
) -> tuple[Tensor, ...]:
    """The states after a single step."""
    x, states = need_tensor(name, input), states_of(layer, name, hx)
    if layer is LSTM:
        weights = (*weights, None)
    call = layer.check(x, states, weights, steps=1, sizes=None, reverse=False)
    return layer.apply(*call)[1 : 1 + layer.states]


def cell_samples(gates: int, states: int) -> list[S]:
    def sample(batch: int, *biases: T) -> S:
        hx = [T(batch, 2) for _ in range(states)]
        weights = T(2 * gates, 3), T(2 * gates, 2)
        return S(T(batch, 3), hx if states > 1 else hx[0], *weights, *biases)

    return [sample(2), sample(1, T(2 * gates), T(2 * gates)), sample(0)]


def cell_errors(gates: int, states: int) -> list[Fails]:
    hx = [T(2, 2) for _ in range(states)]
    state: Any = hx if states > 1 else hx[0]
    weights = T(2 * gates, 3), T(2 * gates, 2)
    return [
        Fails(RuntimeError, "input_size: got 4 expected 3", T(2, 4), state, *weights),
        Fails(RuntimeError, "batch size 5 doesn't match hidden0 .* 2", T(5, 3), state, *weights),
        Fails(TypeError, "must be Tensor, not NoneType", None, state, *weights),
        Fails(RuntimeError, "same dtype", T(2, 3, dtype=dtypes.float64), state, *weights),
        Fails(RuntimeError, "input must have 2 dimensions, got 1", T(3), state, *weights),
        Fails(RuntimeError, "weight_ih first dim must be", T(2, 3), state, T(5, 3), weights[1]),
    ]


@composite(method=False, samples=cell_samples(1, 1), errors=cell_errors(1, 1))
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a recurrent network: h' = tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh).

    >>> rl.rnn_tanh_cell(rl.ones(1, 2), rl.ones(1, 1), rl.ones(1, 2), rl.ones(1, 1))
    tensor([[0.9951]])
    """
    return one_step(RNN_TANH, "rnn_tanh_cell", input, hx, w_ih, w_hh, b_ih, b_hh)[0]


@composite(method=False, samples=cell_samples(1, 1), errors=cell_errors(1, 1))
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a recurrent network: h' = relu(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh).

    >>> rl.rnn_relu_cell(rl.ones(1, 2), rl.ones(1, 1), rl.ones(1, 2), rl.ones(1, 1))
    tensor([[3.]])
    """
    return one_step(RNN_RELU, "rnn_relu_cell", input, hx, w_ih, w_hh, b_ih, b_hh)[0]


@composite(
    method=False,
    samples=cell_samples(4, 2),
    errors=[
        *cell_errors(4, 2),
        Fails(RuntimeError, "expects two hidden states", T(1, 3), [T(1, 2)], T(8, 3), T(8, 2)),
    ],
)
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of a long short-term memory: (h', c') from (h, c).

    i, f, g, o = x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh;  c' = σ(f)·c + σ(i)·tanh(g);
    h' = σ(o)·tanh(c').

    >>> x, h, c = rl.ones(1, 2), rl.zeros(1, 1), rl.zeros(1, 1)
    >>> rl.lstm_cell(x, (h, c), rl.ones(4, 2), rl.ones(4, 1))
    (tensor([[0.6083]]), tensor([[0.8491]]))
    """
    h, c = one_step(LSTM, "lstm_cell", input, hx, w_ih, w_hh, b_ih, b_hh)
    return h, c


@composite(method=False, samples=cell_samples(3, 1), errors=cell_errors(3, 1))
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a gated recurrent unit.

    With i = x·W_ihᵀ + b_ih and j = h·W_hhᵀ + b_hh, each cut in three: r = σ(i₁ + j₁);
    z = σ(i₂ + j₂);  n = tanh(i₃ + r·j₃);  h' = (1 - z)·n + z·h.

    >>> rl.gru_cell(rl.ones(1, 2), rl.zeros(1, 1), rl.ones(3, 2), rl.ones(3, 1))
    tensor([[0.1149]])
    """
    return one_step(GRU, "gru_cell", input, hx, w_ih, w_hh, b_ih, b_hh)[0]


def network_samples(gates: int, states: int) -> list[S]:
    """Networks from one feature to two: two directions, batch first, packed, without biases."""

    def sample(lead: Sequence[Any], batch: int, layers: int, bidirectional: bool, *last: Any) -> S:
        directions = 1 + bidirectional
        weights = []
        for features in (1, *[2 * directions] * (layers - 1)):
            group = T(2 * gates, features), T(2 * gates, 2), T(2 * gates), T(2 * gates)
            weights += [*group[:4]] * directions
        hx = [T(directions * layers, batch, 2) for _ in range(states)]
        options = (weights, True, layers, 0.0, False, bidirectional, *last)
        return S(*lead, hx if states > 1 else hx[0], *options)

    sizes = T(values=[2, 1, 1], dtype=dtypes.int64)
    return [
        sample([T(3, 2, 1)], 2, 1, False, False),
        sample([T(1, 3, 1)], 1, 2, True, True),
        sample([T(4, 1), sizes], 2, 1, True),
        sample([T(3, 0, 1)], 0, 1, False, False),
    ]


def network_errors(gates: int, states: int) -> list[Fails]:
    hx = [T(1, 2, 2) for _ in range(states)]
    state: Any = hx if states > 1 else hx[0]
    weights = [T(2 * gates, 3), T(2 * gates, 2)]
    options = (weights, False, 1, 0.0, False, False, False)
    return [
        Fails(RuntimeError, "length to be larger than 0", T(0, 2, 3), state, *options),
        Fails(RuntimeError, "input must have 3 dimensions, got 2", T(2, 3), state, *options),
        Fails(RuntimeError, "input_size: got 4 expected 3", T(1, 2, 4), state, *options),
        Fails(RuntimeError, "batch size 1 doesn't match hidden0", T(2, 1, 3), state, *options),
        Fails(RuntimeError, "got 2 weights", T(1, 2, 3), state, weights, True, *options[2:]),
        Fails(RuntimeError, r"hidden\[0\]", T(1, 2, 3), state, weights * 2, False, 2, *options[3:]),
        Fails(TypeError, "must be Tensor, not NoneType", None, state, *options),
    ]


@composite(method=False, samples=network_samples(1, 1), errors=network_errors(1, 1))
def rnn_tanh(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """A recurrent network of layers h' = tanh(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh).

    ``rnn_tanh(data, batch_sizes, hx, params, …, bidirectional)`` takes packed sequences.

    >>> x, h, weights = rl.ones(5, 1, 2), rl.zeros(1, 1, 3), [rl.ones(3, 2), rl.ones(3, 3)]
    >>> y, last = rl.rnn_tanh(x, h, weights, False, 1, 0.0, False, False, False)
    >>> y.shape, last.shape
    (rushlight.Size([5, 1, 3]), rushlight.Size([1, 1, 3]))
    """
    options = (params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return run(RNN_TANH, "rnn_tanh", input, hx, *options)


@composite(method=False, samples=network_samples(1, 1), errors=network_errors(1, 1))
def rnn_relu(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """A recurrent network of layers h' = relu(x·W_ihᵀ + b_ih + h·W_hhᵀ + b_hh).

    ``rnn_relu(data, batch_sizes, hx, params, …, bidirectional)`` takes packed sequences.

    >>> x, h, weights = rl.ones(5, 1, 2), rl.zeros(1, 1, 3), [rl.ones(3, 2), rl.ones(3, 3)]
    >>> y, last = rl.rnn_relu(x, h, weights, False, 1, 0.0, False, False, False)
    >>> y.shape, last.shape
    (rushlight.Size([5, 1, 3]), rushlight.Size([1, 1, 3]))
    """
    options = (params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return run(RNN_RELU, "rnn_relu", input, hx, *options)


@composite(method=False, samples=network_samples(4, 2), errors=network_errors(4, 2))
def lstm(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """A long short-term memory: layers of :func:`lstm_cell`.

    ``lstm(data, batch_sizes, hx, params, …, bidirectional)`` takes packed sequences.

    >>> x, h, weights = rl.ones(5, 1, 2), rl.zeros(1, 1, 3), [rl.ones(12, 2), rl.ones(12, 3)]
    >>> y, last, cell = rl.lstm(x, (h, h), weights, False, 1, 0.0, False, False, False)
    >>> y.shape, last.shape
    (rushlight.Size([5, 1, 3]), rushlight.Size([1, 1, 3]))
    """
    options = (params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return run(LSTM, "lstm", input, hx, *options)


@composite(method=False, samples=network_samples(3, 1), errors=network_errors(3, 1))
def gru(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor]:
    """A network of gated recurrent units: layers of :func:`gru_cell`.

    ``gru(data, batch_sizes, hx, params, …, bidirectional)`` takes packed sequences.

    >>> x, h, weights = rl.ones(5, 1, 2), rl.zeros(1, 1, 3), [rl.ones(9, 2), rl.ones(9, 3)]
    >>> y, last = rl.gru(x, h, weights, False, 1, 0.0, False, False, False)
    >>> y.shape, last.shape
    (rushlight.Size([5, 1, 3]), rushlight.Size([1, 1, 3]))
    """
    options = (params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return run(GRU, "gru", input, hx, *options)
