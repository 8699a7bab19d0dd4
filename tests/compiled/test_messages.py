"""What a user is told of a function that cannot be compiled, and where."""

from __future__ import annotations

import inspect
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.config import config
from rushlight.runtime import executable
from rushlight.runtime.page import body
from rushlight.symbol import TraceError

ONE = rl.ones(1)


def line_of(function: Any, part: str) -> str:
    """``file:line`` of the line of a function that has ``part`` in it."""
    lines, first = inspect.getsourcelines(function)
    number = next(i for i, line in enumerate(lines) if part in line)
    return f"test_messages.py:{first + number}"


def test_the_line_that_changes_a_list() -> None:
    seen: list[int] = []

    def note(x):
        y = x * 2
        seen.append(1)
        return y

    with pytest.raises(TraceError, match=line_of(note, "append")):
        rl.compile(note, fullgraph=True)(ONE)


def test_the_line_that_changes_an_attribute() -> None:
    counter = SimpleNamespace(calls=0)

    def count(x):
        print(counter.calls, end="")
        counter.calls += 1
        return x * 2

    with pytest.raises(TraceError, match=line_of(count, "+=")):
        rl.compile(count, fullgraph=True)(ONE)


def test_the_line_that_changes_a_variable() -> None:
    calls = 0

    def count(x):
        nonlocal calls
        if calls < 5:
            calls = calls + 1
        return x * 2

    with pytest.raises(TraceError, match=line_of(count, "calls + 1")):
        rl.compile(count, fullgraph=True)(ONE)


class Reading(nn.Module):
    def forward(self, x):
        return x.tolist()


@pytest.mark.parametrize("model", [Reading(), lambda x: x.tolist()], ids=["module", "function"])
def test_the_warning_points_at_the_call(model: Any) -> None:
    compiled = rl.compile(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(ONE)  # here
    here = line_of(test_the_warning_points_at_the_call, "# here")
    assert here == f"test_messages.py:{caught[0].lineno}"
    assert caught[0].filename == __file__
    assert "What it has printed or written to files is done again." in str(caught[0].message)
    assert ".." not in str(caught[0].message).replace("...", "")


def test_what_was_never_begun_is_not_done_again() -> None:
    numbers = iter([1.0, 2.0])
    compiled = rl.compile(lambda x: x * next(numbers))
    with pytest.warns(UserWarning, match="list_iterator") as caught:
        compiled(ONE)
    assert "done again" not in str(caught[0].message)


@pytest.mark.parametrize(
    "function", [lambda x: x[x > 0], lambda x: x.nonzero()], ids=["mask", "op"]
)
def test_ops_are_called_what_users_call_them(function: Any) -> None:
    with pytest.raises(TraceError, match=r"^nonzero, or an index by a mask, at .*test_messages.py"):
        rl.compile(function, fullgraph=True)(ONE)


def test_a_pass_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "dump", "simplyfy")
    with pytest.raises(ValueError, match=r"no pass 'simplyfy'.* the passes are simplify, rows"):
        rl.compile(lambda x: x * 3.25)(ONE)


@pytest.mark.parametrize("version", [(3, 10), (3, 11)])
def test_errors_of_programs_name_the_line(
    version: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = rl.compile(lambda x, i: x[i] * 2)
    monkeypatch.setattr(executable, "sys", SimpleNamespace(version_info=version))
    with pytest.raises(IndexError, match="index 5 is out of bounds") as caught:
        pick(rl.ones(3), rl.tensor([5]))
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "in the compiled function, at" in said
    assert line_of(test_errors_of_programs_name_the_line, "x[i]") in said


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("returns", [False, True])
def test_a_row_that_a_table_lacks_is_told_of_by_its_gradient_in_the_same_words(
    dynamic: bool, returns: bool
) -> None:
    table = rl.ones(4, 3, requires_grad=True)

    def step(index: rl.Tensor) -> Any:
        rows = nn.functional.embedding(index, table)
        rows.sum().backward()
        return rows if returns else None  # without a result, nothing but the gradient is computed

    compiled = rl.compile(step, dynamic=dynamic, fullgraph=True)
    compiled(rl.tensor([[0, 1], [2, 3]]))
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range in self: index 5 is out"):
            compiled(rl.tensor([[0, 1], [2, 5]]))


def test_the_page_of_a_refused_function_wraps_its_words() -> None:
    report = rl.compile(lambda x: x.tolist()).explain(ONE)
    assert '<pre class="words">' in "".join(body(report))


def test_anomaly_mode_calls_the_function_itself() -> None:
    def step(x):
        y = x.sqrt() * 0
        y.sum().backward()
        return y

    compiled = rl.compile(step, fullgraph=True)
    compiled(rl.ones(2, requires_grad=True))
    with rl.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match=rf"nan values .*{line_of(step, 'sqrt')}"):
            compiled(rl.zeros(2, requires_grad=True))
        assert compiled(rl.ones(2, requires_grad=True)).tolist() == [0, 0]


