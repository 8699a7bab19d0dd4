"""Symbol: what a tensor holds instead of an array while a function is traced."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from rushlight.autograd.modes import local
from rushlight.errors import user_line


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


def refuse_in_trace(what: str) -> None:
    """An error inside a trace: ``what`` changes Python objects, which no later call would do."""
    if local.state.trace is not None:
        raise TraceError(
            f"{what} at {user_line()} changes Python objects, which a graph cannot do: call it "
            "outside the compiled function."
        )


class Symbol:
    """A value of a graph in the place of an array.

    It has the shape, dtype and strides of the array it stands for, like its ``template``, whose
    elements mean nothing; whoever tries to read elements gets a ``TraceError``, so that nothing
    that depends on data becomes a constant of the graph unseen.

    A view holds the symbol it is a view of and how it is made of that; writing to either is seen
    by both, as with arrays. ``version`` counts the writes to a symbol that is no view.
    """

    __slots__ = ("base", "how", "node", "seen", "template", "trace", "version")

    def __init__(self, trace: Any, node: Any, template: np.ndarray) -> None:
        self.trace, self.node, self.template = trace, node, template
        self.base: Symbol | None = None
        self.how: Any = None  # (view op, attributes) that make it of its base
        self.seen = 0  # the version of the root for which the node is right
        self.version = 0

    shape = property(lambda self: self.template.shape)
    dtype = property(lambda self: self.template.dtype)
    ndim = property(lambda self: self.template.ndim)
    size = property(lambda self: self.template.size)
    strides = property(lambda self: self.template.strides)
    itemsize = property(lambda self: self.template.itemsize)
    nbytes = property(lambda self: self.template.nbytes)
    flags = property(lambda self: self.template.flags)
    T = property(lambda self: self.look(self.template.T))
    real = property(lambda self: self.look(self.template.real))
    imag = property(lambda self: self.look(self.template.imag))

    def look(self, array: np.ndarray) -> Symbol:
        """A look at the template: it becomes a value when a view op says how it was made."""
        return Symbol(self.trace, None, array)

    def __len__(self) -> int:
        return len(self.template)

    def __getitem__(self, key: Any) -> Symbol:
        array = self.template[key]
        if type(array) is not np.ndarray:
            array = self.template[(*key, ...) if isinstance(key, tuple) else (key, ...)]
        if array.size and not np.may_share_memory(array, self.template):
            self.refuse()
        return self.look(array)

    def reshape(self, *shape: Any, **options: Any) -> Symbol:
        array = self.template.reshape(*shape, **options)
        if array.size and not np.may_share_memory(array, self.template):
            raise ValueError("a look at the elements in that shape needs a copy")
        return self.look(array)

    def transpose(self, *axes: Any) -> Symbol:
        return self.look(self.template.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Symbol:
        return self.look(self.template.swapaxes(a, b))

    def squeeze(self, axis: Any = None) -> Symbol:
        return self.look(self.template.squeeze(axis))

    def view(self, dtype: Any) -> Symbol:
        return self.look(self.template.view(dtype))

    def refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Elements are not known while a function is traced."""
        kind = f"{self.dtype.name}{list(self.shape)}"
        if self.trace is not local.state.trace:
            raise TraceError(
                f"a tensor ({kind}) that a compiled function has kept in a list, attribute or the "
                f"like while it was traced is used at {user_line()}. It never had values: return "
                "it from the function instead."
            )
        raise TraceError(
            f"the values of a traced tensor ({kind}) are needed in Python at {user_line()}. They "
            "are not known yet while the graph is made: compute with tensors (rl.where, masks), "
            "or read the value outside the compiled function."
        )

    __array__ = __array_ufunc__ = __array_function__ = __bool__ = __int__ = __float__ = refuse
    __index__ = __complex__ = __iter__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = refuse
    __ne__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __invert__ = refuse
    __neg__ = __truediv__ = __rtruediv__ = __and__ = __or__ = __setitem__ = refuse
    item = tolist = astype = copy = any = all = max = min = sum = ravel = refuse
    __hash__ = object.__hash__
