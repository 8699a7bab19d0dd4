"""Script functions and modules: traced, saved, loaded, trained."""

from __future__ import annotations

import copy
import io
import pickle
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.jit import RecursiveScriptModule, ScriptFunction
from rushlight.symbol import TraceError
from tests.graph.script_programs import telling

ROOT = str(Path(rl.__file__).parents[1])


@pytest.fixture(autouse=True)
def seeded():
    rl.manual_seed(0)


def reloaded(made):
    """What was made, by way of a file."""
    return rl.jit.load(io.BytesIO(made.save_to_buffer()))


class Net(rl.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = rl.nn.Linear(3, 8)
        self.norm = rl.nn.BatchNorm1d(8)
        self.last = rl.nn.Linear(8, 2)
        self.register_buffer("scale", rl.tensor(2.0), persistent=False)

    def forward(self, x, shift: float = 0.0):
        y = self.norm(self.first(x)).tanh()
        y = rl.nn.functional.dropout(y, 0.5, self.training)
        return self.last(y) * self.scale + shift


class TestModules:
    def test_values_gradients_and_modes(self):
        net, x = Net(), rl.rand(6, 3)
        loaded = reloaded(rl.jit.trace(net, x))
        for mode in (True, False):
            net.train(mode)
            loaded.train(mode)
            results = []
            for model in (net, loaded):
                model.zero_grad()
                rl.manual_seed(1)
                y = model(x, shift=0.5)
                y.square().sum().backward()
                results.append([y, *[p.grad for p in model.parameters()], *model.buffers()])
            for ours, theirs in zip(*results, strict=True):
                assert rl.allclose(ours, theirs, atol=1e-5), mode

    def test_state_dict_and_names(self):
        net = Net()
        loaded = reloaded(rl.jit.trace(net, rl.rand(6, 3)))
        assert list(loaded.state_dict()) == list(net.state_dict())
        assert dict(loaded.named_parameters()).keys() == dict(net.named_parameters()).keys()
        assert "scale" in dict(loaded.named_buffers())
        assert isinstance(loaded.first.weight, rl.nn.Parameter)
        other = Net()
        loaded.load_state_dict(other.state_dict())
        loaded.eval()
        x = rl.rand(6, 3)
        assert rl.allclose(loaded(x), other.eval()(x), atol=1e-6)

    def test_an_optimizer_trains_it(self):
        net, x, y = Net().eval(), rl.rand(6, 3), rl.rand(6, 2)
        loaded = reloaded(rl.jit.trace(net, x)).eval()
        losses = []
        for model in (net, loaded):
            optimizer = rl.optim.Adam(model.parameters(), lr=0.01)
            for _ in range(5):
                optimizer.zero_grad()
                loss = (model(x) - y).square().mean()
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)

    def test_parameters_that_are_replaced(self):
        loaded = reloaded(rl.jit.trace(rl.nn.Linear(2, 2), rl.rand(1, 2)))
        loaded(rl.ones(1, 2))
        loaded.weight = rl.nn.Parameter(rl.zeros(2, 2))
        loaded.bias = rl.nn.Parameter(rl.ones(2))
        assert loaded(rl.ones(1, 2)).tolist() == [[1.0, 1.0]]

    def test_parameters_of_another_dtype_are_an_error(self):
        loaded = reloaded(rl.jit.trace(rl.nn.Linear(2, 2), rl.rand(1, 2)))
        with pytest.raises(TypeError, match=r"weight is rushlight\.float32, .* become .*float64"):
            loaded.double()
        assert loaded.to("cpu").float()(rl.ones(1, 2)).dtype is rl.float32
        loaded.weight = rl.nn.Parameter(loaded.weight.double())
        with pytest.raises(RuntimeError, match=r"weight is f64\[2,2\], but .* f32\[2,2\]"):
            loaded(rl.ones(1, 2))

    def test_modules_inside_in_another_mode(self):
        x = rl.randn(6, 4)
        net = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.BatchNorm1d(4))
        traced = rl.jit.trace(net, x)
        loaded = reloaded(traced)
        for module in (traced, loaded):
            module.train()
            dict(module.named_modules())["1"].eval()
        before = net[1].running_mean.clone()
        assert rl.allclose(traced(x), net(x), atol=1e-6)
        assert rl.equal(net[1].running_mean, before)
        with pytest.raises(TypeError, match="1 is in another mode than the whole"):
            loaded(x)
        with pytest.raises(TraceError, match="1 is in another mode than the whole"):
            traced.save_to_buffer()
        assert rl.allclose(loaded.eval()(x), net.eval()(x), atol=1e-6)
        same = rl.nn.Sequential(rl.nn.Linear(4, 4), rl.nn.ReLU())
        traced = rl.jit.trace(same, x)
        same[1].eval()  # where that makes no difference
        assert rl.equal(reloaded(traced)(x), traced(x))

    def test_parts_of_a_sequence(self):
        net = rl.nn.Sequential(rl.nn.Linear(2, 2), rl.nn.ReLU())
        traced = rl.jit.trace(net, rl.rand(1, 2))
        assert traced[0] is net[0]
        assert len(traced) == len([*traced]) == 2
        assert rl.jit.trace(net[0], rl.rand(1, 2))

    def test_tied_parameters_stay_tied(self):
        net = rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.Linear(3, 3))
        net[1].weight = net[0].weight
        loaded = reloaded(rl.jit.trace(net, rl.rand(1, 3)))
        assert len(list(loaded.parameters())) == 3
        assert loaded.get_parameter("0.weight") is loaded.get_parameter("1.weight")

    def test_frozen_parameters_can_be_unfrozen(self):
        net = rl.nn.Linear(2, 2).requires_grad_(False)
        loaded = reloaded(rl.jit.trace(net, rl.rand(1, 2)))
        assert not loaded(rl.ones(1, 2)).requires_grad
        loaded.weight.requires_grad_(True)
        loaded(rl.ones(1, 2)).sum().backward()
        assert loaded.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
        assert loaded.bias.grad is None

    def test_second_derivatives(self):
        loaded = reloaded(rl.jit.trace(lambda x: (x**3).sum(), rl.ones(2)))
        x = rl.tensor([2.0, 3.0], requires_grad=True)
        (g,) = rl.autograd.grad(loaded(x), x, create_graph=True)
        g.sum().backward()
        assert x.grad.tolist() == [12.0, 18.0]

    def test_hooks_copies_and_pickles(self):
        net = Net().eval()
        x = rl.rand(6, 3)
        traced = rl.jit.trace(net, x)
        seen = []
        traced.register_forward_hook(lambda module, args, result: seen.append(result.shape))
        expected = traced(x)
        assert seen == [(6, 2)]
        for twin in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced))):
            assert rl.equal(twin(x), expected)
            assert twin.first.weight is not net.first.weight

    def test_trace_shares_parameters(self):
        net = rl.nn.Linear(2, 1)
        traced = rl.jit.trace(net, rl.ones(1, 2))
        assert isinstance(traced, RecursiveScriptModule)
        assert next(iter(traced.parameters())) is net.weight
        with rl.no_grad():
            net.weight.zero_()
            net.bias.fill_(3.0)
        assert traced(rl.ones(1, 2)).item() == 3.0

    def test_inside_a_compiled_function(self):
        loaded = reloaded(rl.jit.trace(Net(), rl.rand(6, 3)))
        x = rl.rand(6, 3)

        def loss(x):
            return loaded(x).square().sum()

        results = []
        for f in (loss, rl.compile(loss, fullgraph=True)):
            loaded.zero_grad()
            rl.manual_seed(3)
            y = f(x)
            y.backward()
            results.append([y, *[p.grad for p in loaded.parameters()]])
        for one, other in zip(*results, strict=True):
            assert rl.allclose(one, other, atol=1e-5)


