"""Tensors are written as PyTorch writes them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

DTYPES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32"),
    *("float64", "complex64", "complex128"),
]
SHAPES = [
    *((), (0,), (1,), (3,), (7,), (30,), (2, 3), (3, 1), (1, 0), (0, 3), (2, 0, 3), (2, 3, 4)),
    *((1, 1, 1, 2), (2, 2, 2, 2, 2), (1001,), (40, 40), (3, 500), (500, 3), (7, 7, 50)),
]
SCALES = (0.0, 1e-12, 1e-5, 1e-3, 1.0, 1e2, 1e4, 1e7, 1e9, 1e30)


def comparable(text: str) -> str:
    """Without the package's name, which has another length, and the line break it may cause."""
    text = re.sub("(torch|rushlight)[.]", "", text)
    head, found, rest = text.partition("dtype=")
    return head.rstrip() + found + " ".join(rest.split())


def values(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """Elements of a random kind: whole or not, of one size or many, with NaN and infinities."""
    scale = random.choice(SCALES)
    array = random.standard_normal(shape) * scale
    if random.random() < 0.3:
        array = array * 10.0 ** random.integers(-6, 6, shape)
    if random.random() < 0.3:
        array = np.round(array)
    if random.random() < 0.3:
        array = np.where(
            random.random(shape) < 0.2, random.choice([np.nan, np.inf, -np.inf, 0]), array
        )
    kind = getattr(torch, dtype)
    if kind.is_complex:
        imaginary = random.standard_normal(shape) * random.choice(SCALES)
        return torch.tensor(array + 1j * np.round(imaginary, random.integers(0, 3)), dtype=kind)
    if not kind.is_floating_point:
        return torch.tensor(np.nan_to_num(array).clip(-1e4, 1e4)).to(kind)
    return torch.tensor(array).to(kind)


def twin(t: torch.Tensor) -> rl.Tensor:
    if t.dtype is torch.bfloat16:
        return rl.from_numpy(t.float().numpy()).to(rl.bfloat16)
    return rl.from_numpy(t.numpy())


def set_both(**options: Any) -> None:
    torch.set_printoptions(**options)
    rl.set_printoptions(**options)


@pytest.fixture(autouse=True)
def default_options() -> Any:
    yield
    set_both(profile="default")


@pytest.mark.parametrize("dtype", DTYPES)
def test_repr(dtype: str) -> None:
    random = np.random.default_rng(DTYPES.index(dtype))
    for shape in SHAPES:
        for _ in range(4):
            t = values(random, shape, dtype)
            assert comparable(repr(twin(t))) == comparable(repr(t))


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2},
        {"precision": 8},
        {"precision": 0},
        {"sci_mode": True},
        {"sci_mode": False},
        {"linewidth": 40},
        {"linewidth": 200},
        {"threshold": 5},
        {"threshold": 5, "edgeitems": 1},
        {"profile": "short"},
        {"profile": "full"},
    ],
)
def test_options(options: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    set_both(**options)
    for dtype in ("float32", "float64", "int64", "complex64"):
        for shape in SHAPES[:-3]:
            t = values(random, shape, dtype)
            assert comparable(repr(twin(t))) == comparable(repr(t)), options


def test_suffixes_that_do_not_fit_go_to_the_next_line() -> None:
    for count in range(1, 20):
        a = torch.full((count,), 1.5, requires_grad=True)
        b = rl.full((count,), 1.5, requires_grad=True)
        assert repr(b) == repr(a)
        assert repr(b + 1) == repr(a + 1)
        assert comparable(repr(b.double() * 2)) == comparable(repr(a.double() * 2))


@pytest.mark.parametrize("default", ["float64", "float16", "float32"])
def test_the_default_dtype_is_not_written(default: str) -> None:
    torch.set_default_dtype(getattr(torch, default))
    rl.set_default_dtype(getattr(rl, default))
    try:
        for dtype in DTYPES:
            a, b = torch.ones(2, dtype=getattr(torch, dtype)), rl.ones(2, dtype=getattr(rl, dtype))
            assert comparable(repr(b)) == comparable(repr(a))
            assert comparable(repr(b[:0])) == comparable(repr(a[:0]))
    finally:
        torch.set_default_dtype(torch.float32)
        rl.set_default_dtype(rl.float32)


def test_format() -> None:
    for value in (1.23456, -7, True, 2j):
        for spec in ("", ".2f", "8.3e") if not isinstance(value, bool) else ("", "d"):
            assert format(rl.tensor(value), spec) == format(torch.tensor(value), spec)
    assert f"{rl.ones(2)}" == f"{torch.ones(2)}"
    with pytest.raises(TypeError):
        format(rl.ones(2), ".2f")
