"""rl.draw: what is on the picture, and that nothing overlaps."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest

import rushlight as rl
from rushlight.drawing.layout import levels

SVG = "{http://www.w3.org/2000/svg}"


def recurrent(steps: int) -> tuple[Any, dict[str, Any]]:
    weights = {
        "wx": rl.randn(4, 8, requires_grad=True),
        "wh": rl.randn(8, 8, requires_grad=True),
        "b": rl.zeros(8, requires_grad=True),
    }
    h = rl.zeros(2, 8)
    for _ in range(steps):
        h = (rl.randn(2, 4) @ weights["wx"] + h @ weights["wh"] + weights["b"]).tanh()
    return h.pow(2).mean(), weights


def residual() -> dict[str, Any]:
    h = rl.randn(3, 4, requires_grad=True)
    for i in range(8):
        w = rl.randn(4, 4, requires_grad=True)
        h = h + ((h @ w).relu() if i % 2 else (h @ w).tanh() * h.sigmoid())
    a, b = h.split([2, 2], 1)
    return {"loss": (a * b).sum(), "largest": h.max(1).values.sum()}


def rectangles(text: str) -> list[tuple[float, float, float, float]]:
    found = []
    for rect in ElementTree.fromstring(text).iter(f"{SVG}rect"):
        if rect.get("class") != "page":
            x, y, w, h = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
            found.append((x, y, x + w, y + h))
    return found


def curves(text: str) -> list[list[tuple[float, float]]]:
    """Points along each arrow."""
    lines = []
    for path in ElementTree.fromstring(text).iter(f"{SVG}path"):
        if path.get("class") != "arrow":
            continue
        x0, y0, y1, *bezier, end = (float(n) for n in re.findall(r"-?[\d.]+", path.get("d", "")))
        points = [(x0, y0 + (y1 - y0) * t / 8) for t in range(9)]
        ax, ay, bx, by, cx, cy = bezier
        for step in range(33):
            t = step / 32
            u = 1 - t
            points.append(
                (
                    u**3 * x0 + 3 * u * u * t * ax + 3 * u * t * t * bx + t**3 * cx,
                    u**3 * y1 + 3 * u * u * t * ay + 3 * u * t * t * by + t**3 * cy,
                )
            )
        lines.append([*points, *[(cx, cy + (end - cy) * t / 8) for t in range(9)]])
    return lines


PICTURES = {
    "two layers": lambda: (rl.ones(2, 2, requires_grad=True) @ rl.ones(2, 2)).relu().sum(),
    "recurrent": lambda: recurrent(12)[0],
    "residual": residual,
    "one leaf often": lambda: sum(
        (x * i).sum() for x in [rl.ones(2, requires_grad=True)] for i in range(20)
    ),
    "a leaf": lambda: rl.ones(2, requires_grad=True),
    "a constant": lambda: rl.ones(2),
    "many results": lambda: list(rl.ones(6, requires_grad=True).unbind()),
}


@pytest.mark.parametrize("kind", PICTURES)
@pytest.mark.parametrize("values", [False, True])
def test_nothing_overlaps(kind: str, values: bool) -> None:
    text = rl.draw(PICTURES[kind](), "svg", show_values=values)
    boxes = rectangles(text)
    for (a, b, c, d), (e, f, g, h) in combinations(boxes, 2):
        assert c <= e or g <= a or d <= f or h <= b
    for line in curves(text):
        for x, y in line:
            assert not any(a < x < c and b + 0.2 < y < d - 0.2 for a, b, c, d in boxes)


def test_everything_is_inside_the_picture_and_text_fits() -> None:
    text = rl.draw(residual(), "svg", show_values=True)
    root = ElementTree.fromstring(text)
    left, top, width, height = (float(n) for n in root.get("viewBox", "").split())
    boxes = rectangles(text)
    for a, b, c, d in boxes:
        assert left < a
        assert c < left + width
        assert top < b
        assert d < top + height
    for label in root.iter(f"{SVG}text"):
        x, y = float(label.get("x", "")), float(label.get("y", ""))
        half = len(label.text or "") * 0.602 * 12 / 2
        assert any(a < x - half and x + half < c and b < y < d for a, b, c, d in boxes)


def test_the_boxes_and_arrows_are_those_of_the_graph() -> None:
    x, w = rl.ones(2, 3, requires_grad=True), rl.ones(3, requires_grad=True)
    text = rl.draw((x * w * rl.ones(3)).tanh().sum(), names={"w": w})
    labels = re.findall(r'label="(.*?)"', text)
    assert labels == [
        "leaf 0\\nfloat32 2×3",
        "w\\nfloat32 3",
        "mul\\n2×3",
        "mul\\n2×3",
        "tanh\\n2×3",
        "sum\\nscalar",
        "result\\nfloat32 scalar",
    ]
    assert re.findall(r"n(\d) -> n(\d)", text) == [
        *[("0", "2"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", "5"), ("5", "6")]
    ]


def test_several_results_of_one_op_are_one_box() -> None:
    values, _ = rl.ones(3, requires_grad=True).sort()
    a, b = rl.ones(4, requires_grad=True).split(2)
    assert rl.draw((values, a * b)).count("split") == 1


def test_values_are_shown_shortened() -> None:
    text = rl.draw(rl.arange(10.0, requires_grad=True) * 2, show_values=True)
    assert "0, 1, 2, 3, 4, 5, …" in text
    assert "0, 2, 4, 6, 8, 10, …" in text


def test_names_are_quoted() -> None:
    x = rl.ones(2, requires_grad=True)
    name = '<a & "b">\\'
    assert '<a & \\"b\\">\\\\' in rl.draw(x * 2, names={name: x})
    labels = ElementTree.fromstring(rl.draw(x * 2, "svg", names={name: x})).iter(f"{SVG}text")
    assert name in [label.text for label in labels]


def test_programs_have_the_names_of_their_functions() -> None:
    x = rl.randn(4, 8, 32, 32, requires_grad=True)
    step = rl.compile(lambda x: x * 2)
    y = rl.nn.functional.max_pool2d(rl.nn.BatchNorm2d(8)(x), 2)
    assert y.grad_fn.name() == "MaxPool2dBackward0"
    assert step(x).grad_fn.name() == "CompiledFunctionBackward"
    nowhere: dict[str, Any] = {}
    exec("def f(x): return x * 2", nowhere)
    nowhere["f"].__module__ = None
    assert rl.compile(nowhere["f"])(x).grad_fn.name() == "CompiledFunctionBackward"
    text = rl.draw(y)
    assert "batch_norm\\n4×8×32×32" in text
    assert "max_pool2d\\n4×8×16×16" in text


def test_a_graph_too_large_is_refused() -> None:
    y = rl.ones(2, requires_grad=True)
    for _ in range(3000):
        y = y + 1
    with pytest.raises(ValueError, match="has 3001 nodes, draw shows at most 2000"):
        rl.draw(y)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, 'must be "dot" or "svg", got \'png\'', lambda: rl.draw(rl.ones(2), "png")),
        (TypeError, "expected tensors, got float", lambda: rl.draw([1.0])),
        (TypeError, "expected tensors, got str", lambda: rl.draw(rl.ones(2), names={"a": "b"})),
        (ValueError, "at least one tensor", lambda: rl.draw([])),
    ],
)
def test_bad_arguments(error: Any, message: str, call: Any) -> None:
    with pytest.raises(error, match=message):
        call()


def test_results_stand_below_what_computes_them():
    chain = [(0, 1), (1, 2), (2, 3), (0, 4), (3, 5)]
    assert levels(7, chain) == [0, 1, 2, 3, 1, 4, 4]
