"""Tasks beside each other: results, errors, and that no thread is left."""

from __future__ import annotations

import threading

import pytest

from rushlight.runtime.tasks import Tasks, once


@pytest.fixture(params=[1, 2, 4])
def threads(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(autouse=True)
def with_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rushlight.runtime.tasks.get_num_threads", lambda: threads)


def test_results_are_those_of_the_calls() -> None:
    with Tasks() as tasks:
        found = [tasks.add(lambda n=n: n * n) for n in range(50)]
    assert [task.result for task in found] == [n * n for n in range(50)]


def test_threads_work_at_the_same_time(threads: int) -> None:
    """As many as there are: each waits for all of the others."""
    meeting = threading.Barrier(threads, timeout=60)
    with Tasks() as tasks:
        found = [tasks.add(meeting.wait) for _ in range(threads)]
    assert sorted([task.result for task in found]) == list(range(threads))


def test_no_thread_is_left(threads: int) -> None:
    before = threading.active_count()
    with Tasks() as tasks:
        for _ in range(20):
            tasks.add(lambda: None)
        assert threading.active_count() == before + threads - 1
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_error_of_a_call_is_raised(error: type[BaseException]) -> None:
    before, tasks = threading.active_count(), Tasks()

    def fail() -> None:
        raise error("wrong")

    for _ in range(5):
        tasks.add(lambda: None)
    tasks.add(fail)
    with pytest.raises(error, match="wrong"):
        tasks.finish()
    assert threading.active_count() == before


def test_an_error_of_the_caller_ends_it() -> None:
    before, done = threading.active_count(), []

    def fail() -> None:
        with Tasks() as tasks:
            for n in range(1000):
                tasks.add(lambda n=n: done.append(n))
            raise ValueError("of the caller")

    with pytest.raises(ValueError, match="of the caller"):
        fail()
    assert threading.active_count() == before
    assert len(done) <= 1000


def test_a_system_without_threads_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Tasks() as tasks:
        found = [tasks.add(lambda n=n: n) for n in range(3)]
    assert [task.result for task in found] == [0, 1, 2]


def test_what_is_made_once_is_the_same_for_all(threads: int) -> None:
    meeting, made = threading.Barrier(threads, timeout=60), []

    @once
    def thing() -> object:
        made.append(object())
        return made[-1]

    def ask() -> object:
        meeting.wait()
        return thing()

    with Tasks() as tasks:
        found = [tasks.add(ask) for _ in range(threads)]
    assert [task.result for task in found] == made * threads
    assert len(made) == 1


def test_nothing_to_do_is_done() -> None:
    before = threading.active_count()
    with Tasks():
        assert threading.active_count() == before
