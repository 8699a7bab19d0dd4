"""Convolutions as products of windows agree with the kernels of dynamic mode, geometry by geometry.

The functions make ops, which run at once outside of a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.ir import compute
from rushlight.kernels import convolution as kernels
from rushlight.kernels.windows import Geometry, Sizes
from rushlight.ops import channels_last, registry
from rushlight.ops.convolution import convolve, convolve_transposed, convolve_weight
from tests.codegen.kernels import Graph, results


class Case(NamedTuple):
    """A convolution: its operands and where its windows are."""

    geometry: Geometry
    x: np.ndarray
    w: np.ndarray
    y: np.ndarray

    @property
    def size(self) -> Sizes:
        return self.x.shape[2:]

    @property
    def kernel(self) -> Sizes:
        return self.w.shape[2:]

    @property
    def count(self) -> Sizes:
        return self.y.shape[2:]

    @property
    def is_phased(self) -> bool:
        """Whether each phase of the data gradient is a convolution."""
        geometry = self.geometry
        if prod(geometry.stride) > channels_last.PHASES:
            return False
        return all([1 in pair for pair in zip(geometry.stride, geometry.dilation, strict=True)])


def case(seed: int) -> Case:
    """A random one; y is any array of the shape of the result."""
    random = np.random.default_rng(seed)
    dims = 1 + seed % 3
    groups = int(random.choice([1, 1, 2, 3]))
    inputs, outputs = (groups * random.integers(1, 4, 2)).tolist()
    kernel, stride, padding = [
        tuple(random.integers(*limits, dims).tolist()) for limits in ((1, 4), (1, 4), (0, 3))
    ]
    dilation = tuple(random.choice([1, 1, 2], dims).tolist())
    geometry = Geometry(stride, padding, dilation, groups)
    spans = zip(geometry.span(kernel), padding, strict=True)
    size = tuple([max(1, span - 2 * p) + int(random.integers(6)) for span, p in spans])
    images = int(random.integers(1, 4))
    x = random.normal(size=(images, inputs, *size))
    w = random.normal(size=(outputs, inputs // groups, *kernel))
    return Case(
        geometry, x, w, random.normal(size=(images, outputs, *geometry.counts(kernel, size)))
    )


def agree(found: Any, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-10, atol=1e-11)


def decomposed(name: str, *operands: Any, **attrs: Any) -> Any:
    """What graphs hold in the place of an op, computed."""
    tensors = [rl.from_numpy(a) for a in operands]
    bias = [None] if name != "convolve_weight" else []
    return registry[name].decompose(*tensors, *bias, **attrs)


@pytest.mark.parametrize("seed", range(90))
def test_results_and_gradients_are_those_of_the_kernels(seed: int) -> None:
    c = case(seed)
    forward = decomposed("convolve", c.x, c.w, geometry=c.geometry, count=c.count)
    agree(forward, kernels.convolve(c.x, c.w, c.geometry, c.count))
    weight = decomposed("convolve_weight", c.x, c.y, geometry=c.geometry, kernel=c.kernel)
    agree(weight, kernels.convolve_weight(c.x, c.y, c.geometry, c.kernel))
    data = decomposed("convolve_transposed", c.y, c.w, geometry=c.geometry, size=c.size)
    if c.is_phased:
        agree(data, kernels.convolve_transposed(c.y, c.w, c.geometry, c.size))
    else:
        assert data is NotImplemented


def test_a_bias_is_added_to_every_channel() -> None:
    c, bias = case(1), np.arange(1.0, 100.0)
    geometry, count = c.geometry, c.count
    x, w, b = [rl.from_numpy(a) for a in (c.x, c.w, bias[: len(c.w)])]
    found = registry["convolve"].decompose(x, w, b, geometry=geometry, count=count)
    plain = kernels.convolve(c.x, c.w, geometry, count)
    agree(found, plain + bias[: len(c.w)].reshape(-1, *[1] * len(count)))


def test_random_cases_are_of_every_sort() -> None:
    cases = [case(seed) for seed in range(90)]
    assert {len(c.count) for c in cases} == {1, 2, 3}
    for sort in (
        [c.geometry.groups > 1 for c in cases],
        [max(c.geometry.dilation) > 1 for c in cases],
        [c.is_phased and max(c.geometry.stride) > 1 for c in cases],
        [
            c.is_phased and s > k
            for c in cases
            for s, k in zip(c.geometry.stride, c.kernel, strict=True)
        ],
        [not c.is_phased for c in cases],
    ):
        assert 4 <= sum(sort) < len(sort)


COMPILED = {
    "1 dimension": ((2, 3, 11), (4, 3, 3), Geometry((1,), (1,), (1,))),
    "2 dimensions": ((2, 3, 7, 6), (4, 3, 3, 2), Geometry((1, 1), (1, 0), (1, 1))),
    "3 dimensions": ((1, 2, 4, 5, 6), (3, 2, 2, 2, 3), Geometry((1, 1, 1), (0, 1, 1), (1, 1, 1))),
    "phases": ((2, 3, 9, 8), (4, 3, 3, 3), Geometry((2, 3), (1, 1), (1, 1))),
    "phases without a weight": ((2, 3, 9, 8), (4, 3, 1, 2), Geometry((2, 3), (0, 0), (1, 1))),
    "groups": ((2, 6, 7, 7), (4, 3, 3, 3), Geometry((1, 1), (1, 1), (1, 1), 2)),
    "groups in phases": ((2, 4, 9, 9), (6, 2, 3, 3), Geometry((2, 2), (1, 1), (1, 1), 2)),
    "dilation": ((2, 3, 9, 9), (4, 3, 3, 3), Geometry((1, 1), (2, 2), (2, 3))),
    "stride and dilation": ((2, 3, 11, 9), (4, 3, 3, 3), Geometry((2, 1), (2, 2), (2, 3))),
    "single elements": ((2, 5, 4, 4), (3, 5, 1, 1), Geometry((1, 1), (0, 0), (1, 1))),
}


@pytest.mark.parametrize("name", COMPILED)
def test_programs_agree_with_the_kernels(name: str) -> None:
    size, weight, geometry = COMPILED[name]
    random = np.random.default_rng(0)
    x, w = random.normal(size=size), random.normal(size=weight)
    count = geometry.counts(weight[2:], size[2:])
    y = random.normal(size=(size[0], weight[0], *count))

    @rl.compile(fullgraph=True)
    def program(x: Any, w: Any, y: Any) -> tuple[Any, ...]:
        return (
            convolve(x, w, None, geometry, count),
            convolve_transposed(y, w, None, geometry, size[2:]),
            convolve_weight(x, y, geometry, weight[2:]),
        )

    forward, data, gradient = program(*[rl.from_numpy(a) for a in (x, w, y)])
    agree(forward, kernels.convolve(x, w, geometry, count))
    agree(data, kernels.convolve_transposed(y, w, geometry, size[2:]))
    agree(gradient, kernels.convolve_weight(x, y, geometry, weight[2:]))


SLIDES = {
    "along": {"kernel": (3,), "stride": (1,), "dilation": (1,), "count": (4,)},
    "from their ends": {"kernel": (3,), "stride": (1,), "dilation": (-1,), "count": (4,)},
    "apart": {"kernel": (2, 2), "stride": (2, 1), "dilation": (2, 1), "count": (2, 5)},
    "both ways": {"kernel": (2, 3), "stride": (1, 2), "dilation": (2, -1), "count": (3, 2)},
}


def seen(x: np.ndarray, kernel: Sizes, stride: Sizes, dilation: Sizes, count: Sizes) -> np.ndarray:
    """Windows element by element."""
    dims = len(kernel)
    found = np.empty((len(x), *count, *kernel, *x.shape[1 + dims :]), x.dtype)
    for place in product(*map(range, count)):
        for position in product(*map(range, kernel)):
            at = tuple(spots(place, position, kernel, stride, dilation))
            found[(slice(None), *place, *position)] = x[(slice(None), *at)]
    return found


def spots(
    place: Sizes, position: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes
) -> Iterator[int]:
    for p, k, size, s, d in zip(place, position, kernel, stride, dilation, strict=True):
        yield p * s + (k * d if d > 0 else (size - 1 - k) * -d)


@pytest.mark.parametrize("name", SLIDES)
def test_windows_are_views(name: str) -> None:
    slides = SLIDES[name]
    dims = len(slides["kernel"])
    x = np.arange(2 * 6**dims * 3, dtype=np.float32).reshape(2, *[6] * dims, 3)
    v = channels_last.sliding(rl.from_numpy(x), *slides.values())
    wanted = seen(x, **slides)
    np.testing.assert_array_equal(v.numpy(), wanted)
    assert np.shares_memory(v.numpy(), x)
    assert not v.numpy().flags.writeable
    graph = Graph()
    graph("neg", graph("sliding", graph.input(x), **slides))
    (native,) = results(graph.group(graph.nodes[-1]), graph.values)
    np.testing.assert_array_equal(native, -wanted)


def test_contractions_sum_what_the_result_lacks() -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(4, 2, 5)), random.normal(size=(5, 3, 2))
    letters = "mbk", "knb", "bmn"
    found = channels_last.contract(rl.from_numpy(a), rl.from_numpy(b), letters)
    agree(found, np.einsum("mbk,knb->bmn", a, b))


def test_stored_elements_lie_in_their_order() -> None:
    x = np.arange(24.0).reshape(2, 3, 4).transpose(0, 2, 1)
    y = channels_last.stored(rl.from_numpy(x)).numpy()
    np.testing.assert_array_equal(y, x)
    assert y.flags.c_contiguous
    graph = Graph()
    node = graph("stored", graph.input(x))
    np.testing.assert_array_equal(results(graph.group(node), graph.values)[0], x)
    np.testing.assert_array_equal(compute(node, [x]), x)


@pytest.mark.parametrize("shape", [(0, 3, 5, 5), (2, 3, 5, 5)], ids=["empty", "of integers"])
def test_what_has_no_product_stays_a_convolution(shape: tuple[int, ...]) -> None:
    kind = rl.float32 if 0 in shape else rl.int64
    x, w = rl.ones(shape, dtype=kind), rl.ones(4, 3, 3, 3, dtype=kind)
    assert not channels_last.fits(x, w)
    graph = rl.graph(lambda x, w: rl.nn.functional.conv2d(x, w), x, w)
    assert "contract(" not in str(graph)


DEPTHWISE: dict[str, Any] = {
    "plain": (2, 8, 1, {"padding": 1}),
    "strided": (2, 8, 1, {"padding": 1, "stride": 2}),
    "multiplied": (1, 6, 2, {"stride": 2}),
    "dilated": (3, 16, 1, {"padding": 2, "dilation": 2}),
}


@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_convolutions_are_loops(name: str) -> None:
    images, channels, each, how = DEPTHWISE[name]
    rl.manual_seed(0)
    x = rl.randn(images, channels, 9, 11, dtype=rl.float64)
    w = rl.randn(channels * each, 1, 3, 3, dtype=rl.float64)
    bias = rl.randn(channels * each, dtype=rl.float64)

    def step(*operands: Any) -> Any:
        x, w, bias = [t.detach().requires_grad_(True) for t in operands]
        y = rl.nn.functional.conv2d(x, w, bias, groups=channels, **how)
        (y * y).sum().backward()
        return y, x.grad, w.grad, bias.grad

    compiled = rl.compile(step, fullgraph=True)
    assert not compiled.explain(x, w, bias).totals.calls
    for found, wanted in zip(compiled(x, w, bias), step(x, w, bias), strict=True):
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-10)


def test_large_convolutions_become_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    rl.manual_seed(0)
    x, w, bias = rl.randn(4, 8, 32, 32), rl.randn(16, 8, 3, 3), rl.randn(16)

    def step() -> list[Any]:
        own = [t.detach().requires_grad_(True) for t in (x, w, bias)]
        z = rl.nn.functional.conv2d(*own, padding=1)
        y = rl.nn.functional.max_pool2d(z, 2)
        (y * y).sum().backward()
        return [y.detach(), *[t.grad for t in own]]

    found = [step() for _ in range(4)][-1]
    monkeypatch.setattr(rl.config, "fuse_eager", False)
    for part, wanted in zip(found, step(), strict=True):
        np.testing.assert_allclose(part.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("channels", [6, 10, 16, 24])
def test_a_bias_of_channels_that_fill_no_registers(channels: int) -> None:
    rl.manual_seed(0)
    x, w, bias = rl.randn(4, 2, 10, 10), rl.randn(channels, 2, 3, 3), rl.randn(channels)

    def net(x: Any, w: Any, bias: Any) -> Any:
        return rl.nn.functional.max_pool2d(rl.nn.functional.conv2d(x, w, bias).relu(), 2)

    found = rl.compile(net, fullgraph=True)(x, w, bias)
    np.testing.assert_allclose(found.numpy(), net(x, w, bias).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("each", [(1, 1), (1, 3), (2, 2), (4, 2), (5, 4)])
@pytest.mark.parametrize(("stride", "kernel"), [(1, 3), (2, 3), (2, 4)])
def test_groups_in_lanes(each: tuple[int, int], stride: int, kernel: int) -> None:
    """Forward and both gradients of many small groups, in dynamic mode and compiled."""
    groups, (channels, results) = 16, each
    x = rl.randn(2, groups * channels, 9, 8, requires_grad=True)
    w = rl.randn(groups * results, channels, kernel, kernel, requires_grad=True)

    def layer(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        return rl.nn.functional.conv2d(x, w, None, stride, 1, groups=groups)

    found = []
    for function in (layer, rl.compile(layer)):
        y = function(x, w)
        found.append((y, *rl.autograd.grad(y.square().sum(), (x, w))))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-3)
