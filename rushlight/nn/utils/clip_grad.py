"""Limits on the size of gradients."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable

from rushlight.autograd.modes import local, no_grad
from rushlight.ops import ops
from rushlight.tensor import Tensor

Tensors = Tensor | Iterable[Tensor]


def listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    return [p.grad for p in parameters if p.grad is not None]


@no_grad()
def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of several tensors, as if they were one vector.

    Args:
        tensors: one tensor or several.
        norm_type: the order p of (Σ |x|ᵖ)^(1/p); ``inf`` is the largest element.
        error_if_nonfinite: raise an error if it is NaN or infinite.
        foreach: has no effect: there is one way here.

    >>> rl.nn.utils.get_total_norm([rl.tensor([3.0]), rl.tensor([4.0])])
    tensor(5.)
    """
    order = float(norm_type)
    norms = [ops.linalg.vector_norm(t, order) for t in listed(tensors)]
    if not norms:
        return ops.zeros(())
    total = ops.linalg.vector_norm(ops.stack(norms), order)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite "
            "norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients by max_norm / total_norm, if that makes them smaller.

    Args:
        parameters: whose gradients are scaled.
        max_norm: the largest norm they may have.
        total_norm: the norm that they have.
        foreach: has no effect: there is one way here.

    >>> w = rl.zeros(2, requires_grad=True)
    >>> w.grad = rl.tensor([30.0, 40.0])
    >>> rl.nn.utils.clip_grads_with_norm_(w, 5.0, rl.tensor(50.0))
    >>> w.grad
    tensor([3.0000, 4.0000])
    """
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    if local.state.trace is None and factor == 1:
        return
    for g in gradients(listed(parameters)):
        g.mul_(factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients so that their total norm is at most ``max_norm``; returns what it was.

    See :func:`get_total_norm`.

    >>> w = rl.zeros(2, requires_grad=True)
    >>> w.grad = rl.tensor([30.0, 40.0])
    >>> rl.nn.utils.clip_grad_norm_(w, max_norm=5.0)
    tensor(50.)
    >>> w.grad
    tensor([3.0000, 4.0000])
    """
    found = listed(parameters)
    if not found and isinstance(parameters, types.GeneratorType):
        warnings.warn(
            "`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2
        )
    total = get_total_norm(gradients(found), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(found, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """An old name of :func:`clip_grad_norm_`."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limits each element of the gradients to [-clip_value, clip_value].

    >>> w = rl.zeros(2, requires_grad=True)
    >>> w.grad = rl.tensor([-3.0, 0.5])
    >>> rl.nn.utils.clip_grad_value_(w, 1.0)
    >>> w.grad
    tensor([-1.0000,  0.5000])
    """
    limit = float(clip_value)
    for g in gradients(listed(parameters)):
        g.clamp_(-limit, limit)
