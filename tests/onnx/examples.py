"""Models to export: functions with branches, loops and sizes that change; whole networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from benchmarks.models import images, sequences
from rushlight import nn
from rushlight.onnx.verifying import interpreted

Axes = dict[str, Any]


class Example(NamedTuple):
    """A model, example arguments, which of their sizes change, and other arguments to run it on."""

    make: Callable[[], Any]
    args: Callable[[], tuple[Any, ...]]
    axes: Axes | None = None
    others: tuple[Callable[[], tuple[Any, ...]], ...] = ()


def X(*shapes: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
    """Tensors of these shapes."""
    return lambda: tuple([rl.randn(*shape) for shape in shapes])


def I(high: int, *shape: int) -> Callable[[], tuple[Any, ...]]:  # noqa: E743 - the integers
    return lambda: (rl.randint(high, shape),)


def given(*values: Any) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple([rl.tensor(value) for value in values])


def of(function: Callable[..., Any]) -> Callable[[], Any]:
    """A model that is a function."""
    return lambda: function


def halved(x: rl.Tensor) -> rl.Tensor:
    """A loop and a branch of Python's own."""
    while x.sum() > 1:
        if (x < 2).any():
            x = x * 0.4
        else:
            x = x / 2 + 0.1
    return x


def as_large(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
    """What is done to join the two sides of a U-Net."""
    missing = y.shape[2] - x.shape[2]
    return nn.functional.pad(x, [missing // 2, missing - missing // 2]) + y


def resampled(x: rl.Tensor, y: rl.Tensor) -> list[rl.Tensor]:
    """To the sizes of another tensor, and by factors."""
    modes = [("nearest", None), ("bilinear", False), ("bilinear", True), ("bicubic", False)]
    ways = [{"size": y.shape[-2:]}, {"scale_factor": 2}, {"scale_factor": 1.5}]
    resample = nn.functional.interpolate
    return [resample(x, mode=m, align_corners=a, **way) for m, a in modes for way in ways]


TABLE = rl.arange(256.0).reshape(16, 16)


def parts(x: rl.Tensor) -> tuple[rl.Tensor, ...]:
    """As much of a table as there are elements, and elements at fixed positions."""
    y = x.clone()
    y[rl.tensor([1, 3])] = 0
    return TABLE[: x.shape[1], : x.shape[1]] @ y.t(), x[:, [-1]], x.index_select(0, rl.tensor([2]))


def early(x: rl.Tensor) -> rl.Tensor:
    if x.sum() > 0:
        return x * 2
    return x - 1


def recurrence(h: rl.Tensor, x: rl.Tensor) -> Any:
    w = rl.linspace(-1, 1, 9).reshape(3, 3)
    return rl.scan(lambda h, x: ((h @ w + x).tanh(), h.sum(-1)), h, x)


def backwards(x: rl.Tensor) -> Any:
    return rl.scan(lambda h, x: (h * 0.5 + x, h - x), rl.zeros(3), x, reverse=True)


def windows(x: rl.Tensor) -> Any:
    return nn.functional.unfold(x, 2, padding=1), x.unfold(2, 2, 1), x.roll((1, -2), (0, 3))


CONTROL: dict[str, Example] = {
    "cond": Example(
        of(lambda x: rl.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))),
        given([1.0, 2.0]), None, (given([-1.0, -2.0]),),
    ),
    "switch": Example(
        of(lambda i, x: rl.switch(i, [lambda x: x * 2, lambda x: x - 1, lambda x: x.exp()], x)),
        given(2, [1.0, 2.0]), None, (given(0, [1.0, 3.0]), given(1, [2.0, 0.0])),
    ),
    "while_loop": Example(
        of(lambda x: rl.while_loop(
            lambda i, x: (i < 5) & (x.sum() < 100), lambda i, x: (i + 1, x * 2 + i),
            (rl.tensor(0), x),
        )),
        given([1.0, 2.0]), None, (given([30.0, 80.0]),),
    ),
    "fori_loop": Example(of(lambda x: rl.fori_loop(0, 5, lambda i, x: x * 0.5 + i, x)), X((2, 3))),
    "scan": Example(of(recurrence), X((2, 3), (5, 2, 3))),
    "scan, reverse": Example(of(backwards), X((4, 3))),
    "nested": Example(
        of(lambda x: rl.fori_loop(
            0, 4, lambda i, x: rl.cond(x.sum() > i, lambda x: x - 1, lambda x: x * 3, (x,)), x,
        )),
        X((2, 3)),
    ),
    "Python's own": Example(of(halved), given([5.0, 5.0]), None, (given([9.0, 0.5]),)),
    "an early return": Example(of(early), given([5.0]), None, (given([-3.0]),)),
}  # fmt: skip


def written(x: Any, y: Any) -> Any:
    """Writes to parts, and to parts of parts."""
    x, n = x.clone(), x.shape[1]
    x[:, 1:3] = y
    x[1:, n // 2 :] += 1
    x[..., ::2].mul_(2)
    x.t()[0] = 7
    x[:, 1:][0, -1] = 5
    return x


SIZES: dict[str, Example] = {
    "writes to parts": Example(
        of(written), X((4, 6), (4, 2)), {"x0": {0: "b", 1: "n"}, "x1": {0: "b"}},
        (X((5, 9), (5, 2)), X((2, 3), (2, 2))),
    ),
    "a branch": CONTROL["cond"]._replace(axes={"x0": [0]}, others=(X((5,)), given([-3.0]))),
    "a loop": CONTROL["while_loop"]._replace(axes={"x0": {0: "n"}}, others=(X((5,)),)),
    "a scan": CONTROL["scan"]._replace(
        axes={"x0": {0: "batch"}, "x1": {0: "time", 1: "batch"}}, others=(X((4, 3), (7, 4, 3)),)
    ),
    "Python's own loop": CONTROL["Python's own"]._replace(axes={"x0": [0]}, others=(X((3,)),)),
    "images": Example(
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.BatchNorm2d(2), nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3),
        ),
        X((2, 1, 8, 8)), {"x0": {0: "batch", 2: "height", 3: "width"}},
        (X((5, 1, 16, 13)), X((1, 1, 9, 21))),
    ),
    "a size as a number": Example(
        of(lambda x: (x.sum(0) / x.shape[0])[: x.shape[1] // 2] * x.shape[0] ** 2),
        X((4, 6)), {"x0": [0, 1]}, (X((7, 9)),),
    ),
    "LSTM": Example(
        lambda: nn.LSTM(4, 3, 2, bidirectional=True), X((5, 2, 4)), {"x0": [0, 1]}, (X((9, 3, 4)),)
    ),
    "LSTM with a projection": Example(
        lambda: nn.LSTM(4, 3, proj_size=2), X((5, 2, 4)), {"x0": [0, 1]}, (X((9, 3, 4)),)
    ),
    "transformer": Example(
        lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        X((3, 5, 4)), {"x0": {0: "batch", 1: "time"}}, (X((2, 11, 4)),),
    ),
    "causal attention": Example(
        of(lambda q, k: nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)),
        X((2, 2, 5, 4), (2, 2, 7, 4)),
        {"x0": {0: "batch", 2: "queries"}, "x1": {0: "batch", 2: "keys"}},
        (X((3, 2, 6, 4), (3, 2, 9, 4)),),
    ),
    "ranges": Example(
        of(lambda x: x + rl.arange(x.shape[0]).float()[:, None] * rl.ones(x.shape[1])),
        X((4, 6)), {"x0": [0, 1]}, (X((7, 9)),),
    ),
    "broadcasting": Example(
        of(lambda x, y: x[:, None] * y), X((4,), (6,)), {"x0": [0], "x1": [0]}, (X((7,), (9,)),)
    ),
    "order": Example(
        of(lambda x: x.sort(-1)[0] + x.softmax(-1).var(-1, keepdim=True)),
        X((4, 6)), {"x0": [0, 1]}, (X((7, 9)),),
    ),
    "windows": Example(
        of(windows),
        X((2, 3, 4, 5)), {"x0": [0]}, (X((5, 3, 4, 5)),),
    ),
    "pools": Example(
        lambda: nn.Sequential(
            nn.AvgPool2d(3, 2, 1), nn.MaxPool2d(3, 2, 1), nn.ConvTranspose2d(2, 3, 3, 2, 1, 1)
        ),
        X((2, 2, 16, 16)), {"x0": [0, 2, 3]}, (X((3, 2, 19, 22)),),
    ),
    "resampling": Example(
        of(resampled), X((1, 2, 4, 5), (1, 1, 7, 9)),
        {"x0": {2: "height", 3: "width"}, "x1": {2: "rows", 3: "columns"}},
        (X((1, 2, 6, 3), (1, 1, 11, 2)), X((1, 2, 9, 8), (1, 1, 4, 5))),
    ),
    "parts of what is captured": Example(
        of(parts), X((4, 6)), {"x0": [0, 1]}, (X((7, 9)), X((5, 2)))
    ),
    "as much as is missing": Example(
        of(as_large), X((1, 1, 9), (1, 1, 6)), {"x0": [2], "x1": [2]}, (X((1, 1, 4), (1, 1, 11)),),
    ),
}  # fmt: skip
NETWORKS: dict[str, Example] = {
    "LeNet": Example(lambda: images.lenet(rl), X((2, 1, 28, 28)), {"x0": [0]}),
    "ResNet-18": Example(
        lambda: images.resnet(rl, (2, 2, 2, 2), False), X((1, 3, 32, 32)), {"x0": [0, 2, 3]},
        (X((2, 3, 48, 33)),),
    ),
    "SqueezeNet": Example(
        lambda: images.squeezenet(rl), X((1, 3, 64, 64)), {"x0": [0, 2, 3]}, (X((2, 3, 70, 81)),)
    ),
    "tiny YOLO": Example(lambda: images.yolo_v2_tiny(rl), X((1, 3, 64, 64))),
    "AlexNet": Example(lambda: images.alexnet(rl), X((1, 3, 224, 224))),
    "Inception": Example(lambda: images.inception_v3(rl), X((1, 3, 139, 139))),
    "vision transformer": Example(lambda: sequences.vit(rl, 2, 32, 4, 16), X((2, 3, 64, 64))),
    "GPT": Example(
        lambda: sequences.gpt(rl, 2, 32, 4, 50, 16), I(50, 2, 12), {"x0": {0: "batch", 1: "time"}},
        (I(50, 3, 15),),
    ),
    "LSTM of characters": Example(
        lambda: sequences.char_lstm(rl, 30, 16, 2), I(30, 2, 9), {"x0": [0, 1]}, (I(30, 4, 7),)
    ),
}  # fmt: skip
LARGE = {"AlexNet", "Inception", "tiny YOLO"}


def tensors(result: Any) -> list[np.ndarray]:
    """The arrays of all tensors in a result."""
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in tensors(part)]
    if isinstance(result, dict):
        return tensors(list(result.values()))
    return [result.detach().numpy()] if isinstance(result, rl.Tensor) else []


def runs(
    example: Example, **options: Any
) -> tuple[Any, list[tuple[list[np.ndarray], list[np.ndarray]]]]:
    """An example exported, and the arguments and results of the model itself."""
    rl.manual_seed(0)
    model = example.make()
    if isinstance(model, nn.Module):
        model.eval()
    args = example.args()
    names = [f"x{i}" for i in range(len(args))]
    program = rl.onnx.export(model, args, input_names=names, dynamic_axes=example.axes, **options)
    found = []
    with rl.no_grad(), interpreted():
        for inputs in (args, *[other() for other in example.others]):
            found.append((tensors(list(inputs)), tensors(model(*inputs))))
    return program, found


def close(found: Any, expected: Any, tolerance: float = 1e-4) -> None:
    """The same up to rounding, relative to the largest number."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        scale = np.abs(b[np.isfinite(b)]).max(initial=0.0) if b.dtype.kind == "f" else 0.0
        np.testing.assert_allclose(a, b, tolerance, tolerance * scale)
