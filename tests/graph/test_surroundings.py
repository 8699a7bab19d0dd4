"""Python's state around branches and loops that tensors decide: changed there, it is refused."""

from __future__ import annotations

import inspect
import itertools
import re
import warnings
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.symbol import TraceError


class Counter:
    n = 0

    def hit(self) -> Counter:
        self.n += 1  # here, in a method
        return self


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class Tally(dict):
    """A container with an attribute."""

    n = 0


def increase(entries: Any) -> None:
    entries["n"] += 1  # here, in a function


def halves() -> Any:
    while True:
        yield 0.5


class Changed:
    """Functions that change state where tensors decide; the line is marked."""

    @staticmethod
    def attribute(x):
        o = SimpleNamespace(n=0)
        if x.sum() > 0:
            o.n = 7  # here
        return x * o.n

    @staticmethod
    def attribute_that_is_new(x):
        o = SimpleNamespace()
        while x.norm() > 1:
            o.n = 2  # here
            x = x * 0.5
        return x * getattr(o, "n", 1)

    @staticmethod
    def attribute_that_is_deleted(x):
        o = SimpleNamespace(n=0)
        if x.sum() > 0:
            del o.n  # here
        return x * getattr(o, "n", 1)

    @staticmethod
    def attribute_by_reflection(x):
        o = SimpleNamespace(n=0)
        if x.sum() > 0:
            setattr(o, "n", 1)  # noqa: B010
        return x * o.n

    @staticmethod
    def attribute_of_an_attribute(x):
        o = SimpleNamespace(inner=Counter())
        if x.sum() > 0:
            o.inner.n = 7  # here
        return x * o.inner.n

    @staticmethod
    def slot(x):
        o = Slotted()
        if x.sum() > 0:
            o.n = 7  # here
        return x * o.n

    @staticmethod
    def tensors_in_a_loop(x):
        o = SimpleNamespace(t=x)
        while x.norm() > 1:
            o.t = o.t + x  # here
            x = x * 0.5
        return o.t

    @staticmethod
    def tensors_in_a_branch(x):
        o = SimpleNamespace(t=x)
        if x.norm() > 1:
            o.t = o.t + x  # here
        return o.t

    @staticmethod
    def variable_of_another_function(x):
        k = 0

        def hit():
            nonlocal k
            k += 1  # here

        while x.norm() > 1:
            hit()
            x = x * 0.5
        return x * k

    @staticmethod
    def method(x):
        counter = Counter()
        for v in x:
            if v > 0:
                counter.hit()
        return x * counter.n

    @staticmethod
    def helper(x):
        entries = {"n": 0}
        if x.sum() > 0:
            increase(entries)
        return x * entries["n"]

    @staticmethod
    def containers_inside_others(x):
        rows = [[], deque([{1}])]
        if x.sum() > 0:
            rows[1][0].add(2)  # here
        return x * len(rows[1][0])

    @staticmethod
    def container_with_attributes(x):
        tally = Tally()
        if x.sum() > 0:
            tally.n = 3  # here
        return x * tally.n

    @staticmethod
    def array(x):
        factors = np.ones(2)
        if x.sum() > 0:
            factors[0] = 3
        return x * float(factors[0])

    @staticmethod
    def nested(x):
        o = SimpleNamespace(n=0)
        while x.norm() > 1:
            if x.sum() > 0:
                for _ in range(2):
                    o.n += 1  # here
            x = x * 0.5
        return x * o.n

    @staticmethod
    def condition_of_a_loop(x):
        o = Counter()
        while o.hit().n < 5 and x.norm() > 1:
            x = x * 0.5
        return x * o.n

    @staticmethod
    def conditional_expression(x):
        seen = []
        y = x * 2 if x.sum() > 0 else seen.append(1) or x  # here
        return y * len(seen)

    @staticmethod
    def second_operand(x):
        o = Counter()
        if x.sum() > 0 and o.hit().n:
            x = x + 1
        return x * o.n

    @staticmethod
    def early_return(x):
        o = SimpleNamespace(n=0)

        def tried(y):
            if y.sum() > 0:
                o.n = 1  # here
                return y
            return -y

        return tried(x) * o.n

    @staticmethod
    def cond(x):
        hits = []
        y = rl.cond(x.sum() > 0, lambda x: (hits.append(1), x)[1], lambda x: x, x)  # here
        return y * len(hits)

    @staticmethod
    def operand_of_cond(x):
        counter = Counter()
        y = rl.cond(x.sum() > 0, lambda c, x: (c.hit(), x)[1], lambda c, x: x, counter, x)
        return y * counter.n

    @staticmethod
    def switch(x):
        o = SimpleNamespace(n=0)

        def second(x):
            o.n = 1  # here
            return x

        y = rl.switch((x.sum() > 0).long(), [lambda x: x, second], x)
        return y * o.n

    @staticmethod
    def while_loop(x):
        k = 0

        def body(x):
            nonlocal k
            k += 1  # here
            return x * 0.5

        return rl.while_loop(lambda x: x.norm() > 1, body, x) * k

    @staticmethod
    def scan(x):
        seen = {}

        def step(total, row):
            seen[len(seen)] = 1  # here
            return total + row, row

        total, _ = rl.scan(step, rl.tensor(0.0), x)
        return total * len(seen)

    @staticmethod
    def order(x):
        entries = {"a": 1.0, "b": 2.0}
        if x.sum() > 0:
            entries["a"] = entries.pop("a")  # here
        return x * next(iter(entries.values()))

    @staticmethod
    def memory(x):
        entries = bytearray(b"\1")
        view = memoryview(entries)
        if x.sum() > 0:
            view[0] = 3  # here
        return x * entries[0]

    @staticmethod
    def wish_for_a_gradient(x):
        t = rl.zeros(2)
        if x.sum() > 0:  # here
            t.requires_grad_()
        return x * (2.0 if t.requires_grad else 1.0)

    @staticmethod
    def wish_for_a_gradient_of_an_attribute(x):
        o = SimpleNamespace(t=rl.zeros(2).requires_grad_())
        if x.sum() > 0:  # here
            o.t.requires_grad_(False)
        return x * (2.0 if o.t.requires_grad else 1.0)

    @staticmethod
    def bound_method(x):
        seen = []
        add = seen.append
        if x.sum() > 0:
            add(1)  # here
        return x * len(seen)

    @staticmethod
    def elements_of_any(x):
        seen = []

        def positive(v):
            seen.append(1)  # here
            return v > 0

        found = any(positive(v) for v in (x[0], x[1]))
        return (x if found else -x) * len(seen)

    @staticmethod
    def elements_of_all(x):
        counter = Counter()

        def positive(v):
            return v * counter.hit().n > 0

        found = all(map(positive, [x[0], x[1]]))
        return (x if found else -x) * counter.n

    @staticmethod
    def generator_that_goes_on(x):
        seen = []

        def numbers():
            for i in range(4):
                seen.append(i)  # here
                yield i

        for i in numbers():
            x = x + i
            if x.sum() > 9:
                break
        return x * len(seen)

    @staticmethod
    def fori_loop(x):
        counter = Counter()
        return rl.fori_loop(0, 3, lambda i, x: x + counter.hit().n, x)


