"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.ops import ops
from rushlight.settings import typename
from rushlight.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The elements of all parameters, one after the other.

    >>> rl.nn.utils.parameters_to_vector([rl.zeros(2, 2), rl.ones(1)])
    tensor([0., 0., 0., 0., 1.])
    """
    return ops.cat([p.view(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes the parts of a vector the elements of the parameters, which then share its memory.

    >>> w = rl.zeros(2)
    >>> rl.nn.utils.vector_to_parameters(rl.tensor([1.0, 2.0]), [w])
    >>> w
    tensor([1., 2.])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected rushlight.Tensor, but got: {typename(vec)}")
    start = 0
    for p in parameters:
        p.data = vec[start : start + p.numel()].view_as(p).data
        start += p.numel()
