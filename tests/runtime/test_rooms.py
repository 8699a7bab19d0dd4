"""Memory that programs use one after the other."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import rushlight as rl
from rushlight.runtime import executable
from rushlight.runtime.rooms import Rooms, rooms, size_of


class Program:
    """Something that needs rooms."""


@pytest.fixture
def mine(monkeypatch):
    """Rooms of a test alone."""
    made = Rooms()
    monkeypatch.setattr(executable, "rooms", made)
    return made


def test_who_comes_next_gets_the_same_room() -> None:
    mine, programs = Rooms(), [Program() for _ in range(2)]
    for program, size in zip(programs, (1000, 3000), strict=True):
        mine.enter(program, size)
    small = mine.take(1000)
    mine.give(small)
    large = mine.take(3000)
    assert large is not small
    mine.give(large)
    assert mine.take(1000) is large
    assert not mine.free


def test_two_at_a_time_have_two_rooms() -> None:
    mine, program = Rooms(), Program()
    mine.enter(program, 1000)
    first, second = mine.take(1000), mine.take(1000)
    assert abs(first.address - second.address) >= 1000


def test_a_room_goes_with_the_program_that_needed_its_size() -> None:
    mine, programs = Rooms(), [Program() for _ in range(2)]
    for program, size in zip(programs, (3000, 1000), strict=True):
        mine.enter(program, size)
    mine.give(mine.take(3000))
    taken = mine.take(3000)
    del programs[0], program
    gc.collect()
    mine.give(taken)  # which somebody was in at that time
    assert not mine.free
    mine.give(mine.take(1000))
    assert mine.have(1000)
    programs.clear()
    gc.collect()
    assert not mine.free
    assert not mine.needs


def test_one_more_room_stays_if_it_is_the_largest_and_needed() -> None:
    mine, program = Rooms(), Program()
    mine.enter(program, 2000)
    small, large = mine.take(1000), mine.take(2000)
    mine.keep(small)
    mine.keep(large)
    assert mine.free == [large]
    mine.keep(small)
    assert mine.free == [large]
    mine.keep(mine.take(3000))  # nobody needs so much
    assert [size_of(room) for room in mine.free] in ([], [2000])


def two_products(x):
    return ((x @ x).softmax(1) @ x).cumsum(0) @ x


def test_programs_share_one_room(mine) -> None:
    rl.manual_seed(0)
    wanted = {}
    compiled = {}
    for n in (30, 50, 70, 40):
        x = rl.randn(n, n)
        compiled[n] = rl.compile(two_products, dynamic=False)
        wanted[n] = x, compiled[n](x)
    assert len(mine.free) == 1
    assert mine.free[0].bytes.nbytes == mine.most
    for n, (x, y) in wanted.items():  # each goes to a room that has moved meanwhile
        assert compiled[n](x).equal(y)
        assert compiled[n](x).equal(y)
    assert len(mine.free) == 1


def test_a_program_inside_another_has_a_room_of_its_own(mine) -> None:
    rl.manual_seed(0)
    x = rl.randn(40, 40)
    inner = rl.compile(two_products, dynamic=False)
    y = inner(x)

    held = mine.take(mine.most)  # as a program that runs holds it
    assert inner(x).equal(y)
    assert held not in mine.free


def test_threads_do_not_meet(mine) -> None:
    rl.manual_seed(0)
    pairs = [rl.randn(n, n) for n in (60, 80, 100, 120)]
    compiled = rl.compile(two_products, dynamic=False)
    wanted = [compiled(x) for x in pairs]
    wrong = []

    def work(k: int) -> None:
        for _ in range(50):
            if not compiled(pairs[k]).equal(wanted[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len({room.address for room in mine.free}) == len(mine.free)


def test_dynamic_mode_needs_the_memory_of_its_largest_op() -> None:
    rl.manual_seed(0)
    before = len(rooms.free)
    convolutions = [rl.nn.Conv2d(8, 8 * k, 3, padding=1) for k in (1, 2, 3, 4)]
    x = rl.randn(4, 8, 32, 32)
    for _ in range(4):
        for convolution in convolutions:
            convolution(x).sum().backward()
    assert len(rooms.free) <= max(before, 1)


def test_programs_do_not_hold_what_they_were_made_with() -> None:
    rl.manual_seed(0)
    w = rl.randn(8, 8, requires_grad=True)
    compiled = rl.compile(lambda x: (x @ w).softmax(1), dynamic=False)
    x = rl.randn(8, 8, requires_grad=True) * 2
    compiled(x).sum().backward()
    seen = weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None
