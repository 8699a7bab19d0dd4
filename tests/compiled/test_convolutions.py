"""Convolutions inside programs look, to the Python around them, as in dynamic mode."""

from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.contraction import DEEPEST
from rushlight.codegen.tiling import Matrix, blocks_of
from rushlight.nn import functional as F


def images(*shape: int) -> rl.Tensor:
    rl.manual_seed(1)
    return rl.randn(*shape, dtype=rl.float64)


def agree(function: Any, *xs: Any) -> None:
    rl.manual_seed(0)
    wanted = function(*xs)
    rl.manual_seed(0)
    found = rl.compile(function, fullgraph=True)(*xs)
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-9)


X, W = images(2, 4, 6, 7), images(5, 4, 3, 3)


@pytest.mark.parametrize(
    "after",
    [
        lambda y: y.view(len(y), -1),
        lambda y: y * y.stride(0) + y.is_contiguous(),
        lambda y: y.as_strided((2, 3), (1, 2)),
        lambda y: F.dropout(y.relu(), 0.5),
        lambda y: y + rl.randn_like(y),
    ],
    ids=["view", "strides", "as_strided", "dropout", "randn_like"],
)
def test_results_are_laid_out_as_in_dynamic_mode(after: Any) -> None:
    agree(lambda x, w: after(F.conv2d(x, w, padding=1)), X, W)
    agree(lambda x, w: after(F.conv_transpose2d(x, w.transpose(0, 1))), X, W)


@pytest.mark.parametrize("options", [{}, {"padding": 1, "stride": 2}, {"dilation": 2}], ids=str)
def test_gradients_can_be_differentiated_again(options: dict[str, Any]) -> None:
    def penalty(critic: Any) -> list[np.ndarray]:
        x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
        y = critic(x, w)
        (slope,) = rl.autograd.grad(y, x, create_graph=True)
        slope.square().sum().backward()
        return [slope.detach().numpy(), x.grad.numpy(), w.grad.numpy()]

    def critic(x: rl.Tensor, w: rl.Tensor) -> rl.Tensor:
        return (F.conv2d(x, w, **options).tanh() * 2).sum() + (x**3).sum()

    for found, wanted in zip(penalty(rl.compile(critic)), penalty(critic), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


def test_recurrent_layers_can_be_differentiated_again() -> None:
    net = rl.nn.GRU(3, 4)
    x = rl.randn(5, 2, 3, requires_grad=True)

    def bend(run: Any) -> np.ndarray:
        (slope,) = rl.autograd.grad(run(x), x, create_graph=True)
        return rl.autograd.grad(slope.square().sum(), x)[0].numpy()

    found = bend(rl.compile(lambda x: net(x)[0].sum()))
    wanted = bend(lambda x: net(x)[0].sum())
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("inner", [1, 3, 145, 289, 290, 383, 384, 385, 576, 577, 2000])
@pytest.mark.parametrize("taps", [1, 2, 3, 5, 9, 44])
def test_blocks_are_never_deeper_than_their_memory(taps: int, inner: int) -> None:
    none = np.zeros(1, np.int64)
    blocks = blocks_of(Matrix(none, np.arange(taps) * inner, inner, 1, none))
    assert max([count * size for _, count, _, size, _ in blocks]) <= DEEPEST
    assert sum([count * size for _, count, _, size, _ in blocks]) == taps * inner


def test_a_wide_image_has_a_gradient_of_its_weight() -> None:
    x, g = images(1, 5, 20, 344).float(), images(1, 64, 16, 340).float()

    def slope(x: rl.Tensor, g: rl.Tensor) -> rl.Tensor:
        w = rl.zeros(64, 5, 5, 5, requires_grad=True)
        return rl.autograd.grad(F.conv2d(x, w), w, g)[0]

    found, wanted = rl.compile(slope, fullgraph=True)(x, g), slope(x, g)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-2)


def test_nan_stays_in_the_gradients_of_rectified_layers() -> None:
    net = rl.nn.RNN(3, 4, nonlinearity="relu")
    x = rl.randn(5, 2, 3)
    x[2, 1, 0] = float("nan")

    def step(x: rl.Tensor) -> Any:
        return rl.autograd.grad(net(x)[0].sum(), [*net.parameters()])

    for found, wanted in zip(rl.compile(step, fullgraph=True)(x), step(x), strict=True):
        np.testing.assert_array_equal(found.isnan().numpy(), wanted.isnan().numpy())


HALVES = {
    "plain": ((2, 8, 12, 12), (16, 8, 3, 3), {"padding": 1}),
    "groups": ((2, 8, 9, 9), (12, 4, 3, 3), {"stride": 2, "groups": 2}),
    "depthwise": ((2, 8, 9, 9), (8, 1, 3, 3), {"padding": 1, "groups": 8}),
    "one channel": ((3, 1, 14, 14), (6, 1, 5, 5), {}),
}


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16], ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_half_types_are_summed_in_float32_and_rounded_once(name: str, dtype: rl.dtype) -> None:
    shape, kernel, options = HALVES[name]
    xs = [images(*sizes).to(dtype) for sizes in (shape, kernel, kernel[:1])]

    def gradients(x: rl.Tensor, w: rl.Tensor, b: rl.Tensor) -> Any:
        leaves = [t.detach().requires_grad_() for t in (x, w, b)]
        y = F.conv2d(*leaves, **options)
        return y, *rl.autograd.grad(y.float().square().mean(), leaves)

    step = rl.finfo(dtype).eps
    compiled = rl.compile(gradients, fullgraph=True)
    assert "call" not in {s.kind for s in compiled.explain(*xs).steps}
    for found, wanted in zip(compiled(*xs), gradients(*xs), strict=True):
        assert found.dtype == dtype
        a, b = [t.detach().double().numpy() for t in (found, wanted)]
        np.testing.assert_allclose(a, b, rtol=2 * step, atol=2 * step * np.abs(b).mean())


def test_large_convolutions_of_half_types_do_not_depend_on_threads() -> None:
    x, w = images(4, 16, 20, 20).half(), images(24, 16, 3, 3).half()
    before, found = rl.get_num_threads(), []
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            results = [F.conv2d(x, w, padding=1) for _ in range(4)]  # the last ones are programs
            found.append(results[-1].numpy())
    finally:
        rl.set_num_threads(before)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("image", "window", "options"),
    [
        ((2, 8, 5, 5), (3, 3), {"dilation": 2}),
        ((2, 8, 5, 7), (3, 3), {"dilation": 2}),
        ((2, 8, 7, 7), (7, 7), {}),
        ((2, 8, 7, 1), (3, 1), {"stride": 2}),
    ],
)
def test_windows_no_larger_than_the_image_are_not_kept_for_backward(image, window, options):
    rl.manual_seed(0)
    x = rl.randn(*image, dtype=rl.float64, requires_grad=True)
    w = rl.randn(8, image[1], *window, dtype=rl.float64, requires_grad=True)
    compiled = rl.compile(lambda x, w: F.conv2d(x, w, **options))
    found = rl.autograd.grad(compiled(x, w).square().sum(), (x, w))
    wanted = rl.autograd.grad(F.conv2d(x, w, **options).square().sum(), (x, w))
    for f, g in zip(found, wanted, strict=True):
        rl.testing.assert_close(f, g)
