"""Permutations move below folds, windows and elementwise ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.ir import Graph, Node, interpret
from rushlight.graph.parse import parse
from rushlight.kernels.pooling import Window
from rushlight.passes.simplify import simplify
from tests.passes.graphs import Maker, equal

F = rl.nn.functional

IMAGES = "%0: f32[2,8,6,3]"  # channels last
MOVED = "%1: f32[2,3,8,6] = permute(%0, dims=(0, 3, 1, 2))"  # where users have them
BACK = "permute({}, dims=(0, 3, 1, 2))"

GOLDEN = {
    "elementwise": (
        IMAGES,
        [MOVED, "%2: f32[2,3,8,6] = relu(%1)", "return %2"],
        ["%1: f32[2,8,6,3] = relu(%0)", f"%2: f32[2,3,8,6] = {BACK.format('%1')}", "return %2"],
    ),
    "two operands": (
        f"{IMAGES}, %4: f32[2,8,6,3]",
        [
            MOVED,
            "%2: f32[2,3,8,6] = permute(%4, dims=(0, 3, 1, 2))",
            "%3: f32[2,3,8,6] = mul(%1, %2)",
            "return %3",
        ],
        ["%2: f32[2,8,6,3] = mul(%0, %1)", f"%3: f32[2,3,8,6] = {BACK.format('%2')}", "return %3"],
    ),
    "a broadcast operand": (
        f"{IMAGES}, %4: f32[3,1,1]",
        [MOVED, "%2: f32[2,3,8,6] = add(%1, %4)", "return %2"],
        [
            "%2: f32[1,1,1,3] = view(%1, shape=(1, 1, 1, 3))",
            "%3: f32[2,8,6,3] = add(%0, %2)",
            f"%4: f32[2,3,8,6] = {BACK.format('%3')}",
            "return %4",
        ],
    ),
    "a number": (
        f"{IMAGES}, %4: f32[]",
        [MOVED, "%2: f32[2,3,8,6] = div(%1, %4)", "return %2"],
        ["%2: f32[2,8,6,3] = div(%0, %1)", f"%3: f32[2,3,8,6] = {BACK.format('%2')}", "return %3"],
    ),
    "a large operand in the other order": (
        f"{IMAGES}, %4: f32[2,3,8,6]",
        [MOVED, "%2: f32[2,3,8,6] = add(%1, %4)", "return %2"],
        [
            "%2: f32[2,3,8,6] = permute(%0, dims=(0, 3, 1, 2))",
            "%3: f32[2,3,8,6] = add(%2, %1)",
            "return %3",
        ],
    ),
    "folds": (
        IMAGES,
        [
            MOVED,
            "%2: f32[3] = sum(%1, dim=(0, 2, 3), keepdim=False)",
            "return %2",
        ],
        ["%1: f32[3] = sum(%0, dim=(0, 1, 2), keepdim=False)", "return %1"],
    ),
    "a fold that keeps its dimension": (
        IMAGES,
        [MOVED, "%2: f32[2,3,1,6] = amax(%1, dim=(-2,), keepdim=True)", "return %2"],
        [
            "%1: f32[2,1,6,3] = amax(%0, dim=(1,), keepdim=True)",
            f"%2: f32[2,3,1,6] = {BACK.format('%1')}",
            "return %2",
        ],
    ),
    "a fold of everything": (
        IMAGES,
        [MOVED, "%2: f32[] = sum(%1, dim=None, keepdim=False)", "return %2"],
        ["%1: f32[] = sum(%0, dim=(0, 1, 2, 3), keepdim=False)", "return %1"],
    ),
    "an item of a fold": (
        IMAGES,
        [
            MOVED,
            "%2: (f32[1,3,1,1], f32[1,3,1,1]) = var_mean(%1, dim=(0, 2, 3), correction=0, "
            "keepdim=True)",
            "%3: f32[1,3,1,1] = item(%2, index=1)",
            "%4: f32[2,3,8,6] = sub(%1, %3)",
            "return %4",
        ],
        [
            "%1: (f32[1,1,1,3], f32[1,1,1,3]) = var_mean(%0, dim=(0, 1, 2), correction=0, "
            "keepdim=True)",
            "%2: f32[1,1,1,3] = item(%1, index=1)",
            "%3: f32[2,8,6,3] = sub(%0, %2)",
            f"%4: f32[2,3,8,6] = {BACK.format('%3')}",
            "return %4",
        ],
    ),
    "a border": (
        IMAGES,
        [
            MOVED,
            "%2: f32[2,3,9,9] = constant_pad_nd(%1, pads=((0, 0), (0, 0), (1, 0), (2, 1)), "
            "value=0.0)",
            "return %2",
        ],
        [
            "%1: f32[2,9,9,3] = constant_pad_nd(%0, pads=((0, 0), (1, 0), (2, 1), (0, 0)), "
            "value=0.0)",
            f"%2: f32[2,3,9,9] = {BACK.format('%1')}",
            "return %2",
        ],
    ),
    "some channels": (
        IMAGES,
        [
            MOVED,
            "%2: f32[2,2,8,6] = slice(%1, dim=1, start=1, end=3, step=1)",
            "return %2",
        ],
        [
            "%1: f32[2,8,6,2] = slice(%0, dim=3, start=1, end=3, step=1)",
            f"%2: f32[2,2,8,6] = {BACK.format('%1')}",
            "return %2",
        ],
    ),
    "joined channels": (
        f"{IMAGES}, %4: f32[2,8,6,4]",
        [
            MOVED,
            "%2: f32[2,4,8,6] = permute(%4, dims=(0, 3, 1, 2))",
            "%3: f32[2,7,8,6] = cat(%1, %2, dim=1, kind=kind(float32))",
            "return %3",
        ],
        [
            "%2: f32[2,8,6,7] = cat(%0, %1, dim=3, kind=kind(float32))",
            f"%3: f32[2,7,8,6] = {BACK.format('%2')}",
            "return %3",
        ],
    ),
    "parts in two orders": (
        f"{IMAGES}, %4: f32[2,4,8,6]",
        [MOVED, "%2: f32[2,7,8,6] = cat(%1, %4, dim=1, kind=kind(float32))", "return %2"],
        [
            "%2: f32[2,3,8,6] = permute(%0, dims=(0, 3, 1, 2))",
            "%3: f32[2,7,8,6] = cat(%2, %1, dim=1, kind=kind(float32))",
            "return %3",
        ],
    ),
    "another order comes first": (
        f"{IMAGES}, %4: f32[2,4,8,6]",
        [MOVED, "%2: f32[2,7,8,6] = cat(%4, %1, dim=1, kind=kind(float32))", "return %2"],
        [
            "%2: f32[2,3,8,6] = permute(%0, dims=(0, 3, 1, 2))",
            "%3: f32[2,7,8,6] = cat(%1, %2, dim=1, kind=kind(float32))",
            "return %3",
        ],
    ),
    "nothing for empty tensors": (
        "%0: f32[2,0,6,3]",
        [
            "%1: f32[2,3,0,6] = permute(%0, dims=(0, 3, 1, 2))",
            "%2: f32[2,3,0,6] = relu(%1)",
            "return %2",
        ],
        [
            "%1: f32[2,3,0,6] = permute(%0, dims=(0, 3, 1, 2))",
            "%2: f32[2,3,0,6] = relu(%1)",
            "return %2",
        ],
    ),
    "two that cancel": (
        IMAGES,
        [
            MOVED,
            "%2: f32[2,3,8,6] = relu(%1)",
            "%3: f32[2,8,6,3] = permute(%2, dims=(0, 2, 3, 1))",
            "%4: f32[2,8,6,3] = stored(%3)",
            "return %4",
        ],
        ["%1: f32[2,8,6,3] = relu(%0)", "%2: f32[2,8,6,3] = stored(%1)", "return %2"],
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_graphs_after_sinking(name: str) -> None:
    inputs, before, after = GOLDEN[name]
    found = simplify(parse("\n".join([f"graph({inputs}):", *before])))
    assert [line.strip() for line in str(found).splitlines()[1:]] == after


def test_permutations_sink_through_pooling() -> None:
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


def random_graph(seed: int) -> tuple[Maker, Graph]:
    """Ops that permutations sink through, over permuted operands of any order."""
    make = Maker(seed, np.float64)
    choose = make.random
    rank = int(choose.integers(3, 6))
    sizes = choose.permutation([2, 3, 4, 5, 6])[:rank]
    pool = [permuted(make, sizes, choose.permutation(rank)) for _ in range(2)]
    for _ in range(8):
        x = pool[int(choose.integers(len(pool)))]
        pool.append(random_node(make, x, pool))
    return make, make.graph(*pool[2:])


def permuted(make: Maker, sizes: Any, order: Any) -> Node:
    """A permuted input that has these sizes after its permutation."""
    below = np.empty(len(sizes), int)
    below[order] = sizes
    return make("permute", make.input(*below.tolist()), dims=tuple(order.tolist()))


def random_node(make: Maker, x: Node, pool: list[Node]) -> Node:
    choose, shape = make.random, x.type.shape
    rank = len(shape)
    d = int(choose.integers(rank)) if rank else 0
    same = [n for n in pool if n.type.shape == shape]
    kinds = ["unary", "binary", "broadcast", "fold", "item", "pad", "cat", "pool", "slice"]
    match str(choose.choice(kinds)):
        case "binary":
            return make("mul", x, same[int(choose.integers(len(same)))])
        case "broadcast":
            kept = choose.random(rank) < 0.5
            small = [n if keep else 1 for n, keep in zip(shape, kept, strict=True)]
            return make("sub", x, make.input(*small[int(choose.integers(rank + 1)) :]))
        case "fold" if rank > 3:
            dims = tuple(choose.permutation(rank)[: choose.integers(1, 3)].tolist())
            name = str(choose.choice(["sum", "mean", "amax", "amin"]))
            return make(name, x, dim=dims, keepdim=bool(choose.random() < 0.5))
        case "item" if rank:
            both = make("var_mean", x, dim=(d,), correction=0, keepdim=bool(choose.random() < 0.5))
            return make.item(both, int(choose.integers(2)))
        case "pad":
            pads = tuple([tuple(choose.integers(0, 3, 2).tolist()) for _ in range(rank)])
            return make("constant_pad_nd", x, pads=pads, value=1.5)
        case "cat" if rank:
            parts = [same[int(i)] for i in choose.integers(len(same), size=2)]
            return make("cat", *parts, dim=d, kind=x.type.dtype.numpy)
        case "slice" if rank and shape[d] > 1:
            start = int(choose.integers(shape[d] - 1))
            return make("slice", x, dim=d, start=start, end=shape[d], step=1)
        case "pool" if rank > 2:
            windows = tuple([Window(n, n - 1, 2) for n in shape[-2:]])
            if min(shape[-2:]) < 2:
                return make("neg", x)
            attrs = {"windows": windows, "return_indices": True, "dims": (-2, -1)}
            most = make("nn.functional.max_pool2d", x, **attrs)
            values, places = make.item(most, 0), make.item(most, 1)
            if choose.random() < 0.5:
                return values
            return make("spread_largest", values, places, windows=windows, dims=(-2, -1))
    return make("tanh", x)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_keep_their_values(seed: int) -> None:
    make, graph = random_graph(seed)
    values = make.arguments()
    after = simplify(graph)
    assert [n.type for n in after.outputs] == [n.type for n in graph.outputs]
    assert equal(interpret(after, *values), interpret(graph, *values))


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
