"""What LLVM says about this machine: kept on disk, and only there where it is true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rushlight.config import config
from rushlight.runtime import host
from rushlight.runtime.jit import compile_ir

linux = pytest.mark.skipif(host.circumstances() is None, reason="machines that can be told apart")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path / "cache"))
    return tmp_path / "cache"


def looked_up() -> host.Host:
    return host.host.__wrapped__()


def refuse() -> Any:
    raise AssertionError("LLVM is asked")


@linux
def test_llvm_is_asked_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = looked_up()
    assert first == host.ask()
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(host, "ask", refuse)
    assert looked_up() == first


@linux
@pytest.mark.parametrize("part", range(5))
def test_another_machine_asks_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    looked_up()
    about: Any = host.circumstances()
    about[part] = "another"
    monkeypatch.setattr(host, "circumstances", lambda: about)
    monkeypatch.setattr(host, "ask", refuse)
    with pytest.raises(AssertionError, match="LLVM is asked"):
        looked_up()


@linux
def test_a_damaged_answer_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up()
    (entry,) = folder.iterdir()
    data = entry.read_bytes()
    entry.write_bytes(data.replace(b"+", b"-"))
    monkeypatch.setattr(host, "ask", refuse)
    with pytest.raises(AssertionError, match="LLVM is asked"):
        looked_up()


def test_where_nothing_can_be_told_llvm_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "circumstances", lambda: None)
    assert looked_up() == host.ask()


@linux
def test_llvm_works_after_its_code_was_put_aside() -> None:
    def kilobytes() -> int:
        with open("/proc/self/status") as file:
            (line,) = [line for line in file if line.startswith("RssFile:")]
        return int(line.split()[1])

    compile_ir("define i64 @six() { ret i64 6 }")
    before = kilobytes()
    host.put_aside()
    assert kilobytes() < before - 10_000
    assert compile_ir("define i64 @seven() { ret i64 7 }")
