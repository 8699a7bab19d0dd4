"""What may happen around a compiled function: the result is that of the function, or an error."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import gc
import multiprocessing
import pickle
import random
import threading
import tracemalloc
import warnings
import weakref
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.compile import Compiled
from rushlight.symbol import TraceError
from rushlight.utils.data import DataLoader, TensorDataset
from tests.waiting import PATIENCE

required = functools.partial(rl.compile, fullgraph=True)
SCALE: Any = 2.0


def programs(compiled):
    """How many programs a compiled function keeps."""
    return sum(map(len, compiled.known.values()))


def first_line(function):
    return function.__code__.co_firstlineno + 1


class TestArguments:
    def test_sizes_change_and_few_programs_are_kept(self, monkeypatch):
        monkeypatch.setattr(rl.config, "programs", 4)
        total = rl.compile(lambda x: (x * 2).sum(0), dynamic=False)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for n in (*range(8), *range(8)):
                assert rl.equal(total(rl.ones(n, 3)), rl.full((3,), 2.0 * n))
        assert programs(total) == 4
        assert len(told) == 1
        assert "more than 4 kinds of arguments" in str(told[0].message)

    def test_a_float_that_changes_is_a_number_of_the_run(self):
        scale = required(lambda x, rate: x * rate if rate < 0.5 else -x)
        for rate in (0.1, 0.2, 0.3, 0.9, 0.4, 0.8, np.float64(0.25)):
            assert scale(rl.ones(1), rate).item() == pytest.approx(rate if rate < 0.5 else -1)
        assert programs(scale) <= 4

    @pytest.mark.parametrize("kind", [np.float32, np.int64, int, bool, complex, str, np.dtype])
    def test_other_values_are_part_of_the_key(self, kind):
        same = required(lambda x, value: (x, value))
        for value in ("i1", "i2", "i4") if kind is np.dtype else (1, 2, 3):
            assert same(rl.ones(1), kind(value))[1] == kind(value)

    @pytest.mark.parametrize(
        "make",
        [
            lambda t: [t], lambda t: {"x": t}, lambda t: collections.OrderedDict(x=t),
            lambda t: collections.defaultdict(list, x=t), lambda t: Point(t), lambda t: (t, (t,)),
        ],
    )  # fmt: skip
    def test_containers_serve_new_tensors(self, make):
        same = required(lambda container: container)
        for n in range(3):
            found = same(make(rl.full((2,), float(n))))
            assert type(found) is type(make(0))
            assert str(found) == str(make(rl.full((2,), float(n))))
        assert programs(same) == 1

    @pytest.mark.parametrize("container", [[], {}, collections.deque()], ids=repr)
    def test_what_the_function_puts_there_is_there(self, container):
        def keep(x, entries):
            if isinstance(entries, dict):
                entries["kept"] = x * 2
            else:
                entries.append(x * 2)
            return x

        with pytest.raises(TraceError, match="changes Python state"):
            required(keep)(rl.ones(2), container)
        assert not container
        with pytest.warns(UserWarning, match="runs in dynamic mode"):
            rl.compile(keep)(rl.ones(2), container)
        assert len(container) == 1

    def test_one_tensor_twice_and_memory_that_two_share(self):
        def write(a, b):
            a.add_(1)
            return b * 2

        compiled = rl.compile(write)
        assert compiled(rl.zeros(2), rl.zeros(2)).tolist() == [0, 0]
        both = rl.zeros(2)
        assert compiled(both, both).tolist() == [2, 2]
        line = rl.zeros(3)
        with pytest.warns(UserWarning, match="shares memory"):
            assert compiled(line[:2], line[1:]).tolist() == [2, 0]

    def test_an_argument_that_the_function_also_reaches_otherwise(self):
        weight = rl.ones(2)
        add = required(lambda x: x + 2 * weight)
        for x in (weight, rl.zeros(2), weight, rl.ones(2)):
            assert rl.equal(add(x), x + 2)

    def test_strides(self):
        doubled = required(lambda x: x.mul_(2))
        x = rl.arange(12.0).view(3, 4)
        for part in (x.t(), x[::2], x[:, 1:3], x.flip(0)):
            expected = part * 2
            assert doubled(part) is part
            assert rl.equal(part, expected)

    def test_gradients_of_arguments(self):
        def step(w, x):
            (w * x).sum().backward()
            return w.grad

        compiled = required(step)
        for _ in range(2):
            w = rl.ones(2, requires_grad=True)
            for total in (1.0, 3.0, 6.0):
                x = rl.full((2,), {1.0: 1.0, 3.0: 2.0, 6.0: 3.0}[total])
                found = compiled(w, x)
                assert found is w.grad
                assert found.tolist() == [total, total]

    def test_arrays_of_numpy(self):
        array = np.ones(2, np.float32)
        functions = [
            lambda x, a: x * rl.tensor(a), lambda x, a: x * rl.from_numpy(a),
            lambda x, a: x * float(a.sum()), lambda x, a: x * rl.tensor(array),
        ]  # fmt: skip
        for function in functions:
            compiled = required(function)
            for value in (1, 5, 5):
                array[:] = value
                assert rl.equal(compiled(rl.ones(2), array), function(rl.ones(2), array))


@dataclasses.dataclass
class Point:
    x: Any
    norm: Any = dataclasses.field(default=0, init=False)


class TestResults:
    def test_structure_and_identity(self):
        def results(x):
            y = x + 1
            return x, y, y, None, {"a": [y, 3, "text"]}, rl.Size([2])

        x = rl.ones(2)
        same, y, again, nothing, inner, size = required(results)(x)
        assert same is x
        assert again is y
        assert inner["a"][0] is y
        assert (nothing, inner["a"][1:], size) == (None, [3, "text"], (2,))

    @pytest.mark.parametrize("requires_grad", [False, True])
    def test_views_of_arguments_are_views(self, requires_grad):
        def views(x):
            return x[1:], x.view(3, 1), x.detach(), x.expand(2, 3)

        compiled = required(views)
        for _ in range(2):
            x = rl.zeros(3, requires_grad=requires_grad)
            found, expected = compiled(x), views(x)
            with rl.no_grad():
                x[1] = 5
            for t, u in zip(found, expected, strict=True):
                assert rl.equal(t, u)
                assert t.requires_grad == u.requires_grad
                assert t._is_view() == u._is_view()
        if requires_grad:
            (2 * found[0].sum() + 3 * found[1].sum()).backward()
            assert x.grad.tolist() == [3, 5, 5]

    def test_objects_with_tensors_in_them_are_refused(self):
        class Holder:
            def __init__(self, t):
                self.t = t

        with pytest.raises(TraceError, match=r"an object of .*Holder with new tensors"):
            required(lambda x: Holder(x + 1))(rl.ones(2))

    def test_backward_outside(self):
        w = rl.ones(3, requires_grad=True)
        square = required(lambda h: (h * h).sum())
        square(w * 2).backward()
        assert w.grad.tolist() == [8, 8, 8]
        w.grad = None
        loss = square(w)
        loss.backward(retain_graph=True)
        loss.backward()
        assert w.grad.tolist() == [4, 4, 4]
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()

    def test_hooks_and_second_derivatives(self):
        w = rl.full((2,), 2.0, requires_grad=True)
        y = required(lambda h: h * h)(w)
        y.register_hook(lambda g: g * 10)
        y.sum().backward()
        assert w.grad.tolist() == [40, 40]
        (slope,) = rl.autograd.grad(required(lambda h: (h**3).sum())(w), w, create_graph=True)
        (bend,) = rl.autograd.grad(slope.sum(), w)
        assert (slope.tolist(), bend.tolist()) == ([12, 12], [12, 12])

    def test_what_is_changed_before_backward_is_noticed(self):
        w = rl.ones(2, requires_grad=True)
        y = required(lambda h: (h * h).sum())(w)
        with rl.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


class TestSurroundings:
    def test_globals(self, monkeypatch):
        scaled = required(lambda x: x * SCALE)
        for value in (2.0, 3.0, rl.full((1,), 7.0), 5, 2.0):
            monkeypatch.setitem(globals(), "SCALE", value)
            assert scaled(rl.ones(1)).item() == float(value)

    def test_attributes_methods_and_classes(self):
        class Model:
            factor = 2.0

            def __init__(self):
                self.weight = rl.ones(2)
                self.state = rl.zeros(2)

            def scaled(self, x):
                return x * self.factor

            @required
            def run(self, x):
                self.state = self.state + x
                return self.scaled(x) + self.weight

        one, other = Model(), Model()
        assert one.run(rl.ones(2)).tolist() == [3, 3]
        other.weight = rl.zeros(2)
        assert other.run(rl.ones(2)).tolist() == [2, 2]
        one.factor = 5.0
        assert one.run(rl.ones(2)).tolist() == [6, 6]
        Model.scaled = lambda self, x: x
        assert one.run(rl.ones(2)).tolist() == [2, 2]
        assert (one.state.tolist(), other.state.tolist()) == ([3, 3], [1, 1])

    def test_data_that_is_replaced(self):
        w = rl.ones(2)

        @required
        def double():
            w.data.mul_(2)
            return w + 0

        assert double().tolist() == [2, 2]
        w.data = rl.full((2,), 10.0)
        assert double().tolist() == [20, 20]

    def test_training_and_evaluation(self):
        norm = nn.BatchNorm1d(3)
        twin, compiled = copy.deepcopy(norm), required(norm)
        for mode in (True, False, True, False):
            norm.train(mode)
            twin.train(mode)
            x = rl.randn(5, 3)
            rl.testing.assert_close(compiled(x), twin(x))
        rl.testing.assert_close(norm.running_var, twin.running_var)

    def test_gradient_modes_and_the_default_dtype(self):
        w = rl.ones(2, requires_grad=True)
        times = required(lambda x: x * w + rl.zeros(2))
        x = rl.ones(2)
        assert times(x).requires_grad
        for mode in (rl.no_grad, rl.inference_mode):
            with mode():
                assert not times(x).requires_grad
        w.requires_grad_(False)
        assert not times(x).requires_grad
        rl.set_default_dtype(rl.float64)
        try:
            assert times(x).dtype is rl.float64
        finally:
            rl.set_default_dtype(rl.float32)
        assert times(x).dtype is rl.float32

    def test_a_schedule_of_a_thousand_steps_needs_one_program(self):
        model = nn.Linear(4, 2)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
        x = rl.randn(8, 4)

        @required
        def step():
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        for _ in range(1000):
            loss = step()
            schedule.step()
        assert sum(step.made.values()) == 1
        assert loss.item() < 1e-6

    def test_what_changes_at_every_call_is_given_up(self, monkeypatch):
        monkeypatch.setattr(rl.config, "recompiles", 3)
        current = [0]
        scaled = rl.compile(lambda x: x * current[0])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for current[0] in range(6):
                assert scaled(rl.ones(1)).item() == current[0]
        assert len(told) == 1
        assert "compiled 3 times" in str(told[0].message)
        assert "(current[0] was 2, is 3)" in str(told[0].message)

    def test_inner_compiled_functions_are_part_of_the_graph(self):
        inner = required(lambda x: x * 2)
        outer = required(lambda x: inner(x) + 1)
        assert outer(rl.ones(2)).tolist() == [3, 3]
        assert programs(inner) == 0


class TestRefusals:
    @pytest.mark.parametrize(
        "function",
        [
            lambda x: x * x.sum().tolist(), lambda x: x if x.sum() > 0 else x.sum(),
            lambda x: x[: int(x.sum())], lambda x: {float(x[0]): x}, lambda x: x * x.tolist()[0],
            lambda x: np.sin(x.numpy()), lambda x: np.sin(x), lambda x: list(range(x[0])),
            lambda x: (print(x.tolist()), x)[1], lambda x: f"{x}", lambda x: x[x > 0],
            lambda x: x.nonzero(),
            lambda x: rl.masked_select(x, x > 0), lambda x: rl.unique(x),
        ],
    )  # fmt: skip
    def test_values_in_python(self, function, capsys):
        with pytest.raises(TraceError, match=rf"{__file__}:\d+"):
            required(function)(rl.ones(3))
        assert capsys.readouterr().out == ""

    def test_the_message_names_the_line_and_the_cure_and_comes_once(self):
        def mean(x):
            return x / x.sum().tolist()

        compiled = rl.compile(mean)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(3):
                rl.testing.assert_close(compiled(rl.ones(4)), rl.full((4,), 0.25))
        assert len(told) == 1
        assert told[0].filename == __file__
        for part in (f"{__file__}:{first_line(mean)}", "rl.where", "fullgraph=True"):
            assert part in str(told[0].message)

    @pytest.mark.parametrize("draw", [random.random, np.random.rand])
    def test_random_numbers_of_others(self, draw):
        random.seed(0)
        np.random.seed(0)
        expected = draw()
        random.seed(0)
        np.random.seed(0)
        with pytest.raises(TraceError, match=r"rl\.rand"):
            required(lambda x: x * draw())(rl.ones(1))
        assert draw() == expected

    def test_generators_and_coroutines(self):
        def generate(x):
            yield x

        async def wait(x):
            return x

        for function, what in ((generate, "generator"), (wait, "coroutine")):
            with pytest.raises(TraceError, match=what):
                required(function)(rl.ones(1))

    def test_recursion_without_end(self):
        def again(x):
            return again(x + 1)

        x = rl.ones(1)
        with pytest.raises(RecursionError):
            required(again)(x)
        assert x.item() == 1
        assert required(lambda x: x * 2)(x).item() == 2

    def test_functions_without_source(self):
        space = {}
        exec("def triple(x): return x * 3", space)
        x = rl.ones(2)
        assert required(space["triple"])(x).tolist() == [3, 3]
        assert required(rl.add)(x, x).tolist() == [2, 2]
        assert required(len)(x) == 2
        assert required(functools.partial(rl.add, alpha=2))(x, x).tolist() == [3, 3]
        with pytest.raises(TraceError):
            required(np.add)(x, x)

    def test_errors_of_the_function_are_its_own_and_nothing_changes(self):
        norm = nn.BatchNorm1d(3)
        optimizer = optim.SGD(norm.parameters(), lr=1.0, momentum=0.9)
        before = copy.deepcopy(norm.state_dict())
        state = rl.get_rng_state()

        def fails(x, log):
            log.append(x)
            (norm(x) + rl.randn(3)).sum().backward()
            optimizer.step()
            raise KeyError("mine")

        log = []
        with pytest.raises(KeyError, match="mine"):
            required(fails)(rl.randn(4, 3, generator=rl.Generator()), log)
        assert log == []
        for name, value in norm.state_dict().items():
            assert rl.equal(value, before[name])
        assert norm.weight.grad is None
        assert rl.equal(rl.get_rng_state(), state)
        assert not rl.compiler.is_compiling()

    @pytest.mark.parametrize(
        ("function", "args"),
        [
            (lambda x: x @ rl.ones(4, 4), (3,)),
            (lambda x: x + rl.ones(2), (3,)),
            (lambda x: x[rl.tensor([7])], (3,)),
            (lambda x: x.view(5), (3,)),
            (lambda x: nn.functional.cross_entropy(x, rl.tensor([9])), (1, 3)),
        ],
    )
    def test_errors_of_ops_are_those_of_dynamic_mode(self, function, args):
        x = rl.ones(args)
        with pytest.raises(Exception) as expected:  # noqa: PT011 - which one is found out here
            function(x)
        with pytest.raises(type(expected.value)) as found:
            required(function)(x)
        assert str(found.value) == str(expected.value)

    def test_tensors_that_were_kept(self):
        hidden = SimpleQueue()  # which shows nobody what it holds

        def keep(x):
            hidden.put(x + 1)
            return x

        required(keep)(rl.ones(2))
        kept = hidden.get()
        with pytest.raises(TraceError, match=r"has kept .* return it from the function"):
            kept * 2
        with pytest.raises(TraceError, match="finished trace"):
            required(lambda x: x + kept)(rl.ones(2))

    def test_tensors_kept_by_a_method(self):
        kept = {}

        def keep(x, put=kept.update):
            put(x=x + 1)
            return x

        kept_by_program = required(keep)
        for n in (1, 3):
            kept_by_program(rl.full((2,), n))
            assert kept["x"].tolist() == [n + 1, n + 1]

    def test_what_is_kept_out_of_graphs(self):
        @rl.compiler.disable
        def read(x):
            assert not rl.compiler.is_compiling()
            return x.item()

        with pytest.raises(TraceError, match=r"read, which compiler\.disable keeps out"):
            required(lambda x: x * read(x))(rl.ones(()))
        with pytest.warns(UserWarning, match="dynamic mode"):
            assert rl.compile(lambda x: x * read(x))(rl.ones(())).item() == 1

    def test_is_compiling(self):
        ask = required(lambda x: x + (1 if rl.compiler.is_compiling() else 0))
        assert ask(rl.zeros(())).item() == 1


class TestLifetime:
    def test_calls_leave_nothing_behind(self):
        exp = required(lambda x: (x.exp() * 2, x.sum()))
        w = rl.randn(50, 50, requires_grad=True)
        x = rl.randn(50, 50)
        for _ in range(3):
            exp(x), exp(w)[0].sum().backward()
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.take_snapshot()
        for _ in range(500):
            exp(x)
            exp(w)[0].sum().backward()
            w.grad = None
        gc.collect()
        after = tracemalloc.take_snapshot()
        tracemalloc.stop()
        assert sum(line.size_diff for line in after.compare_to(before, "filename")) < 20_000

    def test_a_model_dies_with_its_compiled_twin(self):
        model = nn.Linear(3, 3)
        required(model)(rl.ones(2, 3))
        watched = weakref.ref(model)
        del model
        gc.collect()
        assert watched() is None

    def test_state_of_compiled_modules(self):
        model = nn.Linear(3, 2)
        compiled = rl.compile(model)
        assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
        assert compiled.weight is model.weight
        compiled.eval()
        assert not model.training
        compiled.to(rl.float64)
        assert compiled(rl.ones(1, 3, dtype=rl.float64)).dtype is rl.float64

    @pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
    def test_copies_of_compiled_modules(self, again):
        model = required(nn.Linear(3, 2))
        x = rl.ones(1, 3)
        expected = model(x)
        twin = again(model)
        with rl.no_grad():
            model.weight.zero_()
        assert rl.equal(twin(x), expected)
        assert not rl.equal(model(x), expected)

    def test_pickled_functions_go_by_name(self):
        assert pickle.loads(pickle.dumps(triple)) is triple
        twin = pickle.loads(pickle.dumps(rl.compile(plain_triple)))
        assert isinstance(twin, Compiled)
        assert twin(rl.ones(1)).item() == 3

    def test_reset(self):
        compiled = rl.compile(lambda x: x * 2)
        compiled(rl.ones(1))
        rl.compiler.reset()
        assert programs(compiled) == 0
        assert compiled(rl.ones(1)).item() == 2


@rl.compile
def triple(x):
    return x * 3


def plain_triple(x):
    return x * 3


class TestThreads:
    def test_many_threads_call_and_trace(self):
        both = required(lambda x, s: (x.sin() * s).sum(-1).softmax(0))
        shared = rl.rand(5, 300)
        wrong = []

        def work(k):
            own = required(lambda x: x * k + x.exp().mean())
            try:
                for i in range(8):
                    x, s = rl.full((4 + i * k % 3, 300), (k + i) / 50), float(k * i)
                    both(shared, s)
                    rl.testing.assert_close(both(x, s), (x.sin() * s).sum(-1).softmax(0))
                    rl.testing.assert_close(own(x), x * k + x.exp().mean())
            except BaseException as error:  # a thread's own is lost
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_results_do_not_depend_on_the_number_of_threads(self):
        x = rl.randn(700, 300)
        threads = rl.get_num_threads()
        found = []
        try:
            for count in (1, 2):
                rl.set_num_threads(count)
                many = required(lambda x: (x.softmax(1), x.sum(), x.exp().sum(0), x.var(0)))
                found.append(many(x))
        finally:
            rl.set_num_threads(threads)
        assert all(map(rl.equal, *found))

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_processes(self, method):
        if method not in multiprocessing.get_all_start_methods():
            pytest.skip(f"no {method} here")
        x = rl.arange(6000.0).view(60, 100)
        expected = softmax(x)
        context = multiprocessing.get_context(method)
        with context.Pool(1) as pool:
            found = pool.apply_async(softmax_of_numbers).get(timeout=PATIENCE)
        assert found == expected.tolist()

    def test_workers_of_a_loader(self):
        data = TensorDataset(rl.arange(8.0))
        loader = DataLoader(data, batch_size=4, num_workers=1, collate_fn=collate)
        assert [batch.tolist() for batch in loader] == [[0, 3, 6, 9], [12, 15, 18, 21]]


@required
def softmax(x):
    return x.sin().softmax(1)


def softmax_of_numbers():
    return softmax(rl.arange(6000.0).view(60, 100)).tolist()


def collate(samples):
    return triple(rl.stack([x for (x,) in samples]))
