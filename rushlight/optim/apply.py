"""How an optimizer's ``update`` is run on the parameters of a group.

An update of single elements is recorded once and swept over all arrays (see ``sweep``). One that
looks at whole parameters, or that is to be differentiated, runs on tensors, one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.autograd.tape import counter
from rushlight.errors import user_line
from rushlight.ops import ops
from rushlight.ops.base import check_writable, overwrite
from rushlight.optim.numbers import number
from rushlight.optim.sweep import Recording
from rushlight.tensor import Tensor, wrap

if TYPE_CHECKING:
    from rushlight.optim.optimizer import Optimizer

Group = dict[str, Any]
State = dict[str, Any]


def scalar(value: float, group: Group) -> Tensor:
    """A step count or the like as a tensor, of the type that PyTorch gives it."""
    wide = dtypes.get_default_dtype() is dtypes.float64 and not group.get("fused")
    return wrap(np.array(value, np.float64 if wide else np.float32))


def state_of(optimizer: Optimizer, p: Tensor, group: Group) -> State:
    """What the optimizer remembers of a parameter; before its first step, made by ``init``."""
    state = optimizer.state.get(p)
    if not state:
        fresh = optimizer.init(p, group)
        state = {k: scalar(v, group) if k in optimizer.scalars else v for k, v in fresh.items()}
        if state:
            optimizer.state[p] = state
    return state


def step_group(optimizer: Optimizer, group: Group, parameters: Sequence[Tensor]) -> None:
    """One step of the parameters of a group that have a gradient."""
    if optimizer.elementwise and not group.get("differentiable"):
        sweep_group(optimizer, group, parameters)
    else:
        for p in parameters:
            step_tensor(optimizer, group, p)


def sweep_group(optimizer: Optimizer, group: Group, parameters: Sequence[Tensor]) -> None:
    """One step of all parameters of a group, by an update of single elements.

    Parameters whose scalars (step counts and the like) and dtypes agree share one recording.
    """
    scalars = optimizer.scalars
    bundles: dict[Any, list[tuple[Tensor, State]]] = defaultdict(list)
    for p in parameters:
        if not p._array.flags.writeable:
            check_writable(p, "step")
        state = state_of(optimizer, p, group)
        names = tuple([k for k, v in state.items() if k not in scalars and isinstance(v, Tensor)])
        shared = tuple([(k, number(state[k])) for k in scalars if k in state])
        bundles[p._array.dtype, names, shared].append((p, state))
    hyper = {k: number(v) for k, v in group.items() if k != "params"}
    site = user_line()
    for (dtype, names, shared), members in bundles.items():
        recording = Recording(2 + len(names))
        lane, g, *lanes = recording.lanes
        before = dict(shared) | dict(zip(names, lanes, strict=True))
        new, after = optimizer.update(lane, -g if hyper.get("maximize") else g, before, hyper)
        numbers = {k: after.pop(k) for k, _ in shared if k in after}
        fresh = [k for k in after if k not in names]
        keys = (*names, *fresh)
        sweep = recording.sweep([new, None, *[after.get(k) for k in keys]])
        for parameter, state in members if fresh else ():
            state.update({k: wrap(np.empty_like(parameter._array)) for k in fresh})
            optimizer.state[parameter] = state
        sets = [
            [t._array, t._grad._array, *[state[k]._array for k in keys]]  # type: ignore[union-attr]
            for t, state in members
        ]
        local.state.run(sweep.run, sets, real_type(dtype))
        for parameter, state in members:
            for k, value in numbers.items():
                state[k]._array[...] = value
            for t in (parameter, *[state[k] for k in after]):
                writes = t._counter or counter(t)
                writes.value += 1
                writes.site = site


def real_type(dtype: np.dtype) -> np.dtype:
    """The type to compute in: half types in float32, complex ones as pairs of real numbers."""
    wide = dtype in (dtypes.float64.numpy, dtypes.complex128.numpy)
    return dtypes.float64.numpy if wide else dtypes.float32.numpy


def step_tensor(optimizer: Optimizer, group: Group, p: Tensor) -> None:
    """One step of one parameter, in tensors; recorded for gradients if that is asked for."""
    state = state_of(optimizer, p, group)
    differentiable = bool(group.get("differentiable"))
    check_writable(p, "step")
    hyper = group if differentiable else {k: number(v) for k, v in group.items() if k != "params"}
    before = {k: number(v) if k in optimizer.scalars else as_real(v) for k, v in state.items()}
    g: Any = p.grad
    old = as_real(p.clone() if differentiable else p)
    new_p, after = optimizer.update(old, as_real(-g if group.get("maximize") else g), before, hyper)
    for k, value in after.items():
        if k in optimizer.scalars:
            state[k]._array[...] = value
        elif differentiable or k not in state:
            state[k] = as_complex(value, p)
        elif value is not before[k]:
            overwrite(state[k], as_complex(value, p))
    if state:
        optimizer.state[p] = state
    overwrite(p, as_complex(new_p, p))


def as_real(value: Any) -> Any:
    """A complex tensor as pairs of real numbers: each part is optimized on its own."""
    return ops.view_as_real(value) if isinstance(value, Tensor) and value.is_complex() else value


def as_complex(value: Tensor, p: Tensor) -> Tensor:
    return ops.view_as_complex(value) if p.is_complex() else value
