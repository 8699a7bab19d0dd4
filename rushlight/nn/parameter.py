"""Parameters and buffers: tensors that a module counts among its own."""

from __future__ import annotations

import copy
from typing import Any

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.errors import kind
from rushlight.interop import extra_attributes
from rushlight.ops import ops
from rushlight.printing import tensor_repr
from rushlight.tensor import LEAF, Tensor, new, wrap


class Parameter(Tensor):
    """A tensor that a module learns: assigned to a module, it joins ``module.parameters()``.

    It shares the memory of ``data``, and wants a gradient even if it is made under ``no_grad``.
    Operations on it give plain tensors.

    >>> rl.nn.Parameter(rl.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        return owned(cls, data, requires_grad)

    def __repr__(self) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + tensor_repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A parameter over a copy of the elements, without the gradient."""
        if id(self) in memo:
            return memo[id(self)]
        twin = memo[id(self)] = owned(type(self), self.data.clone(), self.requires_grad)
        twin.__dict__.update(copy.deepcopy(extra_attributes(self), memo))
        return twin


class Buffer(Tensor):
    """A tensor that belongs to a module without being learnt, such as a running mean.

    Args:
        data: its elements, whose memory is shared.
        persistent: whether it is part of the module's ``state_dict``.

    >>> module = rl.nn.Module()
    >>> module.mean = rl.nn.Buffer(rl.zeros(2))
    >>> dict(module.state_dict())
    {'mean': tensor([0., 0.])}
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        t = owned(cls, data, isinstance(data, Tensor) and data.requires_grad)
        t.persistent = persistent
        return t


def owned(cls: type[Tensor], data: Any, requires_grad: bool) -> Any:
    """A leaf of the class ``cls`` over the elements of ``data``."""
    if data is None:
        data = ops.empty(0)
    elif not isinstance(data, Tensor):
        raise TypeError(
            f"{cls.__name__}(): argument 'data' must be Tensor or None, not {kind(data)}"
        )
    t = new(cls)
    source = data.detach()
    t._array, t._counter = source._array, source._counter
    return t.requires_grad_() if requires_grad else t


class Uninitialized(Tensor):
    """What is common to parameters and buffers whose shape is not known yet.

    An empty array keeps their dtype; an op that asks for their elements gets an error.
    """

    cls_to_become: type[Tensor]

    def materialize(
        self,
        shape: tuple[int, ...],
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        """Gives it a shape, and with that elements, whose values are not set yet."""
        kind = self.dtype if dtype is None else dtype
        self.__dict__["_array"] = ops.empty(shape, device=device, dtype=kind)._array
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def _array(self) -> Any:
        raise ValueError(
            "Attempted to use an uninitialized parameter. This error happens when you are using a "
            f"`LazyModule` or explicitly manipulating `nn.parameter.{type(self).__name__}` objects."
            " When using LazyModules call `forward` with a dummy batch to initialize the "
            "parameters before calling functions on them."
        )

    @property
    def data(self) -> Tensor:
        """An empty tensor of its dtype."""
        return wrap(self.__dict__["_array"])

    @data.setter
    def data(self, value: Tensor) -> None:
        self.__dict__["_array"] = value._array

    @property
    def dtype(self) -> DType:
        """The type of the elements to come."""
        return self.data.dtype

    @property
    def shape(self) -> Any:
        """An error: it is not known yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Tensor:
        """An error: there are no elements yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:  # type: ignore[override]
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = memo[id(self)] = promised(type(self), self.requires_grad, None, self.dtype)
        twin.__dict__.update(extra_attributes(self))
        return twin

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        given = (type(self), self.requires_grad, None, self.dtype)
        return promised, given, extra_attributes(self)


def promised(
    cls: type[Tensor], requires_grad: bool, device: Device | str | None, dtype: DType | None
) -> Any:
    """An uninitialized leaf of the class ``cls``."""
    t = new(cls)
    t.__dict__["_array"] = ops.empty(0, device=device, dtype=dtype)._array
    if requires_grad:
        t._history = LEAF
    return t


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter whose shape a lazy module finds out when it sees its first input.

    >>> rl.nn.LazyLinear(3).weight
    <UninitializedParameter>
    """

    cls_to_become = Parameter

    def __new__(
        cls,
        requires_grad: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> Any:
        return promised(cls, requires_grad, device, dtype)


class UninitializedBuffer(Uninitialized, Buffer):
    """A buffer whose shape a lazy module finds out when it sees its first input."""

    cls_to_become = Buffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
        persistent: bool = True,
    ) -> Any:
        t = promised(cls, requires_grad, device, dtype)
        t.persistent = persistent
        return t


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer still waits for its shape."""
    return isinstance(param, Uninitialized)
