"""Tensors as NumPy arrays and Python values."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.tensor import Tensor, wrap


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The elements as an array that shares memory."""
    if self.requires_grad and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    return self._array


def from_numpy(ndarray: np.ndarray) -> Tensor:
    """A tensor over the memory of an array."""
    return wrap(ndarray)


def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers."""
    return self._array.tolist()


def item(self: Tensor) -> Any:
    """The one element as a Python number."""
    if self._array.size != 1:
        raise RuntimeError(
            f"a Tensor with {self._array.size} elements cannot be converted to Scalar"
        )
    return self._array.item()


Tensor.numpy = numpy
Tensor.tolist = tolist
Tensor.item = item
Tensor.__float__ = lambda self: float(self.item())
Tensor.__int__ = lambda self: int(self.item())
Tensor.__bool__ = lambda self: bool(self.item())
Tensor.__array__ = lambda self, dtype=None, copy=None: self.numpy() if dtype is None else self.numpy().astype(dtype)
