"""PyTorch's names over any array library, so that JAX and TensorFlow run the same networks.

The library comes as an object of array functions (``a``), written in `jax` and `tensorflow`. Images
are in channels-last memory, which both prefer on a CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

Pair = int | tuple[int, int]


class Variable:
    """An array that changes: a parameter, or what a norm has seen."""

    def __init__(self, value: Any, trained: bool) -> None:
        self.value, self.trained = value, trained


class Module:
    """A layer: variables and other layers as attributes, and `forward`."""

    training = True

    def __call__(self, *args: Any) -> Any:
        return self.forward(*args)

    def modules(self) -> Iterator[Module]:
        yield self
        for value in vars(self).values():
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, Module):
                    yield from part.modules()

    def variables(self) -> list[Variable]:
        found = [v for m in self.modules() for v in vars(m).values() if isinstance(v, Variable)]
        return list(dict.fromkeys(found))

    def eval(self) -> None:
        for module in self.modules():
            module.training = False


class Sequential(Module):
    def __init__(self, *layers: Module) -> None:
        self.layers = list(layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def pair(size: Pair) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def library(a: Any) -> SimpleNamespace:
    """The namespace that networks are written over."""
    random = np.random.default_rng(0)

    def parameter(*shape: int, fan_in: int) -> Variable:
        values = random.standard_normal(shape, np.float32) / np.float32(math.sqrt(fan_in))
        return Variable(a.variable(values), trained=True)

    def filled(value: float, size: int, trained: bool) -> Variable:
        return Variable(a.variable(np.full(size, value, np.float32)), trained)

    def applied(function: Any) -> type[Module]:
        """A layer without variables; its arguments go to the function, after the input."""

        class Applied(Module):
            def __init__(self, *args: Any, **options: Any) -> None:
                self.args, self.options = args, options

            def forward(self, x: Any) -> Any:
                return function(x, *self.args, **self.options)

        return Applied

    class Linear(Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            self.weight = parameter(inputs, outputs, fan_in=inputs)
            self.bias = filled(0.0, outputs, trained=True)

        def forward(self, x: Any) -> Any:
            return a.matmul(x, self.weight.value) + self.bias.value

    class Conv2d(Module):
        def __init__(
            self,
            inputs: int,
            outputs: int,
            kernel: Pair,
            stride: int = 1,
            padding: Pair = 0,
            bias: bool = True,
        ) -> None:
            self.stride, self.padding = stride, pair(padding)
            size = pair(kernel)
            self.weight = parameter(*size, inputs, outputs, fan_in=inputs * math.prod(size))
            self.bias = filled(0.0, outputs, trained=True) if bias else None

        def forward(self, x: Any) -> Any:
            y = a.convolution(x, self.weight.value, self.stride, self.padding)
            return y if self.bias is None else y + self.bias.value

    class BatchNorm2d(Module):
        def __init__(self, channels: int) -> None:
            self.scale, self.shift = [filled(v, channels, trained=True) for v in (1.0, 0.0)]
            self.mean, self.variance = [filled(v, channels, trained=False) for v in (0.0, 1.0)]

        def forward(self, x: Any) -> Any:
            parts = [v.value for v in (self.scale, self.shift, self.mean, self.variance)]
            y, mean, variance = a.batch_norm(x, *parts, self.training)
            if self.training:
                a.assign(self.mean, 0.9 * self.mean.value + 0.1 * mean)
                a.assign(self.variance, 0.9 * self.variance.value + 0.1 * variance)
            return y

    class LayerNorm(Module):
        def __init__(self, width: int) -> None:
            self.scale, self.shift = [filled(v, width, trained=True) for v in (1.0, 0.0)]

        def forward(self, x: Any) -> Any:
            centred = x - a.mean(x, -1, keepdim=True)
            variance = a.mean(centred * centred, -1, keepdim=True)
            return centred * a.rsqrt(variance + 1e-5) * self.scale.value + self.shift.value

    class Embedding(Module):
        def __init__(self, count: int, width: int) -> None:
            self.weight = parameter(count, width, fan_in=1)

        def forward(self, x: Any) -> Any:
            return a.take(self.weight.value, x)

    class Dropout(Module):
        def __init__(self, probability: float) -> None:
            self.probability = probability
            self.key = Variable(a.variable(a.random_key()), trained=False)

        def forward(self, x: Any) -> Any:
            return a.dropout(x, self.probability, self.key) if self.training else x

    class LSTM(Module):
        def __init__(
            self, inputs: int, units: int, layers: int = 1, batch_first: bool = True
        ) -> None:
            self.units = units
            sizes = [inputs] + [units] * (layers - 1)
            self.steps = [Gates(size, units) for size in sizes]

        def forward(self, x: Any) -> tuple[Any, None]:
            sequence = a.transpose(x, 0, 1)
            zeros = a.zeros((x.shape[0], self.units))
            for step in self.steps:
                sequence = a.scan(step, zeros, step.ahead(sequence))
            return a.transpose(sequence, 0, 1), None

    class Gates(Module):
        """A step of an LSTM; the part of its input is computed for all steps ahead."""

        def __init__(self, inputs: int, units: int) -> None:
            self.ahead = Linear(inputs, 4 * units)
            self.weight = parameter(units, 4 * units, fan_in=units)

        def forward(self, h: Any, c: Any, x: Any) -> tuple[Any, Any]:
            i, f, g, o = a.chunk(x + a.matmul(h, self.weight.value), 4, -1)
            c = a.sigmoid(f) * c + a.sigmoid(i) * a.tanh(g)
            return a.sigmoid(o) * a.tanh(c), c

    def max_pool(
        x: Any, kernel: int, stride: int | None = None, padding: int = 0, ceil_mode: bool = False
    ) -> Any:
        stride = stride or kernel
        spare = (x.shape[1] + 2 * padding - kernel) % stride
        beyond = stride - spare if ceil_mode and spare else 0
        return a.max_pool(x, kernel, stride, (padding, padding + beyond))

    def adaptive_average(x: Any, size: int) -> Any:
        """Averages of equal windows, or repetitions of what is too small."""
        height = x.shape[1]
        if height >= size:
            return a.average_pool(a.pad(x, 0, 0), height // size, height // size)
        return a.repeat(x, size // height)

    def flatten(x: Any, start: int = 1) -> Any:
        """As if the channels of images came first."""
        if len(x.shape) == 4:
            x = a.transpose(a.transpose(x, 2, 3), 1, 2)
        return a.reshape(x, (*x.shape[:start], -1))

    def attention(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
        scores = a.matmul(q, a.transpose(k, -2, -1)) / math.sqrt(q.shape[-1])
        if is_causal:
            scores = a.masked(scores, np.tri(q.shape[-2], k.shape[-2], dtype=bool))
        return a.matmul(a.softmax(scores), v)

    nn = SimpleNamespace(
        Module=Module,
        Sequential=Sequential,
        ModuleList=list,
        Linear=Linear,
        Conv2d=Conv2d,
        BatchNorm2d=BatchNorm2d,
        LayerNorm=LayerNorm,
        Embedding=Embedding,
        Dropout=Dropout,
        LSTM=LSTM,
        Identity=applied(lambda x: x),
        ReLU=applied(a.relu),
        GELU=applied(a.gelu),
        LeakyReLU=applied(a.leaky_relu),
        MaxPool2d=applied(max_pool),
        AvgPool2d=applied(lambda x, k, s, p: a.average_pool(a.pad(x, p, p), k, s)),
        AdaptiveAvgPool2d=applied(adaptive_average),
        ZeroPad2d=applied(lambda x, sides: a.pad(x, sides[0], sides[1])),
        Flatten=applied(flatten),
        functional=SimpleNamespace(
            relu=a.relu,
            scaled_dot_product_attention=attention,
            linear=lambda x, weight: a.matmul(x, a.transpose(weight.value, 0, 1)),
        ),
    )
    return SimpleNamespace(
        nn=nn,
        arange=a.arange,
        cat=lambda parts, dim: a.concatenate(parts),
        chunk=a.chunk,
        mean=a.mean,
        reshape=a.reshape,
        transpose=a.transpose,
    )


def loss(a: Any, network: Any, output: Any, labels: Any) -> Any:
    """The mean square of an output, or its mean cross-entropy."""
    return a.square_mean(output) if network.loss == "squares" else a.cross_entropy(output, labels)


def batch(network: Any, size: int, tiny: bool) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, images in channels-last memory, and labels."""
    random = np.random.default_rng(0)
    sizes = network.sizes(size, tiny)
    if network.is_image:
        sizes = (sizes[0], *sizes[2:], sizes[1])
    if network.tokens:
        x = random.integers(network.tokens, size=sizes, dtype=np.int32)
    else:
        x = random.standard_normal(sizes, np.float32)
    labels = random.integers(network.classes, size=network.label_sizes(size, tiny), dtype=np.int32)
    return x, labels
