"""Permutations move below folds, windows and elementwise ops."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.parse import parse
from rushlight.passes.simplify import simplify

F = rl.nn.functional


def test_permutations_sink_through_pooling():
    window = "Window(8, 4, 2, 2, 0, 1)"
    graph = simplify(
        parse(f"""
        graph(%0: f32[2,8,8,3]):
          %1: f32[2,3,8,8] = permute(%0, dims=(0, 3, 1, 2))
          %2: f32[2,3,4,4] = nn.functional.avg_pool2d(%1, windows=({window}, {window}), \
padded=True, divisor=None, dims=(-2, -1))
          %3: f32[2,4,4,3] = permute(%2, dims=(0, 2, 3, 1))
          return %3
        """)
    )
    (pool,) = graph.outputs
    assert pool.op.name == "avg_pool2d"
    assert pool.attrs["dims"] == (1, 2)
    assert pool.inputs[0] is graph.inputs[0]


def pooled_step(pool):
    def step(x, w):
        x = x.detach().requires_grad_(True)
        y = pool(F.relu(F.conv2d(x, w, padding=1)))
        (y * y).sum().backward()
        return y, x.grad

    return step


POOLS = {
    "disjoint": lambda x: F.max_pool2d(x, 2),
    "overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "dilated": lambda x: F.max_pool2d(x, 2, 1, 1, (2, 3), ceil_mode=True),
    "average": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive": lambda x: F.adaptive_max_pool2d(x, 5),
    "indices": lambda x: F.max_pool2d(x, 3, 1, return_indices=True)[0],
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("channels", [6, 16])
def test_pooling_behind_convolutions(name, channels):
    rl.manual_seed(0)
    step = pooled_step(POOLS[name])
    # Whole numbers, so that sums are exact and windows have ties.
    x = rl.randint(-2, 3, (2, 3, 10, 10)).float()
    w = rl.randint(-2, 3, (channels, 3, 3, 3)).float()
    for eager, compiled in zip(step(x, w), rl.compile(step, fullgraph=True)(x, w), strict=True):
        np.testing.assert_allclose(
            compiled.detach().numpy(), eager.detach().numpy(), rtol=1e-5, atol=1e-5
        )


def test_nothing_is_transposed_between_convolutions():
    def net(x, w, v):
        return F.conv2d(F.max_pool2d(F.relu(F.conv2d(x, w)), 2), v)

    x, w, v = rl.randn(2, 3, 12, 12), rl.randn(8, 3, 3, 3), rl.randn(4, 8, 3, 3)
    steps = rl.compile(net).explain(x, w, v).steps
    (pool,) = [s for s in steps if "max_pool2d" in s.what]
    assert "permute" not in pool.what
