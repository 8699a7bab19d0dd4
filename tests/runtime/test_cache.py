"""Object code on disk: what its name holds, and that it is compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from rushlight.config import config
from rushlight.runtime import cache as module
from rushlight.runtime.cache import folder, key_of, object_code
from rushlight.runtime.host import target


def test_the_key_has_all_that_decides_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({key_of(), key_of("a"), key_of(b"a"), key_of("a", "b"), key_of("ab")}) == 5
    before = key_of("a")
    with monkeypatch.context() as patch:
        patch.setattr(config, "vector_bytes", 16 if target().vector_bytes > 16 else 32)
        assert key_of("a") != before
    with monkeypatch.context() as patch:
        patch.setattr(module, "RELEASE", "another")
        assert key_of("a") != before
    with monkeypatch.context() as patch:
        patch.setattr(module, "llvm_version", lambda: "another")
        assert key_of("a") != before
    assert key_of("a") == before


def test_object_code_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path / "codes"))
    assert folder() == str(tmp_path / "codes")
    text = "define i64 @seven() { ret i64 7 }"
    code = object_code(text)
    monkeypatch.setattr(module, "compile_ir", None)
    assert object_code(text) == code
