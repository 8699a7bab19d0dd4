"""The layout of printed tensors, by example; PyTorch's own is compared in tests/peers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rushlight as rl


@pytest.fixture(autouse=True)
def _default_options() -> Iterator[None]:
    yield
    rl.set_printoptions(profile="default")


EXAMPLES = [
    (lambda: rl.tensor(1), "tensor(1)"),
    (lambda: rl.tensor(1.5), "tensor(1.5000)"),
    (lambda: rl.tensor(True), "tensor(True)"),
    (lambda: rl.tensor(-2.0), "tensor(-2.)"),
    (lambda: rl.tensor([]), "tensor([])"),
    (lambda: rl.zeros(0, 3), "tensor([], size=(0, 3))"),
    (lambda: rl.zeros(0, dtype=rl.int64), "tensor([], dtype=rushlight.int64)"),
    (lambda: rl.tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (lambda: rl.tensor([1.5, -22.25]), "tensor([  1.5000, -22.2500])"),
    (lambda: rl.tensor([1e-9, 1.0]), "tensor([1.0000e-09, 1.0000e+00])"),
    (lambda: rl.tensor([1.0, 10000.0]), "tensor([1.0000e+00, 1.0000e+04])"),
    (lambda: rl.tensor([float("nan"), 1.0, -float("inf")]), "tensor([nan, 1., -inf])"),
    (lambda: rl.tensor([True, False]), "tensor([ True, False])"),
    (lambda: rl.tensor([1, -20]), "tensor([  1, -20])"),
    (lambda: rl.tensor([1 + 2j, 3.5 - 1j]), "tensor([1.0000+2.j, 3.5000-1.j])"),
    (lambda: rl.ones(2, dtype=rl.float64), "tensor([1., 1.], dtype=rushlight.float64)"),
    (lambda: rl.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
    (lambda: rl.ones(2, requires_grad=True) + 1, "tensor([2., 2.], grad_fn=<AddBackward0>)"),
    (lambda: rl.arange(4).reshape(2, 2), "tensor([[0, 1],\n        [2, 3]])"),
    (
        lambda: rl.arange(4).reshape(2, 1, 2),
        "tensor([[[0, 1]],\n\n        [[2, 3]]])",
    ),
    (
        lambda: rl.arange(1001),
        "tensor([   0,    1,    2,  ...,  998,  999, 1000])",
    ),
    (
        lambda: rl.zeros(2, 1000),
        "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.]])",
    ),
    (
        lambda: rl.arange(30),
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])",
    ),
]


@pytest.mark.parametrize(("make", "text"), EXAMPLES, ids=[text[:40] for _, text in EXAMPLES])
def test_repr(make, text: str) -> None:
    assert repr(make()) == str(make()) == text


def test_numbers_of_every_size_print_without_a_warning() -> None:
    repr(rl.tensor([1e308, 1e-308], dtype=rl.float64))
    repr(rl.tensor([65504.0, 6e-8], dtype=rl.float16))
    repr(rl.tensor([3e38], dtype=rl.bfloat16))


def test_options() -> None:
    rl.set_printoptions(precision=2, sci_mode=True)
    assert repr(rl.tensor([1.0])) == "tensor([1.00e+00])"
    rl.set_printoptions(profile="short", threshold=3)
    assert repr(rl.arange(6)) == "tensor([0, 1,  ..., 4, 5])"
    rl.set_printoptions(profile="full")
    assert "..." not in repr(rl.zeros(2000))
    with pytest.raises(ValueError, match="one of default, short, full"):
        rl.set_printoptions(profile="long")


def test_format_of_a_number() -> None:
    assert f"{rl.tensor(1.23456):.2f}" == "1.23"
    assert f"{rl.tensor(2.0, requires_grad=True)}" == "2.0"
    assert f"{rl.ones(2)}" == "tensor([1., 1.])"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{rl.ones(2):.2f}"
