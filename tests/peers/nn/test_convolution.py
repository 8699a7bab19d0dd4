"""Convolutions against PyTorch: random configurations, results and gradients of two orders."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")  # PyTorch copies: a warning


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The cases are small: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Case(NamedTuple):
    """A call of ``function`` with operands of these shapes."""

    function: str
    input: tuple[int, ...]
    weight: tuple[int, ...]
    bias: tuple[int, ...] | None
    options: dict[str, Any]


def plain(seed: int) -> Case:
    """A random convolution."""
    choose = random.Random(seed)
    dims = choose.choice((1, 1, 2, 2, 2, 3))
    groups = choose.choice((1, 1, 2, 3))
    channels, results = groups * choose.randint(1, 3), groups * choose.randint(1, 3)
    kernel = [choose.randint(1, 3 if dims == 3 else 4) for _ in range(dims)]
    options: dict[str, Any] = {"groups": groups}
    dilation = options["dilation"] = [choose.randint(1, 3) for _ in range(dims)]
    padding: Any = [choose.randint(0, 3) for _ in range(dims)]
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    size = [max(1, s - 2 * p) + choose.randint(0, 5) for s, p in zip(spans, padding, strict=True)]
    named = choose.random()
    if named < 0.15:
        padding = "same"
    else:
        options["stride"] = [choose.randint(1, 4) for _ in range(dims)]
        if named < 0.25:
            padding, size = "valid", [s + choose.randint(0, 5) for s in spans]
    options["padding"] = padding
    return Case(
        f"conv{dims}d",
        (*batch(choose), channels, *size),
        (results, channels // groups, *kernel),
        (results,) if choose.random() < 0.7 else None,
        options,
    )


def transposed(seed: int) -> Case:
    """A random transposed convolution."""
    choose = random.Random(seed)
    dims = choose.choice((1, 1, 2, 2, 2, 3))
    groups = choose.choice((1, 1, 2, 3))
    channels, results = groups * choose.randint(1, 3), groups * choose.randint(1, 3)
    size = [choose.randint(1, 4) for _ in range(dims)]
    kernel = [choose.randint(1, 3 if dims == 3 else 4) for _ in range(dims)]
    stride = [choose.randint(1, 4) for _ in range(dims)]
    dilation = [choose.randint(1, 3) for _ in range(dims)]
    extra = [choose.randrange(s) for s in stride]
    reach = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(size, stride, dilation, kernel, extra, strict=True)
    ]
    options = {
        "stride": stride,
        "padding": [choose.randint(0, min(3, (r - 1) // 2)) for r in reach],
        "output_padding": extra,
        "groups": groups,
        "dilation": dilation,
    }
    return Case(
        f"conv_transpose{dims}d",
        (*batch(choose), channels, *size),
        (channels, results // groups, *kernel),
        (results,) if choose.random() < 0.7 else None,
        options,
    )


def batch(choose: random.Random) -> tuple[int, ...]:
    """No first dimension, or one."""
    return () if choose.random() < 0.15 else (choose.choice((1, 2, 3, 5)),)


def leaf(lib: Any, values: np.ndarray) -> Any:
    return lib.from_numpy(values.copy()).requires_grad_()


def orders(lib: Any, function: Any, case: Case, seed: int, kind: Any) -> list[np.ndarray]:
    """The result of a case, its first gradients, and the gradients of a sum of those."""
    values = np.random.default_rng(seed)

    def draw(shape: Any) -> np.ndarray:
        drawn = values.standard_normal(tuple(shape))
        if np.dtype(kind).kind == "c":
            drawn = drawn + 1j * values.standard_normal(tuple(shape))
        return drawn.astype(kind)

    shapes = [case.input, case.weight, *([] if case.bias is None else [case.bias])]
    leaves = [leaf(lib, draw(shape)) for shape in shapes]
    y = function(*leaves, **case.options)
    leaves.append(leaf(lib, draw(y.shape)))
    first = lib.autograd.grad(y, leaves[:-1], leaves[-1], create_graph=True)
    mixed = sum([(g * lib.from_numpy(draw(g.shape))).sum() for g in first])
    mixed = mixed.real if np.dtype(kind).kind == "c" else mixed
    second = lib.autograd.grad(mixed, leaves, allow_unused=True)
    none = np.zeros((), kind)  # broadcasts to the shape of a gradient that is zero there
    return [none if t is None else t.detach().resolve_conj().numpy() for t in (y, *first, *second)]


def agree(case: Case, seed: int, kind: Any = np.float64) -> None:
    ours = orders(rl, getattr(F, case.function), case, seed, kind)
    theirs = orders(torch, getattr(torch.nn.functional, case.function), case, seed, kind)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}: {case}")


@pytest.mark.parametrize("seed", range(250))
def test_random_convolutions(seed: int) -> None:
    agree(plain(seed), seed)


@pytest.mark.parametrize("seed", range(250))
def test_random_transposed_convolutions(seed: int) -> None:
    agree(transposed(seed), seed)


@pytest.mark.parametrize("seed", range(1000, 1025))
@pytest.mark.parametrize("make", [plain, transposed])
def test_random_complex_convolutions(make: Any, seed: int) -> None:
    agree(make(seed), seed, np.complex128)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_an_output_padding_beyond_the_stride(dims: int) -> None:
    options = {"stride": 2, "dilation": 4, "output_padding": 3, "padding": 1}
    case = Case(f"conv_transpose{dims}d", (2, 2, *[3] * dims), (2, 3, *[2] * dims), (3,), options)
    agree(case, dims)


def layer_options(seed: int) -> tuple[str, tuple[int, ...], dict[str, Any], tuple[int, ...]]:
    """A layer's class, its first arguments, its other arguments, and the shape of an input."""
    choose = random.Random(seed)
    dims, groups = choose.randint(1, 3), choose.randint(1, 2)
    channels, results = groups * choose.randint(1, 3), groups * choose.randint(1, 3)
    options: dict[str, Any] = {"groups": groups, "bias": choose.random() < 0.7}
    options["dilation"] = choose.choice((1, 2, (2,) * dims))
    kernel = tuple([choose.randint(1, 3) for _ in range(dims)])
    if choose.random() < 0.4:
        name = f"ConvTranspose{dims}d"
        options |= {"stride": 3, "output_padding": choose.randint(0, 2), "padding": 1}
    else:
        name = f"Conv{dims}d"
        options["padding"] = choose.choice((0, 1, (2,) * dims, "same", "valid"))
        options["padding_mode"] = choose.choice(("zeros", "reflect", "replicate", "circular"))
        if options["padding"] != "same":
            options["stride"] = choose.choice((1, 2, (2,) * dims))
    return name, (channels, results, kernel), options, (2, channels, *[6] * dims)