class Taken:
    """Functions that take from iterators where tensors decide; the line is marked."""

    @staticmethod
    def list_iterator(x):
        it = iter([0.5, 0.1, 0.01])
        while x.norm() > 1:  # here
            x = x * next(it)
        return x

    @staticmethod
    def count(x):
        numbers = itertools.count(2)
        if x.sum() > 0:  # here
            x = x * next(numbers)
        return x * next(numbers)

    @staticmethod
    def generator(x):
        found = halves()
        while x.norm() > 1:  # here
            for factor in found:
                x = x * factor
                break
        return x

    @staticmethod
    def attribute(x):
        o = SimpleNamespace(it=iter([0.5, 0.1, 0.01]))
        while x.norm() > 1:  # here
            x = x * next(o.it)
        return x

    @staticmethod
    def cond(x):
        it = iter([0.5, 0.1])
        y = rl.cond(x.sum() > 0, lambda x: x * next(it), lambda x: x, x)  # here
        return y * next(it)


class Shared:
    """Loops that tensors end, over iterators that are used afterwards; the line is marked."""

    @staticmethod
    def iterator(x):
        it = iter([1.0, 2.0, 3.0])
        for factor in it:  # here
            x = x * factor
            if x.sum() > 9:
                break
        return x * next(it, 100.0)

    @staticmethod
    def iterator_in_others(x):
        o = SimpleNamespace(it=halves())
        for i, (factor, _) in enumerate(zip(o.it, range(4))):  # noqa: B905  # here
            x = x * factor + i
            if x.sum() < 2:
                break
        return x * next(o.it)


