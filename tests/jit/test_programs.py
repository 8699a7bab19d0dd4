"""Programs of several methods and modes, and what is said of those that cannot be."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest

import rushlight as rl


class Coder(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.there, self.back = rl.nn.Linear(4, 2), rl.nn.Linear(2, 4)

    def forward(self, x: Any) -> Any:
        return self.decode(self.encode(x))

    @rl.jit.export
    def encode(self, x: Any) -> Any:
        return self.there(x).tanh()

    @rl.jit.export
    def decode(self, y: Any, scale: float = 1.0) -> Any:
        return self.back(y) * scale


def again(module: Any) -> Any:
    return rl.jit.load(io.BytesIO(module.save_to_buffer()))


def test_exported_methods_are_in_the_file() -> None:
    net, x = Coder(), rl.randn(3, 4)
    made = rl.jit.script(net)
    y = made.encode(x)
    made(x), made.decode(y, 2.0)
    loaded = again(again(made))
    assert loaded.encode(x).equal(made.encode(x))
    assert rl.allclose(loaded.decode(y, 3.0), net.decode(y, 3.0))
    assert rl.allclose(loaded(rl.ones(7, 4)), net(rl.ones(7, 4)), atol=1e-6)
    assert "tanh" in str(loaded.encode.graph)
    loaded.encode(x).sum().backward()
    assert loaded.there.weight.grad is not None


def test_methods_can_be_traced_by_examples() -> None:
    examples = {"forward": rl.ones(1, 4), "encode": rl.ones(1, 4), "decode": (rl.ones(1, 2),)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = again(rl.jit.trace_module(Coder(), examples))
    assert loaded.decode(loaded.encode(rl.ones(1, 4))).equal(loaded(rl.ones(1, 4)))


def test_a_method_that_was_never_called_is_warned_of() -> None:
    made = rl.jit.script(Coder())
    made.encode(made(rl.ones(1, 4)))
    with pytest.warns(UserWarning, match=r"Coder.decode is exported, but not saved"):
        loaded = again(made)
    with pytest.raises(AttributeError, match="no 'decode' in its file: it is a method that was"):
        loaded.decode(rl.ones(1, 2))
    assert "encode" in loaded._programs.methods


def test_a_mode_that_cannot_be_recorded_is_warned_of() -> None:
    made = rl.jit.trace(rl.nn.BatchNorm1d(3).eval(), rl.ones(1, 3))
    with pytest.warns(UserWarning, match="without a program for training mode: Expected more"):
        loaded = again(made)
    with pytest.raises(TypeError, match="without a program for training mode"):
        loaded.train()(rl.ones(1, 3))


def test_gradients_that_cannot_be_recorded_are_an_error_when_wanted() -> None:
    def shift(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    made = rl.jit.trace(shift, (rl.ones(2), rl.ones(2)))
    x, y = rl.ones(2), rl.ones(2, requires_grad=True)
    for program in (made, again(made)):
        assert program(x.clone(), y.detach()).requires_grad is False
        with pytest.raises(RuntimeError, match="no gradients go through this program: Runtime"):
            program(x.clone(), y).sum().backward()


def test_plain_texts_are_printed_once_while_a_function_is_traced(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def plain(x: Any) -> Any:
        print("plain", "text")
        return x * 2

    for make in (rl.jit.trace, rl.export):
        made = make(plain, rl.ones(2, 3))
        assert capsys.readouterr().out == "plain text\n"
        loaded = again(made)
        for call in (made, loaded):
            assert call(rl.ones(2, 3)).sum() == 12
        assert not capsys.readouterr().out


def test_what_a_trace_has_printed_that_is_given_up_does_not_appear(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def mixed(x: Any) -> Any:
        print("before")
        print("sum", x.sum().item())
        return x if x.sum() > 0 else -x

    for make in (rl.jit.trace, rl.export):
        made = make(mixed, rl.ones(2))
        loaded = again(made)
        assert not capsys.readouterr().out
        for call in (made, loaded):
            call(rl.ones(2))
            assert capsys.readouterr().out == "before\nsum 2.0\n"