class TestSizes:
    def test_other_sizes_run_after_loading(self):
        net = Net().eval()
        loaded = reloaded(rl.jit.trace(net, rl.rand(6, 3)))
        for n in (1, 2, 7, 64, 0):
            x = rl.rand(n, 3)
            assert rl.allclose(loaded(x), net(x), atol=1e-5)
        x = rl.rand(9, 3, requires_grad=True)
        loaded(x).sum().backward()
        assert x.grad.shape == (9, 3)

    def test_images_of_other_sides(self):
        nn = rl.nn
        net = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
        ).eval()  # fmt: skip
        loaded = reloaded(rl.jit.trace(net, rl.rand(4, 3, 8, 8)))
        for shape in ((4, 3, 8, 8), (7, 3, 12, 9), (1, 3, 20, 31)):
            x = rl.rand(*shape)
            assert rl.allclose(loaded(x), net(x), atol=1e-5)

    def test_a_loop_whose_gradient_needs_a_number_of_elements(self):
        def f(x):
            total = x.sum()
            while total < 20:
                total = total + x.mean()
            return total

        loaded = reloaded(rl.jit.trace(f, rl.rand(4, 3)))
        for n in (4, 3, 9):
            x = rl.rand(n, 3, requires_grad=True)
            (found,), (expected,) = [rl.autograd.grad(g(x), [x]) for g in (loaded, f)]
            assert rl.allclose(found, expected, atol=1e-5)

    def test_equal_sizes_may_become_different_ones(self):
        loaded = reloaded(rl.jit.trace(lambda x: x.exp(), rl.rand(4, 4)))
        assert loaded(rl.zeros(2, 5)).shape == (2, 5)
        product = reloaded(rl.jit.trace(lambda x, y: x @ y, (rl.rand(2, 3), rl.rand(3, 4))))
        assert product(rl.ones(5, 6), rl.ones(6, 1)).tolist() == [[6.0]] * 5

    def test_a_size_that_cannot_change(self):
        loaded = reloaded(rl.jit.trace(Net().eval(), rl.rand(6, 3)))
        with pytest.raises(TypeError, match=r"x: expected a tensor f32\[B,3\], got f32\[6,4\]"):
            loaded(rl.rand(6, 4))

    def test_another_dtype_or_structure(self):
        loaded = reloaded(rl.jit.trace(lambda x, pair: x + pair[0], (rl.ones(2), (rl.ones(2), 1))))
        with pytest.raises(TypeError, match=r"x: expected a tensor f32\[2\], got f64\[2\]"):
            loaded(rl.ones(2, dtype=rl.float64), (rl.ones(2), 1))
        with pytest.raises(TypeError, match="pair: expected a tuple of 2, got 3"):
            loaded(rl.ones(2), 3)
        with pytest.raises(TypeError, match="got nothing"):
            loaded(rl.ones(2))
        with pytest.raises(TypeError, match="got 'wrong'"):
            loaded(rl.ones(2), (rl.ones(2), 1), wrong=3)


