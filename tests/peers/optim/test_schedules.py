"""Every learning rate schedule sets, for a hundred epochs, the rates that PyTorch sets."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
import rushlight.optim.lr_scheduler as our_schedules
from rushlight.optim import swa_utils as our_averages

torch = pytest.importorskip("torch")

from tests.peers.optim.conversion import to_rushlight, to_torch  # noqa: E402

Make = Callable[[Any, Any], Any]  # a library and an optimizer to a schedule


def of(name: str, **kwargs: Any) -> Make:
    return lambda lib, optimizer: getattr(lib.optim.lr_scheduler, name)(optimizer, **kwargs)


def sequence(*makes: Make, milestones: list[int]) -> Make:
    return lambda lib, optimizer: lib.optim.lr_scheduler.SequentialLR(
        optimizer, [make(lib, optimizer) for make in makes], milestones
    )


def chain(*makes: Make) -> Make:
    return lambda lib, optimizer: lib.optim.lr_scheduler.ChainedScheduler(
        [make(lib, optimizer) for make in makes]
    )


def average(**kwargs: Any) -> Make:
    return lambda lib, optimizer: lib.optim.swa_utils.SWALR(optimizer, **kwargs)


class Scale:
    """A callable object, whose attributes belong to the state."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: float) -> float:
        self.calls += 1
        return 0.5 ** (x % 3)


def shrinking(epoch: int) -> float:
    return 0.95**epoch


def wavy(epoch: int) -> float:
    return 1 + 0.1 * math.sin(epoch)


SCHEDULES: dict[str, Make] = {
    "lambda": of("LambdaLR", lr_lambda=shrinking),
    "lambdas": of("LambdaLR", lr_lambda=[shrinking, wavy]),
    "multiplicative": of("MultiplicativeLR", lr_lambda=[wavy, lambda epoch: 0.97]),
    "step": of("StepLR", step_size=7, gamma=0.7),
    "multi step": of("MultiStepLR", milestones=[5, 11, 11, 60], gamma=0.3),
    "constant": of("ConstantLR", factor=0.25, total_iters=13),
    "linear": of("LinearLR", start_factor=0.2, end_factor=0.9, total_iters=33),
    "linear to nothing": of("LinearLR", start_factor=1.0, end_factor=0.0, total_iters=50),
    "exponential": of("ExponentialLR", gamma=0.93),
    "polynomial": of("PolynomialLR", total_iters=80, power=1.7),
    "cosine": of("CosineAnnealingLR", T_max=17, eta_min=0.01),
    "cosine once": of("CosineAnnealingLR", T_max=100),
    "restarts": of("CosineAnnealingWarmRestarts", T_0=9, eta_min=0.001),
    "longer restarts": of("CosineAnnealingWarmRestarts", T_0=5, T_mult=2),
    "cyclic": of("CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=7, step_size_down=11),
    "cyclic halves": of(
        "CyclicLR", base_lr=[0.01, 0.02], max_lr=0.1, step_size_up=9, mode="triangular2"
    ),
    "cyclic range": of(
        "CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=9, mode="exp_range", gamma=0.99
    ),
    "cyclic own": lambda lib, optimizer: lib.optim.lr_scheduler.CyclicLR(
        optimizer, 0.01, 0.1, 9, scale_fn=Scale(), scale_mode="iterations", cycle_momentum=False
    ),
    "one cycle": of("OneCycleLR", max_lr=[0.5, 0.7], total_steps=101),
    "one cycle in three": of(
        "OneCycleLR", max_lr=0.5, epochs=10, steps_per_epoch=11, three_phase=True
    ),
    "one cycle straight": of(
        "OneCycleLR", max_lr=0.5, total_steps=150, anneal_strategy="linear", cycle_momentum=False
    ),
    "averaging": average(swa_lr=[0.01, 0.02], anneal_epochs=23),
    "averaging straight": average(swa_lr=0.01, anneal_epochs=30, anneal_strategy="linear"),
    "averaging at once": average(swa_lr=0.01, anneal_epochs=0),
    "warm-up, cosine": sequence(
        of("LinearLR", start_factor=0.1, total_iters=10),
        of("CosineAnnealingLR", T_max=60),
        of("ExponentialLR", gamma=0.9),
        milestones=[10, 70],
    ),
    "sequence in a sequence": sequence(
        sequence(of("StepLR", step_size=3), of("ExponentialLR", gamma=0.9), milestones=[20]),
        of("ConstantLR", factor=0.5, total_iters=4),
        milestones=[30],
    ),
    "restarts in a sequence": sequence(
        of("ConstantLR", factor=0.1), of("CosineAnnealingWarmRestarts", T_0=8), milestones=[6]
    ),
    "chain": chain(
        of("ConstantLR", factor=0.1, total_iters=20),
        of("ExponentialLR", gamma=0.98),
        of("CosineAnnealingLR", T_max=40),
    ),
}


class Pair:
    """One schedule here and in PyTorch."""

    def __init__(self, make: Make, kind: str = "SGD", tensor_rate: bool = False) -> None:
        self.libs = (rl, torch)
        self.optimizers = []
        for lib in self.libs:
            params = [lib.ones(2, requires_grad=True) for _ in range(2)]
            lr = lib.tensor(0.3, dtype=lib.float64) if tensor_rate else 0.3
            groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.4}]
            kwargs = {"momentum": 0.9} if kind == "SGD" else {}
            self.optimizers.append(getattr(lib.optim, kind)(groups, lr=lr, **kwargs))
        self.make = make
        self.schedules = self.made()

    def made(self) -> list[Any]:
        return [self.make(lib, o) for lib, o in zip(self.libs, self.optimizers, strict=True)]

    def run(self, epochs: int) -> None:
        for _ in range(epochs):
            self.compare()
            for optimizer, schedule in zip(self.optimizers, self.schedules, strict=True):
                optimizer.step()
                schedule.step()

    def compare(self) -> None:
        for key in ("lr", "momentum", "betas"):
            mine, other = [
                [numbers(group.get(key, 0.0)) for group in o.param_groups] for o in self.optimizers
            ]
            for a, b in zip(mine, other, strict=True):
                assert a == pytest.approx(b, rel=1e-9, abs=1e-15)
        mine, other = [[float(rate) for rate in s.get_last_lr()] for s in self.schedules]
        assert mine == pytest.approx(other, rel=1e-9, abs=1e-15)


