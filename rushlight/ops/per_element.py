"""Python functions of single elements: slow, for what no op does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.dtypes import int64
from rushlight.literals import tensor
from rushlight.ops.base import composite, need_tensor
from rushlight.ops.filling import plain
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor


def mapped(name: str, function: Callable[..., Any], target: Tensor, *others: Tensor) -> Tensor:
    """Writes ``function(element, other elements)`` over each element of ``target``."""
    for t in others:
        if need_tensor(name, t, "other", 2).dtype is not target.dtype:
            raise TypeError(f"{name}: expected {target.dtype} for 'other' (got {t.dtype})")
    if any([t.requires_grad for t in (target, *others)]):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}()."
        )
    columns = [t.expand(target.shape).reshape(-1).tolist() for t in (target, *others)]
    values = [function(*row) for row in zip(*columns, strict=True)]
    return target.copy_(tensor(values, dtype=target.dtype).view(target.shape))


@composite(
    name="apply_",
    function=False,
    samples=[S(plain(3, 4), abs), S(plain(), abs), S(plain(0, 2), abs)],
    errors=[
        Fails(TypeError, "'int' object is not callable", plain(2), 3),
        Fails(ValueError, "too many dimensions 'str'", plain(2), str),
    ],
)
def apply_(input: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Writes ``callable(element)`` over each element.

    >>> rl.tensor([1.0, 2.0]).apply_(lambda element: 10 * element)
    tensor([10., 20.])
    """
    return mapped("apply_", callable, input)


@composite(
    name="map_",
    function=False,
    samples=[S(plain(3, 4), plain(3, 4), max), S(plain(3, 4), plain(4), max)],
    errors=[
        Fails(TypeError, "expected rushlight.float32 for 'other'", T(2), T(2, dtype=int64), max),
        Fails(RuntimeError, "must match the existing size", plain(2), plain(3), max),
    ],
)
def map_(input: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Writes ``callable(element, element of tensor)`` over each element.

    >>> rl.tensor([1.0, 5.0]).map_(rl.tensor([3.0, 3.0]), max)
    tensor([3., 5.])
    """
    return mapped("map_", callable, input, tensor)


@composite(
    name="map2_",
    function=False,
    samples=[S(plain(3, 4), plain(3, 4), plain(4), max)],
    errors=[Fails(RuntimeError, "must match the existing size", plain(2), plain(2), plain(3), max)],
)
def map2_(input: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Writes ``callable(element, element of x, element of y)`` over each element.

    >>> rl.tensor([1.0, 5.0]).map2_(rl.tensor([3.0, 3.0]), rl.tensor([2.0, 7.0]), max)
    tensor([3., 7.])
    """
    return mapped("map2_", callable, input, x, y)
