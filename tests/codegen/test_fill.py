"""Kernels that only store zeros become works of one shared function."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.fill import NAME


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.int16, rl.bool_], ids=str)
@pytest.mark.parametrize("pads", [(1, 2), (1, 0, 2, 3), (0, 0, 1, 1, 2, 1)], ids=str)
def test_borders_are_zeros(dtype: rl.dtype, pads: tuple[int, ...]) -> None:
    x = (rl.arange(120).reshape(4, 5, 6) + 1).to(dtype)

    @rl.compile(fullgraph=True)
    def padded(x: rl.Tensor) -> rl.Tensor:
        return rl.nn.functional.pad(x, pads)

    np.testing.assert_array_equal(padded(x).numpy(), rl.nn.functional.pad(x, pads).numpy())


def steps_of(value: float) -> list[str]:
    """The functions of a program that pads with a value."""
    found = rl.compile(lambda x: rl.nn.functional.pad(x, (1, 1, 1, 1), value=value))
    page = found.explain(rl.ones(8, 64, 64))
    return [step.function for step in page.steps if step.function]


def test_only_zeros_are_shared() -> None:
    assert NAME in steps_of(0.0)
    assert NAME not in steps_of(1.0)
    assert NAME not in steps_of(-0.0)
