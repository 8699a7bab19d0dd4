"""The random streams that loading draws from: of the process, and of a worker thread alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from rushlight.random import Generator, draw_from, get_rng_state, manual_seed, set_rng_state
from rushlight.tensor import Tensor, wrap

State = dict[str, Any]
"""Positions in streams, made of numbers, strings, tensors and containers of these."""


class ProcessStreams:
    """The default generator, and those of the modules ``random`` and ``numpy.random``."""

    def seed(self, base_seed: int, worker: int) -> None:
        """Starts them as PyTorch does in the ``worker``-th worker process."""
        random.seed(base_seed + worker)
        manual_seed(base_seed + worker)
        words = np.random.SeedSequence([worker, base_seed % 2**32, base_seed >> 32, 0])
        np.random.seed(words.generate_state(4))

    def state(self) -> State:
        return {
            "torch_generator": get_rng_state(),
            "random_generator": random.getstate(),
            "numpy_generator": with_tensors(np.random.get_state(legacy=False)),
        }

    def restore(self, state: State) -> None:
        set_rng_state(state["torch_generator"])
        random.setstate(with_tuples(state["random_generator"]))
        np.random.set_state(with_arrays(state["numpy_generator"]))


class ThreadStreams:
    """The generators of one worker thread.

    The first is the thread's default one. The modules ``random`` and ``numpy.random`` have one
    stream for all threads: a dataset that draws from ``get_worker_info().rng`` instead has the same
    samples in every run.
    """

    def __init__(self, seed: int) -> None:
        """Made in the thread it is for."""
        self.first = seed
        self.torch_generator = Generator()
        self.torch_generator.manual_seed(seed)
        draw_from(self.torch_generator)

    @cached_property
    def random_generator(self) -> random.Random:
        return random.Random(self.first)

    @cached_property
    def numpy_generator(self) -> np.random.Generator:
        return np.random.Generator(np.random.MT19937(self.first))

    def state(self) -> State:
        """The positions of those that were drawn from."""
        made, state = vars(self), State()
        if not self.torch_generator.is_fresh:
            state["torch_generator"] = self.torch_generator.get_state()
        if "random_generator" in made:
            state["random_generator"] = self.random_generator.getstate()
        if "numpy_generator" in made:
            state["numpy_generator"] = with_tensors(self.numpy_generator.bit_generator.state)
        return state

    def restore(self, state: State) -> None:
        if "torch_generator" in state:
            self.torch_generator.set_state(state["torch_generator"])
        if "random_generator" in state:
            self.random_generator.setstate(with_tuples(state["random_generator"]))
        if "numpy_generator" in state:
            self.numpy_generator.bit_generator.state = with_arrays(state["numpy_generator"])


process_streams = ProcessStreams()


@contextmanager
def process_streams_at(state: State) -> Iterator[None]:
    """Inside, the process's streams go on from ``state``; afterwards, from where they were."""
    now = process_streams.state()
    process_streams.restore(state)
    try:
        yield
    finally:
        process_streams.restore(now)


def with_tensors(state: Any) -> Any:
    """A state of NumPy's in which tensors stand for arrays."""
    if isinstance(state, dict):
        return {key: with_tensors(value) for key, value in state.items()}
    return wrap(state) if isinstance(state, np.ndarray) else state


def with_arrays(state: Any) -> Any:
    """What :func:`with_tensors` was given."""
    if isinstance(state, dict):
        return {key: with_arrays(value) for key, value in state.items()}
    return state._array if isinstance(state, Tensor) else state


def with_tuples(state: Any) -> Any:
    """A state of Python's generator whose tuples a file may have made lists."""
    return tuple(map(with_tuples, state)) if isinstance(state, (list, tuple)) else state
