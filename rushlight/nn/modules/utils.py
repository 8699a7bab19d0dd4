"""Sizes as tuples, and names of saved states."""

# ruff: noqa: F401

from rushlight.nn.state import consume_prefix_in_state_dict_if_present
from rushlight.nn.tuples import (
    _list_with_default,
    _ntuple,
    _pair,
    _quadruple,
    _reverse_repeat_tuple,
    _single,
    _triple,
)
