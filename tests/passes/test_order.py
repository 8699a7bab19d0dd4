"""The plan: what is stored in place, what must not be, and how much is alive."""

from __future__ import annotations

from rushlight.graph.ir import interpret
from rushlight.passes.fuse import Group
from rushlight.passes.order import plan
from tests.passes.graphs import Maker, equal, execute


def stored(make: Maker, *writes, outputs=()) -> set[str]:
    graph = make.graph(*outputs, writes=writes)
    steps = plan(graph)
    assert equal(execute(graph, steps, *make.arguments()), interpret(graph, *make.arguments()))
    return {graph.names[target] for target in steps.stores.values()}


def test_an_update_is_stored_in_place():
    make = Maker()
    p, g = make.capture(4, 6), make.input(4, 6)
    assert stored(make, (p, make("sub", p, g))) == {"c0"}


def test_an_output_is_no_captured_memory():
    make = Maker()
    p, g = make.capture(4, 6), make.input(4, 6)
    new = make("sub", p, g)
    assert stored(make, (p, new), outputs=[new]) == set()


def test_readers_of_the_old_value_run_first():
    make = Maker()
    p, g = make.capture(6, 6), make.input(6, 6)
    old = make("mm", p, g)
    assert stored(make, (p, make("exp", g)), outputs=[old]) == {"c0"}


def test_a_value_that_its_old_reader_needs_is_copied_later():
    make = Maker()
    p, g = make.capture(6, 6), make.input(6, 6)
    new = make("exp", make("mm", g, g))
    late = make("mm", p, new)  # reads the old value, but after the new one
    assert stored(make, (p, new), outputs=[late]) == set()


def test_reading_at_another_index_forbids_storing_in_place():
    make = Maker()
    p = make.capture(6, 6)
    assert stored(make, (p, make("add", p, make("permute", p, dims=(1, 0))))) == set()
    make = Maker()
    p = make.capture(8, 6)
    half = make("slice", p, dim=1, start=0, end=1, step=1)
    assert stored(make, (p, make("mul", p, half))) == set()


def test_computing_again_at_another_index_forbids_it_too():
    make = Maker()
    p = make.capture(6, 6)
    new = make("add", p, make.constant(1.0))
    turned = make("neg", make("permute", new, dims=(1, 0)))
    graph = make.graph(turned, writes=[(p, new)])
    steps = plan(graph)
    assert equal(execute(graph, steps, *make.arguments()), interpret(graph, *make.arguments()))
    for step in steps.steps:
        if isinstance(step, Group) and turned in step.nodes and new in step.outputs:
            assert new not in steps.stores


def test_an_old_value_that_is_an_output_stays():
    make = Maker()
    a, b = make.capture(4), make.capture(4)
    new = make("exp", b)
    assert stored(make, (a, new), outputs=[a]) == set()
    make = Maker()
    a, b = make.capture(4), make.capture(4)
    assert stored(make, (b, a), (a, make("exp", b))) == set()


def test_two_tensors_written_with_one_value():
    make = Maker()
    a, b = make.capture(4), make.capture(4)
    new = make("add", a, b)
    assert len(stored(make, (a, new), (b, new))) == 1


def test_swapping_two_tensors():
    make = Maker()
    a, b = make.capture(4), make.capture(4)
    one = make.constant(1.0)
    found = stored(make, (a, make("mul", b, one)), (b, make("add", a, one)))
    assert len(found) <= 2


def test_gradients_are_used_up_as_they_come():
    """All products first would keep twenty large values; in turn, two or three."""
    make = Maker()
    x = make.input(64, 64)
    writes = []
    for _ in range(20):
        p = make.capture(64, 64)
        writes.append((p, make("sub", p, make("mm", x, make.capture(64, 64)))))
    steps = plan(make.graph(writes=writes)).steps
    alive = most = 0
    for step in steps:
        alive += 1 if not isinstance(step, Group) else -1
        most = max(most, alive)
    assert most <= 2
