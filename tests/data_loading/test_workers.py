"""Worker threads: what they know, what they leave behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    StackDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)
from tests.data_loading.samples import (
    Count,
    Noise,
    Pairs,
    Slow,
    Workers,
    as_list,
    numbers,
    raise_value_error,
)
from tests.waiting import PATIENCE, wait_until


def workers() -> int:
    """How many threads of loaders there are; threads of others come and go as they like."""
    return len([t for t in threading.enumerate() if t.name.startswith("DataLoader")])


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    wait_until(lambda: workers() == 0)


def test_workers_know_themselves() -> None:
    rl.manual_seed(1)
    loader = DataLoader(Workers(), batch_size=2, num_workers=2, collate_fn=as_list)
    batches = list(loader)
    rl.manual_seed(1)
    base_seed = int(rl.empty((), dtype=rl.int64).random_())
    assert [batch[0][0] for batch in batches] == [0, 1, 0, 1]
    for batch in batches:
        for number, count, seed, own, _ in batch:
            assert (count, seed, own) == (2, base_seed + number, True)
    assert get_worker_info() is None


def test_the_init_function_is_called_once_per_worker_in_the_worker() -> None:
    calls = []

    def init(number: int) -> None:
        info = get_worker_info()
        assert info is not None
        calls.append((number, info.id, threading.current_thread() is threading.main_thread()))

    loader = DataLoader(
        Pairs(), num_workers=2, worker_init_fn=init, persistent_workers=True, batch_size=2
    )
    for _ in range(2):
        assert len(numbers(loader)) == 10
    assert sorted(calls) == [(0, 0, False), (1, 1, False)]
    del loader

    def fail(number: int) -> None:
        raise OSError("no such disk")

    with pytest.raises(OSError, match="Caught OSError in DataLoader worker thread 0"):
        list(DataLoader(Pairs(), num_workers=1, worker_init_fn=fail))


def test_what_a_worker_sets_on_its_dataset_is_its_own() -> None:
    class File(Dataset):
        """Opens its file when it is first read, as datasets for many workers do."""

        handle: Any = None

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> tuple[int, int]:
            info = get_worker_info()
            assert info is not None
            if self.handle is None:
                self.handle = info.id
            return self.handle, info.id

    file = File()
    file.itself = file  # type: ignore[attr-defined]
    for dataset in (file, Subset(file, range(4)), ConcatDataset([file, file])):
        loader = DataLoader(dataset, num_workers=2, collate_fn=as_list)
        assert all(opened == reader for ((opened, reader),) in loader)
    stack = DataLoader(StackDataset(a=file), num_workers=2, collate_fn=as_list)
    assert all(sample["a"][0] == sample["a"][1] for (sample,) in stack)
    assert file.handle is None


def test_shares_of_a_stream_can_be_set_by_the_init_function() -> None:
    class Range(Count):
        def __iter__(self) -> Any:
            return iter(range(self.first, self.stop))

    def share(number: int) -> None:
        info = get_worker_info()
        assert info is not None
        info.dataset.first, info.dataset.stop = 3 * number, 3 * number + 3

    loader = DataLoader(Range(100), batch_size=2, num_workers=2, worker_init_fn=share)
    assert [x.tolist() for x in loader] == [[0, 1], [3, 4], [2], [5]]


def test_generators_of_a_worker_give_the_same_samples_in_every_run() -> None:
    runs = []
    for _ in range(2):
        rl.manual_seed(3)
        loader = DataLoader(Noise(), batch_size=3, num_workers=2, collate_fn=as_list)
        runs.append([list(loader), list(loader)])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


def test_threads_draw_from_generators_of_their_own() -> None:
    rl.manual_seed(3)
    list(DataLoader(Pairs(12), batch_size=3, num_workers=2))
    state = rl.get_rng_state()
    rl.manual_seed(3)
    list(DataLoader(Noise(), batch_size=3, num_workers=2))
    assert rl.get_rng_state().equal(state)


def test_tensors_are_shared_not_copied() -> None:
    x = rl.zeros(4, 2)
    (row,) = next(iter(DataLoader(TensorDataset(x), batch_size=None, num_workers=1)))
    row += 1
    assert x.sum().item() == 2


def test_no_more_is_loaded_ahead_than_asked_for() -> None:
    loaded = []

    class Watched(Pairs):
        def __getitem__(self, index: int) -> Any:
            loaded.append(index)
            return super().__getitem__(index)

    batches = iter(DataLoader(Watched(), num_workers=2, prefetch_factor=3))
    next(batches)
    wait_until(lambda: len(loaded) >= 7)
    time.sleep(0.05)  # in which one that is too many would come
    assert sorted(loaded) == list(range(7))


def test_batches_as_they_come() -> None:
    another_came = threading.Event()

    class FirstIsSlow(Pairs):
        def __getitem__(self, index: int) -> Any:
            assert index != 0 or another_came.wait(PATIENCE)
            return super().__getitem__(index)

    order = []
    for _, number in DataLoader(FirstIsSlow(6), num_workers=2, in_order=False):
        another_came.set()
        order.append(number.item())
    assert order[0] != 0
    assert sorted(order) == list(range(6))


def test_breaking_off_and_errors_leave_nothing_behind() -> None:
    for _ in DataLoader(Slow(), num_workers=2):
        break
    wait_until(lambda: workers() == 0)  # no garbage must be collected for it
    with pytest.raises(ValueError, match="broken sample"):
        list(DataLoader(Pairs(6, 2, raise_value_error), num_workers=2))


def test_persistent_workers_serve_epoch_after_epoch() -> None:
    loader = DataLoader(Slow(9), batch_size=2, num_workers=2, persistent_workers=True)
    for batch in loader:
        assert batch[1].tolist() == [0, 1]
        break
    del batch
    assert numbers(loader) == numbers(loader) == numbers(DataLoader(Pairs(9), batch_size=2))
    assert workers() == 2
    stream = DataLoader(Count(6), batch_size=2, num_workers=2, persistent_workers=True)
    assert (
        [x.tolist() for x in stream] == [x.tolist() for x in stream] == [[0, 2], [1, 3], [4], [5]]
    )


def test_a_hung_worker_is_an_error_after_the_timeout() -> None:
    release = threading.Event()
    batches = iter(DataLoader(Pairs(4, 1, release.wait), num_workers=1, timeout=PATIENCE))
    next(batches)
    batches.loader.timeout = 0.2
    message = "timed out after 0.2 seconds, waiting for worker thread 0 in the batch of items 1"
    with pytest.raises(RuntimeError, match=message):
        next(batches)
    release.set()


PROGRAM = """
import os, signal, sys, threading, time
from rushlight.utils.data import DataLoader

class Sleepy(list):
    def __getitem__(self, index):
        time.sleep(0.05)
        return super().__getitem__(index)

batches = iter(DataLoader(Sleepy(range(100_000)), num_workers=2))
next(batches)
if "interrupt" in sys.argv:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    list(batches)
"""


@pytest.mark.parametrize("how", ["exit", "interrupt"])
def test_a_program_ends_with_its_iterator_alive(how: str) -> None:
    command = [sys.executable, "-c", PROGRAM, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if how == "exit":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.stderr.strip().endswith("KeyboardInterrupt")
