"""Every optimizer, with every set of arguments in PyTorch's own test records, steps as there."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch.testing._internal.common_optimizers import (  # noqa: E402
    OptimizerErrorEnum,
    optim_db,
)

from tests.peers.optim.conversion import largest_error, to_rushlight, to_torch  # noqa: E402

RECORDS = {info.name: info for info in optim_db}
SHAPES = {"Muon": [(5, 4), (3, 6), (6, 2)], "Adafactor": [(5, 4), (4,), (), (3, 2, 2)]}
INPUTS = [
    pytest.param(info, given, id=f"{info.name}-{given.desc}")
    for info in optim_db
    for given in info.optim_inputs_func(device="cpu")
]
STEPPED = [given for given in INPUTS if given.values[0].name not in ("LBFGS", "SparseAdam")]
BOUND = {torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 2e-5}


def shapes(info: Any) -> list[tuple[int, ...]]:
    return SHAPES.get(info.name, [(5, 4), (4,), (), (3, 2, 2), (0, 3)])


def ours(info: Any, params: Any, kwargs: dict[str, Any]) -> Any:
    return getattr(rl.optim, info.name)(params, **to_rushlight(kwargs))


class Race:
    """An optimizer here and in PyTorch, with equal parameters and gradients."""

    def __init__(self, info: Any, kwargs: dict[str, Any], dtype: Any, seed: int = 0) -> None:
        self.random = torch.Generator().manual_seed(seed)
        drawn = [torch.randn(s, dtype=dtype, generator=self.random) for s in shapes(info)]
        drawn[0] = drawn[0].t()  # one that is not contiguous
        self.theirs = [p.requires_grad_() for p in drawn]
        self.ours = [to_rushlight(p).requires_grad_() for p in drawn]
        self.ours[0] = to_rushlight(drawn[0].t()).t().requires_grad_()
        self.optimizers = ours(info, self.ours, kwargs), info.optim_cls(self.theirs, **kwargs)

    def run(self, steps: int) -> None:
        for step in range(steps):
            for i, (a, b) in enumerate(zip(self.ours, self.theirs, strict=True)):
                if i == 1 and step % 3 == 1:  # a parameter that is not always used
                    a.grad = b.grad = None
                    continue
                noise = torch.randn(b.shape, dtype=b.dtype, generator=self.random)
                b.grad = 2 * b.detach() + noise
                a.grad = to_rushlight(b.grad)
            for optimizer in self.optimizers:
                optimizer.step()

    def error(self) -> float:
        return largest_error(self.ours, self.theirs)

    def state_error(self) -> float:
        states = [optimizer.state_dict()["state"] for optimizer in self.optimizers]
        assert list(states[0]) == list(states[1])
        errors = [0.0]
        for number, state in states[0].items():
            assert list(state) == list(states[1][number])
            errors.append(largest_error(state.values(), states[1][number].values()))
        return max(errors)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128], ids=str)
@pytest.mark.parametrize(("info", "given"), STEPPED)
def test_a_hundred_steps(info: Any, given: Any, dtype: Any) -> None:
    if dtype.is_complex and not info.supports_complex:
        pytest.skip("real parameters only")
    race = Race(info, given.kwargs, dtype)
    race.run(100)
    # Muon computes in bfloat16, whose rounding depends on the order of a matrix product.
    bound = 1e-3 if info.name == "Muon" else BOUND[dtype]
    assert race.error() < bound
    assert race.state_error() < bound


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Rprop"])
def test_half_types(name: str, dtype: Any) -> None:
    kwargs = {"eps": 1e-3} if name in ("Adam", "RMSprop") else {}
    race = Race(RECORDS[name], kwargs, dtype)
    race.run(5)
    assert race.error() < 0.05


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "Adagrad", "Rprop", "Muon"])
def test_a_rate_that_is_a_tensor_and_changes(name: str) -> None:
    race = Race(RECORDS[name], {"lr": torch.tensor(0.01, dtype=torch.float64)}, torch.float64)
    for factor in (1.0, 0.5, 3.0):
        for optimizer in race.optimizers:
            optimizer.param_groups[0]["lr"].mul_(factor)
        race.run(3)
    assert race.error() < (1e-3 if name == "Muon" else 1e-9)


@pytest.mark.parametrize(("info", "given"), STEPPED)
def test_state_travels_both_ways(info: Any, given: Any) -> None:
    race = Race(info, given.kwargs, torch.float64)
    race.run(7)
    mine, other = race.optimizers
    saved, received = mine.state_dict(), other.state_dict()
    assert {k: v for k, v in saved["param_groups"][0].items() if not isinstance(v, rl.Tensor)} == {
        k: v for k, v in received["param_groups"][0].items() if not isinstance(v, torch.Tensor)
    }
    mine, other = ours(info, race.ours, given.kwargs), info.optim_cls(race.theirs, **given.kwargs)
    mine.load_state_dict(to_rushlight(received))
    other.load_state_dict(to_torch(saved))
    race.optimizers = mine, other
    race.run(7)
    assert race.error() < (1e-3 if info.name == "Muon" else 1e-9)


@pytest.mark.parametrize(
    "info", [i for i in optim_db if i.supports_param_groups], ids=lambda i: i.name
)
def test_groups_have_their_own_numbers(info: Any) -> None:
    if info.only_supports_sparse_grads:
        pytest.skip("takes rows for sparse")
    race = Race(info, {}, torch.float64)
    mine = [{"params": race.ours[:1], "lr": 0.01}, {"params": race.ours[1:]}]
    other = [{"params": race.theirs[:1], "lr": 0.01}, {"params": race.theirs[1:]}]
    race.optimizers = ours(info, mine, {"lr": 0.001}), info.optim_cls(other, lr=0.001)
    race.run(10)
    for optimizer in race.optimizers:
        optimizer.param_groups[1]["lr"] = 0.05
    race.run(10)
    assert race.error() < (1e-3 if info.name == "Muon" else 1e-9)
    assert repr(race.optimizers[0]) == repr(race.optimizers[1])


def errors() -> Iterator[Any]:
    for info in optim_db:
        for error in info.optim_error_inputs_func("cpu", torch.float32):
            wanted = error.optimizer_error_input
            yield pytest.param(info, error, id=f"{info.name}-{wanted.desc}")


def as_ours(params: Any) -> Any:
    """PyTorch's parameters as ours, one and the same staying so, with their gradients."""
    known: dict[int, Any] = {}

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in known:
                known[id(value)] = to_rushlight(value).requires_grad_(value.requires_grad)
                if value.grad is not None:
                    known[id(value)].grad = to_rushlight(value.grad)
            return known[id(value)]
        if isinstance(value, dict):
            return {k: convert(v) for k, v in value.items()}
        return (
            type(value)([convert(v) for v in value]) if isinstance(value, (list, tuple)) else value
        )

    return convert(params)


