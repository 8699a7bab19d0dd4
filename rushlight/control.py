"""Control flow that follows values: branches and loops as functions of tensors.

In dynamic mode they are plain Python, and the tape differentiates what ran. A compiled function
holds them as branches and loops (``graph/loops.py``), which are neither decided nor unrolled while
it is traced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.dims import is_extent
from rushlight.errors import user_line
from rushlight.func.trees import flatten
from rushlight.ops import ops
from rushlight.tensor import LEAF, Tensor


class Graphs:
    """Where this layer finds how graphs hold control flow; set by the package."""

    load: Callable[[], Any] | None = None


def traced() -> Any:
    """The functions that trace control flow; None in dynamic mode."""
    if local.state.trace is None:
        return None
    assert Graphs.load is not None
    return Graphs.load()


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """``true_fn(*operands)`` if ``pred`` holds, else ``false_fn(*operands)``.

    Only that branch runs. In a compiled function both must return tensors of the same types, in
    the same containers.

    Args:
        pred: a bool, or a tensor of one element.
        true_fn, false_fn: functions of the operands; they may use other tensors, too.
        operands: anything. One tuple alone is spread over as many parameters, as PyTorch has it.

    >>> x = rl.tensor([3.0, -5.0])
    >>> rl.cond(x.sum() > 0, lambda x: x.sqrt(), lambda x: -x, x)
    tensor([-3.,  5.])
    """
    return choose("cond", truth("cond", pred), (false_fn, true_fn), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index out of range means the first or last branch.

    Args:
        index: an int, or an integer tensor of one element.
        branches: functions that return tensors of the same types.
        operands: as for :func:`cond`.

    >>> rl.switch(rl.tensor(1), [lambda x: x, lambda x: x * 10, lambda x: x * 100], rl.ones(2))
    tensor([10., 10.])
    """
    if not branches:
        raise ValueError("switch: there must be at least one branch")
    if isinstance(index, Tensor):
        if index.numel() != 1 or index.is_floating_point() or index.is_complex():
            raise TypeError(f"switch: index must be one integer, got {show(index)}")
        index = index.reshape(())
        if traced() is None:
            index = int(index)
    elif not isinstance(index, (int, np.integer)):
        raise TypeError(f"switch: index must be one integer, got {show(index)}")
    return choose("switch", index, tuple(branches), operands)


def choose(name: str, index: Any, branches: Sequence[Callable[..., Any]], operands: Any) -> Any:
    """The result of one of ``branches``; which one, a tensor knows only in a trace."""
    if len(operands) == 1 and takes(branches[-1], operands[0]):
        operands = operands[0]
    if isinstance(index, Tensor):
        return traced().choose(name, index, branches, operands)
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    result = Tree(chosen(*operands), f"{name}: a branch returns")
    return result.build(own(result.leaves, flatten(operands)[0]))


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> Any:
    """Replaces the carried values by ``body_fn`` of them as long as ``cond_fn`` of them holds.

    A tuple or list is spread over the parameters of both functions if they take as many, as in
    PyTorch; else they get the carried value whole, as in JAX.

    Args:
        cond_fn: returns a bool, or a tensor of one element.
        body_fn: returns the next carried values, which keep their shapes and dtypes.
        carried_inputs: tensors and numbers, in tuples, lists or dicts. They are values: what the
            body writes to one in place is not seen outside.

    >>> def collatz(n, steps):
    ...     return rl.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1
    >>> rl.while_loop(lambda n, steps: n != 1, collatz, (rl.tensor(27), rl.tensor(0)))
    (tensor(1), tensor(111))
    """
    spread = takes(cond_fn, carried_inputs)
    carried = Tree(carried_inputs, "while_loop: a carried value is")

    def test(leaves: Sequence[Tensor]) -> Any:
        value = carried.build(leaves)
        return truth("while_loop: cond_fn", cond_fn(*value) if spread else cond_fn(value))

    def body(leaves: Sequence[Tensor]) -> list[Tensor]:
        value = carried.build(leaves)
        after = body_fn(*value) if spread else body_fn(value)
        if spread and len(value) == 1 and isinstance(after, Tensor):
            after = (after,)
        if spread and isinstance(after, (tuple, list)):
            after = type(carried_inputs)(after)
        return carried.again(after, "while_loop: body_fn")

    graphs = traced()
    if graphs is not None:
        return carried.build(graphs.repeat(test, body, carried.leaves))
    leaves = [t.clone() for t in carried.leaves]  # the body may write to them
    while test(leaves):
        leaves = values(body(leaves))
    return carried.build(own(leaves, ()))


