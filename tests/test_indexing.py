"""Random index expressions against NumPy; writes, histories and errors of indexing by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import rushlight as rl

SEEDS = range(20)
EXPRESSIONS = 25


class Random:
    """Makes random tensors and index expressions for them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def chance(self, p: float) -> bool:
        return bool(self.random.random() < p)

    def below(self, n: int) -> int:
        return int(self.random.integers(n))

    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.random.integers(1, 5, self.below(4) + 1))

    def key(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        """A tuple of ints, slices, None, ..., masks and arrays of positions for ``shape``."""
        together = tuple(int(n) for n in self.random.integers(1, 4, self.below(3)))
        key: list[Any] = []
        dim = 0
        while dim < len(shape) and not self.chance(0.1):
            n = shape[dim]
            if self.chance(0.15):
                key.append(None)
            choice = self.below(6)
            if choice == 0:
                key.append(self.below(2 * n) - n)
            elif choice == 1:
                start, stop = sorted(int(i) for i in self.random.integers(-n, n + 2, 2))
                key.append(slice(start, stop, self.below(3) + 1))
            elif choice == 2:
                key.append(slice(None))
            elif choice == 3 and not any(isinstance(k, np.ndarray) for k in key):
                dims = min(self.below(2) + 1, len(shape) - dim)
                key.append(self.random.random(shape[dim : dim + dims]) < 0.5)
                together = (1,)
                dim += dims - 1
            else:
                key.append(self.random.integers(-n, n, together))
            dim += 1
        if self.chance(0.3) and ... not in [k for k in key if not isinstance(k, np.ndarray)]:
            return self.with_ellipsis(key, len(shape) - dim)
        return tuple(key)

    def with_ellipsis(self, key: list[Any], free: int) -> tuple[Any, ...]:
        if free:
            return (*key, ...)
        place = self.below(len(key) + 1)
        return (*key[:place], ..., *key[place:])


def ours(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key with tensors for arrays."""
    return tuple(rl.from_numpy(np.array(k)) if isinstance(k, np.ndarray) else k for k in key)


def named(shape: tuple[int, ...], key: tuple[Any, ...]) -> np.ndarray:
    """Where the elements that ``key`` names stand: NumPy, the basic part of the key first."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    basic: list[Any] = []
    advanced: list[Any] = []
    consumed = sum(
        k.ndim if isinstance(k, np.ndarray) and k.dtype == bool else 1
        for k in key
        if k is not None and k is not ...
    )
    for k in key:
        if isinstance(k, np.ndarray) and k.ndim:
            basic += [slice(None)] * (k.ndim if k.dtype == bool else 1)
            advanced.append(k)
        elif k is ...:
            basic += [slice(None)] * (len(shape) - consumed)
            advanced += [slice(None)] * (len(shape) - consumed)
        else:
            basic.append(int(k) if isinstance(k, np.ndarray) else k)
            if k is None or isinstance(k, slice):
                advanced.append(slice(None))
    return np.asarray(places[tuple(basic)][tuple(advanced)])


def each(seed: int) -> Any:
    random = Random(seed)
    for _ in range(EXPRESSIONS):
        shape = random.shape()
        key = random.key(shape)
        print(f"seed {seed}: shape {shape}, key {key}")
        values = random.random.standard_normal(shape)
        yield values, key, named(shape, key), random.random.standard_normal


@pytest.mark.parametrize("seed", SEEDS)
def test_reading_agrees_with_numpy(seed: int) -> None:
    for values, key, places, normal in each(seed):
        x = rl.from_numpy(values.copy()).requires_grad_()
        y = x[ours(key)]
        np.testing.assert_array_equal(y.detach().numpy(), values.reshape(-1)[places])
        w = normal(places.shape)
        (y * rl.from_numpy(w)).sum().backward()
        expected = np.zeros(values.size)
        np.add.at(expected, places, w)
        np.testing.assert_allclose(x.grad.numpy().reshape(-1), expected, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_writing_agrees_with_numpy(seed: int) -> None:
    for values, key, places, normal in each(seed):
        new, weight = normal(values.size), normal(values.shape)
        x = rl.from_numpy(values.copy()).requires_grad_()
        v = rl.from_numpy(np.array(new[places])).requires_grad_()
        y = x * 1
        y[ours(key)] = v
        expected = values.copy().reshape(-1)
        expected[places] = new[places]
        np.testing.assert_array_equal(y.detach().numpy().reshape(-1), expected)
        (y * rl.from_numpy(weight)).sum().backward()
        kept = weight.copy().reshape(-1)
        kept[places] = 0
        np.testing.assert_array_equal(x.grad.numpy().reshape(-1), kept)
        np.testing.assert_array_equal(v.grad.numpy(), weight.reshape(-1)[places])


@pytest.mark.parametrize("seed", SEEDS)
def test_untracked_writes_of_numbers(seed: int) -> None:
    for values, key, places, _ in each(seed):
        x = rl.from_numpy(values.copy())
        version = x._version
        x[ours(key)] = 7
        expected = values.copy().reshape(-1)
        expected[places] = 7
        np.testing.assert_array_equal(x.numpy().reshape(-1), expected)
        assert x._version > version


@pytest.mark.parametrize("seed", SEEDS)
def test_second_derivatives_of_reading_and_adding(seed: int) -> None:
    for values, key, places, normal in each(seed):
        x = rl.from_numpy(values.copy()).requires_grad_()
        w = rl.from_numpy(normal(places.shape))
        (g,) = rl.autograd.grad((x[ours(key)] ** 3 * w).sum(), x, create_graph=True)
        (h,) = rl.autograd.grad(g.sum(), x)
        expected = np.zeros(values.size)
        np.add.at(expected, places, 6 * values.reshape(-1)[places] * w.numpy())
        np.testing.assert_allclose(h.numpy().reshape(-1), expected, atol=1e-9)


def cube() -> rl.Tensor:
    return rl.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        (True, (1, 2, 3, 4)),
        (False, (0, 2, 3, 4)),
        ((0, True, 0), (1, 4)),
        (([0, 1], True), (2, 3, 4)),
        ([], (0, 3, 4)),
        (range(2), (2, 3, 4)),
        (np.array([True, False]), (1, 3, 4)),
        (np.int64(1), (3, 4)),
        (rl.tensor(1), (3, 4)),
        (rl.tensor(True), (1, 2, 3, 4)),
        (slice(rl.tensor(0), rl.tensor(1)), (1, 3, 4)),
        ((..., ...), (2, 3, 4)),
        ((0, slice(None), [0, 1]), (3, 2)),
        (([0, 1], slice(None), [0, 1]), (2, 3)),
        ((slice(None), [0, 1], None, [0, 1]), (2, 2, 1)),
        ((1, ..., [0]), (3, 1)),
        ((), (2, 3, 4)),
    ],
)
def test_kinds_of_index(key: Any, shape: tuple[int, ...]) -> None:
    assert cube()[key].shape == shape


def test_basic_indexing_is_a_view_and_advanced_is_a_copy() -> None:
    x = cube()
    x[0][1, 2:] = 0
    assert not x[0, 1, 2:].any()
    x[[0]][0] = 5
    assert not (x == 5).all()
    assert x[rl.tensor(0)]._is_view()
    assert not x[rl.tensor([0])]._is_view()


def test_bytes_are_masks_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        y = cube()[rl.tensor([1, 0], dtype=rl.uint8)]
    assert y.shape == (1, 3, 4)


def test_lists_of_more_than_numbers_are_tuples_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        y = cube()[[0, slice(None)]]
    assert y.shape == (3, 4)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        (-3, IndexError, "index -3 is out of bounds for dimension 0 with size 2"),
        ((0, 3), IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
        ([5], IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
        ((slice(None), [0, -4]), IndexError, "index -4 is out of bounds for dimension 1"),
        (1.0, IndexError, "only integers, slices .* are valid indices (got float)"),
        (rl.tensor(1.0), IndexError, "must be long, int, byte or bool tensors"),
        (rl.tensor([1.0]), IndexError, "must be long, int, byte or bool tensors"),
        ([0.5], IndexError, "must be long, int, byte or bool tensors"),
        ([True, False, True], IndexError, "mask [3] at index 0 does not match .* [2, 3, 4] at"),
        ((0, [True, False]), IndexError, "mask [2] at index 0 does not match .* tensor [3, 4]"),
        (([0, 1], [0, 1, 2]), IndexError, "could not be broadcast together with shapes [2], [3]"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        (slice(0.5), TypeError, "slice indices must be integers"),
        ({}, IndexError, "are valid indices (got dict)"),
    ],
)
def test_bad_indices(key: Any, error: type[Exception], message: str) -> None:
    pattern = ".*".join(re.escape(part) for part in message.split(".*"))
    with pytest.raises(error, match=pattern):
        cube()[key]
    x = cube()
    with pytest.raises(error, match=pattern):
        x[key] = 1
    assert (x == cube()).all()


def test_bad_indices_of_scalars() -> None:
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        rl.tensor(5.0)[0]
    with pytest.raises(IndexError, match=r"slice\(\) cannot be applied to a 0-dim"):
        rl.tensor(5.0)[:]


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        (0, rl.ones(2, 4), RuntimeError, r"must match the existing size \(2\)"),
        (0, rl.ones(2, 3, 4), RuntimeError, "number of sizes provided"),
        ([0], rl.ones(2, 4), RuntimeError, r"shape \[2, 4\] cannot be .* shape \[1, 3, 4\]"),
        (cube() > 3, rl.ones(2), RuntimeError, r"shape \[2\] cannot be broadcast .* \[20\]"),
        (0, [1, 2], TypeError, "can't assign a list"),
        ([0], None, TypeError, "can't assign a NoneType"),
        (0, 1j, RuntimeError, "without overflow"),
        ([0], rl.ones(3, 4, dtype=rl.float64), RuntimeError, "source and destination dtypes"),
    ],
)
def test_bad_values(key: Any, value: Any, error: type[Exception], message: str) -> None:
    x = cube()
    with pytest.raises(error, match=message):
        x[key] = value
    assert (x == cube()).all()


