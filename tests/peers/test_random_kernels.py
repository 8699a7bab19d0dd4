"""Draw by draw, the generator and the distributions are PyTorch's."""

from __future__ import annotations

import copy
import pickle
import random
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rushlight.generator import DEFAULT_SEED, Generator
from rushlight.kernels import box_muller, distributions, multiply_add

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.peers

TYPES = {
    np.dtype(ours): theirs
    for ours, theirs in {
        np.bool_: torch.bool,
        np.uint8: torch.uint8,
        np.int8: torch.int8,
        np.int16: torch.int16,
        np.int32: torch.int32,
        np.int64: torch.int64,
        np.uint16: torch.uint16,
        np.uint32: torch.uint32,
        np.uint64: torch.uint64,
        np.float16: torch.float16,
        ml_dtypes.bfloat16: torch.bfloat16,
        np.float32: torch.float32,
        np.float64: torch.float64,
        np.complex64: torch.complex64,
        np.complex128: torch.complex128,
    }.items()
}
# Of its normal kernels in float32 we follow the one for AVX2, by whatever machine.
NORMAL_DISTANCE = 0 if torch.backends.cpu.get_cpu_capability() == "AVX2" else 2
FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
INTEGERS = [np.uint8, np.int8, np.int16, np.int32, np.int64]
SHAPES = [(), (1,), (2,), (3, 5), (15,), (16,), (17,), (4, 4), (31,), (3, 7, 5), (1000,), (999,)]


def array_of(tensor: Any) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def tensor_of(array: np.ndarray) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    return torch.empty(shape, dtype=TYPES[np.dtype(dtype)])


def ulps(a: np.ndarray, b: np.ndarray) -> int:
    """How many numbers of their type lie between two arrays at most."""
    if a.dtype.kind == "c":
        part = np.float32 if a.dtype == np.complex64 else np.float64
        a, b = (np.ascontiguousarray(x)[..., None].view(part) for x in (a, b))
    integer = np.dtype(f"i{a.dtype.itemsize}")
    a, b = (np.ascontiguousarray(x).view(integer).astype(object) for x in (a, b))
    low = int(np.iinfo(integer).min)
    a, b = (np.where(x < 0, low - x, x) for x in (a, b))
    return max(np.abs(a - b).ravel(), default=0)


def check(ours: np.ndarray, theirs: Any, distance: int = 0) -> None:
    theirs = array_of(theirs)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    if distance and not np.array_equal(ours, theirs):
        assert ulps(ours, theirs) <= distance
    elif not distance:
        np.testing.assert_array_equal(ours, theirs)


def uniform(r: random.Random, shape, ours, theirs) -> None:
    dtype = r.choice([*FLOATS, np.float32, np.float64, np.complex64])
    low, high = r.choice([(0, 1), (0, 1), (-0.0883, 0.0883), (-1, 1), (1.1, 1.7), (2, 2), (0, 0.3)])
    sample = distributions.uniform(ours, shape, dtype, low, high)
    check(sample, empty(shape, dtype).uniform_(low, high, generator=theirs))


def normal(r: random.Random, shape, ours, theirs) -> None:
    dtype = r.choice([*FLOATS, np.float32, np.float64, np.complex64, np.complex128])
    mean, std = r.choice([(0, 1), (0, 1), (0, 0.02), (1.5, 0.3), (-2, 1), (3, 0)])
    sample = distributions.normal(ours, shape, dtype, mean, std)
    expected = empty(shape, dtype).normal_(mean, std, generator=theirs)
    if mean == 0:
        check(sample, expected, 2)
    else:  # near zero, a unit of the sum is many units of the result
        unit = float(ml_dtypes.finfo(sample.real.dtype).eps)
        wide = sample.astype(np.complex128), array_of(expected).astype(np.complex128)
        np.testing.assert_allclose(*wide, rtol=0, atol=2 * unit * (abs(mean) + 4 * std))


