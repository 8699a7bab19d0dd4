"""Whole training steps, compiled: forward, backward and the optimizer as one program.

Each scenario runs twice from the same seed, in dynamic mode and compiled; losses, parameters,
gradients and what the optimizers remember must be the same to rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.symbol import TraceError
from tests.compiled.steps import Step, Values, both, dynamic, programs, values

STEPS = 20


def network(dtype: Any = rl.float64) -> rl.nn.Module:
    rl.manual_seed(0)
    layers = rl.nn.Linear(4, 5), rl.nn.Tanh(), rl.nn.Linear(5, 3)
    return rl.nn.Sequential(*layers).to(dtype)


def batch(i: int, dtype: Any = rl.float64) -> tuple[rl.Tensor, rl.Tensor]:
    generator = rl.Generator().manual_seed(100 + i)
    return (
        rl.randn(6, 4, dtype=dtype, generator=generator),
        rl.randn(6, 3, dtype=dtype, generator=generator),
    )


def training(net: Any, optimizer: Any) -> Step:
    def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
        optimizer.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.2, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("Adam", {"maximize": True}),
    ("AdamW", {"amsgrad": True, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"betas": (0.8, 0.5)}),
    ("Adamax", {"weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1, "weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("ASGD", {"weight_decay": 0.1}),
    ("ASGD", {"t0": 5.0, "lambd": 0.1}),
    ("Adafactor", {}),
    ("Adafactor", {"weight_decay": 0.1, "eps": (1e-5, 1e-3), "d": 1.5, "maximize": True}),
    ("SparseAdam", {}),
    ("Muon", {}),
    ("Muon", {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}),
]


def make(name: str, net: rl.nn.Module, options: dict[str, Any]) -> rl.optim.Optimizer:
    params = [p for p in net.parameters() if name != "Muon" or p.dim() == 2]
    return getattr(rl.optim, name)(params, lr=0.01, **options)


@pytest.mark.parametrize("dtype", [rl.float64, pytest.param(rl.float32, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "options"), OPTIMIZERS)
def test_every_optimizer(name: str, options: dict[str, Any], dtype: Any) -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network(dtype)
        if name == "Muon":
            net[0].bias = net[2].bias = None
        optimizer = make(name, net, options)
        schedule = rl.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
        step = compiled(training(net, optimizer))
        losses = []
        for i in range(STEPS):
            losses.append(step(*batch(i, dtype)).item())
            schedule.step()
        return {"losses": np.array(losses)} | values(net, optimizer)

    step = both(scenario, 1e-10 if dtype is rl.float64 else 1e-4)
    first_differs = options.get("momentum") is not None and name == "SGD"
    assert programs(step) == 1 + first_differs


def test_all_optimizers_are_tested() -> None:
    classes = {name for name in rl.optim.__all__ if isinstance(getattr(rl.optim, name), type)}
    assert classes - {name for name, _ in OPTIMIZERS} == {"LBFGS", "Optimizer"}


@pytest.mark.parametrize("name", ["Adam", "SGD"])
def test_half_parameters_are_stepped_in_single_precision(name: str) -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        w = rl.nn.Parameter(rl.linspace(-1, 1, 32, dtype=rl.bfloat16))
        optimizer = getattr(rl.optim, name)([w], lr=0.01)

        def step(g: rl.Tensor) -> None:
            w.grad = g * 1
            optimizer.step()

        run = compiled(step)
        for i in range(5):
            run(rl.full((32,), 0.1 * i, dtype=rl.bfloat16))
        return {"w": w.detach().double().numpy()}

    both(scenario, 0)


def test_complex_parameters() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        w = rl.nn.Parameter(rl.complex(rl.linspace(-1, 1, 6), rl.linspace(0, 1, 6)))
        optimizer = rl.optim.Adam([w], lr=0.01)

        def step(x: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = (w * x).abs().pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step)
        losses = [run(rl.full((6,), 1.0 + i)).item() for i in range(5)]
        return {"losses": np.array(losses), "w": rl.view_as_real(w.detach()).numpy()}

    both(scenario, 1e-5)


@pytest.mark.parametrize("cycle", [False, True])
def test_one_cycle_of_rates_and_momenta_is_one_program(cycle: bool) -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.Adam(net.parameters(), lr=0.01)
        schedule = rl.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.1, total_steps=STEPS + 1, cycle_momentum=cycle
        )
        step = compiled(training(net, optimizer))
        for i in range(STEPS):
            step(*batch(i))
            schedule.step()
        return values(net, optimizer)

    assert programs(both(scenario)) == 1


def test_a_plateau_outside_lowers_the_rate() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        schedule = rl.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
        step = compiled(training(net, optimizer))
        for i in range(STEPS):
            schedule.step(step(*batch(i)))
        assert optimizer.param_groups[0]["lr"] < 0.1
        return values(net, optimizer)

    assert programs(both(scenario)) == 1


def test_a_rate_that_is_a_tensor() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.Adam(net.parameters(), lr=rl.tensor(0.01))
        step = compiled(training(net, optimizer))
        for i in range(4):
            step(*batch(i))
            optimizer.param_groups[0]["lr"].mul_(0.5)
        optimizer.param_groups[0]["lr"] = rl.tensor(0.1)
        step(*batch(4))
        return values(net, optimizer)

    assert programs(both(scenario)) == 2


def test_a_rate_that_becomes_zero_and_options_that_change() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.Adam(net.parameters(), lr=0.1)
        (group,) = optimizer.param_groups
        step = compiled(training(net, optimizer))
        changes = [("lr", 0.0), ("weight_decay", 0.1), ("maximize", True), ("betas", (0.5, 0.5))]
        for i, (name, value) in enumerate(changes):
            step(*batch(i))
            group[name] = value
        step(*batch(9))
        return values(net, optimizer)

    assert programs(both(scenario)) == 3


def test_groups_with_options_of_their_own() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        groups = [
            {"params": net[0].parameters(), "lr": 0.1, "momentum": 0.9},
            {"params": net[2].parameters(), "weight_decay": 0.1, "maximize": True},
        ]
        optimizer = rl.optim.SGD(groups, lr=0.01)
        schedule = rl.optim.lr_scheduler.LambdaLR(
            optimizer, [lambda i: 0.9**i, lambda i: 1 / (1 + i)]
        )
        step = compiled(training(net, optimizer))
        for i in range(STEPS):
            step(*batch(i))
            schedule.step()
        return values(net, optimizer)

    assert programs(both(scenario)) == 2


def test_parameters_without_gradients() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        net.unused = rl.nn.Parameter(rl.ones(3, dtype=rl.float64))
        net[2].bias.requires_grad_(False)
        optimizer = rl.optim.Adam(net.parameters(), lr=0.01)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = ((net[2](net[1](net[0](x))) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step)
        for i in range(3):
            run(*batch(i))
        net[2].bias.requires_grad_(True)
        for i in range(3):
            run(*batch(i))
        return values(net, optimizer)

    assert programs(both(scenario)) == 2


def test_a_group_that_is_added_later() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.Adam(net[0].parameters(), lr=0.01)
        step = compiled(training(net, optimizer))
        for i in range(3):
            net.zero_grad()
            step(*batch(i))
        optimizer.add_param_group({"params": net[2].parameters(), "lr": 0.1})
        for i in range(3):
            step(*batch(i))
        return values(net, optimizer)

    both(scenario)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_state_that_is_loaded(name: str) -> None:
    options = {"momentum": 0.9} if name == "SGD" else {}

    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = getattr(rl.optim, name)(net.parameters(), lr=0.01, **options)
        step = compiled(training(net, optimizer))
        blank = copy.deepcopy(optimizer.state_dict())
        saved = blank
        for i in range(6):
            step(*batch(i))
            if i == 2:
                saved = copy.deepcopy(optimizer.state_dict())
                saved["param_groups"][0]["lr"] = 0.05
        optimizer.load_state_dict(saved)
        for i in range(3):
            step(*batch(i))
        optimizer.load_state_dict(blank)
        for i in range(3):
            step(*batch(i))
        return values(net, optimizer)

    both(scenario)


@pytest.mark.parametrize("set_to_none", [False, True])
def test_gradients_set_to_zero(set_to_none: bool) -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.Adam(net.parameters(), lr=0.01)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none)
            return loss

        run = compiled(step)
        for i in range(5):
            run(*batch(i))
        return values(net, optimizer)

    assert programs(both(scenario)) == 2 - set_to_none


@pytest.mark.parametrize("clip", ["norm", "norm inf", "value"])
@pytest.mark.parametrize("limit", [0.01, 100.0])
def test_gradients_that_are_clipped(clip: str, limit: float) -> None:
    utils = rl.nn.utils

    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.Adam(net.parameters(), lr=0.01)

        def step(x: rl.Tensor, y: rl.Tensor) -> tuple[rl.Tensor, ...]:
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            if clip == "value":
                utils.clip_grad_value_(net.parameters(), limit)
                norm = loss
            else:
                order = 2.0 if clip == "norm" else float("inf")
                norm = utils.clip_grad_norm_(net.parameters(), limit, order)
            optimizer.step()
            return loss, norm

        run = compiled(step)
        norms = [run(*batch(i))[1].item() for i in range(5)]
        return {"norms": np.array(norms)} | values(net, optimizer)

    assert programs(both(scenario)) == 1


def test_gradients_of_two_batches_added() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.AdamW(net.parameters(), lr=0.01)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            for half in (slice(0, 3), slice(3, 6)):
                loss = ((net(x[half]) - y[half]) ** 2).mean() / 2
                loss.backward()
            optimizer.step()
            return loss

        run = compiled(step)
        for i in range(5):
            run(*batch(i))
        return values(net, optimizer)

    assert programs(both(scenario)) == 1


def test_gradients_added_over_calls() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.AdamW(net.parameters(), lr=0.01)

        def accumulate(x: rl.Tensor, y: rl.Tensor, last: bool) -> None:
            ((net(x) - y) ** 2).mean().backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()

        run = compiled(accumulate)
        for i in range(8):
            run(*batch(i), i % 4 == 3)
        return values(net, optimizer)

    assert programs(both(scenario)) == 3  # without gradients, with them, the last one


def test_two_optimizers_in_one_step() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        rl.manual_seed(0)
        maker, judge = rl.nn.Linear(4, 3).double(), rl.nn.Linear(3, 1).double()
        first = rl.optim.Adam(maker.parameters(), lr=0.01, betas=(0.5, 0.9))
        second = rl.optim.RMSprop(judge.parameters(), lr=0.01)
        loss_of = rl.nn.functional.binary_cross_entropy_with_logits

        def step(noise: rl.Tensor, real: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
            made = maker(noise).tanh()
            truth, lie = judge(real), judge(made.detach())
            judge_loss = loss_of(truth, rl.ones_like(truth)) + loss_of(lie, rl.zeros_like(lie))
            second.zero_grad()
            judge_loss.backward()
            second.step()
            maker_loss = loss_of(judge(made), rl.ones_like(truth))
            first.zero_grad()
            maker_loss.backward()
            first.step()
            return judge_loss, maker_loss

        run = compiled(step)
        losses = [[loss.item() for loss in run(*batch(i))] for i in range(STEPS)]
        net = rl.nn.ModuleList([maker, judge])
        return {"losses": np.array(losses)} | values(net, first, second)

    both(scenario)


@pytest.mark.parametrize("kind", ["swa", "ema", "ema, one by one"])
def test_averages_of_the_model(kind: str) -> None:
    utils = rl.optim.swa_utils
    options: dict[str, Any] = {
        "swa": {},
        "ema": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.9)},
        "ema, one by one": {"avg_fn": utils.get_ema_avg_fn(0.9), "use_buffers": True},
    }[kind]

    def scenario(compiled: Callable[[Step], Any]) -> Values:
        rl.manual_seed(0)
        net = rl.nn.Sequential(rl.nn.Linear(4, 3, bias=False), rl.nn.BatchNorm1d(3)).double()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        averaged = utils.AveragedModel(net, **options)
        inner = training(net, optimizer)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            loss = inner(x, y)
            averaged.update_parameters(net)
            return loss

        run = compiled(step)
        for i in range(6):
            run(*batch(i))
        return values(averaged) | values(net, optimizer)

    assert programs(both(scenario)) == 1


def test_hooks_of_a_step() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        step = compiled(training(net, optimizer))
        step(*batch(0))

        def halve(*_: Any) -> None:
            for p in net.parameters():
                p.grad.mul_(0.5)

        hook = optimizer.register_step_pre_hook(halve)
        step(*batch(1))
        hook.remove()
        step(*batch(2))
        return values(net, optimizer)

    assert programs(both(scenario)) == 2


class Signs(rl.optim.Optimizer):
    """A step as one writes it for PyTorch, without a memory."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @rl.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad.sign())


