"""Rushlight and PyTorch, which have one API: dynamic, compiled, and in channels-last memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.networks import Network
from benchmarks.workloads import Step, Workload


def open_peer(module: str, mode: str, threads: int) -> tuple[str, Callable[..., Step | None]]:
    """The version, and what makes the step of a workload, if this one runs it."""
    lib = importlib.import_module(module)
    lib.set_num_threads(threads)

    def make(name: str, workload: Workload, tiny: bool) -> Step | None:
        if mode == "compiled":
            if not workload.compiles:
                return None
            lib.compiler.reset()  # steps share code, of which PyTorch makes but eight programs
        lib.manual_seed(0)
        wrap = lib.compile if mode == "compiled" else unchanged
        if workload.program:
            return workload.program(lib, wrap) if mode != "channels-last" else None
        network = workload.network
        if mode != "channels-last":
            return network_step(lib, wrap, workload, network, tiny, unchanged)
        if not network.is_image:
            return None
        return network_step(lib, wrap, workload, network, tiny, channels_last(lib))

    return lib.__version__, make


def unchanged(thing: Any) -> Any:
    return thing


def channels_last(lib: Any) -> Callable[[Any], Any]:
    return lambda thing: thing.to(memory_format=lib.channels_last)


def network_step(
    lib: Any,
    wrap: Callable[..., Any],
    workload: Workload,
    network: Network,
    tiny: bool,
    placed: Callable[[Any], Any],
) -> Step:
    """A step of a network whose memory is ``placed`` in some way."""
    model = placed(network.build(lib))
    x = placed(inputs(lib, network, workload.batch, tiny))
    if workload.task == "forward":
        model.eval()
        forward = wrap(lambda x: model(x))
        return without_gradients(lib, lambda: forward(x))
    labels = lib.randint(0, network.classes, network.label_sizes(workload.batch, tiny))

    def loss(x: Any) -> Any:
        output = model(x)
        if network.loss == "squares":
            return output.square().mean()
        logits = output.reshape(-1, network.classes)
        return lib.nn.functional.cross_entropy(logits, labels.reshape(-1))

    if workload.task == "forward and loss":
        compiled_loss = wrap(loss)
        return without_gradients(lib, lambda: compiled_loss(x))
    optimizer = getattr(lib.optim, network.optimizer)(model.parameters(), lr=1e-4)

    def train() -> None:
        optimizer.zero_grad()
        loss(x).backward()
        optimizer.step()

    return wrap(train)


def inputs(lib: Any, network: Network, batch: int, tiny: bool) -> Any:
    sizes = network.sizes(batch, tiny)
    return lib.randint(0, network.tokens, sizes) if network.tokens else lib.randn(*sizes)


def without_gradients(lib: Any, forward: Step) -> Step:
    def step() -> Any:
        with lib.no_grad():
            return forward()

    return step
