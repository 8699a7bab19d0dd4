"""TensorFlow: networks of `layers` and programs of a user, each under ``tf.function``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import Tensor

from benchmarks.peers import layers
from benchmarks.workloads import Step, Workload

# Steps have no Python that depends on tensors, and rewriting them takes time.
compiled = partial(tf.function, autograph=False)


def open_peer(module: str, mode: str, threads: int) -> tuple[str, Callable[..., Step | None]]:
    """The version, and what makes the step of a workload, if this one runs it."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return tf.__version__, make


def make(name: str, workload: Workload, tiny: bool) -> Step | None:
    if workload.network:
        return network_step(workload, tiny)
    return PROGRAMS[name]() if name in PROGRAMS else None


class Arrays:
    """The array functions that `layers` needs."""

    variable = staticmethod(tf.Variable)
    matmul = staticmethod(tf.matmul)
    reshape = staticmethod(tf.reshape)
    arange = staticmethod(tf.range)
    zeros = staticmethod(tf.zeros)
    relu = staticmethod(tf.nn.relu)
    leaky_relu = staticmethod(tf.nn.leaky_relu)
    gelu = staticmethod(tf.nn.gelu)
    sigmoid = staticmethod(tf.sigmoid)
    tanh = staticmethod(tf.tanh)
    softmax = staticmethod(tf.nn.softmax)
    rsqrt = staticmethod(tf.math.rsqrt)
    take = staticmethod(tf.gather)

    def assign(self, variable: layers.Variable, value: Tensor) -> None:
        variable.value.assign(value)

    def transpose(self, x: Tensor, first: int, second: int) -> Tensor:
        order = list(range(len(x.shape)))
        order[first], order[second] = order[second], order[first]
        return tf.transpose(x, order)

    def mean(self, x: Tensor, axis: int, keepdim: bool = False) -> Tensor:
        return tf.reduce_mean(x, axis, keepdims=keepdim)

    def chunk(self, x: Tensor, count: int, axis: int) -> list[Tensor]:
        return tf.split(x, count, axis)

    def concatenate(self, parts: list[Tensor]) -> Tensor:
        return tf.concat(parts, -1)

    def masked(self, scores: Tensor, seen: Any) -> Tensor:
        return tf.where(seen, scores, np.float32(-np.inf))

    def pad(self, x: Tensor, before: int, after: int) -> Tensor:
        if before == after == 0:
            return x
        return tf.pad(x, ((0, 0), (before, after), (before, after), (0, 0)))

    def repeat(self, x: Tensor, times: int) -> Tensor:
        return tf.repeat(tf.repeat(x, times, 1), times, 2)

    def convolution(self, x: Tensor, w: Tensor, stride: int, padding: tuple[int, int]) -> Tensor:
        sides = ((0, 0), *[(p, p) for p in padding], (0, 0))
        return tf.nn.conv2d(x, w, stride, sides)

    def max_pool(self, x: Tensor, kernel: int, stride: int, sides: tuple[int, int]) -> Tensor:
        padding = ((0, 0), sides, sides, (0, 0)) if any(sides) else "VALID"
        return tf.nn.max_pool2d(x, kernel, stride, padding)

    def average_pool(self, x: Tensor, kernel: int, stride: int) -> Tensor:
        return tf.nn.avg_pool2d(x, kernel, stride, "VALID")

    def batch_norm(
        self, x: Tensor, scale: Any, shift: Any, mean: Any, variance: Any, training: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        seen = (None, None) if training else (mean, variance)
        fused = tf.compat.v1.nn.fused_batch_norm
        return fused(x, scale, shift, *seen, epsilon=1e-5, is_training=training)

    def random_key(self) -> int:
        return 0

    def dropout(self, x: Tensor, probability: float, state: layers.Variable) -> Tensor:
        return tf.nn.dropout(x, probability)

    def scan(self, step: Callable[..., Any], zeros: Tensor, sequence: Tensor) -> Tensor:
        return tf.scan(lambda state, x: step(*state, x), sequence, (zeros, zeros))[0]

    def square_mean(self, x: Tensor) -> Tensor:
        return tf.reduce_mean(tf.square(x))

    def cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tf.reduce_mean(losses)


def network_step(workload: Workload, tiny: bool) -> Step:
    network, a = workload.network, Arrays()
    model = network.build(layers.library(a))
    x, labels = [tf.constant(part) for part in layers.batch(network, workload.batch, tiny)]
    if workload.task == "forward":
        model.eval()
        return partial(compiled(model.forward), x)

    def loss(x: Tensor) -> Tensor:
        return layers.loss(a, network, model(x), labels)

    if workload.task == "forward and loss":
        return partial(compiled(loss), x)
    weights = [v.value for v in model.variables() if v.trained]
    update = adam(weights) if network.optimizer == "Adam" else descend

    @compiled
    def train(x: Tensor) -> Tensor:
        with tf.GradientTape() as tape:
            value = loss(x)
        update(weights, [tf.convert_to_tensor(g) for g in tape.gradient(value, weights)])
        return value

    return partial(train, x)


def descend(weights: list[Any], gradients: list[Tensor]) -> None:
    for w, g in zip(weights, gradients, strict=True):
        w.assign_sub(1e-4 * g)


def adam(weights: list[Any]) -> Callable[[list[Any], list[Tensor]], None]:
    first, second = [[tf.Variable(tf.zeros_like(w)) for w in weights] for _ in range(2)]
    count = tf.Variable(0.0)

    def update(weights: list[Any], gradients: list[Tensor]) -> None:
        count.assign_add(1.0)
        rate, scale = 1e-3 / (1 - 0.9**count), tf.sqrt(1 - 0.999**count)
        for w, g, m, v in zip(weights, gradients, first, second, strict=True):
            m.assign(0.9 * m + 0.1 * g)
            v.assign(0.999 * v + 0.001 * g * g)
            w.assign_sub(rate * m / (tf.sqrt(v) / scale + 1e-8))

    return update


def small_add() -> Step:
    ones = tf.ones((4, 4))
    return partial(compiled(lambda a, b: a + b), ones, ones)


def twenty_ops() -> Step:
    x, w = tf.random.normal((4, 4)), tf.Variable(tf.random.normal((4, 4)))

    @compiled
    def step() -> Tensor:
        with tf.GradientTape() as tape:
            h = x
            for _ in range(5):
                h = tf.tanh(h * w + x) - w
            total = tf.reduce_sum(h)
        return tape.gradient(total, w)

    return step


def large_map() -> Step:
    x, y = tf.random.normal((1_000_000,)), tf.random.normal((1_000_000,))
    return partial(compiled(lambda x, y: tf.sin(x) + tf.cos(y)), x, y)


def of_matrix(function: Callable[[Tensor], Tensor]) -> Step:
    """A function of a matrix 1000×1000."""
    return partial(compiled(function), tf.random.normal((1000, 1000)))


def layer_norm(x: Tensor) -> Tensor:
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5)


