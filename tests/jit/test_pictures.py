"""Pictures of graphs: loops around their bodies, large graphs by lines, and no overlaps."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.graph.parse import parse
from rushlight.jit.reports import picture

SVG = "{http://www.w3.org/2000/svg}"


def newton(a):
    x = a
    count = 0
    while (x * x - a).abs().max() > 1e-5:
        x = (x + a / x) / 2
        count = count + 1
    return x, count


def nested(x):
    total = rl.zeros(())
    i = 0
    while i < x.sum():
        if total > 3:
            if total > 8:
                total = total * 0.5
            else:
                total = total - 1
        else:
            total = total + x.mean()
        i = i + 1
    return total


def switched(x, i):
    return rl.switch(i, [lambda x: x.sin(), lambda x: x * x + 1, lambda x: -x], x)


def deep(x):
    for _ in range(3):
        while x.sum() < 1:
            while x.sum() < 2:
                while x.sum() < 3:
                    while x.sum() < 4:
                        while x.sum() < 5:
                            x = x + 1
    return x


def drawn(function: Any, *args: Any) -> str:
    return picture(rl.export(function, *args).programs.first)


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def rectangles(svg: str) -> list[Any]:
    """(depth, left, top, right, bottom) of each rectangle, and in which group it is."""
    found = []

    def visit(element: Any, x: float, y: float, path: tuple[int, ...]) -> None:
        move = re.match(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
        if move:
            x, y = x + float(move[1]), y + float(move[2])
        for number, child in enumerate(element):
            if child.tag == f"{SVG}rect" and child.get("class") != "page":
                a, b, w, h = [float(child.get(k)) for k in ("x", "y", "width", "height")]
                found.append((path, child.get("class"), x + a, y + b, x + a + w, y + b + h))
            visit(child, x, y, (*path, number) if child.tag == f"{SVG}g" else path)

    visit(ElementTree.fromstring(svg), 0.0, 0.0, ())
    return found


def contained(inner: Any, outer: Any) -> bool:
    return (
        inner[2] >= outer[2] - 0.2
        and inner[3] >= outer[3] - 0.2
        and inner[4] <= outer[4] + 0.2
        and inner[5] <= outer[5] + 0.2
    )


def apart(a: Any, b: Any) -> bool:
    return a[2] >= b[4] or b[2] >= a[4] or a[3] >= b[5] or b[3] >= a[5]


CASES: dict[str, Any] = {
    "newton": (newton, rl.ones(2)),
    "nested": (nested, rl.ones(5)),
    "switched": (switched, rl.ones(3), rl.tensor(1)),
    "deep": (deep, rl.ones(2)),
}


@pytest.mark.parametrize("name", CASES)
def test_boxes_are_within_their_frames_and_nowhere_else(name: str) -> None:
    boxes = rectangles(drawn(*CASES[name]))
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert apart(a, b) or contained(a, b) or contained(b, a)
            if a[1] not in ("frame", "part") and b[1] not in ("frame", "part"):
                assert apart(a, b)
            if a[0][: len(b[0])] == b[0] and b[1] == "frame" and len(a[0]) > len(b[0]):
                assert contained(a, b)


def test_a_loop_shows_its_line_condition_and_body() -> None:
    svg = drawn(newton, rl.ones(2))
    found = texts(svg)
    line = newton.__code__.co_firstlineno + 3
    assert found[found.index("while") + 1] == f"test_pictures.py:{line}"
    for text in ("as long as", "do", "gt(·, 1e-05)", "div(·, 2)", "go on"):
        assert found.count(text) == 1
    assert found.count("x") == 3  # of the condition, and around the body
    assert svg.count('class="again"') == 1


def test_a_branch_in_a_large_graph_has_one_frame() -> None:
    def function(x):
        for i in range(50):
            x = (x * 1.01 + i).sin()
        return x.exp() if x.sum() > 0 else x.cos()

    line = function.__code__.co_firstlineno + 3
    svg = drawn(function, rl.ones(3))
    found = texts(svg)
    assert found.count("if") == 1
    assert found[found.index("if") + 1] == f"test_pictures.py:{line}"
    depths = [len(path) for path, kind, *_ in rectangles(svg) if kind == "frame"]
    assert max(depths) == min(depths)  # none is in another one


def test_what_loops_carry_has_the_names_of_variables() -> None:
    def function(x):
        total, pair = x[0], (x[1], x[2])
        for row in x:
            total = total + row * pair[0]
            pair = pair[1], total.sin()
            if total.sum() > 100:
                break
        return total * pair[0]

    graph = rl.graph(function, rl.ones(4, 2))
    names = ["total", "pair[0]", "pair[1]", "index", "broken"]
    assert [name for name in names if f"input({name!r})" in str(graph)] == names
    assert parse(str(graph)) == graph
    found = texts(drawn(function, rl.ones(4, 2)))
    assert [name for name in names if name in found] == names


def test_branches_within_a_loop_show_their_lines() -> None:
    found = texts(drawn(nested, rl.ones(5)))
    first = nested.__code__.co_firstlineno
    lines = [int(text.partition(":")[2]) - first for text in found if ".py:" in text]
    assert lines == [3, 4, 5]
    assert found.count("if true") == found.count("if false") == 2
    assert found.index("if true") < found.index("if false")


def test_cases_of_a_switch_are_numbered() -> None:
    found = texts(drawn(switched, rl.ones(3), rl.tensor(1)))
    assert [text for text in found if text.startswith("case")] == ["case 0", "case 1", "case 2"]


def test_what_is_deep_is_only_counted() -> None:
    found = texts(drawn(deep, rl.ones(2)))
    assert len([text for text in found if re.fullmatch(r"do: \d+ nodes", text)]) == 3


def test_a_large_body_is_only_counted() -> None:
    def function(x):
        while x.sum() < 100:
            for _ in range(40):
                x = (x + 1).exp().log()
        return x

    found = texts(drawn(function, rl.ones(2)))
    assert "120 nodes" in found
    assert "add ×40" in found


def test_a_body_of_thirty_nodes_is_drawn() -> None:
    def function(x):
        while x.sum() < 100:
            for _ in range(10):
                x = (x + 1).exp().log()
        return x

    assert texts(drawn(function, rl.ones(2))).count("exp") == 10


def test_a_training_step_is_drawn_by_lines() -> None:
    rl.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = rl.optim.Adam(net.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    svg = drawn(step, rl.randn(6, 4), rl.randint(0, 3, (6,)))
    found = texts(svg)
    assert {"Sequential.0", "Sequential.1", "Sequential.3"} <= set(found)
    width, height = [int(n) for n in re.search(r'width="(\d+)" height="(\d+)"', svg).groups()]  # type: ignore[union-attr]
    assert width < 4000
    assert height < 6000