def numbers(value: Any) -> Any:
    return [float(v) for v in value] if isinstance(value, tuple) else float(value)


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.filterwarnings("ignore:Detected call")  # by a sequence in a sequence
def test_a_hundred_epochs(name: str) -> None:
    Pair(SCHEDULES[name]).run(100)


@pytest.mark.parametrize("name", ["step", "cosine", "one cycle", "chain", "warm-up, cosine"])
def test_a_rate_that_is_a_tensor(name: str) -> None:
    pair = Pair(SCHEDULES[name], tensor_rate=True)
    rate = pair.optimizers[0].param_groups[0]["lr"]
    pair.run(40)
    assert pair.optimizers[0].param_groups[0]["lr"] is rate


@pytest.mark.parametrize("name", ["cyclic", "one cycle"])
def test_momentum_of_adam(name: str) -> None:
    Pair(SCHEDULES[name], kind="Adam").run(60)


@pytest.mark.parametrize("name", [n for n in SCHEDULES if "lambda" not in n])
@pytest.mark.filterwarnings("ignore:Detected call")
def test_resumption_with_each_other_s_state(name: str) -> None:
    """After 37 epochs both begin anew, each from what the other saved."""
    pair = Pair(SCHEDULES[name])
    pair.run(37)
    saved = [
        (o.state_dict(), s.state_dict())
        for o, s in zip(pair.optimizers, pair.schedules, strict=True)
    ]
    pair = Pair(SCHEDULES[name])
    (our_optimizer, our_schedule), (their_optimizer, their_schedule) = saved
    pair.schedules[0].load_state_dict(to_rushlight(their_schedule))
    pair.schedules[1].load_state_dict(to_torch(our_schedule))
    pair.optimizers[0].load_state_dict(to_rushlight(their_optimizer))
    pair.optimizers[1].load_state_dict(to_torch(our_optimizer))
    pair.run(40)


