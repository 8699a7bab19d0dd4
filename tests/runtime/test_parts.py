"""Parts of programs: kernels and works that are made once, and heard of early."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.passes.pipeline import lower
from rushlight.runtime.assembly import build
from rushlight.runtime.jit import target
from rushlight.runtime.parts import Parts
from rushlight.runtime.program import KernelStep
from rushlight.runtime.workshop import Workshop


def layers(x: Any, *weights: Any) -> Any:
    for weight in weights:
        x = (x @ weight).exp().softmax(1)
    return x


WEIGHTS = [rl.ones(64, 64) for _ in range(3)]


def test_layers_that_are_alike_share_functions_and_tables() -> None:
    graph, plan = lower(rl.graph(layers, rl.ones(64, 64), *WEIGHTS))
    program = build(graph, plan, target())
    one = build(*lower(rl.graph(layers, rl.ones(64, 64), WEIGHTS[0])), target())
    assert program.kernels == one.kernels
    assert len(program.constants) <= len(one.constants) + 3
    assert len([s for s in program.steps if isinstance(s, KernelStep)]) >= 3


def test_a_kernel_has_one_name_for_one_grain() -> None:
    _, plan = lower(rl.graph(lambda x: x.exp().sum(0), rl.ones(9, 64)))
    parts = Parts(plan, target())
    (kernel,) = parts.loops(0).kernels
    names = [parts.name_of(kernel, grain) for grain in (1, 64, 1, 64)]
    assert names[:2] == names[2:]
    assert set(parts.kernels) == set(names)
    assert len(set(names)) == 2
    with_rest, without = [parts.kernels[name] for name in names[:2]]
    assert len(without) < len(with_rest)


def test_a_workshop_hears_of_all_parts() -> None:
    graph, plan = lower(rl.graph(layers, rl.ones(64, 64), *WEIGHTS))
    with Workshop() as workshop:
        program = build(graph, plan, target(), workshop)
        assert set(program.kernels) <= workshop.asked
        modules = workshop.modules(program)
    assert set(program.kernels) <= {name for module in modules for name in module.names}
