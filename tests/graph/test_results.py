"""Each call gets results of its own, which share what they share in dynamic mode."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.graph.results import leaves
from rushlight.symbol import TraceError

OUTSIDE: dict[str, Any] = {"list": [1, 2], "array": np.zeros(2), "object": object()}


class Note:
    def __init__(self, text: str) -> None:
        self.text = text


def test_containers_are_made_anew() -> None:
    x = rl.ones(1)
    result = {"a": [x, {1}], "b": deque([x], 3), "c": np.zeros(1), "d": frozenset([2])}
    tensors, make = leaves(result, ())
    assert [t is x for t in tensors] == [True, True]
    first, second = make([0, 1]), make([2, 3])
    assert first["a"] == [0, {1}]
    assert first["b"] == deque([1])
    assert first["b"].maxlen == 3
    for part in (first, first["a"], first["a"][1], first["c"]):
        assert part is not second
    assert first["a"][1] is not second["a"][1]
    assert first["c"] is not second["c"]


def test_calls_do_not_share_what_they_return() -> None:
    compiled = rl.compile(lambda x: (x + 1, {"a"}, np.zeros(1), Note("new")), fullgraph=True)
    for _ in range(2):
        _, names, array, note = compiled(rl.ones(1))
        assert (names, array.tolist(), note.text) == ({"a"}, [0.0], "new")
        names.add("b")
        array += 1
        note.text = "old"


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_was_there_before_is_itself(name: str) -> None:
    compiled = rl.compile(lambda x: (x + 1, OUTSIDE[name]), fullgraph=True)
    for _ in range(2):
        assert compiled(rl.ones(1))[1] is OUTSIDE[name]


@pytest.mark.parametrize(
    "make",
    [lambda: zip([1], [2], strict=True), lambda: iter([1]), threading.Lock, lambda: nn.ReLU()],
    ids=["zip", "iterator", "lock", "module"],
)
def test_what_calls_would_share_is_refused(make: Any) -> None:
    with pytest.raises(TraceError, match=r"the function (makes and )?returns a"):
        rl.compile(lambda x: (x + 1, make()), fullgraph=True)(rl.ones(1))


class Pair(NamedTuple):
    size: int
    rest: Any


@dataclasses.dataclass
class Record:
    size: int


def noted(x: Any) -> Note:
    return Note(len(x))  # type: ignore[arg-type]


SIZES: dict[str, Any] = {
    "len": lambda x: (len(x), x.shape[0], x.size(0)),
    "arithmetic": lambda x: (len(x) * len(x), len(x) // 2, len(x) % 2, -len(x), len(x) ** 2),
    "larger": lambda x: max(len(x), 5),
    "numel": lambda x: [x.numel(), x.shape.numel()],
    "shape": lambda x: x.shape,
    "shapes": lambda x: (
        x.shape[:1],
        x.shape + x.shape,
        (2,) * 2 + x.shape,
        x.shape * 2,
        [*x.shape],
    ),
    "dict": lambda x: {"n": len(x), "pair": Pair(len(x), [len(x)])},
    "record": lambda x: Record(len(x)),
    "key": lambda x: {len(x): {len(x)}},
    "slice": lambda x: slice(0, len(x), 2),
    "array": lambda x: np.array([len(x), 2]).tolist(),
    "object": lambda x: noted(x),
    "partial": lambda x: functools.partial(max, len(x)),
}


def plain(value: Any) -> Any:
    if isinstance(value, functools.partial):
        return value.args
    return vars(value) if isinstance(value, Note) else value


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_ints_of_the_call(name: str, dynamic: bool | None) -> None:
    function = SIZES[name]
    compiled = rl.compile(function, fullgraph=True, dynamic=dynamic)
    for n in (4, 7, 9, 1, 0, 7, 4):
        x = rl.ones(n)
        expected, found = plain(function(x)), plain(compiled(x))
        assert repr(found) == repr(expected)
        assert type(found) is type(expected)


def test_sizes_beside_tensors_weigh_a_mean() -> None:
    step = rl.compile(lambda x: {"loss": x.mean(), "n": x.shape[0]}, fullgraph=True)
    total, count = 0.0, 0
    for n, value in ((64, 1.0), (32, 2.0), (16, 5.0), (8, 9.0)):
        found = step(rl.full((n,), value))
        assert type(found["n"]) is int
        total, count = total + found["loss"].item() * found["n"], count + found["n"]
    assert (total, count) == (280.0, 120)


def test_sizes_of_the_calls_of_several_threads() -> None:
    compiled = rl.compile(lambda x: (x * 2, x.shape), fullgraph=True, dynamic=True)
    compiled(rl.ones(2))
    wrong: list[Any] = []

    def work(n: int) -> None:
        for _ in range(50):
            found = compiled(rl.ones(n))
            wrong.extend([found] if found[1] != (n,) else [])

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 6, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_size_that_is_kept_is_refused_whatever_it_was_before() -> None:
    note = Note(4)  # type: ignore[arg-type]

    def keep(x: Any) -> Any:
        note.text = x.shape[0]
        return x + 1

    compiled = rl.compile(keep)
    compiled(rl.ones(4))
    with pytest.warns(UserWarning, match=r"changes Python state \(note.text was 4, is 7\) at"):
        compiled(rl.ones(7))
    assert note.text == 7
    for n in (9, 4, 12):
        compiled(rl.ones(n))
        assert note.text == n


def test_a_function_that_holds_tensors_is_refused() -> None:
    with pytest.raises(TraceError, match=r"returns the function .* with new tensors in it"):
        rl.compile(lambda x: lambda: len(x), fullgraph=True)(rl.ones(1))


def halves(x: Any) -> Any:
    y = x * 2
    return y[:2], y[2:], y


def pair(x: Any) -> Any:
    y = x * 2
    return y, y.view(2, -1)


def detached(x: Any) -> Any:
    y = x * 2
    return y, y.detach(), y.detach().view(-1)


def chunks(x: Any) -> Any:
    return (x * 2).chunk(2)


@pytest.mark.parametrize("function", [halves, pair, detached, chunks])
@pytest.mark.parametrize("wanted", [False, True])
def test_results_that_share_memory(function: Any, wanted: bool) -> None:
    compiled = rl.compile(function, fullgraph=True)
    for run in (function, compiled, compiled):
        results = run(rl.arange(4.0).requires_grad_(wanted))
        assert [t.requires_grad for t in results] == [
            t.requires_grad for t in function(rl.arange(4.0).requires_grad_(wanted))
        ]
        with rl.no_grad():
            results[0].add_(1)
        expected = function(rl.arange(4.0))
        expected[0].add_(1)
        assert [t.tolist() for t in results] == [t.tolist() for t in expected]


@pytest.mark.parametrize("function", [halves, pair, detached, chunks])
def test_gradients_of_results_that_share_memory(function: Any) -> None:
    gradients = []
    for run in (function, rl.compile(function, fullgraph=True)):
        x = rl.arange(4.0).requires_grad_()
        sum([(i + 1) * (t * t).sum() for i, t in enumerate(run(x)) if t.requires_grad]).backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]


def test_a_leaf_made_inside_is_refused() -> None:
    with pytest.raises(TraceError, match=r"a leaf .* that is made inside"):
        rl.compile(lambda x: (x * 2).requires_grad_(), fullgraph=True)(rl.ones(1))


def test_gradients_through_what_is_kept_between_calls() -> None:
    class Decay(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rate, self.state = nn.Parameter(rl.ones(2)), rl.zeros(2)

        def forward(self, x):
            self.state = self.state * self.rate + x
            return self.state.sum()

    gradients = []
    for compiled in (False, True):
        net = Decay()
        run = rl.compile(net) if compiled else net
        if compiled:
            run(rl.ones(2))
            net.state = rl.zeros(2)
            with pytest.warns(UserWarning, match="gradients of the result would go on"):
                losses = [run(rl.ones(2)) for _ in range(3)]
        else:
            losses = [run(rl.ones(2)) for _ in range(3)]
        sum(losses).backward()
        gradients.append(net.rate.grad.tolist())
    assert gradients[0] == gradients[1] == [4, 4]
