"""Assembly: what becomes a step, and where values lie."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen import chains, fill, recurrent
from rushlight.graph.parse import parse
from rushlight.passes.pipeline import lower
from rushlight.runtime.assembly import build, links_of
from rushlight.runtime.jit import target
from rushlight.runtime.program import CallStep, CopyStep, KernelStep, Program, Slot

F = rl.nn.functional


def program_of(function: Callable[..., Any], *arguments: Any) -> Program:
    return build(*lower(rl.graph(function, *arguments)), target())


def names(program: Program) -> list[str]:
    """The functions of all kernels; those of one program alone are called "own"."""
    steps = [s for s in program.steps if isinstance(s, KernelStep)]
    return [s.name if s.shared else "own" for s in steps]


def used(step: Any) -> set[int]:
    """The slots that a step reads or writes."""
    if isinstance(step, KernelStep):
        return set(step.slots)
    if isinstance(step, CopyStep):
        return {step.source, step.target}
    return {o.slot for o in step.operands if o} | {n for n in step.results if n is not None}


def overlap(a: Slot, b: Slot) -> bool:
    return a.place < b.place + b.nbytes and b.place < a.place + a.nbytes


def network(x: Any, w: Any, v: Any) -> Any:
    y = F.max_pool2d(F.conv2d(x, w, padding=1).relu(), 2)
    z = F.layer_norm(F.conv2d(y, v).flatten(1), (16,))
    return (z @ z.T).softmax(-1), z.sort()[0]


def gradients(x: Any, w: Any, v: Any) -> Any:
    w, v = w.detach().requires_grad_(), v.detach().requires_grad_()
    probabilities, _ = network(x, w, v)
    return rl.autograd.grad(probabilities.square().sum(), (w, v))


OPERANDS = [(3, 2, 8, 8), (4, 2, 3, 3), (4, 4, 3, 3)]


@pytest.mark.parametrize("function", [network, gradients])
def test_values_that_are_alive_together_lie_apart(function: Callable[..., Any]) -> None:
    program = program_of(function, *[rl.ones(shape) for shape in OPERANDS])
    life: dict[int, list[int]] = {}
    for number, step in enumerate(program.steps):
        for slot in used(step):
            if program.slots[slot].where == "arena":
                life.setdefault(slot, []).append(number)
    assert len(life) > 5
    for a, b in combinations(life, 2):
        if overlap(program.slots[a], program.slots[b]):
            assert life[a][-1] < life[b][0] or life[b][-1] < life[a][0]
    assert all([s.place + s.nbytes <= program.arena for s in map(program.slots.__getitem__, life)])


def test_equal_kernels_are_one_function() -> None:
    program = program_of(
        lambda x, y: (x.sort()[0].exp(), y.sort()[0].exp()), rl.ones(9), rl.ones(9)
    )
    own = [s.name for s in program.steps if isinstance(s, KernelStep)]
    assert len(own) == 2
    assert len(program.kernels) == len(set(own)) == 1


def test_only_ops_without_native_code_are_called() -> None:
    program = program_of(lambda x: (x @ x).tanh().sort()[0], rl.ones(40, 40))
    assert [s.op.name for s in program.steps if isinstance(s, CallStep)] == ["sort"]


def test_a_product_and_what_follows_it_are_one_step() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return (x @ w + b).relu()

    operands = [rl.ones(200, 64), rl.ones(64, 48), rl.ones(48)]
    program = program_of(layer, *operands)
    assert names(program)[-1] == chains.NAME
    assert "own" not in names(program)
    (own,) = program.kernels
    assert program.functions == [("contract_f32", True), (own, False)]
    assert links_of(*lower(rl.graph(layer, *operands)), target()) == {0: [1]}


def test_windows_of_a_convolution_are_nowhere_in_memory() -> None:
    x, w = rl.ones(2, 16, 20, 20), rl.ones(8, 16, 5, 5)
    program = program_of(lambda x, w: F.conv2d(x, w, padding=2), x, w)
    assert fill.NAME in names(program)
    assert not [s for s in program.steps if isinstance(s, CallStep)]
    frame = 2 * 24 * 24 * 16
    assert max([np.prod(slot.shape) for slot in program.slots]) == frame
    assert program.arena < 4 * frame * 3 < x.numel() * 25 * 4  # and a weight in wide panels


def test_loops_over_time_are_one_step() -> None:
    net = rl.nn.GRU(5, 7).requires_grad_(False)
    program = program_of(lambda x: net(x)[0], rl.ones(6, 3, 5))
    assert names(program).count(recurrent.NAME) == 1
    assert not [s for s in program.steps if isinstance(s, CallStep)]


def test_outputs_have_memory_of_their_own() -> None:
    text = "graph(%0: f32[5]):\n  %1: f32[5] = exp(%0)\n  return %1, %1, %0"
    program = build(*lower(parse(text)), target())
    outputs = [slot.place for slot in program.slots if slot.where == "output"]
    copies = [s for s in program.steps if isinstance(s, CopyStep)]
    assert outputs == [0, 1, 2]
    assert [program.slots[s.target].place for s in copies] == [1, 2]


def test_tables_are_constants() -> None:
    program = program_of(lambda x: x @ x.T, rl.ones(100, 70))
    steps = [s for s in program.steps if isinstance(s, KernelStep) and s.shared]
    for step in steps:
        tables = [program.slots[n] for n in step.slots if program.slots[n].where == "constant"]
        assert [program.constants[t.place].dtype for t in tables] == [np.int64]


def test_an_operand_that_two_products_read_is_packed_once() -> None:
    def both(a: Any, b: Any, c: Any) -> Any:
        return a @ c.T, b @ c.T

    a, b, c = rl.ones(200, 300), rl.ones(250, 300), rl.ones(160, 300)
    found = names(program_of(both, a, b, c))
    alone = names(program_of(lambda a, c: a @ c.T, a, c))
    packs = [len([n for n in steps if n.startswith("pack_")]) for steps in (found, alone)]
    assert packs == [1, 1]


def test_an_operand_that_changes_is_packed_again() -> None:
    w = rl.ones(300, 160)

    def changed(a: Any, b: Any) -> Any:
        y = a @ w
        w.mul_(y.sum() * 0 + 2)
        return y, b @ w

    a, b = rl.ones(200, 300), rl.ones(250, 300)
    y, z = rl.compile(changed, fullgraph=True)(a, b)
    assert (y[0, 0].item(), z[0, 0].item()) == (300, 600)


def test_linear_layers_of_permuted_inputs_call_no_library() -> None:
    layer = rl.nn.Linear(24, 16)

    def step(x: Any) -> Any:
        y = layer(x.transpose(0, 1)).transpose(0, 1)
        return rl.autograd.grad(y.square().sum(), (x, layer.weight, layer.bias))

    x = rl.randn(3, 5, 24, requires_grad=True)
    steps = program_of(step, x).steps
    assert not [s for s in steps if isinstance(s, CallStep)]
    for a, b in zip(rl.compile(step, fullgraph=True)(x), step(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_made_of_a_product_alone_takes_its_place() -> None:
    w = rl.ones(64, 48)
    y = rl.zeros(200, 48)

    def kept(x: Any) -> Any:
        product = x @ w
        y.copy_(product)
        return product.relu() * 3

    x = rl.randn(200, 64)
    program = program_of(lambda x: ((x @ w).relu() * 3).sum(0), x)
    assert program.arena < 2 * 200 * 48 * 4
    z = rl.compile(kept, fullgraph=True)(x)
    np.testing.assert_allclose(y.numpy(), x.numpy() @ w.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(z.numpy(), np.maximum(y.numpy(), 0) * 3, rtol=1e-4, atol=1e-4)
