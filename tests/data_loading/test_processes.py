"""Worker processes: as threads, and killed, hung, or with a main program that is."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
from itertools import islice
from pickle import PicklingError
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.data import DataLoader
from tests.data_loading.samples import (
    Noise,
    Pairs,
    Workers,
    as_list,
    hang,
    kill_worker,
    local_function,
    numbers,
    raise_value_error,
)
from tests.waiting import PATIENCE, wait_until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on a machine of one core
]


@pytest.fixture(autouse=True)
def no_process_is_left() -> Any:
    yield
    gc.collect()
    assert multiprocessing.active_children() == []


def processes(dataset: Any, **options: Any) -> DataLoader[Any]:
    return DataLoader(dataset, **{"num_workers": 1, "worker_kind": "process", **options})


def test_order_and_seeds_are_those_of_threads() -> None:
    results = []
    for kind in ("thread", "process"):
        rl.manual_seed(5)
        loader = DataLoader(
            Workers(), 2, shuffle=True, num_workers=2, collate_fn=as_list, worker_kind=kind
        )
        results.append((list(loader), rl.get_rng_state().tolist()))
    (threads, state), (others, same) = results
    assert state == same
    for one, other in zip(threads, others, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a[:4] == b[:4]
            assert a[4] == os.getpid() != b[4]


def test_errors_travel_and_persistent_workers_survive_them() -> None:
    loader = processes(Pairs(6, 2, raise_value_error), batch_size=2, persistent_workers=True)
    text = r"(?s)Caught ValueError in DataLoader worker process 0, in item 2 of Pairs .*samples.py"
    for _ in range(2):
        batches = iter(loader)
        assert next(batches)[1].tolist() == [0, 1]
        with pytest.raises(ValueError, match=text):
            next(batches)
        assert next(batches)[1].tolist() == [4, 5]
        del batches


def test_random_samples_are_resumed() -> None:
    rl.manual_seed(0)
    loader = processes(Noise(), batch_size=3, collate_fn=as_list)
    batches = iter(loader)
    list(islice(batches, 2))
    state = loader.state_dict()
    rest = list(batches)
    another = processes(Noise(), batch_size=3, collate_fn=as_list)
    another.load_state_dict(state)
    assert list(another) == rest


def test_a_killed_worker_is_an_error_at_once() -> None:
    loader = processes(Pairs(6, 2, kill_worker), batch_size=2, persistent_workers=True)
    batches = iter(loader)
    next(batches)
    text = (
        r"worker \(pid\(s\) \d+\) exited unexpectedly: killed by SIGKILL, in the batch of items 2"
    )
    for _ in range(2):  # nor is the next batch waited for
        with pytest.raises(RuntimeError, match=text):
            next(batches)
        text = "exited unexpectedly: killed by SIGKILL"
    del batches
    assert len(list(islice(iter(loader), 1))) == 1  # by a new one


def test_a_hung_worker_is_an_error_after_the_timeout_and_is_killed() -> None:
    batches = iter(processes(Pairs(2, 1, hang), timeout=PATIENCE))
    next(batches)
    batches.loader.timeout = 0.3
    message = "timed out after 0.3 seconds, waiting for worker process 0 in the batch of items 1"
    with pytest.raises(RuntimeError, match=message):
        next(batches)


def test_what_cannot_be_pickled() -> None:
    with pytest.raises((AttributeError, PicklingError), match="local object"):
        iter(processes(Pairs(4, 1, lambda: None)))

    with pytest.raises(RuntimeError, match="worker process 0, sending its batch"):
        list(processes(Pairs(2, 1, local_function), batch_size=2, collate_fn=as_list))


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_forked_workers_need_no_pickling() -> None:
    dataset = Pairs(4, 1, lambda: (rl.zeros(3), 9))
    loader = DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert loader.worker_kind == "process"
    batches = iter(loader)
    assert numbers(batches) == [[0, 9], [2, 3]]
    assert [worker.process.exitcode for worker in batches.pool.processes] == [0, 0]


PROGRAM = """
import os, signal, sys, time
from rushlight.utils.data import DataLoader, Dataset

class Sleepy(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.02)
        return os.getpid()

if __name__ == "__main__":
    batches = iter(DataLoader(Sleepy(), num_workers=2, worker_kind="process"))
    print(*{next(batches).item() for _ in range(4)}, flush=True)
    if "exit" not in sys.argv:
        for batch in batches:
            pass
"""


@pytest.mark.parametrize("how", ["exit", "interrupt", "kill"])
def test_no_process_outlives_the_main_program(how: str, tmp_path: Any) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(script), how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert program.stdout is not None
    workers = [int(pid) for pid in program.stdout.readline().split()]
    assert len(workers) == 2
    if how == "interrupt":
        os.killpg(program.pid, signal.SIGINT)  # Ctrl-C reaches the workers too
    if how == "kill":
        program.kill()
    _, errors = program.communicate(timeout=PATIENCE)
    if how == "exit":
        assert (program.returncode, errors) == (0, "")
    if how == "interrupt":
        assert errors.count("Traceback") == 1
        assert errors.strip().endswith("KeyboardInterrupt")
    wait_until(lambda: not any(is_alive(pid) for pid in workers))


def is_alive(pid: int) -> bool:
    """Whether it runs; where nobody collects orphans, the dead stay as zombies."""
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip() != "" and not shown.stdout.startswith("Z")
