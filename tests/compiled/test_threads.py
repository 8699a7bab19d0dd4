"""Other threads compute with the same tensors while a function is traced with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, symbol
from rushlight.graph.trace import Trace
from rushlight.symbol import TraceError

EAGER: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 1,
    "halves": lambda x: x.half() * 2,
    "reverse": lambda x: 1 - x,
    "sum": lambda x: x.sum(1),
    "view": lambda x: x.view(-1)[3:],
    "transpose": lambda x: x.t() @ x,
    "detach": lambda x: x.detach() * 2,
    "softmax": lambda x: F.softmax(x, 1),
    "large softmax": lambda x: F.softmax(x.repeat(64, 64), 1),
    "linear": lambda x: F.linear(x, x),
    "cat": lambda x: rl.cat([x, x]),
    "where": lambda x: rl.where(x > 0, x, 0.0),
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy().copy(),
    "clone": lambda x: x.clone().mul_(3),
    "index": lambda x: x[rl.tensor([0, 2])],
    "pair of indices": lambda x: x[[0, 1], [1, 2]],
    "reshape": lambda x: x.t().reshape(-1),
    "text": lambda x: str(x),
    "max": lambda x: x.max(1).values,
}


def shown(result: Any) -> Any:
    if isinstance(result, rl.Tensor):
        return result.tolist()
    return result.tolist() if isinstance(result, np.ndarray) else result


def during_a_trace(eager: Callable[[], Any], argument: Any, weight: Any = None) -> Any:
    """The result of ``eager``, called in another thread while there is a trace."""
    found: list[Any] = []
    trace = Trace()

    def work() -> None:
        try:
            found.append(eager())
        except Exception as error:
            found.append(error)

    def traced() -> None:
        y = (trace.input(argument) * 2).sum()
        if weight is not None:
            weight.grad = None
            (y * weight).sum().backward()
        thread.start()
        thread.join(0.05)
        assert not found  # it waits for this trace

    thread = threading.Thread(target=work)
    try:
        trace.call(traced)
    finally:
        trace.restore()
    thread.join()
    return found[0]


@pytest.mark.parametrize("name", EAGER)
def test_a_thread_that_meets_a_traced_argument(name: str) -> None:
    eager = EAGER[name]
    x = rl.arange(12.0).view(4, 3) / 7
    assert shown(during_a_trace(lambda: eager(x), x)) == shown(eager(x))


def test_what_it_makes_is_whole_afterwards() -> None:
    x = rl.arange(4.0)
    views = during_a_trace(lambda: [x.detach(), x.view(2, 2), x[1:], x.data], x)
    x.add_(1)
    assert [view.tolist() for view in views] == [
        [1, 2, 3, 4],
        [[1, 2], [3, 4]],
        [2, 3, 4],
        [1, 2, 3, 4],
    ]


def test_writes_of_another_thread() -> None:
    x = rl.zeros(3)
    during_a_trace(lambda: x.add_(1), x)
    assert x.tolist() == [1, 1, 1]


def test_histories_of_another_thread() -> None:
    w = rl.ones(3, requires_grad=True)
    x = w * 2
    during_a_trace(lambda: (x * x).sum().backward(), x)
    assert w.grad.tolist() == [8, 8, 8]


def test_gradients_are_waited_for() -> None:
    w = rl.ones(3, requires_grad=True)
    w.grad = rl.full((3,), 5.0)
    assert during_a_trace(lambda: w.grad.tolist(), rl.ones(3), w) == [5, 5, 5]


def test_a_trace_may_wait_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol, "PATIENCE", 0.05)
    x, trace = rl.ones(3), Trace()
    found: list[Any] = []

    def work() -> None:
        found.append((x + 1).tolist())
        with pytest.raises(TraceError, match="another thread traces"):
            made[0].tolist()
        found.append("no values yet")

    def traced() -> None:
        made.append(trace.input(x) * 2)
        thread.start()
        thread.join()

    made: list[Any] = []
    thread = threading.Thread(target=work)
    trace.call(traced)
    trace.restore()
    assert found == [[2, 2, 2], "no values yet"]


def test_a_storm_of_threads() -> None:
    net = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8)).eval()
    x, stop = rl.ones(4, 8), threading.Event()
    expected = [((x * 2).sum().item(), net(x).sum().item()), x[1:].detach().view(-1).tolist()]
    errors: list[Any] = []

    def eager() -> None:
        while not stop.is_set():
            try:
                found = [
                    ((x * 2).sum().item(), net(x).sum().item()),
                    x[1:].detach().view(-1).tolist(),
                ]
                if found != expected:
                    errors.append(found)
            except Exception as error:
                errors.append(error)
                return

    threads = [threading.Thread(target=eager) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(6):
        rl.compile(lambda x, k=k: (net(x) * k).exp().sum(), fullgraph=True)(x)
        time.sleep(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
