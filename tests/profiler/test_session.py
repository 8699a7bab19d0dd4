"""Profiles of dynamic and compiled programs, and what is left of them afterwards."""

from __future__ import annotations

import gzip
import inspect
import json
import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.autograd import engine
from rushlight.autograd.engine import Backward
from rushlight.nn import functional as F
from rushlight.nn.functional import relu as held_relu
from rushlight.ops.base import Composite, Op, registry
from rushlight.profiler import hooks
from rushlight.profiler.events import Recorder
from rushlight.runtime.executable import Binding

PLACES = (rl, rl.Tensor, F, Op, Backward, engine, Binding, rl.autograd.Function)


def bindings():
    return [{k: v for k, v in vars(place).items() if not k.startswith("__")} for place in PLACES]


@pytest.fixture(autouse=True)
def unchanged():
    """Nothing of the package is another than before, whatever a test does."""
    rl.profile
    before = bindings()
    yield
    assert Recorder.active is None
    for old, new in zip(before, bindings(), strict=True):
        assert all([new[name] is value for name, value in old.items()])


def rows(p, group_by="op"):
    return {row.key: row for row in p.averages(group_by)}


def line_after(anchor):
    """The number of the line of the caller's file that ends with a comment."""
    source = inspect.getsource(inspect.getmodule(line_after)).splitlines()
    (number,) = [i for i, text in enumerate(source, 1) if text.endswith(f"# {anchor}")]
    return f"{__file__}:{number}"


