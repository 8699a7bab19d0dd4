"""Programs on disk: what their names depend on, and that they are read as they were written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.passes.pipeline import lower
from rushlight.runtime import files
from rushlight.runtime.assembly import build
from rushlight.runtime.jit import target


def step(x: Any, w: Any) -> Any:
    return rl.nn.functional.conv2d(x, w, padding=1).flatten(1).sort()[0] @ w.flatten()[:16]


def test_an_entry_is_read_as_it_was_written() -> None:
    graph, plan = lower(rl.graph(step, rl.ones(2, 3, 2, 2), rl.ones(4, 3, 3, 3)))
    program = build(graph, plan, target())
    found, code = files.decode(files.encode(program, b"object code"))
    assert code == b"object code"
    assert found.slots == program.slots
    assert found.steps == program.steps
    assert found.functions == program.functions
    assert found.arena == program.arena
    for a, b in zip(found.constants, program.constants, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype


def test_lines_have_no_part_in_a_name() -> None:
    one = rl.graph(lambda x: x.exp(), rl.ones(3))
    other = rl.graph(lambda x: rl.exp(x), rl.ones(3))
    assert files.key(one) == files.key(other)


def test_a_program_is_kept_for_the_width_of_its_registers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = rl.graph(lambda x: x.exp(), rl.ones(3))
    keys = [files.key(graph)]
    machine = files.target()
    monkeypatch.setattr(files, "target", lambda: replace(machine, vector_bytes=48))
    keys.append(files.key(graph))
    assert len(set(keys)) == 2


def test_a_program_is_kept_for_its_number_of_threads() -> None:
    """Loops over time have a part for each thread: those of one would leave the others idle."""
    graph, before = rl.graph(lambda x: x.exp(), rl.ones(3)), rl.get_num_threads()
    try:
        keys = []
        for threads in (1, 2):
            rl.set_num_threads(threads)
            keys.append(files.key(graph))
    finally:
        rl.set_num_threads(before)
    assert keys[0] != keys[1]
