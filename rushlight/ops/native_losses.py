"""Losses as PyTorch's top namespace has them: the reduction is a number, 0 none, 1 mean, 2 sum."""

from __future__ import annotations

from typing import Any

from rushlight.errors import kind
from rushlight.ops import ctc, margin_losses, probability_losses, regression_losses
from rushlight.ops.base import composite
from rushlight.ops.loss_reduction import reduced
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

NUMBERED = ("none", "mean", "sum")
PAIR = T(3, 4), T(3, 4, low=0.1, high=1)
SIGNS = T(values=[1.0, -1.0, 1.0], grad=False)


def named(reduction: int) -> str:
    """The name of a numbered reduction."""
    if isinstance(reduction, int) and 0 <= reduction < len(NUMBERED):
        return NUMBERED[reduction]
    if isinstance(reduction, int):
        raise ValueError(f"{reduction} is not a valid value for reduction: expected 0, 1 or 2")
    raise TypeError(f"argument 'reduction' must be int, not {kind(reduction)}")


def tried(*args: Any, **kwargs: Any) -> dict[str, Any]:
    """The options of a loss that is tried with these arguments and each reduction."""
    return {
        "method": False,
        "samples": [S(*args, **kwargs, reduction=number) for number in (0, 1, 2)],
        "errors": [
            Fails(ValueError, "3 is not a valid value", *args, **kwargs, reduction=3),
            Fails(TypeError, "must be int, not str", *args, **kwargs, reduction="mean"),
        ],
    }


@composite(**tried(*PAIR))
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """:func:`nn.functional.binary_cross_entropy_with_logits`, the reduction as a number.

    >>> rl.binary_cross_entropy_with_logits(rl.tensor([0.0, 3.0]), rl.tensor([0.0, 1.0]))
    tensor(0.3709)
    """
    return probability_losses.binary_cross_entropy_with_logits(
        input, target, weight, reduction=named(reduction), pos_weight=pos_weight
    )


@composite(**tried(*PAIR))
def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """:func:`nn.functional.kl_div`, the reduction as a number.

    >>> rl.kl_div(rl.tensor([0.5, 0.5]).log(), rl.tensor([0.9, 0.1]), reduction=2)
    tensor(0.3681)
    """
    losses = probability_losses.divergences(input, target, log_target)
    return reduced(losses, named(reduction))


@composite(**tried(*PAIR, log_input=True, full=False, eps=1e-8))
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """:func:`nn.functional.poisson_nll_loss`, the reduction as a number.

    >>> rl.poisson_nll_loss(rl.tensor([0.0, 1.0]), rl.tensor([1.0, 3.0]), True, False, 1e-8, 1)
    tensor(0.3591)
    """
    return regression_losses.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=named(reduction)
    )


@composite(**tried(T(3), SIGNS))
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1
) -> Tensor:
    """:func:`nn.functional.hinge_embedding_loss`, the reduction as a number.

    >>> rl.hinge_embedding_loss(rl.tensor([0.5, 0.25]), rl.tensor([1.0, -1.0]))
    tensor(0.6250)
    """
    return margin_losses.hinge_embedding_loss(input, target, margin, reduction=named(reduction))


@composite(**tried(T(3), T(3), SIGNS))
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """:func:`nn.functional.margin_ranking_loss`, the reduction as a number.

    >>> rl.margin_ranking_loss(rl.tensor([0.5, 2.0]), rl.tensor([1.0, 1.0]), rl.tensor([1.0, 1.0]))
    tensor(0.2500)
    """
    return margin_losses.margin_ranking_loss(
        input1, input2, target, margin, reduction=named(reduction)
    )


@composite(**tried(T(3, 4), T(3, 4), SIGNS))
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """:func:`nn.functional.cosine_embedding_loss`, the reduction as a number.

    >>> rl.cosine_embedding_loss(rl.tensor([1.0, 0.0]), rl.tensor([0.0, 1.0]), rl.tensor(1.0))
    tensor(1.)
    """
    return margin_losses.cosine_embedding_loss(
        input1, input2, target, margin, reduction=named(reduction)
    )


@composite(**tried(T(3, 4), T(3, 4), T(3, 4)))
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 1,
) -> Tensor:
    """:func:`nn.functional.triplet_margin_loss`, the reduction as a number.

    >>> rl.triplet_margin_loss(rl.zeros(1, 2), rl.ones(1, 2), rl.tensor([[2.0, 0.0]]))
    tensor(0.4142)
    """
    return margin_losses.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=named(reduction)
    )


@composite(**tried(ctc.SPOKEN, ctc.PADDED, (6, 5), (3, 2)))
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: ctc.Lengths,
    target_lengths: ctc.Lengths,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """:func:`nn.functional.ctc_loss`, the reduction as a number.

    >>> log_probs = rl.full((4, 1, 3), 1 / 3).log()
    >>> rl.ctc_loss(log_probs, rl.tensor([[1, 2]]), (4,), (2,), reduction=2)
    tensor(1.6864)
    """
    return ctc.ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        named(reduction),
        zero_infinity,
    )