@pytest.mark.parametrize("value", [rl.ones(1, 1, 3, 4), rl.ones(4), rl.ones(1), 1, True, 1.0])
def test_values_broadcast(value: Any) -> None:
    for key in (0, [0], (0, ...), rl.tensor([True, False])):
        x = cube()
        x[key] = value
        assert (x[0] == 1).all()
        assert (x[1] == cube()[1]).all()


def test_values_are_converted() -> None:
    x = rl.zeros(3, dtype=rl.int64)
    x[0] = 2.7
    x[1:] = rl.tensor([1.9, float("nan")])[:1]
    assert x.tolist() == [2, 1, 1]
    y = rl.zeros(2)
    y[0, ...] = rl.tensor(3, dtype=rl.int32)
    y[y == 0] = rl.tensor(4.0, dtype=rl.float64)
    assert y.tolist() == [3, 4]
    z = rl.zeros(2, dtype=rl.bfloat16)
    z[1] = 1.5
    assert z.tolist() == [0, 1.5]


def test_a_loop_of_writes_differentiates() -> None:
    h = rl.randn(5, requires_grad=True)
    out = rl.zeros(5, 4)
    state = h
    for t in range(4):
        state = state * 2
        out[:, t] = state
    (out * rl.arange(4.0)).sum().backward()
    assert (h.grad == 2 * 0 + 4 * 1 + 8 * 2 + 16 * 3).all()


