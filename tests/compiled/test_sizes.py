"""Programs for all sizes: right for every one, and few of them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from tests.sampling import flat

SIZES = [(5, 7), (6, 9), (1, 1), (8, 7), (33, 40), (3, 70), (1, 50), (50, 3), (2, 2), (16, 16)]
BATCHES = [(n,) for n in (5, 6, 1, 8, 64, 100, 2, 16, 4)]


@pytest.fixture(autouse=True)
def doubles():
    rl.manual_seed(0)
    rl.set_default_dtype(rl.float64)
    yield
    rl.set_default_dtype(rl.float32)


def programs(compiled):
    """How many programs there are for one size, and how many for all."""
    return len(compiled.known), sum(map(len, compiled.any_size.known.values()))


def check(make, arguments, sizes, most=1):
    """Compares a compiled function with another one of its kind, size after size."""
    rl.manual_seed(1)
    own = make()
    rl.manual_seed(1)
    other = make()
    compiled = rl.compile(own, fullgraph=True)
    for size in sizes:
        args = arguments(*size)
        wanted, found = other(*args), compiled(*args)
        for w, f in zip(flat(wanted), flat(found), strict=True):
            assert f.shape == w.shape
            np.testing.assert_allclose(f.detach(), w.detach(), rtol=1e-8, atol=1e-10)
    exact, general = programs(compiled)
    assert exact == 1, compiled.any_size.refused
    assert 1 <= general <= most, compiled.any_size.refused


def training(make_model, loss_of, optimizer=rl.optim.SGD):
    """A whole training step."""

    def make():
        model = make_model()
        optim = optimizer(model.parameters(), lr=0.01)

        def step(*args):
            loss = loss_of(model, *args)
            optim.zero_grad()
            loss.backward()
            optim.step()
            return loss

        return step

    return make


FUNCTIONS = {
    "elementwise": lambda x: F.gelu(x) * 2 + x.sin(),
    "softmax": lambda x: x.softmax(-1),
    "softmax of columns": lambda x: x.softmax(0),
    "norm": lambda x: F.normalize(x, dim=1),
    "mean": lambda x: (x.mean(), x.mean(0), x.var(1, unbiased=False)),
    "sums": lambda x: (x.sum(0), x.sum(1, keepdim=True), x.amax(0), x.argmax(1)),
    "divided": lambda x: x.sum(0) / x.shape[0] + x.shape[1],
    "turned": lambda x: (x.t() * 2).contiguous(),
    "product": lambda x: x @ x.t(),
    "product of columns": lambda x: x.t() @ x,
    "einsum": lambda x: rl.einsum("bt,bs->ts", x, x),
    "joined": lambda x: rl.cat([x, x * 2], 1),
    "stacked": lambda x: rl.stack([x, -x], 1),
    "slices": lambda x: x[:, :-1] + x[:, 1:] if x.shape[1] > 1 else x,
    "flat": lambda x: x.reshape(-1) * 2,
    "seen": lambda x: x.view(x.shape[0], 1, -1).expand(-1, 3, -1) * 1,
    "new": lambda x: x + rl.zeros(x.shape[0], 1) + rl.ones_like(x),
    "counted": lambda x: x + rl.arange(x.shape[1]),
    "counted in floats": lambda x: x * rl.arange(x.shape[1] - 1, -1, -1, dtype=rl.float32),
    "counted in short": lambda x: x + rl.arange(2, 2 + x.shape[1], dtype=rl.int32),
    "triangle": lambda x: x.tril() + x.triu(1),
    "cumulative": lambda x: x.cumsum(0) + x.cumsum(1),
    "chosen": lambda x: rl.where(x > 0, x, 0.0),
    "chosen sizes": lambda x: rl.where(x > 0, x.shape[0], x) + rl.where(x > 1, 3, x.shape[1]),
    "masked": lambda x: x.masked_fill(x < 0, 0.0),
    "masked by sizes": lambda x: x.masked_fill(x < 0, x.shape[0] - x.shape[1]),
    "filled with sizes": lambda x: x.index_fill(1, rl.tensor([0]), x.shape[0]),
    "padded": lambda x: F.pad(x, (1, 2)),
    "padded with edges": lambda x: F.pad(x, (3, 2), "replicate"),
    "flipped": lambda x: x.flip(0, 1),
    "gathered": lambda x: x.gather(1, x.argmax(1, keepdim=True)),
    "scattered": lambda x: rl.zeros_like(x).scatter_add_(1, x.argmax(1, keepdim=True), x[:, :1]),
    "rolled": lambda x: x.roll(1, 0),
    "backwards": lambda x: x[rl.arange(x.shape[0] - 1, -1, -1)],
    "every third, backwards": lambda x: x[:, rl.arange(x.shape[1] - 1, -1, -3)] * 2,
    "diagonals": lambda x: (x.diagonal() * 2, x.trace()),
    "another diagonal": lambda x: x.diagonal(1) * 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    check(lambda: FUNCTIONS[name], lambda b, t: [rl.randn(b, t)], SIZES, most=3)


def test_a_training_step_has_two_programs():
    make = training(
        lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)),
        lambda model, x, y: F.cross_entropy(model(x), y),
        rl.optim.Adam,
    )
    check(make, lambda b: [rl.randn(b, 16), rl.randint(0, 4, (b,))], BATCHES)


def test_gradients_outside():
    def make():
        model = nn.Linear(16, 4)

        def loss_and_gradient(x):
            loss = run(x)
            model.zero_grad()
            loss.backward()
            return loss, model.weight.grad.clone()

        run = rl.compile(lambda x: model(x).square().mean())
        return loss_and_gradient

    rl.manual_seed(1)
    compiled = make()
    for (n,) in BATCHES:
        rl.manual_seed(1)
        model = nn.Linear(16, 4)
        x = rl.randn(n, 16)
        wanted = model(x).square().mean()
        wanted.backward()
        loss, gradient = compiled(x)
        np.testing.assert_allclose(loss.detach(), wanted.detach(), rtol=1e-9)
        np.testing.assert_allclose(gradient, model.weight.grad, rtol=1e-9)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.position = nn.Embedding(30, 16), nn.Embedding(80, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(16, 30)

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.embedding(tokens) + self.position(rl.arange(length))
        return self.head(self.layer(x, src_mask=mask))


def test_a_transformer_of_any_batch_and_length():
    def loss(model, tokens):
        return F.cross_entropy(model(tokens)[:, :-1].reshape(-1, 30), tokens[:, 1:].reshape(-1))

    sizes = [size for size in SIZES if size[1] > 1]
    make = training(Language, loss, rl.optim.AdamW)
    check(make, lambda b, t: [rl.randint(0, 30, (b, t))], sizes)


def test_convolutions_of_any_batch_and_side():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.second, self.head = nn.Conv2d(8, 8, 3, stride=2), nn.Linear(8, 4)

        def forward(self, x):
            x = F.relu(self.second(F.relu(self.norm(self.first(x)))))
            return self.head(F.max_pool2d(x, 2, ceil_mode=True).mean((2, 3)))

    make = training(Network, lambda model, x, y: F.cross_entropy(model(x), y))
    sizes = [(4, 12), (5, 14), (2, 20), (7, 13), (3, 16), (6, 9)]
    arguments = lambda b, n: [rl.randn(b, 3, n, n), rl.randint(0, 4, (b,))]  # noqa: E731
    check(make, arguments, sizes, most=3)


def test_random_numbers_are_those_of_dynamic_mode():
    def noisy(x):
        return F.dropout(x, 0.5) + rl.randn(x.shape[0], 1)

    compiled = rl.compile(noisy)
    for b, t in SIZES:
        x = rl.randn(b, t)
        rl.manual_seed(b)
        wanted = noisy(x)
        rl.manual_seed(b)
        np.testing.assert_allclose(compiled(x), wanted, rtol=1e-12)
    assert programs(compiled) == (1, 1)


def test_threads_make_no_difference():
    compiled = rl.compile(lambda x: (x @ x.t()).softmax(-1).sum(0))
    results = []
    for threads in (1, 2):
        before = rl.get_num_threads()
        rl.set_num_threads(threads)
        rl.manual_seed(0)
        results.append([compiled(rl.randn(n, 300)) for n in (100, 150, 200, 250)])
        rl.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        assert rl.equal(a, b)


def test_two_threads_call_with_different_sizes():
    compiled = rl.compile(lambda x: (x * 2).softmax(-1))
    for n in (10, 11):
        compiled(rl.randn(n, 50))
    wrong = []

    def work(seed):
        generator = rl.Generator().manual_seed(seed)
        for n in range(20, 60):
            x = rl.randn(n, 50, generator=generator)
            if not rl.allclose(compiled(x), (x * 2).softmax(-1)):
                wrong.append(n)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def gradients(function):
    """A function with the gradients in its first argument."""

    def both(x, *args):
        x = x.detach().requires_grad_()
        y = function(x, *args)
        return y.detach(), rl.autograd.grad(y.square().sum(), x)[0]

    return both


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: F.cross_entropy(x, y),
        lambda x, y: F.cross_entropy(x, y, reduction="none", label_smoothing=0.1),
        lambda x, y: F.nll_loss(x, y, x.detach()[0].exp()),
    ],
    ids=["cross-entropy", "smoothed", "weighted"],
)
def test_any_number_of_classes(function):
    check(
        lambda: gradients(function),
        lambda b, t: (rl.randn(b, t), rl.randint(0, t, (b,))),
        [(b + 1, t) for b, t in SIZES],
        most=2,
    )
    compiled = rl.compile(function)
    for n in (3, 4, 5):
        compiled(rl.randn(2, n), rl.tensor([0, 2]))
    with pytest.raises(IndexError, match=r"Target 9 is out of bounds.*from 0 to 7"):
        compiled(rl.randn(2, 8), rl.tensor([0, 9]))


@pytest.mark.parametrize("length", [4, 200])
def test_attention_of_any_width(length):
    def make():
        return gradients(lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True))

    widths = [(n,) for n in (2, 3, 4, 7, 8, 16, 33, 64, 1, 5)]
    check(make, lambda n: [rl.randn(1, 2, length, n) for _ in range(3)], widths)


def test_traces_of_all_square_matrices():
    check(lambda: gradients(rl.trace), lambda n: (rl.randn(n, n),), [*BATCHES, (3,)])
    compiled = rl.compile(rl.trace, dynamic=True)
    assert [compiled(rl.ones(n, n)).item() for n in (0, 3, 0, 1)] == [0, 3, 0, 1]


def test_each_way_to_broadcast_has_a_program_for_all_sizes():
    compiled = rl.compile(lambda x, y: x * y, fullgraph=True)
    shapes = [((5, 3), (1, 3)), ((5, 3), (5, 3)), ((6, 4), (6, 1)), ((1, 4), (6, 4))]
    later = [((7, 2), (7, 1)), ((1, 9), (4, 9)), ((8, 5), (8, 1)), ((1, 2), (3, 2))]
    for a, b in [*shapes, *later]:
        x, y = rl.randn(a), rl.randn(b)
        assert rl.equal(compiled(x, y), x * y)
    assert programs(compiled) == (2, 2)
    with pytest.raises(RuntimeError, match="must match"):
        compiled(rl.ones(3, 4), rl.ones(2, 4))


class TestDecisions:
    def test_a_branch_on_a_size(self):
        check(
            lambda: lambda x: x * 2 if x.shape[0] > 6 else x - 1,
            lambda b, t: [rl.randn(b, t)],
            SIZES,
            most=2,
        )

    def test_a_loop_over_a_size_has_a_program_for_each(self):
        compiled = rl.compile(lambda x: sum([x[:, i] * i for i in range(x.shape[1])]))
        for b, t in ((3, 4), (3, 5), (5, 5), (7, 5), (2, 4)):
            x = rl.randn(b, t)
            wanted = sum([x[:, i] * i for i in range(t)])
            np.testing.assert_allclose(compiled(x), wanted, rtol=1e-12)

    def test_a_size_as_a_key(self):
        table = {3: 1.0, 4: 2.0, 5: 3.0}
        compiled = rl.compile(lambda x: x * table[x.shape[0]])
        for n in (3, 4, 5, 3):
            assert rl.equal(compiled(rl.ones(n)), rl.full((n,), table[n]))

    def test_errors_are_those_of_dynamic_mode(self):
        compiled = rl.compile(lambda x: x.reshape(-1, 4))
        for n in (8, 12):
            compiled(rl.ones(n))
        with pytest.raises(RuntimeError, match="is invalid for input of size 10"):
            compiled(rl.ones(10))
        pool = rl.compile(lambda x: F.max_pool1d(x, 3))
        for n in (8, 12):
            pool(rl.ones(1, 1, n))
        with pytest.raises(RuntimeError, match="utput size"):
            pool(rl.ones(1, 1, 2))

    def test_broadcasting_is_decided_at_run_time(self):
        compiled = rl.compile(lambda x, y: x + y)
        for a, b in ((3, 3), (4, 4), (5, 5), (5, 1), (1, 5), (1, 1)):
            assert rl.equal(compiled(rl.ones(a), rl.ones(b)), rl.ones(a) + rl.ones(b))
        with pytest.raises(RuntimeError, match="must match"):
            compiled(rl.ones(3), rl.ones(4))

    def test_nothing_is_there(self):
        compiled = rl.compile(lambda x: (x * 2).sum(0))
        for n in (3, 4, 0, 5, 0):
            assert rl.equal(compiled(rl.ones(n, 2)), rl.full((2,), 2.0 * n))

    def test_what_divides_a_size(self):
        def make():
            return lambda x: (x * 2).reshape(-1, 2, x.shape[0] // 4).sum(1)

        check(make, lambda b, t: [rl.randn(b, t)], [(4, 17), (8, 3), (4, 6), (12, 9), (40, 1)])

    def test_sizes_that_are_equal_at_some_calls(self):
        compiled = rl.compile(lambda x, y: x + y, fullgraph=True, dynamic=True)
        pairs = [((5, 7), (5, 7)), ((3, 4), (1, 4)), ((3, 4), (3, 1)), ((5, 6), (5, 6))]
        for sizes in [*pairs, ((6, 2), (6, 1)), ((2, 8), (1, 8)), ((9, 4), (9, 4))]:
            x, y = map(rl.randn, sizes)
            assert rl.equal(compiled(x, y), x + y)
        assert programs(compiled)[0] == 0

    @pytest.mark.parametrize(
        "function",
        [
            lambda x, y: x.masked_fill(y < 0, 2),
            lambda x, y: x * y if y.shape[1] - 1 == 0 else x,
            lambda x, y: y.expand(-1, 4) * 1 if 2 * y.shape[1] == 2 else x,
            lambda x, y: x + y if 0 < y.shape[1] < 2 else x,
        ],
        ids=["not unlike 1", "less 1 it is 0", "twice it is 2", "between 0 and 2"],
    )
    def test_a_size_that_was_found_to_be_one(self, function):
        compiled = rl.compile(function, fullgraph=True, dynamic=True)
        for n, m in ((4, 1), (1, 1), (7, 1), (2, 2), (7, 7)):
            x, y = rl.randn(3, n), rl.randn(3, m)
            assert rl.equal(compiled(x, y), function(x, y))

    @pytest.mark.parametrize("name", ["expanded", "transposed", "every other"])
    def test_what_is_a_view_of_one_element_only(self, name):
        function = {
            "expanded": lambda x: x[:, None].expand(-1, 3, -1).reshape(-1, x.shape[1]),
            "transposed": lambda x: x.t().reshape(-1),
            "every other": lambda x: x[:, ::2].reshape(-1),
        }[name]
        compiled = rl.compile(function)
        for size in ((5, 7), (3, 4), (1, 1), (2, 2), (1, 3), (4, 1), (9, 3)):
            x = rl.randn(*size)
            assert rl.equal(compiled(x), function(x)), size


class TestAsked:
    def test_dynamic_from_the_first_call(self):
        compiled = rl.compile(lambda x: x * 2, dynamic=True)
        for b, t in SIZES:
            assert rl.equal(compiled(rl.ones(b, t)), rl.full((b, t), 2.0))
        assert programs(compiled)[0] == 0

    def test_never(self):
        compiled = rl.compile(lambda x: x * 2, dynamic=False)
        for n in (3, 4, 5):
            compiled(rl.ones(n))
        assert programs(compiled) == (3, 0)

    def test_marked(self):
        compiled = rl.compile(lambda x: x * 2)
        x = rl.ones(3, 2)
        rl.mark_dynamic(x, 0)
        assert compiled(x).shape == (3, 2)
        assert compiled(rl.ones(7, 2)).shape == (7, 2)
        assert programs(compiled) == (0, 1)
        with pytest.raises(IndexError, match="dimension"):
            rl.mark_dynamic(x, 2)


def test_many_sizes_take_no_more_memory():
    compiled = rl.compile(lambda x: (x @ x.t()).relu().sum(1))
    for n in range(2, 40):
        for t in range(2, 40, 3):
            compiled(rl.ones(n, t))
    assert programs(compiled) == (1, 1)
    (made,) = [made for several in compiled.any_size.known.values() for made in several]
    assert len(made.forward.instances) <= 128
    assert sum([len(sized.idle) for sized in made.forward.instances.values()]) <= 128


RECURRENT = {
    "LSTM": lambda: nn.LSTM(5, 6, batch_first=True),
    "GRU": lambda: nn.GRU(5, 6, 2, batch_first=True),
    "RNN": lambda: nn.RNN(5, 6, batch_first=True),
    "both ways": lambda: nn.LSTM(5, 6, bidirectional=True, batch_first=True),
}
LENGTHS = [(3, 4), (5, 9), (1, 1), (8, 30), (2, 17), (1, 12), (7, 1), (4, 28), (6, 2), (9, 5)]


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_of_any_batch_and_length(name):
    make = training(RECURRENT[name], lambda model, x: model(x)[0].square().mean())
    sizes = [*LENGTHS, *[(b + 1, t + 3) for b, t in LENGTHS]]
    check(make, lambda b, t: [rl.randn(b, t, 5)], sizes)


def test_a_cell_of_any_batch():
    make = training(lambda: nn.LSTMCell(5, 6), lambda model, x: model(x)[0].square().mean())
    check(make, lambda b: [rl.randn(b, 5)], BATCHES)


class TestShapes:
    """Sizes of results are right where those of arguments do not go up together."""

    @pytest.mark.parametrize(
        ("function", "shapes"),
        [
            (F.conv1d, [((1, 1, 40), (1, 1, n)) for n in (3, 5, 20)]),
            (lambda x, y: x.unfold(0, y.shape[0], 1) * 1, [((40,), (3,)), ((12,), (5,))]),
            (lambda x, y: x[y.shape[0] :] * 2, [((40,), (3,)), ((12,), (3,)), ((4,), (7,))]),
            (lambda x, y: x[: -y.shape[0]] * 2, [((40,), (3,)), ((12,), (5,)), ((4,), (7,))]),
            (lambda x, y: rl.linalg.qr(x)[0].abs() * y, [((n, 4), ()) for n in (6, 8, 2)]),
            (lambda x, y: x.diagonal() * y, [((n, 4), ()) for n in (6, 8, 2)]),
            (
                lambda x, y: rl.ones(()).expand(x.shape).mean(0) * y,
                [((n, 2), ()) for n in (6, 8, 0)],
            ),
            (
                lambda x, y: (rl.ones(()) * 2).expand(x.shape).sum() * y,
                [((n, 2), ()) for n in (6, 8)],
            ),
        ],
    )
    def test_differences_and_clamps(self, function, shapes):
        compiled = rl.compile(function, fullgraph=True, dynamic=True)
        for sizes in shapes:
            x, y = (rl.randn(size) for size in sizes)
            wanted, found = function(x, y), compiled(x, y)
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_pieces_whose_number_is_known(count):
    def make():
        return lambda x: [piece * 2 for piece in x.chunk(count)]

    many = [(n,) for n in (8, 12, 24, 64, 65, 66, 67, 100, 11, 10)]
    check(make, lambda n: (rl.randn(n, 3),), many, most=2)  # equal ones, and others
    few = [(n,) for n in (64, 65, 9, 7, 6, 5, 4, 3, 2, 1, 0)]
    check(make, lambda n: (rl.randn(n, 3),), few, most=8)


def test_equal_pieces_meet():
    def make():
        return lambda x: (x.chunk(2)[0] * x.chunk(2)[1]).sum(0)

    check(make, lambda n: (rl.randn(n, 3),), [(n,) for n in (8, 12, 64, 2, 30)])


def test_nearly_equal_pieces():
    def make():
        return lambda x: [piece.exp() for piece in x.tensor_split(3)]

    check(make, lambda n: (rl.randn(n, 3),), [(n,) for n in (8, 12, 7, 3, 2, 1, 0, 64, 65)])


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("window", [2, 3])
def test_borders_of_windows(stride, window):
    """Loops are cut at borders that depend on sizes: none is too short or too long for that."""

    def make():
        def function(x):
            padded = F.pad(x, (1, 2, 0, 1), value=3.0)
            pooled = F.max_pool2d(padded, window, stride) + F.avg_pool2d(padded, window, stride)
            (gradient,) = rl.autograd.grad(pooled.square().sum(), x)
            return padded, pooled, gradient

        return function

    sizes = [(2, 7, 9), (3, 8, 10), *[(1, h, w) for h in (3, 4, 7) for w in (3, 6)]]
    check(make, lambda *size: (rl.randn(*size).requires_grad_(),), sizes, most=4)


@pytest.mark.parametrize("first", [1, 5])
def test_a_batch_of_one_needs_no_program_of_its_own(first):
    def make():
        token = rl.randn(1, 1, 4).requires_grad_()

        def function(x):
            y = rl.cat([token.expand(x.shape[0], -1, -1), x.transpose(1, 2)], 1)
            rows = y.reshape(-1, 4).tanh()
            view = x.transpose(0, 1).contiguous().view(-1, 3)
            return rows, view * 2, rl.autograd.grad(rows.square().sum(), (x, token))

        return function

    sizes = [(7,), (first,), (1,), (2,), (6,)]
    check(make, lambda n: (rl.randn(n, 4, 3).requires_grad_(),), sizes)


def test_a_view_of_a_batch_of_one_stays_one_of_that():
    """What other sizes refuse is refused: they do not get the copy that a reshape makes."""
    compiled = rl.compile(lambda x: x.transpose(0, 1).view(-1) + 1, fullgraph=True, dynamic=True)
    assert compiled(rl.ones(1, 4)).shape == (4,)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        compiled(rl.ones(3, 4))


class Writes:
    """Functions that write to parts of a tensor, for sizes of at least 2."""

    @staticmethod
    def row(x, y):
        y[-1] = x[0]

    @staticmethod
    def rest(x, y):
        y[:, 1:] = x[:, :-1]

    @staticmethod
    def inner_part(x, y):
        y[1:, 1:-1] *= 3

    @staticmethod
    def half(x, y):
        y[: x.shape[0] // 2].zero_()

    @staticmethod
    def part_of_a_column(x, y):
        y.t()[0][1:] = x[:1, 0]

    @staticmethod
    def every_other(x, y):
        y.view(-1)[::2] = 1


@pytest.mark.parametrize("name", [name for name in vars(Writes) if name[0] != "_"])
def test_writing_to_parts(name):
    def function(x):
        y = x * 2
        getattr(Writes, name)(x, y)
        return y

    sizes = [(b + 1, t + 1) for b, t in SIZES]
    check(lambda: gradients(function), lambda *size: [rl.randn(*size)], sizes, most=2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: rl.cat([x.reshape(-1), x[:, 1:].reshape(-1) * 2]),
        lambda x: rl.cat([x[:, 1:].reshape(-1, 4), x[:, 0]]),
    ],
    ids=["flat", "rows"],
)
def test_parts_that_are_empty_at_some_sizes(function):
    """Their elements have no places, which are never computed by dividing through 0."""
    sizes = [(5, 7), (6, 9), (1, 1), (3, 1), (1, 2)]
    check(lambda: gradients(function), lambda b, t: [rl.randn(b, t, 4)], sizes, most=3)
