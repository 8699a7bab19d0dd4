"""What all views share: the tensor over another look at an array, and the shapes users give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import errors as messages
from rushlight.autograd.modes import local
from rushlight.autograd.tape import Node, Plan, edge
from rushlight.dims import index
from rushlight.errors import user_line
from rushlight.layouts import MOST_DIMENSIONS
from rushlight.ops.base import Op, ops, touched
from rushlight.symbol import Symbol
from rushlight.tensor import LEAF, VIEW, Counter, Tensor, install, new

ndarray = np.ndarray
ALL = slice(None)
NOTHING = (None,)
ALWAYS: tuple[Any, ...] = ()
"""The conditions of a view that sees every element."""
INSERT: dict[int, tuple[Any, ...]] = {d: (ALL,) * d + (None,) for d in range(MOST_DIMENSIONS)}
INSERT.update({-1 - d: (..., None, *[ALL] * d) for d in range(MOST_DIMENSIONS)})
"""The index that makes a dimension of size 1 at a position, from the front or the back."""
WRONG = (AttributeError, TypeError, ValueError, IndexError, KeyError)
"""What NumPy, or the lack of an array, says of arguments that ``check`` will explain."""


def viewed(op: Any, x: Tensor, array: ndarray, attrs: dict[str, Any]) -> Tensor:
    """The tensor over ``array``, which the view ``op`` made of ``x``."""
    state = local.state
    v = new(Tensor)
    if state.trace is not None:
        if state.trace.extents is not None:
            attrs = op.explicit(x._array.shape, attrs)
        array = state.trace.view(op, x, array, attrs)
    v._array = array
    shared = x._counter
    if shared is None:
        shared = x._counter = Counter()
    v._counter = shared
    base = x._base
    if not state.grad:
        v._base = x if base is None else base
        return v
    v._history = VIEW
    v._view_version = shared.value
    if base is None or x._history is LEAF:
        v._base, v._view = x, (None, op, attrs)
    else:
        v._base = base
        if x._view is not None:
            v._view = (x._view, op, attrs)
    history = x._history
    if history is not None:
        if history is LEAF:
            history = x
        elif history is VIEW:
            history = edge(x)
        if history is not None:
            v._view_node = view_node(op, history, v._array, attrs)
    return v


def view_node(op: Any, history: Any, array: ndarray, attrs: dict[str, Any]) -> Node:
    """The tape node of a view: it keeps nothing, so :func:`link` has nothing to look for."""
    try:
        plan = op.plans[(True,)]
    except KeyError:
        plan = op.plans[(True,)] = Plan(op, (True,))
    node = Node(plan, (history,), NOTHING, array, attrs)
    if local.state.anomaly:
        node.where = user_line()
    return node


class View(Op, abstract=True):
    """Another look at the same elements: ``eager`` returns a NumPy view of its one operand."""

    operands = ("x",)
    origin: Any = None  # (b, i, shape, **attrs): where in x of this shape the element at i is from
    stays: bool = False  # always seen where its operand lies, since it repeats elements
    seen: Any = None  # (b, j, shape, **attrs): whether and where the view sees the element at j

    def explicit(self, shape: Sequence[Any], attrs: dict[str, Any]) -> dict[str, Any]:
        """The attributes without positions that are counted from the end, or beyond it.

        In a trace for all sizes, comparisons with a size are conditions of the graph.
        """
        return attrs

    def at(self, b, i, x, **attrs):
        return x[self.origin(b, i, x.shape, **attrs)]

    def make(self) -> Callable[..., Any]:
        op, check, eager = self, self.check, self.eager

        def function(*args: Any, **kwargs: Any) -> Tensor:
            (x,), attrs = check(*args, **kwargs)
            return viewed(op, x, eager(looked_at(x), **plain(x, attrs)), attrs)

        function.__wrapped__ = check  # type: ignore[attr-defined]
        type(self).check.__qualname__ = self.name
        return function

    def apply(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Tensor:
        x = operands[0]
        return viewed(self, x, self.eager(looked_at(x), **plain(x, attrs)), attrs)


def plain(x: Tensor, attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes with the sizes of this call."""
    array = x._array
    if type(array) is not Symbol:
        return present(attrs)
    if array.trace.extents is None:
        return attrs
    return {name: array.plain(value) for name, value in attrs.items()}


def present(value: Any) -> Any:
    """A value with the sizes of this call in the places of those that may change."""
    trace = local.state.trace
    return value if trace is None or trace.extents is None else trace.extents.plain(value)


def looked_at(x: Tensor) -> ndarray:
    """The array to take a view of; of a symbol, the one that it stands for."""
    array = x._array
    return array.template if type(array) is Symbol else array


def along(dim: int, part: Any) -> tuple[Any, ...]:
    """The index of ``part`` in dimension ``dim``, and of all in the dimensions before."""
    return (*[ALL] * dim, part)


def parts(x: ndarray, lengths: Sequence[int], dim: int) -> list[ndarray]:
    """Consecutive parts of an array along a dimension."""
    end = 0
    return [x[along(dim, slice(end, end := end + n))] for n in lengths]


def as_shape(name: str, shape: tuple[Any, ...]) -> tuple[int, ...]:
    """The ints of ``f(2, 3)``, ``f((2, 3))`` and ``f([2, 3])`` alike."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = tuple(shape[0])
    try:
        return tuple([index(n) for n in shape])
    except TypeError:
        kinds = ", ".join([messages.kind(n) for n in shape])
        raise TypeError(f"{name}() takes ints or a tuple of ints, but got ({kinds})") from None


def changes_metadata(name: str) -> None:
    """Installs ``Tensor.name_``, which makes a tensor the view of itself that ``name`` returns."""
    call = getattr(ops, name)

    def change(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        recording = local.state.grad
        if recording and self._history is LEAF:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation. "
                f"[{name}_]"
            )
        if local.state.trace is not None:
            local.state.trace.refuse_reshaping(self, f"{name}_")
        known = self._history is not None or self._counter is not None
        before = new(Tensor)
        before.__dict__.update(self.__dict__)
        view = call(before, *args, **kwargs)
        if recording and known:
            self.__dict__.update(view.__dict__)
        else:
            self._array = view._array
        touched(self)
        self._view_version = self._version
        return self

    change.__name__ = change.__qualname__ = f"{name}_"
    change.__wrapped__ = call  # type: ignore[attr-defined]
    change.__doc__ = f"In-place version of :meth:`{name}`: the memory stays, its meaning changes."
    install(**{change.__name__: change})