class Effects:
    """Generators that do something to tensors, in loops that tensors end; the line is marked."""

    @staticmethod
    def written(x):
        total = rl.zeros(())

        def numbers():
            for i in range(4):
                total.add_(1)
                yield i

        for i in numbers():  # here
            x = x + i
            if x.sum() > 9:
                break
        return x * total

    @staticmethod
    def written_in_any(x):
        total = rl.zeros(())

        def positive(v):
            total.add_(1)
            return v > 0

        found = any(positive(v) for v in (x[0], x[1]))  # here
        return (x if found else -x) * total

    @staticmethod
    def drawn(x):
        found = all(v > rl.rand(()) for v in (x[0], x[1]))  # here
        return (x if found else -x) * rl.rand(())


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", rl.zeros(2))
        self.kept, self.n = rl.zeros(2), 0


class Buffer(Network):
    def forward(self, x):
        if x.sum() > 0:
            self.total = self.total + x  # here
        return x + self.total


class Attribute(Network):
    def forward(self, x):
        if x.sum() > 0:
            self.kept = x * 2  # here
        return x + self.kept


class Reset(Network):
    """In the end, all is as before; the result is not."""

    def forward(self, x):
        while x.norm() > 1:
            self.n += 1  # here
            x = x * 0.5
        y = x * self.n
        self.n = 0
        return y


MODULES = {cls.__name__: cls for cls in (Buffer, Attribute, Reset)}
CHANGED = {k: f.__func__ for k, f in vars(Changed).items() if isinstance(f, staticmethod)}
TAKEN = {k: f.__func__ for k, f in vars(Taken).items() if isinstance(f, staticmethod)}
SHARED = {k: f.__func__ for k, f in vars(Shared).items() if isinstance(f, staticmethod)}
EFFECTS = {k: f.__func__ for k, f in vars(Effects).items() if isinstance(f, staticmethod)}
LINES = {
    "method": Counter.hit,
    "operand_of_cond": Counter.hit,
    "condition_of_a_loop": Counter.hit,
    "second_operand": Counter.hit,
    "fori_loop": Counter.hit,
    "elements_of_all": Counter.hit,
    "helper": increase,
}
"""Where else the marked lines are."""


def marked(function: Any) -> str:
    """``file:line`` of the marked line; of the file, if none is marked."""
    lines, first = inspect.getsourcelines(function)
    found = [first + i for i, line in enumerate(lines) if "# here" in line]
    return f"{inspect.getsourcefile(function)}:{found[0] if found else ''}"


def point(sign: int = 1) -> rl.Tensor:
    return sign * rl.tensor([3.0, 5.0])


@pytest.mark.parametrize("name", CHANGED)
def test_changed_state_is_refused_with_its_line(name: str) -> None:
    said = "the branch or loop at .* changes .* depends on tensors"
    with pytest.raises(TraceError, match=said) as error:
        rl.compile(CHANGED[name], fullgraph=True)(point())
    assert marked(LINES.get(name, CHANGED[name])) in str(error.value)


@pytest.mark.parametrize("name", TAKEN)
def test_iterators_are_refused_with_the_line(name: str) -> None:
    with pytest.raises(TraceError, match="gives another value each time") as error:
        rl.compile(TAKEN[name], fullgraph=True)(point())
    assert marked(TAKEN[name]) in str(error.value)


