"""JAX: networks of `layers` and programs as a user of JAX writes them, each under ``jax.jit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax, random

from benchmarks.peers import layers
from benchmarks.workloads import Step, Workload


def open_peer(module: str, mode: str, threads: int) -> tuple[str, Callable[..., Step | None]]:
    """The version, and what makes the step of a workload, if this one runs it."""
    return jax.__version__, make


def make(name: str, workload: Workload, tiny: bool) -> Step | None:
    if workload.network:
        return network_step(workload, tiny)
    return PROGRAMS[name]() if name in PROGRAMS else None


class Arrays:
    """The array functions that `layers` needs."""

    variable = staticmethod(jnp.asarray)
    matmul = staticmethod(jnp.matmul)
    transpose = staticmethod(jnp.swapaxes)
    reshape = staticmethod(jnp.reshape)
    arange = staticmethod(jnp.arange)
    zeros = staticmethod(jnp.zeros)
    relu = staticmethod(jax.nn.relu)
    leaky_relu = staticmethod(jax.nn.leaky_relu)
    sigmoid = staticmethod(jax.nn.sigmoid)
    tanh = staticmethod(jnp.tanh)
    softmax = staticmethod(jax.nn.softmax)
    rsqrt = staticmethod(lax.rsqrt)

    def assign(self, variable: layers.Variable, value: Array) -> None:
        variable.value = value

    def gelu(self, x: Array) -> Array:
        return jax.nn.gelu(x, approximate=False)

    def mean(self, x: Array, axis: int, keepdim: bool = False) -> Array:
        return x.mean(axis, keepdims=keepdim)

    def take(self, table: Array, indices: Array) -> Array:
        return table[indices]

    def chunk(self, x: Array, count: int, axis: int) -> list[Array]:
        return jnp.split(x, count, axis)

    def concatenate(self, parts: list[Array]) -> Array:
        return jnp.concatenate(parts, -1)

    def masked(self, scores: Array, seen: Any) -> Array:
        return jnp.where(seen, scores, -jnp.inf)

    def pad(self, x: Array, before: int, after: int) -> Array:
        return jnp.pad(x, ((0, 0), (before, after), (before, after), (0, 0)))

    def repeat(self, x: Array, times: int) -> Array:
        return x.repeat(times, 1).repeat(times, 2)

    def convolution(self, x: Array, w: Array, stride: int, padding: tuple[int, int]) -> Array:
        sides = [(p, p) for p in padding]
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (stride, stride), sides, dimension_numbers=layout)

    def max_pool(self, x: Array, kernel: int, stride: int, sides: tuple[int, int]) -> Array:
        return self.pool(x, -jnp.inf, lax.max, kernel, stride, sides)

    def average_pool(self, x: Array, kernel: int, stride: int) -> Array:
        return self.pool(x, 0.0, lax.add, kernel, stride, (0, 0)) / kernel**2

    def pool(
        self, x: Array, start: float, fold: Any, kernel: int, stride: int, sides: tuple[int, int]
    ) -> Array:
        window, strides = (1, kernel, kernel, 1), (1, stride, stride, 1)
        return lax.reduce_window(x, start, fold, window, strides, ((0, 0), sides, sides, (0, 0)))

    def batch_norm(
        self, x: Array, scale: Array, shift: Array, mean: Array, variance: Array, training: bool
    ) -> tuple[Array, Array, Array]:
        if training:
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        factor = scale * lax.rsqrt(variance + 1e-5)
        return x * factor + (shift - mean * factor), mean, variance

    def random_key(self) -> Array:
        return random.key_data(random.key(0))

    def dropout(self, x: Array, probability: float, state: layers.Variable) -> Array:
        key, part = random.split(random.wrap_key_data(state.value))
        state.value = random.key_data(key)
        return jnp.where(random.bernoulli(part, 1 - probability, x.shape), x, 0) / (1 - probability)

    def scan(self, step: Callable[..., Any], zeros: Array, sequence: Array) -> Array:
        def carried(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
            h, c = step(*state, x)
            return (h, c), h

        return lax.scan(carried, (zeros, zeros), sequence)[1]

    def square_mean(self, x: Array) -> Array:
        return jnp.square(x).mean()

    def cross_entropy(self, logits: Array, labels: Array) -> Array:
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)
        return -chosen.mean()


def network_step(workload: Workload, tiny: bool) -> Step:
    network, a = workload.network, Arrays()
    model = network.build(layers.library(a))
    x, labels = [jnp.asarray(part) for part in layers.batch(network, workload.batch, tiny)]
    variables = model.variables()
    trained = [v for v in variables if v.trained]
    others = [v for v in variables if not v.trained]

    def output(weights: list[Array], seen: list[Array], x: Array) -> Array:
        for variable, value in zip(trained + others, weights + seen, strict=True):
            variable.value = value
        return model(x)

    def loss(
        weights: list[Array], seen: list[Array], x: Array, labels: Array
    ) -> tuple[Array, list[Array]]:
        value = layers.loss(a, network, output(weights, seen, x), labels)
        return value, [v.value for v in others]

    values = [v.value for v in trained], [v.value for v in others]
    if workload.task == "forward":
        model.eval()
        return finished(output, *values, x)
    if workload.task == "forward and loss":
        return finished(loss, *values, x, labels)

    def train(state: Any, x: Array, labels: Array) -> tuple[Any, Array]:
        weights, seen, memory = state
        differentiated = jax.value_and_grad(loss, has_aux=True)
        (value, seen), gradients = differentiated(weights, seen, x, labels)
        update = adam if network.optimizer == "Adam" else descend
        weights, memory = update(weights, gradients, memory)
        return (weights, seen, memory), value

    zeros = [jnp.zeros_like(w) for w in values[0]]
    memory = (zeros, [z + 0 for z in zeros], jnp.zeros(())) if network.optimizer == "Adam" else ()
    return repeated(train, (*values, memory), x, labels)


def descend(weights: list[Array], gradients: list[Array], memory: Any) -> tuple[Any, Any]:
    return [w - 1e-4 * g for w, g in zip(weights, gradients, strict=True)], memory


def adam(weights: list[Array], gradients: list[Array], memory: Any) -> tuple[Any, Any]:
    first, second, count = memory
    count = count + 1
    rate, scale = 1e-3 / (1 - 0.9**count), jnp.sqrt(1 - 0.999**count)
    first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
    second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients, strict=True)]
    parts = zip(weights, first, second, strict=True)
    made = [w - rate * m / (jnp.sqrt(v) / scale + 1e-8) for w, m, v in parts]
    return made, (first, second, count)


def finished(function: Callable[..., Any], *args: Any) -> Step:
    """A call that returns when its results are there."""
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*args))


def repeated(function: Callable[..., tuple[Any, Any]], state: Any, *args: Any) -> Step:
    """A step that takes the state which the one before has left, and its memory."""
    compiled = jax.jit(function, donate_argnums=0)
    held = [state]

    def step() -> None:
        held[0], value = compiled(held[0], *args)
        jax.block_until_ready((held[0], value))

    return step


def normal(seed: int, *shape: int) -> Array:
    return random.normal(random.key(seed), shape)


def small_add() -> Step:
    return finished(lambda a, b: a + b, jnp.ones((4, 4)), jnp.ones((4, 4)))


def twenty_ops() -> Step:
    x = normal(0, 4, 4)

    def total(w: Array) -> Array:
        h = x
        for _ in range(5):
            h = jnp.tanh(h * w + x) - w
        return h.sum()

    return finished(jax.grad(total), normal(1, 4, 4))


def large_map() -> Step:
    x, y = normal(0, 1_000_000), normal(1, 1_000_000)
    return finished(lambda x, y: jnp.sin(x) + jnp.cos(y), x, y)


def softmax() -> Step:
    return finished(jax.nn.softmax, normal(0, 1000, 1000))


def layer_norm() -> Step:
    return finished(lambda x: jax.nn.standardize(x, epsilon=1e-5), normal(0, 1000, 1000))


def gelu() -> Step:
    return finished(lambda x: jax.nn.gelu(x, approximate=False), normal(0, 1000, 1000))


def draw() -> Step:
    def step(key: Array) -> tuple[Array, Array]:
        key, part = random.split(key)
        return key, random.normal(part, (1_000_000,))

    return repeated(step, random.key(0))


def two_layer_net() -> Step:
    x, y = normal(0, 64, 1000), normal(1, 64, 10)

    def loss(weights: tuple[Array, Array]) -> Array:
        w1, w2 = weights
        return jnp.square(jax.nn.relu(x @ w1) @ w2 - y).sum()

    def step(weights: tuple[Array, Array]) -> tuple[Any, Array]:
        value, gradients = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - 1e-6 * g, weights, gradients), value

    return repeated(step, (normal(2, 1000, 100), normal(3, 100, 10)))


def adam_step() -> Step:
    shapes = [(288, 288), (288,)] * 12 + [(10,)]
    gradients = [normal(i, *shape) for i, shape in enumerate(shapes)]

    def step(state: Any) -> tuple[Any, None]:
        weights, memory = state
        return adam(weights, gradients, memory), None

    zeros = [jnp.zeros(shape) for shape in shapes]
    memory = zeros, [z + 0 for z in zeros], jnp.zeros(())
    return repeated(step, ([g + 1 for g in gradients], memory))


def recurrence() -> Step:
    x = normal(0, 200, 32, 128)

    def loss(weights: tuple[Array, Array]) -> Array:
        w, u = weights
        h, _ = lax.scan(lambda h, row: (jnp.tanh(row @ w + h @ u), None), jnp.zeros((32, 128)), x)
        return jnp.square(h).mean()

    return finished(jax.grad(loss), tuple([normal(i, 128, 128) / 128**0.5 for i in (1, 2)]))


PROGRAMS: dict[str, Callable[[], Step]] = {
    "a + b on 4×4": small_add,
    "20 small ops, forward + backward": twenty_ops,
    "sin(x) + cos(y), 1M": large_map,
    "softmax 1000×1000": softmax,
    "layer norm 1000×1000": layer_norm,
    "exact gelu 1M": gelu,
    "randn 1M": draw,
    "two-layer net, training": two_layer_net,
    "Adam step, 25 tensors, 1M parameters": adam_step,
    "200 steps of a while loop, forward + backward": recurrence,
}
"""By the names of `workloads`."""
