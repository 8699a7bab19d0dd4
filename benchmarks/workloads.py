"""The workloads and their goals, in the order of the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from benchmarks import programs
from benchmarks.networks import NETWORKS, Network

Step = Callable[[], Any]


class Workload(NamedTuple):
    """A program of `programs`, or a network run in one way; and the goals.

    The goals are our time over PyTorch's in dynamic mode, and our compiled time over the best of
    all peers.
    """

    program: Callable[..., Step] | None = None
    network: Network | None = None
    batch: int = 1
    task: Literal["forward", "forward and loss", "training"] = "forward"
    eager: float | None = None
    compiled: float | None = None
    compiles: bool = True  # whether it is also run compiled


def run(network: str, batch: int, **options: Any) -> Workload:
    return Workload(network=NETWORKS[network], batch=batch, **options)


def trained(network: str, batch: int, goal: float, **options: Any) -> Workload:
    return run(network, batch, task="training", compiled=goal, **options)


CLASSIFIERS = ("AlexNet", "VGG-16", "ResNet-18", "ResNet-50", "SqueezeNet", "Inception-v3")
DETECTORS = ("YOLOv2-tiny",)
TINY_TRANSFORMERS = ("ViT-Ti",)

WORKLOADS = {
    "a + b on 4×4": Workload(programs.small_add, eager=0.75),
    "20 small ops, forward + backward": Workload(programs.twenty_ops, eager=0.5),
    "sin(x) + cos(y), 1M": Workload(programs.large_map, compiled=0.5),
    "softmax 1000×1000": Workload(programs.softmax, eager=0.8, compiled=0.8),
    "layer norm 1000×1000": Workload(programs.layer_norm, eager=0.8, compiled=0.8),
    "exact gelu 1M": Workload(programs.gelu, eager=0.8, compiled=0.8),
    "randn 1M": Workload(programs.draw, eager=0.5),
    "two-layer net, training": Workload(programs.two_layer_net, eager=0.7, compiled=0.5),
    "Adam step, 25 tensors, 1M parameters": Workload(programs.adam_step, eager=0.5, compiled=0.5),
    "ParallelBlocks batch 64, training": trained("ParallelBlocks", 64, 0.5),
    "Dense 1000→100→1000 batch 64, forward + MSE": run(
        "Dense 1000→100→1000", 64, task="forward and loss", compiled=0.6
    ),
    "transformer block batch 8, training": trained("transformer", 8, 0.65),
    "GPT, 4 layers, batch 8, training": trained("GPT, 4 layers", 8, 0.65),
    "GPT-2 small, 128 tokens, forward": run("GPT-2 small", 1, compiled=0.9),
    "LSTM 32×64, 64→256, training": trained("LSTM", 32, 0.6),
    "char-LSTM batch 32, training": trained("char-LSTM", 32, 0.6),
    "200 steps of a while loop, forward + backward": Workload(programs.recurrence, compiled=0.8),
    "LSTM, 64 lengths, training": Workload(programs.lengths, compiled=0.8),
    "tree-LSTM, 8 trees, training": Workload(programs.tree_lstm, eager=0.5, compiles=False),
    "LeNet batch 64, training": trained("LeNet", 64, 0.5),
    "DataLoader → LeNet, 50 batches of 64": Workload(programs.fed_lenet, eager=0.9, compiled=0.5),
    **{
        f"{name} batch {batch}, inference": run(name, batch, compiled=0.9)
        for name in (*CLASSIFIERS, *DETECTORS, *TINY_TRANSFORMERS)
        for batch in (1, 8)
    },
    **{
        f"{name} batch 8, training": trained(name, 8, 0.75)
        for name in (*CLASSIFIERS, *DETECTORS, *TINY_TRANSFORMERS)
    },
    **{
        f"60,000 {kind}{suffix}": Workload(
            partial(epoch, workers=workers), eager=1.0, compiles=False
        )
        for kind, epoch in (
            ("images of a TensorDataset", programs.epoch_of_tensors),
            ("samples of a Python dataset", programs.epoch_of_samples),
        )
        for workers, suffix in ((0, ""), (2, ", 2 workers"))
    },
}
"""By name."""


class Start(NamedTuple):
    """A workload in a fresh process, and the goals of its first call: seconds beyond another."""

    workload: Workload
    cold: float | None = None  # with nothing on disk
    warm: float | None = None  # with everything
    memory: float | None = None  # our bytes over PyTorch's


STARTS = {
    "two-layer net, training": Start(WORKLOADS["two-layer net, training"], cold=0.3),
    "LeNet batch 64, training": Start(WORKLOADS["LeNet batch 64, training"]),
    "transformer, 4 layers, training": Start(
        trained("transformer, 4 layers", 8, 0.65), cold=3.0, warm=0.2
    ),
    "ResNet-18 batch 8, training": Start(
        WORKLOADS["ResNet-18 batch 8, training"], cold=5.0, warm=0.5, memory=1.0
    ),
}
"""By name."""