@pytest.mark.parametrize("name", SHARED)
def test_iterators_that_others_have_are_refused_with_the_line(name: str) -> None:
    with pytest.raises(TraceError, match="how much depends on tensors") as error:
        rl.compile(SHARED[name], fullgraph=True)(point())
    assert marked(SHARED[name]) in str(error.value)


@pytest.mark.parametrize("name", EFFECTS)
def test_generators_with_effects_on_tensors_are_refused_with_the_line(name: str) -> None:
    said = "writes to a tensor or draws random numbers, but how often depends on tensors"
    with pytest.raises(TraceError, match=said) as error:
        rl.compile(EFFECTS[name], fullgraph=True)(point())
    assert marked(EFFECTS[name]) in str(error.value)


@pytest.mark.parametrize("name", MODULES)
def test_modules_that_change_themselves_are_refused(name: str) -> None:
    network = MODULES[name]()
    with pytest.raises(TraceError, match=r"the branch or loop at .* changes .* \(self\.") as error:
        rl.compile(network, fullgraph=True)(point())
    assert marked(MODULES[name]) in str(error.value)
    assert network.n == 0
    assert not network.total.any()
    assert not network.kept.any()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", [*CHANGED, *TAKEN, *SHARED, *EFFECTS])
def test_without_fullgraph_they_run_in_dynamic_mode(name: str, sign: int) -> None:
    function = {**CHANGED, **TAKEN, **SHARED, **EFFECTS}[name]
    rl.manual_seed(0)
    with pytest.warns(UserWarning, match="dynamic mode"):
        found = rl.compile(function)(point(sign))
    rl.manual_seed(0)
    assert found.equal(function(point(sign)))


def test_the_object_is_named() -> None:
    said = re.escape("changes Python state (o.inner.n was missing, is 7) at ")
    with pytest.raises(TraceError, match=said):
        rl.compile(CHANGED["attribute_of_an_attribute"], fullgraph=True)(point())


class Kept:
    """Functions whose state is not changed where tensors decide: one program."""

    @staticmethod
    def only_read(x):
        o, rows, factors = SimpleNamespace(n=2, inner=Counter()), [1, 2], np.full(2, 0.5)
        while x.norm() > 1:
            x = x * float(factors[0]) + 0.1 * o.n * len(rows) * o.inner.n
        return x

    @staticmethod
    def many_elements(x):
        table, array = list(range(20_000)), np.zeros(2_000_000, np.uint8)
        if x.sum() > 0:
            x = x * table[3] + int(array[7])
        return x

    @staticmethod
    def changed_before_and_after(x):
        o, seen = Counter(), []
        o.hit()
        seen.append(1)
        if x.sum() > 0:
            x = x * o.n
        o.hit()
        seen.append(2)
        return x * o.n * len(seen)

    @staticmethod
    def changed_around(x):
        o = Counter()
        for i in range(3):
            o.hit()
            if x.sum() > i:
                x = x - o.n
        return x * o.n

    @staticmethod
    def made_inside(x):
        while x.norm() > 1:
            o, seen, it = Counter(), [], iter([0.5, 0.1])
            seen.append(o.hit().n)
            x = x * next(it) * len(seen)
        return x

    @staticmethod
    def back_as_it_was(x):
        o = SimpleNamespace(n=0)
        while x.norm() > 1:
            o.n += 1
            x = x * 0.5 * o.n
            o.n -= 1
        return x

    @staticmethod
    def equal(x):
        o = SimpleNamespace(n=7, pair=(1, 2.5))
        if x.sum() > 0:
            o.n, o.pair = 7, (1, 2.5)
        return x * o.n

    @staticmethod
    def rows(x):
        o, it, seen = Counter(), iter([1.0, 2.0, 3.0]), []
        for v in x:
            o.hit()
            seen.append(v * next(it))
        return rl.stack(seen) * o.n

    @staticmethod
    def variable_of_another_function_over_rows(x):
        k = 0

        def hit():
            nonlocal k
            k += 1

        for v in x:
            hit()
            x = x + v * k
        return x * k

    @staticmethod
    def assigned_in_the_loop_too(x):
        k = 0

        def hit():
            nonlocal k
            k += 1

        while x.norm() > 1:
            hit()
            k = k + 1
            x = x * 0.5
        return x * k

    @staticmethod
    def tensors_written_in_place(x):
        o = SimpleNamespace(t=rl.zeros(2))
        while x.norm() > 1:
            o.t += x
            x = x * 0.5
        return o.t

    @staticmethod
    def iterator_outside(x):
        it = iter([2.0, 3.0, 4.0, 5.0])
        first = next(it)
        for factor in it:
            x = x * factor
            if factor == 3:
                break
        if x.sum() > 0:
            x = x * first
        for factor in it:
            x = x + factor
        return x * next(it, 2.0)

    @staticmethod
    def iterators_of_loops_that_end(x):
        def numbers():
            seen = []
            for i in range(4):
                seen.append(i)
                yield sum(seen)

        for i, n in enumerate(numbers()):
            x = x + n * i
            if x.sum() > 12:
                break
        for a, b in zip([1.0, 2.0], (0.5, 0.25), strict=True):
            x = x * a + b
            if x.sum() > 20:
                break
        return x

    @staticmethod
    def elements_of_any_and_all(x):
        limit = SimpleNamespace(low=0, high=[4])
        some = any(v > limit.high[0] for v in x)
        if some and all(v > limit.low for v in (x[0], x[1])):
            return x * 2
        return x

    @staticmethod
    def python_decides(x):
        o = Counter()
        while o.n < 3:
            o.hit()
        return rl.cond(x.sum() > 0, lambda x: x * o.n, lambda x: x, x)


