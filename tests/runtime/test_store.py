"""Entries on disk: whatever happens to their files, never a wrong byte comes back."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rushlight.config import config
from rushlight.runtime import store as module
from rushlight.runtime.store import HEADER, Cache, digest, folder
from tests.waiting import PATIENCE

posix = pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
PAYLOAD = b"seven bytes of code"


def key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "a" / "cache"), 1 << 20)


@pytest.fixture
def entry(cache: Cache) -> Path:
    cache.put(key(), PAYLOAD)
    assert cache.get(key()) == PAYLOAD
    return Path(cache.directory) / key()


def test_entries_come_back(cache: Cache) -> None:
    entries = {key(size): random.Random(size).randbytes(size) for size in (0, 1, 1000, 100_000)}
    assert all([cache.get(name) is None for name in entries])
    for name, data in entries.items():
        cache.put(name, data)
    assert {name: cache.get(name) for name in entries} == entries
    cache.put(key(1), b"new")
    assert cache.get(key(1)) == b"new"
    assert len(os.listdir(cache.directory)) == 4


@posix
def test_others_have_no_access(cache: Cache, entry: Path) -> None:
    assert stat.S_IMODE(os.stat(cache.directory).st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_every_truncation_is_found_and_removed(cache: Cache, entry: Path) -> None:
    whole = entry.read_bytes()
    for length in range(len(whole)):
        cache.put(key(), PAYLOAD)
        os.truncate(entry, length)
        assert cache.get(key()) is None
        assert not entry.exists()
    cache.put(key(), PAYLOAD)
    with entry.open("ab") as file:
        file.write(b"\0")
    assert cache.get(key()) is None


def test_every_flipped_bit_is_found_and_removed(cache: Cache, entry: Path) -> None:
    whole = entry.read_bytes()
    assert len(whole) == HEADER.size + len(PAYLOAD)
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        cache.put(key(), PAYLOAD)
        with entry.open("r+b") as file:
            file.write(damaged)
        assert cache.get(key()) is None
        assert not entry.exists()


def test_an_entry_of_another_key_is_refused(cache: Cache, entry: Path) -> None:
    entry.rename(entry.with_name(key("other")))
    assert cache.get(key("other")) is None
    assert not entry.with_name(key("other")).exists()


@posix
def test_a_symbolic_link_is_removed_and_its_target_left(cache: Cache, entry: Path) -> None:
    target = entry.with_name("elsewhere")
    entry.rename(target)
    entry.symlink_to(target)
    assert cache.get(key()) is None
    assert not entry.is_symlink()
    assert target.exists()


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666])
def test_a_file_that_others_may_open_is_removed(cache: Cache, entry: Path, mode: int) -> None:
    entry.chmod(mode)
    assert cache.get(key()) is None
    assert not entry.exists()


@posix
def test_a_pipe_or_a_folder_is_no_entry(cache: Cache, entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry, 0o600)
    assert cache.get(key()) is None
    entry.unlink(missing_ok=True)
    entry.mkdir()
    assert cache.get(key()) is None
    cache.put(key(), PAYLOAD)
    assert cache.get(key()) is None


@posix
def test_a_file_of_another_owner_is_ignored_and_left(
    cache: Cache, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def foreign(true: Any) -> Any:
        def stat_of_another(path: Any, **options: Any) -> os.stat_result:
            fields = list(true(path, **options))
            fields[stat.ST_UID] += 1
            return os.stat_result(fields)

        return stat_of_another

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", foreign(os.fstat))
        patch.setattr(os, "lstat", foreign(os.lstat))
        assert cache.get(key()) is None
        assert entry.exists()
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", foreign(os.stat))
        assert cache.get(key()) is None
        cache.put(key("new"), PAYLOAD)
    assert cache.get(key("new")) is None
    assert cache.get(key()) == PAYLOAD


@posix
def test_a_folder_that_others_may_write_to_is_not_used(cache: Cache, entry: Path) -> None:
    os.chmod(cache.directory, 0o777)
    assert cache.get(key()) is None
    cache.put(key("new"), PAYLOAD)
    assert os.listdir(cache.directory) == [key()]


@posix
@pytest.mark.parametrize("place", ["/proc/rushlight", "/dev/null/rushlight"])
def test_without_a_folder_nothing_is_kept(place: str) -> None:
    cache = Cache(place)
    cache.put(key(), PAYLOAD)
    assert cache.get(key()) is None


@pytest.mark.parametrize("failing", ["open", "replace", "makedirs", "scandir"])
def test_a_disk_that_refuses_is_no_error(
    cache: Cache, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, refuse)
        cache.put(key(), PAYLOAD)
    assert cache.get(key()) == (PAYLOAD if failing == "scandir" else None)
    if failing == "replace":
        assert os.listdir(cache.directory) == []


def test_a_disk_that_fills_up_leaves_nothing_behind(
    cache: Cache, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: str, data: bytes) -> None:
        Path(path).write_bytes(data[:10])
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(module, "write", fill)
    cache.put(key(), b"other")
    assert os.listdir(cache.directory) == [key()]
    assert cache.get(key()) == PAYLOAD


def test_what_was_used_longest_ago_is_dropped(tmp_path: Path) -> None:
    size = 1000
    cache = Cache(str(tmp_path), 10 * (size + HEADER.size))
    for i in range(10):
        cache.put(key(i), bytes(size))
        os.utime(tmp_path / key(i), (i, i))
    assert cache.get(key(0)) is not None
    cache.put(key(10), bytes(size))
    assert [cache.get(key(i)) is not None for i in range(11)] == [True] + [False] * 3 + [True] * 7
    cache.put(key(11), bytes(11 * size))
    assert cache.get(key(11)) is None
    off = Cache(str(tmp_path), 0)
    off.put(key(12), b"")
    assert off.get(key(10)) is None


def test_many_small_entries_stay_near_the_limit(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path), 100_000)
    for i in range(1000):
        cache.put(key(i), bytes(1000))
    assert 50_000 < sum(path.stat().st_size for path in tmp_path.iterdir()) < 200_000


def test_files_that_nobody_finished_are_dropped(cache: Cache, entry: Path) -> None:
    old, new = (entry.with_name(f"{key()}.{digit * 12}.saving") for digit in "ab")
    old.write_bytes(b"part")
    new.write_bytes(b"part")
    os.utime(old, (1, 1))
    cache.prune()
    assert sorted(os.listdir(cache.directory)) == sorted([key(), new.name])


def test_files_of_other_names_are_left(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path), 1000)
    others = [tmp_path / name for name in ("thesis.txt", "data.saving", key() + ".bak")]
    for other in others:
        other.write_bytes(bytes(5000))
        os.utime(other, (1, 1))
    for i in range(20):
        cache.put(key(i), bytes(100))
    assert all([other.exists() for other in others])
    assert cache.get(key(19)) == bytes(100)


def test_many_threads_write_read_and_prune(tmp_path: Path) -> None:
    cache = Cache(str(tmp_path), 20_000)
    wrong: list[object] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(150):
                name = key(chance.randrange(40))
                data = cache.get(name)
                if data not in (None, name.encode() * 20):
                    wrong.append(data)
                cache.put(name, name.encode() * 20)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000


STORM = """
import hashlib, os, random, signal, sys, time
from rushlight.runtime.store import Cache

