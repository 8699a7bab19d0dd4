"""Same seed, same curve: whole training programs run here and in PyTorch from one seed."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from tests.peers.curves import PROGRAMS

torch = pytest.importorskip("torch")

STEPS = 50


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_seed_gives_one_curve(name: str) -> None:
    ours, theirs = PROGRAMS[name](rl, STEPS), PROGRAMS[name](torch, STEPS)
    a, b = next(ours).state_dict(), next(theirs).state_dict()
    assert list(a) == list(b)
    for key in a:
        start = b[key].numpy()
        assert np.allclose(a[key].numpy(), start, rtol=1e-6, atol=1e-6), key
    curve = np.array(list(ours)), np.array(list(theirs))
    assert np.isfinite(curve[1]).all()
    assert abs(curve[0][0] - curve[1][0]) <= 1e-5 * abs(curve[1][0])
    assert np.abs(curve[0] - curve[1]).max() <= 1e-3 * np.abs(curve[1]).max()
