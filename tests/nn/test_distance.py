"""Distances, similarities and the softmax over many classes."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def test_the_similarity_of_a_vector_of_zeros_is_zero() -> None:
    x = rl.zeros(1, 3, requires_grad=True)
    y = F.cosine_similarity(x, rl.ones(1, 3))
    y.backward()
    assert y.tolist() == [0]
    assert rl.isfinite(x.grad).all()


def test_similarity_broadcasts_and_promotes() -> None:
    a, b = rl.ones(2, 1, 3), rl.ones(4, 3, dtype=rl.float64)
    y = nn.CosineSimilarity(dim=-1)(a, b)
    assert y.shape == (2, 4)
    assert y.dtype is rl.float64


def test_equal_vectors_are_as_far_apart_as_eps() -> None:
    x = rl.ones(2, 4, requires_grad=True)
    y = nn.PairwiseDistance(eps=0.5, keepdim=True)(x, x.detach())
    assert y.tolist() == [[1], [1]]
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 0.5)


def test_the_functions_have_both_names() -> None:
    assert F.pdist is rl.pdist


@pytest.fixture
def adaptive() -> nn.AdaptiveLogSoftmaxWithLoss:
    rl.manual_seed(0)
    return nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2, head_bias=True)


def test_probabilities_of_all_classes_are_those_of_the_targets(
    adaptive: nn.AdaptiveLogSoftmaxWithLoss,
) -> None:
    x = rl.randn(20, 8)
    every = adaptive.log_prob(x)
    np.testing.assert_allclose(every.exp().sum(1).detach().numpy(), 1, rtol=1e-5)
    output, loss = adaptive(x, rl.arange(20))
    np.testing.assert_allclose(
        output.detach().numpy(), every.diagonal().detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert loss.item() == pytest.approx(-output.mean().item(), rel=1e-6)
    assert rl.equal(adaptive.predict(x), every.argmax(1))
    one = adaptive(x[3], rl.tensor(3))
    assert one.output.shape == ()
    assert one.loss.item() == pytest.approx(-every[3, 3].item(), rel=1e-5)


def test_all_weights_of_an_adaptive_softmax_learn(
    adaptive: nn.AdaptiveLogSoftmaxWithLoss,
) -> None:
    adaptive(rl.randn(20, 8), rl.arange(20)).loss.backward()
    assert all(p.grad is not None and p.grad.any() for p in adaptive.parameters())
    before = adaptive.head.weight.clone()
    adaptive.reset_parameters()
    assert not rl.equal(before, adaptive.head.weight)


def test_what_does_not_fit_an_adaptive_softmax_is_refused(
    adaptive: nn.AdaptiveLogSoftmaxWithLoss,
) -> None:
    for cutoffs in ([], [5, 5], [3, 2], [0], [20], [1.5]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence"):
            nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs)
    with pytest.raises(
        RuntimeError, match=r"should be in \[0, 19\], but values in range \[-1, 20\]"
    ):
        adaptive(rl.zeros(2, 8), rl.tensor([-1, 20]))
    with pytest.raises(RuntimeError, match="same size in the batch dimension"):
        adaptive(rl.zeros(2, 8), rl.tensor([1]))
    with pytest.raises(RuntimeError, match="1D target tensor expects 2D input"):
        adaptive(rl.zeros(8), rl.tensor([1]))
    with pytest.raises(RuntimeError, match="multi-target not supported"):
        adaptive(rl.zeros(2, 8), rl.tensor([[1], [2]]))