def trained(lib: Any, layer: Any, values: np.ndarray) -> list[np.ndarray]:
    """A layer's parameters, result and gradients."""
    x = leaf(lib, values)
    y = layer(x)
    (y * y).sum().backward()
    parameters = list(layer.parameters())
    return [t.detach().numpy() for t in (*parameters, y, x.grad, *[p.grad for p in parameters])]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_one_seed_makes_the_same_layer(seed: int, lazy: bool) -> None:
    name, first, options, shape = layer_options(seed)
    if lazy:
        name, first = f"Lazy{name}", first[1:]
    values = np.random.default_rng(seed).standard_normal(shape)
    results, texts = [], []
    for lib in (rl, torch):
        lib.manual_seed(seed)
        layer = getattr(lib.nn, name)(*first, **options, dtype=lib.float64)
        before = repr(layer)
        results.append(trained(lib, layer, values))
        texts.append((before, repr(layer), list(layer.state_dict())))
    assert texts[0] == texts[1]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}: {options}")


@pytest.mark.parametrize("size", [(18, 18), (17, 18), (2, 4, 18, 17)])
def test_a_chosen_output_size(size: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal((2, 3, 8, 8))
    results = []
    for lib in (rl, torch):
        lib.manual_seed(0)
        layer = lib.nn.ConvTranspose2d(3, 4, 3, stride=2, dtype=lib.float64)
        results.append(layer(lib.from_numpy(values), output_size=size).detach().numpy())
    np.testing.assert_allclose(*results, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_random_foldings(seed: int) -> None:
    choose = random.Random(seed)
    kernel, dilation, padding, stride = (
        (choose.randint(low, 3), choose.randint(low, 3)) for low in (1, 1, 0, 1)
    )
    size = [
        max(1, d * (k - 1) + 1 - 2 * p) + choose.randint(0, 5)
        for d, k, p in zip(dilation, kernel, padding, strict=True)
    ]
    options = {"dilation": dilation, "padding": padding, "stride": stride}
    values = np.random.default_rng(seed)
    image = values.standard_normal((*batch(choose), choose.randint(1, 3), *size))
    results = []
    for lib in (rl, torch):
        functional, x = lib.nn.functional, leaf(lib, image)
        columns = functional.unfold(x, kernel, **options)
        y = functional.fold(columns * columns, size, kernel, **options)
        first = lib.autograd.grad((y * y).sum(), x, create_graph=True)[0]
        second = lib.autograd.grad((first * first).sum(), x)[0]
        results.append([t.detach().numpy() for t in (columns, y, first, second)])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, err_msg=f"seed {seed}: {kernel}, {options}")


def test_a_convolution_stored_as_time_batch_channels() -> None:
    values = np.random.default_rng(0)
    operands = [values.standard_normal(shape) for shape in ((7, 2, 3), (4, 3, 5), (5,))]
    for pad in (0, 2, -1):
        results = []
        for lib, functional in ((rl, F), (torch, torch.nn.functional)):
            leaves = [leaf(lib, v) for v in operands]
            y = functional.conv_tbc(*leaves, pad=pad)
            grads = lib.autograd.grad((y * y).sum(), leaves) if pad >= 0 else ()
            results.append([t.detach().numpy() for t in (y, *grads)])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_half_types_round_once(kind: str) -> None:
    values = np.random.default_rng(0).standard_normal((2, 3, 9, 9)).astype(np.float32)
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    ours = F.conv2d(*[rl.from_numpy(v).to(getattr(rl, kind)) for v in (values, weight)], padding=1)
    exact = F.conv2d(
        *[rl.from_numpy(v).to(getattr(rl, kind)).double() for v in (values, weight)], padding=1
    )
    theirs = torch.conv2d(
        *[torch.from_numpy(v).to(getattr(torch, kind)) for v in (values, weight)], padding=1
    )
    ours_off, theirs_off = (np.abs(t.float().numpy() - exact.numpy()).max() for t in (ours, theirs))
    assert ours_off <= theirs_off * 1.001


def test_integers_wrap_as_there() -> None:
    values = np.random.default_rng(0)
    for kind in (np.int8, np.uint8, np.int32, np.int64):
        x, w = (
            values.integers(0, 100, shape).astype(kind) for shape in ((2, 3, 6, 6), (4, 3, 3, 3))
        )
        ours = F.conv2d(rl.from_numpy(x), rl.from_numpy(w), stride=2, padding=1)
        theirs = torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), stride=2, padding=1)
        assert np.array_equal(ours.numpy(), theirs.numpy()), kind


