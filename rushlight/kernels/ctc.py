"""Connectionist temporal classification: how likely a sequence is over all its alignments.

An alignment of the labels l₁ … lₙ gives one symbol to each step of time. Its symbols are, in
order, ``· l₁ · l₂ · … lₙ ·``: each lasts for some steps, and blanks (``·``) may be left out, but
not between equal labels. *States* are the 2n + 1 places of that line. All likelihoods are
logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NEVER = -np.inf


class Sequences(NamedTuple):
    """What is to be recognised: labels, padded to a common length, and how many of them count."""

    targets: np.ndarray  # (sequences, labels)
    input_lengths: np.ndarray  # (sequences): steps of time
    target_lengths: np.ndarray  # (sequences): labels
    blank: int

    def states(self) -> np.ndarray:
        """The symbol of each state: (sequences, states)."""
        count, n = self.targets.shape
        states = np.full((count, 2 * n + 1), self.blank)
        states[:, 1::2] = self.targets
        return states

    def skips(self, kind: np.dtype) -> np.ndarray:
        """0 where a state may follow that two before it, a label that differs; else never."""
        skips = np.full((len(self.targets), 2 * self.targets.shape[1] + 1), NEVER, kind)
        skips[:, 3::2][self.targets[:, 1:] != self.targets[:, :-1]] = 0
        return skips

    def ends(self, kind: np.dtype) -> np.ndarray:
        """0 for the states that a sequence may end in, its last label and its last blank."""
        state, last = np.arange(2 * self.targets.shape[1] + 1), 2 * self.target_lengths[:, None]
        return np.where((state == last) | (state == last - 1), 0, NEVER).astype(kind)


class Ways:
    """The three ways into a state: from itself, from the one before, from two before."""

    def __init__(self, skips: np.ndarray) -> None:
        self.skips = skips
        self.parts = np.full((3, *skips.shape), NEVER, skips.dtype)
        self.scaled = np.empty_like(self.parts)
        self.least = np.finfo(skips.dtype).min

    def join(self, before: np.ndarray, out: np.ndarray) -> np.ndarray:
        """How likely each state is after a step, given how likely each was: log Σ exp."""
        parts, scaled = self.parts, self.scaled
        parts[0] = before
        parts[1, :, 1:] = before[:, :-1]
        np.add(before[:, :-2], self.skips[:, 2:], parts[2, :, 2:])
        top = np.maximum.reduce(parts, 0, initial=self.least)
        np.exp(np.subtract(parts, top, scaled), scaled)
        np.log(np.add.reduce(scaled, 0, out=out), out)
        out += top
        return out


def losses(log_probs: np.ndarray, sequences: Sequences) -> tuple[np.ndarray, np.ndarray]:
    """The negative log likelihoods, and alpha: how likely each state is reached at each time."""
    kind = log_probs.dtype
    emitted = np.take_along_axis(log_probs, sequences.states()[None], 2)
    ways = Ways(sequences.skips(kind))
    alpha = np.empty_like(emitted)
    alpha[0, :, :2] = emitted[0, :, :2]
    alpha[0, :, 2:] = NEVER
    for t in range(1, len(alpha)):
        ways.join(alpha[t - 1], alpha[t])
        alpha[t] += emitted[t]
    last = np.maximum(sequences.input_lengths - 1, 0)
    reached = alpha[last, np.arange(len(last))] + sequences.ends(kind)
    likelihoods = np.logaddexp.reduce(reached, 1)
    at_once = np.where(sequences.target_lengths == 0, kind.type(0), kind.type(NEVER))
    return -np.where(sequences.input_lengths == 0, at_once, likelihoods), alpha


def slope(
    log_probs: np.ndarray, loss: np.ndarray, alpha: np.ndarray, sequences: Sequences
) -> np.ndarray:
    """The slope of the losses in the logits of ``log_probs``: the probability of each symbol at
    each time, less how likely the alignments of the sequence have it there."""
    states = sequences.states()
    emitted = np.take_along_axis(log_probs, states[None], 2)
    occupied = np.exp(alpha + beta(emitted, sequences) + loss[:, None])
    y = np.exp(log_probs)
    y[..., sequences.blank] -= occupied[..., ::2].sum(2)
    row = np.arange(len(states))
    for state in range(1, states.shape[1], 2):
        y[:, row, states[:, state]] -= occupied[..., state]
    y[:, loss == np.inf] = np.nan
    y[np.arange(len(y))[:, None] >= sequences.input_lengths] = 0
    return y


def beta(emitted: np.ndarray, sequences: Sequences) -> np.ndarray:
    """How likely each state at each time goes on to an end of its sequence.

    Seen from the end of the line of states it is what alpha is from the beginning.
    """
    kind = emitted.dtype
    ends, skips = sequences.ends(kind), sequences.skips(kind)
    leaps = np.full_like(skips, NEVER)
    leaps[:, :-2] = skips[:, 2:]
    ways = Ways(leaps[:, ::-1])
    y = np.full_like(emitted, NEVER)
    for t in reversed(range(len(y))):
        if t + 1 < len(y):
            after = y[t + 1] + emitted[t + 1]
            ways.join(after[:, ::-1], y[t, :, ::-1])
        last = sequences.input_lengths == t + 1
        y[t, last] = ends[last]
    return y
