"""Who takes part, and in which interpreter."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "benchmarks"
PEERS_VARIABLE = "RUSHLIGHT_BENCH_PYTHON"  # the interpreter that has the peers


class Contender(NamedTuple):
    """A framework in one of its modes."""

    module: str  # what has to be installed
    maker: str  # the module of `peers` that makes its steps
    mode: str = ""
    ours: bool = False
    scope: str = "all workloads"  # that it takes part in


FIXED = "all but the trees, which differ from call to call, and the epochs, which compute nothing"
WRITTEN = "the networks, and the programs that are written for it too"
FORWARD = "the forward of networks"
CONTENDERS = {
    "Rushlight": Contender("rushlight", "pytorch", "dynamic", ours=True),
    "Rushlight compiled": Contender("rushlight", "pytorch", "compiled", ours=True, scope=FIXED),
    "PyTorch": Contender("torch", "pytorch", "dynamic"),
    "PyTorch channels-last": Contender(
        "torch", "pytorch", "channels-last", scope="the networks of images"
    ),
    "torch.compile": Contender("torch", "pytorch", "compiled", scope=FIXED),
    "JAX": Contender("jax", "jax", scope=WRITTEN),
    "TensorFlow": Contender("tensorflow", "tensorflow", scope=WRITTEN),
    "ONNX Runtime": Contender("onnxruntime", "onnx", scope=FORWARD),
    "OpenVINO": Contender("openvino", "onnx", scope=FORWARD),
}
"""By the names of the columns."""


def interpreter(name: str) -> str:
    """The Python that runs a contender."""
    ours = CONTENDERS[name].ours
    return sys.executable if ours else os.environ.get(PEERS_VARIABLE) or sys.executable


@cache
def installed(python: str, module: str) -> bool:
    script = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", script], cwd=ROOT).returncode == 0


def present() -> list[str]:
    """The contenders whose frameworks are installed."""
    return [n for n, c in CONTENDERS.items() if installed(interpreter(n), c.module)]


def environment(threads: int) -> dict[str, str]:
    """The variables of a process that may use so many threads.

    What PyTorch compiles is kept apart: one of its processes that was stopped leaves half a file.
    """
    counts = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    kept = {"TORCHINDUCTOR_CACHE_DIR": str(BUILD / "inductor")}
    return os.environ | dict.fromkeys(counts, str(threads)) | quiet | kept


def command(script: str, name: str, *args: object) -> list[str]:
    """What starts a script of this folder for a contender."""
    return [interpreter(name), "-m", f"benchmarks.{script}", name, *[str(arg) for arg in args]]


def open_contender(name: str, threads: int) -> tuple[str, Callable[..., Any]]:
    """The version of a contender and what makes its steps; keeps the process on so many cores."""
    if sys.platform == "linux":  # before the import: frameworks count the cores then
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    contender = CONTENDERS[name]
    maker = importlib.import_module(f"benchmarks.peers.{contender.maker}")
    return maker.open_peer(contender.module, contender.mode, threads)
