"""ONNX Runtime and OpenVINO: inference of networks that PyTorch has exported, once."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.contenders import BUILD, ROOT
from benchmarks.networks import Network
from benchmarks.peers.layers import batch
from benchmarks.workloads import Step, Workload

if sys.platform != "win32":
    import fcntl

FOLDER = BUILD / "onnx"


def open_peer(module: str, mode: str, threads: int) -> tuple[str, Callable[..., Step | None]]:
    """The version, and what makes the step of a workload, if this one runs it."""
    lib = importlib.import_module(module)
    load = onnx_runtime if module == "onnxruntime" else openvino

    def make(name: str, workload: Workload, tiny: bool) -> Step | None:
        if not workload.network or workload.task != "forward":
            return None
        x = sample(workload.network, workload.batch, tiny)
        return load(lib, exported(name, tiny), x, threads)

    return lib.__version__.partition("-")[0], make


def sample(network: Network, size: int, tiny: bool) -> Any:
    """Inputs as PyTorch has them: channels first, indices of 64 bits."""
    x, _ = batch(network, size, tiny)
    if network.is_image:
        return x.transpose(0, 3, 1, 2).copy()
    return x.astype("int64") if network.tokens else x


def onnx_runtime(lib: Any, path: Path, x: Any, threads: int) -> Step:
    options = lib.SessionOptions()
    options.intra_op_num_threads = threads
    session = lib.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feed)


def openvino(lib: Any, path: Path, x: Any, threads: int) -> Step:
    # Its default on some processors is bfloat16; all others compute in float32.
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = lib.compile_model(path, "CPU", options).create_infer_request()
    return lambda: request.infer([x], share_inputs=True, share_outputs=True)


def exported(name: str, tiny: bool) -> Path:
    """The file of a workload's network; PyTorch writes it in a process of its own."""
    path = FOLDER / (re.sub(r"\W+", "-", name) + ("-tiny" if tiny else "") + ".onnx")
    with alone():
        if not path.exists():
            command = [sys.executable, "-m", "benchmarks.export", name, str(tiny), str(path)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"export: {done.stderr.strip().splitlines()[-1]}")
    return path


@contextmanager
def alone() -> Iterator[None]:
    """Waits until no other process writes networks: two contenders want the same ones at once."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
