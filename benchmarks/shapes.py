"""Products and convolutions of many random shapes, beside NumPy's BLAS and PyTorch.

python -m benchmarks.shapes                # writes SHAPES.md into benchmarks/
python -m benchmarks.shapes --count 20     # fewer shapes; only prints
python -m benchmarks.shapes --count 20 --cpu   # one thread, and its own time: others are at work

Both sides run in one process, in turn, best of several; a ratio above 1 says how many times as fast
Rushlight is. Shapes are drawn from a fixed seed: those of products evenly from 1 to 2048, and
another time by their logarithm, so that small ones are many.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from benchmarks.report import page

HERE = Path(__file__).parent
SECONDS = 0.02  # that one measurement of a side takes at least
ROUNDS = 5
REST = 0.15  # seconds after which the threads of BLAS no longer spin


class Case(NamedTuple):
    """One shape: what it is called, and both sides as functions of nothing."""

    name: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def seconds(call: Callable[[], Any], times: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(times):
        call()
    return (clock() - begin) / times


def ratio(case: Case, clock: Callable[[], float]) -> float:
    """How many times as fast we are."""
    sides = (case.ours, case.theirs)
    for call in sides:
        call()
    counts = [max(1, int(SECONDS / max(seconds(call, 1, clock), 1e-7))) for call in sides]
    best = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for n, call in enumerate(sides):
            time.sleep(REST)
            call()
            best[n] = min(best[n], seconds(call, counts[n], clock))
    return best[1] / best[0]


def evenly(draw: random.Random) -> int:
    return draw.randint(1, 2048)


def by_logarithm(draw: random.Random) -> int:
    return int(2 ** draw.uniform(0, 11))


def product_cases(count: int, size: Callable[[random.Random], int]) -> Iterator[Case]:
    """Products of two matrices, each perhaps transposed, or cut out of a larger one."""
    draw, numbers = random.Random(0), np.random.default_rng(0)
    for _ in range(count):
        m, n, k = [size(draw) for _ in range(3)]
        turned = [draw.random() < 0.5 for _ in range(2)]
        gaps = [draw.choice((0, 0, 0, 3)) for _ in range(2)]  # elements between rows
        shapes = [(k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n)]
        arrays = [
            numbers.standard_normal((rows, columns + gap), np.float32)[:, :columns]
            for (rows, columns), gap in zip(shapes, gaps, strict=True)
        ]
        x, y = [array.T if flip else array for array, flip in zip(arrays, turned, strict=True)]
        a, b = rl.from_numpy(x), rl.from_numpy(y)
        marks = ["ᵀ" * flip + "'" * (gap > 0) for flip, gap in zip(turned, gaps, strict=True)]
        name = f"{m}×{k}{marks[0]} · {k}×{n}{marks[1]}"
        yield Case(name, lambda a=a, b=b: a @ b, lambda x=x, y=y: x.dot(y))


KERNELS = {1: (3, 3, 5, 7), 2: (1, 3, 3, 3, 5), 3: (1, 3)}
SIZES = {1: (100, 400), 2: (7, 13, 14, 28, 56), 3: (8, 14)}
MOST = 2e9  # multiply-adds


def convolution_cases(count: int) -> Iterator[Case]:
    """Convolutions of one to three dimensions, channels last on both sides where there is such."""
    import torch

    torch.set_num_threads(rl.get_num_threads())
    draw = random.Random(1)
    layouts = {2: torch.channels_last, 3: torch.channels_last_3d}
    while count:
        rank = draw.choice((1, 2, 2, 2, 2, 2, 2, 3))
        images, size = draw.choice((1, 2, 8)), draw.choice(SIZES[rank])
        channels, outputs = [draw.choice((16, 32, 64, 96, 128, 256)) for _ in range(2)]
        kernel, stride = draw.choice(KERNELS[rank]), draw.choice((1, 1, 1, 2))
        dilation = draw.choice((1, 1, 1, 1, 2))
        groups = draw.choice((1, 1, 1, 1, 1, 4, channels))
        if groups == channels:  # one window for each channel
            outputs = channels
        work = images * size**rank * channels * outputs * kernel**rank // groups
        if work > MOST or (kernel == 1 and dilation > 1):
            continue
        count -= 1
        how = {
            "stride": stride,
            "padding": kernel // 2 * dilation,
            "dilation": dilation,
            "groups": groups,
        }
        x = torch.randn(images, channels, *[size] * rank)
        w = torch.randn(outputs, channels // groups, *[kernel] * rank)
        if rank in layouts:
            x, w = [t.to(memory_format=layouts[rank]) for t in (x, w)]
        name = f"{images}×{channels}×{size}{'⁰¹²³'[rank]} → {outputs}, kernel {kernel}"
        name += "".join([f", {k} {v}" for k, v in how.items() if k != "padding" and v != 1])
        yield Case(name, ours(x, w, rank, how), theirs(x, w, rank, how))


def ours(x: Any, w: Any, rank: int, how: dict[str, int]) -> Callable[[], Any]:
    """Our convolution of the same numbers, in the same order in memory."""
    functional = rl.nn.functional
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    a, b = rl.from_numpy(x.numpy()), rl.from_numpy(w.numpy())
    compiled = rl.compile(lambda a, b: convolve(a, b, **how), fullgraph=True)
    return lambda: compiled(a, b)


def theirs(x: Any, w: Any, rank: int, how: dict[str, int]) -> Callable[[], Any]:
    import torch

    functional = torch.nn.functional
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]

    def call() -> Any:
        with torch.no_grad():
            return convolve(x, w, **how)

    return call


def is_right(case: Case) -> bool:
    """Whether both results agree, as far as sums of float32 in any order and Winograd's do."""
    found, expected = np.asarray(case.ours()), np.asarray(case.theirs())
    if found.shape != expected.shape:
        return False
    return bool(np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max())


