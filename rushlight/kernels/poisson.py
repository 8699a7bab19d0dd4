"""Samples of the Poisson distribution, equal to PyTorch's on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rushlight.generator import Generator

BLOCK = 512


def poisson(generator: Generator, rates: np.ndarray) -> np.ndarray:
    """One sample for each rate, in the type of ``rates``.

    >>> poisson(Generator().manual_seed(0), np.array([0.5, 4.0, 20.0]))
    array([ 2.,  5., 17.])
    """
    if not (rates >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    # How many fractions a sample takes is known afterwards only: read ahead, then go back.
    start = Generator.get_state(generator)
    fractions: list[float] = []
    used = 0

    def uniform() -> float:
        nonlocal used
        if used == len(fractions):
            fractions.extend(generator.fractions(BLOCK, np.float64).tolist())
        used += 1
        return fractions[used - 1]

    samples = [sample(rate, uniform) for rate in rates.ravel().tolist()]
    Generator.set_state(generator, start)
    generator.long_words(used)
    return np.array(samples, np.float64).astype(rates.dtype).reshape(rates.shape)


def sample(rate: float, uniform: Callable[[], float]) -> int:
    if rate >= 10:
        return rejection(rate, uniform)
    return multiplication(rate, uniform) if rate else 0


def multiplication(rate: float, uniform: Callable[[], float]) -> int:
    """How many uniform numbers can be multiplied before the product falls below exp(-rate)."""
    limit, product, count = math.exp(-rate), uniform(), 0
    while product > limit:
        product *= uniform()
        count += 1
    return count


def rejection(rate: float, uniform: Callable[[], float]) -> int:
    """Hörmann's transformed rejection with squeeze (PTRS): one hat over the whole range."""
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    accepted_at_once = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = uniform() - 0.5, uniform()
        distance = 0.5 - abs(u)
        k = math.floor((2 * a / distance + b) * u + rate + 0.43) if distance else -1
        if distance >= 0.07 and v <= accepted_at_once:
            return k
        if k < 0 or (distance < 0.013 and v > distance):
            continue
        hat = math.log(v) + math.log(inverse_alpha) - math.log(a / (distance * distance) + b)
        if hat <= -rate + k * math.log(rate) - math.lgamma(k + 1):
            return k