def test_the_node_is_called_as_there() -> None:
    for lib in (rl, torch):
        x = lib.ones(1, 2, 4, 4, requires_grad=True)
        layers = (lib.nn.Conv2d(2, 3, 2), lib.nn.ConvTranspose2d(2, 3, 2))
        assert [layer(x).grad_fn.name() for layer in layers] == ["ConvolutionBackward0"] * 2


@pytest.mark.parametrize("last", ["input", "weight", "both", "none"])
@pytest.mark.parametrize(
    ("input", "weight"),
    [
        ((2, 4, 5, 6), (3, 4, 3, 3)),
        ((2, 1, 5, 6), (3, 1, 3, 3)),
        ((1, 4, 5, 6), (1, 4, 3, 3)),
        ((2, 4, 3, 3), (3, 4, 3, 3)),
        ((2, 4, 5, 6), (4, 4, 1, 1)),
        ((2, 1, 1, 1), (3, 1, 1, 1)),
        ((1, 4, 1, 1), (3, 4, 1, 1)),
        ((2, 3, 4, 5, 6), (2, 3, 2, 2, 2)),
    ],
    ids=str,
)
def test_images_lie_as_those_they_are_made_of(input: Any, weight: Any, last: str) -> None:
    name = f"conv{len(input) - 2}d"
    numbers = np.random.default_rng(0)
    arrays = [numbers.standard_normal(shape, np.float32) for shape in (input, weight)]

    def operands(lib: Any) -> list[Any]:
        form = lib.channels_last if len(input) == 4 else lib.channels_last_3d
        chosen = {"input": [0], "weight": [1], "both": [0, 1], "none": []}[last]
        forms = [form if n in chosen else lib.contiguous_format for n in range(2)]
        pairs = zip(arrays, forms, strict=True)
        return [lib.empty(a.shape, memory_format=f).copy_(lib.from_numpy(a)) for a, f in pairs]

    wanted = getattr(torch.nn.functional, name)(*operands(torch))
    call = getattr(F, name)
    large = [d for d, n in enumerate(wanted.shape) if n > 1]
    for found in (call(*operands(rl)), rl.compile(call, fullgraph=True)(*operands(rl))):
        assert [found.stride(d) for d in large] == [wanted.stride(d) for d in large]
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
