"""CTC against the sum over all alignments, one by one."""

from __future__ import annotations

from itertools import groupby, product

import numpy as np
import pytest

from rushlight.kernels import ctc


def read(alignment: tuple[int, ...], blank: int) -> list[int]:
    """The labels that an alignment stands for: runs once, blanks not at all."""
    return [symbol for symbol, _ in groupby(alignment) if symbol != blank]


def by_enumeration(log_probs: np.ndarray, labels: list[int], blank: int) -> float:
    times, classes = log_probs.shape
    total = 0.0
    for alignment in product(range(classes), repeat=times):
        if read(alignment, blank) == labels:
            total += np.exp(log_probs[np.arange(times), alignment].sum())
    with np.errstate(divide="ignore"):
        return -np.log(total)


@pytest.mark.parametrize(
    ("labels", "blank"),
    [([1, 2], 0), ([1, 1], 0), ([2, 1, 2], 0), ([], 0), ([0, 1], 2), ([1, 1, 1], 0), ([2], 1)],
)
def test_all_alignments_are_counted_once(labels: list[int], blank: int) -> None:
    random = np.random.default_rng(0)
    log_probs = np.log(random.dirichlet(np.ones(3), 4))
    sequences = ctc.Sequences(
        np.array([labels], int), np.array([4]), np.array([len(labels)]), blank
    )
    with np.errstate(divide="ignore"):
        losses, _ = ctc.losses(log_probs[:, None], sequences)
    np.testing.assert_allclose(losses, [by_enumeration(log_probs, labels, blank)])


def test_sequences_of_different_lengths_do_not_mix() -> None:
    random = np.random.default_rng(1)
    log_probs = np.log(random.dirichlet(np.ones(3), (5, 2)))
    targets = np.array([[1, 2, 1], [2, 0, 0]])
    sequences = ctc.Sequences(targets, np.array([5, 3]), np.array([3, 1]), 0)
    with np.errstate(divide="ignore"):
        losses, alpha = ctc.losses(log_probs, sequences)
        slope = ctc.slope(log_probs, losses, alpha, sequences)
    expected = [
        by_enumeration(log_probs[:, 0], [1, 2, 1], 0),
        by_enumeration(log_probs[:3, 1], [2], 0),
    ]
    np.testing.assert_allclose(losses, expected)
    assert not slope[3:, 1].any()
    np.testing.assert_allclose(slope.sum(2), 0, atol=1e-12)


def test_the_slope_is_that_of_the_logits() -> None:
    random = np.random.default_rng(2)
    logits = random.standard_normal((4, 1, 3))
    sequences = ctc.Sequences(np.array([[1, 1]]), np.array([4]), np.array([2]), 0)

    def loss(x: np.ndarray) -> float:
        log_probs = x - np.log(np.exp(x).sum(2, keepdims=True))
        return float(ctc.losses(log_probs, sequences)[0][0])

    with np.errstate(divide="ignore"):
        log_probs = logits - np.log(np.exp(logits).sum(2, keepdims=True))
        slope = ctc.slope(log_probs, *ctc.losses(log_probs, sequences), sequences)
        for place in np.ndindex(*logits.shape):
            step = np.zeros_like(logits)
            step[place] = 1e-6
            numeric = (loss(logits + step) - loss(logits - step)) / 2e-6
            assert slope[place] == pytest.approx(numeric, abs=1e-8)