class TestEager:
    def test_ops_with_calls_costs_and_memory(self):
        a, b = rl.randn(20, 30), rl.randn(30, 40)
        with rl.profile() as p:
            for _ in range(3):
                y = a.mm(b)
            y + 1.0
            y.t()
        found = rows(p)
        mm, add, t = found["mm"], found["add"], found["t"]
        assert (mm.count, add.count, t.count) == (3, 1, 1)
        assert mm.flops == 3 * 2 * 20 * 30 * 40
        assert mm.moved == 3 * 4 * (20 * 30 + 30 * 40 + 20 * 40)
        assert mm.allocated == 3 * 4 * 20 * 40
        assert add.flops == 20 * 40
        assert t.moved == t.allocated == 0
        assert 0 < mm.own <= mm.total
        assert sum([row.own for row in found.values()]) <= p.wall

    def test_an_op_made_of_others_has_their_time_and_costs(self):
        x = rl.randn(10, 20)
        with rl.profile() as p:
            nn.functional.scaled_dot_product_attention(x, x, x)
        whole = rows(p)["nn.functional.scaled_dot_product_attention"]
        assert whole.flops == rows(p)["attention"].flops == 2 * 2 * 10 * 10 * 20
        assert 0 < whole.own < whole.total

    @pytest.mark.parametrize(
        ("call", "op", "flops"),
        [
            (lambda x: F.conv2d(x, rl.ones(4, 3, 3, 3)), "convolve", 2 * 2 * 4 * 36 * 27),
            (lambda x: F.linear(x, rl.ones(5, 8)), "nn.functional.linear", 2 * 2 * 3 * 8 * 8 * 5),
            (lambda x: rl.einsum("abcd,abce->abde", x, x), "bmm", 2 * 2 * 3 * 8 * 8 * 8),
            (lambda x: x.sum(dim=1), "sum", 2 * 3 * 8 * 8),
            (lambda x: x * 2, "mul", 2 * 3 * 8 * 8),
            (lambda x: x.mul_(2), "mul_", 2 * 3 * 8 * 8),
        ],
        ids=["convolution", "linear", "einsum", "sum", "mul", "mul_"],
    )
    def test_operations_are_counted(self, call, op, flops):
        x = rl.randn(2, 3, 8, 8)
        with rl.profile() as p:
            call(x)
        assert rows(p)[op].flops == flops

    def test_functions_that_a_program_holds_are_seen(self):
        x = rl.randn(100)
        with rl.profile() as p:
            held_relu(x)
        assert rows(p)["relu"].count == 1

    def test_backward_is_charged_to_the_line_of_its_forward(self):
        x = rl.randn(50, 50, requires_grad=True)
        with rl.profile() as p:
            y = (x @ x).tanh()  # forward line
            y.sum().backward()  # backward line
        found = rows(p)
        assert {"backward of mm", "backward of tanh", "backward of sum"} <= set(found)
        assert found["backward of mm"].flops == 2 * found["mm"].flops
        lines = rows(p, "line")
        forward = lines[line_after("forward line")]
        assert forward.forward > 0
        assert forward.backward > 0
        assert lines[line_after("backward line")].backward > 0
        assert forward.forward + forward.backward == pytest.approx(forward.own)
        assert x.grad.shape == (50, 50)

    def test_sums_over_broadcast_dimensions_belong_to_the_op(self):
        x, b = rl.randn(100, 20), rl.randn(20, requires_grad=True)
        with rl.profile() as p:
            (x + b).sum().backward()
        assert rows(p)["backward of add"].flops == 100 * 20

    def test_results_and_gradients_are_the_same(self):
        def run():
            rl.manual_seed(0)
            model = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.GELU(), nn.LSTM(7, 3))
            y, _ = model(rl.randn(6, 5))
            y.square().sum().backward()
            return [p.grad.numpy() for p in model.parameters()]

        plain = run()
        with rl.profile():
            watched = run()
        for a, b in zip(plain, watched, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_custom_functions_and_optimizers(self):
        class Twice(rl.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        w = rl.ones(10, requires_grad=True)
        optimizer = rl.optim.SGD([w], lr=0.1)
        with rl.profile() as p:
            Twice.apply(w).sum().backward()
            optimizer.step()
        found = rows(p)
        assert {"Twice", "backward of Twice", "SGD.step()", "update of parameters"} <= set(found)
        assert found["Twice"].total >= found["mul"].total / 2
        assert found["update of parameters"].flops == 2 * 10

    def test_modules(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU()))
        with rl.profile() as p:
            model(rl.ones(2, 4))
        assert {"Sequential.0", "Sequential.1.0"} <= set(rows(p, "module"))

    def test_threads_have_rows_of_their_own(self):
        x = rl.randn(100)

        def work():
            for _ in range(5):
                x.exp()

        with rl.profile() as p:
            thread = threading.Thread(target=work, name="helper")
            thread.start()
            x.sin()
            thread.join()
        threads = rows(p, "thread")
        assert threads["helper"].count == 5
        assert threads[threading.current_thread().name].count == 1

    def test_workers_of_a_loader(self):
        class Made(rl.utils.data.Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, i):
                return rl.full((3,), float(i)).exp()

        loader = rl.utils.data.DataLoader(Made(), batch_size=4, num_workers=2, worker_kind="thread")
        with rl.profile() as p:
            assert len(list(loader)) == 2
        assert rows(p)["exp"].count == 8
        assert len([name for name in rows(p, "thread") if "worker" in name]) == 2


class TestCompiled:
    def test_steps_of_a_program(self):
        @rl.compile
        def f(x, w):
            y = x.mm(w)  # product
            return (y.sin() + y.cos()).sum()  # fused

        x, w = rl.randn(30, 40), rl.randn(40, 50)
        expected = f(x, w)
        with rl.profile() as p:
            y = f(x, w)
        assert y.item() == expected.item()
        found = rows(p, "kernel")
        assert {"mm", "sin, cos, add, sum"} <= set(found)
        assert found["mm"].flops == 2 * 30 * 40 * 50
        assert all([row.own > 0 for row in found.values()])
        assert not [name for name in rows(p) if name.startswith("compile ")]
        lines = rows(p, "line")
        assert lines[line_after("product")].flops == 2 * 30 * 40 * 50
        assert lines[line_after("fused")].own > 0

    def test_compiling_is_seen_and_guards_hold(self):
        f = rl.compile(lambda x: held_relu(F.gelu(x)).sum())
        with rl.profile() as p:
            f(rl.ones(10))
        compiled = [name for name in rows(p) if name.startswith("compile ")]
        assert len(compiled) == 1
        with rl.profile() as p:
            f(rl.ones(10))
        f(rl.ones(10))
        assert not [name for name in rows(p) if name.startswith("compile ")]
        assert len(f.known) == 1

    def test_programs_of_dynamic_mode_are_called_as_their_ops(self):
        fused = [op for op in registry.values() if op.fused and isinstance(op, Composite)]
        assert fused
        assert all([op.call.__wrapped__.__qualname__ == op.name for op in fused])
        x = rl.ones(3, 7, 40, 40)  # a shape of its own
        with rl.profile() as p:
            for _ in range(4):
                F.max_pool2d(x, 2)
        assert {"compile max_pool2d", "compiled max_pool2d"} <= {*rows(p)}
        with rl.profile() as p:
            rl.sigmoid(rl.ones(3, 7, 30, 41))
        assert {"compile sigmoid", "compiled sigmoid"} <= {*rows(p)}

    def test_the_backward_program(self):
        model = rl.compile(nn.Linear(8, 8))
        x = rl.randn(4, 8)
        model(x).sum().backward()
        with rl.profile() as p:
            model(x).sum().backward()
        assert rows(p)["backward of Linear"].total > 0
        assert {"Linear program", "backward of Linear program"} <= {*rows(p)}
        kernels = rows(p, "kernel").values()
        assert any([row.backward > 0 for row in kernels])
        assert any([row.forward > 0 for row in kernels])

    def test_errors_of_kernels_are_those_without_a_profile(self):
        f = rl.compile(lambda x, i: x[i] * 2)
        x, bad = rl.ones(3), rl.tensor([5])
        f(x, rl.tensor([1]))
        with pytest.raises(IndexError) as plain:
            f(x, bad)
        with rl.profile(), pytest.raises(IndexError) as watched:
            f(x, bad)
        assert str(watched.value) == str(plain.value)
        assert f(x, rl.tensor([2])).tolist() == [2.0]


class TestSession:
    def test_an_exception_leaves_nothing_behind(self):
        with pytest.raises(RuntimeError, match="size of tensor"), rl.profile() as p:
            rl.ones(2) + rl.ones(3)
        assert [row.key for row in p.averages()] == ["ones", "add"]

    def test_nesting_is_an_error(self):
        with rl.profile():
            with pytest.raises(RuntimeError, match="record_function"), rl.profile():
                pass
            assert Recorder.active is not None

    def test_modules_that_are_loaded_meanwhile_are_restored(self):
        with rl.profile():
            late = vars(F)["relu"]
            vars(F)["late"] = late
        assert vars(F).pop("late") is F.relu is not late
        assert late(rl.ones(1)).item() == 1

    def test_nothing_watches_without_a_profile(self):
        watching = {id(watch) for _, watch in hooks.watches().values()}
        assert not any([id(value) in watching for place in bindings() for value in place.values()])

    def test_steps_of_a_schedule(self):
        ready = []
        x = rl.ones(3)
        with rl.profile(
            schedule=rl.profiler.schedule(wait=1, warmup=1, active=2, repeat=2),
            on_trace_ready=lambda p: ready.append([row.key for row in p.averages()]),
        ) as p:
            for _ in range(10):
                x.exp()
                p.step()
        assert ready == [
            ["ProfilerStep#2", "exp", "ProfilerStep#3"],
            ["ProfilerStep#6", "exp", "ProfilerStep#7"],
        ]

    def test_steps_are_added_up(self):
        options = {"schedule": rl.profiler.schedule(wait=0, warmup=1, active=1), "acc_events": True}
        with rl.profile(**options) as p:
            for _ in range(4):
                rl.ones(3)
                p.step()
        assert rows(p)["ones"].count == 2

    def test_ready_is_called_at_the_end(self):
        ready = []
        with rl.profile(on_trace_ready=ready.append) as p:
            rl.ones(2)
        assert ready == [p]

    def test_named_ranges(self):
        @rl.profiler.record_function("decorated")
        def work(x):
            with rl.profiler.record_function("inner"):
                return x.exp()

        with rl.profile() as p:
            work(rl.ones(2))
            work(rl.ones(2))
        found = rows(p)
        assert (found["decorated"].count, found["inner"].count) == (2, 2)
        assert found["decorated"].total >= found["inner"].total >= found["exp"].total
        work(rl.ones(2))

    def test_a_compiled_function_with_a_named_range(self):
        @rl.compile(fullgraph=True)
        def work(x):
            with rl.profiler.record_function("inner"):
                return x.exp()

        with rl.profile():
            assert work(rl.zeros(2)).tolist() == [1, 1]

    def test_shapes_and_stacks_tell_ops_apart(self):
        def twice(x):
            return x.exp()

        with rl.profile(with_stack=True) as p:
            twice(rl.ones(2))
            twice(rl.ones(3))
        assert len([r for r in p.key_averages(group_by_input_shape=True) if r.key == "exp"]) == 2
        assert len([r for r in p.key_averages(group_by_stack_n=1) if r.key == "exp"]) == 1
        apart = [r for r in p.key_averages(group_by_stack_n=2) if r.key == "exp"]
        assert len(apart) == 2
        assert all([len(r.stack) == 2 for r in apart])

    def test_pytorchs_attributes(self):
        with rl.profile(activities=[rl.profiler.ProfilerActivity.CPU], record_shapes=True) as p:
            rl.ones(3).exp()
        row = p.key_averages()[1]
        assert row.cpu_time_total == pytest.approx(1e6 * row.total)
        assert row.cpu_time == row.cpu_time_total / row.count
        assert row.self_cpu_memory_usage == 12
        assert p.key_averages().self_cpu_time_total <= 1e6 * p.wall
        assert p.key_averages().total_average().count == 2
        assert p.events()[1].input_shapes == [[3]]

    def test_products_of_expanded_gradients_count(self):
        a, b = rl.ones(64, 64, requires_grad=True), rl.ones(64, 64)
        with rl.profile() as p:
            (a @ b).sum().backward()
        assert sum([r.flops for r in p.averages() if r.key == "backward of mm"]) == 2 * 64**3

    def test_the_total_counts_what_is_inside_once(self):
        x = rl.ones(64, 64)
        with rl.profile() as p:
            rl.compile(lambda x: x @ x)(x)
        total = p.total_average()
        assert total.flops == 2 * 64**3
        assert total.moved == sum([row.own_moved for row in p.averages()])
        assert total.busy == total.own <= p.wall


class TestExports:
    @pytest.fixture
    def p(self):
        x = rl.randn(8, 8, requires_grad=True)
        with rl.profile() as p:
            with rl.profiler.record_function("<b>named</b>"):
                (x @ x).sum().backward()
            thread = threading.Thread(target=lambda: rl.ones(2).exp(), name="helper")
            thread.start()
            thread.join()
        return p

    def test_chrome_trace(self, p, tmp_path):
        p.add_metadata("run", "7")
        p.export_chrome_trace(tmp_path / "trace.json")
        trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))
        assert trace["run"] == "7"
        complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        assert len(complete) == len(p.entries)
        for event in complete:
            assert event["dur"] >= 0
            assert event["ts"] >= 0
            assert isinstance(event["pid"], int)
            assert isinstance(event["tid"], int)
        names = {
            event["tid"]: event["args"]["name"]
            for event in trace["traceEvents"]
            if event["name"] == "thread_name"
        }
        assert {names[event["tid"]] for event in complete} == set(names.values())
        assert "helper" in names.values()
        (exp,) = [event for event in complete if event["name"] == "exp"]
        assert names[exp["tid"]] == "helper"
        assert exp["args"]["Input Dims"] == [[2]]

    def test_events_lie_within_those_around_them(self, p):
        for entry in p.entries:
            if entry.parent is not None:
                outer, inner = entry.parent.event, entry.event
                assert outer.begin <= inner.begin <= inner.end <= outer.end

    def test_compressed(self, p, tmp_path):
        p.export_chrome_trace(tmp_path / "trace.json.gz")
        with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
            assert json.load(file)["traceEvents"]

    def test_for_tensorboard(self, tmp_path):
        handler = rl.profiler.tensorboard_trace_handler(str(tmp_path / "runs"), "me", use_gzip=True)
        with rl.profile(on_trace_ready=handler):
            rl.ones(2)
        (written,) = (tmp_path / "runs").iterdir()
        assert written.name.startswith("me.")
        assert written.name.endswith(".pt.trace.json.gz")

    def test_stacks(self, p, tmp_path):
        p.export_stacks(tmp_path / "stacks.txt")
        lines = (tmp_path / "stacks.txt").read_text("utf-8").splitlines()
        assert len(lines) == len(p.entries)
        assert all([line.rpartition(" ")[2].isdigit() for line in lines])
        with pytest.raises(ValueError, match="metric"):
            p.export_stacks(tmp_path / "stacks.txt", "luck")

    def test_page(self, p, tmp_path):
        p.save(tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text("utf-8")
        assert "&lt;b&gt;named&lt;/b&gt;" in page
        assert "<b>named</b>" not in page
        assert page.count('class="bar"') == len(p.entries)
        assert "backward of mm" in page
        assert "helper" in page
        assert "{{" not in page
        assert "http" not in page.replace("http-equiv", "")

    def test_what_is_saved_is_what_its_name_says(self, p, tmp_path):
        p.save(tmp_path / "trace.json")
        assert json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
        with pytest.raises(ValueError, match=r"ends with \.html .* or \.json .*, got .*page\.txt"):
            p.save(tmp_path / "page.txt")
        assert not (tmp_path / "page.txt").exists()

    def test_tables(self, p):
        wide, narrow = p.table(width=140), p.table(width=60)
        assert max(map(len, wide.splitlines())) <= 140
        assert max(map(len, narrow.splitlines())) <= 60
        assert "FLOP/s" in wide
        assert "FLOP/s" not in narrow
        assert p.table(sort_by="name").splitlines()[1].startswith("<b>named</b>")
        assert "… and " in p.key_averages().table(sort_by="cpu_time_total", row_limit=2)
        assert "backward" in p.table(group_by="line").splitlines()[0]
        assert (
            p.key_averages().table(sort_by="self_cuda_time_total", header="Top").startswith("Top")
        )
        with pytest.raises(ValueError, match="sort_by: expected one of self"):
            p.table(sort_by="luck")
        with pytest.raises(ValueError, match="group_by: expected one of op, line"):
            p.table(group_by="luck")
        assert "at best" in str(p)

    def test_notebooks(self, p):
        for shown in (p._repr_html_(), p.averages("op")._repr_html_()):
            assert "backward of mm" in shown
            assert "&lt;b&gt;named&lt;/b&gt;" in shown
            assert "<b>named</b>" not in shown
            assert shown.count("<table") == shown.count("</table>") > 0
        assert "at best" in p._repr_html_()

    def test_of_nothing(self, tmp_path):
        with rl.profile() as p:
            pass
        assert "0 events" in str(p)
        assert "0 events" in p._repr_html_()
        p.save(tmp_path / "page.html")
        p.export_chrome_trace(tmp_path / "trace.json")


class TestOlderNames:
    def test_profile(self, tmp_path):
        older = rl.autograd.profiler
        with older.profile(use_cuda=False) as p, older.record_function("part"):
            rl.ones(2)
        assert "part" in p.table(sort_by="self_cpu_time_total")
        assert [row.key for row in p.function_events] == ["part", "ones"]
        assert p.total_average().count == 2
        p.export_chrome_trace(str(tmp_path / "trace.json"))

    def test_disabled(self):
        with rl.autograd.profiler.profile(enabled=False) as p:
            rl.ones(2)
        assert not p.key_averages()

    def test_tools_of_vendors(self):
        with pytest.raises(RuntimeError, match="CUDA is not there"):
            rl.autograd.profiler.emit_nvtx().__enter__()
        with rl.autograd.profiler.emit_itt(enabled=False):
            rl.ones(2)


class TestSchedule:
    def test_skips(self):
        plan = rl.profiler.schedule(wait=2, warmup=0, active=1, skip_first=1, skip_first_wait=1)
        names = [plan(step).name for step in range(5)]
        assert names == ["NONE", "RECORD_AND_SAVE", "NONE", "NONE", "RECORD_AND_SAVE"]

    @pytest.mark.parametrize("bad", [{"wait": -1}, {"active": 0}], ids=str)
    def test_refused(self, bad):
        with pytest.raises(ValueError, match="schedule"):
            rl.profiler.schedule(**{"wait": 1, "warmup": 1, "active": 1, **bad})


@pytest.mark.parametrize(
    ("order", "head"),
    [("memory", "memory"), ("bytes", "bytes/s"), ("flops", "FLOP/s"), ("cpu_time", "mean")],
)
def test_the_column_that_decides_is_shown_however_narrow(order: str, head: str) -> None:
    with rl.profile() as p:
        (rl.ones(50, 60) @ rl.ones(60, 70)).softmax(1)
    assert head in p.table(sort_by=order, width=60).splitlines()[0].split()
