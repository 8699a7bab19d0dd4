"""Results of compiled functions have the strides of dynamic mode."""

from __future__ import annotations

import pytest

import rushlight as rl

FUNCTIONS = {
    "a transpose": lambda x: (x * 2).t(),
    "a permutation": lambda x: (x * 2).reshape(2, 3, 4).permute(2, 0, 1),
    "an element of a transpose": lambda x: x.t().exp(),
    "a product": lambda x: (x @ x.t()).t(),
    "a transpose, and more": lambda x: ((x * 2).t(), x + 1, {"sum": x.t().sin()}),
    "a copy of a transpose": lambda x: (x * 2).t().contiguous(),
    "channels last": lambda x: x.reshape(1, 2, 3, 4).contiguous(memory_format=rl.channels_last) * 2,
    "a transpose of a transpose": lambda x: (x * 2).t().exp().t(),
    "nothing": lambda x: x[:0].exp().t(),
}


def tensors(result):
    if isinstance(result, dict):
        result = tuple(result.values())
    return [t for r in result for t in tensors(r)] if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wanted", [False, True])
def test_strides(name, wanted):
    function = FUNCTIONS[name]
    rl.manual_seed(0)
    x = rl.randn(3, 8, requires_grad=wanted)
    expected, got = tensors(function(x)), tensors(rl.compile(function, fullgraph=True)(x))
    for a, b in zip(expected, got, strict=True):
        assert a.stride() == b.stride()
        assert a.requires_grad == b.requires_grad
    rl.testing.assert_close(got, expected)


def test_gradients_through_a_transposed_result():
    def function(x):
        return (x * x).t()

    rl.manual_seed(0)
    x, weight = rl.randn(3, 8, requires_grad=True), rl.randn(8, 3)
    found = []
    for f in (function, rl.compile(function, fullgraph=True)):
        (first,) = rl.autograd.grad((f(x) * weight).sum(), x)
        (slope,) = rl.autograd.grad((f(x) * weight).sum(), x, create_graph=True)
        (second,) = rl.autograd.grad(slope.square().sum(), x)
        found.append((first, slope.detach(), second))
    rl.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("kind", [rl.nn.LSTM, rl.nn.Linear])
def test_loops_over_time_are_cut_for_the_threads_there_are(kind):
    layer = kind(8, 8)
    compiled, before = rl.compile(lambda x: layer(x), fullgraph=True), rl.get_num_threads()
    x = rl.ones(4, 6, 8)
    try:
        for threads in (1, 2, 1, 2):
            rl.set_num_threads(threads)
            compiled(x)
    finally:
        rl.set_num_threads(before)
    (made,) = compiled.made.values()
    assert made == (2 if kind is rl.nn.LSTM else 1)


def test_graphs_are_of_the_results_as_they_are():
    (y,) = rl.graph(lambda x: x.exp().t(), rl.ones(3, 8)).outputs
    assert y.type.shape == (8, 3)


def test_an_entry_that_is_replaced_by_a_transpose():
    state = {"h": rl.ones(2, 3)}

    def step(x):
        state["h"] = (x * 2).t()

    rl.compile(step, fullgraph=True)(rl.ones(3, 2))
    assert state["h"].stride() == (1, 2)