class TestFunctions:
    def test_one_graph_holds_both_branches(self):
        @rl.jit.script
        def f(x, limit: float):
            if x.sum() > limit:
                return x * limit
            return x - limit

        for limit in (1.0, 5.0, -2.0):
            x = rl.ones(3, requires_grad=True)
            f(x, limit).sum().backward()
            expected = limit if limit < 3.0 else 1.0
            assert x.grad.tolist() == [expected] * 3
        assert len(f.programs.list) == 1
        loaded = reloaded(f)
        assert loaded(rl.ones(3), 2.0).tolist() == [2.0] * 3
        assert loaded(rl.ones(3), 4.0).tolist() == [-3.0] * 3

    def test_what_a_graph_says_is_said_by_calls_alone(self, capsys):
        made = rl.jit.trace(telling, rl.ones(4))
        capsys.readouterr()
        loaded = reloaded(made)
        assert not capsys.readouterr().out
        for n in (4, 9, 9):
            assert loaded(rl.ones(n)).tolist() == [0] * n
            assert capsys.readouterr().out == f"{rl.ones(n)}\n"
        with pytest.raises(AssertionError, match="must be positive"):
            loaded(-rl.ones(4))
        with pytest.raises(ValueError, match=r"too large: 400\.0"):
            loaded(rl.full((4,), 100.0))

    def test_structures_of_arguments_and_results(self):
        Pair = namedtuple("Pair", ["first", "second"])

        def f(x, *more, options, scale=2.0, flag=True):
            y = x + more[0] * options["weight"] * scale
            return {"y": [y, (y, None, 3, "text")], "pair": Pair(y.sum(), scale + 1)}

        args, kwargs = (rl.ones(2), rl.ones(2)), {"options": {"weight": rl.ones(2)}}
        loaded = reloaded(rl.export(f, *args, **kwargs))
        found = loaded(*args, **kwargs, scale=3.0)
        assert found["y"][0].tolist() == [4.0, 4.0]
        assert found["y"][0] is found["y"][1][0]
        assert found["y"][1][1:] == (None, 3, "text")
        assert found["pair"].first.item() == 8.0
        assert found["pair"].second == 4.0
        assert loaded(*args, **kwargs)["pair"].second == 3.0

    def test_loops_and_numbers_of_the_graph(self):
        def newton(x):
            count = 0
            y = x
            while (y * y - x).abs().max() > 1e-4:
                y = 0.5 * (y + x / y)
                count += 1
            return y, count

        loaded = reloaded(rl.export(newton, rl.tensor([4.0, 9.0])))
        y, count = loaded(rl.tensor([2.0, 100.0]))
        assert rl.allclose(y, rl.tensor([2.0**0.5, 10.0]), atol=1e-4)
        assert count == newton(rl.tensor([2.0, 100.0]))[1]

    def test_arguments_that_are_written_to(self):
        def f(x):
            x.mul_(2)
            return x.sum()

        loaded = reloaded(rl.export(f, rl.ones(3)))
        x = rl.ones(3)
        assert loaded(x).item() == 6.0
        assert x.tolist() == [2.0, 2.0, 2.0]

    def test_custom_gradients_and_detach_are_kept(self):
        class Twice(rl.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return g * 100

        loaded = reloaded(rl.export(lambda x: (Twice.apply(x) + x.detach() * x).sum(), rl.ones(2)))
        x = rl.tensor([1.0, 2.0], requires_grad=True)
        loaded(x).backward()
        assert x.grad.tolist() == [101.0, 102.0]

    @pytest.mark.parametrize("n", [2, 5])
    def test_arguments_with_one_gradient(self, n):
        loaded = reloaded(rl.jit.trace(lambda x, y: x + y, (rl.rand(2), rl.rand(2))))
        x, y = rl.rand(n, requires_grad=True), rl.rand(n, requires_grad=True)
        (3 * loaded(x, y)).sum().backward()
        assert x.grad.tolist() == y.grad.tolist() == [3.0] * n

    def test_what_cannot_be_a_program(self):
        log = []

        def appends(x):
            log.append(1)
            return x

        with pytest.raises(TraceError, match="changes Python state"):
            rl.export(appends, rl.ones(1))
        with pytest.raises(TypeError, match=r"^Linear\(input\): too many positional arguments"):
            rl.jit.trace(rl.nn.Linear(2, 2), (rl.ones(2), rl.ones(2)))
        with pytest.raises(TypeError, match=r"the result.*type .*object"):
            rl.export(lambda x: object(), rl.ones(1))
        with pytest.raises(TraceError, match="has no program yet"):
            rl.jit.script(lambda x: x).save_to_buffer()
        with pytest.raises(TypeError, match=r"rl\.export\(f, \*example\)"):
            rl.jit.save(lambda x: x, io.BytesIO())

    def test_graph_and_code(self):
        f = rl.jit.trace(lambda x, k: (x * k).exp().sum(0), (rl.ones(3, 2), 2.0))
        assert isinstance(f, ScriptFunction)
        assert re.search(r"exp\(%\d", str(f.graph))
        assert f.code.startswith("def f(x, k):\n    v0 = ")
        assert "rl.exp(" in f.code
        assert reloaded(f).code.replace("forward", "f") == f.code

    def test_extra_files_and_paths(self, tmp_path):
        f = rl.jit.trace(lambda x: x + 1, rl.ones(1))
        path = tmp_path / "f.pt"
        rl.jit.save(f, path, _extra_files={"about.txt": "hello"})
        extra = {"about.txt": "", "missing": "stays"}
        loaded = rl.jit.load(path, _extra_files=extra, mmap=True)
        assert extra == {"about.txt": b"hello", "missing": "stays"}
        assert loaded(rl.ones(1)).item() == 2.0
        with pytest.raises(RuntimeError, match=r"rl\.jit\.load reads it"):
            rl.load(path)


def step_of(net, optimizer):
    """A training step with random numbers in it."""

    def step(x, y):
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


RESUME = """
import sys
import rushlight as rl
assert "numpy" in sys.modules
step = rl.jit.load(sys.argv[1])
data = rl.Generator().manual_seed(7)
for _ in range(int(sys.argv[2])):
    x, y = rl.rand(6, 3, generator=data), rl.rand(6, 2, generator=data)
    print(step(x, y).item().hex())
"""


class TestCapsule:
    """A training step that is saved in the middle, and goes on without its source."""

    @pytest.mark.parametrize("name", ["SGD", "Adam"])
    def test_goes_on_bit_for_bit_in_another_process(self, name, tmp_path):
        net = Net()
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(rl.optim, name)(net.parameters(), lr=0.01, **options)
        step = rl.compile(step_of(net, optimizer))
        for _ in range(13):
            step(rl.rand(6, 3), rl.rand(6, 2))
        path = tmp_path / "capsule.pt"
        rl.export(step, rl.rand(6, 3), rl.rand(6, 2)).save(path)
        state = rl.default_generator.get_state()
        done = subprocess.run(
            [sys.executable, "-c", RESUME, path, "200"],
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        rl.default_generator.set_state(state)
        data = rl.Generator().manual_seed(7)
        expected = [
            step(rl.rand(6, 3, generator=data), rl.rand(6, 2, generator=data)).item().hex()
            for _ in range(200)
        ]
        assert done.stdout.split() == expected

    def test_it_can_be_saved_again_and_its_rate_changed(self):
        net = Net().eval()
        optimizer = rl.optim.Adam(net.parameters(), lr=0.01)
        x, y = rl.rand(6, 3), rl.rand(6, 2)
        first = rl.export(step_of(net, optimizer), x, y)
        for _ in range(3):
            first(x, y)
        second = reloaded(first)
        assert second.numbers["lr"] == 0.01
        assert "optimizer.exp_avg.Net.first.weight" in second.state_dict()
        third = reloaded(second)
        assert second(x, y).item() == third(x, y).item()
        third.numbers["lr"] = 0.0
        before = third.state_dict()["Net.first.weight"].clone()
        third(x, y)
        assert rl.equal(third.state_dict()["Net.first.weight"], before)

    def test_a_scheduler_of_the_same_process(self):
        def losses(make):
            rl.manual_seed(0)
            net, x = rl.nn.Linear(4, 2), rl.randn(3, 4)
            groups = [{"params": [net.weight]}, {"params": [net.bias], "lr": 0.2}]
            optimizer = rl.optim.SGD(groups, lr=0.1)
            scheduler = rl.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)

            def step(x):
                optimizer.zero_grad()
                loss = net(x).pow(2).mean()
                loss.backward()
                optimizer.step()
                return loss

            run = make(step, x)
            for _ in range(6):
                yield run(x).item()
                scheduler.step()
            if make is rl.export:
                assert run.numbers["lr"] == 0.1 * 0.5**2
                run(x)
                run.numbers["lr"] = 0.25  # until Python changes its own
                run(x)
                assert reloaded(run).numbers["lr"] == 0.25
                optimizer.param_groups[0]["lr"] = 0.5
                run(x)
                assert run.numbers["lr"] == 0.5

        plain = [*losses(lambda step, x: step)]
        assert [*losses(rl.export)] == pytest.approx(plain, rel=1e-5)

    def test_gradients_that_add_up(self):
        w = rl.ones(2, requires_grad=True)

        def accumulate(x):
            (w * x).sum().backward()

        accumulate(rl.ones(2))
        loaded = reloaded(rl.export(accumulate, rl.ones(2)))
        loaded(rl.ones(2))
        (own,) = loaded.parameters()
        assert own.grad.tolist() == [2.0, 2.0]
        own.grad = None
        with pytest.raises(RuntimeError, match="no gradient to add to"):
            loaded(rl.ones(2))

    def test_state_that_begins_in_the_call_is_an_error(self):
        net = Net()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        with pytest.raises(TraceError, match="call the function once before"):
            rl.export(step_of(net, optimizer), rl.rand(6, 3), rl.rand(6, 2))


def test_names_of_pytorch():
    assert not rl.jit.is_scripting()
    assert not rl.jit.is_tracing()
    assert rl.jit.isinstance([1], list[int])
    assert rl.jit.annotate(int, 3) == 3
    assert rl.jit.unused(len) is len
    assert rl.jit.ignore()(len) is len
    assert rl.jit.fork(len, [1]).wait() == 1
    net = rl.jit.trace(rl.nn.Linear(1, 1), rl.ones(1, 1))
    with pytest.raises(RuntimeError, match="eval"):
        rl.jit.freeze(net)
    assert rl.jit.optimize_for_inference(net) is net
    assert rl.jit.trace_module(net, {"forward": rl.ones(1, 1)}) is net