def test_anomaly_mode_inside() -> None:
    def step(x):
        with rl.autograd.detect_anomaly():
            y = x.sqrt()
            y.sum().backward()
        return y

    x = rl.ones(2, requires_grad=True)
    with pytest.raises(TraceError, match=rf"anomaly mode .*{line_of(step, 'backward')}"):
        rl.compile(step, fullgraph=True)(x)
    with pytest.warns(UserWarning, match=r"dynamic mode: anomaly mode .*call the function itself"):
        rl.compile(step)(x)
    with rl.autograd.detect_anomaly(), pytest.raises(TraceError, match="anomaly mode"):
        rl.jit.trace(lambda x: x.sin(), x)


def test_what_is_printed_is_printed_at_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        print("start")
        y = x.sum()
        print("sum", y, [y], f"{y:.1f}", x.shape)
        return y

    step(rl.ones(2))
    step(rl.zeros(2))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        *("start", "sum tensor(2.) [tensor(2.)] 2.0 rushlight.Size([2])"),
        *("start", "sum tensor(0.) [tensor(0.)] 0.0 rushlight.Size([2])"),
    ]


def test_a_function_that_only_prints_texts_prints_at_each_call(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @rl.compile(fullgraph=True)
    def step(x: Any) -> Any:
        try:
            print("here")
        except Exception:
            return x
        return x + 1

    assert [step(rl.ones(1)).item() for _ in range(3)] == [2.0] * 3
    assert capsys.readouterr().out == "here\n" * 3


def test_a_trace_keeps_its_prints_out_of_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: Any) -> Any:
        print("traced")
        return x + 1

    graph = rl.graph(step, rl.ones(1))
    assert "show" not in str(graph)
    assert capsys.readouterr().out == "traced\n"


@pytest.mark.parametrize(
    "call",
    [
        lambda step, i: step(rl.ones(2), i),
        lambda step, i: step(rl.ones(i + 1), i),
        lambda step, i: step(rl.ones(2), it=i),
        lambda step, i: step(rl.ones(2), {"a": 0.5, "b": [3, i]}),
    ],
    ids=["place", "sizes", "name", "inside"],
)
def test_an_int_that_changes_is_told_of_early(call: Any) -> None:
    compiled = rl.compile(lambda x, it: x + (it if isinstance(it, int) else it["b"][1]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in (*range(7), *range(7)):
            assert call(compiled, i)[0] == 1 + i
        assert not told
        for i in range(7, 20):
            call(compiled, i)
    assert len(told) == 1
    assert "anew for each value of the int 'it'." in str(told[0].message)
    assert "can be passed as a float or a 0-d tensor" in str(told[0].message)


def test_an_int_of_a_method_has_its_name() -> None:
    class Net(nn.Module):
        def forward(self, x: Any, depth: int) -> Any:
            return x * depth

    compiled = rl.compile(Net())
    for i in range(7):
        compiled(ONE, i)
    with pytest.warns(UserWarning, match="value of the int 'depth'"):
        compiled(ONE, 7)


def test_ints_and_sizes_that_do_not_change_are_not_told_of(recwarn: Any) -> None:
    compiled = rl.compile(lambda x, a, b: x * a + b)
    for n in range(1, 4):
        for a in range(3):
            for b in range(3):
                compiled(rl.ones(n), a, b)
    assert not recwarn.list
