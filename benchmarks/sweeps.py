"""Workloads that grow in one direction, for the page on scaling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks.models import sequences
from benchmarks.networks import NETWORKS, Network
from benchmarks.workloads import Workload


class Sweep(NamedTuple):
    """Workloads by the size that grows; ``expected`` is the slope of the work on log-log axes."""

    title: str
    axis: str
    sizes: tuple[int, ...]
    workload: Callable[[int], Workload]
    expected: str

    def name(self, size: int) -> str:
        return f"{self.title}, {self.axis} {size}"


def lenet(batch: int) -> Workload:
    return Workload(network=NETWORKS["LeNet"], batch=batch, task="training")


def wide(width: int) -> Workload:
    build = partial(sequences.perceptron, widths=(width, width, width, width))
    network = Network(build, (width,), (width,), loss="squares")
    return Workload(network=network, batch=64, task="training")


def transformer(layers: int, length: int, batch: int) -> Workload:
    build = partial(sequences.blocks, layers=layers, width=128, heads=4)
    shape = (length, 128)
    network = Network(build, shape, (8, 128), loss="squares", optimizer="Adam")
    return Workload(network=network, batch=batch, task="training")


SWEEPS = (
    Sweep("LeNet, training", "batch", (4, 16, 64, 256, 1024), lenet, "1"),
    Sweep("3 linear layers, training", "width", (64, 128, 256, 512, 1024, 2048), wide, "2"),
    Sweep(
        *("transformer blocks, training", "depth", (1, 2, 4, 8, 16)),
        *(lambda depth: transformer(depth, 64, 4), "1"),
    ),
    Sweep(
        *("transformer block, training", "length", (64, 128, 256, 512, 1024)),
        *(lambda length: transformer(1, length, 1), "1 to 2"),
    ),
)

POINTS = {sweep.name(size): sweep.workload(size) for sweep in SWEEPS for size in sweep.sizes}
"""The workloads of all sweeps, by name."""
