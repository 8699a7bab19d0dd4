"""Programs of random draws give PyTorch's numbers for the same seed, through the public API."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

SIZES = [
    (),
    (1,),
    (2,),
    (15,),
    (16,),
    (17,),
    (33,),
    (1000,),
    (3, 5),
    (4, 4),
    (7, 3, 2),
    (0,),
    (2, 0),
]
FLOATS = ("float32", "float64")

# A draw takes the library, a generator for its own choices, and the name of a dtype.
Draw = Callable[[Any, np.random.Generator, str], Any]
DRAWS: dict[str, tuple[str, Draw]] = {}


def draw(accuracy: str) -> Callable[[Draw], Draw]:
    """Bit for bit ("exact"), within 2 ulp ("ulp"), within 2 ulp of the terms of a sum ("sum")."""

    def register(function: Draw) -> Draw:
        DRAWS[function.__name__] = accuracy, function
        return function

    return register


def size(random: np.random.Generator) -> tuple[int, ...]:
    return SIZES[random.integers(len(SIZES))]


@draw("exact")
def rand(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.rand(size(random), dtype=getattr(lib, kind))


@draw("exact")
def rand_like(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.rand_like(lib.zeros(3, 5, dtype=getattr(lib, kind)).t())


@draw("ulp")
def randn(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.randn(size(random), dtype=getattr(lib, kind))


@draw("ulp")
def randn_like(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.randn_like(lib.zeros(size(random), dtype=getattr(lib, kind)))


@draw("sum")
def randn_of_strided(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.zeros(6, 5, dtype=getattr(lib, kind)).t().normal_(1.0, 2.0)


@draw("exact")
def uniform(lib: Any, random: np.random.Generator, kind: str) -> Any:
    low = float(np.float32(random.normal()))
    return lib.empty(size(random), dtype=getattr(lib, kind)).uniform_(low, low + 2.5)


@draw("exact")
def uniform_of_strided(lib: Any, random: np.random.Generator, kind: str) -> Any:
    t = lib.zeros(4, 6, dtype=getattr(lib, kind))
    t[:, ::2].uniform_()
    t.t().uniform_(2, 3)
    return t


@draw("sum")
def normal(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.empty(size(random), dtype=getattr(lib, kind)).normal_(random.normal(), 0.5)


@draw("sum")
def normal_around(lib: Any, random: np.random.Generator, kind: str) -> Any:
    mean = lib.arange(20, dtype=getattr(lib, kind))
    return lib.normal(mean, 1.5) + lib.normal(mean, mean + 1) + lib.normal(0.5, mean + 1)


@draw("exact")
def randint(lib: Any, random: np.random.Generator, kind: str) -> Any:
    low = int(random.integers(-50, 50))
    return lib.randint(low, low + int(random.integers(1, 2**33)), size(random))


@draw("exact")
def random_integers(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.empty(size(random), dtype=getattr(lib, kind)).random_()


@draw("exact")
def randperm(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.randperm(int(random.choice([0, 1, 2, 17, 600, 5000])))


@draw("exact")
def bernoulli(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.bernoulli(lib.linspace(0, 1, 33, dtype=getattr(lib, kind)))


@draw("exact")
def bernoulli_in_place(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.empty(size(random), dtype=getattr(lib, kind)).bernoulli_(float(random.random()))


@draw("exact")
def multinomial(lib: Any, random: np.random.Generator, kind: str) -> Any:
    weights = lib.tensor(random.random((3, 9)).tolist(), dtype=getattr(lib, kind))
    return lib.multinomial(weights, int(random.integers(1, 9)), bool(random.integers(2)))


@draw("ulp")
def exponential(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.empty(size(random), dtype=getattr(lib, kind)).exponential_(1.5)


@draw("sum")
def cauchy(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.empty(size(random), dtype=getattr(lib, kind)).cauchy_(0.5, 2)


@draw("ulp")
def log_normal(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.empty(size(random), dtype=getattr(lib, kind)).log_normal_()


@draw("exact")
def poisson(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.poisson(lib.linspace(0, 40, 60, dtype=getattr(lib, kind)))


@draw("exact")
def geometric(lib: Any, random: np.random.Generator, kind: str) -> Any:
    return lib.empty(size(random), dtype=getattr(lib, kind)).geometric_(0.3)


@draw("ulp")
def forked(lib: Any, random: np.random.Generator, kind: str) -> Any:
    with lib.random.fork_rng(devices=[]):
        lib.manual_seed(3)
        inside = lib.randn(5)
    return lib.cat([inside, lib.randn(5)])


@draw("ulp")
def with_generator(lib: Any, random: np.random.Generator, kind: str) -> Any:
    generator = lib.Generator().manual_seed(int(random.integers(2**40)))
    parts = [lib.randn(3, generator=generator), lib.rand(4, generator=generator)]
    parts.append(lib.empty(5).normal_(generator=generator))
    parts.append(lib.randperm(6, generator=generator).float())
    parts.append(lib.randint(9, (3,), generator=generator).float())
    return lib.cat(parts)


@draw("ulp")
def restored(lib: Any, random: np.random.Generator, kind: str) -> Any:
    state = lib.get_rng_state()
    first = lib.randn(3)
    lib.set_rng_state(state)
    return first + lib.randn(3)


def program(lib: Any, seed: int) -> list[tuple[str, Any]]:
    """Some draws in an order, and with arguments, that the seed decides."""
    random = np.random.default_rng(seed)
    lib.manual_seed(seed * 7919)
    results = []
    for _ in range(random.integers(3, 12)):
        name = list(DRAWS)[random.integers(len(DRAWS))]
        kind = FLOATS[random.integers(len(FLOATS))]
        results.append((name, DRAWS[name][1](lib, random, kind)))
    return [*results, ("rand", lib.rand(3))]


@pytest.mark.parametrize("block", range(10))
def test_a_program_of_draws(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        for (name, theirs), (_, mine) in zip(program(torch, seed), program(rl, seed), strict=True):
            a, b = theirs.numpy(), mine.numpy()
            assert a.dtype == b.dtype
            assert a.shape == b.shape
            accuracy = DRAWS[name][0]
            if accuracy == "exact":
                np.testing.assert_array_equal(b, a, f"{name} of seed {seed}")
            else:
                size = np.abs(a) if accuracy == "ulp" else np.maximum(np.abs(a), 1)
                distance = np.abs(a.astype(np.longdouble) - b) / np.spacing(size)
                assert distance.max(initial=0) <= 2, f"{name} of seed {seed}"


@pytest.mark.parametrize("name", list(DRAWS))
def test_a_draw_in_every_dtype(name: str) -> None:
    for kind in FLOATS:
        torch.manual_seed(1)
        rl.manual_seed(1)
        theirs = DRAWS[name][1](torch, np.random.default_rng(5), kind).numpy()
        mine = DRAWS[name][1](rl, np.random.default_rng(5), kind).numpy()
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_states_are_exchanged() -> None:
    torch.manual_seed(11)
    torch.randn(5)
    rl.set_rng_state(rl.from_numpy(torch.get_rng_state().numpy()))
    assert rl.rand(4).tolist() == torch.rand(4).tolist()
    assert (rl.get_rng_state().numpy() == torch.get_rng_state().numpy()).all()
    assert rl.initial_seed() == torch.initial_seed() == 11


def test_generators_are_copied_with_their_position() -> None:
    generator = rl.Generator().manual_seed(4)
    rl.rand(3, generator=generator)
    twins = [
        copy.deepcopy(generator),
        pickle.loads(pickle.dumps(generator)),
        generator.clone_state(),
    ]
    expected = rl.rand(5, generator=generator).tolist()
    for twin in twins:
        assert type(twin) is rl.Generator
        assert rl.rand(5, generator=twin).tolist() == expected