@pytest.mark.parametrize(("info", "error"), list(errors()))
def test_errors(info: Any, error: Any) -> None:
    given = error.optimizer_error_input
    if any(part.is_sparse for part in tensors(given.params)):
        pytest.skip("there are no sparse tensors")
    params = as_ours(given.params)
    if params is None:
        params = [rl.ones(1, 1, requires_grad=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if error.error_on is OptimizerErrorEnum.CONSTRUCTION_ERROR:
            with pytest.raises(error.error_type, match=error.error_regex):
                ours(info, params, given.kwargs)
        else:
            optimizer = ours(info, params, given.kwargs)
            with pytest.raises(error.error_type, match=error.error_regex):
                optimizer.step()


def tensors(params: Any) -> Sequence[Any]:
    if isinstance(params, torch.Tensor):
        return [params]
    if isinstance(params, dict):
        return tensors(params["params"])
    return [t for p in params or () for t in tensors(p)] if not isinstance(params, str) else []


@pytest.mark.parametrize("info", optim_db, ids=lambda info: info.name)
def test_arguments_and_defaults(info: Any) -> None:
    mine = inspect.signature(getattr(rl.optim, info.name)).parameters
    other = inspect.signature(info.optim_cls).parameters
    assert [(p.name, p.default, p.kind) for p in mine.values()] == [
        (p.name, p.default, p.kind) for p in other.values()
    ]


def rosenbrock(x: Any, y: Any) -> Any:
    return (100 * (y - x * x) ** 2 + (1 - x) ** 2).sum()


def quartic(x: Any, y: Any) -> Any:
    return ((x - 1.5) ** 4 + (x - y) ** 2 + 0.3 * y.sin()).sum()


@pytest.mark.parametrize(
    ("function", "kwargs"),
    [
        (quartic, {}),
        (quartic, {"lr": 0.01}),
        (quartic, {"tolerance_grad": 1e-3}),
        (rosenbrock, {"line_search_fn": "strong_wolfe"}),
        (rosenbrock, {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 7}),
        (rosenbrock, {"line_search_fn": "strong_wolfe", "lr": 30.0, "max_eval": 9}),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_lbfgs(function: Any, kwargs: dict[str, Any]) -> None:
    random = torch.Generator().manual_seed(1)
    theirs = [torch.randn(3, 2, dtype=torch.float64, generator=random) for _ in range(2)]
    mine = [to_rushlight(p).requires_grad_() for p in theirs]
    theirs = [p.requires_grad_() for p in theirs]
    pairs = [
        (rl.optim.LBFGS(mine, **kwargs), mine),
        (torch.optim.LBFGS(theirs, **kwargs), theirs),
    ]
    for _ in range(6):
        losses = []
        for optimizer, params in pairs:

            def closure(optimizer: Any = optimizer, params: Any = params) -> Any:
                optimizer.zero_grad()
                loss = function(*params)
                loss.backward()
                return loss

            losses.append(optimizer.step(closure).item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-6, abs=1e-9)
        assert largest_error(mine, theirs) < 1e-8
    states = [optimizer.state[params[0]] for optimizer, params in pairs]
    assert [states[0][k] for k in ("n_iter", "func_evals")] == [
        states[1][k] for k in ("n_iter", "func_evals")
    ]


@pytest.mark.parametrize("kwargs", [{}, {"lr": 0.01}, {"maximize": True}], ids=str)
def test_sparse_adam_of_an_embedding(kwargs: dict[str, Any]) -> None:
    random = torch.Generator().manual_seed(2)
    table = torch.nn.Embedding(6, 3, sparse=True, dtype=torch.float64)
    mine = to_rushlight(table.weight).requires_grad_()
    pair = (
        rl.optim.SparseAdam([mine], **kwargs),
        torch.optim.SparseAdam(table.parameters(), **kwargs),
    )
    for _ in range(20):
        chosen = torch.randint(6, (2,), generator=random)
        for optimizer in pair:
            optimizer.zero_grad()
        (table(chosen) ** 2).sum().backward()
        (mine[to_rushlight(chosen)] ** 2).sum().backward()
        for optimizer in pair:
            optimizer.step()
    assert largest_error([mine], [table.weight]) < 1e-9


DIFFERENTIABLE = [info for info in optim_db if "differentiable" in info.supported_impls]


@pytest.mark.parametrize("info", DIFFERENTIABLE, ids=lambda info: info.name)
def test_gradients_through_steps(info: Any) -> None:
    """Steps are part of the graph: the gradient reaches the first parameters and gradients."""
    steps = 1 if info.name in ("Adamax", "Rprop") else 2  # PyTorch refuses a second one of these
    random = torch.Generator().manual_seed(3)
    values = [torch.randn(4, dtype=torch.float64, generator=random) for _ in range(3)]
    results = []
    for lib in (rl, torch):
        convert = to_rushlight if lib is rl else torch.clone
        start, first, second = [convert(v).requires_grad_() for v in values]
        p = start.clone()
        kwargs = {} if info.name == "Rprop" else {"weight_decay": 0.1}
        optimizer = getattr(lib.optim, info.name)([p], lr=0.1, differentiable=True, **kwargs)
        for g in (first, second)[:steps]:
            p.grad = g.clone()
            optimizer.step()
        (p**2).sum().backward()
        found = [start.grad, first.grad, second.grad]
        results.append([lib.zeros_like(start) if g is None else g for g in found])
    assert largest_error(*results) < 1e-5  # PyTorch has some of the factors in float32
