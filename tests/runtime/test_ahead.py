"""Memory that is brought in while a function is traced."""

from __future__ import annotations

import functools

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.runtime.ahead import LARGE, Ahead, place_of
from rushlight.runtime.arena import Arena
from rushlight.runtime.rooms import Rooms


def function(x):
    return x


@pytest.fixture
def two_threads(tmp_path, monkeypatch):
    """And a process that has noted nothing, and no memory that other programs have left."""
    monkeypatch.setattr(rl.config, "cache_dir", str(tmp_path / "cache"))
    monkeypatch.setattr("rushlight.runtime.ahead.rooms", Rooms())
    before = rl.get_num_threads()
    rl.set_num_threads(2)
    yield
    rl.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_an_arena_of_the_size_of_last_time_is_ready():
    size = LARGE + 1000
    assert Ahead(function).ready is None
    assert Ahead(function).arena(size) is None
    ahead = Ahead(function)
    ready = ahead.ready
    assert ready is not None
    assert ready.bytes.nbytes == size
    assert ahead.arena(size) is ready
    assert not ahead.thread.is_alive()
    assert ahead.arena(size) is None  # it is given once


@pytest.mark.usefixtures("two_threads")
def test_memory_that_other_programs_have_left_is_enough(monkeypatch):
    Ahead(function).arena(LARGE)
    mine = Rooms()
    monkeypatch.setattr("rushlight.runtime.ahead.rooms", mine)
    assert Ahead(function).ready is not None
    mine.free.append(Arena(LARGE))
    assert Ahead(function).ready is None


@pytest.mark.usefixtures("two_threads")
def test_another_size_is_noted():
    Ahead(function).arena(LARGE)
    ahead = Ahead(function)
    assert ahead.ready is not None
    assert ahead.arena(2 * LARGE) is None
    assert Ahead(function).size == 2 * LARGE
    assert Ahead(test_another_size_is_noted).size == 0


@pytest.mark.usefixtures("two_threads")
def test_a_small_arena_or_one_thread_needs_none():
    Ahead(function).arena(1000)
    assert Ahead(function).size == 0
    Ahead(function).arena(LARGE)
    rl.set_num_threads(1)
    assert Ahead(function).ready is None


@pytest.mark.usefixtures("two_threads")
def test_a_note_that_makes_no_sense_is_none():
    ahead = Ahead(function)
    ahead.cache.put(ahead.key, b"-1e9")
    assert Ahead(function).ready is None


@pytest.mark.usefixtures("two_threads")
def test_a_program_whose_arena_is_ready():
    def large(x):
        return (x.cumsum(0) @ x).cumsum(1).sum(0)

    rl.manual_seed(0)
    x = rl.randn(1500, 1500)
    first = rl.compile(large, fullgraph=True)(x)
    assert Ahead(large).size >= LARGE
    rl.testing.assert_close(rl.compile(large, fullgraph=True)(x), first, rtol=0, atol=0)


def test_places():
    class Net(nn.Module):
        def forward(self, x):
            return x

    assert place_of(function)[:2] == (__name__, "function")
    assert place_of(Net().forward) == place_of(Net.forward)
    assert place_of(Net())[0] == __name__
    assert place_of(functools.partial(function)) == ("functools", "partial")
