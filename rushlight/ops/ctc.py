"""The loss of connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from rushlight import dtypes
from rushlight import errors as messages
from rushlight.dims import index
from rushlight.kernels import ctc as kernels
from rushlight.kernels.indices import first_outside
from rushlight.ops.base import Op, composite, need_tensor, ops, registry
from rushlight.ops.loss_reduction import REDUCTIONS, chosen, reduced
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor, wrap

Lengths = Tensor | Sequence[int]


class CtcNll(Op):
    """The negative log likelihood of each sequence, and how likely each state is at each time."""

    function = method = False
    differentiable = (0,)
    library = "a recursion over paths"

    def check(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        blank: int,
        zero_infinity: bool,
    ) -> Any:
        attrs = {"blank": blank, "zero_infinity": zero_infinity}
        return (log_probs, targets, input_lengths, target_lengths), attrs

    def eager(self, x, targets, input_lengths, target_lengths, *, blank, zero_infinity):
        spoken = kernels.Sequences(targets, input_lengths, target_lengths, blank)
        return kernels.losses(x, spoken)

    def vjp(self, g, y, x, targets, input_lengths, target_lengths, *, blank, zero_infinity):
        lengths = input_lengths, target_lengths
        slope = ctc_slope(g, x, *y, targets, *lengths, blank, zero_infinity)
        return slope, None, None, None


class CtcSlope(Op):
    """The gradient of :class:`CtcNll`, for log-probabilities that are a log-softmax."""

    function = method = False
    library = "a recursion over paths"

    def check(
        self,
        g: Tensor,
        log_probs: Tensor,
        loss: Tensor,
        alpha: Tensor,
        targets: Tensor,
        input_lengths: Tensor,
        target_lengths: Tensor,
        blank: int,
        zero_infinity: bool,
    ) -> Any:
        attrs = {"blank": blank, "zero_infinity": zero_infinity}
        return (g, log_probs, loss, alpha, targets, input_lengths, target_lengths), attrs

    def eager(
        self, g, x, loss, alpha, targets, input_lengths, target_lengths, *, blank, zero_infinity
    ):
        spoken = kernels.Sequences(targets, input_lengths, target_lengths, blank)
        y = kernels.slope(x, loss, alpha, spoken)
        y *= g[:, None]
        if zero_infinity:
            y[:, loss == np.inf] = 0
        return y

    def vjp(self, *_: Any, **attrs: Any) -> NoReturn:
        raise RuntimeError(
            "ctc_loss can be differentiated once: the derivative of its gradient is not implemented"
        )


ctc_nll = registry["ctc_nll"]
ctc_nll.node.__name__ = "CtcLossBackward0"
ctc_slope = registry["ctc_slope"].call

# The gradient is that of the logits behind the log-probabilities: finite differences of these
# would not find it.
SPOKEN = T(6, 2, 4, low=-3, high=0, grad=False)
PADDED = T(values=[[1, 2, 2], [3, 1, 0]], dtype=dtypes.int64)
JOINED = T(values=[1, 2, 2, 3, 1], dtype=dtypes.int64)
INT = dtypes.int64


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(SPOKEN, PADDED, (6, 5), (3, 2), reduction=reduction) for reduction in REDUCTIONS),
        S(SPOKEN, JOINED, T(values=[6, 5], dtype=INT), T(values=[3, 2], dtype=INT)),
        S(SPOKEN, PADDED, [6, 2], [3, 2], reduction="none", zero_infinity=True),
        S(SPOKEN, T(values=[[1, 0], [2, 1]], dtype=INT), (6, 4), (0, 2), 3, "none"),
        S(T(6, 4, low=-3, high=0, grad=False), T(values=[1, 2, 2], dtype=INT), (6,), (3,)),
    ],
    errors=[
        Fails(TypeError, "must be Tensor, not list", [1.0], PADDED, (6, 5), (3, 2)),
        Fails(ValueError, "average is not", SPOKEN, PADDED, (6, 5), (3, 2), reduction="average"),
        Fails(RuntimeError, "blank must be in label range", SPOKEN, PADDED, (6, 5), (3, 2), 4),
        Fails(RuntimeError, "input_lengths .* batch_size", SPOKEN, PADDED, (6,), (3, 2)),
        Fails(RuntimeError, "target_lengths .* batch_size", SPOKEN, PADDED, (6, 5), (3,)),
        Fails(RuntimeError, "input_lengths must be integral", SPOKEN, PADDED, T(2), (3, 2)),
        Fails(RuntimeError, "at most 6, but got value 7", SPOKEN, PADDED, (7, 5), (3, 2)),
        Fails(RuntimeError, "at least 0, but got value -1", SPOKEN, PADDED, (6, 5), (-1, 2)),
        Fails(RuntimeError, "size at least 4 at dimension 1", SPOKEN, PADDED, (6, 5), (4, 2)),
        Fails(
            RuntimeError, "size 6 at dimension 0, but got size 5", SPOKEN, JOINED, (6, 5), (3, 3)
        ),
        Fails(RuntimeError, "3-dimensional", T(1, 6, 2, 4), PADDED, (6, 5), (3, 2)),
        Fails(RuntimeError, "must not be empty", T(0, 2, 4), PADDED, (0, 0), (3, 2)),
        Fails(IndexError, "Target 3 is out of bounds", T(6, 2, 3), PADDED, (6, 5), (3, 2)),
        Fails(NotImplementedError, "'Long'", T(6, 2, 4, dtype=INT), PADDED, (6, 5), (3, 2)),
    ],
)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """The negative log likelihood of sequences of labels whose times are not known.

    The likelihood of a sequence is that of all its alignments together: each step of time gets a
    label or a blank, and labels in a row with no blank between them count as one.

    Args:
        log_probs: a log-softmax over the last of (T, N, C), or of (T, C): times, sequences,
            classes. The gradient takes it to be one.
        targets: the labels, (N, S) padded at the end, or those of all sequences in one row.
        input_lengths: how many of the T times each sequence lasts.
        target_lengths: how many labels each sequence has.
        blank: the class that stands for no label.
        reduction: ``"mean"`` of the losses divided by their target lengths, ``"sum"`` or
            ``"none"``.
        zero_infinity: losses of sequences too long for their input are 0 instead of infinite.

    >>> import rushlight.nn.functional as F
    >>> log_probs = rl.full((4, 1, 3), 1 / 3).log()
    >>> F.ctc_loss(log_probs, rl.tensor([[1, 2]]), (4,), (2,), reduction="sum")
    tensor(1.6864)
    """
    reduction = chosen(reduction)
    x = need_tensor("ctc_loss", log_probs)
    labels = need_tensor("ctc_loss", targets, "targets", 2)
    batched = x.ndim != 2
    if not batched:
        x, labels = x.unsqueeze(1), labels.reshape(1, -1)
    check_log_probs(x, blank)
    times, count, classes = x.shape
    spans = lengths_of("input_lengths", input_lengths, count, times)
    sizes = lengths_of("target_lengths", target_lengths, count)
    padded = wrap(padded_labels(labels._array, sizes, classes))
    loss = ctc_nll.call(x, padded, wrap(spans), wrap(sizes), blank, zero_infinity)[0]
    if zero_infinity:
        loss = ops.where(loss == float("inf"), 0, loss)
    if reduction == "mean":
        return (loss / wrap(np.maximum(sizes, 1)).to(x.dtype)).mean()
    return reduced(loss if batched else loss.squeeze(0), reduction)


def check_log_probs(x: Tensor, blank: int) -> None:
    """An error unless ``x`` is of three dimensions, not empty, with ``blank`` among its classes."""
    if x.ndim != 3:
        raise RuntimeError(
            "ctc_loss: Expected 3-dimensional tensor (or a 2-dimensional one for one sequence), "
            f"but got shape {list(x.shape)} for argument #1 'log_probs'"
        )
    if not x.numel():
        raise RuntimeError(f"log_probs tensor must not be empty, got shape {list(x.shape)}")
    if x.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"ctc_loss\" not implemented for '{x.dtype.storage_name}'")
    if not 0 <= blank < x.shape[2]:
        raise RuntimeError(f"blank must be in label range: got {blank} for {x.shape[2]} classes")


def lengths_of(name: str, lengths: Lengths, count: int, most: int | None = None) -> np.ndarray:
    """``count`` lengths as an array, each from 0 to ``most``."""
    if isinstance(lengths, Tensor):
        found = lengths._array.reshape(-1)
    else:
        try:
            found = np.array([index(n) for n in lengths], np.int64)
        except TypeError:
            raise TypeError(
                f"ctc_loss(): argument '{name}' must be Tensor or tuple of ints, not "
                f"{messages.kind(lengths)}"
            ) from None
    if found.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be integral, got {found.dtype}")
    if len(found) != count:
        raise RuntimeError(f"{name} must be of size batch_size: expected {count}, got {len(found)}")
    for n in found:
        if n < 0:
            raise RuntimeError(f"Expected {name} to have value at least 0, but got value {n}")
        if most is not None and n > most:
            raise RuntimeError(f"Expected {name} to have value at most {most}, but got value {n}")
    return found.astype(np.int64)


def padded_labels(targets: np.ndarray, lengths: np.ndarray, classes: int) -> np.ndarray:
    """The labels of each sequence in a row, with label 0 after its last."""
    count, longest = len(lengths), int(lengths.max())
    there = np.arange(longest) < lengths[:, None]
    padded = np.zeros((count, longest), np.int64)
    if targets.ndim == 1:
        if targets.size != lengths.sum():
            raise wrong_targets(f"{lengths.sum()} at dimension 0", targets.size)
        padded[there] = targets
    elif targets.ndim == 2:
        if len(targets) != count:
            raise wrong_targets(f"{count} at dimension 0", len(targets))
        if targets.shape[1] < longest:
            raise wrong_targets(f"at least {longest} at dimension 1", targets.shape[1])
        padded[there] = targets[:, :longest][there]
    else:
        raise RuntimeError(
            f"ctc_loss: Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor for "
            "argument #2 'targets'"
        )
    wrong = first_outside(padded, 0, classes)
    if wrong is not None:
        raise IndexError(f"Target {wrong} is out of bounds. [labels from 0 to {classes - 1}]")
    return padded


def wrong_targets(expected: str, size: int) -> RuntimeError:
    return RuntimeError(
        f"ctc_loss: Expected tensor to have size {expected}, but got size {size} for argument #2 "
        "'targets'"
    )
