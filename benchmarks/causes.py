"""Why a goal is missed, where it is, and what would be tried next: a section of the results."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.race import Times
from benchmarks.report import DYNAMIC, judged, least_ratio, ratios, table
from benchmarks.workloads import WORKLOADS


class Cause(NamedTuple):
    """What bounds a workload, and the next idea."""

    limit: str
    idea: str


PYTHON = Cause(
    "latency of Python: an op is about a microsecond of interpreter and of NumPy's own call, which "
    "newer processors shorten less than PyTorch's C++",
    "fewer Python frames an op: one closure that both computes and records",
)
MAP = Cause(
    "bandwidth: the arrays lie in the third cache or beyond it, and torch.compile reads them once",
    "none in the kernel; results in memory that is still in a cache",
)
FUNCTIONS = Cause(
    "FLOP: the polynomials of sine, cosine or erf, as the column beside shows; where that is far "
    "below the ratio, bandwidth of the third cache, which torch.compile has, too",
    "shorter polynomials on a smaller range, with the same stated error",
)
SMALL_STEPS = Cause(
    "latency: a few dozen small kernels and products beside some 20 µs of Python for guards and "
    "arguments; two threads gain little at such sizes",
    "kernels that need no other order share one fork and join",
)
PRODUCTS = Cause(
    "FLOP: products run at 85–95 % of the speed of a large one, and peers' do nearly so",
    "packs shared by the products of a step; bias, activation and residual in a tile's last store",
)
RECURRENT = Cause(
    "FLOP and latency: each step is a product of few rows by a matrix that fills the second cache, "
    "and waits for the step before; the goal is at or below the time of its multiplications",
    "steps of two layers side by side; gates computed while the next panel is multiplied",
)
FEW_CHANNELS = Cause(
    "FLOP: convolutions of six channels use 6 of 16 lanes, and pooling and its gradient are passes "
    "of their own",
    "two elements of the sum in one register where columns are few",
)
DEEP = Cause(
    "FLOP and bandwidth: 1 × 1 convolutions near the machine's peak; bias, ReLU, borders and joins "
    "are passes over memory of their own",
    "these in the tile's last store; results written straight into padded or joined memory",
)
WEIGHTS = Cause(
    "bandwidth: weights of hundreds of MB are read once for few rows, which peers do, too",
    "weights kept as bfloat16, where the user allows it",
)

CAUSES = {
    "20 small ops": PYTHON,
    "tree-LSTM": PYTHON,
    "a + b": PYTHON,
    "samples of a Python dataset": PYTHON,
    "sin(x)": FUNCTIONS,
    "gelu": FUNCTIONS,
    "softmax": MAP,
    "layer norm": MAP,
    "Adam": MAP,
    "randn": MAP,
    "two-layer": SMALL_STEPS,
    "ParallelBlocks": SMALL_STEPS,
    "Dense": SMALL_STEPS,
    "while loop": SMALL_STEPS,
    "LSTM": RECURRENT,
    "LeNet": FEW_CHANNELS,
    "GPT-2": WEIGHTS,
    "AlexNet batch 1": WEIGHTS,
    "VGG": WEIGHTS,
    "transformer": PRODUCTS,
    "GPT": PRODUCTS,
    "ViT": PRODUCTS,
}
"""By a part of the name of workloads; the first that fits. All others are networks of images."""


def cause(name: str) -> Cause:
    return next((found for part, found in CAUSES.items() if part in name), DEEP)


def missed(results: dict[str, Times]) -> list[str]:
    """A table of the goals that were missed, with causes; nothing if there are none."""
    rows = []
    for name, times in results.items():
        workload = WORKLOADS[name]
        for mode, value, goal in zip(
            (DYNAMIC, "compiled"), ratios(times), (workload.eager, workload.compiled), strict=True
        ):
            if value is not None and goal is not None and value > goal:
                share = least_ratio(times) if mode != DYNAMIC else None
                found = cause(name) if mode != DYNAMIC or "LeNet" in name else PYTHON
                alone = "–" if share is None else f"{share:.2f}"
                rows.append([f"{name}, {mode}", judged(value, goal), alone, *found])
    heads = ["workload", "ratio", "multiplications alone", "what bounds it", "next idea"]
    return ["## What misses its goal, and why", "", *table(heads, rows), ""] if rows else []
