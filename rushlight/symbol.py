"""Symbol: what a tensor holds instead of an array while a function is traced."""

from __future__ import annotations

import threading
from math import prod
from typing import Any, NamedTuple, NoReturn

import numpy as np

from rushlight.autograd.modes import local
from rushlight.errors import user_line

PATIENCE = 10.0  # seconds that another thread waits for the end of a trace, which may wait for it


class TraceError(RuntimeError):
    """Something that a graph cannot hold; the message names the line and the cure.

    The trace remembers it: whoever catches it inside the function cannot go on as if it worked.
    """

    ran = False  # whether the function was begun, and what it did outside is done

    def __init__(self, message: str) -> None:
        super().__init__(message)
        trace = local.state.trace
        if trace is not None and trace.refusal is None:
            trace.refusal = self


class Undecided(TraceError):
    """Python asks for a value that only the graph will know: perhaps a branch depends on it."""

    optional = False  # whether there is a graph for the value of this call


class Branching(Undecided):
    """A number that changes from call to call decides which way the function goes."""

    optional = True


def refuse_in_trace(what: str) -> None:
    """An error inside a trace: ``what`` changes Python objects, which no later call would do."""
    if local.state.trace is not None:
        raise TraceError(
            f"{what} at {user_line()} changes Python objects, which a graph cannot do: call it "
            "outside the compiled function."
        )


class Flags(NamedTuple):
    """What is asked of the flags of an array."""

    c_contiguous: bool
    writeable: bool
    owndata: bool


