"""Sequences, which are lists here, and values that may be missing, which are None."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.onnx.errors import OnnxError
from rushlight.onnx.importers.registry import integer, integers, known, op, tensor_of
from rushlight.ops import ops


@op("SequenceConstruct", raw=True)
def construct(*xs: Any) -> list[Any]:
    return list(xs)


@op("SequenceEmpty", raw=True)
def empty(*, dtype: int = 1) -> list[Any]:
    return []


@op("SequenceInsert", raw=True)
def insert(sequence: list[Any], tensor: Any, position: Any = None) -> list[Any]:
    at = len(sequence) if position is None else place(position, len(sequence), 1)
    return [*sequence[:at], tensor, *sequence[at:]]


@op("SequenceErase", raw=True)
def erase(sequence: list[Any], position: Any = None) -> list[Any]:
    at = place(-1 if position is None else position, len(sequence))
    return [*sequence[:at], *sequence[at + 1 :]]


@op("SequenceAt", raw=True)
def element(sequence: list[Any], position: Any) -> Any:
    return sequence[place(position, len(sequence))]


def place(position: Any, length: int, beyond: int = 0) -> int:
    """A position counted from the beginning; up to ``beyond`` behind the last element."""
    at = integer(known(position))
    if not -length <= at < length + beyond:
        raise OnnxError(f"position {at} of a sequence of {length}")
    return at % length if at < 0 else at


@op("SequenceLength", raw=True)
def length(sequence: list[Any]) -> np.ndarray:
    return np.array(len(sequence), np.int64)


@op("ConcatFromSequence", raw=True)
def concat(sequence: list[Any], *, axis: int, new_axis: int = 0) -> Any:
    parts = [tensor_of(x) for x in sequence]
    return ops.stack(parts, axis) if new_axis else ops.cat(parts, axis)


@op("SplitToSequence", raw=True)
def split(x: Any, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> list[Any]:
    """Into parts of one length, of given lengths, or into slices."""
    x = tensor_of(x)
    size = x.shape[axis]
    if split is None:
        parts = ops.split(x, 1, axis)
        return list(parts) if keepdims else [part.squeeze(axis) for part in parts]
    given = known(split)
    return list(ops.split(x, integers(given) if given.ndim else min(integer(given), size), axis))


@op("Optional", raw=True)
def optional(x: Any = None, *, type: Any = None) -> Any:
    return x


@op("OptionalHasElement", raw=True)
def has_element(x: Any = None) -> np.ndarray:
    return np.array(x is not None)


@op("OptionalGetElement", raw=True)
def get_element(x: Any) -> Any:
    if x is None:
        raise OnnxError("the value is missing")
    return x
