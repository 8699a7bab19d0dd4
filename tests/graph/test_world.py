"""Looks at clocks, files and the environment are noticed, with the line of the user's."""

from __future__ import annotations

import datetime
import logging
import os
import pathlib
import random
import sys
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.graph.world import World, is_worldly
from rushlight.symbol import TraceError

HERE = pathlib.Path(__file__)

LOOKS: dict[str, tuple[Callable[[], Any], str]] = {
    "time": (lambda: time.time(), r"a clock \(time\)"),
    "perf_counter": (lambda: time.perf_counter(), r"a clock \(perf_counter\)"),
    "datetime": (lambda: datetime.datetime.now().year, r"a clock \(now\)"),
    "environ": (lambda: os.environ.get("HOME", "") == "", "the environment"),
    "getenv": (lambda: os.getenv("HOME") is None, "the environment"),
    "open": (lambda: open(HERE).close() or 1.0, r"a file \(open\)"),
    "path": (lambda: HERE.exists(), r"a file \(stat\)"),
    "random": (lambda: random.random(), r"random numbers of Python \(random\)"),
    "randint": (lambda: random.randint(1, 3), "random numbers of Python"),
    "uuid": (lambda: uuid.uuid4().int % 7, "random numbers of the system"),
}


@pytest.mark.parametrize("name", LOOKS)
def test_looks_are_refused_and_the_line_is_named(name: str) -> None:
    look, what = LOOKS[name]
    with pytest.raises(TraceError, match=rf"reads {what}.* at .*test_world.py:"):
        rl.compile(lambda x: x * look(), fullgraph=True)(rl.ones(1))


def test_refused_functions_read_at_each_call() -> None:
    os.environ["RUSHLIGHT_TEST_SCALE"] = "2"

    def scaled(x):
        return x * float(os.environ["RUSHLIGHT_TEST_SCALE"])

    compiled = rl.compile(scaled)
    with pytest.warns(
        UserWarning, match="runs in dynamic mode: the function reads the environment"
    ):
        assert compiled(rl.ones(1)).item() == 2
    os.environ["RUSHLIGHT_TEST_SCALE"] = "5"
    assert compiled(rl.ones(1)).item() == 5
    del os.environ["RUSHLIGHT_TEST_SCALE"]


def test_numpy_draws_are_refused() -> None:
    with pytest.raises(TraceError, match=r"draws random numbers .* at .*test_world.py:"):
        rl.compile(lambda x: x * float(np.random.rand()), fullgraph=True)(rl.ones(1))


def test_what_is_named_but_not_read_does_no_harm() -> None:
    def step(x, timed=False):
        begin = time.time() if timed else 0.0
        logging.getLogger("rushlight.test").debug("the time of a record is not the function's")
        return x * 2 + begin

    assert rl.compile(step, fullgraph=True)(rl.ones(1)).item() == 2


def test_imports_and_warnings_inside_do_no_harm() -> None:
    def step(x):
        import colorsys

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("once", stacklevel=1)
        return x * colorsys.rgb_to_hsv(1.0, 0.0, 0.0)[2]

    assert rl.compile(step, fullgraph=True)(rl.ones(1)).item() == 1


def test_a_profiler_of_the_user_goes_on() -> None:
    calls: list[str] = []
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        with World():
            pass
        inside = len(calls)
        len(calls)
    finally:
        sys.setprofile(None)
    assert len(calls) > inside


def test_what_may_look() -> None:
    assert all(map(is_worldly, (time, os.environ, open, input, random.random, pathlib.Path)))
    assert not any(map(is_worldly, (len, print, np, rl, 2.0, [], logging.getLogger())))
