"""Less memory for more work: a part of a model that backward computes once more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from rushlight.amp import autocast, get_autocast_dtype, is_autocast_enabled
from rushlight.autograd import Function, enable_grad, is_grad_enabled
from rushlight.autograd.backward import grad_of_leaves
from rushlight.autograd.tape import edge, leaves_below
from rushlight.nn import Module, Sequential
from rushlight.random import fork_rng, get_rng_state, set_rng_state
from rushlight.tensor import Tensor
from rushlight.utils._pytree import tree_flatten, tree_map_only

__all__ = ["checkpoint", "checkpoint_sequential", "get_device_states", "set_device_states"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, of which backward keeps the arguments and nothing between.

    Backward calls the function once more, with the same random numbers, and goes on from there.

    Args:
        use_reentrant: chooses between two ways in PyTorch; here both are one.
        preserve_rng_state: whether random numbers are drawn again as they were.

    >>> layer = rl.nn.Linear(3, 2)
    >>> rl.utils.checkpoint.checkpoint(layer, rl.ones(1, 3)).sum().backward()
    >>> layer.bias.grad
    tensor([1., 1.])
    """
    if not is_grad_enabled():
        return function(*args, **kwargs)
    state = get_rng_state() if preserve_rng_state else None
    mixed = partial(autocast, "cpu", get_autocast_dtype("cpu"), is_autocast_enabled("cpu"))
    leaves, spec = tree_flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if _differentiable(leaf)]

    def call(inputs: Sequence[Tensor]) -> Any:
        """The function with other tensors in the place of those that take a gradient."""
        renewed = list(leaves)
        for place, tensor in zip(places, inputs, strict=True):
            renewed[place] = tensor
        args, kwargs = spec.unflatten(renewed)
        return function(*args, **kwargs)

    def again(inputs: Sequence[Tensor]) -> Any:
        with fork_rng(enabled=state is not None), mixed():
            if state is not None:
                set_rng_state(state)
            return call(inputs)

    inputs = [leaves[place] for place in places]
    detached = [tensor.detach().requires_grad_() for tensor in inputs]
    results, shape = tree_flatten(call(detached))
    own = {id(tensor) for tensor in detached}
    edges = [edge(result) for result in results if _differentiable(result)]
    parameters = [leaf for leaf in leaves_below(*edges)[0] if id(leaf) not in own]
    followed = [place for place, result in enumerate(results) if _differentiable(result)]
    if not followed:
        return shape.unflatten(results)
    plain = [results[place].detach() for place in followed]
    again_flat = partial(_chosen, again, followed)
    tracked = _Recompute.apply(again_flat, len(inputs), plain, *inputs, *parameters)
    results = tree_map_only(Tensor, Tensor.detach, results)
    for place, result in zip(followed, tracked, strict=True):
        results[place] = result
    return shape.unflatten(results)


def checkpoint_sequential(
    functions: Sequential | Iterable[Module],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """A chain of functions in ``segments`` parts, of which backward keeps only the borders.

    >>> model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.ReLU(), rl.nn.Linear(4, 2))
    >>> rl.utils.checkpoint.checkpoint_sequential(model, 2, rl.ones(1, 3)).shape
    rushlight.Size([1, 2])
    """
    chain = list(functions.children() if isinstance(functions, Sequential) else functions)
    size = len(chain) // segments
    for start in range(0, size * (segments - 1), size):
        part = Sequential(*chain[start : start + size])
        input = checkpoint(part, input, use_reentrant=use_reentrant, **kwargs)
    return Sequential(*chain[size * (segments - 1) :])(input)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The accelerators that tensors are on, and their generators' states: there are none."""
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Sets the generators of accelerators back."""
    if devices:
        raise RuntimeError(f"set_device_states: there are no accelerators, but got {devices}")


class _Recompute(Function):
    """Known results of a function; backward calls it again to differentiate it."""

    @staticmethod
    def forward(ctx: Any, again: Any, count: int, results: Any, *tensors: Tensor) -> Any:
        ctx.again, ctx.count = again, count
        ctx.save_for_backward(*tensors)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        inputs, parameters = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        with enable_grad():
            inputs = [tensor.detach().requires_grad_() for tensor in inputs]
            results = ctx.again(inputs)
        found = grad_of_leaves(results, [*inputs, *parameters], slopes)
        return None, None, None, *found


def _chosen(function: Callable[..., Any], places: Sequence[int], inputs: Sequence[Tensor]) -> Any:
    results = tree_flatten(function(inputs))[0]
    return [results[place] for place in places]


def _differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad
