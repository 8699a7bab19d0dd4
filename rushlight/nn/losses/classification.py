"""Layers of losses of predicted classes and probabilities."""

from __future__ import annotations

import math

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn.linear import Linear
from rushlight.nn.losses.base import _Loss, _WeightedLoss
from rushlight.ops.ctc import Lengths
from rushlight.ops.linear_cross_entropy import LinearCrossEntropyOptions
from rushlight.ops.loss_reduction import warn
from rushlight.tensor import Tensor


class NLLLoss(_WeightedLoss):
    """The negative log likelihood of the labelled classes: mean of -input[n, target[n]].

    Args:
        weight: of each class; the mean is then Σ weight · loss / Σ weight of the labels.
        ignore_index: a label that does not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Log-probabilities (N, C), (C) or (N, C, d₁, …) and labels (N), () or (N, d₁, …); the result
        is a scalar, or of the shape of the labels without reduction.

    >>> rl.nn.NLLLoss()(rl.tensor([[-0.1, -2.4], [-1.0, -0.5]]), rl.tensor([0, 1]))
    tensor(0.3000)
    """

    __constants__ = ["ignore_index", "reduction"]
    ignore_index: int

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class NLLLoss2d(NLLLoss):
    """:class:`NLLLoss` under the name it once had for images."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement.",
            FutureWarning,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """The cross-entropy of logits and true classes: mean of -log softmax(input)[n, target[n]].

    A target of the shape of the input holds a probability q for each class instead of a label:
    mean of -Σ q · log softmax(input).

    Args:
        weight: of each class; with labels the mean is Σ weight · loss / Σ weight of the labels.
        ignore_index: a label that does not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: what part of each probability is spread evenly over all classes.

    Shape:
        Logits (N, C), (C) or (N, C, d₁, …); labels (N), () or (N, d₁, …), or probabilities of the
        shape of the logits. The result is a scalar, or of the shape of labels without reduction.

    >>> loss = rl.nn.CrossEntropyLoss()
    >>> logits = rl.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> loss(logits, rl.tensor([0, 1]))
    tensor(0.4100)
    >>> loss(logits, rl.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor(0.9100)
    """

    __constants__ = ["ignore_index", "label_smoothing", "reduction"]
    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A :class:`Linear` layer and the :class:`CrossEntropyLoss` of its logits in one.

    Args:
        in_features: the size of the last dimension of the input.
        num_classes: C, the number of classes.
        out_features: (d₁, …), if each input has several targets.
        bias: whether the linear layer has one.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        weight: of each class.
        ignore_index: a label that does not count; None stands for -100.
        label_smoothing: what part of each probability is spread evenly over all classes.
        options: if given, logits of labels are made in chunks, which takes less memory.

    Shape:
        Inputs (N, in_features) or (in_features); labels (N), () or (N, d₁, …), or probabilities
        with C after N. The result is a scalar, or of the shape of labels without reduction.

    >>> loss = rl.nn.LinearCrossEntropyLoss(8, 100)
    >>> loss(rl.zeros(16, 8), rl.arange(16))
    tensor(4.6052, grad_fn=<NllLossBackward0>)
    """

    __constants__ = [
        "ignore_index",
        "label_smoothing",
        "num_classes",
        "out_features",
        "reduction",
    ]
    num_classes: int
    out_features: tuple[int, ...]
    ignore_index: int | None
    label_smoothing: float
    options: LinearCrossEntropyOptions | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        logits = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, logits, bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*shape, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class BCELoss(_WeightedLoss):
    """The cross-entropy of probabilities of one class: mean of -t · log(x) - (1 - t) · log(1 - x).

    Logarithms are taken to be at least -100, so that the loss is finite.

    Args:
        weight: of each element, broadcast.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Shape:
        Predicted and true probabilities x and t of one shape (*); the result is a scalar, or (*)
        without reduction.

    >>> rl.nn.BCELoss()(rl.tensor([0.5, 0.9]), rl.tensor([0.0, 1.0]))
    tensor(0.3993)
    """

    __constants__ = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """:class:`BCELoss` of sigmoid(input), without overflow.

    Args:
        weight: of each element, broadcast.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        pos_weight: of the positive part ``target · log(sigmoid(input))``, broadcast.

    Shape:
        Logits and true probabilities of one shape (*); the result is a scalar, or (*) without
        reduction.

    >>> rl.nn.BCEWithLogitsLoss()(rl.tensor([0.0, 3.0]), rl.tensor([0.0, 1.0]))
    tensor(0.3709)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """The divergence of Kullback and Leibler: target · (log(target) - input), of each element.

    Args:
        reduction: ``"batchmean"``, the divergence for each of the first dimension; ``"mean"`` over
            all elements, ``"sum"`` or ``"none"``.
        log_target: whether the target is given as logarithms, as the input is.

    Shape:
        Two tensors of one shape (*); the result is a scalar, or (*) without reduction.

    >>> p, q = rl.tensor([[0.5, 0.5]]), rl.tensor([[0.9, 0.1]])
    >>> rl.nn.KLDivLoss(reduction="batchmean")(p.log(), q)
    tensor(0.3681)
    """

    __constants__ = ["reduction"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class CTCLoss(_Loss):
    """The negative log likelihood of sequences of labels whose times are not known.

    The likelihood of a sequence is that of all its alignments together: each step of time gets a
    label or a blank, and labels in a row with no blank between them count as one.

    Args:
        blank: the class that stands for no label.
        reduction: ``"mean"`` of the losses divided by their target lengths, ``"sum"`` or
            ``"none"``.
        zero_infinity: losses of sequences too long for their input are 0 instead of infinite.

    Shape:
        A log-softmax over the last of (T, N, C): times, sequences, classes; labels (N, S), or those
        of all sequences in one row; the lengths (N) of inputs and of targets. The result is a
        scalar, or (N) without reduction. Without N, the lengths are scalars.

    >>> log_probs = rl.full((4, 1, 3), 1 / 3).log()
    >>> rl.nn.CTCLoss(reduction="sum")(log_probs, rl.tensor([[1, 2]]), (4,), (2,))
    tensor(1.6864)
    """

    __constants__ = ["blank", "reduction"]
    blank: int
    zero_infinity: bool

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths
    ) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
