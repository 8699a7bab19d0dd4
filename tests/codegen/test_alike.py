"""Groups that are alike: what makes them so, and whose values their kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.alike import Alike, form
from rushlight.passes.fuse import Group
from rushlight.passes.pipeline import lower


def groups(function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[Any]:
    _, plan = lower(rl.graph(function, *[rl.ones(*shape) for shape in shapes]))
    return [step for step in plan.steps if isinstance(step, Group)]


def forms(function: Callable[..., Any], *shapes: tuple[int, ...]) -> set[Any]:
    return {form(group)[0] for group in groups(function, *shapes)}


def test_layers_that_are_alike_have_their_kernels_in_common() -> None:
    found = groups(lambda x, y: (x.exp().sum(1), y.exp().sum(1)), (3, 4), (3, 4))
    alike = Alike()
    (kernels, first), (others, second) = [alike.lower(group) for group in found]
    assert kernels is others
    assert first.keys() == second.keys()
    for group, meant in zip(found, (first, second), strict=True):
        assert set(group.outputs) <= set(meant.values())
        assert set(group.inputs) <= set(meant.values())
    (kernel,) = kernels
    assert {first[b.node] for b in kernel.outputs if b.node} == set(found[0].outputs)
    assert {second[b.node] for b in kernel.outputs if b.node} == set(found[1].outputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (x.exp().sum(1), y.cos().sum(1)),
        lambda x, y: (x.exp().sum(1), y.exp().sum(0)),
        lambda x, y: (x.exp().sum(1), y.exp().sum(1, keepdim=True) * 2),
        lambda x, y: ((x * 2).sum(1), (y * 3).sum(1)),
        lambda x, y: ((x * x).sum(1), (y * y.exp()).sum(1)),
        lambda x, y: (x.clamp(0, 1).sum(1), y.clamp(0, 2).sum(1)),
        lambda x, y: (x.double().sum(1), y.sum(1)),
    ],
)
def test_what_differs_is_not_alike(function: Callable[..., Any]) -> None:
    assert len(forms(function, (3, 4), (3, 4))) == 2


def test_sizes_are_part_of_the_form() -> None:
    assert len(forms(lambda x, y: (x.exp().sum(1), y.exp().sum(1)), (3, 4), (3, 5))) == 2


def test_what_takes_an_inputs_memory_is_part_of_the_form() -> None:
    (group,) = groups(lambda x: x.exp() + 1, (3, 4))
    assert form(group)[0] != form(group, group.outputs)[0]


def test_programs_of_many_equal_layers_are_right() -> None:
    rl.manual_seed(0)
    layers = [rl.nn.Sequential(rl.nn.LayerNorm(8), rl.nn.Linear(8, 8), rl.nn.GELU())] * 2
    layers += [rl.nn.Sequential(rl.nn.LayerNorm(8), rl.nn.Linear(8, 8), rl.nn.GELU())]
    model = rl.nn.Sequential(*layers)
    x = rl.randn(4, 8)

    def gradients(run: Callable[..., Any]) -> list[np.ndarray]:
        model.zero_grad()
        run(x).square().sum().backward()
        return [p.grad.numpy().copy() for p in model.parameters()]

    for own, other in zip(gradients(model), gradients(rl.compile(model)), strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-4, atol=1e-5)
