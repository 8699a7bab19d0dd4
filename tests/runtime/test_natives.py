"""Functions that all programs share: one for each name, compiled once, kept on disk."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from rushlight.codegen import fill
from rushlight.codegen.native import table
from rushlight.config import config
from rushlight.runtime import cache, natives

SHARED = ["fill_u8", "chain_u8", "recur_u8", "contract_f32", "contract_f64"]


def call(address: int, begin: int, end: int, *arrays: np.ndarray) -> None:
    """Runs some parts of a function over its buffers."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    buffers = np.array([array.ctypes.data for array in arrays], np.int64)
    kind(address)(buffers.ctypes.data, begin, end)


@pytest.mark.parametrize("name", SHARED)
def test_a_function_is_compiled_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = natives.address(name)
    natives.library(name, natives.registers())  # on disk, whatever folder it was made in

    def refuse(*_: object) -> bytes:
        raise AssertionError(f"{name} is compiled again")

    monkeypatch.setattr(cache, "compile_ir", refuse)
    assert natives.address(name) == first
    again = natives.library(name, natives.registers())  # from disk, at another place
    assert again.address(name) != first


def test_functions_have_addresses_of_their_own() -> None:
    assert len({natives.address(name) for name in SHARED}) == len(SHARED)


@pytest.mark.parametrize("name", ["nothing_f32", "pack_f32", "contract_text"])
def test_a_name_that_there_is_not_is_an_error(name: str) -> None:
    with pytest.raises((KeyError, ValueError, IndexError, RuntimeError)):
        natives.address(name)


def test_a_function_runs_the_parts_it_is_asked_for() -> None:
    numbers = dict.fromkeys(fill.FIELDS, 0) | {"run": 4, "middle_count": 1, "inner_count": 6}
    numbers |= {"inner_step": 8, "offset": 2}
    target = np.full(64, 7, np.uint8)
    call(natives.address(fill.NAME), 2, 5, target, table(fill.FIELDS, numbers, {}))
    zeros = np.flatnonzero(target == 0).tolist()
    assert zeros == [2 + 8 * part + n for part in (2, 3, 4) for n in range(4)]


def test_a_function_needs_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_limit", 0)
    assert natives.library("fill_u8", natives.registers()).address("fill_u8")


def test_registers_are_those_of_the_machine() -> None:
    found = natives.registers()
    assert found.bytes in (16, 32, 64)
    assert found.count in (16, 32)