def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any) -> Any:
    """``val = body_fun(i, val)`` for ``i`` from ``lower`` up to, and not including, ``upper``.

    Args:
        lower, upper: ints, or integer tensors of one element. A compiled function saves what
            gradients need at once if they are ints; for tensors it runs the loop once more.
        body_fun: gets the index, a 0-d tensor of int64, and the carried value.
        init_val: tensors and numbers, in tuples, lists or dicts.

    >>> rl.fori_loop(1, 6, lambda i, product: product * i, rl.tensor(1))
    tensor(120)
    """
    for bound in (lower, upper):
        if kind_of_bound(bound) >= dtypes.FLOAT:
            got = bound.dtype if isinstance(bound, Tensor) else bound.__class__.__name__
            raise TypeError(f"fori_loop: a bound must be an int or an integer tensor, not {got}")
    graphs = traced()
    if graphs is not None and (isinstance(lower, Tensor) or isinstance(upper, Tensor)):
        begin, end = [tensor_of(x).to(dtypes.int64).reshape(()) for x in (lower, upper)]
        return while_loop(
            lambda i, _: i < end,
            lambda i, value: (i + 1, body_fun(i, value)),
            (begin, init_val),
        )[1]
    first, last = whole(lower), whole(upper)
    if last <= first:
        return Tree(init_val, "fori_loop: a carried value is").whole
    steps = ops.arange(first, last)
    return sweep("fori_loop", lambda value, i: (body_fun(i, value), None), init_val, steps)[0]


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    *,
    dim: int = 0,
) -> tuple[Any, Any]:
    """A loop over the rows of ``xs``: the last carried value, and all ``y`` stacked.

    ``carry, y = f(carry, x)`` for each row ``x``, as in JAX and PyTorch.

    Args:
        f: returns the next carried value, of the same shapes and dtypes, and a result for the row
            (or None).
        init: the first carried value: tensors and numbers, in tuples, lists or dicts.
        xs: tensors of equal length, in tuples, lists or dicts; or None, and ``f`` gets None.
        length: how many rows there are; needed if ``xs`` is None.
        reverse: whether to begin with the last row. Results are in the order of the rows.
        dim: the dimension along which ``xs`` has its rows, and results get theirs.

    >>> rl.scan(lambda total, x: (total + x, total * x), rl.tensor(0), rl.arange(1, 5))
    (tensor(10), tensor([ 0,  2,  9, 24]))
    """
    if dim:
        xs = Tree(xs, "scan: xs is")
        xs = xs.build([x.movedim(dim, 0) for x in xs.leaves])
    carry, ys = sweep("scan", f, init, xs, length, reverse)
    if dim:
        stacked = Tree(ys, "scan: f returns")
        ys = stacked.build([y.movedim(0, dim) for y in stacked.leaves])
    return carry, ys


def foldl(fn: Callable[..., Any], elems: Any, initializer: Any = None) -> Any:
    """``value = fn(value, row)`` for all rows of ``elems``, from the first to the last.

    Args:
        fn: returns the next value, of the same shapes and dtypes.
        elems: tensors of equal length, in tuples, lists or dicts.
        initializer: the first value; without one it is the first row.

    >>> rl.foldl(lambda value, x: 2 * value + x, rl.tensor([1, 0, 1, 1]))
    tensor(11)
    """
    if initializer is None:
        rows = Tree(elems, "foldl: elems is")
        if not rows_of("foldl", rows.leaves, None):
            raise ValueError("foldl: without an initializer there must be at least one row")
        initializer = rows.build([x[0] for x in rows.leaves])
        elems = rows.build([x[1:] for x in rows.leaves])
        if not Tree(elems, "foldl: elems is").leaves[0].shape[0]:
            return initializer
    return sweep("foldl", lambda value, x: (fn(value, x), None), initializer, elems)[0]


