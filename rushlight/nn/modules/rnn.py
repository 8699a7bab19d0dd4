"""Recurrent networks."""

# ruff: noqa: F401

from rushlight.nn.cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
from rushlight.nn.recurrent import GRU, LSTM, RNN, RNNBase
