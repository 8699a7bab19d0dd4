"""Op, the registry, and the way of a general op: check, run, record.

An op is a class in the file of its family. Subclassing registers it: that makes the function, the
method, the in-place variant, the docs entry and the tests. See ``docs/design/ops.md``.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from rushlight import errors as messages
from rushlight.autograd.engine import is_expandable
from rushlight.autograd.modes import local
from rushlight.autograd.tape import (
    Node,
    base_of,
    edge,
    hand_over,
    keep,
    link,
    record,
    record_one,
    record_several,
    steps,
)
from rushlight.errors import user_place
from rushlight.layouts import OutOfMemoryError
from rushlight.ops.elements import chosen
from rushlight.ops.programs import fused, is_large
from rushlight.ops.samples import Fails, S
from rushlight.symbol import Symbol
from rushlight.tensor import LEAF, VIEW, Counter, Tensor, install, new, twin, wrap

ndarray = np.ndarray
TORCH_NAMES = {"axis": "dim", "keepdims": "keepdim"}

registry: dict[str, Op] = {}
"""Every public op by its full name (``add``, ``linalg.inv``)."""

ops = SimpleNamespace()
"""Every public function by its name, for derivative rules and composites: ``ops.cat(...)``."""


class Op:
    """One operation: its kernel, its derivative, its documentation and its tests.

    ``check(*public arguments) -> (operands, attrs)`` validates; ``eager(*arrays, **attrs)`` is the
    NumPy kernel: its positional parameters are the operands, its keyword-only ones the attributes.
    ``vjp(g, y, *operands, **attrs)`` returns one gradient per operand (a bare tensor for one
    operand); or ``vjp_<operand>`` methods return one each, and only those needed run. An operand
    or result whose parameter name begins with an underscore is not kept for backward: the rule
    gets its shape and dtype alone. Gradients may be of the broadcast shape or a wider dtype: the
    engine reduces and casts them to the operand's.
    """

    name: str = ""
    aliases: tuple[str, ...] = ()
    namespace: str = ""  # "" for rl.X, else rl.linalg.X, rl.special.X, …
    method: bool = True  # also Tensor.name
    function: bool = True  # also rl.name
    inplace: bool = False  # also Tensor.name_
    operands: tuple[str, ...] = ()
    differentiable: bool | tuple[int, ...] = True  # which of the results have gradients
    arithmetic: bool = False  # its rules are operators alone: they also run on bare arrays
    rowwise: Mapping[str, str] = {}  # operands whose gradient sums over rows of g and of another
    result: Callable[..., Any] | None = None  # the named tuple of several results
    fused: bool = False  # large operands are given to a compiled program, see ops/programs.py
    sums: bool = True  # such a program, or that of its gradient, adds elements to each other
    samples: Sequence[S] = ()
    errors: Sequence[Fails] = ()

    vjp: Any = None
    call: Callable[..., Any]

    # How loops are made of it, one of these: docs/design/ops.md, "Code generation".
    emit: Any = None  # (b, *scalars, **attrs): one element from one element of each operand
    at: Any = None  # (b, index, *sources, **attrs): the element at an index, from any elements
    folded: Any = None  # (attrs, *shapes): the dims of operand 0 that folds of ``at`` run over
    scatter: Any = None  # (b, *sources, **attrs): a result written to at computed places
    scan: Any = None  # (b, *sources, **attrs): running sums or products
    decompose: Any = None  # (*tensors, **attrs): the op in ops that a graph holds in its place
    once: bool = False  # graphs hold it for ops whose gradient they hold too: it has none itself
    subscripts: Any = None  # (attrs, *shapes): the letters of a product's operands and its result
    library: str = ""  # why none of them: programs call ``eager``
    infer: Any = None  # (arrays, attrs): arrays like the results, of which only the types count
    compute_into: Any = None  # (arrays, attrs, out): ``compute``, its result written to an array
    tried: bool = True  # files are checked by its kernel on zeros, too: it asks about no values
    dynamic: bool = False  # the shape of the result depends on values: it cannot be traced
    title: str = ""  # what messages call it, if users know it by other names

    def __init_subclass__(cls, abstract: bool = False) -> None:
        if not abstract:
            cls().register()

    def register(self) -> None:
        cls = type(self)
        self.name = cls.__dict__.get("name") or snake(cls.__name__)
        self.plans: dict[tuple[bool, ...], Any] = {}
        if not self.operands:
            self.operands = positional_parameters(cls.eager)[1:]
        if self.library:
            self.emit = self.at = None
        ruled = self.vjp is not None or all(hasattr(cls, f"vjp_{o}") for o in self.operands)
        if self.differentiable and not ruled:
            raise TypeError(
                f"{cls.__name__} has no vjp rule; write one or say differentiable = False"
            )
        self.call = self.make()
        publish(self)

    def check(self, *args: Any, **kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        """Public arguments to (operands, attributes), or the error that explains why not."""
        raise NotImplementedError

    def eager(self, *arrays: Any, **attrs: Any) -> Any:
        """The NumPy kernel."""
        raise NotImplementedError

    def make(self) -> Callable[..., Any]:
        """The public function."""
        if not self.fused:
            return self.entry(None)
        plain = self.entry(None)
        plain.__name__ = plain.__qualname__ = self.name
        return self.entry(fused(plain, self.sums))

    def entry(self, large: Callable[..., Any] | None) -> Callable[..., Any]:
        """The public function; ``large`` is what large operands are given to, if it is another."""
        check = self.check

        def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            if kwargs and ("axis" in kwargs or "keepdims" in kwargs):
                kwargs = torch_names(kwargs)
            if large is not None and args and out is None and is_large(args[0]):
                return large(*args, **kwargs)
            operands, attrs = check(*args, **kwargs)
            y = self.apply(operands, attrs)
            return y if out is None else into(out, y, operands)

        function.__wrapped__ = check  # type: ignore[attr-defined]
        type(self).check.__qualname__ = self.name
        return function

    def make_in_place(self) -> Callable[..., Any]:
        """The in-place method."""
        return in_place(self)

    def apply(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """Runs the kernel on checked operands and records it."""
        state = local.state
        if state.trace is not None:
            return self.traced(operands, attrs)
        if len(operands) == 1:
            x = operands[0]
            try:
                y = state.run(self.eager, x._array, **attrs)
            except MemoryError as error:
                raise OutOfMemoryError(f"{self.name}(): {error}") from None
            recording = x._history is not None and state.grad and self.differentiable
        else:
            arrays = [t._array if isinstance(t, Tensor) else t for t in operands]
            try:
                y = state.run(self.eager, *arrays, **attrs)
            except MemoryError as error:
                raise OutOfMemoryError(f"{self.name}(): {error}") from None
            recording = state.grad and self.differentiable and any_tracked(operands)
        if type(y) is tuple:
            results = tuple([wrap(part) for part in y])
            if recording:
                record_several(self, results, operands, attrs)
            return results if self.result is None else self.result(*results)
        t = new(Tensor)
        t._array = y if type(y) is ndarray else np.asarray(y)
        if recording:
            if len(operands) == 1:
                record_one(self, t, operands[0], attrs)
            else:
                record(self, t, operands, attrs)
        return t

    def traced(self, operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """:meth:`apply` inside a trace: the results are symbols."""
        state = local.state
        y = state.trace.run(self, operands, attrs)
        recording = state.grad and self.differentiable and any_tracked(operands)
        if type(y) is tuple:
            results = tuple([wrap(part) for part in y])
            if recording:
                record_several(self, results, operands, attrs)
                state.trace.mark(results)
            return results if self.result is None else self.result(*results)
        t = wrap(y)
        if recording:
            record(self, t, operands, attrs)
            state.trace.mark((t,))
        return t

    def compute(self, arrays: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The results of a graph node: its operands are as a trace has prepared them."""
        return self.eager(*arrays, **attrs)

    def adds_up(self, attrs: Mapping[str, Any]) -> bool:
        """Whether gradients of ``rowwise`` operands, of several uses, are those of all rows."""
        return True

    def installed(self, write: Callable[..., Any] | None) -> None:
        """Called when the op has its names; ``write`` is its in-place method."""

    @functools.cached_property
    def node(self) -> type[Node]:
        """The class that a tape node of this op has when a user looks at it."""
        return type(f"{type(self).__name__}Backward0", (Node,), {})

    @property
    def full_name(self) -> str:
        return f"{self.namespace}.{self.name}" if self.namespace else self.name

    @property
    def docstring(self) -> str | None:
        return type(self).__doc__

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.docstring or "")

    @property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.call)


