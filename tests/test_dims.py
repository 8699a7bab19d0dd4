"""Sizes as polynomials: what is said about all symbols holds for each."""

from __future__ import annotations

import itertools
import random

import pytest

from rushlight.dims import Dim, Size, at, at_least, greatest, least, positive, ratio

B, T = Dim.symbol("B", 3), Dim.symbol("T", 5)
WORLDS = [{"B": b, "T": t} for b, t in itertools.product(range(9), repeat=2)]


def polynomials(seed: int) -> list[Size]:
    """Sums of a few products and quotients, with small factors."""
    draw = random.Random(seed)
    atoms = [B, T, B * T, T * T, T // 2, (T + 1) // 2, (B * T) // 3, 1]
    return [sum([draw.randint(-3, 3) * a for a in draw.sample(atoms, 3)]) for _ in range(40)]


@pytest.mark.parametrize("seed", range(3))
def test_a_product_is_divided_by_its_factors(seed: int) -> None:
    sizes = [size for size in polynomials(seed) if isinstance(size, Dim)]
    for a, b in itertools.pairwise(sizes):
        assert ratio(a * b, b) == a
        found = ratio(a, b)
        assert found is None or found * b == a
        for world in WORLDS[::7]:
            if at(b, world):
                assert at((a * b) // b, world) == at(a, world)
                assert at(a // b, world) == at(a, world) // at(b, world)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_at_least_another_size_is_so_everywhere(seed: int) -> None:
    for a, b in itertools.pairwise(polynomials(seed)):
        if at_least(a, b):
            assert all([at(a, world) >= at(b, world) for world in WORLDS])


@pytest.mark.parametrize("seed", range(3))
def test_the_smaller_of_two_sizes_may_be_below_0(seed: int) -> None:
    sizes = polynomials(seed)[:20]
    for a, b in itertools.pairwise([*sizes, T - 1, -1, B - 2, 0]):
        for size in (least(a, b), greatest(a, b), 2 * least(a, b) + T):
            if at_least(size, 0):
                assert all([at(size, world) >= 0 for world in WORLDS])


@pytest.mark.parametrize("seed", range(3))
def test_what_is_positive_beside_others_is_so_where_they_are(seed: int) -> None:
    others = [[T - 1], [T // 2 - 2], [B - 1, T - 2], [2 * T - 3], [(T + 1) // 2 - 1, B]]
    for size, given in itertools.product(polynomials(seed), others):
        if positive(size, given):
            there = [w for w in WORLDS if all([at(other, w) >= 1 for other in given])]
            assert all([at(size, world) >= 1 for world in there])


def test_what_can_be_seen() -> None:
    assert at_least(T, 2 * (T // 2))
    assert at_least(2 * ((T + 1) // 2), T)
    assert not at_least(2 * (T // 2), T)
    assert at_least(least(T, B), 0)
    assert at_least(greatest(T - 1, 0), 0)
    assert positive(64 * T - 64, [T - 1])
    assert positive(32 * T - 128, [T // 2 - 2])
    assert not positive(T - 2, [T - 1])