def work(seed):
    chance, cache = random.Random(seed), Cache(sys.argv[1], 300_000)
    while True:
        name = hashlib.sha256(bytes([chance.randrange(30)])).hexdigest()
        good = name.encode() * 200
        if cache.get(name) not in (None, good):
            os._exit(1)
        cache.put(name, good)

def start(seed):
    process = os.fork()
    if process == 0:
        work(seed)
    return process

chance = random.Random(0)
running = [start(seed) for seed in range(8)]
for number in range(50):
    time.sleep(chance.random() * 0.02)
    victim = running.pop(chance.randrange(8))
    os.kill(victim, signal.SIGKILL)
    assert os.waitpid(victim, 0)[1] == signal.SIGKILL, "a wrong result"
    running.append(start(8 + number))
for process in running:
    os.kill(process, signal.SIGKILL)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL, "a wrong result"
cache = Cache(sys.argv[1], 300_000)
names = [hashlib.sha256(bytes([i])).hexdigest() for i in range(30)]
assert any([cache.get(name) for name in names])
"""


@posix
def test_processes_that_are_killed_leave_no_wrong_entry(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STORM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_the_name_of_an_entry_keeps_parts_apart() -> None:
    several = [(), ("a",), (b"a",), ("a", "b"), ("ab",), (1, 12), (11, 2), ("1", 12)]
    assert len({digest(*parts) for parts in several}) == len(several)


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", "")
    name = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    base = os.path.abspath("somewhere")
    monkeypatch.setenv(name, base)
    assert folder() == os.path.join(base, "rushlight")
    monkeypatch.setenv(name, "not/absolute")
    assert folder() == os.path.join(os.path.expanduser("~"), ".cache", "rushlight")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert folder() == ""
    cache = Cache(folder())
    cache.put(key(), PAYLOAD)
    assert cache.get(key()) is None
    assert not os.path.exists(key())
