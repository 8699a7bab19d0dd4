"""Networks that look at images, from LeNet to Inception."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

Pair = int | tuple[int, int]


def lenet(lib: Any) -> Any:
    """LeNet-5 with ReLU and maxima, for 28×28 digits (LeCun et al., 1998)."""
    nn = lib.nn
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def alexnet(lib: Any) -> Any:
    """AlexNet, the variant with one tower (Krizhevsky, 2014)."""
    nn = lib.nn
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.AdaptiveAvgPool2d(6), nn.Flatten()),
        *(nn.Dropout(0.5), nn.Linear(256 * 36, 4096), nn.ReLU()),
        *(nn.Dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)),
    )


def vgg16(lib: Any) -> Any:
    """VGG-16 without batch norm (Simonyan and Zisserman, 2014)."""
    nn = lib.nn
    layers: list[Any] = []
    channels = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten()),
        *(nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4096, 1000)),
    )


def normed(
    nn: Any, inputs: int, outputs: int, kernel: Pair, stride: int = 1, padding: Pair | None = None
) -> list[Any]:
    """A convolution and its batch norm; the padding keeps the size if none is given."""
    if padding is None:
        padding = kernel // 2 if isinstance(kernel, int) else (kernel[0] // 2, kernel[1] // 2)
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(outputs),
    ]


def total(lib: Any, *branches: Any) -> Any:
    """A module that adds up what its branches make of its input."""

    class Total(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branches = lib.nn.ModuleList(branches)

        def forward(self, x: Any) -> Any:
            first, *others = [branch(x) for branch in self.branches]
            return sum(others, first)

    return Total()


def joined(lib: Any, *branches: Any) -> Any:
    """A module that puts the channels of its branches side by side."""

    class Joined(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branches = lib.nn.ModuleList(branches)

        def forward(self, x: Any) -> Any:
            return lib.cat([branch(x) for branch in self.branches], 1)

    return Joined()


def resnet(lib: Any, depths: Sequence[int], bottleneck: bool) -> Any:
    """A residual network for 224×224 images (He et al., 2015)."""
    nn = lib.nn
    layers = [*normed(nn, 3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, depth in enumerate(depths):
        width = 64 << stage
        outputs = 4 * width if bottleneck else width
        for block in range(depth):
            stride = 2 if stage > 0 and block == 0 else 1
            if bottleneck:
                body = [*normed(nn, channels, width, 1), nn.ReLU()]
                body += [*normed(nn, width, width, 3, stride), nn.ReLU()]
                body += normed(nn, width, outputs, 1)
            else:
                body = [*normed(nn, channels, width, 3, stride), nn.ReLU()]
                body += normed(nn, width, width, 3)
            same = stride == 1 and channels == outputs
            short = [nn.Identity()] if same else normed(nn, channels, outputs, 1, stride)
            layers += [total(lib, nn.Sequential(*body), nn.Sequential(*short)), nn.ReLU()]
            channels = outputs
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
    return nn.Sequential(*layers, *head)


resnet18 = partial(resnet, depths=(2, 2, 2, 2), bottleneck=False)
resnet50 = partial(resnet, depths=(3, 4, 6, 3), bottleneck=True)


def squeezenet(lib: Any) -> Any:
    """SqueezeNet 1.0 (Iandola et al., 2016)."""
    nn = lib.nn

    def fire(inputs: int, squeezed: int, expanded: int) -> Any:
        wide = [
            nn.Sequential(nn.Conv2d(squeezed, expanded, size, padding=size // 2), nn.ReLU())
            for size in (1, 3)
        ]
        return nn.Sequential(nn.Conv2d(inputs, squeezed, 1), nn.ReLU(), joined(lib, *wide))

    def halved() -> Any:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        *(nn.Conv2d(3, 96, 7, 2), nn.ReLU(), halved()),
        *(fire(96, 16, 64), fire(128, 16, 64), fire(128, 32, 128), halved()),
        *(fire(256, 32, 128), fire(256, 48, 192), fire(384, 48, 192), fire(384, 64, 256)),
        *(halved(), fire(512, 64, 256), nn.Dropout(0.5)),
        *(nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


def inception_v3(lib: Any) -> Any:
    """Inception-v3 for 299×299 images, without the auxiliary head (Szegedy et al., 2015)."""
    nn = lib.nn

    def unit(*sizes: Any, **options: Any) -> Any:
        return nn.Sequential(*normed(nn, *sizes, **options), nn.ReLU())

    def chain(*widths: int, kernels: Sequence[Pair], last_stride: int = 1) -> Any:
        """Units one after the other; one with a stride has no padding."""
        strides = [1] * (len(kernels) - 1) + [last_stride]
        parts = zip(widths[:-1], widths[1:], kernels, strides, strict=True)
        return nn.Sequential(
            *[unit(i, o, k, s, padding=None if s == 1 else 0) for i, o, k, s in parts]
        )

    def pooled(inputs: int, outputs: int) -> Any:
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), unit(inputs, outputs, 1))

    def fine(inputs: int, last: int) -> Any:
        return joined(
            lib,
            unit(inputs, 64, 1),
            chain(inputs, 48, 64, kernels=(1, 5)),
            chain(inputs, 64, 96, 96, kernels=(1, 3, 3)),
            pooled(inputs, last),
        )

    def middle(width: int) -> Any:
        row, column = (1, 7), (7, 1)
        long = chain(768, *[width] * 4, 192, kernels=(1, column, row, column, row))
        short = chain(768, width, width, 192, kernels=(1, row, column))
        return joined(lib, unit(768, 192, 1), short, long, pooled(768, 192))

    def coarse(inputs: int) -> Any:
        def crossed() -> Any:
            return joined(lib, unit(384, 384, (1, 3)), unit(384, 384, (3, 1)))

        return joined(
            lib,
            unit(inputs, 320, 1),
            nn.Sequential(unit(inputs, 384, 1), crossed()),
            nn.Sequential(chain(inputs, 448, 384, kernels=(1, 3)), crossed()),
            pooled(inputs, 192),
        )

    narrowed = joined(
        lib,
        unit(288, 384, 3, 2, padding=0),
        chain(288, 64, 96, 96, kernels=(1, 3, 3), last_stride=2),
        nn.MaxPool2d(3, 2),
    )
    narrowed_again = joined(
        lib,
        chain(768, 192, 320, kernels=(1, 3), last_stride=2),
        chain(768, 192, 192, 192, 192, kernels=(1, (1, 7), (7, 1), 3), last_stride=2),
        nn.MaxPool2d(3, 2),
    )
    return nn.Sequential(
        *(unit(3, 32, 3, 2, padding=0), unit(32, 32, 3, padding=0), unit(32, 64, 3)),
        *(nn.MaxPool2d(3, 2), unit(64, 80, 1), unit(80, 192, 3, padding=0), nn.MaxPool2d(3, 2)),
        *(fine(192, 32), fine(256, 64), fine(288, 64), narrowed),
        *(middle(128), middle(160), middle(160), middle(192), narrowed_again),
        *(coarse(1280), coarse(2048), nn.AdaptiveAvgPool2d(1), nn.Dropout(0.5), nn.Flatten()),
        nn.Linear(2048, 1000),
    )


def yolo_v2_tiny(lib: Any) -> Any:
    """Tiny YOLOv2: 13×13 cells of 5 boxes and 20 classes (Redmon and Farhadi, 2016)."""
    nn = lib.nn
    layers: list[Any] = []
    channels = 3
    for width in (16, 32, 64, 128, 256, 512):
        layers += [*normed(nn, channels, width, 3), nn.LeakyReLU(0.1)]
        layers += [nn.MaxPool2d(2)] if width < 512 else [nn.ZeroPad2d((0, 1, 0, 1))]
        channels = width
    layers.append(nn.MaxPool2d(2, 1))
    for width in (1024, 1024):
        layers += [*normed(nn, channels, width, 3), nn.LeakyReLU(0.1)]
        channels = width
    return nn.Sequential(*layers, nn.Conv2d(channels, 125, 1))
