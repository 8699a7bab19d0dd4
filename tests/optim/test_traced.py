"""Steps of optimizers in graphs: one update is traced for parameters of one kind."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl

OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda ps: rl.optim.SGD(ps, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "first sgd": lambda ps: rl.optim.SGD(ps, 0.1, momentum=0.9, maximize=True),
    "adam": lambda ps: rl.optim.Adam(ps, 0.01, amsgrad=True, weight_decay=0.01),
    "adamw": lambda ps: rl.optim.AdamW(ps, 0.01, maximize=True),
    "rprop": lambda ps: rl.optim.Rprop(ps, 0.01),
}


def parameters() -> list[Any]:
    rl.manual_seed(0)
    shapes = [(3, 4), (5,), (), (1,), (4, 3), (), (0, 2), (3, 4)]
    found = [rl.randn(shape) for shape in shapes]
    found += [rl.randn(4, 3).t(), rl.randn(6, dtype=rl.float64), rl.randn(7).to(rl.bfloat16)]
    found += [rl.randn(3, dtype=rl.complex64), rl.randn(5).to(rl.bfloat16)]
    return [p.requires_grad_() for p in found]


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_parameters_of_all_kinds_get_their_own_values(name: str) -> None:
    results = []
    for compiled in (False, True):
        ps = parameters()
        optimizer = OPTIMIZERS[name](ps)

        def step(ps: Any = ps, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            sum([(p * p).abs().float().sum() for p in ps]).backward()
            optimizer.step()

        run = rl.compile(step, fullgraph=True) if compiled else step
        for _ in range(3):
            run()
        state = [value for p in ps for _, value in sorted(optimizer.state[p].items())]
        results.append([*ps, *[s for s in state if isinstance(s, rl.Tensor)]])
    for ours, theirs in zip(*results, strict=True):
        rl.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-6)


def test_the_update_is_traced_once_for_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    ps = [rl.randn(size, requires_grad=True) for size in (3, 4, 5, 6)]
    ps.append(rl.tensor(1.0, requires_grad=True))
    optimizer, calls, update = rl.optim.Adam(ps), [], rl.optim.Adam.update

    def counted(self: Any, p: Any, *rest: Any) -> Any:
        calls.append(p.shape)
        return update(self, p, *rest)

    monkeypatch.setattr(rl.optim.Adam, "update", counted)

    def step() -> None:
        optimizer.zero_grad()
        sum([(p * p).sum() for p in ps]).backward()
        optimizer.step()

    graph = rl.graph(step)
    assert calls == [(3,), ()]
    targets = {node.type.shape for node, _ in graph.writes}
    assert targets == {(3,), (4,), (5,), (6,), ()}


def test_an_update_that_looks_at_whole_parameters_is_traced_for_each() -> None:
    class Normalized(rl.optim.SGD):
        def update(self, p: Any, g: Any, state: Any, group: Any) -> Any:
            return p - group["lr"] * g / g.abs().max(), {}

    runs = []
    for compiled in (False, True):
        rl.manual_seed(0)
        ps = [rl.randn(size, requires_grad=True) for size in (3, 4)]
        optimizer = Normalized(ps, 0.1)
        optimizer.elementwise = False

        def step(ps: Any = ps, optimizer: Any = optimizer) -> None:
            optimizer.zero_grad()
            sum([(p * p).sum() for p in ps]).backward()
            optimizer.step()

        (rl.compile(step, fullgraph=True) if compiled else step)()
        runs.append(ps)
    for ours, theirs in zip(*runs, strict=True):
        rl.testing.assert_close(ours.detach(), theirs.detach())
