"""Explanations: what a compiled function became, measured without leaving a trace."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.runtime import costs
from rushlight.runtime.costs import Cost, Machine, cost_of
from rushlight.runtime.explain import Explanation
from rushlight.runtime.table import quantity, seconds, text


def explain(function: Any, *args: Any) -> Explanation:
    return rl.compile(function, fullgraph=True).explain(*args)


def net() -> nn.Module:
    rl.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5))


class TestSteps:
    def test_a_fused_chain_is_one_kernel(self) -> None:
        found = explain(lambda x, y: ((x - y) * x).sum(1), rl.ones(8, 16), rl.ones(8, 16))
        (step,) = found.steps
        assert (step.kind, step.what, step.space) == ("kernel", "sub, mul, sum", (8, 16))
        assert step.cost == Cost(2 * 8 * 16 * 4, 8 * 4, 3 * 8 * 16)
        assert step.measured > 0
        assert step.estimated > 0
        assert step.share == 1
        assert "fold add" in step.loops
        assert f"@{step.function}(" in step.code

    def test_a_product_has_its_operations(self) -> None:
        found = explain(lambda a, b: a @ b, rl.ones(3, 4), rl.ones(4, 5))
        (step,) = [step for step in found.steps if step.what == "mm"]
        assert step.cost.flops == 2 * 3 * 4 * 5

    def test_a_convolution_counts_its_products(self) -> None:
        x, w = rl.ones(2, 3, 8, 8), rl.ones(4, 3, 3, 3)
        found = explain(lambda: nn.functional.conv2d(x, w))
        assert sum(step.cost.flops or 0 for step in found.steps) == 2 * (2 * 4 * 6 * 6) * 27

    def test_a_convolution_by_points_counts_what_is_done(self) -> None:
        x, w = rl.ones(1, 64, 56, 56), rl.ones(64, 64, 3, 3)
        found = explain(lambda x: nn.functional.conv2d(x, w, padding=1), x)
        assert [step for step in found.steps if step.what == "points for contract"]
        direct = 2 * (64 * 56 * 56) * (64 * 9)
        assert found.totals.flops == direct // 4  # 36 products for each 4 × 4 results, not 144

    def test_what_was_measured_is_possible(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(costs, "machine", lambda: Machine(((1 << 40, 1.0),), 1.0))
        (step,) = explain(lambda x: x.exp(), rl.ones(100)).steps
        assert step.cost.seconds > step.measured
        assert step.estimated == step.measured

    def test_functions_count_the_operations_of_their_polynomials(self) -> None:
        (step,) = explain(lambda x: x.exp(), rl.ones(100)).steps
        assert step.cost.flops == 100 * cost_of("exp", "f32", 1) > 500

    def test_what_does_not_depend_on_a_loop_is_counted_once_for_it(self) -> None:
        (step,) = explain(lambda x, y: x * y.sqrt(), rl.ones(8, 16), rl.ones(8, 1)).steps
        assert step.cost == Cost(8 * 16 * 4 + 8 * 4, 8 * 16 * 4, 8 * 16 + 8)

    def test_steps_of_loops_cost_as_often_as_they_run(self) -> None:
        def function(x: Any) -> Any:
            while x[0] < 8:
                x = x * 2
                if x[0] < 0:
                    x = x.exp()
            return x

        found = explain(function, rl.ones(1000))
        (double,) = [step for step in found.steps if "mul" in step.what]
        assert double.cost.runs == 3
        assert double.cost.flops == 3 * 1000
        (never,) = [step for step in found.steps if step.what == "exp"]
        assert never.cost == Cost(0, 0, 0, 0)
        assert found.totals.flops < 4 * 1000

    def test_steps_know_lines_and_modules(self) -> None:
        model = net()
        found = explain(model, rl.ones(4, 6))
        lines = {str(line) for step in found.steps for line in step.lines if line}
        assert all(Path(__file__).name in line for line in lines)
        assert any(line.startswith("Sequential.0  ") for line in lines)
        by_line = found.by_line()
        assert sum(by_line.values()) == pytest.approx(found.totals.measured)
        assert list(by_line.values()) == sorted(by_line.values(), reverse=True)

    def test_a_differentiable_function_has_two_programs(self) -> None:
        found = explain(net(), rl.ones(4, 6))
        assert set(found.programs) == {"forward", "backward"}
        assert {step.program for step in found.steps} == {"forward", "backward"}
        assert sum(step.share for step in found.steps) == pytest.approx(1)

    def test_totals(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rl.config, "cache_dir", str(tmp_path))
        found = explain(lambda x: (x.exp(), x @ x), rl.ones(8, 8))
        totals = found.totals
        assert totals.steps == len(found.steps) == totals.kernels + totals.calls + totals.copies
        assert totals.measured == pytest.approx(sum(step.measured for step in found.steps))
        assert totals.moved == sum(step.cost.moved for step in found.steps)
        assert {"trace", "plan", "loops", "LLVM"} <= set(totals.phases)

    def test_the_second_time_native_code_is_on_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rl.config, "cache_dir", str(tmp_path))
        first, second = [explain(lambda x: x.sin() * 3, rl.ones(8)) for _ in range(2)]
        assert not first.totals.was_kept
        assert second.totals.was_kept
        assert "from the disk cache" in str(second)

    def test_a_program_without_steps(self) -> None:
        found = explain(lambda x: x, rl.ones(2))
        assert found.steps == ()
        assert "0 steps" in str(found)

    def test_errors_of_kernels_are_those_of_the_call(self) -> None:
        with pytest.raises(IndexError, match="out of bounds"):
            explain(lambda x, i: x[i] * 2, rl.ones(3), rl.tensor([1, 7]))


class TestNothingChanges:
    def test_a_training_step(self) -> None:
        model = net()
        optimizer = rl.optim.Adam(model.parameters())
        generator = rl.get_rng_state()
        before = {name: t.clone() for name, t in model.state_dict().items()}
        versions = [p._version for p in model.parameters()]

        @rl.compile
        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            return loss

        found = step.explain(rl.ones(4, 6))
        assert found.totals.kernels > 2
        assert all(rl.equal(t, before[name]) for name, t in model.state_dict().items())
        assert all(p.grad is None for p in model.parameters())
        assert versions == [p._version for p in model.parameters()]
        assert rl.equal(generator, rl.get_rng_state())
        # An optimizer's state begins when it is first looked at, with zeros.
        assert not any(t.any() for state in optimizer.state.values() for t in state.values())

    def test_arguments_that_are_written_to(self) -> None:
        x = rl.arange(6.0)
        explain(lambda x: x.mul_(2), x)
        assert x.tolist() == [0, 1, 2, 3, 4, 5]
        assert x._version == 0

    def test_programs_of_calls_are_not_touched(self) -> None:
        compiled = rl.compile(lambda x, scale: x * scale)
        compiled.explain(rl.ones(2), 2.0)
        assert not compiled.known
        assert not compiled.floats
        assert not compiled.refused


class TestRefusals:
    @pytest.mark.parametrize(
        "function",
        [lambda x: x[x > 0], lambda x: x if x.sum() > 0 else x.sum(), lambda x: x.tolist()],
    )
    def test_it_says_why_and_where(self, function: Any) -> None:
        found = rl.compile(function).explain(rl.ones(3))
        place = f"{Path(__file__).name}:{function.__code__.co_firstlineno}"
        assert found.refused
        assert place in found.refused
        assert "dynamic mode" in str(found)
        assert found.refused in str(found)
        assert "<pre>" in found._repr_html_()


class TestTable:
    @pytest.mark.parametrize("width", [60, 80, 120, 200])
    def test_it_keeps_to_the_width(self, width: int) -> None:
        found = explain(net(), rl.ones(4, 6))
        rows = text(found, width).split("\n\n")[0]
        assert max(map(len, rows.splitlines())) <= width
        assert all(step.what[:10] in rows for step in found.steps)

    def test_quantities(self) -> None:
        assert [quantity(n, "B") for n in (0, 999, 999.6, 12345)] == [
            "0 B",
            "999 B",
            "1 kB",
            "12.3 kB",
        ]
        assert [seconds(t) for t in (2e-9, 9.996e-7, 0.0123, 3)] == [
            "2 ns",
            "1 µs",
            "12.3 ms",
            "3 s",
        ]

    def test_small_data_moves_as_fast_as_caches_are(self) -> None:
        machine = Machine(((100, 8.0), (1000, 2.0)), 1.0)
        assert [machine.bandwidth(n) for n in (1, 100, 101, 5000)] == [8.0, 8.0, 2.0, 2.0]

    def test_the_best_is_that_of_the_quicker_product(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def took(function: Any, *_: Any) -> float:
            return 2.0 if function is np.matmul else 0.5

        monkeypatch.setattr(costs, "best", took)
        assert costs.machine.__wrapped__().flops == 2 * 512**3 / 0.5
        monkeypatch.setattr(rl.config, "fuse_eager", False)
        assert costs.machine.__wrapped__().flops == 2 * 512**3 / 2.0


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects their attributes and scripts."""

    VOID = {"meta", "input", "rect", "path", "br"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


class TestPage:
    def page(self, found: Explanation, folder: Path) -> tuple[str, Outline]:
        found.save(folder / "page.html")
        page = (folder / "page.html").read_text("utf-8")
        outline = Outline()
        outline.feed(page)
        assert not outline.open
        return page, outline

    def test_it_needs_nothing_from_elsewhere(self, tmp_path: Path) -> None:
        page, outline = self.page(explain(net(), rl.ones(4, 6)), tmp_path)
        assert not {"link", "img", "iframe"} & set(outline.tags)
        assert not [name for name, _ in outline.attributes if name in ("src", "href")]
        assert "default-src 'none'" in page
        assert "{{" not in page

    def test_every_step_has_a_row_details_and_a_place_in_the_graph(self, tmp_path: Path) -> None:
        found = explain(net(), rl.ones(4, 6))
        page, _ = self.page(found, tmp_path)
        for step in found.steps:
            assert page.count(f'data-step="{step.program}-{step.number}"') == 2
            if step.origin is not None:
                assert f'<g class="step" data-origin="{step.program}-{step.origin}"' in page
        assert page.count("define void @") == found.totals.functions

    def test_names_are_escaped(self, tmp_path: Path) -> None:
        evil = "<script>alert('&')</script>"
        names: dict[str, Any] = {}
        exec(compile("def f(x):\n    return x.exp() + 1", f"{evil}.py", "exec"), names)
        names["f"].__qualname__ = evil
        found = explain(names["f"], rl.ones(3))
        page, outline = self.page(found, tmp_path)
        assert "alert('" not in page
        assert "&lt;script&gt;" in page
        assert outline.tags.count("script") == 1
        assert "<script>" not in found._repr_html_()

    def test_a_refusal_has_a_page(self, tmp_path: Path) -> None:
        page, _ = self.page(rl.compile(lambda x: x[x > 0]).explain(rl.ones(3)), tmp_path)
        assert "depends on values" in page

    def test_frames_of_different_steps_do_not_overlap(self, tmp_path: Path) -> None:
        found = explain(lambda x: (x @ x).relu().softmax(1) @ x, rl.ones(8, 8))
        page, _ = self.page(found, tmp_path)
        number = r'="([-\d.]+)"'
        frame = rf'<rect class="frame" x{number} y{number} width{number} height{number}'
        boxes = [tuple(map(float, found)) for found in re.findall(frame, page)]
        origins = {origin for step in found.steps for origin in (step.origin, *step.chained)}
        assert len(boxes) == len(origins) > 2
        for i, (x, y, w, h) in enumerate(boxes):
            for a, b, c, d in boxes[:i]:
                assert x >= a + c or a >= x + w or y >= b + d or b >= y + h

    def test_steps_of_loops_are_inside_their_frames(self, tmp_path: Path) -> None:
        def function(x: Any) -> Any:
            while x.sum() < 10:
                x = x * 2 if x.max() < 3 else x + 1
            return x

        found = explain(function, rl.ones(3))
        page, _ = self.page(found, tmp_path)
        line = function.__code__.co_firstlineno + 1
        assert ">while</text>\n<text" in page
        assert page.count('<g class="flow">') == 2
        assert f">test_explain.py:{line}</text>" in page
        inner = [step for step in found.steps if len(step.path) == 2]
        assert len(inner) == 2
        for step in inner:
            path = "-".join([f"{a}.{b}" for a, b in step.path])
            name = f"{step.program}-{path}-{step.origin}"
            assert page.count(f'data-origin="{name}"') == 2  # a row and a frame


class Reader(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.rest = rl.nn.Embedding(20, 16), rl.nn.LSTM(16, 8, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.rest(self.words(x))[0].mean(1)


def test_gradients_have_no_line_of_who_asks() -> None:
    text = str(rl.compile(Reader()).explain(rl.zeros(4, 7, dtype=rl.int64)))
    lines = {int(n) for n in re.findall(r"test_explain\.py:(\d+)", text)}
    assert lines == {Reader.forward.__code__.co_firstlineno + 1}


def test_the_name_of_a_file_says_what_is_in_it(tmp_path: Path) -> None:
    report = rl.compile(lambda x: x.sin().sum()).explain(rl.randn(10))
    report.save(tmp_path / "steps.txt")
    assert (tmp_path / "steps.txt").read_text(encoding="utf-8") == f"{report}\n"
    with pytest.raises(ValueError, match=r"ends with \.html \(page\) or \.txt \(table\), got"):
        report.save(tmp_path / "steps.png")
    assert not (tmp_path / "steps.png").exists()
