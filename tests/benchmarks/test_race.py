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

    def ask(self, question: Any, limit: float = 1.0) -> Any:
        if question is None:
            return None
        if question[0] == "prepare":
            if isinstance(self.answers[0], Failure):
                raise self.answers[0]
            return self.answers[0] is not None
        return self.answers.pop(0)


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
    failing = Scripted("JAX", [Failure("ValueError: no")])
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
        assert worker.prepare("a + b on 4×4", True, limit=60.0)
        assert 0 < worker.time("a + b on 4×4", tiny=True) < 1
        assert worker.version
        assert not worker.prepare("tree-LSTM, 8 trees, training", True, limit=60.0)
        with pytest.raises(Failure, match="KeyError"):
            worker.prepare("no such workload", True, limit=60.0)
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        assert worker.time("a + b on 4×4", tiny=True) > 0


def test_who_takes_too_long_is_stopped() -> None:
    with race.workers(1, ["Rushlight compiled"]) as (worker,):
        worker.start()
        with pytest.raises(Failure, match="not ready in 0 s"):
            worker.prepare("ResNet-50 batch 8, training", False, limit=0.1)