def map_fn(fn: Callable[..., Any], elems: Any) -> Any:
    """``fn`` of each row of ``elems``, stacked: one row after the other, unlike :func:`vmap`.

    Args:
        fn: a function of one row that returns tensors and numbers, in tuples, lists or dicts.
        elems: tensors of equal length, in tuples, lists or dicts.

    >>> rl.map_fn(lambda row: row.flip(0) + row.sum(), rl.arange(6).reshape(2, 3))
    tensor([[ 5,  4,  3],
            [17, 16, 15]])
    """
    return sweep("map_fn", lambda _, x: (None, fn(x)), None, elems)[1]


def sweep(
    name: str,
    f: Callable[..., Any],
    init: Any,
    xs: Any,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """:func:`scan` along the first dimension, for the functions that are one."""
    carried, rows = Tree(init, f"{name}: a carried value is"), Tree(xs, f"{name}: xs is")
    count = rows_of(name, rows.leaves, length)
    shown: list[Tree] = []  # what the first row gave

    def body(leaves: Sequence[Tensor], row: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        result = f(carried.build(leaves), rows.build(row))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                f"{name}: f must return two values, (carry, y), got {show(result)}: "
                "return carry, None if there is no result for a row"
            )
        after = carried.again(result[0], f"{name}: f")
        if not shown:
            shown.append(Tree(result[1], f"{name}: f returns"))
            return after, shown[0].leaves
        return after, shown[0].again(result[1], f"{name}: f", "a result for a row")

    graphs = traced()
    if graphs is not None or not count:
        assert Graphs.load is not None
        leaves, stacks = Graphs.load().sweep(body, carried.leaves, rows.leaves, count, reverse)
        return carried.build(leaves), shown[0].build(stacks)
    leaves, parts = [t.clone() for t in carried.leaves], []  # the body may write to them
    for i in reversed(range(count)) if reverse else range(count):
        before, (leaves, y) = leaves, body(leaves, [x[i] for x in rows.leaves])
        parts.append(own(y, before))  # as it is now: a later step may write to it
        leaves = values(leaves)
    if reverse:
        parts.reverse()
    stacked = [ops.stack(column) for column in zip(*parts, strict=True)]
    return carried.build(own(leaves, ())), shown[0].build(stacked)


def rows_of(name: str, leaves: Sequence[Tensor], length: int | None) -> int:
    """How many rows all of ``leaves`` have; an error if that is not clear."""
    for x in leaves:
        if not x.ndim:
            raise ValueError(f"{name}: xs must have rows, got a tensor without dimensions")
    sizes = [x.shape[0] for x in leaves] + ([] if length is None else [whole(length)])
    if not sizes:
        raise ValueError(f"{name}: without xs, length= says how many steps there are")
    if any([n != sizes[0] for n in sizes]):
        raise ValueError(f"{name}: xs (and length=) must agree in the number of rows, got {sizes}")
    if sizes[0] < 0:
        raise ValueError(f"{name}: length= must not be negative, got {sizes[0]}")
    return sizes[0]


def kind_of_bound(n: Any) -> int:
    """The category of dtypes that a number, or a tensor of one, belongs to."""
    if isinstance(n, Tensor):
        return n.dtype.category
    return dtypes.INT if is_extent(n) or isinstance(n, (int, np.integer)) else dtypes.FLOAT


def whole(n: Any) -> int:
    """An int; a size that may change stays one."""
    return n if is_extent(n) else int(n)


class Star:
    """Stands for a tensor where a structure is written out."""

    def __repr__(self) -> str:
        return "*"


class Type:
    """Shows as the type of a tensor, where a structure is written out."""

    def __init__(self, t: Tensor) -> None:
        shape: Any = t.shape
        sizes = [str(n.dim) if is_extent(n) else str(n) for n in shape]
        self.text = f"{t.dtype.name}[{', '.join(sizes)}]"

    def __repr__(self) -> str:
        return self.text


class Tree:
    """Tensors in tuples, lists and dicts; numbers become tensors, None stays.

    >>> tree = Tree({"a": rl.zeros(2), "b": (1, None)}, "it is")
    >>> tree
    {'a': float32[2], 'b': (int64[], None)}
    >>> tree.build("xy")
    {'a': 'x', 'b': ('y', None)}
    """

    __slots__ = ("empty", "leaves", "make", "structure")

    def __init__(self, value: Any, what: str) -> None:
        found, self.make = flatten(value)
        self.empty = [x is None for x in found]
        self.leaves = [tensor_of(x, what) for x in found if x is not None]
        self.structure = repr(self.build([Star()] * len(self.leaves)))

    def build(self, leaves: Iterable[Any]) -> Any:
        """Such a tree of other tensors."""
        rest = iter(leaves)
        return self.make(iter([None if empty else next(rest) for empty in self.empty]))

    @property
    def whole(self) -> Any:
        return self.build(self.leaves)

    def again(self, value: Any, who: str, what: str = "a carried value") -> list[Tensor]:
        """The tensors of ``value``; an error that names both types if it is not such a tree."""
        after = Tree(value, f"{who} returns")
        same = self.structure == after.structure and list(map(type_of, self.leaves)) == list(
            map(type_of, after.leaves)
        )
        if not same:
            raise TypeError(
                f"{who} must keep the type of {what}: it was {self}, and {after} was returned  "
                f"[{user_line()}]"
            )
        return after.leaves

    def __repr__(self) -> str:
        return repr(self.build(map(Type, self.leaves)))


def own(results: Sequence[Tensor], given: Iterable[Any]) -> list[Tensor]:
    """Results that share no memory with what was given, or what is written to: values."""
    known = set(map(id, given))
    return [t.clone() if id(t) in known or is_shared(t) else t for t in results]


def is_shared(t: Tensor) -> bool:
    """Whether a tensor is a view, a parameter, or one that was written to."""
    return is_written(t) or t._base is not None or t._history is LEAF


def is_written(t: Tensor) -> bool:
    return t._counter is not None and t._counter.value > 0


def values(leaves: Sequence[Tensor]) -> list[Tensor]:
    """What the next step is given: it may write to that once more."""
    return [t.clone() if is_written(t) else t for t in leaves]


def type_of(t: Tensor) -> tuple[Any, Any]:
    return t.dtype, t._array.shape


def tensor_of(x: Any, what: str = "it is") -> Tensor:
    """A tensor, or a number as one."""
    if isinstance(x, Tensor):
        return x
    if isinstance(x, float) and local.state.trace is not None:
        return ops.ones(()) * x  # it may be another number at each call
    if isinstance(x, (Number, np.generic)):
        return ops.full((), x.item() if isinstance(x, np.generic) else x)
    raise TypeError(f"{what} a {type(x).__name__}: it must be a tensor, a number or None")


def truth(name: str, pred: Any) -> Any:
    """The answer to a condition: a bool; in a trace, a tensor may give it later."""
    if not isinstance(pred, Tensor):
        if isinstance(pred, (bool, int, float, np.bool_)):
            return bool(pred)
        raise TypeError(f"{name}: the condition must be one truth value, got {show(pred)}")
    if pred.numel() != 1:
        raise TypeError(
            f"{name}: the condition must be one truth value, got {show(pred)}: use pred.all() or "
            "pred.any(), or rl.where(pred, a, b) to choose for each element"
        )
    if traced() is None:
        return bool(pred)
    return pred.reshape(()) != 0 if pred.dtype is not dtypes.bool_ else pred.reshape(())


def show(x: Any) -> str:
    return repr(Type(x)) if isinstance(x, Tensor) else f"{type(x).__name__} {x!r}"


def takes(function: Callable[..., Any], operands: Any) -> bool:
    """Whether the elements of ``operands`` are meant to be arguments of their own."""
    if type(operands) not in (tuple, list):
        return False
    try:
        inspect.signature(function).bind(*operands)
    except TypeError:
        return False
    except ValueError:  # a function that does not tell what it takes
        return len(operands) == 1
    return True