def normal_around(r: random.Random, shape, ours, theirs) -> None:
    numbers = np.random.default_rng(r.randrange(1 << 30))
    dtype = r.choice([np.float32, np.float64])
    mean, std = numbers.random(shape).astype(dtype), numbers.random((5,)).astype(dtype)
    if shape and shape[-1] not in (1, 5):
        std = numbers.random(shape).astype(dtype)
    if r.random() < 0.3:
        std = 0.7
    elif r.random() < 0.5:
        mean = 0.0
    pair = [tensor_of(x) if isinstance(x, np.ndarray) else x for x in (mean, std)]
    sample = distributions.normal_around(ours, mean, std)
    expected = torch.normal(*pair, generator=theirs)
    np.testing.assert_allclose(sample, expected.numpy(), rtol=0, atol=4 * np.finfo(dtype).eps)


def log_normal(r: random.Random, shape, ours, theirs) -> None:
    dtype, mean, std = r.choice(FLOATS), *r.choice([(1, 2), (0, 0.5), (-1, 1)])
    sample = distributions.log_normal(ours, shape, dtype, mean, std)
    check(sample, empty(shape, dtype).log_normal_(mean, std, generator=theirs), 2)


def exponential(r: random.Random, shape, ours, theirs) -> None:
    dtype, rate = r.choice(FLOATS), r.choice([1, 0.3, 7.5])
    sample = distributions.exponential(ours, shape, dtype, rate)
    check(sample, empty(shape, dtype).exponential_(rate, generator=theirs), 2)


def cauchy(r: random.Random, shape, ours, theirs) -> None:
    dtype, median, sigma = r.choice(FLOATS), *r.choice([(0, 1), (0, 0.2)])
    sample = distributions.cauchy(ours, shape, dtype, median, sigma)
    check(sample, empty(shape, dtype).cauchy_(median, sigma, generator=theirs), 2)


def geometric(r: random.Random, shape, ours, theirs) -> None:
    dtype, p = r.choice([*FLOATS, np.int32, np.int64]), r.choice([0.1, 0.5, 0.9])
    sample = distributions.geometric(ours, shape, dtype, p)
    check(sample, empty(shape, dtype).geometric_(p, generator=theirs))


def bernoulli(r: random.Random, shape, ours, theirs) -> None:
    dtype, p = r.choice([*FLOATS, *INTEGERS, np.bool_]), r.choice([0, 0.1, 0.5, 1 / 3, 1])
    sample = distributions.bernoulli(ours, shape, dtype, p)
    check(sample, empty(shape, dtype).bernoulli_(p, generator=theirs))


def bernoulli_each(r: random.Random, shape, ours, theirs) -> None:
    p = np.random.default_rng(r.randrange(1 << 30)).random(shape)
    p = np.asarray(p).astype(r.choice(FLOATS))
    dtype = r.choice([p.dtype, np.bool_, np.int32])
    sample = distributions.bernoulli(ours, shape, dtype, p)
    check(sample, empty(shape, dtype).bernoulli_(tensor_of(p), generator=theirs))


