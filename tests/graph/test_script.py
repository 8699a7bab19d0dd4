"""Python's control flow on tensors: compiled, each function is one program, equal to itself."""

from __future__ import annotations

import contextlib
import inspect
import re
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.graph.script import convert
from rushlight.symbol import TraceError
from rushlight.testing import assert_close
from tests.graph.script_programs import POINTS, TABLE, speaking
from tests.graph.script_random import written


def arguments(point: Any) -> tuple[rl.Tensor, rl.Tensor]:
    rl.manual_seed(3)
    x = rl.tensor(point, requires_grad=True)
    return x, (rl.randn(4, 4) / 2).requires_grad_()


def floats(result: Any) -> list[rl.Tensor]:
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in floats(part)]
    tracked = isinstance(result, rl.Tensor) and result.requires_grad
    return [result] if tracked else []


def gradients(function: Any, point: Any) -> tuple[Any, list[rl.Tensor]]:
    """The result, and the gradients of all its elements' squares."""
    given = arguments(point)
    result = function(*given)
    losses = [t.square().sum() for t in floats(result)]
    if losses:
        sum(losses).backward()
    return result, [rl.zeros(t.shape) if t.grad is None else t.grad for t in given]


def programs(compiled: Any) -> int:
    return sum(map(len, compiled.known.values()))


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = [*found.values()], [*expected.values()]
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)
    elif isinstance(expected, rl.Tensor):
        assert found.dtype is expected.dtype
        assert rl.allclose(found, expected, rtol=1e-4, atol=1e-5), (found, expected)
    else:
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", TABLE)
def test_compiled_equals_dynamic_mode_in_value_and_gradient(name: str) -> None:
    compiled = rl.compile(TABLE[name], fullgraph=True)
    for point in POINTS:
        found, expected = gradients(compiled, point), gradients(TABLE[name], point)
        assert_same(found[0], expected[0])
        assert_same(found[1], expected[1])
    assert programs(compiled) == 1


@pytest.mark.parametrize("seed", range(12))
def test_functions_written_at_random(seed: int) -> None:
    check_random(seed, depth=1 + seed % 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 220))
def test_many_functions_written_at_random(seed: int) -> None:
    check_random(seed, depth=2 + seed % 2)


@pytest.mark.parametrize("name", TABLE)
def test_converted_functions_are_the_same_in_dynamic_mode(name: str) -> None:
    for point in POINTS:
        assert_same(gradients(convert(TABLE[name]), point), gradients(TABLE[name], point))


def test_converted_functions_written_at_random_are_the_same() -> None:
    for seed in range(60):
        function, text = written(seed, depth=3)
        for point in POINTS:
            x, w = [t.detach() for t in arguments(point)]
            found, expected = convert(function)(x, w), function(x, w)
            assert str(found) == str(expected), text


def check_random(seed: int, depth: int) -> None:
    function, text = written(seed, depth)
    compiled = rl.compile(function, fullgraph=True)
    for point in POINTS:
        rounded = [round(4 * value) / 4 for value in point]
        found, expected = gradients(compiled, rounded), gradients(function, rounded)
        assert_same(found, expected)
    assert programs(compiled) == 1, text


def test_a_float_decides_without_another_program() -> None:
    def model(x, limit):
        y = x if limit < 5.0 else -x
        while limit > 1:
            y, limit = y * 2, limit / 2
        return y

    compiled = rl.compile(model, fullgraph=True)
    for limit in (4.0, 6.0, 1.0, 7.5, float("nan"), -0.0):
        assert_same(compiled(rl.ones(2), limit), model(rl.ones(2), limit))
    assert programs(compiled) == 2  # the first is for its float alone


def test_guards_see_what_converted_code_reads() -> None:
    options = {"scale": 2}
    factor = 3

    def helper(x):
        return x * options["scale"] if x.sum() > 0 else x

    def function(x):
        if x[0] > 0:
            return helper(x) * factor
        return x

    compiled = rl.compile(function, fullgraph=True)
    assert compiled(rl.ones(2)).tolist() == [6, 6]
    options["scale"] = 5
    assert compiled(rl.ones(2)).tolist() == [15, 15]
    factor = 1
    assert compiled(rl.ones(2)).tolist() == [5, 5]


