"""Products of gathered rows: the table is multiplied, and then gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.passes import gathered

ROWS, WIDTH, BATCH, STEPS = 6, 5, 8, 9


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "LARGE", 1)


def step_of(
    batch_first: bool, rows: int = ROWS, linear: bool = False
) -> tuple[Callable[..., Any], list[Any]]:
    """A function of indices, table and weight: a product of gathered rows, and all gradients."""
    index = rl.randint(0, rows - 1, (BATCH, STEPS))  # the last row is never used
    table = rl.randn(rows, WIDTH, dtype=rl.float64, requires_grad=True)
    weight = rl.randn(WIDTH, 7, dtype=rl.float64, requires_grad=True)

    def step(index: Any, table: Any, weight: Any) -> tuple[Any, ...]:
        x = rl.nn.functional.embedding(index, table)
        x = x if batch_first else x.transpose(0, 1)
        x = x.reshape(-1, WIDTH)
        y = rl.nn.functional.linear(x, weight.T.contiguous()) if linear else x @ weight
        return (y, *rl.autograd.grad((y * y.cos()).sum(), [table, weight]))

    return step, [index, table, weight]


def largest(step: Callable[..., Any], operands: list[Any]) -> int:
    """The most multiply-adds that a product of the compiled function has."""
    explanation = rl.compile(step, fullgraph=True).explain(*operands)
    products = [s for s in explanation.steps if s.what.startswith("mm")]
    return max([s.cost.flops or 0 for s in products]) // 2


def agree(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch_first", [True, False], ids=["straight", "transposed"])
@pytest.mark.parametrize("linear", [True, False], ids=["linear", "product"])
def test_each_row_of_the_table_is_multiplied_once(batch_first: bool, linear: bool) -> None:
    step, operands = step_of(batch_first, linear=linear)
    agree(rl.compile(step, fullgraph=True)(*operands), step(*operands))
    assert largest(step, operands) < 2 * ROWS * WIDTH * 7


def test_a_large_table_is_not_multiplied() -> None:
    step, operands = step_of(True, rows=BATCH * STEPS)
    agree(rl.compile(step, fullgraph=True)(*operands), step(*operands))
    assert largest(step, operands) >= BATCH * STEPS * WIDTH * 7


@pytest.mark.parametrize("bad", [float("nan"), float("inf")], ids=str)
def test_unused_rows_do_no_harm(bad: float) -> None:
    step, operands = step_of(False)
    with rl.no_grad():
        operands[1][-1] = bad  # a row of the table that nobody asks for
    found = rl.compile(step, fullgraph=True)(*operands)
    agree(found, step(*operands))
    assert found[2].isfinite().all()
    operands[1].data[-1], operands[2].data[0] = 0.0, bad  # a weight that spoils all used rows
    found, wanted = rl.compile(step, fullgraph=True)(*operands), step(*operands)
    assert found[1][-1].tolist() == wanted[1][-1].tolist() == [0.0] * WIDTH
    assert found[0].isnan().equal(wanted[0].isnan())


def test_indices_are_checked_as_before() -> None:
    step, operands = step_of(False)
    operands[0] = operands[0].clone()
    operands[0][0, 0] = ROWS
    with pytest.raises(IndexError) as wanted:
        step(*operands)
    with pytest.raises(IndexError) as found:
        rl.compile(step, fullgraph=True)(*operands)
    assert str(found.value) == str(wanted.value)


def test_ignored_rows_and_rare_ones_keep_their_gradients() -> None:
    _, (index, table, weight) = step_of(False)

    def step(index: Any, table: Any, weight: Any) -> tuple[Any, ...]:
        x = rl.nn.functional.embedding(index, table, padding_idx=1, scale_grad_by_freq=True)
        y = x.reshape(-1, WIDTH) @ weight
        return (y, *rl.autograd.grad((y * y.cos()).sum(), [table, weight]))

    agree(rl.compile(step, fullgraph=True)(index, table, weight), step(index, table, weight))


@pytest.mark.parametrize("batch_first", [True, False], ids=["straight", "transposed"])
def test_texts_of_any_length_have_one_program(batch_first: bool) -> None:
    step, (_, table, weight) = step_of(batch_first)
    compiled = rl.compile(step, fullgraph=True, dynamic=True)
    for batch, steps in ((BATCH, STEPS), (3, 20), (1, 1), (2, 13)):
        index = rl.randint(0, ROWS - 1, (batch, steps))
        agree(compiled(index, table, weight), step(index, table, weight))
