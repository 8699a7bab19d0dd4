"""The cross-entropy of a linear layer's logits, which need not be held all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from rushlight import dtypes
from rushlight.kernels import cross_entropy as kernels
from rushlight.kernels.engine import dot
from rushlight.ops.base import Op, composite, need_tensor, registry
from rushlight.ops.classification_losses import cross_entropy, fitting, label, labels
from rushlight.ops.loss_reduction import REDUCTIONS, chosen, warn
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

POLICIES = ("auto", "accurate", "balanced", "compact")


@dataclass(frozen=True, slots=True)
class LinearCrossEntropyOptions:
    """How :func:`linear_cross_entropy` goes through the rows of its input, chunk by chunk.

    The logits of one chunk alone are held, and computed again in backward.

    Args:
        allow_retain_graph: accepted for compatibility; the graph can always be retained.
        batch_chunk_size: rows in a chunk.
        chunking_method: ``"aspect_ratio"`` makes the logits of a chunk about as large as the
            input, ``"aspect_ratio:n"`` n times smaller; ``"auto"`` takes ``batch_chunk_size`` if
            given, else ``"aspect_ratio:2"``; None takes ``batch_chunk_size``, or all rows.
        acc_policy: accepted for compatibility; half precision is always summed in float32.
        acc_dtype: likewise.

    >>> rl.nn.LinearCrossEntropyOptions(batch_chunk_size=16).rows(100, 8, 1000)
    16
    >>> rl.nn.LinearCrossEntropyOptions().rows(100, 8, 1000)
    1
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: dtypes.dtype | None = None

    def __post_init__(self) -> None:
        size = self.batch_chunk_size
        if self.acc_policy not in POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto") and not self.ratio(self.chunking_method):
            raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype is not None and not self.acc_dtype.is_floating_point:
            raise ValueError(f"acc_dtype must be of floating-point numbers, got {self.acc_dtype!r}")

    @staticmethod
    def ratio(method: str) -> int:
        """The n of ``"aspect_ratio:n"``; 0 if it is something else."""
        name, colon, factor = method.partition(":")
        factor = factor if colon else "1"
        return int(factor) if name == "aspect_ratio" and factor.isdigit() else 0

    def rows(self, batch: int, features: int, classes: int) -> int:
        """How many rows of a batch make a chunk."""
        size, method = self.batch_chunk_size, self.chunking_method
        if method is None or (method == "auto" and size is not None):
            return batch if size is None else max(min(size, batch), 1)
        wanted = math.ceil(batch / math.ceil(classes / features))
        power = 1 << max(wanted - 1, 0).bit_length()
        count = max(
            min(power // self.ratio("aspect_ratio:2" if method == "auto" else method), batch), 1
        )
        if size not in (None, count):
            raise ValueError(
                f"batch_chunk_size (={size}) and chunking_method ('{method}') give different chunk "
                f"sizes ({size} vs {count}); pass only one."
            )
        return count


def widened(*arrays: np.ndarray | None) -> Iterator[Any]:
    """Arrays of half types as float32, others as they are."""
    for a in arrays:
        yield a if a is None or a.dtype not in dtypes.HALF else a.astype(np.float32)


def chunks(
    x: np.ndarray, matrix: np.ndarray, bias: np.ndarray | None, rows: int
) -> Iterator[tuple[slice, np.ndarray]]:
    """The logits x·Aᵀ + b of ``rows`` rows at a time, and which rows these are."""
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        logits = dot(x[part], matrix.T)
        if bias is not None:
            logits += bias
        yield part, logits


def total_weight(target: np.ndarray, weight: np.ndarray | None, ignore_index: int) -> Any:
    """What the labels weigh together."""
    counted = target[target != ignore_index]
    return np.float64(counted.size if weight is None else weight[counted].sum())


class ChunkedCrossEntropy(Op):
    """:func:`linear_cross_entropy` of labels, with the logits of ``rows`` rows at a time."""

    function = method = False
    library = "contractions, chunk by chunk"

    def check(
        self,
        x: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        target: Tensor,
        weight: Tensor | None,
        **attrs: Any,
    ) -> Any:
        return (x, matrix, bias, target, weight), attrs

    def eager(self, x, matrix, bias, target, weight, *, reduction, ignore_index, rows):
        kind = x.dtype
        x, matrix, bias, weight = widened(x, matrix, bias, weight)
        losses = np.empty(len(x))
        for part, logits in chunks(x, matrix, bias, rows):
            loss, _ = kernels.cross_entropy(logits, target[part], weight, "none", ignore_index)
            losses[part] = loss
        if reduction == "none":
            return losses.astype(kind)
        total = total_weight(target, weight, ignore_index) if reduction == "mean" else 1
        return (losses.sum() / total).astype(kind)

    def vjp(self, g, _y, x, matrix, bias, target, weight, **attrs):
        return *chunked_slopes(g, x, matrix, bias, target, weight, **attrs), None, None


class ChunkedSlopes(Op):
    """The gradients of :class:`ChunkedCrossEntropy`: of the input, the matrix and the bias."""

    function = method = False
    library = "contractions, chunk by chunk"

    def check(
        self,
        g: Tensor,
        x: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        target: Tensor,
        weight: Tensor | None,
        **attrs: Any,
    ) -> Any:
        return (g, x, matrix, bias, target, weight), attrs

    def eager(self, g, x, matrix, bias, target, weight, *, reduction, ignore_index, rows):
        g, x, matrix, bias, weight = widened(g, x, matrix, bias, weight)
        if reduction == "mean":
            g = g / (total_weight(target, weight, ignore_index) or 1)
        scale = np.broadcast_to(g, x.shape[:1])[:, None]
        along_x = np.empty_like(x)
        along_matrix = np.zeros_like(matrix)
        along_bias = np.zeros(len(matrix), x.dtype)
        for part, logits in chunks(x, matrix, bias, rows):
            _, slope = kernels.cross_entropy(logits, target[part], weight, "none", ignore_index)
            slope *= scale[part]
            along_x[part] = dot(slope, matrix)
            along_matrix += dot(slope.T, x[part])
            along_bias += slope.sum(0)
        return along_x, along_matrix, along_bias

    def vjp(self, *_: Any, **attrs: Any) -> NoReturn:
        raise RuntimeError(
            "linear_cross_entropy in chunks can be differentiated once: use options=None for more"
        )


chunked_cross_entropy = registry["chunked_cross_entropy"].call
chunked_slopes = registry["chunked_slopes"].call
CHUNKS = LinearCrossEntropyOptions(batch_chunk_size=2)


@composite(
    namespace="nn.functional",
    method=False,
    samples=[
        *(S(T(3, 2), T(4, 2), labels(0, 3, 1), reduction=reduction) for reduction in REDUCTIONS),
        S(T(3, 2), T(4, 2), labels(0, 3, 1), linear_bias=T(4), weight=T(4, low=0.5, grad=False)),
        S(T(3, 2), T(4, 2), labels(0, 3, 1), label_smoothing=0.2, ignore_index=3),
        S(T(2), T(4, 2), label(3)),
        S(T(3, 2), T(4, 2), T(3, 4, low=0, high=1)),
        S(T(2, 3), T(4, 2, 3), labels([0, 3], [1, 2]), linear_bias=T(4, 2)),
        *(
            S(
                T(3, 2, grad=False),
                T(4, 2, grad=False),
                labels(0, 3, 1),
                linear_bias=T(4, grad=False),
                options=CHUNKS,
                reduction=reduction,
            )
            for reduction in REDUCTIONS
        ),
    ],
    errors=[
        Fails(
            RuntimeError, "input with dimensionality 1 or 2, got 3", T(1, 2, 3), T(4, 3), label(0)
        ),
        Fails(RuntimeError, "dimensionality at least 2, got 1", T(2, 3), T(3), labels(0, 1)),
        Fails(RuntimeError, "got 3 and 4, respectively", T(2, 3), T(5, 4), labels(0, 1)),
        Fails(
            RuntimeError,
            r"linear_bias shape \(5,\), got \(4,\)",
            T(2, 3),
            T(5, 3),
            labels(0, 1),
            linear_bias=T(4),
        ),
        Fails(RuntimeError, "requires batched input", T(3), T(5, 2, 3), labels(0, 1)),
        Fails(RuntimeError, "ignore_index cannot be", T(3), T(5, 3), T(5), ignore_index=1),
        Fails(IndexError, "Target 7 is out of bounds", T(2, 3), T(5, 3), labels(0, 7)),
        Fails(IndexError, "Target 7 is out of", T(2, 3), T(5, 3), labels(0, 7), options=CHUNKS),
    ],
)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """:func:`cross_entropy` of the logits ``linear(input, linear_weight, linear_bias)``.

    Args:
        input: of shape (N, features) or (features).
        linear_weight: of shape (C, features), or (C, d₁, …, features) for targets (N, d₁, …).
        target: labels or probabilities, as for :func:`cross_entropy`.
        linear_bias: of the shape of ``linear_weight`` without its last dimension.
        ignore_index: a label that does not count; None stands for -100.
        options: if given, logits of labels are made in chunks, which takes less memory.

    >>> import rushlight.nn.functional as F
    >>> F.linear_cross_entropy(rl.ones(2, 3), rl.zeros(4, 3), rl.tensor([0, 3]))
    tensor(1.3863)
    """
    reduction = chosen(reduction)
    x = need_tensor("linear_cross_entropy", input)
    matrix = need_tensor("linear_cross_entropy", linear_weight, "linear_weight", 2)
    t = need_tensor("linear_cross_entropy", target, "target", 3)
    check_linear(x.shape, matrix.shape, linear_bias)
    classes, *positions = matrix.shape[:-1]
    shape = (*x.shape[:-1], classes, *positions)
    if t.shape == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        if positions or label_smoothing or t.dtype is not dtypes.int64:
            warn(
                "linear_cross_entropy: ``options`` ignored; the chunked path needs label_smoothing "
                f"== 0, labels of int64 and a matrix of two dimensions, got {label_smoothing=}, "
                f"target.dtype={t.dtype} and linear_weight of shape {list(matrix.shape)}"
            )
        else:
            return in_chunks(x, matrix, linear_bias, t, weight, reduction, ignored, options)
    if positions:
        matrix = matrix.reshape(-1, x.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = x @ matrix.T
    if linear_bias is not None:
        logits = logits + linear_bias
    logits = logits.reshape(shape)
    return cross_entropy(
        logits,
        t,
        weight,
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def check_linear(x: tuple[int, ...], matrix: tuple[int, ...], bias: Tensor | None) -> None:
    """An error unless an input of shape ``x`` can be multiplied by a matrix of this shape."""
    if len(x) not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {len(x)}")
    if len(matrix) < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {len(matrix)}"
        )
    if x[-1] != matrix[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{x[-1]} and {matrix[-1]}, respectively"
        )
    if bias is not None and bias.shape != matrix[:-1]:
        raise RuntimeError(
            f"expected linear_bias shape {tuple(matrix[:-1])}, got {tuple(bias.shape)}"
        )
    if len(matrix) > 2 and len(x) == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(matrix)} requires batched "
            f"input, (N, {x[-1]}), got unbatched input with shape {tuple(x)}"
        )


def in_chunks(
    x: Tensor,
    matrix: Tensor,
    bias: Tensor | None,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    options: LinearCrossEntropyOptions,
) -> Tensor:
    """:func:`linear_cross_entropy` of labels, chunk by chunk."""
    batched = x.ndim == 2
    if not batched:
        x, target = x.unsqueeze(0), target.reshape(1)
    logits = x.shape[0], matrix.shape[0]
    kind = x._array.dtype
    target = fitting("linear_cross_entropy", logits, kind, target, weight, ignore_index)
    loss = chunked_cross_entropy(
        x,
        matrix,
        bias,
        target,
        weight,
        reduction=reduction,
        ignore_index=ignore_index,
        rows=options.rows(x.shape[0], x.shape[1], matrix.shape[0]),
    )
    return loss if batched or reduction != "none" else loss.squeeze(0)