def test_a_training_step_with_loops_and_branches() -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.Linear(8, 8), nn.Linear(8, 1)

        def forward(self, x):
            h, n = x, 0
            while h.norm() > 0.4 and n < 5:
                h = self.cell(h).tanh()
                n += 1
            return self.head(h) if h.mean() > 0 else self.head(-h)

    def losses(compiled: bool) -> rl.Tensor:
        rl.manual_seed(0)
        net = Net()
        optimizer = rl.optim.Adam(net.parameters(), lr=0.01)

        def step(x):
            optimizer.zero_grad()
            loss = (net(x) - 0.5).square().mean()
            loss.backward()
            if loss > 0.01:
                loss = loss * 2
            optimizer.step()
            return loss.detach()

        call = rl.compile(step, fullgraph=True) if compiled else step
        return rl.stack([call(rl.randn(8)) for _ in range(6)])

    assert rl.allclose(losses(compiled=True), losses(compiled=False), atol=1e-5)


def test_random_numbers_in_branches() -> None:
    def function(x):
        if x.sum() > 0:
            return x * rl.rand(3)
        return x + rl.randn(3) + rl.rand(3)

    compiled = rl.compile(function, fullgraph=True)
    for sign in (1, -1, 1, -1):
        results = []
        for call in (function, compiled):
            rl.manual_seed(5)
            results.append((call(rl.full((3,), sign)), rl.rand(2)))
        assert_same(*results)


DECORATORS = {
    "no_grad": lambda: rl.no_grad(),
    "no_grad without brackets": lambda: rl.no_grad,
    "enable_grad": lambda: rl.enable_grad(),
    "inference_mode": lambda: rl.inference_mode(),
    "inference_mode off": lambda: rl.inference_mode(False),
    "set_grad_enabled": lambda: rl.set_grad_enabled(False),
    "two": lambda: lambda function: rl.no_grad()(rl.enable_grad()(function)),
    "record_function": lambda: rl.profiler.record_function("part"),
    "contextmanager": lambda: nothing(),
}


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    """A block of the user's, which decorates functions, too."""
    yield


@pytest.mark.parametrize("how", DECORATORS)
@pytest.mark.parametrize("place", ["function", "called", "forward", "method"])
def test_decorators_are_looked_through(place: str, how: str) -> None:
    factor = 2

    def doubled(x):
        while (x < 10).any():
            x = x * factor
        return x if x.sum() > 0 else -x

    inner = DECORATORS[how]()(doubled)

    class Net(nn.Module):
        @DECORATORS[how]()
        def forward(self, x):
            return doubled(x) if x.sum() > 0 else x

        @DECORATORS[how]()
        def method(self, x):
            return doubled(x) if x.sum() > 0 else x

    net = Net()
    function = {
        "function": inner,
        "called": lambda x: (inner(x) * x, x * 2),
        "forward": net,
        "method": net.method,
    }[place]
    compiled = rl.compile(function, fullgraph=True)
    for x in (rl.ones(2), rl.tensor([1.0, 3.0])):
        for outside in (True, False):
            assert_same(*[in_mode(f, x, outside) for f in (compiled, function)])
    factor = 3
    assert_same(*[in_mode(f, rl.ones(2), True) for f in (compiled, function)])


def in_mode(function: Any, x: rl.Tensor, grad: bool) -> Any:
    """Results, which of them have a graph, and the mode afterwards."""
    x = x.clone().requires_grad_()
    with rl.set_grad_enabled(grad):
        result = function(x)
        after = rl.is_grad_enabled()
    parts = result if isinstance(result, tuple) else (result,)
    tracked = [part.requires_grad for part in parts]
    if any(tracked):
        sum([part.sum() for part in parts]).backward()
    return result, tracked, after, rl.zeros(2) if x.grad is None else x.grad


