"""What the values of a variable have in common, whichever branch or step has made them.

A value is a tree of tensors, numbers and other objects in tuples, lists and dicts. Of a tensor, its
dtype and shape are the same on all ways; a number may become one that the graph computes; any other
object must be the same one.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rushlight import dtypes
from rushlight.control import Star
from rushlight.func.trees import Rebuild, flatten
from rushlight.graph.scalars import DTYPES, ORDER, Scalar, kind_of, tensor_of_number
from rushlight.graph.watches import MISSING, same
from rushlight.ops import ops
from rushlight.tensor import Tensor

CATEGORIES = {bool: dtypes.BOOL, int: dtypes.INT, float: dtypes.FLOAT}
ANYTHING = object()


class Sort(NamedTuple):
    """What is known of one leaf: the type of a tensor or number, or (neither) the object."""

    dtype: dtypes.dtype | None = None
    shape: tuple[int, ...] | None = None
    number: type | None = None
    value: Any = ANYTHING  # of an object, or of a number that is the same on all ways

    @property
    def is_fixed(self) -> bool:
        return self.value is not ANYTHING

    def __repr__(self) -> str:
        if self.shape is not None:
            return f"{self.dtype.name}{list(self.shape)}"  # type: ignore[union-attr]
        if self.number is not None:
            return self.number.__name__
        telling = self.value is None or isinstance(self.value, (str, bytes))
        return reprlib.repr(self.value) if telling else type(self.value).__name__

    def holds(self, other: Sort) -> bool:
        """Whether they are the same."""
        return self[:3] == other[:3] and (
            same(self.value, other.value) if self.is_fixed else not other.is_fixed
        )

    def tensor(self, leaf: Any) -> Tensor:
        """A leaf as the tensor that the graph has in its place."""
        dtype = self.dtype or DTYPES[self.number]  # type: ignore[index]
        if leaf is MISSING:
            return ops.zeros(self.shape or (), dtype=dtype)
        return leaf if isinstance(leaf, Tensor) else tensor_of_number(leaf, dtype)

    def leaf(self, t: Tensor) -> Any:
        """A tensor of the graph as what Python has in its place."""
        return t if self.number is None else Scalar(t.detach())


def sort_of(leaf: Any) -> Sort:
    if isinstance(leaf, Tensor):
        return Sort(leaf.dtype, tuple(leaf.shape))
    number = kind_of(leaf)
    if number is None:
        return Sort(value=leaf)
    return Sort(number=number, value=ANYTHING if isinstance(leaf, Scalar) else leaf)


def joined(a: Sort, b: Sort) -> Sort | None:
    """What two leaves have in common; None if they cannot be one value."""
    if a.shape is not None and b.shape is not None:
        return a if a == b else None
    if a.number is not None and b.number is not None:
        if a.is_fixed and b.is_fixed and same(a.value, b.value):
            return a
        return Sort(number=max(a.number, b.number, key=ORDER.index))
    if a.is_fixed and b.is_fixed and a.number is b.number is None:
        return a if same(a.value, b.value) else None
    tensor, other = (a, b) if a.shape is not None else (b, a)
    if tensor.shape != () or other.number is None:
        return None
    weak = CATEGORIES[other.number] <= tensor.dtype.category  # type: ignore[union-attr]
    return tensor if weak else None


class Form(NamedTuple):
    """The structure of a value, and the sorts of its leaves."""

    structure: str
    sorts: tuple[Sort, ...]
    make: Rebuild

    def __repr__(self) -> str:
        return repr(self.make(iter(self.sorts)))

    def holds(self, other: Form) -> bool:
        """Whether they are the same."""
        pairs = zip(self.sorts, other.sorts, strict=False)
        return self.structure == other.structure and all([a.holds(b) for a, b in pairs])

    def freed(self) -> Form:
        """The form of such values whose numbers may be others."""
        return self._replace(
            sorts=tuple([s if s.number is None else Sort(number=s.number) for s in self.sorts])
        )

    def tensors(self, value: Any) -> list[Tensor]:
        """The tensors of a value of this form; of one that is missing, some that nobody reads."""
        leaves = [MISSING] * len(self.sorts) if value is MISSING else flatten(value)[0]
        pairs = zip(self.sorts, leaves, strict=True)
        return [sort.tensor(leaf) for sort, leaf in pairs if not sort.is_fixed]

    def value(self, tensors: Iterator[Tensor]) -> Any:
        """A value of this form, of other tensors."""
        found = [s.value if s.is_fixed else s.leaf(next(tensors)) for s in self.sorts]
        return self.make(iter(found))


def form_of(value: Any) -> Form:
    leaves, make = flatten(value)
    structure = repr(make(iter([Star()] * len(leaves))))
    return Form(structure, tuple([sort_of(leaf) for leaf in leaves]), make)


def common(a: Form, b: Form) -> Form | None:
    """The form of values that are one or the other; None if there is none."""
    if a.structure != b.structure:
        return None
    sorts: Sequence[Sort | None] = [joined(*pair) for pair in zip(a.sorts, b.sorts, strict=True)]
    if None in sorts:
        return None
    return a._replace(sorts=tuple(sorts))  # type: ignore[arg-type]
