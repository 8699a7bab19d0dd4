"""``assert`` and ``raise`` that tensors decide, as codes of a run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from rushlight import Tensor
from tests.c.building import Failure, check

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def test_checks_end_a_run(tmp_path: Path) -> None:
    def halved(x: Tensor) -> Tensor:
        assert x.min() > 0, f"{x.min()} is too little"
        while x.sum() > 1:
            x = x / 2
            if x.max() > 100:
                raise ValueError("too much")
        assert x.max() < 0.6
        return x

    before = rl.tensor([1.0, 2.0, 3.0])
    built = check(halved, before, folder=tmp_path)
    for values, message in (
        ([1.0, -1.0, 1.0], "AssertionError: <value> is too little [test_checks.py:20]"),
        ([1.0, 1.0, 1e9], "ValueError: too much [test_checks.py:24]"),
        ([0.01, 0.01, 0.9], "AssertionError [test_checks.py:25]"),
    ):
        with pytest.raises(Failure) as caught:
            built.run([np.array(values, np.float32)])
        code, _, found = caught.value.args
        assert code >= 16
        assert found == message
    np.testing.assert_array_equal(built.run([before])[0][0], halved(before).numpy())


def test_the_same_program_is_the_same_file(tmp_path: Path) -> None:
    def careful(x: Tensor) -> Tensor:
        assert x.sum() > 0
        return x

    states = []
    for folder in ("a", "b"):
        rl.export_c(careful, rl.ones(2), dir=tmp_path / folder, name="careful")
        states.append((tmp_path / folder / "careful.weights").read_bytes())
        rl.compile(careful)(rl.ones(2))  # which is counted
    assert states[0] == states[1]
