"""Programs on disk: a damaged, foreign or false entry is compiled anew, never trusted."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.runtime import files
from rushlight.runtime.store import HEADER, Cache, encode
from tests.waiting import PATIENCE

X = rl.arange(12.0).view(3, 4)


def function(x):
    return (x.sin() * 2).sum(1), x @ x.t()


EXPECTED = function(X)


def compiled_now():
    """Compiles the function as a new process would, and checks what it gives."""
    made = rl.compile(function, fullgraph=True)
    for found, expected in zip(made(X), EXPECTED, strict=True):
        rl.testing.assert_close(found, expected)
    (kept,) = made.known.values()
    return kept[0].forward


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, which holds the program."""
    monkeypatch.setattr(rl.config, "cache_dir", str(tmp_path / "cache"))
    assert not compiled_now().was_kept
    assert compiled_now().was_kept
    return tmp_path / "cache"


@pytest.fixture
def entry(folder):
    """The file of the program."""
    return next(path for path in folder.iterdir() if b'"slots"' in path.read_bytes())


def test_cut_anywhere(entry):
    whole = entry.read_bytes()
    for length in (*range(0, HEADER.size + 20, 7), len(whole) // 2, len(whole) - 1):
        entry.write_bytes(whole[:length])
        assert not compiled_now().was_kept
        assert compiled_now().was_kept


@pytest.mark.parametrize("seed", range(3))
def test_bits_flipped(entry, seed):
    draw = random.Random(seed)
    whole = entry.read_bytes()
    for _ in range(6):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        entry.write_bytes(damaged)
        assert not compiled_now().was_kept


def rewritten(entry, payload):
    """Puts other contents into an entry, under a checksum that is right."""
    entry.write_bytes(encode(entry.name, payload))


def described(entry):
    payload = entry.read_bytes()[HEADER.size :]
    size = int.from_bytes(payload[:8], "little")
    return json.loads(payload[8 : 8 + size]), payload[8 + size :]


def with_description(description, code):
    text = json.dumps(description).encode()
    return len(text).to_bytes(8, "little") + text + code


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"x", b"\xff" * 8, b"\xff" * 100, (4).to_bytes(8, "little") + b"null",
        (2).to_bytes(8, "little") + b"{}", (3).to_bytes(8, "little") + b"\xff\xfe\xfd",
        (2).to_bytes(8, "little") + b"[]" + b"code", (10**6).to_bytes(8, "little") + b"{}",
    ],
)  # fmt: skip
def test_garbage_with_the_right_checksum(entry, payload):
    rewritten(entry, payload)
    assert not compiled_now().was_kept
    assert compiled_now().was_kept


@pytest.mark.parametrize("key", ["slots", "steps", "constants", "arena"])
@pytest.mark.parametrize("value", [None, 0.5, "text", [[]], [["kernel"]], [["dance", 1, 2]]])
def test_false_descriptions(entry, key, value):
    description, code = described(entry)
    rewritten(entry, with_description({**description, key: value}, code))
    assert not compiled_now().was_kept


def test_names_of_ops_and_kernels_that_do_not_exist(entry):
    description, code = described(entry)
    for step in description["steps"]:
        step[1] = "nowhere"
    rewritten(entry, with_description(description, code))
    assert not compiled_now().was_kept


def test_code_that_is_none(entry):
    description, _ = described(entry)
    rewritten(entry, with_description(description, b"not a program"))
    assert not compiled_now().was_kept


def test_another_version_of_the_compiler(entry, monkeypatch):
    monkeypatch.setattr(files, "fingerprint", lambda: "of another time")
    assert not compiled_now().was_kept
    assert entry.exists()


def test_permissions(entry):
    entry.chmod(0o644)
    assert not compiled_now().was_kept
    assert entry.stat().st_mode & 0o077 == 0


def test_a_link_is_not_followed(entry, tmp_path):
    moved = entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(moved)
    assert not compiled_now().was_kept
    assert not entry.is_symlink()


@pytest.mark.parametrize("folder", ["/dev/null/none", "/proc/none", ""])
def test_nowhere_to_write(folder, monkeypatch):
    monkeypatch.setattr(rl.config, "cache_dir", folder)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for _ in range(2):
        assert not compiled_now().was_kept


def test_no_cache_at_all(monkeypatch, tmp_path):
    monkeypatch.setattr(rl.config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(rl.config, "cache_limit", 0)
    assert not compiled_now().was_kept
    assert list(tmp_path.iterdir()) == []


def test_entries_of_other_keys_are_not_taken(entry, folder):
    other = "f" * 64
    (folder / other).write_bytes(entry.read_bytes())
    (folder / other).chmod(0o600)
    assert Cache(str(folder)).get(other) is None


PROGRAM = """
    import sys
    import rushlight as rl

    for n in range(1, 9):
        x = rl.arange(float(n * 10)).view(n, 10)
        made = rl.compile(lambda x: (x.sin() * n).sum(1) + x.exp().log().mean(), fullgraph=True)
        expected = (x.sin() * n).sum(1) + x.exp().log().mean()
        rl.testing.assert_close(made(x), expected, rtol=1e-4, atol=1e-4)
    print("right")
"""


@pytest.mark.slow
def test_many_processes_share_a_folder_and_some_are_killed(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    root = str(Path(rl.__file__).parents[1])
    variables = {"RUSHLIGHT_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": root}
    options = {"env": {**os.environ, **variables}, "stdout": subprocess.PIPE, "text": True}
    draw = random.Random(0)
    with contextlib.ExitStack() as started:
        for _ in range(2):
            commands = [[sys.executable, str(script)]] * 8
            processes = [started.enter_context(subprocess.Popen(c, **options)) for c in commands]
            for process in processes:
                started.callback(process.kill)
            for process in processes[::2]:
                time.sleep(draw.random())
                process.kill()
            for process in processes[1::2]:
                assert process.communicate(timeout=PATIENCE)[0] == "right\n"
    assert subprocess.run([sys.executable, str(script)], **options).stdout == "right\n"
