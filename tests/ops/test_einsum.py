"""einsum against NumPy's, on random equations, and in the ways only ours can go wrong."""

from __future__ import annotations

import random

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops.einsum import plan


def random_equation(seed: int) -> tuple[str, list[np.ndarray]]:
    choose = random.Random(seed)
    values = np.random.default_rng(seed)
    sizes = {letter: choose.choice([1, 2, 3]) for letter in "abcdE"}
    terms = [choose.choices("abcdE", k=choose.randint(0, 3)) for _ in range(choose.randint(1, 4))]
    used = sorted({letter for term in terms for letter in term})
    equation = ",".join("".join(term) for term in terms)
    if choose.random() < 0.6:
        equation += "->" + "".join(choose.sample(used, choose.randint(0, len(used))))
    return equation, [values.standard_normal([sizes[x] for x in term]) for term in terms]


@pytest.mark.parametrize("seed", range(200))
def test_random_equations_agree_with_numpy(seed: int) -> None:
    equation, arrays = random_equation(seed)
    y = rl.einsum(equation, *[rl.from_numpy(a) for a in arrays])
    np.testing.assert_allclose(y.numpy(), np.einsum(equation, *arrays), atol=1e-12)


def test_an_ellipsis_broadcasts_from_the_right() -> None:
    a, b = np.random.default_rng(0).standard_normal((2, 1, 3, 4)), np.ones((5, 4, 2))
    y = rl.einsum("...ij, ...jk -> ...ik", rl.from_numpy(a), rl.from_numpy(b))
    np.testing.assert_allclose(y.numpy(), a @ b)


def test_numbers_may_stand_for_letters() -> None:
    a, b = rl.ones(2, 3), rl.ones(3, 4)
    assert rl.einsum(a, [0, 1], b, [1, 2], [2, 0]).shape == (4, 2)
    assert rl.einsum(a, [..., 1], b, [1, 30], [..., 30]).shape == (2, 4)


def test_a_chain_is_multiplied_in_the_cheap_order() -> None:
    """The vector first: no matrix-matrix product is needed."""
    steps = plan("ij,jk,k->i", ((50, 60), (60, 70), (70,)))
    assert steps[-1] is not None
    results = [rl.ones(50, 60), rl.ones(60, 70), rl.ones(70)]
    for function, slots, arguments in steps:
        results.append(function(*[results[i] for i in slots], *arguments))
        assert results[-1].numel() <= 70
    assert results[-1].tolist() == [60.0 * 70.0] * 50