def test_a_write_after_use_is_noticed() -> None:
    x = rl.randn(3, requires_grad=True)
    y = x * 1
    z = y * y
    y[0] = 0
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.sum().backward()
    i = rl.tensor([0, 1])
    picked = x[i]
    i[0] = 2
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        picked.sum().backward()


@pytest.mark.parametrize("key", [0, [0], slice(1), rl.tensor([True, False, False])])
def test_leaves_that_want_gradients_are_not_written(key: Any) -> None:
    x = rl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x[key] = 2
    with rl.no_grad():
        x[key] = 2
    assert x.tolist() == [2, 1, 1]


@pytest.mark.parametrize("key", [..., [0], rl.tensor([True, False])])
def test_repeated_elements_are_not_written(key: Any) -> None:
    x = rl.ones(1).expand(2)
    with pytest.raises(RuntimeError, match="more than one element"):
        x[key] = 2


def test_a_write_through_a_view_reaches_its_base() -> None:
    x = rl.randn(3, 4, requires_grad=True)
    y = x * 1
    y.t()[[0, 2]] = 0
    y.sum().backward()
    assert x.grad.tolist() == [[0, 1, 0, 1]] * 3


def test_padding_rows_of_an_embedding_get_no_gradient() -> None:
    weight = rl.ones(4, 2, requires_grad=True)
    rl.embedding(weight, rl.tensor([0, 2, 2, 3]), 3).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [2, 2], [0, 0]]
    weight.grad = None
    rl.embedding(weight, rl.tensor([0, 2, 2]), scale_grad_by_freq=True).sum().backward()
    assert weight.grad.tolist() == [[1, 1], [0, 0], [1, 1], [0, 0]]


