"""Exported programs on a batch of none: what dynamic mode gives, by every way there is."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.export import Dim
from tests.compiled.test_modules import CASES

SECOND = {"LSTM", "LSTM, dropout", "RNN", "TransformerEncoderLayer", "TransformerDecoderLayer"}
"""Modules whose batch is the second dimension."""
SETTLED = {
    "DataParallel": "its arguments have no names",
    "SoftMarginLoss": "its gradient with respect to targets is refused, and so are other sizes",
}
NAMES = [name for name in CASES if name not in SETTLED]
OTHER_MODE = {"RReLU"}  # a part of it is in another mode than the whole, which no file can tell


def mapped(value: Any, f: Any) -> Any:
    return tuple([mapped(v, f) for v in value]) if isinstance(value, tuple) else f(value)


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def case(name: str) -> tuple[Any, Any, Any, int]:
    """A module, arguments, the same arguments without any of the batch, and its dimension."""
    make, draws = CASES[name]
    rl.manual_seed(0)
    generator = rl.Generator().manual_seed(1)
    module, args = make(), tuple([draw(generator, rl.float32) for draw in draws])
    dim = int(name in SECOND)
    with rl.no_grad():
        module(*args)  # shapes of lazy parameters
    return module.eval(), args, mapped(args, lambda t: t.narrow(dim, 0, 0).clone()), dim


def same(found: Any, expected: Any) -> None:
    pairs = zip(leaves(found), leaves(expected), strict=True)
    for a, b in pairs:
        assert a.dtype is b.dtype
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy(), strict=True)


@pytest.mark.parametrize("name", NAMES)
def test_exported_and_loaded(name: str) -> None:
    module, args, empty, dim = case(name)
    batches = {t.shape[dim]: Dim(f"batch{i}") for i, t in enumerate(leaves(args))}
    with rl.no_grad():
        expected = module(*empty)
        shapes = mapped(args, lambda t: {dim: batches[t.shape[dim]]})
        program = rl.export.export(module, args, dynamic_shapes=shapes)
        same(program.module()(*empty), expected)
        file = io.BytesIO()
        rl.export.save(program, file)
        file.seek(0)
        same(rl.export.load(file).module()(*empty), expected)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHER_MODE])
def test_gradients_of_a_program(name: str) -> None:
    module, args, empty, _ = case(name)
    file = io.BytesIO()
    rl.jit.trace(module, args).save(file)
    file.seek(0)
    loaded, found = rl.jit.load(file).eval(), []
    for each in (loaded, module):
        y = each(*empty)
        roots = [t for t in leaves(y) if t.requires_grad]
        if roots:
            rl.autograd.backward(roots, [rl.ones_like(t) for t in roots])
        gradients = [p.grad for p in each.parameters() if p.grad is not None]
        found.append([y, gradients])
    same(*found)


def test_training_on_none_and_on_some() -> None:
    layers = rl.nn.Linear(4, 8), rl.nn.LayerNorm(8), rl.nn.Dropout(0.5), rl.nn.Linear(8, 3)
    model = rl.nn.Sequential(*layers)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = rl.nn.functional.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        optimizer.step()
        return loss

    start, found = [p.detach().clone() for p in model.parameters()], []
    compiled = rl.compile(step, fullgraph=True, dynamic=True)
    for each in (compiled, step):
        rl.manual_seed(0)
        with rl.no_grad():
            for p, first in zip(model.parameters(), start, strict=True):
                p.copy_(first)
        sizes = (5, 0, 3)
        found.append([each(rl.randn(n, 4), rl.randint(0, 3, (n,))).detach() for n in sizes])
    np.testing.assert_allclose(*[[t.item() for t in losses] for losses in found], rtol=1e-5)
    assert sum(map(len, compiled.any_size.known.values())) == 1
