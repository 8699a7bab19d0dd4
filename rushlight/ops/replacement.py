"""The family of ops that replace some of a tensor's elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.modes import local
from rushlight.autograd.tape import edge, link
from rushlight.ops.base import Op, any_tracked, check_writable, rebase, touched
from rushlight.tensor import Tensor


class Write(Op, abstract=True):
    """A copy of the first operand in which ``write`` has replaced some elements.

    ``write(y, *others, **attrs)`` is the kernel: it changes the array ``y``, or raises and leaves
    it alone. In place it runs on the tensor's own elements, and nothing is copied; therefore the
    rules of these ops read neither the result nor the first operand.
    """

    inplace = True

    def write(self, y: np.ndarray, *others: Any, **attrs: Any) -> None:
        """The kernel."""
        raise NotImplementedError

    def eager(self, x, *others, **attrs):
        y = x.copy()
        self.write(y, *others, **attrs)
        return y

    def fits(self, *arrays: Any, **attrs: Any) -> None:
        """An error unless the operands fit one another, which ``check`` has seen to for users."""

    def infer(self, arrays, attrs):
        self.fits(*arrays, **attrs)
        return np.empty(arrays[0].shape, arrays[0].dtype)

    def make_in_place(self) -> Callable[..., Tensor]:
        check, change = self.check, self.change

        def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            (x, *others), attrs = check(self, *args, **kwargs)
            if x._array.shape != self._array.shape:
                raise RuntimeError(
                    f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                    f"{list(x.shape)}"
                )
            return change(self, others, attrs)

        write.__name__ = write.__qualname__ = f"{self.name}_"
        write.__doc__ = f"In-place version of :meth:`{self.name}`."
        return write

    def change(self, t: Tensor, others: Sequence[Any], attrs: dict[str, Any]) -> Tensor:
        """Runs the kernel on the elements of ``t`` and gives ``t`` the history of that."""
        check_writable(t, self.name)
        state = local.state
        operands = (t, *others)
        node = None
        if state.grad and any_tracked(operands):
            edges = tuple([edge(o) if isinstance(o, Tensor) else None for o in operands])
            if any([e is not None for e in edges]):
                node = link(self, edges, operands, attrs, t._array)
        if state.trace is not None:
            state.trace.write(self, t, others, attrs)
        else:
            arrays = [o._array if isinstance(o, Tensor) else o for o in operands]
            state.run(self.write, *arrays, **attrs)
        touched(t)
        if node is not None:
            rebase(t, node)
        return t
