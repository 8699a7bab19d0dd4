"""Branches and loops in programs for all sizes."""

from __future__ import annotations

import io

import pytest

import rushlight as rl


def branch(x):
    return rl.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def recurrence(x):
    weight = rl.eye(x.shape[1]) * 0.5

    def body(h, row):
        h = (h @ weight + row).tanh()
        return h, h

    return rl.scan(body, rl.zeros(x.shape[1]), x)


def repeated(x):
    again = lambda i, x: i < 3  # noqa: E731
    return rl.while_loop(again, lambda i, x: (i + 1, (x * 1.1).sin()), (rl.tensor(0), x))[1]


def nested(x):
    def body(total, row):
        total = rl.cond(row.sum() > 0, lambda t, r: t + r.exp(), lambda t, r: t - r, (total, row))
        return total, total.sum()

    return rl.scan(body, x[0] * 0, x)


def script(x):
    h = x * 2
    if h.sum() > 1:
        h = h * 0.5
    for row in x:
        h = h + row
    return h.sum(0)


def means(x):
    """The gradient of a mean needs the number of its elements, forward does not."""
    while x.abs().sum() < 2000:
        x = x * 1.5 + x.mean(0) + rl.nn.functional.mse_loss(x, x.sin())
    return rl.scan(lambda total, row: (total + x.mean() * row.sum(), None), x.sum() * 0.01, x)[0]


def counted(x):
    body = lambda t, h: (x[t] + h).tanh() + x[t - 1]  # noqa: E731
    return rl.fori_loop(0, x.shape[0], body, rl.zeros(x.shape[1]))


def steps_without_rows(x):
    return rl.scan(lambda h, _: ((h + 1).sin(), h), x.sum(0), None, length=x.shape[0])


def folded(x):
    return rl.foldl(lambda h, row: (h + row).tanh(), x)


SIZES = [(4, 5), (6, 5), (3, 5), (8, 7), (1, 5), (2, 9), (30, 40), (1, 1)]


