"""Modules and batches spread over devices: here all of them are the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.device import device as Device
from rushlight.nn.module import Module
from rushlight.ops import ops
from rushlight.tensor import Tensor

Place = Device | str | int
Places = Sequence[Place]


class DataParallel(Module):
    """Calls ``module``: with one device there is nothing to spread a batch over.

    Args:
        module: the module, which is ``.module`` afterwards.
        device_ids, output_device, dim: have no effect.

    >>> model = rl.nn.DataParallel(rl.nn.Linear(2, 3))
    >>> model(rl.zeros(4, 2)).shape
    rushlight.Size([4, 3])
    >>> list(model.state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(
        self,
        module: Module,
        device_ids: Places | None = None,
        output_device: Place | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Place] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


class DistributedDataParallel(Module):
    """Calls ``module`` in a world of one process, where there are no gradients to average.

    Args:
        module: the module, which is ``.module`` afterwards.
        device_ids, output_device and the other options: have no effect.

    >>> model = rl.nn.parallel.DistributedDataParallel(rl.nn.Linear(2, 3))
    >>> model(rl.zeros(4, 2)).shape
    rushlight.Size([4, 3])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Places | None = None,
        output_device: Place | None = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError(
                f"DistributedDataParallel: WORLD_SIZE is {os.environ['WORLD_SIZE']}, but this "
                "Rushlight trains in one process; start the program without torchrun"
            )
        self.module = module
        self.device_ids = device_ids

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are not averaged, which they never are in one process."""
        yield


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Places | None = None,
    output_device: Place | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """``module(*inputs)``, as :class:`DataParallel` computes it."""
    if not isinstance(inputs, tuple):
        inputs = () if inputs is None else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


def scatter(inputs: Any, target_gpus: Places, dim: int = 0) -> Any:
    """A part of each tensor, and a share in everything else, for each of several devices.

    >>> rl.nn.parallel.scatter(rl.arange(4), ["cpu", "cpu"])
    (tensor([0, 1]), tensor([2, 3]))
    """
    count = len(target_gpus)
    if isinstance(inputs, Tensor):
        return inputs.chunk(count, dim)
    if isinstance(inputs, (tuple, list)) and inputs:
        parts = zip(*[scatter(value, target_gpus, dim) for value in inputs], strict=False)
        if isinstance(inputs, tuple) and type(inputs) is not tuple:
            return [type(inputs)(*part) for part in parts]
        return [type(inputs)(part) for part in parts]
    if isinstance(inputs, dict) and inputs:
        parts = zip(*[scatter(value, target_gpus, dim) for value in inputs.values()], strict=False)
        return [type(inputs)(zip(inputs, part, strict=True)) for part in parts]
    return [inputs] * count


def gather(outputs: Sequence[Any], target_device: Place | None = None, dim: int = 0) -> Any:
    """The results of several devices as one: the contrary of :func:`scatter`.

    >>> rl.nn.parallel.gather([rl.zeros(2), rl.ones(1)])
    tensor([0., 0., 1.])
    """
    first = outputs[0]
    if isinstance(first, Tensor):
        return ops.cat([t.unsqueeze(0) if not t.ndim else t for t in outputs], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([out[k] for out in outputs], dim=dim)) for k in first)
    parts = [gather(part, dim=dim) for part in zip(*outputs, strict=True)]
    plain = type(first) in (tuple, list)
    return type(first)(parts) if plain else type(first)(*parts)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Places | None = None,
) -> list[Any]:
    """The result of each module for its own input."""
    given = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    return [
        module(*(value if isinstance(value, tuple) else (value,)), **options)
        for module, value, options in zip(modules, inputs, given, strict=True)
    ]


__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "scatter"]
