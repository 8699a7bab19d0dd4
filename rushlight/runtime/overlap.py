"""The memory of what a program is called with: of the right types, and written to by one name."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from rushlight.graph.ir import TensorType
from rushlight.tensor import Tensor

Owners = dict[int, list[np.ndarray]]


class Memory:
    """Whether a program fits the tensors of a call.

    A program takes each tensor it writes to for the only name of that memory. Arrays can share
    memory only if one array owns it, so that most calls compare a few owners and nothing else.

    Args:
        types: of all that is captured.
        steady: which captured values stay the same array at most calls.
        watched: which of them no argument may share memory with.
        own: whether the arguments themselves are written to.
    """

    def __init__(
        self, types: Sequence[Any], steady: Sequence[bool], watched: Sequence[bool], own: bool
    ) -> None:
        self.types, self.watched, self.own = types, watched, own
        self.steady = [i for i, stays in enumerate(steady) if stays]
        self.others = [i for i, stays in enumerate(steady) if not stays]
        self.last: tuple[list[Any], Owners] = ([None] * len(self.steady), {})

    def fits(self, tensors: Sequence[Tensor], captured: Sequence[Any]) -> bool:
        """Whether what is captured has its types, and no memory is written to by two names."""
        arrays, owners = self.last
        now = [captured[i] for i in self.steady]
        if not all(map(is_, arrays, now)):
            if not self.have_types(self.steady, captured):
                return False
            owners = self.owners(self.steady, captured)
            self.last = now, owners
        if not self.have_types(self.others, captured):
            return False
        others = self.owners(self.others, captured)
        return not (self.own or owners or others) or self.apart(tensors, owners, others)

    def have_types(self, which: Sequence[int], captured: Sequence[Any]) -> bool:
        return all([has_type(captured[i], self.types[i]) for i in which])

    def owners(self, which: Sequence[int], captured: Sequence[Any]) -> Owners:
        """The arrays that are watched, by what holds their memory."""
        found: Owners = {}
        for i in which:
            if self.watched[i] and isinstance(captured[i], np.ndarray):
                found.setdefault(owner(captured[i]), []).append(captured[i])
        return found

    def apart(self, tensors: Sequence[Tensor], owners: Owners, others: Owners) -> bool:
        """Whether no argument shares memory with these, nor with another if that counts."""
        for t in tensors:
            array, name = t._array, owner(t._array)
            known = (*owners.get(name, ()), *others.get(name, ()))
            if any([np.may_share_memory(array, other) for other in known]):
                return False
            if self.own:
                others.setdefault(name, []).append(array)
        return True


def has_type(value: Any, kind: TensorType) -> bool:
    """Whether an array has this type; what is no array always has."""
    if not isinstance(value, np.ndarray):
        return True
    return value.shape == kind.shape and value.dtype == kind.dtype.numpy


def owner(array: np.ndarray) -> int:
    """The identity of what holds the memory that ``array`` is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array if array.base is None else array.base)