FUNCTIONS = [
    branch, recurrence, repeated, nested, script, means, counted, steps_without_rows, folded,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("wanted", [False, True])
def test_control_flow_of_any_size(function, wanted):
    rl.manual_seed(0)
    compiled = rl.compile(function, fullgraph=True)
    for size in SIZES:
        x = rl.randn(*size, requires_grad=wanted)
        results = [y if isinstance(y, tuple) else (y,) for y in (function(x), compiled(x))]
        for expected, found in zip(*results, strict=True):
            assert rl.allclose(found, expected, rtol=1e-4, atol=1e-5)
        if wanted:
            sums = [rl.stack([t.sum() for t in own]).sum() for own in results]
            (expected,), (found,) = [rl.autograd.grad(total, [x]) for total in sums]
            rounding = 1e-6 * float(expected.abs().max())  # of terms that cancel each other
            assert rl.allclose(found, expected, rtol=1e-4, atol=max(1e-5, rounding))
    assert len(compiled.known) <= 2  # of one row, a loop may be none
    assert sum(map(len, compiled.any_size.known.values())) <= 3


def over_range(x):
    h = x[0]
    for t in range(1, len(x)):
        h = (h + x[t]).tanh() * x[t - 1]
    return h


def backwards(x):
    h = x[0]
    for t in reversed(range(x.shape[0])):
        h = (h + x[t]).tanh()
    for t in range(x.shape[0] - 1, -1, -2):
        h = (h - x[t]).tanh()
    return h


def numbered_pairs(x):
    h = x[0]
    for i, (a, b) in enumerate(zip(x, x.flip(0), strict=True)):
        h = (h + a * i).tanh() + b
    return h


def broken_off(x):
    total = x[0]
    for t in range(x.shape[0]):
        total = total + x[t].abs()
        if total.sum() > 8:
            break
    return total


def numbers(x):
    return x.sum(0) / len(x) + x.mean(0) * int(x.shape[0]) + float(x.shape[0])


LOOPS = [counted, over_range, backwards, numbered_pairs, broken_off, numbers]


@pytest.mark.parametrize("function", LOOPS)
@pytest.mark.parametrize("wanted", [False, True])
def test_one_program_counts_to_any_size(function, wanted):
    rl.manual_seed(0)
    compiled = rl.compile(function, dynamic=True, fullgraph=True)
    for n in (3, 4, 9, 12, 5):
        x = rl.randn(n, 4, requires_grad=wanted)
        results = [f(x) for f in (compiled, function)]
        assert rl.allclose(*results, atol=1e-5)
        if wanted:
            (found,), (expected,) = [rl.autograd.grad(y.sum(), [x]) for y in results]
            assert rl.allclose(found, expected, atol=1e-4)
    assert not compiled.known
    assert sum(map(len, compiled.any_size.known.values())) == 1


def ended(x):
    s = rl.zeros(3)
    for row in x:
        if s.norm() > 4:
            break
        s = s + row
    return s


def chosen(x):
    s = rl.zeros(3)
    for i, (a, b) in enumerate(zip(x, x * 2, strict=True)):
        if a.sum() > 0:
            s = s * 0.5 + b * i
    return s


def recurrent(x):
    h = rl.zeros(3)
    for row in reversed(x):
        h = (h + row).tanh()
        if h.sum() > 1:
            h = h * 0.5
    return h


def from_the_second(x):
    s = rl.zeros(3)
    for i in range(1, len(x)):
        if x[i].sum() > 0:
            s = s + x[i] * x[i - 1]
    return s


def in_steps(x):
    s, n = rl.zeros(3), 0
    for i in range(2, len(x), 2):
        if s.sum() > 5:
            break
        s = s + x[i] * x[i - 1]
        n += 1
    return s * n


def in_each_other(x):
    s = rl.zeros(3)
    for a in x:
        for b in x:
            if (a * b).sum() > 0:
                s = s + a * b + rl.rand(3)
    return s


NONE_OR_MORE = [ended, chosen, recurrent, from_the_second, in_steps, in_each_other]


@pytest.mark.parametrize("function", NONE_OR_MORE)
@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("sizes", [(3, 5, 0, 1, 7, 8), (0, 1, 4, 0, 2), (5, 1, 0, 3)])
def test_no_row_and_one_row_need_no_program_of_their_own(function, wanted, sizes):
    compiled = rl.compile(function, fullgraph=True)
    for n in sizes:
        found = []
        for run in (compiled, function):
            rl.manual_seed(n)
            x = rl.randn(n, 3, requires_grad=wanted)
            y = run(x)
            if y.requires_grad:
                y.square().sum().backward()
            found.append((y, rl.zeros(n, 3) if x.grad is None else x.grad))
        for a, b in zip(*found, strict=True):
            assert rl.allclose(a, b, rtol=1e-4, atol=1e-4)
    assert len(compiled.known) + sum(map(len, compiled.any_size.known.values())) <= 2


def test_what_only_a_step_gives_a_value_is_missing_without_one():
    def last(x):
        for row in x:
            y = row * 2 if row.sum() > 0 else row
        return y

    compiled = rl.compile(last, fullgraph=True, dynamic=True)
    for n in (3, 1, 5):
        x = rl.randn(n, 3)
        assert rl.allclose(compiled(x), last(x))
    with pytest.raises(UnboundLocalError):
        compiled(rl.ones(0, 3))


def test_memory_that_is_shared_if_there_is_no_step():
    def shared(x):
        y = z = x.sum(0)
        for row in x:
            z = z + row if row.sum() > 0 else z * 2
        z.add_(1)
        return y + z

    compiled = rl.compile(shared, fullgraph=True)
    for n in (3, 5, 0, 1, 7):
        x = rl.randn(n, 3)
        assert rl.allclose(compiled(x), shared(x), atol=1e-5)


def test_one_program_counts_to_many_sizes():
    compiled = rl.compile(counted, dynamic=True, fullgraph=True)
    for n in range(3, 5 + rl.config.recompiles):
        x = rl.randn(n, 4)
        assert rl.allclose(compiled(x), counted(x), atol=1e-5)
    assert not compiled.known
    assert sum(map(len, compiled.any_size.known.values())) == 1


@pytest.mark.parametrize("function", LOOPS)
def test_loops_in_files_count_to_any_size(function):
    rl.manual_seed(0)
    made = rl.jit.trace(function, rl.randn(6, 4))
    loaded = rl.jit.load(io.BytesIO(made.save_to_buffer()))
    for n in (6, 3, 10):
        x = rl.randn(n, 4)
        assert rl.allclose(loaded(x), function(x), atol=1e-5)


@pytest.mark.parametrize("function", NONE_OR_MORE[:-1])
def test_loops_in_files_over_no_row_and_one(function):
    made = rl.jit.script(function)
    rl.manual_seed(0)
    made(rl.randn(6, 3))
    loaded = rl.jit.load(io.BytesIO(rl.jit.trace(function, rl.randn(6, 3)).save_to_buffer()))
    for n in (6, 0, 1, 10):
        x = rl.randn(n, 3)
        for run in (made, loaded):
            assert rl.allclose(run(x), function(x), atol=1e-4)


@pytest.mark.parametrize("wanted", [False, True])
def test_values_without_elements_that_are_the_same_at_each_step(wanted):
    def turned(x, y):
        body = lambda i, y: (i + 1, rl.cat([x[1:] * 2, y[:1]]))  # noqa: E731
        return rl.while_loop(lambda i, y: i < 2, body, (0, y))[1]

    compiled = rl.compile(turned, dynamic=True, fullgraph=True)
    for n in (3, 1, 2, 1):
        x, y = rl.randn(n, 3, requires_grad=wanted), rl.randn(n, 3, requires_grad=wanted)
        assert rl.allclose(compiled(x, y), turned(x, y))
        if wanted:
            pairs = [rl.autograd.grad(f(x, y).sum(), [x, y]) for f in (compiled, turned)]
            assert all([rl.allclose(a, b) for a, b in zip(*pairs, strict=True)])


def test_an_error_inside_names_its_line():
    compiled = rl.compile(
        lambda x, i: rl.cond(x.sum() > 0, lambda x, i: x[i], lambda x, i: x[0], (x, i)),
        fullgraph=True,
    )
    for n in (3, 5, 8):
        assert compiled(rl.ones(n, 2), rl.tensor(1)).tolist() == [1, 1]
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            compiled(rl.ones(n, 2), rl.tensor(n))
