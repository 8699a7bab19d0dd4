"""Makes the tensors that an op's samples stand for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import rushlight as rl
import rushlight.nn  # its ops are loaded on demand, and tested like all
from rushlight.ops.base import Op
from rushlight.ops.samples import S, T

SPREAD = {"b": rl.bool, "i": rl.int64, "f": rl.float32, "c": rl.complex64}


def array_of(spec: T, dtype: Any, seed: int) -> np.ndarray:
    """The values of one spec: the same for a seed whatever the floating-point dtype."""
    random = np.random.default_rng(seed)
    if spec.values is not None:
        return np.array(spec.values, dtype.numpy)
    size = int(np.prod(spec.shape))
    if dtype is rl.bool:
        return np.asarray(random.random(spec.shape) < 0.5)
    if dtype.category == 1:
        low, high = int(np.ceil(spec.low)), int(np.floor(spec.high))
        return np.asarray(random.integers(low, max(high, low) + 1, spec.shape), dtype.numpy)
    if spec.distinct:
        flat = (random.permutation(size) + 0.5) / max(size, 1)
    else:
        flat = random.random(size)
    values = (spec.low + (spec.high - spec.low) * flat).reshape(spec.shape)
    if dtype.is_complex:
        values = values + 1j * (random.random(spec.shape) - 0.5)
    return np.asarray(values, dtype.numpy)


def odd(array: np.ndarray) -> np.ndarray:
    """The same values with strides that no fresh array has."""
    wide = np.empty((*array.shape, 3), array.dtype)
    wide[..., 1] = array
    return wide[..., 1].transpose().copy(order="K").transpose() if array.ndim == 2 else wide[..., 1]


class Maker:
    """Builds the arguments of a sample in one dtype, and remembers the tensors it made."""

    def __init__(self, dtype: Any, strides: bool = False, grad: bool = False) -> None:
        self.dtype, self.strides, self.grad = dtype, strides, grad
        self.tensors: list[Any] = []
        self.specs: list[T] = []

    def make(self, value: Any) -> Any:
        if isinstance(value, T):
            return self.tensor(value)
        if isinstance(value, (list, tuple)) and not isinstance(value, rl.Size):
            made = [self.make(v) for v in value]
            return type(value)(made) if type(value) in (list, tuple) else type(value)(*made)
        if isinstance(value, dict):
            return {k: self.make(v) for k, v in value.items()}
        return value

    def is_leaf(self, spec: T) -> bool:
        """Whether the tensor is to have a gradient."""
        return self.grad and spec.grad and spec.dtype is None and self.dtype.is_floating_point

    def tensor(self, spec: T) -> Any:
        dtype = spec.dtype or self.dtype
        values = array_of(spec, dtype, seed=len(self.tensors))
        t = rl.from_numpy(odd(values) if self.strides and values.ndim else values)
        if self.is_leaf(spec):
            t.requires_grad_()
        self.tensors.append(t)
        self.specs.append(spec)
        return t

    def call(self, op: Op, sample: S) -> Any:
        return op.call(*self.make(list(sample.args)), **self.make(sample.kwargs))


def flat(result: Any) -> list[Any]:
    """The tensors of a result, however nested."""
    if isinstance(result, rl.Tensor):
        return [result]
    if isinstance(result, (list, tuple)):
        return [t for part in result for t in flat(part)]
    return []


def supported(op: Op) -> Iterator[Any]:
    """The dtypes, one a category, in which an op's samples are run."""
    for kind in getattr(op, "kinds", "f"):
        yield SPREAD[kind]
