"""The workloads of ``workloads.py`` as a user of JAX writes them, each under ``jax.jit``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, random

Step = Callable[[], Any]


def normal(seed: int, *shape: int) -> Array:
    return random.normal(random.key(seed), shape)


def finished(function: Callable[..., Any], *args: Any) -> Step:
    """A call that returns when its results are there."""
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*args))


def small_add() -> Step:
    return finished(lambda a, b: a + b, jnp.ones((4, 4)), jnp.ones((4, 4)))


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
    zeros = [jnp.zeros(shape) for shape in shapes]

    def update(p: Array, g: Array, m: Array, v: Array, count: Array) -> tuple[Array, Array, Array]:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        rate, scale = 1e-3 / (1 - 0.9**count), jnp.sqrt(1 - 0.999**count)
        return p - rate * m / (jnp.sqrt(v) / scale + 1e-8), m, v

    def step(state: Any) -> tuple[Any, None]:
        params, first, second, count = state
        count = count + 1
        parts = zip(params, gradients, first, second, strict=True)
        made = [update(p, g, m, v, count) for p, g, m, v in parts]
        return (*map(list, zip(*made, strict=True)), count), None

    return repeated(step, ([g + 1 for g in gradients], zeros, [z + 0 for z in zeros], 0.0))


def repeated(function: Callable[[Any], tuple[Any, Any]], state: Any) -> Step:
    """A step that takes the state which the one before has left, and its memory."""
    compiled = jax.jit(function, donate_argnums=0)
    held = [state]

    def step() -> None:
        held[0], value = compiled(held[0])
        jax.block_until_ready((held[0], value))

    return step


WORKLOADS: dict[str, Callable[[], Step]] = {
    "a + b on 4×4": small_add,
    "sin(x) + cos(y), 1M": large_map,
    "softmax 1000×1000": softmax,
    "layer norm 1000×1000": layer_norm,
    "exact gelu 1M": gelu,
    "randn 1M": draw,
    "two-layer net, training step": two_layer_net,
    "Adam step, 25 tensors, 1M parameters": adam_step,
}