@pytest.mark.parametrize("how", DECORATORS)
def test_script_and_trace_look_through_decorators(how: str) -> None:
    @DECORATORS[how]()
    def function(x):
        return x * 3 if x.sum() > 0 else -x

    for made in (rl.jit.script(function), rl.jit.trace(function, rl.ones(2))):
        assert made(rl.ones(2)).tolist() == [3, 3]
        assert made(-rl.ones(2)).tolist() == [1, 1]


def test_any_size() -> None:
    def function(x):
        n = 0
        while x.sum() < 50:
            x = x * 2 + len(x)
            n += 1
        return x, n

    compiled = rl.compile(function, fullgraph=True)
    for size in (3, 5, 1):
        assert_same(compiled(rl.ones(size)), function(rl.ones(size)))


class Refused:
    """Functions that no graph can hold, with what is said of them."""

    @staticmethod
    def sizes(x):
        return rl.zeros(int(x.sum()))  # here

    @staticmethod
    def types_of_branches(x):
        if x.sum() > 0:  # here
            y = x
        else:
            y = x.sum()
        return y

    @staticmethod
    def types_of_returns(x):
        if x.sum() > 0:  # here
            return x
        return x.double()

    @staticmethod
    def no_value(x):
        if x.sum() > 0:
            y = 2
        return x * y  # here

    @staticmethod
    def shapes_of_steps(x):
        while x.sum() < 10:  # here
            x = rl.cat([x, x])
        return x

    @staticmethod
    def texts(x):
        return "positive" if x.sum() > 0 else "negative"  # here

    @staticmethod
    def lists(x):
        found = []
        while x.sum() < 10:  # here
            x = x * 2
            found.append(x)
        return found

    @staticmethod
    def filters(x):
        return [t for t in x if t > 0]  # here

    @staticmethod
    def keys(x):
        return {0: x, 1: -x}[int(x.sum() > 0)]  # here

    @staticmethod
    def views(x):
        y = x * 1
        first = y[:1]
        if x.sum() > 0:  # here
            y += 1
            x = x * first
        return x

    @staticmethod
    def views_and_bases(x):
        y = x.clone()
        v = y[1:]
        if x.sum() > 0:  # here
            v.mul_(5)
        else:
            y[0] = 3
        return y

    @staticmethod
    def views_in_objects(x):
        store = {"y": x.clone()}
        v = store["y"][1:]
        if x.sum() > 0:  # here
            v.mul_(5)
            x = x + store["y"].sum()
        return x

    @staticmethod
    def aliases_on_one_way(x):
        y = x.clone()
        z = y
        if x.sum() > 0:
            z = z + 0
        z.add_(1)  # here
        return y

    @staticmethod
    def aliases_after_branches_in_branches(x):
        y = x.clone()
        z = y
        if x.sum() > 0:
            if x[0] > 5:
                z = z + 0
        y.add_(1)  # here
        return z

    @staticmethod
    def aliases_after_no_step(x):
        y = z = x.clone()
        while z.sum() > 100:
            z = z / 2
        z.add_(1)  # here
        return y

    @staticmethod
    def arguments_on_one_way(x):
        y = x if x.sum() > 0 else -x
        y += 1  # here
        return y

    @staticmethod
    def written_and_assigned(x):
        y = x.clone()
        z = y
        if x.sum() > 0:  # here
            y.add_(1)
            y = y * 2
        return y, z

    @staticmethod
    def suppressed(x):
        with contextlib.suppress(ValueError):
            if x.sum() > 0:
                raise ValueError("positive")  # here
            x = x * 2
        return x

    @staticmethod
    def caught_in_a_call(x):
        def positive(x):
            if x.sum() > 9:
                raise ValueError(f"{x.sum()}")  # here
            return x

        try:
            return positive(x)
        except ValueError:
            return -x

    @staticmethod
    def asserted(x):
        try:
            assert x.sum() > 9, "small"  # here
        except AssertionError:
            return x * 2
        return x * 3

    @staticmethod
    def types_of_operands(x):
        return x.sum() and x  # here

    @staticmethod
    def errors_in_a_branch(x):
        if x.sum() < 0:  # here
            x = x @ rl.ones(7)
        return x

    @staticmethod
    def patterns_with_parts(x):
        match (x.sum() > 0).item(), len(x):  # here
            case True, 3:
                return x
        return -x

    @staticmethod
    def exceptions(x):
        if x.sum() > 100:
            raise rl.OutOfMemoryError("not one of Python's")  # here
        return x


