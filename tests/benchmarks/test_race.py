"""Rounds, failures and processes that end."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import race
from benchmarks.race import Failure, Worker


class Scripted(Worker):
    """A worker whose answers are known before."""

    def __init__(self, name: str, answers: list[Any]) -> None:
        super().__init__(name, threads=1)
        self.answers = answers

    def ask(self, question: Any) -> Any:
        if question is None:
            return None
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def without_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "REST_SECONDS", 0.0)


def test_the_best_of_all_rounds_counts() -> None:
    racing: list[Worker] = [Scripted("PyTorch", [3.0, 1.0, 2.0]), Scripted("JAX", [2.0, 5.0, 4.0])]
    times = race.race(racing, "softmax 1000×1000", rounds=3)
    assert times.best == {"PyTorch": 1.0, "JAX": 2.0}
    assert times.failures == {}


def test_a_failure_is_a_note_and_others_go_on() -> None:
    absent = Scripted("OpenVINO", [None])
    failing = Scripted("JAX", [{"error": "ValueError: no"}])
    ended = Scripted("TensorFlow", [Failure("its process ended with code -9")])
    fine = Scripted("PyTorch", [1.0, 1.0])
    times = race.race([absent, failing, ended, fine], "softmax 1000×1000", rounds=2)
    assert times.best == {"PyTorch": 1.0}
    assert times.failures == {
        "JAX": "ValueError: no",
        "TensorFlow": "its process ended with code -9",
    }


def test_long_workloads_have_one_round() -> None:
    slow = Scripted("PyTorch", [race.BUDGET_SECONDS + 1])
    assert race.race([slow], "VGG-16 batch 8, training", rounds=5).best


def test_a_worker_times_tells_what_it_lacks_and_what_failed() -> None:
    with race.workers(1, ["Rushlight compiled"]) as (worker,):
        seconds = worker.time("a + b on 4×4", tiny=True)
        assert seconds is not None
        assert 0 < seconds < 1
        assert worker.version
        assert worker.time("tree-LSTM, 8 trees, training", tiny=True) is None
        with pytest.raises(Failure, match="KeyError"):
            worker.time("no such workload", tiny=True)
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        assert worker.time("a + b on 4×4", tiny=True) is not None