class Composite(Op, abstract=True):
    """An op that is an expression of others; see :func:`composite`."""

    differentiable = False

    def __init__(self, body: Callable[..., Any], options: dict[str, Any]) -> None:
        self.name = body.__name__.rstrip("_") if body.__name__ != "_" else ""
        self.body = body
        for option, value in options.items():
            setattr(self, option, value)
        self.call = numpy_names(body) if "dim" in all_parameters(body) else body
        publish(self)

    @property
    def docstring(self) -> str | None:
        return self.body.__doc__


def composite(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a plain function of tensors as a public op; options are Op's class attributes."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        return Composite(body, options).call

    return register


def positional_parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's positional parameters; ``inspect`` would slow the import down."""
    code = inspect.unwrap(function).__code__
    starred = code.co_argcount + code.co_kwonlyargcount
    rest = code.co_varnames[starred : starred + bool(code.co_flags & inspect.CO_VARARGS)]
    return (*code.co_varnames[: code.co_argcount], *rest)


def all_parameters(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters that can be given by name."""
    code = inspect.unwrap(function).__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def numpy_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` that also takes ``axis=`` and ``keepdims=``, NumPy's names."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and ("axis" in kwargs or "keepdims" in kwargs):
            kwargs = torch_names(kwargs)
        return function(*args, **kwargs)

    return call


def torch_names(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {TORCH_NAMES.get(name, name): value for name, value in kwargs.items()}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def publish(op: Op) -> None:
    """Gives an op its names: function, method, in-place variant, aliases."""
    call = op.call
    renamed = "<locals>" in call.__qualname__ or call.__name__ != op.name
    call.__name__ = op.name
    call.__qualname__ = op.name
    if renamed or op.namespace:  # pickle looks for it where users find it
        call.__module__ = f"rushlight.{op.namespace}" if op.namespace else "rushlight"
    call.__doc__ = op.docstring
    if op.fused and isinstance(op, Composite):  # programs are called as the function is
        call = op.call = fused(call, op.sums)
    if op.full_name in registry:
        raise TypeError(f"two ops are called {op.full_name}")
    registry[op.full_name] = op
    space = ops
    if op.namespace:
        space = ops.__dict__.setdefault(op.namespace, SimpleNamespace())
    write = op.make_in_place() if op.inplace else None
    if write is not None:
        write.__wrapped__ = call  # type: ignore[attr-defined]
    for name in (op.name, *op.aliases):
        if op.function:
            setattr(space, name, call)
        if op.method:
            setattr(Tensor, name, call)
        if write is not None:
            setattr(Tensor, f"{name}_", write)
    op.installed(write)


def any_tracked(operands: Sequence[Any]) -> bool:
    return any([isinstance(t, Tensor) and t._history is not None for t in operands])


def in_place(op: Op) -> Callable[..., Any]:
    """``x.name_(...)``: computes ``name(x, ...)`` and writes it over ``x``.

    A program would keep what is written over.
    """
    composite = isinstance(op, Composite)
    call = op.entry(None) if op.fused and not composite else op.call

    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_writable(self, op.name)
        history = edge(self) if local.state.grad else None
        source = alias(self, history)
        if composite and history is not None:
            source = source.clone()
        return overwrite(self, call(source, *args, **kwargs), source)

    write.__name__ = write.__qualname__ = f"{op.name}_"
    write.__doc__ = f"In-place version of :meth:`{op.name}`."
    return write


def alias(t: Tensor, history: Any) -> Tensor:
    """A second tensor over the elements of ``t``, with its present history."""
    same = twin(t)
    same._history = history
    return same


def check_writable(t: Tensor, name: str) -> None:
    """An error if ``t`` is a leaf that wants a gradient, or shares elements with itself."""
    if local.state.grad:
        if t._history is LEAF:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation. "
                f"Update it inside `with no_grad():`. [{name}_]"
            )
        base = t._base
        if base is not None and base._history is LEAF and t._history is VIEW:
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place "
                f"operation. Update it inside `with no_grad():`. [{name}_]"
            )
        if base is not None and t._view is None and base.requires_grad:
            raise unrecorded_view(name)
    array = t._array
    if not array.flags.writeable:
        if 0 in array.strides and array.size > 1:
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to "
                f"a single memory location. Please clone() the tensor before performing the "
                f"operation. [{name}_ on shape {list(array.shape)}, strides {list(t.stride())}]"
            )
        raise RuntimeError(f"{name}_: the tensor shares memory with a read-only array")


def unrecorded(t: Tensor) -> bool:
    """Whether ``t`` is a view that was made without recording."""
    return t._base is not None and t._view is None


def unrecorded_view(name: str) -> RuntimeError:
    return RuntimeError(
        "A view was created in no_grad mode (or by a custom Function) and is being modified "
        f"inplace with grad mode enabled. [{name}_] Make the view with gradients enabled, or write "
        "inside no_grad, or clone() it."
    )


def overwrite(t: Tensor, y: Tensor, source: Tensor | None = None) -> Tensor:
    """Writes ``y`` into the elements of ``t`` and gives ``t`` its history.

    ``source`` stands for the old ``t`` among the operands of ``y``: if backward keeps it, it must
    keep the old elements.
    """
    target, value = t._array, y._array
    if value.shape != target.shape:
        if not is_expandable(value.shape, target.shape):
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape "
                f"{list(value.shape)}"
            )
    if value.dtype is not target.dtype and not can_store(y, t):
        raise RuntimeError(
            f"result type {y.dtype.storage_name} can't be cast to the desired output type "
            f"{t.dtype.storage_name}"
        )
    state = local.state
    node = edge(y) if state.grad else None
    if node is not None and unrecorded(t):
        raise unrecorded_view(node.name())
    if isinstance(node, Node) and source is not None and any(s is source for s in node.saved):
        old = alias(source, edge(source))
        old._array = copied(source._array)
        node.saved = tuple([old if s is source else s for s in node.saved])
    if state.trace is not None:
        state.trace.store(t, state.trace.symbol(y))
    else:
        state.run(np.copyto, target, value, casting="unsafe")
    touched(t)
    if node is not None or (state.grad and t._history is not None):
        rebase(t, node)
    return t


def copied(array: Any) -> Any:
    """The elements of an array, or the value of a symbol, as they are now."""
    return array.trace.snapshot(array) if type(array) is Symbol else array.copy()


def can_store(y: Tensor, t: Tensor) -> bool:
    source, target = y.dtype, t.dtype
    return target.category >= source.category and (target.category > 0 or source.category == 0)


def touched(t: Tensor) -> None:
    """Counts a write to the storage of ``t``, and where the user asked for it."""
    shared = t._counter
    if shared is None:
        shared = t._counter = Counter()
    shared.value += 1
    shared.site = user_place()


def rebase(t: Tensor, history: Any) -> None:
    """Makes ``history`` that of ``t`` after a write, and of the base that ``t`` is a view of."""
    base = t._base
    if base is None:
        hand_over(t, t._history, history)
        t._history = history
        return
    if t._view is None:
        if history is None:
            return
        raise unrecorded_view(history.name())
    base = base_of(t)
    before = edge(base)
    if history is None and before is None:
        return
    base._history = link(
        view_scatter, (before, history), (None, t), {"chain": t._view}, base._array
    )
    hand_over(base, before, base._history)
    hand_over(t, t._view_node, history)
    t._view_node, t._view_version = history, t._counter.value


install(_rebase=rebase)  # for custom functions that write to their inputs


class ViewScatter(Op):
    """A copy of ``base`` whose part seen through a chain of view ops is replaced by ``source``."""

    function = method = False

    def check(self, base, source, chain):
        return (base, source), {"chain": chain}

    def eager(self, base, source, *, chain):
        y = base.copy()
        y.setflags(write=True)
        part = y
        for op, attrs in steps(chain):
            part = op.eager(part, **attrs)
        part[...] = source
        return y

    def at(self, b, i, base, source, *, chain):
        conditions, index, shape = [], i, base.shape
        views = [*steps(chain)]
        for number, (op, attrs) in enumerate(views, 1):
            holds, index = op.seen(b, index, shape, **attrs)
            conditions += holds
            if number < len(views):
                shape = b.shape_of_view(op, shape, attrs)
        return chosen(b, conditions, source, index, lambda: base[i])

    def vjp_base(self, g, _y, _base, _source, *, chain):
        part = g
        for op, attrs in steps(chain):
            part = op.apply((part,), attrs)
        return view_scatter.call(g, ops.zeros_like(part), chain)

    def vjp_source(self, g, _y, _base, _source, *, chain):
        for op, attrs in steps(chain):
            g = op.apply((g,), attrs)
        return g


view_scatter = registry["view_scatter"]
view_scatter.node.__name__ = "CopySlices"  # PyTorch's name


def into(out: Any, y: Any, operands: Sequence[Any] = ()) -> Any:
    """Stores ``y`` in the tensor(s) given as ``out=``."""
    if isinstance(y, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(y):
            raise TypeError(f"out= expects {len(y)} tensors, got {messages.kind(out)}")
        for target, part in zip(out, y, strict=True):
            into(target, part, operands)
        return type(y)(*out) if type(y) is not tuple else tuple(out)
    if not isinstance(out, Tensor):
        raise TypeError(f"argument 'out' must be Tensor, not {messages.kind(out)}")
    if local.state.grad and (y.requires_grad or out.requires_grad):
        raise RuntimeError(
            "out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    if out._array.shape != y._array.shape:
        out.resize_(y._array.shape)
    return overwrite(out, y)


def axis(dim: Any, ndim: int) -> int:
    """A dimension counted from the front; ``IndexError`` if there is none such."""
    try:
        d = dim.__index__()
    except AttributeError:
        raise TypeError(f"argument 'dim' must be int, not {messages.kind(dim)}") from None
    limit = ndim or 1
    if not -limit <= d < limit:
        raise messages.axis_range(d, ndim)
    return d + limit if d < 0 else d


def axes(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions counted from the front, each once."""
    wanted = [dim] if isinstance(dim, int) else dim
    found = tuple([axis(d, ndim) for d in wanted])
    if len(set(found)) != len(found):
        twice = next(d for d in found if found.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found


def need_tensor(op: str, value: Any, argument: str = "input", position: int = 1) -> Tensor:
    """``value`` if it is a tensor, else the ``TypeError`` that names the argument."""
    if isinstance(value, Tensor):
        return value
    raise messages.expected_tensor(op, argument, position, value)


__all__ = [
    "Composite",
    "Fails",
    "Op",
    "S",
    "axes",
    "axis",
    "composite",
    "in_place",
    "into",
    "keep",
    "need_tensor",
    "ops",
    "overwrite",
    "publish",
    "rebase",
    "registry",
    "touched",
]
