"""Every op is seen by a profile, and what is said of it can be counted."""

from __future__ import annotations

import contextlib
import warnings

import pytest

import rushlight as rl
from rushlight.ops import registry
from rushlight.profiler import report
from tests.sampling import Maker, flat

OPS = sorted(registry)


def run_samples(name, call):
    """Runs the samples of an op forward and, where that can be, backward."""
    op = registry[name]
    for sample in op.samples:
        maker = Maker(rl.float32, grad=True)
        args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
        with contextlib.suppress(Exception):
            y = call(op)(*args, **kwargs)
            roots = [t for t in flat(y) if t.requires_grad and not t.is_complex()]
            if roots:
                rl.autograd.backward(roots, [rl.ones_like(t) for t in roots])


@pytest.fixture(scope="module")
def entries():
    rl.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rl.profile() as p:
            for name in OPS:
                run_samples(name, lambda op: op.call)
    return p.entries


class TestAllOps:
    def test_each_has_events(self, entries):
        seen = {entry.event.op.full_name for entry in entries if entry.event.op is not None}
        assert [name for name in OPS if registry[name].samples and name not in seen] == []

    def test_each_derivative_has_events(self, entries):
        names = {entry.name for entry in entries}
        for op in ("mm", "tanh", "mul", "convolve", "attention", "index_select", "cumsum"):
            assert f"backward of {op}" in names
        assert len([name for name in names if name.startswith("backward of ")]) > 150

    def test_costs_are_sensible(self, entries):
        for entry in entries:
            if entry.cost is not None:
                assert entry.cost.moved >= 0
                assert entry.cost.flops is None or entry.cost.flops >= 0
            assert sum(entry.lines.values()) == pytest.approx(1)

    @pytest.mark.parametrize("group", report.GROUPS)
    def test_rows_add_up(self, entries, group):
        if group != "kernel":
            whole = sum([entry.event.own for entry in entries])
            assert sum([row.own for row in report.rows_of(entries, group)]) == pytest.approx(whole)

    def test_an_op_that_a_program_holds(self):
        held, x = registry["cumsum"].call, rl.ones(3)
        with rl.profile() as p:
            held(x, 0)
        assert [row.key for row in p.averages()] == ["cumsum"]
