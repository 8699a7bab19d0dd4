"""What halves a size, or takes another part of it: one program for all sizes of one remainder."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.jit import load, trace
from rushlight.jit.program import Mismatch
from tests.compiled.test_sizes import programs

MANY = [4, 6, 2, 10, 8, 30, 12, 64, 100, 66, 1]


def half(x):
    h = x.shape[-1] // 2
    return x[..., :h] * x[..., h:]


def quarters(x):
    n = x.shape[0] // 2
    x = x[:n] * x[n:]
    m = x.shape[0] // 2
    return x[:m] - x[m:]


FORMS = {
    "gate": (half, 2),
    "gate by columns": (lambda x: half(x.view(1, -1).expand(3, -1)), 2),
    "pairs": (lambda x: x.view(x.shape[0] // 2, 2) * 2, 2),
    "pairs and back": (lambda x: x.reshape(-1, 2).flip(1).flatten() + x, 2),
    "every other": (lambda x: x[::2] * x[1::2], 2),
    "quarters": (quarters, 4),
    "both ends": (lambda x: x[: x.shape[0] // 2] * x[-(x.shape[0] // 2) :], 2),
    "interleaved": (lambda x: rl.stack([x[1::2], -x[::2]], -1).flatten() + x, 2),
    "rotated": (lambda x: rl.cat([-x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]) * x, 2),
    "thirds": (lambda x: x.view(3, x.shape[0] // 3).sum(0) * 2, 3),
    "split": (lambda x: x.split(x.shape[0] // 2)[0] * x.split(x.shape[0] // 2)[-1], 2),
    "split in three": (lambda x: sum([y * 2 for y in x.split(x.shape[0] // 3)]), 3),
    "asserted": (lambda x: half(x) if x.shape[0] % 2 == 0 else x * 1, 2),
}


@pytest.fixture(autouse=True)
def seed():
    rl.manual_seed(0)


def value_and_gradient(function, x):
    x = x.detach().requires_grad_()
    y = function(x)
    y.square().sum().backward()
    return y.detach(), x.grad


def outcome(function, x):
    """The result, or what the error says."""
    try:
        return function(x)
    except RuntimeError as error:
        return str(error)


def compare(function, other, x):
    pairs = zip(value_and_gradient(function, x), value_and_gradient(other, x), strict=True)
    for found, wanted in pairs:
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FORMS)
def test_one_program_for_all_multiples(name):
    function, step = FORMS[name]
    compiled = rl.compile(function, fullgraph=True)
    for n in MANY:
        compare(compiled, function, rl.randn(n * step))
    assert programs(compiled) == (1, 1), compiled.any_size.refused
    for n in (0, 24, 0, 36):  # nothing may have a program of its own: x[1:] is none of it
        compare(compiled, function, rl.randn(n))
    assert sum(programs(compiled)) <= 3


@pytest.mark.parametrize("name", FORMS)
def test_all_sizes_are_right_or_the_error_of_dynamic_mode(name):
    function, _ = FORMS[name]
    compiled = rl.compile(function, fullgraph=True)
    for n in (12, 24, *range(26)):
        x = rl.randn(n)
        wanted, found = outcome(function, x), outcome(compiled, x)
        if isinstance(wanted, str):
            assert found == wanted
        else:
            assert rl.equal(found, wanted), n


def test_odd_sizes_have_a_program_of_their_own():
    def function(x):
        middle = x.shape[0] // 2
        return x[:middle] * x[middle + 1 :]

    compiled = rl.compile(function, fullgraph=True)
    for n in range(1, 40, 2):
        x = rl.randn(n)
        assert rl.equal(compiled(x), function(x))
    assert programs(compiled) == (1, 1)


def test_heads_of_any_length_and_width():
    def heads(x):
        batch, length, width = x.shape
        return x.view(batch, length, 4, width // 4).transpose(1, 2) * 2

    compiled = rl.compile(heads, fullgraph=True)
    for n in range(1, 13):
        x = rl.randn(2, n + 1, 4 * n)
        assert rl.equal(compiled(x), heads(x))
    with pytest.raises(RuntimeError, match="is invalid for input of size"):
        compiled(rl.ones(2, 3, 6))
    assert programs(compiled) == (1, 1)


def test_a_size_between_programs_for_others():
    """An exception does not keep later sizes from having one program."""
    compiled = rl.compile(half, fullgraph=True)
    for n in (4, 6, 3, 8, 3, 10, 12):  # 1 · 2 elements can be multiplied
        x = rl.randn(n)
        assert rl.equal(compiled(x), half(x))
    assert programs(compiled) == (2, 1)


class TestFiles:
    @pytest.mark.parametrize("name", FORMS)
    def test_the_program_in_a_file_is_for_all_multiples(self, name, tmp_path):
        function, step = FORMS[name]
        trace(function, rl.randn(6 * step)).save(tmp_path / "program.pt")
        loaded = load(tmp_path / "program.pt")
        for n in MANY:
            compare(loaded, function, rl.randn(n * step))

    @pytest.mark.parametrize("n", [1, 3, 7, 101])
    def test_it_refuses_others(self, n, tmp_path):
        trace(half, rl.ones(4)).save(tmp_path / "program.pt")
        with pytest.raises(Mismatch, match=r"expected a tensor f32\[2\*B\], got"):
            load(tmp_path / "program.pt")(rl.ones(n))


class Apply(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_bounds_of_an_exported_size():
    size = rl.export.Dim("n", min=3, max=21)
    program = rl.export.export(Apply(half), (rl.ones(6),), dynamic_shapes=({0: size},))
    assert [*map(tuple, program.range_constraints.values())] == [(2, 10)]  # of the half
    for n in (4, 8, 20):
        x = rl.randn(n)
        assert rl.equal(program.module()(x), half(x))
    for n in (2, 5, 22):
        with pytest.raises(Mismatch):
            program.module()(rl.ones(n))


@pytest.mark.parametrize("name", FORMS)
def test_an_onnx_file_is_for_all_multiples(name, tmp_path):
    pytest.importorskip("onnx")
    function, step = FORMS[name]
    path = tmp_path / "model.onnx"
    module = Apply(function)
    rl.onnx.export(
        module, (rl.randn(6 * step),), path, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    loaded = rl.onnx.load(path)
    for n in (4, 2, 10, 8, 30):
        x = rl.randn(n * step)
        assert rl.allclose(loaded(x), function(x))


def test_an_onnx_file_refuses_other_sizes(tmp_path):
    pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    rl.onnx.export(
        Apply(half), (rl.ones(6),), path, input_names=["x"], dynamic_axes={"x": {0: "n"}}
    )
    with pytest.raises(RuntimeError):
        rl.onnx.load(path)(rl.ones(7))
