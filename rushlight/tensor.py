"""Tensor: an array with a version, perhaps a view of another, perhaps with a history.

Operators and most methods are installed by the op registry (``rushlight.ops``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, SupportsIndex
from weakref import ref

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.device import cpu, device
from rushlight.symbol import Symbol

new = object.__new__
NOT_A_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
    "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
    "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead."
)
LEAF = "leaf"
VIEW = "view"
HELD = (np.ndarray, Symbol)


class Counter:
    """How often a storage was written to; one counter serves all views of the storage."""

    value: int = 0
    site: tuple[str, int] | None = None  # file and line of the user that wrote last
    kin: Kin | None = None  # who else may write to the storage


class Kin:
    """Who writes to one storage without counting it in each other's versions.

    ``tensor.data`` has a counter of its own, as has a tensor whose ``data`` was set to another one;
    NumPy and other libraries that the memory was lent to do not count at all.
    """

    __slots__ = ("lent", "members", "met")

    def __init__(self, first: Counter) -> None:
        self.members = [ref(first)]
        self.met = 0  # how often somebody was added
        self.lent = False

    def stamp(self) -> Any:
        """Equal at two times if nobody has written in between; never if that is not known."""
        if self.lent:
            return object()
        return self.met, *[c.value for known in self.members if (c := known()) is not None]

    def take(self, other: Counter) -> None:
        """Adds a counter of the same storage, with all its kin."""
        theirs = other.kin
        if theirs is self:
            return
        self.members = [known for known in self.members if known() is not None]
        self.met += 1
        if theirs is None:
            self.members.append(ref(other))
            other.kin = self
            return
        self.met += theirs.met  # so that no stamp is one that they have had
        self.lent |= theirs.lent
        for known in theirs.members:
            c = known()
            if c is not None:
                self.members.append(known)
                c.kin = self


class Size(tuple):
    """The shape of a tensor: a tuple of ints.

    >>> rl.zeros(2, 3).shape
    rushlight.Size([2, 3])
    """

    __slots__ = ()

    def numel(self) -> int:
        count = 1
        for size in self:
            count *= size
        return count

    def __repr__(self) -> str:
        return f"{config.public_name}.Size({list(self)})"

    def __add__(self, other: tuple[Any, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: tuple[Any, ...]) -> Size:
        return Size(other + tuple(self))

    def __mul__(self, count: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, count))

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item


class Tensor:
    """A multi-dimensional array of one dtype that remembers how it was computed.

    >>> x = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    _array: Any  # a NumPy array; while a function is traced, a Symbol
    _history: Any = None  # None, LEAF (it wants a gradient), the tape node that made it, or VIEW
    _grad: Tensor | None = None
    _counter: Any = None  # Counter, once written to, viewed or kept; None means version 0
    _base: Any = None  # the tensor it is a view of, never itself a view
    _view: Any = None  # (_view before, op, attrs) from its base; None if made without recording
    _view_node: Any = None  # a VIEW's tape node, as far as _view_version
    _view_version: int = 0
    _hooks: dict[int, Callable[..., Any]] | None = None
    _accumulate_hooks: dict[int, Callable[..., Any]] | None = None

    __array_priority__ = 1000
    __hash__ = object.__hash__

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return Size(self._array.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        return dtypes.from_numpy(self._array.dtype)

    @property
    def device(self) -> device:
        """Where the elements are."""
        return cpu

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self._array.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._array.nbytes

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to or through this tensor."""
        if self._history is not VIEW:
            return self._history is not None
        return self._view_node is not None or self._base.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Asks for (or renounces) a gradient of this leaf, and returns it."""
        if requires_grad and self._array.dtype.kind not in "fcV":
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients, "
                f"got {self.dtype}"
            )
        if not self.is_leaf:
            if requires_grad:
                return self
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        if requires_grad:
            self._history = LEAF
        elif self._history is LEAF:
            self._history = None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether it was made by the user rather than by a recorded op."""
        history = self._history
        if history is VIEW:
            made_since = self._view_version != self._counter.value
            return not self.requires_grad or (self._view_node is None and not made_since)
        return history is None or history is LEAF

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` accumulated, or None."""
        trace = local.state.trace
        g = self._grad if trace is None else trace.read_gradient(self)
        if trace is None and g is not None and type(g._array) is Symbol:
            g._array.wait()
            g = self._grad
        if g is None and self._history is not None and not self.is_leaf and not self.retains_grad:
            warnings.warn(NOT_A_LEAF, stacklevel=2)
        return g

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if value._array.shape != self._array.shape:
                raise RuntimeError(
                    f"assigned grad has data of a different size: {list(value.shape)}, "
                    f"expected {list(self.shape)}"
                )
            if value._array.dtype != self._array.dtype:
                raise RuntimeError(
                    f"assigned grad has data of a different type: {value.dtype}, "
                    f"expected {self.dtype}"
                )
        if local.state.trace is not None:
            local.state.trace.set_gradient(self)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def data(self) -> Tensor:
        """The same elements without history and without version checks."""
        t = twin(self)
        relate(self, t)
        return t

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"data must be a Tensor, not {type(value).__name__}")
        if local.state.trace is not None:
            local.state.trace.rebind(self, value)
        else:
            self._array = value._array
            relate(self, value)

    @property
    def _version(self) -> int:
        """How often the storage was written to in place."""
        return 0 if self._counter is None else self._counter.value

    def _is_view(self) -> bool:
        return self._base is not None

    def detach(self) -> Tensor:
        """The same elements, sharing memory, without history."""
        t = twin(self)
        if self._counter is None:
            self._counter = Counter()
        t._counter = self._counter
        return t

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self._array.size

    nelement = numel
    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return Size(self._array.shape)
        shape = self._array.shape
        if not -len(shape) <= dim < len(shape):
            limit = max(len(shape), 1)
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], "
                f"but got {dim})"
            )
        return shape[dim]

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))


def install(**attributes: Any) -> None:
    """Gives Tensor these methods and properties: how later modules add to it."""
    for name, value in attributes.items():
        setattr(Tensor, name, value)


def wrap(array: Any) -> Tensor:
    """A tensor over ``array``, sharing its memory; NumPy scalars become 0-d arrays."""
    t = new(Tensor)
    t._array = array if type(array) in HELD else np.asarray(array)
    return t


def twin(t: Tensor) -> Tensor:
    """A second tensor over the elements of ``t``; a trace knows them as those of ``t``."""
    trace = local.state.trace
    if trace is not None:
        return wrap(trace.symbol(t))
    if type(t._array) is Symbol:
        t._array.wait()
    return wrap(t._array)


def relate(a: Tensor, b: Tensor) -> None:
    """Notes that two tensors with counters of their own are over one storage."""
    if b._counter is None:
        b._counter = Counter()
    if a._counter is not b._counter:
        kin_of(a).take(b._counter)


def lend(t: Tensor) -> Tensor:
    """Notes that the memory of ``t`` is known outside, where nobody counts what is written."""
    kin_of(t).lent = True
    return t


def kin_of(t: Tensor) -> Kin:
    """The kin of the counter of ``t``."""
    own = t._counter
    if own is None:
        own = t._counter = Counter()
    if own.kin is None:
        own.kin = Kin(own)
    return own.kin


def literal(array: np.ndarray) -> Tensor:
    """A tensor over elements that nothing else knows of: inside a trace, a constant."""
    trace = local.state.trace
    return wrap(array if trace is None else trace.constant(array))
