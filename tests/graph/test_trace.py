"""What a trace takes results for, without computing them, is what kernels make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.kernels.pooling import Window
from rushlight.ops.base import registry
from tests.sampling import Maker

POOLS = [f"nn.functional.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)]


def agree(op: Any, arrays: Any, attrs: Any) -> None:
    """The rule and the kernel make arrays of the same shapes, dtypes and strides."""
    told, made = op.infer(arrays, attrs), op.compute(arrays, attrs)
    pairs = zip(told, made, strict=True) if isinstance(made, tuple) else [(told, made)]
    for a, b in pairs:
        assert (a.shape, a.dtype, a.strides) == (b.shape, b.dtype, b.strides)


@pytest.mark.parametrize("name", [*POOLS, "constant_pad_nd"])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float16, rl.float64])
def test_types_of_samples(name, dtype):
    op = registry[name]
    for sample in op.samples:
        maker = Maker(dtype)
        operands, attrs = op.check(*maker.make(list(sample.args)), **maker.make(sample.kwargs))
        agree(op, [t._array for t in operands], attrs)


@pytest.mark.parametrize("dims", [(-2, -1), (1, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_types_of_slopes(dims, dtype):
    windows = (Window(7, 4, 3, 2, 1), Window(6, 3, 2, 2))
    shape = [2, 5, 5, 5]
    for d, w in zip(dims, windows, strict=True):
        shape[d] = w.outputs
    y, index = np.ones(shape, dtype), np.zeros(shape, np.int64)
    agree(registry["spread_largest"], [y, index], {"windows": windows, "dims": dims})
    attrs = {"windows": windows, "dims": dims, "padded": True, "divisor": None}
    agree(registry["spread_average"], [y], attrs)


def test_padding_with_a_value_that_is_none_of_the_dtype():

    def pad(x):
        return rl.constant_pad_nd(x, (1, 1), 300)

    with pytest.raises(OverflowError) as eager:
        pad(rl.ones(3, dtype=rl.uint8))
    with pytest.raises(OverflowError) as traced:
        rl.graph(pad, rl.ones(3, dtype=rl.uint8))
    assert str(eager.value) == str(traced.value)
