"""Recurrent layers: RNN, LSTM and GRU over sequences, and the cells that make one step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.errors import kind
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence, numbers
from rushlight.ops import ops
from rushlight.tensor import Tensor

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class RNNBase(Module):
    """What RNN, LSTM and GRU share: their weights, and the way of a sequence through them.

    Layer k has the weights ``weight_ih_l{k}``, ``weight_hh_l{k}``, ``bias_ih_l{k}`` and
    ``bias_hh_l{k}``, and the same with ``_reverse`` for the backward direction, all from the
    uniform distribution on ±1/√hidden_size.

    >>> [name for name, _ in rl.nn.GRU(2, 3).named_parameters()]
    ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """

    __constants__ = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        check_dropout(dropout, num_layers)
        check_types(bias=bias, batch_first=batch_first)
        check_sizes(input_size, hidden_size, num_layers, proj_size)
        if mode not in GATES:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: self._directions]:
                shapes = self._shapes(layer)
                names = [f"{name}_l{layer}{suffix}" for name in shapes]
                for name, shape in zip(names, shapes.values(), strict=True):
                    setattr(self, name, Parameter(ops.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(names)
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        """The weights of a layer and their shapes."""
        gates, hidden = GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        inputs = self._directions * hidden if layer else self.input_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (gates, inputs),
            "weight_hh": (gates, hidden),
        }
        if self.bias:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Does nothing: weights need not lie side by side here."""

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name) for name in self._flat_weights_names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs of the last layer, and the last states of all layers."""
        if hx is not None:
            self._check_kind(hx)
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        name = self.mode.partition("_")[0]
        if input.ndim not in (2, 3):
            noun = "tensor " if name == "RNN" else ""
            raise ValueError(
                f"{name}: Expected input to be 2D or 3D, got {input.ndim}D {noun}instead"
            )
        batch_dim, batched = 0 if self.batch_first else 1, input.ndim == 3
        x = input if batched else input.unsqueeze(batch_dim)
        if hx is None:
            hx = self._zero_states(x, x.shape[batch_dim])
        else:
            hx = self._batched_states(hx, batched)
        self.check_forward_args(x, hx, None)
        y, *last = self._run(x, hx, *self._options, self.batch_first)
        if not batched:
            y, last = y.squeeze(batch_dim), [state.squeeze(1) for state in last]
        return y, self._public(last)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, sizes, order, inverse = input
        batch = int(numbers(sizes, type(self).__name__)[0])
        if hx is None:
            hx = self._zero_states(data, batch)
        else:
            hx = self.permute_hidden(hx, order)
        self.check_forward_args(data, hx, sizes)
        y, *last = self._run(data, sizes, hx, *self._options)
        packed = PackedSequence(y, sizes, order, inverse)
        return packed, self.permute_hidden(self._public(last), inverse)

    @property
    def _options(self) -> tuple[Any, ...]:
        return (
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
        )

    def _run(self, *args: Any) -> tuple[Tensor, ...]:
        return getattr(ops, self.mode.lower())(*args)

    def _public(self, states: Sequence[Tensor]) -> Any:
        """States as users see them: here one tensor."""
        return states[0]

    def _zero_states(self, x: Tensor, batch: int) -> Any:
        count = self.num_layers * self._directions
        return ops.zeros(count, batch, self.hidden_size, dtype=x.dtype)

    def _check_kind(self, hx: Any) -> None:
        """An error unless ``hx`` is what states are given as: here one tensor."""
        if not isinstance(hx, Tensor):
            raise TypeError(f"{type(self).__name__}: expected hx to be a Tensor, not {kind(hx)}")

    def _batched_states(self, hx: Any, batched: bool) -> Any:
        """Given states with a batch dimension."""
        if hx.ndim != (3 if batched else 2):
            wanted, side = ("3", "batched") if batched else ("2", "unbatched")
            raise RuntimeError(
                f"For {side} {wanted}-D input, hx should also be {wanted}-D but got {hx.ndim}-D "
                "tensor"
            )
        return hx if batched else hx.unsqueeze(1)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """An error unless ``input`` has the layer's dtype, rank and features."""
        own = self._flat_weights[0].dtype
        if input.dtype is not own:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({own}). Convert "
                f"input: input.to({own}), or convert model: model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.ndim != rank:
            raise RuntimeError(f"input must have {rank} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of a state for this input."""
        if batch_sizes is not None:
            batch = batch_sizes.tolist()[0]
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return self.num_layers * self._directions, batch, self.proj_size or self.hidden_size

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """An error unless a state has the expected shape."""
        if hx.shape != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """An error unless input and states fit the layer and each other."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in the order of ``permutation``."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def extra_repr(self) -> str:
        usual = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        own = self.__dict__
        unusual = [f"{name}={own[name]}" for name in usual if own[name] != usual[name]]
        return ", ".join([str(self.input_size), str(self.hidden_size), *unusual])


def check_dropout(dropout: Any, num_layers: int) -> None:
    number = isinstance(dropout, Number) and not isinstance(dropout, bool)
    if not number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an "
            f"element being zeroed, got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}",
            stacklevel=4,
        )


def check_types(**flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


def check_sizes(input_size: Any, hidden_size: Any, num_layers: int, proj_size: int) -> None:
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(value, int):
            raise TypeError(f"{name} should be of type int, got: {type(value).__name__}")
        if value <= 0:
            raise ValueError(f"{name} must be greater than zero, got {value}")
    if num_layers <= 0:
        raise ValueError(f"num_layers must be greater than zero, got {num_layers}")
    if proj_size < 0:
        raise ValueError(
            "proj_size should be a positive integer or zero to disable projections, got "
            f"{proj_size}"
        )
    if proj_size >= hidden_size:
        raise ValueError(
            f"proj_size has to be smaller than hidden_size, got {proj_size} and {hidden_size}"
        )


def refuse_projection(proj_size: int) -> None:
    """An error if there is the option that only LSTM has."""
    if proj_size:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """Layers of h' = tanh(W_ih·x + b_ih + W_hh·h + b_hh), each fed with the outputs of the last.

    Args:
        input_size: the number of features of an element of the sequence.
        hidden_size: the number of features of the state h.
        num_layers: how many layers.
        nonlinearity: "tanh" or "relu".
        bias: whether there are b_ih and b_hh.
        batch_first: whether input and output are (batch, time, features) rather than
            (time, batch, features).
        dropout: the probability of dropping an output of a layer, the last one excepted.
        bidirectional: whether each layer also goes backward in time; outputs stand side by side.

    Shape:
        Input (time, batch, input_size), (time, input_size), or a packed sequence; h_0
        (num_layers·directions, batch, hidden_size), zero if not given. The results are
        (time, batch, directions·hidden_size) and h_n of h_0's shape.

    >>> rnn = rl.nn.RNN(10, 20, num_layers=2)
    >>> output, h_n = rnn(rl.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (rushlight.Size([5, 3, 20]), rushlight.Size([2, 3, 20]))
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        refuse_projection(proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(
            f"RNN_{nonlinearity.upper()}",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of long short-term memory, each fed with the outputs of the one before.

    i, f, g, o = W_ih·x + b_ih + W_hh·h + b_hh;  c' = σ(f)·c + σ(i)·tanh(g);  h' = σ(o)·tanh(c'),
    multiplied by W_hr if there is a projection.

    Args:
        input_size: the number of features of an element of the sequence.
        hidden_size: the number of features of the states h and c.
        num_layers: how many layers.
        bias: whether there are b_ih and b_hh.
        batch_first: whether input and output are (batch, time, features) rather than
            (time, batch, features).
        dropout: the probability of dropping an output of a layer, the last one excepted.
        bidirectional: whether each layer also goes backward in time; outputs stand side by side.
        proj_size: if not 0, the number of features to which h is projected.

    Shape:
        Input (time, batch, input_size), (time, input_size), or a packed sequence; (h_0, c_0) each
        (num_layers·directions, batch, hidden_size), zero if not given. The results are
        (time, batch, directions·hidden_size) and (h_n, c_n) of the shapes of (h_0, c_0).

    >>> lstm = rl.nn.LSTM(10, 20, batch_first=True)
    >>> output, (h_n, c_n) = lstm(rl.randn(3, 5, 10))
    >>> output.shape, h_n.shape
    (rushlight.Size([3, 5, 20]), rushlight.Size([1, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    def _public(self, states: Sequence[Tensor]) -> Any:
        return tuple(states)

    def _zero_states(self, x: Tensor, batch: int) -> Any:
        count = self.num_layers * self._directions
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        return tuple([ops.zeros(count, batch, size, dtype=x.dtype) for size in sizes])

    def _check_kind(self, hx: Any) -> None:
        if not isinstance(hx, (tuple, list)) or len(hx) != 2:
            count = f" of {len(hx)}" if isinstance(hx, (tuple, list)) else ""
            raise TypeError(f"LSTM: expected hx to be a tuple (h_0, c_0), not {kind(hx)}{count}")

    def _batched_states(self, hx: Any, batched: bool) -> Any:
        h, c = hx
        wanted, side = (3, "batched") if batched else (2, "unbatched")
        if h.ndim != wanted or c.ndim != wanted:
            raise RuntimeError(
                f"For {side} {wanted}-D input, hx and cx should also be {wanted}-D but got "
                f"({h.ndim}-D, {c.ndim}-D) tensors"
            )
        return (h, c) if batched else (h.unsqueeze(1), c.unsqueeze(1))

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the state c for this input."""
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """An error unless input and states fit the layer and each other."""
        self.check_input(input, batch_sizes)
        for k, expected in enumerate((self.get_expected_hidden_size, self.get_expected_cell_size)):
            message = f"Expected hidden[{k}] size {{}}, got {{}}"
            self.check_hidden_size(hidden[k], expected(input, batch_sizes), message)

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in the order of ``permutation``."""
        if permutation is None:
            return hx
        return tuple([state.index_select(1, permutation) for state in hx])


class GRU(RNNBase):
    """Layers of gated recurrent units, each fed with the outputs of the one before.

    With i = W_ih·x + b_ih and j = W_hh·h + b_hh, each cut in three: r = σ(i₁ + j₁);
    z = σ(i₂ + j₂);  n = tanh(i₃ + r·j₃);  h' = (1 - z)·n + z·h.

    Args:
        input_size: the number of features of an element of the sequence.
        hidden_size: the number of features of the state h.
        num_layers: how many layers.
        bias: whether there are b_ih and b_hh.
        batch_first: whether input and output are (batch, time, features) rather than
            (time, batch, features).
        dropout: the probability of dropping an output of a layer, the last one excepted.
        bidirectional: whether each layer also goes backward in time; outputs stand side by side.

    Shape:
        Input (time, batch, input_size), (time, input_size), or a packed sequence; h_0
        (num_layers·directions, batch, hidden_size), zero if not given. The results are
        (time, batch, directions·hidden_size) and h_n of h_0's shape.

    >>> gru = rl.nn.GRU(10, 20, bidirectional=True)
    >>> output, h_n = gru(rl.randn(5, 3, 10))
    >>> output.shape, h_n.shape
    (rushlight.Size([5, 3, 40]), rushlight.Size([2, 3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        refuse_projection(proj_size)
        super().__init__(
            "GRU",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            device=device,
            dtype=dtype,
        )