SAID = {
    "sizes": "a size, a text or a key cannot depend on it",
    "types_of_branches": "'y' must .* float32[3] if the condition holds, and float32[] else",
    "types_of_returns": "the returned value .* it is float32[3] .* and float64[3] else",
    "no_value": "'y' is used .* but has no value on one way",
    "shapes_of_steps": "'x' must have one type .* it is float32[3] before it, and float32[6] after",
    "texts": "the value must have one type .* is 'positive' if the .* and 'negative' else",
    "suppressed": "ValueError is raised",
    "caught_in_a_call": "ValueError is raised",
    "asserted": "AssertionError is raised .* a graph catches nothing",
    "lists": "changes a list",
    "filters": "are needed in Python",
    "keys": "a size, a text or a key cannot depend on it",
    "views": "'y' and 'first' share memory",
    "views_and_bases": "'v' and 'y' share memory",
    "views_in_objects": "'v' is written in place in the if",
    "aliases_on_one_way": "'z' shares memory with another one on one way through the if",
    "aliases_after_branches_in_branches": "'z' shares memory with another one",
    "aliases_after_no_step": "'z' shares memory with another one on one way through the loop",
    "arguments_on_one_way": "the value shares memory .* through the conditional expression",
    "written_and_assigned": "'y' is both written in place and assigned anew in the if",
    "types_of_operands": "the value must have one type after the and .* float32[3] .* float32[]",
    "errors_in_a_branch": "RuntimeError in the if",
    "patterns_with_parts": "has patterns with parts",
    "exceptions": "OutOfMemoryError is raised",
}


@pytest.mark.parametrize("name", SAID)
def test_errors_name_the_line_and_the_reason(name: str) -> None:
    function = getattr(Refused, name)
    lines, first = inspect.getsourcelines(function)
    (line,) = [first + i for i, text in enumerate(lines) if "# here" in text]
    said = re.escape(SAID[name]).replace(r"\ \.\*\ ", " .* ")
    with pytest.raises(TraceError, match=said) as caught:
        rl.compile(function, fullgraph=True)(rl.ones(3))
    assert f"{__file__}:{line}" in str(caught.value)
    if name != "filters":
        with (
            pytest.warns(UserWarning, match="runs in dynamic mode"),
            contextlib.suppress(NameError),
        ):
            rl.compile(function)(rl.ones(3))


def repeated(x):
    return repeated(x * 2) if x.sum() < 10 else x


def test_recursion_that_depends_on_tensors() -> None:
    with pytest.raises(TraceError, match=r"repeated \(.*test_script.py:\d+\) calls itself"):
        rl.compile(repeated, fullgraph=True)(rl.ones(3))
    with pytest.warns(UserWarning, match="a graph holds no recursion"):
        assert rl.compile(repeated)(rl.ones(3)).tolist() == [4, 4, 4]


def test_a_function_without_source() -> None:
    space: dict[str, Any] = {}
    exec("def function(x):\n    return x if x.sum() > 0 else -x", space)
    with pytest.raises(TraceError, match=r"at <string>:2.*source of function is not known"):
        rl.compile(space["function"], fullgraph=True)(rl.ones(3))
    with pytest.raises(TraceError, match="source of function is not known"):
        rl.jit.script(space["function"])(rl.ones(3))


