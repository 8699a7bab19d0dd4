"""Parameters of one shape, and the two ways to write a probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Number

from rushlight.autograd.modes import local
from rushlight.dtypes import finfo, get_default_dtype
from rushlight.literals import tensor
from rushlight.ops import ops
from rushlight.tensor import Tensor


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Tensors of one shape; numbers take the dtype of the first tensor.

    >>> [x.shape for x in broadcast_all(1.0, rl.zeros(2))]
    [rushlight.Size([2]), rushlight.Size([2])]
    """
    for value in values:
        if not isinstance(value, (Tensor, Number)):
            raise ValueError(
                "Input arguments must all be instances of Number or Tensor, "
                f"but one is {type(value).__name__}"
            )
    given = [value for value in values if isinstance(value, Tensor)]
    dtype = given[0].dtype if given else get_default_dtype()
    converted = (v if isinstance(v, Tensor) else tensor(v, dtype=dtype) for v in values)
    return tuple(ops.broadcast_tensors(*converted))


def refuted(check: Callable[..., Tensor], *values: Tensor) -> bool:
    """Whether some element fails a check; in a trace, where elements are not known, none does.

    >>> refuted(rl.lt, rl.zeros(2), rl.tensor([1.0, 0.0]))
    True
    """
    return local.state.trace is None and not check(*values).all()


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last ``dims`` dimensions."""
    return value if dims == 0 else value.flatten(value.dim() - dims).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept so far from 0 and 1 that their logarithms are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """log(p), or of the probability of one of two values log(p / (1 - p))."""
    clamped = clamp_probs(probs)
    return ops.log(clamped) - ops.log1p(-clamped) if is_binary else ops.log(clamped)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of `probs_to_logits`: a sigmoid, or a softmax of the last dimension."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def standard_normal(shape: Sequence[int], like: Tensor) -> Tensor:
    """Independent samples of the standard normal distribution."""
    return ops.normal(like.new_zeros(shape), like.new_ones(shape))
