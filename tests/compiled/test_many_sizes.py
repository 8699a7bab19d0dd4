"""Many batch sizes and lengths: two programs serve them all, and memory does not grow."""

from __future__ import annotations

import gc
import random
import tracemalloc

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.runtime import general


def training_step():
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), nn.Linear(16, 4)
    )
    optimizer = rl.optim.Adam(model.parameters(), lr=1e-3)

    def step(x):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def programs(compiled):
    return len(compiled.known), sum(map(len, compiled.any_size.known.values()))


def pairs(count):
    """Different pairs of a batch size and a length, 1 to 64 each."""
    every = [(b, t) for b in range(1, 65) for t in range(1, 65)]
    return random.Random(0).sample(every, count)


def test_two_programs_learn_from_batches_of_all_sizes():
    own, compiled = training_step(), rl.compile(training_step(), fullgraph=True)
    for batch, length in pairs(24):
        x = rl.randn(batch, length, 16)
        assert compiled(x).item() == pytest.approx(own(x).item(), rel=1e-4)
    assert programs(compiled) == (1, 1)


def test_memory_does_not_grow_with_the_number_of_sizes(monkeypatch):
    monkeypatch.setattr(general, "KEPT", 4)
    compiled = rl.compile(lambda x: (x.softmax(-1) @ x.transpose(1, 2)).tanh().sum(-1))
    sizes = iter(pairs(90))

    def run(count):
        for _, (batch, length) in zip(range(count), sizes, strict=False):
            compiled(rl.ones(batch, length, 8))

    run(30)
    compiled.short.clear()
    gc.collect()
    tracemalloc.start()
    try:
        run(30)
        compiled.short.clear()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        run(30)
        compiled.short.clear()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert programs(compiled) == (1, 1)
    assert grown < 100_000


@pytest.mark.slow
def test_two_programs_serve_64_batch_sizes_and_64_lengths():
    function = lambda x: (x.softmax(-1) @ x.transpose(1, 2)).tanh().sum(-1)  # noqa: E731
    compiled = rl.compile(function, fullgraph=True)
    for batch, length in pairs(64 * 64):
        x = rl.randn(batch, length, 8)
        assert rl.allclose(compiled(x), function(x), rtol=1e-4, atol=1e-4)
    assert programs(compiled) == (1, 1)


def rows_in_a_list(x):
    rows = []
    for i in range(x.shape[0]):
        rows.append(x[i] * (i + 1))
    return rl.stack(rows)


def steps_while(x):
    i, total = 0, x.sum(0)
    while i < x.shape[0]:
        total = total.sin() + x[i]
        i += 1
    return total


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    ("function", "why"),
    [(rows_in_a_list, "needed as numbers of Python's"), (steps_while, "decide what it does")],
)
def test_a_function_that_needs_each_size_gets_a_program_for_each(function, why, dynamic):
    compiled = rl.compile(function, fullgraph=True, dynamic=dynamic)
    most = rl.config.recompiles + 4

    def run():
        for n in range(3, 3 + most):
            x = rl.randn(n, 2)
            assert rl.allclose(compiled(x), function(x), atol=1e-5)

    with pytest.warns(UserWarning, match=rf"each size .*{why} at .*many_sizes.py:\d+") as told:
        run()
    assert len(told) == 1
    assert sum(programs(compiled)) == most
    run()
    assert sum(programs(compiled)) == most


@pytest.mark.parametrize(
    "wrong", [(rl.ones(2), "a"), (3, 0), (rl.ones(2), 1.5)], ids=["text", "number", "float"]
)
def test_only_dimensions_of_tensors_are_marked(wrong):
    with pytest.raises(TypeError, match=r"mark_dynamic\(\)"):
        rl.mark_dynamic(*wrong)
    with pytest.raises(IndexError, match="of a tensor of 1 dimensions"):
        rl.mark_dynamic(rl.ones(2), 1)
