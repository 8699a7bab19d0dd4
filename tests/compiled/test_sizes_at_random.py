"""Functions written at random, at sizes drawn at random: as in dynamic mode, errors included."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import rushlight as rl

rl.manual_seed(0)
COLUMNS = rl.randn(3, 4, dtype=rl.float64)

STEPS = {
    "tanh": lambda x: x.tanh(),
    "scaled": lambda x: x * 2 - 0.5,
    "by rows": lambda x: x * x.shape[0],
    "divided by a size": lambda x: x / x.shape[-1] + x.shape[0] // 2,
    "centred": lambda x: x - x.mean(-1, keepdim=True),
    "centred rows": lambda x: x - x.mean(0),
    "softmax": lambda x: x.softmax(-1),
    "summed": lambda x: x.sum(0, keepdim=True) + x,
    "largest": lambda x: x.amax(0),
    "one sum": lambda x: x.sum() + x,
    "turned": lambda x: x.transpose(0, -1),
    "flat": lambda x: x.reshape(-1),
    "rows": lambda x: x.reshape(-1, x.shape[-1]),
    "columns": lambda x: x.reshape(x.shape[0], -1),
    "pairs": lambda x: x.reshape(-1, 2),
    "twos": lambda x: x.reshape(-1, 2, 1),
    "blocks": lambda x: x.reshape(x.shape[0], 1, -1),
    "without the first": lambda x: x[1:],
    "without the last": lambda x: x[..., :-1],
    "the first three": lambda x: x[:3],
    "the last two": lambda x: x[..., -2:],
    "every second": lambda x: x[::2],
    "every third from 1": lambda x: x[..., 1::3],
    "half": lambda x: x[: x.shape[0] // 2],
    "from half": lambda x: x[x.shape[0] // 2 :],
    "as many as columns": lambda x: x[: x.shape[-1]],
    "from as many as columns": lambda x: x[x.shape[-1] - 1 :],
    "one row": lambda x: x[0],
    "the last column": lambda x: x[..., -1],
    "narrow": lambda x: x.narrow(0, 1, x.shape[0] - 1),
    "product": lambda x: x @ x.transpose(0, -1) if x.ndim == 2 else x,
    "times four": lambda x: x[..., :3] @ COLUMNS,
    "joined": lambda x: rl.cat([x, x * 3]),
    "joined columns": lambda x: rl.cat([x, x[..., :1]], -1),
    "stacked": lambda x: rl.stack([x, -x], 1) if x.ndim < 3 else x,
    "beside": lambda x: x.unsqueeze(0) * x.unsqueeze(1) if x.ndim == 1 else x,
    "squeezed": lambda x: x.squeeze(),
    "squeezed rows": lambda x: x.squeeze(0),
    "if many": lambda x: x * 2 if x.shape[0] > 3 else x - 1,
    "if even": lambda x: x + 1 if x.shape[-1] % 2 == 0 else x * 3,
    "if more rows": lambda x: x.sin() if x.shape[0] > x.shape[-1] else x.cos(),
    "counted": lambda x: x + rl.arange(x.shape[-1]),
    "ones": lambda x: x + rl.ones(x.shape[0], *[1] * (x.ndim - 1)),
    "running": lambda x: x.cumsum(-1),
    "flipped": lambda x: x.flip(0),
    "rolled": lambda x: x.roll(1, 0),
    "triangle": lambda x: x.tril() if x.ndim > 1 else x,
    "repeated": lambda x: x.expand(2, *x.shape) if x.ndim < 3 else x,
    "padded": lambda x: rl.nn.functional.pad(x, (1, 2)),
    "chosen": lambda x: rl.where(x > 0, x, 0.1),
    "windows": lambda x: x.unfold(-1, 2, 2).sum(-1),
    "gathered": lambda x: x.gather(0, x.detach().argsort(0)),
    "means": lambda x: rl.ones(()).expand(x.shape).mean(0) + x,
}
PAIRS = {
    "sum": lambda x, y: x + y,
    "difference": lambda x, y: x.unsqueeze(-1) - y.sum(),
    "product": lambda x, y: x @ y.transpose(0, -1),
    "joined": lambda x, y: rl.cat([x, y]),
    "joined columns": lambda x, y: rl.cat([x, y], -1),
    "cut": lambda x, y: x[: y.shape[0]] * 2,
    "rest": lambda x, y: x[y.shape[0] :] * 2,
    "all pairs": lambda x, y: x.sum(-1).unsqueeze(0) * y.sum(-1).unsqueeze(-1),
    "expanded": lambda x, y: x.sum(-1, keepdim=True).expand(x.shape[0], y.shape[-1]),
}


def written(seed: int) -> tuple[Any, list[str]]:
    """A function of two tensors, and the names of its steps."""
    draw = random.Random(seed)
    before = draw.choices(list(STEPS), k=draw.randint(0, 2))
    pair = draw.choice(list(PAIRS))
    after = draw.choices(list(STEPS), k=draw.randint(1, 3))

    def function(x: Any, y: Any) -> Any:
        for name in before:
            x = STEPS[name](x)
        z = PAIRS[pair](x, y)
        for name in after:
            z = STEPS[name](z)
        return z

    return function, [*before, pair, *after]


def sizes(seed: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes of calls: of two matrices, or of a stack of them and one."""
    draw = random.Random(seed)
    rank = draw.choice((2, 2, 3))
    drawn = []
    for _ in range(9):
        b, t, s, n = (draw.choice((*range(10), 17, 40)) for _ in range(4))
        kinds = [(b, t), (b, t), (s, t), (b, 1), (1, t), (s, n)]
        y = draw.choice(kinds)
        drawn.append(((b, t) if rank == 2 else (s, b, t), y))
    return [((5, 7), (5, 7)) if rank == 2 else ((4, 5, 7), (5, 7)), *drawn]


def outcome(function: Any, shapes: Any) -> list[Any]:
    """Value and gradients, or the type of the error."""
    random = np.random.default_rng(len(shapes[0]))
    x, y = (rl.from_numpy(random.standard_normal(s)).requires_grad_() for s in shapes)
    try:
        z = function(x, y)
    except Exception as error:
        return [type(error)]
    if z.requires_grad and z.numel():
        (z * z.detach().tanh()).sum().backward()
    return [z.detach(), x.grad, y.grad]


def check(seed: int) -> None:
    function, names = written(seed)
    compiled = rl.compile(function, fullgraph=True, dynamic=True if seed % 2 else None)
    for shapes in sizes(seed):
        wanted, found = outcome(function, shapes), outcome(compiled, shapes)
        where = f"{names} at {shapes}"
        assert len(wanted) == len(found), (where, wanted[:1], found[:1])
        for w, f in zip(wanted, found, strict=True):
            if isinstance(w, rl.Tensor):
                assert f is not None, where
                assert f.shape == w.shape, where
                np.testing.assert_allclose(f, w, rtol=1e-8, atol=1e-9, err_msg=where)
            else:
                assert w is f, (where, w, f)


@pytest.mark.parametrize("seed", [*range(8), 12, 17])
def test_functions_at_random(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is compiled anew for each size")  # some are too irregular
@pytest.mark.parametrize("start", range(8, 968, 24))
def test_many_functions_at_random(start: int) -> None:
    for seed in range(start, start + 24):
        check(seed)
