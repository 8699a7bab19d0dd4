"""Variable: the old name of a tensor that may require a gradient."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.errors import kind
from rushlight.tensor import Tensor


class VariableMeta(type):
    """Makes every tensor an instance of :class:`Variable`, and calling it return a tensor."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)

    def __call__(
        cls, data: Tensor, requires_grad: bool = False, volatile: bool | None = None
    ) -> Tensor:
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {kind(data)}")
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with rl.no_grad():` instead.",
                stacklevel=2,
            )
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=VariableMeta):
    """``Variable(data)`` is a tensor over the elements of ``data``; every tensor is a Variable.

    Args:
        data: a tensor, whose memory is shared.
        requires_grad: whether the new tensor is to have a gradient.
        volatile: has no effect.

    >>> x = rl.autograd.Variable(rl.ones(2), requires_grad=True)
    >>> x
    tensor([1., 1.], requires_grad=True)
    >>> isinstance(rl.ones(2), rl.autograd.Variable)
    True
    """