def two_layer_net() -> Step:
    x, y = tf.random.normal((64, 1000)), tf.random.normal((64, 10))
    weights = [tf.Variable(tf.random.normal(shape)) for shape in ((1000, 100), (100, 10))]

    @compiled
    def step() -> Tensor:
        w1, w2 = weights
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.nn.relu(x @ w1) @ w2 - y))
        for w, g in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(1e-6 * g)
        return loss

    return step


def adam_step() -> Step:
    shapes = [(288, 288), (288,)] * 12 + [(10,)]
    weights = [tf.Variable(tf.random.normal(shape)) for shape in shapes]
    gradients = [tf.random.normal(shape) for shape in shapes]
    update = adam(weights)
    return compiled(lambda: update(weights, gradients))


PROGRAMS: dict[str, Callable[[], Step]] = {
    "a + b on 4×4": small_add,
    "20 small ops, forward + backward": twenty_ops,
    "sin(x) + cos(y), 1M": large_map,
    "softmax 1000×1000": partial(of_matrix, tf.nn.softmax),
    "layer norm 1000×1000": partial(of_matrix, layer_norm),
    "exact gelu 1M": partial(of_matrix, tf.nn.gelu),
    "randn 1M": lambda: compiled(lambda: tf.random.normal((1_000_000,))),
    "two-layer net, training": two_layer_net,
    "Adam step, 25 tensors, 1M parameters": adam_step,
}
"""By the names of `workloads`."""