def integers(r: random.Random, shape, ours, theirs) -> None:
    dtype = r.choice([*FLOATS, *INTEGERS, np.int64, np.uint16, np.uint32, np.uint64, np.bool_])
    choices = {
        np.bool_: [(0, 2), (0, None)],
        np.uint8: [(0, 256), (3, 77), (0, None)],
        np.uint16: [(0, 10), (5, 1 << 16)],
        np.uint32: [(0, 10), (0, 1 << 32)],
        np.uint64: [(0, 10), (0, (1 << 63) - 1)],
        np.int32: [(-5, 5), (0, 1 << 28), (-(1 << 31), 1 << 31), (7, None)],
        np.int64: [
            *[(0, 10), (0, (1 << 28) - 1), (0, 1 << 28), (-3, 1 << 40), (5, None)],
            *[(-(1 << 63), (1 << 63) - 1), (-(1 << 63), None)],
        ],
        np.float16: [(0, 10), (-100, 2048), (0, 65504), (4105, 5001), (0, None)],
        ml_dtypes.bfloat16: [(0, 10), (-100, 256), (0, 300), (-(1 << 63), None)],
        np.float32: [(0, 10), (-7, 1 << 24), (0, (1 << 30) + 1), (9, None)],
        np.float64: [(0, 10), (0, 1 << 40), (0, (1 << 60) + 1), (9, None), (-(1 << 63), None)],
    }
    low, high = r.choice(choices.get(dtype, [(-3, 100), (0, 7)]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = distributions.integers(ours, shape, dtype, low, high)
        check(sample, empty(shape, dtype).random_(low, high, generator=theirs))


def any_integers(r: random.Random, shape, ours, theirs) -> None:
    dtype = r.choice([*FLOATS, *INTEGERS, np.bool_])
    sample = distributions.any_integers(ours, shape, dtype)
    check(sample, empty(shape, dtype).random_(generator=theirs))


def permutation(r: random.Random, shape, ours, theirs) -> None:
    n = r.choice([0, 1, 2, 10, 100, 400, 401, 700, 2000])
    dtype = r.choice([np.int64, np.int64, np.int32, np.float32])
    sample = distributions.permutation(ours, n, dtype)
    check(sample, torch.randperm(n, dtype=TYPES[np.dtype(dtype)], generator=theirs))


def multinomial(r: random.Random, shape, ours, theirs) -> None:
    numbers = np.random.default_rng(r.randrange(1 << 30))
    dtype = r.choice([np.float32, np.float64])
    weights = numbers.random(r.choice([(5,), (100,), (3, 5), (7, 40)])).astype(dtype)
    weights[..., 2] = 0
    count, replacement = r.choice([(1, False), (1, True), (3, False), (4, True), (50, True)])
    sample = distributions.multinomial(ours, weights, count, replacement)
    check(sample, torch.multinomial(tensor_of(weights), count, replacement, generator=theirs))


def strided(r: random.Random, shape, ours, theirs) -> None:
    """Draws into tensors that are not contiguous."""
    dtype = r.choice([np.float32, np.float64])
    view: Callable = r.choice(
        [
            lambda x: x[:, :10],
            lambda x: x[::2],
            lambda x: x.swapaxes(0, 1),
            lambda x: x.reshape(2, 4, 20).swapaxes(1, 2),
            lambda x: x.reshape(2, 4, 20).swapaxes(0, 2),
            lambda x: x,
        ]
    )
    target = np.zeros((8, 20), dtype)
    tensor = tensor_of(target.copy())
    part = view(target)
    order = part.transpose(distributions.memory_order(part))
    if r.random() < 0.5:
        order[...] = distributions.uniform(ours, order.shape, dtype)
        view(tensor).uniform_(generator=theirs)
    else:
        contiguous = part.flags.c_contiguous
        order[...] = distributions.normal(ours, order.shape, dtype, contiguous=contiguous)
        view(tensor).normal_(generator=theirs)
    check(target, tensor, 2)


DRAWS = [
    uniform, uniform, normal, normal, normal_around, log_normal, exponential, cauchy, geometric,
    bernoulli, bernoulli_each, integers, any_integers, permutation, multinomial, strided,
]  # fmt: skip


@pytest.mark.parametrize("block", range(10))
def test_programs_of_mixed_draws_stay_in_step(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        r = random.Random(seed)
        ours, theirs = Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        for _ in range(8):
            r.choice(DRAWS)(r, r.choice(SHAPES), ours, theirs)
        assert same_position(ours, theirs), f"program {seed} lost step"


def same_position(ours: Generator, theirs: Any) -> bool:
    other = Generator().set_state(theirs.get_state().numpy())
    return np.array_equal(ours.get_state(), other.get_state())


@pytest.mark.parametrize("draw", sorted(set(DRAWS), key=lambda draw: draw.__name__))
def test_every_shape(draw: Callable) -> None:
    for seed, shape in enumerate([*SHAPES, (0,), (3, 0)]):
        ours, theirs = Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        draw(random.Random(seed), shape, ours, theirs)
        assert same_position(ours, theirs)


def test_large_draws() -> None:
    n = 1 << 18
    ours, theirs = Generator().manual_seed(3), torch.Generator().manual_seed(3)
    check(distributions.uniform(ours, (n,), np.float32), torch.rand(n, generator=theirs))
    sample, expected = (
        distributions.normal(ours, (n + 5,), np.float32),
        torch.randn(n + 5, generator=theirs),
    )
    check(sample, expected, NORMAL_DISTANCE)
    double = torch.randn(n + 5, generator=theirs, dtype=torch.float64)
    check(distributions.normal(ours, (n + 5,), np.float64), double, 2)
    check(distributions.permutation(ours, n), torch.randperm(n, generator=theirs))
    mask = torch.empty(n).bernoulli_(0.9, generator=theirs)
    check(distributions.bernoulli(ours, (n,), np.float32, 0.9), mask)
    assert same_position(ours, theirs)


def test_dropout_is_a_bernoulli_mask() -> None:
    x = np.linspace(-1, 1, 1000, dtype=np.float32)
    torch.manual_seed(11)
    expected = torch.nn.functional.dropout(torch.from_numpy(x), 0.3)
    keep = distributions.bernoulli(Generator().manual_seed(11), x.shape, np.float32, 1 - 0.3)
    check(x * (keep / np.float32(1 - 0.3)), expected)


def test_affine_rounds_once() -> None:
    numbers = np.random.default_rng(0)
    for dtype in (torch.float32, torch.float64):
        for low, high in [(-0.0883, 0.0883), (0.1, 1e6), (-1e-3, 3), (1e-300, 1e300)]:
            if dtype == torch.float32 and high > 1e38:
                continue
            expected = torch.empty(5000, dtype=dtype).uniform_(
                low, high, generator=torch.Generator().manual_seed(1)
            )
            sample = distributions.uniform(
                Generator().manual_seed(1), (5000,), expected.numpy().dtype, low, high
            )
            check(sample, expected)
    x = numbers.standard_normal(100)
    np.testing.assert_array_equal(multiply_add.affine(x.copy(), 3.7, 0.0), x * 3.7)


def test_box_muller_of_the_ends_of_the_unit_interval() -> None:
    ends = np.float32([0, 1 - 2.0**-24, 0.5, 0.25, 0.125, 2.0**-24, 0.75, 0.625])
    values = np.concatenate((np.repeat(ends, 8).reshape(8, 8), np.tile(ends, (8, 1))), 1)
    wide = values.astype(np.float64)
    box_muller.box_muller(flat := values.reshape(-1))
    box_muller.box_muller(wide := wide.reshape(-1))
    np.testing.assert_allclose(flat, wide, rtol=3e-7, atol=2e-6)


def test_seeds() -> None:
    assert Generator().initial_seed() == DEFAULT_SEED == torch.Generator().initial_seed()
    for seed in (0, 5, -1, -(2**63), 2**63, 2**64 - 1, 2**32 + 1):
        ours, theirs = Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        assert ours.initial_seed() == theirs.initial_seed()
        np.testing.assert_array_equal(ours.get_state(), theirs.get_state().numpy())
    generator = Generator()
    assert generator.seed() == generator.initial_seed() < 1 << 53
    assert generator.seed() != generator.seed()


@pytest.mark.parametrize("seed", [1.5, True, "a", None, -(2**63) - 1, 2**64])
def test_bad_seeds(seed: Any) -> None:
    compare_errors(
        lambda: Generator().manual_seed(seed), lambda: torch.Generator().manual_seed(seed)
    )


@pytest.mark.parametrize("count", [0, 1, 10, 623, 700])
def test_states_travel_both_ways(count: int) -> None:
    ours, theirs = Generator().manual_seed(9), torch.Generator().manual_seed(9)
    distributions.normal(ours, (3,), np.float32)
    torch.randn(3, generator=theirs)
    ours.words(count)
    torch.rand(count, generator=theirs)
    np.testing.assert_array_equal(ours.get_state(), theirs.get_state().numpy())

    expected = torch.randn(5, generator=theirs)
    for copied in (
        Generator().set_state(ours.get_state()),
        ours.clone_state(),
        pickle.loads(pickle.dumps(ours)),
        copy.deepcopy(ours),
    ):
        check(distributions.normal(copied, (5,), np.float32), expected)
    theirs.set_state(torch.from_numpy(ours.get_state()))
    assert torch.equal(torch.randn(5, generator=theirs), expected)
    check(distributions.normal(ours, (5,), np.float32), expected)


def test_bad_states() -> None:
    ours, theirs = Generator(), torch.Generator()
    for state in (np.zeros(5, np.uint8), np.zeros(5056, np.uint8), np.zeros(5056, np.float32)):
        compare_errors(
            lambda state=state: ours.set_state(state),
            lambda state=state: theirs.set_state(torch.from_numpy(state)),
        )
    compare_errors(ours.get_offset, theirs.get_offset)
    with pytest.raises(RuntimeError, match="no device 'cuda'"):
        Generator("cuda")


def compare_errors(ours: Callable, theirs: Callable) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011
        theirs()
    with pytest.raises(expected.type) as raised:
        ours()
    first, other = str(raised.value), str(expected.value).splitlines()[0]
    assert first.startswith(other) or other.startswith(first)


D, NAN, INF = distributions, float("nan"), float("inf")
BAD_DRAWS: list[tuple[Any, str, tuple]] = [
    *[(D.uniform, "uniform_", bounds) for bounds in [(2, 1), (NAN, 1), (-1e39, 1), (-3e38, 3e38)]],
    *[(D.normal, "normal_", (0, std)) for std in (-1, NAN)],
    *[(D.log_normal, "log_normal_", (0, std)) for std in (0, -1.5)],
    *[(D.exponential, "exponential_", (rate,)) for rate in (0, -1, NAN)],
    *[(D.geometric, "geometric_", (p,)) for p in (0, 1, 1.5)],
    *[(D.cauchy, "cauchy_", (0, sigma)) for sigma in (0, -0.25)],
    *[(D.bernoulli, "bernoulli_", (p,)) for p in (1.5, -0.1, NAN)],
    *[(D.integers, "random_", bounds) for bounds in [(5, 5), (5, 2)]],
]


@pytest.mark.parametrize(("draw", "method", "arguments"), BAD_DRAWS)
def test_bad_arguments(draw: Callable, method: str, arguments: tuple) -> None:
    ours = Generator()
    before = ours.get_state()
    compare_errors(
        lambda: draw(ours, (3,), np.float32, *arguments),
        lambda: getattr(torch.empty(3), method)(*arguments),
    )
    np.testing.assert_array_equal(ours.get_state(), before)


BAD_TYPES: list[tuple[Any, str, Any, tuple]] = [
    (D.uniform, "uniform_", np.int64, ()),
    (D.uniform, "uniform_", np.float16, (-70000, 0)),
    (D.uniform, "uniform_", np.float16, (-60000, 60000)),
    (D.uniform, "uniform_", ml_dtypes.bfloat16, (-3e38, 3e38)),
    (D.normal, "normal_", np.int64, ()),
    (D.log_normal, "log_normal_", np.int64, ()),
    (D.exponential, "exponential_", np.int64, ()),
    (D.cauchy, "cauchy_", np.int64, ()),
    (D.geometric, "geometric_", np.bool_, (0.5,)),
    (D.bernoulli, "bernoulli_", np.complex64, (0.5,)),
    (D.bernoulli, "bernoulli_", np.uint16, (0.5,)),
    (D.any_integers, "random_", np.complex64, ()),
    (D.any_integers, "random_", np.uint16, ()),
    (D.integers, "random_", np.complex64, (0, 3)),
    (D.integers, "random_", np.uint8, (0, 300)),
    (D.integers, "random_", np.uint8, (-1, 30)),
    (D.integers, "random_", np.int8, (0, 300)),
    (D.integers, "random_", np.int16, (0, 300000)),
    (D.integers, "random_", np.int32, (0, 1 << 40)),
    (D.integers, "random_", np.bool_, (0, 3)),
    (D.integers, "random_", np.uint64, (-1, 5)),
    (D.integers, "random_", np.float16, (0, 70000)),
    (D.integers, "random_", np.int32, (-(1 << 63), None)),
]


@pytest.mark.parametrize(("draw", "method", "dtype", "arguments"), BAD_TYPES)
def test_bad_types(draw: Callable, method: str, dtype: Any, arguments: tuple) -> None:
    compare_errors(
        lambda: draw(Generator(), (3,), dtype, *arguments),
        lambda: getattr(empty((3,), dtype), method)(*arguments),
    )


def test_bad_probabilities() -> None:
    for p in ([0.5, 1.5], [NAN, 0], [-0.1, 0]):
        array = np.float32(p)
        compare_errors(
            lambda array=array: D.bernoulli(Generator(), (2,), np.float32, array),
            lambda array=array: torch.bernoulli(torch.from_numpy(array)),
        )
    for std in ([1, -1], [NAN, 1]):
        array = np.float32(std)
        compare_errors(
            lambda array=array: D.normal_around(Generator(), 0.0, array),
            lambda array=array: torch.normal(0.0, torch.from_numpy(array)),
        )


@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        *[(-1, np.int64), (300, np.uint8), (129, np.int8), (3000, np.float16)],
        *[(3, np.complex64), (3, np.bool_), (3, np.uint16)],
    ],
)
def test_bad_permutations(n: int, dtype: Any) -> None:
    compare_errors(
        lambda: D.permutation(Generator(), n, dtype),
        lambda: torch.randperm(n, dtype=TYPES[np.dtype(dtype)]),
    )


@pytest.mark.parametrize(
    ("weights", "count", "replacement"),
    [
        (np.ones(3, np.float32), 0, False),
        (np.ones(3, np.float32), -1, True),
        (np.ones(3, np.float32), 4, False),
        (np.ones((), np.float32), 1, False),
        (np.ones((2, 2, 2), np.float32), 1, False),
        (np.ones(3, np.int64), 1, False),
        *[
            (np.float32(weights), count, replacement)
            for weights in ([0, 0, 0], [1, -1, 2], [1, INF, 2], [1, NAN, 2], [[1, 0], [0, 0]])
            for count, replacement in [(1, False), (1, True), (2, True), (2, False)]
        ],
    ],
)
def test_bad_weights(weights: np.ndarray, count: int, replacement: bool) -> None:
    compare_errors(
        lambda: D.multinomial(Generator(), weights, count, replacement),
        lambda: torch.multinomial(torch.from_numpy(weights), count, replacement),
    )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_multinomial_of_short_floats(dtype: Any) -> None:
    weights = np.linspace(0.5, 3, 12).astype(dtype).reshape(2, 6)
    for count, replacement in [(1, False), (20, True)]:
        ours, theirs = Generator().manual_seed(1), torch.Generator().manual_seed(1)
        sample = D.multinomial(ours, weights, count, replacement)
        expected = torch.multinomial(tensor_of(weights), count, replacement, generator=theirs)
        check(sample, expected)


def test_integers_beyond_the_digits_of_a_float_warn() -> None:
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^11\), 2\^11\]"):
        D.integers(Generator(), (3,), np.float16, 0, 4000)