@pytest.mark.parametrize(
    "name",
    ["lambda", "step", "multi step", "constant", "linear", "exponential", "polynomial", "cosine"],
)
def test_resumption_by_last_epoch(name: str) -> None:
    pair = Pair(SCHEDULES[name])
    pair.run(12)
    make = SCHEDULES[name]
    epoch = pair.schedules[0].last_epoch
    for lib, optimizer in zip(pair.libs, pair.optimizers, strict=True):
        cell: Any = make
        kwargs = inspect.getclosurevars(cell).nonlocals["kwargs"]
        kind = getattr(lib.optim.lr_scheduler, inspect.getclosurevars(cell).nonlocals["name"])
        schedule = kind(optimizer, **kwargs, last_epoch=epoch - 1)
        pair.schedules[pair.libs.index(lib)] = schedule
    pair.run(20)


@pytest.mark.parametrize("name", [n for n in SCHEDULES if "sequence" not in n and "warm" not in n])
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_a_step_to_an_epoch(name: str) -> None:
    if name == "chain":
        pytest.skip("a chain takes no epoch")
    pair = Pair(SCHEDULES[name])
    for optimizer in pair.optimizers:
        optimizer.step()
    for epoch in (3, 40, 12, 55):
        for schedule in pair.schedules:
            schedule.step(epoch)
        pair.compare()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize("cooldown", [0, 4])
def test_plateaus(mode: str, threshold_mode: str, cooldown: int) -> None:
    make = of(
        "ReduceLROnPlateau",
        mode=mode,
        threshold_mode=threshold_mode,
        cooldown=cooldown,
        factor=0.5,
        patience=3,
        threshold=0.01,
        min_lr=[0.001, 0.01],
    )
    pair = Pair(make)
    random = torch.Generator().manual_seed(0)
    for epoch in range(100):
        measured = float(torch.rand((), generator=random)) + (epoch > 50)
        for schedule in pair.schedules:
            schedule.step(measured)
        pair.compare()
        if epoch == 60:
            states = [schedule.state_dict() for schedule in pair.schedules]
            assert states[0] == states[1]
            pair.schedules = pair.made()
            for schedule, state in zip(pair.schedules, reversed(states), strict=True):
                schedule.load_state_dict(state)


@pytest.mark.parametrize("name", our_schedules.__all__)
def test_arguments_and_defaults(name: str) -> None:
    same_arguments(getattr(our_schedules, name), getattr(torch.optim.lr_scheduler, name))


@pytest.mark.parametrize("name", our_averages.__all__)
def test_arguments_of_averages(name: str) -> None:
    same_arguments(getattr(our_averages, name), getattr(torch.optim.swa_utils, name))


def same_arguments(mine: Any, other: Any) -> None:
    parameters = [inspect.signature(f).parameters.values() for f in (mine, other)]
    assert [(p.name, p.default) for p in parameters[0]] == [
        (p.name, p.default) for p in parameters[1]
    ]


@pytest.mark.parametrize("kind", ["default", "ema", "multi ema", "multi swa"])
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averaged_models(kind: str, use_buffers: bool) -> None:
    if kind == "multi swa" and use_buffers:
        pytest.skip("PyTorch refuses to average counts")
    random = torch.Generator().manual_seed(0)
    averages, batches = [], [torch.randn(5, 3, generator=random) for _ in range(4)]
    for lib in (rl, torch):
        lib.manual_seed(0)
        model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4))
        utils = lib.optim.swa_utils
        given: dict[str, Any] = {
            "default": {},
            "ema": {"avg_fn": utils.get_ema_avg_fn(0.8)},
            "multi ema": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.8)},
            "multi swa": {"multi_avg_fn": utils.get_swa_multi_avg_fn()},
        }[kind]
        averaged = utils.AveragedModel(model, use_buffers=use_buffers, **given)
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        for batch in batches:
            x = to_rushlight(batch) if lib is rl else batch
            optimizer.zero_grad()
            (model(x) - x.sum(1, keepdim=True)).abs().mean().backward()
            optimizer.step()
            averaged.update_parameters(model)
        found = [averaged.state_dict()]
        utils.update_bn([to_rushlight(b) if lib is rl else b for b in batches], averaged)
        averages.append([*found, averaged.state_dict()])
    for mine, other in zip(*averages, strict=True):
        assert list(mine) == list(other)
        for key, value in mine.items():
            torch.testing.assert_close(to_torch(value), other[key], rtol=1e-4, atol=1e-5)