class Symbol:
    """A value of a graph in the place of an array.

    It has the shape, dtype and strides of the array it stands for, like its ``template``, whose
    elements mean nothing (and of strides only the order, in a trace for all sizes); whoever tries
    to read elements gets a ``TraceError``, so that nothing that depends on data becomes a constant
    of the graph unseen.

    Another thread than the one that traces may meet the symbol of an argument: it waits for the
    end of the trace, and goes on with the array.

    A view holds the symbol it is a view of and how it is made of that; writing to either is seen
    by both, as with arrays. ``version`` counts the writes to a symbol that is no view.
    """

    __slots__ = ("base", "how", "node", "seen", "shared", "sizes", "template", "trace", "version")

    def __init__(self, trace: Any, node: Any, template: np.ndarray) -> None:
        self.trace, self.node, self.template = trace, node, template
        general = None if node is None else trace.extents
        self.sizes: Any = None if general is None else general.shape(node.type)
        self.base: Symbol | None = None
        self.how: Any = None  # (view op, attributes) that make it of its base
        self.seen = 0  # the version of the root for which the node is right
        self.version = 0
        self.shared: dict[Symbol, str] = {}  # whose memory it may be, and what is wrong with that

    dtype = property(lambda self: self.template.dtype)
    ndim = property(lambda self: self.template.ndim)
    size = property(lambda self: prod(self.shape))
    strides = property(lambda self: self.lying.strides)
    itemsize = property(lambda self: self.template.itemsize)
    nbytes = property(lambda self: self.size * self.itemsize)
    T = property(lambda self: self.look(self.template.T))
    real = property(lambda self: self.look(self.template.real))
    imag = property(lambda self: self.look(self.template.imag))

    @property
    def shape(self) -> tuple[int, ...]:
        if self.sizes is not None:
            return self.sizes
        self.settle()
        return self.template.shape

    @property
    def lying(self) -> np.ndarray:
        """How the value lies in memory: a size that may change does not pass for 1."""
        extents = self.trace.extents
        return self.template if extents is None else extents.lying(self)

    @property
    def flags(self) -> Any:
        if self.trace.extents is None:
            return self.template.flags
        own = self.template.flags
        return Flags(self.lying.flags.c_contiguous, own.writeable, own.owndata)

    def change(self) -> None:
        """Counts a write; an error if it is not known whose memory it is."""
        for message in self.shared.values():
            raise TraceError(f"a tensor cannot be written to at {user_line()}: {message}")
        self.version += 1

    def settle(self) -> None:
        """Numbers of the template are asked for: a trace for all sizes cannot go on."""
        if self.trace.extents is not None:
            self.trace.extents.settle_all()

    def look(self, array: np.ndarray) -> Any:
        """A look at the template: it becomes a value when a view op says how it was made."""
        if self.is_foreign():
            self.elements()
            return array
        return Symbol(self.trace, None, array)

    def plain(self, value: Any) -> Any:
        """A value with the sizes of this call in the places of those that may change."""
        extents = self.trace.extents
        return value if extents is None else extents.plain(value)

    def elements(self) -> np.ndarray:
        """The array that the symbol stands for, for another thread than the one that traces."""
        self.wait()
        if not self.is_foreign() or not self.trace.holds(self.template):
            self.refuse()
        return self.template

    def is_foreign(self) -> bool:
        """Whether another thread asks than the one that traces."""
        return self.trace.thread != threading.get_ident()

    def wait(self) -> None:
        """Lets another thread wait until the trace is over; tensors have their arrays again then.

        Not for ever: the function that is traced may itself wait for that thread.
        """
        if self.is_foreign():
            self.trace.over.wait(PATIENCE)

    def __len__(self) -> int:
        return int(self.shape[0]) if self.ndim else len(self.template)

    def __getitem__(self, key: Any) -> Any:
        if self.is_foreign():
            return self.elements()[key]
        key = self.plain(key)
        array = self.template[key]
        if type(array) is not np.ndarray:
            array = self.template[(*key, ...) if isinstance(key, tuple) else (key, ...)]
        if array.size and not np.may_share_memory(array, self.template):
            self.refuse()
        return self.look(array)

    def reshape(self, *shape: Any, **options: Any) -> Any:
        if self.is_foreign():
            return self.elements().reshape(*shape, **options)
        array = self.template.reshape(*self.plain(shape), **options)
        if array.size and not np.may_share_memory(array, self.template):
            raise ValueError("a look at the elements in that shape needs a copy")
        seen = self.look(array)
        if self.trace.extents is not None:
            sizes = tuple(shape[0]) if isinstance(shape[0], (tuple, list)) else shape
            if any([type(n) is int and n < 0 for n in sizes]):
                raise ValueError("a size that follows from others is worked out by the op")
            if not self.trace.extents.viewable(self, self.trace.extents.attribute(sizes)):
                raise ValueError("a look at the elements in that shape needs a copy at most sizes")
            seen.sizes = sizes
        return seen

    def transpose(self, *axes: Any) -> Symbol:
        return self.look(self.template.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Symbol:
        return self.look(self.template.swapaxes(a, b))

    def squeeze(self, axis: Any = None) -> Symbol:
        return self.look(self.template.squeeze(axis))

    def view(self, dtype: Any) -> Symbol:
        return self.look(self.template.view(dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.elements(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        options = {name: arrays(value) for name, value in options.items()}
        return getattr(ufunc, method)(*arrays(inputs), **options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        options = {name: arrays(value) for name, value in kwargs.items()}
        return function(*arrays(args), **options)

    def refuse(self) -> NoReturn:
        """Elements are not known while a function is traced."""
        kind = f"{self.dtype.name}{list(self.template.shape)}"  # of this call, if sizes change
        if self.trace is not local.state.trace:
            if not self.trace.over.is_set():
                raise TraceError(
                    f"a tensor ({kind}) that another thread traces has no values yet, at "
                    f"{user_line()}: wait until the first call of the compiled function is over"
                )
            raise TraceError(
                f"a tensor ({kind}) that a compiled function has kept in a list, attribute or the "
                f"like while it was traced is used at {user_line()}. It never had values: return "
                "it from the function instead."
            )
        state = local.state
        if state.anomaly and state.anomaly_check and state.backward is not None:
            raise TraceError(
                f"anomaly mode looks for NaN in the gradients at {user_line()}, whose values are "
                "not known yet while the graph is made: leave detect_anomaly() away, or call the "
                "function itself inside it"
            )
        raise Undecided(
            f"the values of a traced tensor ({kind}) are needed in Python at {user_line()}. They "
            "are not known yet while the graph is made: compute with tensors (rl.where, rl.cond), "
            "or read the value outside the compiled function."
        )

    __hash__ = object.__hash__


def root(symbol: Symbol) -> Symbol:
    """The symbol that a view, or a view of a view, is taken of."""
    while symbol.base is not None:
        symbol = symbol.base
    return symbol


def chain(symbol: Symbol) -> Any:
    """The view ops from the root on, as tensors keep them: (chain before, op, attributes)."""
    if symbol.base is None:
        return None
    return (chain(symbol.base), *symbol.how)


def arrays(value: Any) -> Any:
    """What NumPy was given, with arrays in the places of symbols."""
    if isinstance(value, Symbol):
        return value.elements()
    if type(value) in (tuple, list):
        return type(value)([arrays(item) for item in value])
    return value


def forward(name: str) -> Any:
    """A method of arrays that needs the elements."""
    return lambda self, *args, **kwargs: getattr(self.elements(), name)(*arrays(args), **kwargs)


OPERATORS = (
    "bool", "int", "float", "index", "complex", "iter", "setitem", "invert", "neg", "abs", "eq",
    "ne", "lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv",
    "rtruediv", "floordiv", "mod", "pow", "rpow", "matmul", "and", "or", "xor", "lshift", "rshift",
)  # fmt: skip
METHODS = [name for name in dir(np.ndarray) if name[0] != "_" and name not in vars(Symbol)]

for _name in (*[f"__{name}__" for name in OPERATORS], *METHODS):
    if callable(getattr(np.ndarray, _name)):
        setattr(Symbol, _name, forward(_name))
