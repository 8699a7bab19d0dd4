"""Networks as data: what goes in, what is learnt. Each peer makes a step of them in its own way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from benchmarks.models import images, sequences

Loss = Literal["labels", "squares"]


class Network(NamedTuple):
    """A network and the shape of a sample of its input.

    A sample of three axes is an image. One with ``tokens`` is of whole numbers below that. The loss
    is the cross-entropy with ``classes`` labels, or the mean square of the output.
    """

    build: Callable[[Any], Any]
    shape: tuple[int, ...]
    tiny: tuple[int, ...]  # the smallest sample of use, to see whether it runs
    loss: Loss = "labels"
    classes: int = 1000
    tokens: int | None = None
    optimizer: Literal["SGD", "Adam"] = "SGD"

    @property
    def is_image(self) -> bool:
        return len(self.shape) == 3

    def sizes(self, batch: int, tiny: bool) -> tuple[int, ...]:
        """The shape of a batch of inputs."""
        return (min(batch, 2), *self.tiny) if tiny else (batch, *self.shape)

    def label_sizes(self, batch: int, tiny: bool) -> tuple[int, ...]:
        """The shape of its labels: one of each image or vector, or of each token."""
        sizes = self.sizes(batch, tiny)
        return sizes if self.tokens else sizes[:1]


IMAGE = (3, 224, 224)
"""What networks trained on ImageNet take."""

NETWORKS = {
    "LeNet": Network(images.lenet, (1, 28, 28), (1, 28, 28), classes=10),
    "AlexNet": Network(images.alexnet, IMAGE, (3, 63, 63)),
    "VGG-16": Network(images.vgg16, IMAGE, (3, 32, 32)),
    "ResNet-18": Network(images.resnet18, IMAGE, (3, 33, 33)),
    "ResNet-50": Network(images.resnet50, IMAGE, (3, 33, 33)),
    "SqueezeNet": Network(images.squeezenet, IMAGE, (3, 35, 35)),
    "Inception-v3": Network(images.inception_v3, (3, 299, 299), (3, 75, 75)),
    "YOLOv2-tiny": Network(images.yolo_v2_tiny, (3, 416, 416), (3, 32, 32), "squares"),
    "ViT-Ti": Network(
        partial(sequences.vit, layers=12, width=192, heads=3, patches=196), IMAGE, (3, 32, 32)
    ),
    "GPT-2 small": Network(
        partial(sequences.gpt, layers=12, width=768, heads=12, tokens=50257, context=1024),
        *((128,), (8,)),
        classes=50257,
        tokens=50257,
    ),
    "GPT, 4 layers": Network(
        partial(sequences.gpt, layers=4, width=256, heads=8, tokens=1000, context=128),
        *((128,), (8,)),
        classes=1000,
        tokens=1000,
        optimizer="Adam",
    ),
    "char-LSTM": Network(
        partial(sequences.char_lstm, characters=96, width=256, layers=2),
        *((64,), (4,)),
        classes=96,
        tokens=96,
        optimizer="Adam",
    ),
    "LSTM": Network(
        partial(sequences.lstm, inputs=64, units=256), (64, 64), (4, 64), loss="squares"
    ),
    "transformer": Network(
        partial(sequences.blocks, layers=1, width=256, heads=8),
        *((128, 256), (8, 256)),
        loss="squares",
        optimizer="Adam",
    ),
    "transformer, 4 layers": Network(
        partial(sequences.blocks, layers=4, width=256, heads=8),
        *((128, 256), (8, 256)),
        loss="squares",
        optimizer="Adam",
    ),
    "Dense 1000→100→1000": Network(
        partial(sequences.perceptron, widths=(1000, 100, 1000)),
        *((1000,), (1000,)),
        loss="squares",
    ),
    "ParallelBlocks": Network(
        sequences.parallel_blocks, (1000,), (1000,), loss="squares", optimizer="Adam"
    ),
}
"""By name."""
