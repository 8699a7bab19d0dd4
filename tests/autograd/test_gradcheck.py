"""gradcheck and gradgradcheck: what they accept, what they catch, what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.autograd import GradcheckError, gradcheck, gradgradcheck

MODES = pytest.mark.parametrize("fast_mode", [False, True])


def real(*values: float) -> Any:
    return rl.tensor(values or [0.5, -1.5, 2.0], dtype=rl.float64, requires_grad=True)


def imaginary() -> Any:
    return rl.tensor([0.5 + 1j, -2 + 0.25j], dtype=rl.complex128, requires_grad=True)


def custom(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A custom function of one tensor, with ``backward(g, x)``."""

    class Custom(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return backward(*grads, *ctx.saved_tensors)

    return Custom.apply


RIGHT = {
    "one": (lambda x: x.sin() * x, (real(),)),
    "several": (lambda x, w: (x * w, (x + w).sum()), (real(), real(1.0, 2.0, 3.0))),
    "broadcast": (
        lambda x, w: x * w,
        (real(), rl.ones(2, 1, dtype=rl.float64, requires_grad=True)),
    ),
    "a constant": (lambda x, w: x * w, (real(), real().detach())),
    "a number": (lambda x, n: x**n, (real(), 3)),
    "an integer result": (lambda x: (x * 2, x > 0), (real(),)),
    "its input": (lambda x: x, (real(),)),
    "a view": (lambda x: x.view(3, 1)[1:], (real(),)),
    "empty": (lambda x: x * 2, (rl.empty(0, 2, dtype=rl.float64, requires_grad=True),)),
    "scalar": (lambda x: x.exp(), (rl.tensor(0.5, dtype=rl.float64, requires_grad=True),)),
    "complex": (lambda z: z * z, (imaginary(),)),
    "complex to real": (lambda z: z.abs(), (imaginary(),)),
    "real to complex": (lambda x: x * (1 + 2j), (real(),)),
    "mixed": (lambda x, z: x[:2] * z.conj(), (real(), imaginary())),
    "written to": (lambda x: (x * 1).mul_(x), (real(),)),
    "does not depend": (lambda x, w: x * 2, (real(), real())),
}


@MODES
@pytest.mark.parametrize("kind", RIGHT)
def test_right_gradients_pass(kind: str, fast_mode: bool) -> None:
    function, inputs = RIGHT[kind]
    options: dict[str, Any] = {"fast_mode": fast_mode, "check_batched_grad": True}
    assert gradcheck(function, inputs, check_grad_dtypes=True, **options)
    assert gradcheck(function, inputs, check_undefined_grad=False, **options)
    assert gradgradcheck(function, inputs, **options)
    assert gradgradcheck(function, inputs, gen_non_contig_grad_outputs=True, fast_mode=fast_mode)


def test_jacobian_vector_products_can_be_checked() -> None:
    for kind in ("several", "broadcast", "scalar"):
        function, inputs = RIGHT[kind]
        assert gradcheck(function, inputs, check_forward_ad=True)
        assert gradcheck(function, inputs, check_forward_ad=True, check_backward_ad=False)
        assert gradgradcheck(function, inputs, check_fwd_over_rev=True)


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "factor": (
        custom(lambda x: x * x, lambda g, x: 1.9 * x * g),
        r"(?s)Jacobian mismatch for output 0 with respect to input 0,\s*numerical:.*analytical:",
    ),
    "no gradient": (custom(lambda x: x * x, lambda g, x: None), "Jacobian mismatch"),
    "one of two": (
        custom(lambda x: (x * 2, x * 3), lambda a, b, x: 2 * a),
        "Jacobian mismatch for output 1",
    ),
    "not a product": (
        custom(lambda x: x * 2, lambda g, x: 2 * g + (g == 0).all().double()),
        "backward not multiplied by grad_output",
    ),
    "detached": (lambda x: x.detach() * 2, "Numerical gradient .* expected to be zero"),
    "random": (
        custom(lambda x: x * 2, lambda g, x: g * (2 + 1e-6 * rl.rand(3, dtype=rl.float64))),
        "Backward is not reentrant",
    ),
}


@MODES
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_gradients_are_caught(kind: str, fast_mode: bool) -> None:
    function, message = WRONG[kind]
    with pytest.raises(GradcheckError, match=message):
        gradcheck(function, real(), fast_mode=fast_mode)
    assert not gradcheck(function, real(), fast_mode=fast_mode, raise_exception=False)


def test_both_jacobians_are_shown() -> None:
    function, _ = WRONG["factor"]
    with pytest.raises(GradcheckError) as caught:
        gradcheck(function, real(1.0, 3.0))
    message = str(caught.value)
    assert "2.0000" in message
    assert "5.7000" in message


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (lambda g: g * (1 + 2j), "real"),
        (lambda g: g.real * (1 - 2j), "imaginary"),
    ],
)
def test_complex_mismatches_say_which_part(wrong: Any, part: str) -> None:
    function = custom(lambda z: z * (1 + 2j), lambda g, z: wrong(g))
    with pytest.raises(GradcheckError, match=f"the {part} part of complex outputs"):
        gradcheck(function, imaginary())


def test_wrong_second_derivatives_are_caught() -> None:
    function = custom(lambda x: x**3, lambda g, x: (3 * x.detach() ** 2) * g)
    assert gradcheck(function, real())
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(function, real())


def test_nondeterminism_may_be_tolerated() -> None:
    assert gradcheck(WRONG["random"][0], real(), nondet_tol=1e-3)


def test_inputs_are_left_as_they_were() -> None:
    x = real()
    before = x.tolist()
    gradcheck(lambda x: x * x, x)
    assert x.tolist() == before
    assert x.grad is None

    def fail(x: Any) -> Any:
        if x[0] != 0.5:
            raise KeyError
        return x * x

    with pytest.raises(KeyError):
        gradcheck(fail, x)
    assert x.tolist() == before


def test_single_precision_is_warned_of() -> None:
    x = rl.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double"):
        gradcheck(lambda x: x * 2, x, eps=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("error", "message", "inputs", "options"),
    [
        (ValueError, "at least one input tensor to require gradient", rl.ones(2), {}),
        (RuntimeError, "0th input has a dimension with stride 0", real(1.0).expand(3), {}),
        (AssertionError, "at least one of", real(), {"check_backward_ad": False}),
        (
            AssertionError,
            "requires check_backward_ad",
            real(),
            {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
        ),
        (AssertionError, "requires check_forward_ad", real(), {"check_batched_forward_grad": True}),
    ],
)
def test_bad_arguments(error: Any, message: str, inputs: Any, options: Any) -> None:
    with pytest.raises(error, match=message):
        gradcheck(lambda x: x * 2, inputs, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"check_rev_over_rev": False, "check_undefined_grad": False},
        {"check_rev_over_rev": False, "check_fwd_over_rev": True},
    ],
)
def test_bad_arguments_of_gradgradcheck(options: Any) -> None:
    with pytest.raises(AssertionError):
        gradgradcheck(lambda x: x * 2, real(), **options)