def report(
    title: str, peer: str, cases: Iterator[Case], least: str, clock: Callable[[], float]
) -> str:
    """The section of one kind: mean, the slowest and the fastest."""
    found: list[tuple[float, str]] = []
    wrong = []
    for case in cases:
        if not is_right(case):
            wrong.append(case.name)
        found.append((ratio(case, clock), case.name))
        print(f"{found[-1][0]:6.2f}  {case.name}", flush=True)
    found.sort()
    mean = statistics.geometric_mean([r for r, _ in found])
    lines = [
        f"## {title}",
        "",
        f"{len(found)} shapes, beside {peer}: geometric mean **{mean:.2f}**, worst "
        f"{found[0][0]:.2f}, median {statistics.median([r for r, _ in found]):.2f} (goal {least}). "
        + (f"**Wrong: {', '.join(wrong)}.**" if wrong else "All results agree with those beside."),
        "",
        "| slowest | times as fast | fastest | times as fast |",
        "|---|---|---|---|",
    ]
    for (slow, first), (quick, second) in zip(found[:8], found[:-9:-1], strict=False):
        lines.append(f"| {first} | {slow:.2f} | {second} | {quick:.2f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, help="shapes of each kind; 200 and 100 if missing")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cpu", action="store_true", help="one thread, by the time it has run")
    given = parser.parse_args()
    if given.cpu:
        given.threads = 1
    clock = time.thread_time if given.cpu else time.perf_counter
    rl.set_num_threads(given.threads)
    parts = [
        report(title, "NumPy's BLAS", product_cases(given.count or 200, size), goal, clock)
        for title, size, goal in (
            ("Products, sizes from 1 to 2048", evenly, "≥ 1.0, worst ≥ 0.8"),
            ("Products, mostly small", by_logarithm, "none"),
        )
    ]
    cases = convolution_cases(given.count or 100)
    parts.append(report("Convolutions", "PyTorch, channels last", cases, "≥ 1.15", clock))
    versions = {name: version(name) for name in ("rushlight", "numpy", "torch")}
    how = "Both sides in one process, in turn, best of several; ᵀ: transposed, ': cut out."
    text = page("Shapes", versions, given.threads, how, parts)
    print(text)
    if given.count is None:
        (HERE / "SHAPES.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
