"""Branches and loops in dynamic mode: both conventions of arguments, and errors that teach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl


def test_a_lone_tuple_is_spread_if_the_functions_take_as_many() -> None:
    a, b = rl.tensor(2.0), rl.tensor(3.0)
    assert rl.cond(a < b, lambda x, y: x - y, lambda x, y: x + y, (a, b)) == -1
    assert rl.cond(a < b, lambda pair: pair[0] - pair[1], lambda pair: pair[0], (a, b)) == -1
    (n,) = rl.while_loop(lambda n: n < 5, lambda n: n + 1, (rl.tensor(0),))
    assert n == 5
    whole = rl.while_loop(lambda c: c["n"] < 5, lambda c: {"n": c["n"] + 1}, {"n": 0})
    assert whole["n"] == 5


def test_only_one_branch_runs() -> None:
    ran = []
    rl.cond(rl.tensor(True), lambda: ran.append("true") or rl.ones(1), lambda: ran.append("false"))
    assert ran == ["true"]


def test_an_index_out_of_range_means_the_nearest_branch() -> None:
    branches = [lambda i=i: rl.tensor(i) for i in range(3)]
    assert [int(rl.switch(i, branches)) for i in (-7, 1, 99)] == [0, 1, 2]


def test_a_scan_goes_both_ways_and_along_any_dimension() -> None:
    xs = rl.arange(6).reshape(2, 3)
    _, ys = rl.scan(lambda c, x: (c + x, c + x), rl.tensor([0, 0]), xs, dim=1)
    assert ys.tolist() == [[0, 1, 3], [3, 7, 12]]
    last, ys = rl.scan(lambda c, x: (c + x, c), rl.tensor([0, 0, 0]), xs, reverse=True)
    assert last.tolist() == [3, 5, 7]
    assert ys.tolist() == [[3, 4, 5], [0, 0, 0]]
    last, none = rl.scan(lambda c, _: (c * 2, None), 1, length=10)
    assert last == 1024
    assert none is None


def test_results_share_no_memory_with_what_was_given() -> None:
    x = rl.zeros(2)
    rl.cond(True, lambda x: x, lambda x: x, x).add_(1)
    rl.cond(True, lambda x: x[:1], lambda x: x, x).add_(1)
    rl.while_loop(lambda y: y.sum() > 0, lambda y: y, (x,))[0].add_(1)
    assert x.tolist() == [0, 0]
    total = rl.zeros(())
    _, ys = rl.scan(lambda c, r: (c, total.add_(r)), 0, rl.ones(3))
    assert ys.tolist() == [1, 2, 3]


def test_gradients_follow_what_ran() -> None:
    x = rl.tensor(2.0, requires_grad=True)
    rl.fori_loop(0, 3, lambda i, y: y * x, rl.tensor(1.0)).backward()
    assert x.grad == 12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rl.while_loop(lambda x: x.sum() < 9, lambda x: x.double(), (rl.ones(2),)),
            r"keep the type of a carried value: it was \(float32\[2\],\), and "
            r"\(float64\[2\],\) was returned",
        ),
        (
            lambda: rl.scan(lambda c, x: (rl.stack([c, c]), x), rl.ones(2), rl.ones(3)),
            r"it was float32\[2\], and float32\[2, 2\] was returned",
        ),
        (
            lambda: rl.scan(lambda c, x: (c, rl.ones(int(x))), rl.ones(2), rl.arange(3)),
            r"a result for a row: it was float32\[0\], and float32\[1\] was returned",
        ),
        (lambda: rl.scan(lambda c, x: c, rl.ones(2), rl.ones(3)), r"return two values"),
        (lambda: rl.cond(rl.ones(2), lambda: 1, lambda: 2), r"rl.where"),
        (lambda: rl.cond("yes", lambda: 1, lambda: 2), r"one truth value, got str 'yes'"),
        (lambda: rl.cond(True, lambda: "a", lambda: 2), r"a branch returns a str"),
        (lambda: rl.switch(rl.ones(()), [lambda: 1]), r"one integer, got float32\[\]"),
    ],
    ids=["dtype", "shape", "rows", "no pair", "many", "string", "result", "index"],
)
def test_errors_of_type_name_both_types(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rl.scan(lambda c, x: (c, x), 0, (rl.ones(2), rl.ones(3))), r"got \[2, 3\]"),
        (lambda: rl.scan(lambda c, x: (c, x), 0), r"length="),
        (lambda: rl.foldl(lambda a, b: a, rl.ones(0, 2)), r"at least one row"),
        (lambda: rl.scan(lambda c, x: (c, c), 0, length=-1), r"must not be negative, got -1"),
        (lambda: rl.map_fn(lambda x: x, rl.ones(())), r"must have rows"),
        (lambda: rl.switch(0, []), r"at least one branch"),
    ],
    ids=["lengths", "no length", "no rows", "negative", "no dimension", "no branch"],
)
def test_errors_of_value_say_what_was_given(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("bounds", [(0.5, 3), (0, 3.0), (0, rl.tensor(3.0))])
def test_bounds_of_fori_loop_are_ints(bounds):
    def run(x):
        return rl.fori_loop(*bounds, lambda i, x: x + 1, x)

    for function in (run, rl.compile(run, fullgraph=True)):
        with pytest.raises(TypeError, match="a bound must be an int or an integer tensor"):
            function(rl.ones(2))
