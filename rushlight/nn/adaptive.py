"""The softmax over many classes, of which few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn.containers import ModuleList, Sequential
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.ops import ops
from rushlight.tensor import Tensor


class _ASMoutput(NamedTuple):
    """The log-probability of each target, and the loss: the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A log-softmax over classes sorted by frequency, with less work for the rare ones.

    The frequent classes, up to the first cutoff, and one symbol for each cluster of rarer classes
    make up the head, a softmax. The probability of a rare class is that of its cluster times that
    within the cluster, which has smaller weights the rarer its classes are.

    Args:
        in_features: the size of the last dimension of the input.
        n_classes: the number of classes.
        cutoffs: where clusters begin, in increasing order, from 1 to n_classes - 1.
        div_value: how much fewer features each cluster has than the one before.
        head_bias: whether the head has a bias.

    Shape:
        Inputs (N, in_features) or (in_features) and labels (N) or (); the result has two parts,
        ``output``, of the shape of the labels, and ``loss``, a scalar.

    >>> layer = rl.nn.AdaptiveLogSoftmaxWithLoss(16, 1000, cutoffs=[10, 100])
    >>> x = rl.zeros(4, 16)
    >>> result = layer(x, rl.tensor([0, 9, 10, 999]))
    >>> result.output.shape, result.loss.shape
    (rushlight.Size([4]), rushlight.Size([]))
    >>> layer.log_prob(x).exp().sum(1).detach()
    tensor([1.0000, 1.0000, 1.0000, 1.0000])
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in cutoffs)
        if not whole or any(a >= b for a, b in pairwise([0, *cutoffs, n_classes])):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                f"order, where each value is between 1 and n_classes-1, got {cutoffs} for "
                f"n_classes={n_classes}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (first, last) in enumerate(pairwise(self.cutoffs)):
            features = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, features, False, device, dtype),
                    Linear(features, last - first, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._check(input_, target_)
        batched = target_.dim() > 0
        x, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        head = F.log_softmax(self.head(x), dim=1)
        symbol = target.clone()
        output = x.new_zeros(len(target))
        for i, (first, last) in enumerate(pairwise(self.cutoffs)):
            here = ((target >= first) & (target < last)).nonzero().squeeze(1)
            if here.numel():
                symbol.index_fill_(0, here, self.shortlist_size + i)
                within = F.log_softmax(self.tail[i](x.index_select(0, here)), dim=1)
                label = target.index_select(0, here) - first
                output = output.index_copy(0, here, within.gather(1, label.unsqueeze(1)).squeeze(1))
        output = output + head.gather(1, symbol.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output if batched else output.squeeze(0), (-output).mean())

    def _check(self, x: Tensor, target: Tensor) -> None:
        """An error unless input and target fit each other and this layer."""
        if target.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if x.dim() != target.dim() + 1:
            raise RuntimeError(
                f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but "
                f"found inputs with size {x.shape}"
            )
        if target.dim() and len(x) != len(target):
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension, got "
                f"{len(x)} and {len(target)}"
            )
        if target.numel():
            low, high = target.min().item(), target.max().item()
            if low < 0 or high >= self.n_classes:
                raise RuntimeError(
                    f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                    f"[{low}, {high}] were found. "
                )

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            symbol = self.shortlist_size + i
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, symbol : symbol + 1])
        return ops.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: (N, in_features) to (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each input: (N, in_features) to (N).

        It is ``log_prob(input).argmax(1)``, without the clusters where the head tells.
        """
        head_output = self.head(input)
        output = head_output.argmax(1)
        rare = output >= self.shortlist_size
        if rare.any():
            output[rare] = self._get_full_log_prob(input[rare], head_output[rare]).argmax(1)
        return output
