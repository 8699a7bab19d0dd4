"""Cells: one step of a recurrent layer."""

from __future__ import annotations

import math
from typing import Any

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import ops
from rushlight.tensor import Tensor


class RNNCellBase(Module):
    """What the cells share: ``weight_ih``, ``weight_hh`` and perhaps ``bias_ih``, ``bias_hh``."""

    __constants__ = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias

        def weight(*shape: int) -> Parameter:
            return Parameter(
                ops.empty(num_chunks * hidden_size, *shape, device=device, dtype=dtype)
            )

        self.weight_ih = weight(input_size)
        self.weight_hh = weight(hidden_size)
        self.register_parameter("bias_ih", weight() if bias else None)
        self.register_parameter("bias_hh", weight() if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws all weights from the uniform distribution on ±1/√hidden_size."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _step(self, function: str, input: Tensor, hx: Tensor | None) -> Tensor:
        """The next state, of cells that have one."""
        self._check_rank("input", input)
        if hx is not None:
            self._check_rank("hidden", hx)
        batched = input.ndim == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            hx = ops.zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
        elif not batched:
            hx = hx.unsqueeze(0)
        y = getattr(ops, function)(x, hx, *self._weights())
        return y if batched else y.squeeze(0)

    def _check_rank(self, name: str, t: Tensor) -> None:
        if t.ndim not in (1, 2):
            kind = type(self).__name__
            raise ValueError(f"{kind}: Expected {name} to be 1D or 2D, got {t.ndim}D instead")

    def extra_repr(self) -> str:
        bias = "" if self.bias is True else f", bias={self.bias}"
        return f"{self.input_size}, {self.hidden_size}{bias}"


class RNNCell(RNNCellBase):
    """One step of an RNN: h' = tanh(W_ih·x + b_ih + W_hh·h + b_hh).

    Args:
        input_size: the number of features of x.
        hidden_size: the number of features of h.
        bias: whether there are b_ih and b_hh.
        nonlinearity: "tanh" or "relu".

    Shape:
        (batch, input_size) and (batch, hidden_size), zero if not given, to (batch, hidden_size);
        the batch may be missing.

    >>> rl.nn.RNNCell(10, 20)(rl.randn(3, 10)).shape
    rushlight.Size([3, 20])
    """

    __constants__ = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(f"rnn_{self.nonlinearity}_cell", input, hx)

    def extra_repr(self) -> str:
        usual = self.nonlinearity == "tanh"
        return super().extra_repr() + ("" if usual else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of a long short-term memory, from (h, c) to (h', c').

    i, f, g, o = W_ih·x + b_ih + W_hh·h + b_hh;  c' = σ(f)·c + σ(i)·tanh(g);  h' = σ(o)·tanh(c').

    Args:
        input_size: the number of features of x.
        hidden_size: the number of features of h and c.
        bias: whether there are b_ih and b_hh.

    Shape:
        (batch, input_size) and two states (batch, hidden_size), zero if not given, to two states;
        the batch may be missing.

    >>> h, c = rl.nn.LSTMCell(10, 20)(rl.randn(3, 10))
    >>> h.shape, c.shape
    (rushlight.Size([3, 20]), rushlight.Size([3, 20]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        self._check_rank("input", input)
        if isinstance(hx, Tensor):
            raise TypeError("LSTMCell: expected hx to be a tuple (h_0, c_0), not Tensor")
        for k, state in enumerate(hx or ()):
            self._check_rank(f"hx[{k}]", state)
        batched = input.ndim == 2
        x = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = ops.zeros(x.shape[0], self.hidden_size, dtype=x.dtype)
            states: Any = (zeros, zeros)
        else:
            states = hx if batched else [state.unsqueeze(0) for state in hx]
        h, c = ops.lstm_cell(x, states, *self._weights())
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit.

    With i = W_ih·x + b_ih and j = W_hh·h + b_hh, each cut in three: r = σ(i₁ + j₁);
    z = σ(i₂ + j₂);  n = tanh(i₃ + r·j₃);  h' = (1 - z)·n + z·h.

    Args:
        input_size: the number of features of x.
        hidden_size: the number of features of h.
        bias: whether there are b_ih and b_hh.

    Shape:
        (batch, input_size) and (batch, hidden_size), zero if not given, to (batch, hidden_size);
        the batch may be missing.

    >>> rl.nn.GRUCell(10, 20)(rl.randn(3, 10)).shape
    rushlight.Size([3, 20])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step("gru_cell", input, hx)