@pytest.mark.parametrize("width", [1, 3, 600])
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.complex64, rl.int64])
def test_repeated_positions_are_summed_in_order(width: int, dtype: Any) -> None:
    random = np.random.default_rng(0)
    index = random.integers(0, 5, 40)
    values = rl.from_numpy(random.standard_normal((40, width))).mul(8).to(dtype)
    wide = rl.float32 if dtype is rl.bfloat16 else dtype
    expected = np.zeros((5, width), wide.numpy)
    for i, v in zip(index, values.to(wide).numpy(), strict=True):
        expected[i] += v
    expected = rl.from_numpy(expected).to(dtype)
    position = rl.from_numpy(index)
    zeros = rl.zeros(5, width, dtype=dtype)
    spread = position.unsqueeze(1).expand(40, width)
    assert zeros.index_add(0, position, values).equal(expected)
    assert zeros.index_put((position,), values, accumulate=True).equal(expected)
    assert zeros.scatter_add(0, spread, values).equal(expected)
    assert zeros.t().index_add_(1, position, values.t()).t().equal(expected)


@pytest.mark.parametrize("size", [10, 2000])
@pytest.mark.parametrize("dtype", [rl.float64, rl.float16, rl.bool, rl.complex128, rl.uint8])
def test_masks_of_every_size(size: int, dtype: Any) -> None:
    random = np.random.default_rng(0)
    values = (random.standard_normal((2, size)) * 9).astype(np.uint8)
    mask = random.random((2, size)) < 0.3
    x, m = rl.from_numpy(values).to(dtype), rl.from_numpy(mask)
    plain = x.numpy()
    assert np.array_equal(x[m].numpy(), plain[mask])
    assert np.array_equal(m.nonzero().numpy(), np.argwhere(mask))
    for value in (0, 1):
        assert np.array_equal(x.masked_fill(m, value).numpy(), np.where(mask, value, plain))
        y = x.t().clone().t()
        y[m] = value
        assert np.array_equal(y.numpy(), np.where(mask, value, plain))
    z = x.clone()
    z[m] = x.flip(0)[m]
    assert np.array_equal(z.numpy(), np.where(mask, plain[::-1], plain))