class Counting(Signs):
    """A step with a memory that is kept in Python."""

    @rl.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                p.sub_(group["lr"] / state["step"] * p.grad.sign())


def test_a_step_of_the_user() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = Signs(net.parameters(), lr=0.1)
        schedule = rl.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
        step = compiled(training(net, optimizer))
        for i in range(5):
            step(*batch(i))
            schedule.step()
        return values(net, optimizer)

    assert programs(both(scenario)) == 1


def test_a_step_that_counts_in_python() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = Counting(net.parameters(), lr=0.1)
        step = compiled(training(net, optimizer))
        for i in range(5):
            step(*batch(i))
        return values(net, optimizer)

    dynamic(scenario, "keeps its state in Python")


def test_lbfgs() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            def closure() -> rl.Tensor:
                optimizer.zero_grad()
                loss = ((net(x) - y) ** 2).mean()
                loss.backward()
                return loss

            return optimizer.step(closure)

        run = compiled(step)
        losses = [run(*batch(0)).item() for _ in range(4)]
        assert losses[-1] < losses[0]
        return {"losses": np.array(losses)} | values(net)

    dynamic(scenario, "are needed in Python")


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: rl.optim.lr_scheduler.StepLR(o, 3, 0.5),
    "LambdaLR": lambda o: rl.optim.lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "OneCycleLR": lambda o: rl.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=20),
    "WarmRestarts": lambda o: rl.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "ChainedScheduler": lambda o: rl.optim.lr_scheduler.ChainedScheduler(
        [rl.optim.lr_scheduler.ExponentialLR(o, 0.9), rl.optim.lr_scheduler.StepLR(o, 2)]
    ),
    "SequentialLR": lambda o: rl.optim.lr_scheduler.SequentialLR(
        o,
        [rl.optim.lr_scheduler.ConstantLR(o, 0.5), rl.optim.lr_scheduler.ExponentialLR(o, 0.9)],
        milestones=[3],
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_inside(name: str) -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        schedule = SCHEDULES[name](optimizer)
        inner = training(net, optimizer)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            loss = inner(x, y)
            schedule.step()
            return loss

        run, rates = compiled(step), []
        for i in range(8):
            run(*batch(i))
            rates.append((optimizer.param_groups[0]["lr"], getattr(schedule, "last_epoch", 0)))
        return {"rates": np.array(rates)} | values(net)

    assert programs(both(scenario)) == 2  # the first step begins the momentum


def test_a_scaled_loss() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        scaler = rl.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def backward(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = scaler.scale(((net(x) - y) ** 2).mean())
            loss.backward()
            return loss

        run = compiled(backward)
        losses = []
        for i in range(6):
            losses.append(run(*batch(i)).item())
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 64.0
        return {"losses": np.array(losses)} | values(net)

    assert programs(both(scenario)) == 1


def test_a_scaler_inside() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        scaler = rl.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = scaler.scale(((net(x) - y) ** 2).mean())
            loss.backward()
            scaler.step(optimizer)
            scaler.update()
            return loss

        run = compiled(step)
        for i in range(4):
            run(*batch(i))
        return {"scale": np.array(scaler.get_scale())} | values(net)

    dynamic(scenario, "are needed in Python")


def test_a_scaler_that_is_off() -> None:
    def scenario(compiled: Callable[[Step], Any]) -> Values:
        net = network()
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        scaler = rl.amp.GradScaler("cpu", enabled=False)

        def step(x: rl.Tensor, y: rl.Tensor) -> rl.Tensor:
            optimizer.zero_grad()
            loss = scaler.scale(((net(x) - y) ** 2).mean())
            loss.backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            return loss

        run = compiled(step)
        losses = [run(*batch(i)).item() for i in range(3)]
        return {"losses": np.array(losses)} | values(net)

    assert programs(both(scenario)) == 1


def test_rates_that_a_function_reads_are_those_of_the_call() -> None:
    w = rl.ones(2, requires_grad=True)
    optimizer = rl.optim.SGD([w], lr=0.5)
    schedule = rl.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    group = rl.compile(lambda x: x * optimizer.param_groups[0]["lr"], fullgraph=True)
    last = rl.compile(lambda x: x * schedule.get_last_lr()[0], fullgraph=True)
    epochs = rl.compile(lambda x: x * schedule.last_epoch, fullgraph=True)
    for epoch in range(3):
        one = rl.ones(1)
        assert group(one).item() == last(one).item() == 0.5**epoch * 0.5
        assert epochs(one).item() == epoch
        optimizer.step()
        schedule.step()
    assert programs(last) == 1


def test_rates_are_not_read_before_a_postponed_schedule_has_set_them() -> None:
    w = rl.ones(2, requires_grad=True)
    optimizer = rl.optim.SGD([w], lr=0.5)
    schedule = rl.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def too_early(x: rl.Tensor) -> rl.Tensor:
        schedule.step()
        optimizer.step()
        return x

    def reads(x: rl.Tensor) -> rl.Tensor:
        schedule.step()
        return x * schedule.get_last_lr()[0]

    def names(x: rl.Tensor) -> rl.Tensor:
        schedule.step()
        return x * optimizer.param_groups[0]["lr"]

    def branch(x: rl.Tensor) -> rl.Tensor:
        if x.sum() > 0:
            schedule.step()
        return x

    (w * w).sum().backward()
    for function, message in [
        (too_early, r"SGD\.step\(\) at .* needs the learning rates"),
        (reads, r"StepLR\.get_last_lr\(\) at .* needs the learning rates"),
        (names, r"StepLR\.step\(\) at .* reads param_groups itself"),
        (branch, r"StepLR\.step\(\) at .* is inside a branch"),
    ]:
        with pytest.raises(TraceError, match=message):
            rl.compile(function, fullgraph=True)(rl.ones(1))
        assert schedule.last_epoch == 0
        assert optimizer.param_groups[0]["lr"] == 0.5