KEPT = {k: f.__func__ for k, f in vars(Kept).items() if isinstance(f, staticmethod)}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_left_as_it_is_compiles(name: str) -> None:
    compiled = rl.compile(KEPT[name], fullgraph=True)
    for sign in (1, -1):
        rl.testing.assert_close(compiled(point(sign)), KEPT[name](point(sign)))


class Running(nn.Module):
    """Buffers that are written in branches: by a layer, and in place."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("total", rl.zeros(2))

    def forward(self, x):
        if x.sum() > 0:
            y = self.norm(x)
            self.total += y.detach().sum(0)
        else:
            y = x
        return y * 2 + self.total


def test_buffers_are_written_in_branches() -> None:
    dynamic, network = Running(), Running()
    compiled = rl.compile(network, fullgraph=True)
    for sign in (1, -1, 1):
        x = sign * rl.tensor([[1.0, 2.0], [3.0, 5.0]])
        rl.testing.assert_close(compiled(x), dynamic(x))
    assert network.norm.num_batches_tracked == 2
    for name, expected in dynamic.state_dict().items():
        rl.testing.assert_close(network.state_dict()[name], expected)


def test_a_scan_of_no_rows_calls_nothing() -> None:
    seen: list[int] = []
    rl.scan(lambda total, row: (seen.append(1), (total + row, row))[1], rl.zeros(2), rl.zeros(0, 2))
    assert not seen


def test_state_is_put_back_before_rows_are_unrolled() -> None:
    """The first way to trace a loop fails after it has changed things of all kinds."""

    def every(x):
        o, seen, names, queue, slot = SimpleNamespace(a=1, b=2), [3, 4], {1}, deque([1]), Slotted()
        for v in x:
            del o.a
            o.a = o.b = o.b + 1
            seen.pop(0)
            seen += [o.b, 2]
            names ^= {o.b}
            queue.appendleft(o.b)
            slot.n += 1
            x = x + v * slot.n
        return x * sum(seen) * sum(names) * sum(queue) * slot.n * list(vars(o)).index("a")

    x = rl.tensor([1.0, 2.0, 3.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.testing.assert_close(rl.compile(every, fullgraph=True)(x), every(x))
