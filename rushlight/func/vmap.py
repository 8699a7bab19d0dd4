"""vmap: a function of one sample made a function of a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.autograd.modes import local
from rushlight.errors import axis_range, kind
from rushlight.func.trees import flatten, spread
from rushlight.ops import ops
from rushlight.random import default_generator, get_rng_state, set_rng_state
from rushlight.tensor import Tensor


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that calls ``func`` for each sample along a dimension and joins the results.

    Samples are computed one after the other.

    Args:
        in_dims: the dimension of the samples in each argument, None where all samples share one;
            an int for all arguments, or a tuple, nested as they are.
        out_dims: where the dimension of the samples goes in each result.
        randomness: whether ``func`` may draw random numbers, which are the "same" or "different"
            for all samples; with "error" it may not.
        chunk_size: accepted; the result does not depend on it.

    >>> rl.vmap(rl.dot)(rl.ones(3, 2), rl.ones(3, 2))
    tensor([2., 2., 2.])
    >>> samples = rl.tensor([1.0, 2.0, 3.0])
    >>> rl.vmap(rl.func.grad(lambda w, x: (w * x).sin()), (None, 0))(rl.tensor(0.0), samples)
    tensor([1., 2., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. "
            f"Got {randomness}"
        )

    @functools.wraps(func)
    def batched(*args: Any, **kwargs: Any) -> Any:
        flat, rebuild = flatten(args)
        dims = spread(in_dims, args, "in_dims")
        rows = [func(*rebuild(iter(row)), **kwargs) for row in seeded(randomness, flat, dims)]
        return joined(rows, out_dims)

    return batched


def seeded(randomness: str, flat: list[Any], dims: list[Any]) -> Iterator[list[Any]]:
    """The arguments of each sample, with the random numbers that ``randomness`` allows."""
    start = get_rng_state() if randomness == "same" else position()
    for row in samples(flat, dims):
        if randomness == "same":
            set_rng_state(start)
        yield row
        if randomness == "error" and position() != start:
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use "
                "the 'same' or 'different' randomness flags on vmap or perform the randomness "
                "operation out of vmap"
            )


def position() -> Any:
    """What each draw changes: the state of the default generator, or what a trace has of it."""
    trace = local.state.trace
    if trace is None:
        return get_rng_state().numpy().tobytes()
    stream = trace.random.known.get(default_generator)
    return None if stream is None or stream.node is stream.captured else stream.node


def samples(flat: list[Any], dims: list[Any]) -> Iterator[list[Any]]:
    """For each index of the mapped dimensions the leaves that ``func`` gets."""
    columns: list[Any] = []
    sizes: set[int] = set()
    for leaf, dim in zip(flat, dims, strict=True):
        if dim is None:
            columns.append(None)
            continue
        if not isinstance(leaf, Tensor):
            raise ValueError(f"vmap: in_dims has {dim} for an input of type {kind(leaf)}; use None")
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(f"vmap: in_dims: {axis_range(dim, leaf.ndim)}")
        columns.append(leaf.unbind(dim))
        sizes.add(leaf.shape[dim])
    if not sizes:
        raise ValueError("vmap: at least one in_dims must not be None")
    if len(sizes) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sorted(sizes)} for the mapped dimension"
        )
    if 0 in sizes:
        raise ValueError("vmap: the mapped dimension has size 0, so func is never called")
    for i in range(sizes.pop()):
        pairs = zip(flat, columns, strict=True)
        yield [leaf if column is None else column[i] for leaf, column in pairs]


def joined(rows: list[Any], out_dims: Any) -> Any:
    """The results of all samples as one."""
    leaves = [flatten(row)[0] for row in rows]
    dims = spread(out_dims, rows[0], "out_dims")
    for leaf in leaves[0]:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"vmap: func must only return Tensors, got {kind(leaf)}")
    columns = [
        column[0] if dim is None else ops.stack(column, dim)
        for dim, column in zip(dims, zip(*leaves, strict=True), strict=True)
    ]
    return flatten(rows[0])[1](iter(columns))
