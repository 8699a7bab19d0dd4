"""The proof that native code stays inside its memory holds, and is not too generous."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.microkernel import Registers
from rushlight.codegen.products import place_of, product_works
from rushlight.codegen.tiling import Works
from rushlight.graph.ir import Graph
from rushlight.ops import channels_last
from rushlight.passes.pipeline import lower
from rushlight.runtime.assembly import build
from rushlight.runtime.jit import target
from rushlight.runtime.natives import registers
from rushlight.runtime.program import CopyStep, JumpStep, KernelStep, Program, RowStep, Slot
from rushlight.runtime.verify import OutOfBounds, around, verify, verify_works

F = rl.nn.functional
ROOT = Path(__file__).parents[2]
NARROW, WIDE = Registers(16, 16, True), Registers(64, 32, True)
PRODUCTS = {
    "packed": ("mk", "kn", (200, 300), (300, 50), np.float32),
    "where it lies": ("mk", "kn", (9, 70), (70, 45), np.float64),
    "copied": ("mk", "kn", (100, 600), (600, 700), np.float32),
    "a row": ("mk", "kn", (1, 90), (90, 130), np.float32),
    "dot products": ("mk", "nk", (3, 500), (21, 500), np.float32),
    "turned": ("km", "kn", (300, 129), (300, 5), np.float32),
    "long sums": ("km", "kn", (40000, 9), (40000, 11), np.float64),
    "halves": ("mk", "kn", (70, 33), (33, 65), np.float16),
    "batches": ("bmk", "bkn", (3, 17, 9), (3, 9, 21), np.float32),
    "no sums": ("mk", "kn", (3, 0), (0, 5), np.float32),
}


def planned(name: str, available: Registers) -> tuple[Works, dict[str, np.ndarray]]:
    of_a, of_b, left, right, dtype = PRODUCTS[name]
    a, b = np.zeros(left, dtype), np.zeros(right, dtype)
    sizes = dict(zip(of_a + of_b, left + right, strict=True))
    of_y = "bmn" if "b" in of_a else "mn"
    y = np.zeros([sizes[x] for x in of_y], dtype)
    places = [place_of(x, x) for x in (a, b, y)]
    kind = {"float32": "f32", "float64": "f64", "float16": "f16"}[a.dtype.name]
    works = product_works((of_a, of_b, of_y), *places, kind, available)
    assert works is not None
    return works, {"a": a, "b": b, "y": y}


@pytest.mark.parametrize("available", [NARROW, WIDE, None], ids=["16", "64", "own"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_reach_all_of_their_memory_and_no_more(
    name: str, available: Registers | None
) -> None:
    machine = available or registers()
    works, operands = planned(name, machine)
    verify_works(works, operands, machine)
    for which, array in operands.items():
        if array.size:
            with pytest.raises(OutOfBounds, match="it reaches bytes"):
                verify_works(works, {**operands, which: array.ravel()[1:]}, machine)
    for which in works.space:
        works.space[which] -= 1
        with pytest.raises(OutOfBounds, match="it reaches bytes"):
            verify_works(works, operands, machine)
        works.space[which] += 1


def test_arrays_whose_strides_are_negative() -> None:
    array = np.zeros((4, 5))[::-1, 1:4]
    memory = around(array)
    assert (memory.before, memory.after) == (3 * 40, 3 * 8)


def convolutions(x: Any, w: Any, v: Any) -> Any:
    y = F.conv2d(F.pad(F.conv2d(x, w, padding=1).relu(), (1, 2, 0, 1)), v, stride=2)
    return rl.autograd.grad(y.square().sum(), (x, w, v))


def in_tiles(x: Any, w: Any) -> Any:
    with patch.object(channels_last, "tile_of", lambda *_: 4):
        y = F.conv2d(x, w, padding=1)
        return y, *rl.autograd.grad(y.square().sum(), (x, w))


def recurrent(x: Any) -> Any:
    layer = rl.nn.LSTM(5, 7, bidirectional=True)
    y, _ = layer(x)
    return rl.autograd.grad(y.square().sum(), (x, *layer.parameters()))


def attention(q: Any, k: Any, v: Any) -> Any:
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y, *rl.autograd.grad(y.square().sum(), (q, k, v))


def chained(x: Any, w: Any) -> Any:
    return (x @ w).softmax(-1)


# Functions that must be among the steps, and whether nothing else is called by them: the memory of
# a program's own kernels is not looked at.
PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], set[str], bool]] = {
    "convolutions": (
        convolutions,
        [(2, 5, 12, 12), (16, 5, 3, 3), (6, 16, 3, 3)],
        {"contract", "pack"},
        True,
    ),
    "in tiles": (in_tiles, [(2, 16, 9, 11), (32, 16, 3, 3)], {"winograd", "contract"}, True),
    "recurrent": (recurrent, [(6, 9, 5)], {"recur", "pack"}, False),
    "attention": (attention, [(2, 800, 40)] * 3, {"nest", "fill"}, True),
    "chained": (chained, [(200, 64), (64, 48)], {"chain"}, False),
}


def program_of(name: str) -> Program:
    function, shapes, _, _ = PROGRAMS[name]
    xs = [rl.ones(shape, requires_grad=True) for shape in shapes]
    graph: Graph = rl.graph(function, *xs)
    return build(*lower(graph), target())


def tables(program: Program) -> set[int]:
    """The slots that are no memory of values."""
    kinds = ("function", "constant")
    return {n for n, slot in enumerate(program.slots) if slot.where in kinds}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_reach_all_of_their_memory_and_no_more(name: str) -> None:
    _, _, functions, exact = PROGRAMS[name]
    program = program_of(name)
    verify(program, registers())
    steps = [step for step in program.steps if isinstance(step, KernelStep) and step.shared]
    assert functions <= {step.name.split("_")[0] for step in steps}
    memory = {slot for step in steps for slot in step.slots} - tables(program)
    refused = {number for number in memory if not holds(less(program, number))}
    assert refused == memory if exact else refused


def less(program: Program, number: int) -> Program:
    """The program with an element less in one of its slots."""
    slots = list(program.slots)
    slot = slots[number]
    slots[number] = slot._replace(shape=(slot.nbytes // slot.dtype.itemsize - 1,))
    return replace(program, slots=slots)


def holds(program: Program) -> bool:
    try:
        verify(program, registers())
    except OutOfBounds:
        return False
    return True


def test_other_steps_and_the_arena() -> None:
    small, large = Slot("arena", 0, (3,), np.dtype("f4")), Slot("input", 0, (4,), np.dtype("f4"))
    assert holds(Program([small, large], [CopyStep(0, 1)], arena=12))
    assert not holds(Program([small, large], [CopyStep(0, 1)], arena=11))
    assert not holds(Program([small, large], [CopyStep(1, 0)], arena=12))
    assert holds(Program([small, large], [RowStep(0, 1, 0, 4, 4, 12)], arena=12))
    assert not holds(Program([small, large], [RowStep(0, 1, 0, 4, 4, 16)], arena=12))
    assert not holds(Program([small._replace(where="kept")], kept=11))
    assert not holds(Program([small], [JumpStep(0, 1, 2)], arena=12))


def test_lists_that_are_not_in_the_table() -> None:
    works, operands = planned("batches", registers())
    last = works.list[-1]
    works.list[-1] = last._replace(table=last.table[:-1])
    with pytest.raises(OutOfBounds, match="are not in its table"):
        verify_works(works, operands, registers())


def test_a_function_without_a_rule() -> None:
    program = Program(steps=[KernelStep("unheard_f32", (), 1, 1, 0, 0, True)])
    with pytest.raises(OutOfBounds, match="there is no rule for the memory of unheard_f32"):
        verify(program, registers())


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected in another way there")
def test_native_code_stays_between_protected_pages() -> None:
    command = [sys.executable, "-m", "tests.runtime.guarded"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