def test_prints_and_exceptions_come_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = rl.compile(speaking, fullgraph=True)
    told = []
    for point in ([1.0, 2.0], [0.1, 0.9], [1.0, 0.0], [3.0, 9.0], [1.0, 2.0]):
        for call in (speaking, convert(speaking), compiled):
            try:
                call(rl.tensor(point))
            except (ValueError, AssertionError) as error:
                told.append((type(error), str(error)))
            told.append(capsys.readouterr().out)
    assert len({type(part) for part in told}) == 2
    assert (
        told[0]
        == told[1]
        == " 1: 6.0 | [tensor([2., 4.]), 1]\n 2: 12.0 | [tensor([4., 8.]), 2]\nsmall\n"
    )
    rest = iter(told)
    spoken = [(part, next(rest)) if isinstance(part, tuple) else part for part in rest]
    assert spoken[::3] == spoken[1::3] == spoken[2::3]
    assert programs(compiled) == 1


def test_numbers_are_rounded_and_divided_as_python_does() -> None:
    def function(x):
        n, v = int(x[0]), float(x[1])
        rounded = round(v), round(v, 2), round(v, -1), round(n * 3), round(n, -1), round(n > 3)
        return *divmod(n, 4), *divmod(17, n), *divmod(v, 0.75), *rounded

    compiled = rl.compile(function, fullgraph=True)
    for n, v in ((3, 2.5), (-7, -2.675), (14, 1.115), (25, 0.5), (-35, -0.5), (15, 25.0)):
        x = rl.tensor([n, v], dtype=rl.float64)
        expected, found = function(x), compiled(x)
        assert found == expected
        assert [*map(type, found)] == [*map(type, expected)]
    assert programs(compiled) == 1


def test_line_numbers_are_those_of_the_file() -> None:
    def function(x):
        if x.sum() > 0:
            return x @ rl.ones(7)
        return x

    with pytest.raises(RuntimeError) as caught:
        rl.compile(function, fullgraph=True)(rl.ones(3))
    first = function.__code__.co_firstlineno
    for error, line in ((caught.value, first + 1), (caught.value.__cause__, first + 2)):
        frames = traceback.extract_tb(error.__traceback__)  # type: ignore[union-attr]
        assert [f.lineno for f in frames if f.filename == __file__][-1] == line


def test_what_stays_python_is_not_in_the_graph() -> None:
    def function(x, flags):
        for flag in flags:
            if flag and len(x) == 3:
                x = x * 2
        return x if x.sum() > 0 else -x

    graph = rl.graph(function, rl.ones(3), (True, False, True))
    assert str(graph).count("control.cond") == 1
    assert str(graph).count("mul") == 2


def test_nodes_of_control_flow_have_the_lines_of_their_statements() -> None:
    weight = rl.ones(3, requires_grad=True)

    def function(x):
        while (
            x.sum() < 9  # a statement of several lines
        ):
            if x.max() > 2:
                x = x * 2
            else:
                x = x + weight
        return x.sum()

    def whole(x):
        loss = function(x)
        loss.backward()
        return loss.detach()

    text = str(rl.graph(whole, rl.ones(3)))
    first = function.__code__.co_firstlineno
    for op, line in (("while_loop", 1), ("cond", 4), ("while_vjp", 1)):
        places = re.findall(rf"control\.{op}\(.*# test_script.py:(\d+)", text)
        assert places
        assert {int(place) - first for place in places} == {line}


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_of_rows_up_to_the_shorter_length(inside: bool) -> None:
    def function(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        total = rl.zeros(())
        for a, (i, b) in zip(x, enumerate(y), strict=False):
            if a > b:
                total = total + a * b * i
        if inside:
            total.backward()
        return total.detach() if inside else total

    for compiler in (lambda f: rl.compile(f, fullgraph=True), rl.jit.script):
        compiled = compiler(function)
        for n, m in ((7, 4), (3, 5), (4, 4), (9, 2)):
            given = [rl.arange(n) * 0.7, rl.arange(m) * 0.5 - 1]
            found = []
            for f in (compiled, function):
                leaves = [t.clone().requires_grad_() for t in given]
                y = f(*leaves)
                if not inside:
                    y.backward()
                found.append([y.detach(), *[t.grad for t in leaves]])
            assert_close(*found)
