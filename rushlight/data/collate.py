"""Samples into batches: tensors are stacked, whatever they are nested in."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.literals import as_tensor, tensor
from rushlight.ops.base import ops
from rushlight.tensor import VIEW, Tensor, wrap

Rules = dict[type | tuple[type, ...], Callable[..., Any]]
NUMBERS = (int, float, np.number, np.bool_)
NUMPY_SCALARS = (np.bool_, np.number, np.object_)


def default_collate(batch: Sequence[Any]) -> Any:
    """The samples of a batch as one: tensors with a new first dimension, nested as a sample is.

    Tensors, NumPy arrays and numbers become tensors, strings stay a list; dicts, lists and
    tuples (as lists) keep their form, and each of their places is collated by itself.

    >>> from rushlight.utils.data import default_collate
    >>> default_collate([(rl.ones(2), 0), (rl.zeros(2), 1)])
    [tensor([[1., 1.],
            [0., 0.]]), tensor([0, 1])]
    >>> default_collate([{"name": "a", "size": 0.5}, {"name": "b", "size": 2.0}])
    {'name': ['a', 'b'], 'size': tensor([0.5000, 2.0000], dtype=rushlight.float64)}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """:func:`default_collate` with rules of one's own.

    Args:
        collate_fn_map: a type, or a tuple of types, to the function that collates its samples;
            it is called with the batch and with ``collate_fn_map`` as a keyword.
    """
    first = batch[0]
    rule = rule_for(first, collate_fn_map or {})
    if rule is not None:
        return rule(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: [sample[key] for sample in batch] for key in first}
        return like_mapping(
            first, {k: collate(c, collate_fn_map=collate_fn_map) for k, c in columns.items()}
        )
    if isinstance(first, Sequence):
        sizes = [*map(len, batch)]
        if sizes.count(sizes[0]) < len(sizes):
            raise RuntimeError(
                f"each element in list of batch should be of equal size, but got sizes {sizes}"
            )
        parts = [collate(c, collate_fn_map=collate_fn_map) for c in zip(*batch, strict=True)]
        return like_sequence(first, parts)
    raise TypeError(unknown(type(first)))


def default_convert(data: Any) -> Any:
    """NumPy arrays and scalars as tensors, nested as they are; all else stays what it is.

    >>> from rushlight.utils.data import default_convert
    >>> default_convert({"x": np.ones(2), "name": "a"})
    {'x': tensor([1., 1.], dtype=rushlight.float64), 'name': 'a'}
    """
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, np.ndarray):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, np.generic):
        return as_tensor(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, Sequence):
        return like_sequence(data, [default_convert(part) for part in data])
    return data


def like_mapping(first: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """``values`` in a mapping of the class of ``first``, and with its further attributes."""
    try:
        if isinstance(first, MutableMapping):
            clone = copy.copy(first)
            clone.update(values)
            return clone
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:  # the class does not let itself be copied or made like that
        return values


def like_sequence(first: Sequence[Any], values: list[Any]) -> Any:
    """``values`` in a sequence of the class of ``first``; plain tuples become lists."""
    if isinstance(first, tuple):
        named = getattr(type(first), "_fields", None) is not None
        return type(first)(*values) if named else values
    try:
        if isinstance(first, MutableSequence):
            clone = copy.copy(first)
            clone[:] = values
            return clone
        return type(first)(values)  # type: ignore[call-arg]
    except TypeError:  # the class does not let itself be copied or made like that
        return values


def rule_for(sample: Any, rules: Rules) -> Callable[..., Any] | None:
    rule = rules.get(type(sample))
    if rule is None:
        for kinds, general in rules.items():
            if isinstance(sample, kinds):
                return general
    return rule


def unknown(kind: Any) -> str:
    return (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {kind}"
    )


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Rules | None = None) -> Tensor:
    """``stack``, with a shorter path for tensors that are alike and need no gradient."""
    try:
        arrays = [sample._array for sample in batch]
        shape, kind, count = arrays[0].shape, arrays[0].dtype, len(arrays)
        alike = [array.dtype for array in arrays].count(kind) == count
        if alike and not any_requires_grad(batch):
            if not shape:
                return wrap(np.array([array[()] for array in arrays], kind))
            if [*map(len, arrays)].count(shape[0]) == count:
                return wrap(np.concatenate(arrays).reshape(count, *shape))
    except (AttributeError, TypeError, ValueError):
        pass  # they do not fit, which `stack` explains
    return ops.stack(list(batch))


def any_requires_grad(batch: Sequence[Tensor]) -> bool:
    """Whether gradients flow to any of them: most are views of one tensor, which is asked once."""
    sources = {
        t._base if t._history is VIEW and t._view_node is None else t
        for t in batch
        if t._history is not None
    }
    return any([t.requires_grad for t in sources])


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    if batch[0].dtype.kind in "SUO":
        raise TypeError(unknown(batch[0].dtype))
    return collate([as_tensor(sample) for sample in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    return as_tensor(batch)


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: Rules | None = None) -> Tensor:
    return numbers(batch, dtypes.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: Rules | None = None) -> Tensor:
    return numbers(batch, None)


def numbers(batch: Sequence[Any], kind: dtypes.dtype | None) -> Tensor:
    kinds = [*map(type, batch)]
    for other in dict.fromkeys(kinds):
        if not issubclass(other, NUMBERS):
            raise TypeError(
                f"the samples of a batch are numbers, but number {kinds.index(other)} of them is a "
                f"{other.__name__}"
            )
    return tensor(batch, dtype=kind)


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Sequence[Any]:
    return batch


default_collate_fn_map: Rules = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    NUMPY_SCALARS: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""The rules of :func:`default_collate`; a program may add its own."""
