"""Small training programs, each with its step compiled: the losses are those of dynamic mode."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import subprocess
import sys
import textwrap
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.utils.checkpoint import checkpoint
from rushlight.utils.data import DataLoader, TensorDataset
from tests.waiting import PATIENCE

PROGRAMS: dict[str, Any] = {}


def program(make):
    """Registers a function that returns a training step and the arguments of its calls."""
    PROGRAMS[make.__name__] = make
    return make


def repeated(count, *batch):
    return [batch] * count


def updated(optimizer, loss):
    """The usual three lines."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


@program
def regression_by_hand():
    x, y = rl.randn(16, 20), rl.randn(16, 3)
    w1, w2 = rl.randn(20, 8), rl.randn(8, 3)

    def step():
        h = x.mm(w1)
        h_relu = h.clamp(min=0)
        error = h_relu.mm(w2) - y
        grad_h = (2 * error).mm(w2.t()).clone()
        grad_h[h < 0] = 0
        grad_w2 = h_relu.t().mm(2 * error)
        w1.sub_(1e-4 * x.t().mm(grad_h))
        w2.sub_(1e-4 * grad_w2)
        return error.pow(2).sum()

    return step, repeated(30)


@program
def regression_with_autograd():
    x, y = rl.randn(16, 20), rl.randn(16, 3)
    w1 = rl.randn(20, 8, requires_grad=True)
    w2 = rl.randn(8, 3, requires_grad=True)

    def step(x, y, rate=1e-4):
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        loss.backward()
        with rl.no_grad():
            for w in (w1, w2):
                w -= rate * w.grad
                w.grad.zero_()
        return loss

    return step, repeated(30, x, y)


@program
def sequential_without_optimizer():
    model = nn.Sequential(nn.Linear(20, 8), nn.ReLU(), nn.Linear(8, 3))

    def step(x, y):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        with rl.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        model.zero_grad()
        return loss

    return step, repeated(30, rl.randn(16, 20), rl.randn(16, 3))


class ParallelBlock(nn.Module):
    def __init__(self, inside, outside):
        super().__init__()
        self.one, self.other = nn.Linear(inside, outside), nn.Linear(inside, outside)

    def forward(self, x):
        return (self.one(x) * self.other(x)).clamp(min=0)


@program
def parallel_blocks():
    model = nn.Sequential(ParallelBlock(20, 8), ParallelBlock(8, 8), nn.Linear(8, 3))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def step(x, y):
        return updated(optimizer, F.mse_loss(model(x), y))

    return step, repeated(30, rl.randn(16, 20), rl.randn(16, 3))


@program
def batches_of_a_loader():
    loader = DataLoader(TensorDataset(rl.randn(30, 6), rl.randn(30, 2)), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)

    def step(x, y):
        return updated(optimizer, F.mse_loss(model(x), y))

    return step, [batch for _ in range(6) for batch in loader]


@program
def recurrence_of_any_length():
    w = rl.randn(6, 6, requires_grad=True)

    def step(rows):
        h = rl.zeros(6)
        for row in rows:
            h = rl.tanh(h + row @ w)
        loss = h.pow(2).sum()
        (gradient,) = rl.autograd.grad(loss, w)
        with rl.no_grad():
            w.sub_(0.1 * gradient)
        return loss

    return step, [(rl.randn(length, 6),) for length in (1, 3, 7, 3, 1, 7) * 4]


@program
def tree_of_lists():
    w = nn.Parameter(rl.randn(5, 5))
    optimizer = optim.SGD([w], lr=0.01)

    def fold(tree):
        if isinstance(tree, list):
            return rl.tanh(rl.stack([fold(branch) for branch in tree]).sum(0) @ w)
        return tree

    def step(tree):
        return updated(optimizer, fold(tree).pow(2).sum())

    leaf = functools.partial(rl.randn, 5)
    trees = [[[leaf(), leaf()], leaf()], [leaf(), [leaf(), [leaf(), leaf()]]]]
    return step, [(tree,) for tree in trees * 10]


@program
def convolution_of_digits():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.25), nn.Linear(6, 10),
    )  # fmt: skip
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)

    def step(images, labels):
        return updated(optimizer, F.cross_entropy(model(images), labels))

    return step, repeated(20, rl.randn(12, 1, 8, 8), rl.randint(0, 10, (12,)))


@program
def characters_with_a_cell():
    embed, cell, head = nn.Embedding(11, 6), nn.LSTMCell(6, 8), nn.Linear(8, 11)
    parameters = [*embed.parameters(), *cell.parameters(), *head.parameters()]
    optimizer = optim.RMSprop(parameters, lr=1e-2)

    def step(text):
        h = c = rl.zeros(text.shape[0], 8)
        loss = 0
        for t in range(text.shape[1] - 1):
            h, c = cell(embed(text[:, t]), (h, c))
            loss = loss + F.cross_entropy(head(h), text[:, t + 1])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return loss

    return step, repeated(20, rl.randint(0, 11, (4, 6)))


@program
def recurrent_layers():
    gru, head = nn.GRU(5, 7, num_layers=2, batch_first=True), nn.Linear(7, 1)
    optimizer = optim.Adam([*gru.parameters(), *head.parameters()], lr=1e-2)

    def step(x, y):
        states, last = gru(x)
        return updated(optimizer, F.l1_loss(head(states[:, -1] + last[0]), y))

    return step, repeated(20, rl.randn(6, 4, 5), rl.randn(6, 1))


@program
def autoencoder():
    encode = nn.Sequential(nn.Linear(12, 6), nn.GELU(), nn.Linear(6, 2))
    decode = nn.Sequential(nn.Linear(2, 6), nn.GELU(), nn.Linear(6, 12), nn.Sigmoid())
    optimizer = optim.Adam([*encode.parameters(), *decode.parameters()], lr=1e-2)

    def step(x):
        return updated(optimizer, F.binary_cross_entropy(decode(encode(x)), x))

    return step, [(rl.rand(9, 12),) for _ in range(20)]


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(10, 8), nn.Linear(4, 10)

    def forward(self, x):
        mean, spread = self.encode(x).chunk(2, dim=1)
        z = mean + rl.randn_like(mean) * (0.5 * spread).exp()
        return self.decode(z), mean, spread


@program
def variational_autoencoder():
    model = Variational()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)

    def step(x):
        y, mean, spread = model(x)
        divergence = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum()
        return updated(optimizer, F.mse_loss(y, x, reduction="sum") + divergence)

    return step, [(rl.rand(8, 10),) for _ in range(20)]


@program
def adversaries():
    make = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2))
    judge = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    maker = optim.Adam(make.parameters(), lr=1e-2, betas=(0.5, 0.999))
    judging = optim.Adam(judge.parameters(), lr=1e-2, betas=(0.5, 0.999))
    loss_of = nn.BCEWithLogitsLoss()

    def step(real):
        fake = make(rl.randn(real.size(0), 3))
        ones, zeros = rl.ones(real.size(0), 1), rl.zeros(real.size(0), 1)
        loss = loss_of(judge(real), ones) + loss_of(judge(fake.detach()), zeros)
        updated(judging, loss)
        return loss, updated(maker, loss_of(judge(fake), ones))

    return step, [(rl.randn(7, 2) + 3,) for _ in range(20)]


@program
def gradient_penalty():
    judge = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.Adam(judge.parameters(), lr=1e-2)

    def step(real, fake):
        share = rl.rand(real.shape[0], 1)
        between = (share * real + (1 - share) * fake).requires_grad_()
        score = judge(between)
        (slope,) = rl.autograd.grad(score, between, rl.ones_like(score), create_graph=True)
        penalty = (slope.norm(2, dim=1) - 1).pow(2).mean()
        return updated(optimizer, judge(fake).mean() - judge(real).mean() + 10 * penalty)

    return step, repeated(20, rl.randn(6, 4), rl.randn(6, 4))


@program
def translation_with_attention():
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
    source, head = nn.Embedding(9, 8), nn.Linear(8, 9)
    optimizer = optim.Adam([*model.parameters(), *source.parameters(), *head.parameters()], lr=1e-3)

    def step(said, told):
        mask = nn.Transformer.generate_square_subsequent_mask(told.shape[1] - 1)
        y = head(model(source(said), source(told[:, :-1]), tgt_mask=mask))
        return updated(optimizer, F.cross_entropy(y.flatten(0, 1), told[:, 1:].flatten()))

    return step, repeated(12, rl.randint(0, 9, (3, 5)), rl.randint(0, 9, (3, 4)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for y in self.mix(self.before(x)).split(c, dim=2)
        )
        score = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
        ahead = rl.triu(rl.ones(t, t, dtype=rl.bool), diagonal=1)
        y = score.masked_fill(ahead, float("-inf")).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.think(self.after(x))


class Tiny(nn.Module):
    """A language model whose head shares its weight with the embedding."""

    def __init__(self, words=13, width=8, length=6):
        super().__init__()
        self.token, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids, targets=None):
        x = self.token(ids) + self.place(rl.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


@program
def language_model_with_tied_weights():
    model = Tiny()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)

    def step(ids, targets):
        _, loss = model(ids, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step, repeated(12, rl.randint(0, 13, (3, 6)), rl.randint(0, 13, (3, 6))), schedule.step


class Residual(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        self.a = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.short = nn.Conv2d(channels, channels, 1, stride) if stride > 1 else nn.Identity()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.na(self.a(x)))
        y = self.nb(self.b(y))
        y += self.short(x)
        return self.relu(y)


@program
def residual_blocks():
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), Residual(4), Residual(4, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)

    def step(x, y):
        return updated(optimizer, loss_of(model(x), y))

    return step, repeated(12, rl.randn(5, 2, 6, 6), rl.randint(0, 3, (5,)))


@program
def contrast():
    encode = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = optim.Adam(encode.parameters(), lr=1e-2)

    def step(x):
        a = F.normalize(encode(x + 0.1 * rl.randn_like(x)), dim=1)
        b = F.normalize(encode(x + 0.1 * rl.randn_like(x)), dim=1)
        z = rl.cat([a, b])
        likeness = z @ z.t() / 0.5
        n = x.shape[0]
        likeness.fill_diagonal_(float("-inf"))
        labels = rl.cat([rl.arange(n, 2 * n), rl.arange(n)])
        return updated(optimizer, F.cross_entropy(likeness, labels))

    return step, repeated(20, rl.randn(6, 8))


@program
def values_with_a_target_network():
    policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    target = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    target.load_state_dict(policy.state_dict())
    optimizer = optim.Adam(policy.parameters(), lr=1e-2, amsgrad=True)

    def step(state, action, reward, following, done):
        value = policy(state).gather(1, action).squeeze(1)
        with rl.no_grad():
            best = target(following).max(1).values
            goal = reward + 0.9 * best * (1 - done.to(best.dtype))
        loss = F.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        with rl.no_grad():
            for slow, quick in zip(target.parameters(), policy.parameters(), strict=True):
                slow.data.mul_(0.9).add_(quick.data, alpha=0.1)
        return loss

    batch = (
        rl.randn(9, 4), rl.randint(0, 2, (9, 1)), rl.randn(9), rl.randn(9, 4), rl.rand(9) < 0.2
    )  # fmt: skip
    return step, repeated(20, *batch)


@program
def learning_to_learn():
    w, b = nn.Parameter(rl.randn(3, 1)), nn.Parameter(rl.zeros(1))
    optimizer = optim.SGD([w, b], lr=0.05)

    def step(x, y, later, result):
        inner = F.mse_loss(x @ w + b, y)
        gw, gb = rl.autograd.grad(inner, (w, b), create_graph=True)
        quick_w, quick_b = w - 0.1 * gw, b - 0.1 * gb
        return updated(optimizer, F.mse_loss(later @ quick_w + quick_b, result))

    return step, repeated(30, rl.randn(5, 3), rl.randn(5, 1), rl.randn(5, 3), rl.randn(5, 1))


class Swish(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = 1 / (1 + (-x).exp())
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))


class Clip(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        g = g.clone()
        g[x < ctx.low] = 0
        return g, None


@program
def functions_with_own_derivatives():
    one, two = nn.Linear(6, 8), nn.Linear(8, 1)
    optimizer = optim.SGD([*one.parameters(), *two.parameters()], lr=0.05)

    def step(x, y):
        return updated(optimizer, F.mse_loss(Clip.apply(two(Swish.apply(one(x))), -1.0), y))

    return step, repeated(30, rl.randn(7, 6), rl.randn(7, 1))


@program
def hooks():
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    model[1].register_forward_hook(lambda module, args, result: result * 1.5)
    model[0].register_forward_pre_hook(lambda module, args: (args[0] - 1,))
    model[2].register_full_backward_hook(lambda module, into, out: (into[0] * 0.5,))
    model[0].weight.register_hook(lambda g: g.clamp(-1, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.05)

    def step(x, y):
        return updated(optimizer, F.mse_loss(model(x), y))

    return step, repeated(20, rl.randn(7, 6), rl.randn(7, 1))


@program
def checkpointed_layers():
    layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
    optimizer = optim.SGD(layers.parameters(), lr=0.1)

    def step(x, y):
        for layer in layers:
            x = checkpoint(lambda x, layer=layer: layer(x).tanh(), x, use_reentrant=False)
        return updated(optimizer, F.mse_loss(x, y))

    return step, repeated(20, rl.randn(7, 6), rl.randn(7, 6))


@program
def spectral_and_weight_norm():
    first = nn.utils.parametrizations.weight_norm(nn.Linear(5, 6))
    second = nn.Linear(6, 1)
    optimizer = optim.Adagrad([*first.parameters(), *second.parameters()], lr=0.1)

    def step(x, y):
        return updated(optimizer, F.huber_loss(second(F.silu(first(x))), y))

    return step, repeated(20, rl.randn(7, 5), rl.randn(7, 1))


@dataclasses.dataclass
class Batch:
    x: Any
    y: Any
    weight: float = 1.0


Pair = namedtuple("Pair", "x y")


@program
def kinds_of_batches():
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.05)

    def step(batch):
        match batch:
            case {"x": x, "y": y}:
                weight = 2.0
            case Batch(x=x, y=y, weight=weight):
                pass
            case x, y:
                weight = 0.5
        return {"loss": updated(optimizer, weight * F.mse_loss(model(x), y))}

    x, y = rl.randn(6, 4), rl.randn(6, 1)
    batches = [{"x": x, "y": y}, Batch(x, y), Batch(x, y, 0.25), (x, y), Pair(x, y), [x, y]]
    return step, [(batch,) for batch in batches * 5]


class Trainer:
    """An object with a compiled method, that counts and remembers in tensors."""

    scale = 1.0

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
        self.optimizer = optim.Adam(self.model.parameters(), lr=1e-2)
        self.average = rl.zeros(())

    @staticmethod
    def loss_of(y, goal):
        return F.mse_loss(y, goal)

    @classmethod
    def scaled(cls, loss):
        return loss * cls.scale

    def step(self, x, *, goal, evaluate=False):
        loss = self.scaled(self.loss_of(self.model(x), goal))
        if evaluate:
            return self.average.clone()
        self.average.mul_(0.9).add_(loss.detach(), alpha=0.1)
        return updated(self.optimizer, loss)


@program
def methods_and_keywords():
    trainer = Trainer()
    x, y = rl.randn(6, 4), rl.randn(6, 1)
    learn = functools.partial(trainer.step, goal=y)
    calls = [(x, False), (x, False), (x, True)]

    def step(x, evaluate):
        return learn(x, evaluate=evaluate)

    return step, calls * 8


@program
def accumulated_gradients():
    model = nn.Linear(4, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.05)

    def step(x, y, last):
        loss = F.mse_loss(model(x), y) / 3
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    batches = [(rl.randn(6, 4), rl.randn(6, 1), i % 3 == 2) for i in range(24)]
    return step, batches


@program
def policy_gradient():
    policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = optim.Adam(policy.parameters(), lr=1e-2)

    def step(state, action, reward):
        likely = F.log_softmax(policy(state), dim=-1)
        chosen = likely.gather(-1, action[:, None])[:, 0]
        entropy = -(likely.exp() * likely).sum(-1).mean()
        gains = (reward - reward.mean()) / (reward.std() + 1e-8)
        return updated(optimizer, -(chosen * gains).mean() - 0.01 * entropy)

    return step, repeated(20, rl.randn(9, 4), rl.randint(0, 3, (9,)), rl.randn(9))


@program
def writes_into_a_buffer():
    w = rl.randn(4, 4, requires_grad=True)

    def step(x):
        out = rl.zeros(x.shape[0], 5, 4)
        h = x
        for t in range(5):
            h = rl.tanh(h @ w)
            out[:, t] = h
        loss = (out[:, 1:] - out[:, :-1]).pow(2).sum()
        loss.backward()
        with rl.no_grad():
            w.data.add_(w.grad, alpha=-0.02)
        w.grad = None
        return loss

    return step, repeated(25, rl.randn(3, 4))


def values_of(result):
    if isinstance(result, dict):
        result = tuple(result.values())
    return [t.item() for t in (result if isinstance(result, tuple) else (result,))]


def curve(make, wrap):
    """The losses of a program, whose steps are wrapped."""
    rl.manual_seed(0)
    step, calls, *after = make()
    step = wrap(step)
    losses = []
    for args in calls:
        losses += values_of(step(*args))
        for then in after:
            then()
    return losses


required = functools.partial(rl.compile, fullgraph=True)


@pytest.fixture
def double():
    rl.set_default_dtype(rl.float64)
    yield
    rl.set_default_dtype(rl.float32)


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_those_of_dynamic_mode(name, double):
    expected = curve(PROGRAMS[name], lambda step: step)
    assert curve(PROGRAMS[name], required) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_in_single_precision(name):
    expected = curve(PROGRAMS[name], lambda step: step)
    assert curve(PROGRAMS[name], required) == pytest.approx(expected, rel=1e-3, abs=1e-4)


def small_network():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def losses_with_backward_outside(wrap, steps=20):
    """The model alone is wrapped; the loss and the update are dynamic."""
    rl.manual_seed(0)
    inner = small_network()
    model = wrap(inner)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    x, y = rl.randn(10, 6), rl.randn(10, 2)
    losses = []
    for i in range(steps):
        model.train(i % 5 != 4)
        loss = F.mse_loss(model(x[: 10 - i % 2]), y[: 10 - i % 2])
        losses.append(updated(optimizer, loss).item())
    return losses, inner.state_dict()


def test_a_compiled_module_learns_as_the_module_does(double):
    expected, state = losses_with_backward_outside(lambda model: model)
    found, compiled_state = losses_with_backward_outside(required)
    assert found == pytest.approx(expected, rel=1e-9)
    for name, value in state.items():
        rl.testing.assert_close(compiled_state[name], value, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", [rl.bfloat16, rl.float16])
def test_half_types_learn_nearly_alike(kind):
    def losses(wrap):
        rl.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to(kind)
        optimizer = optim.SGD(model.parameters(), lr=0.05)
        x, y = rl.randn(10, 6, dtype=kind), rl.randn(10, 2, dtype=kind)
        step = wrap(lambda: updated(optimizer, F.mse_loss(model(x), y)))
        return [step().item() for _ in range(20)]

    assert losses(required) == pytest.approx(losses(lambda step: step), rel=0.03)


SCRIPT = """
    import torch

    torch.manual_seed(0)
    x, y = torch.randn(10, 10), torch.randn(10, 10)


    @torch.compile
    def waves(x, y):
        return torch.sin(x) + torch.cos(y)


    assert torch.allclose(waves(x, y), x.sin() + y.cos(), atol=1e-6)
    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU()))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(50):
        loss = torch.nn.functional.mse_loss(model(x), torch.zeros(10, 16))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert not torch.compiler.is_compiling()
    torch._dynamo.reset()
    print("done")
"""


def test_a_program_written_for_torch_compiles_its_functions(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-m", "rushlight", "run", str(path)]
    variables = {**os.environ, "PYTHONPATH": str(Path(rl.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=variables)
    assert done.stdout == "done\n", done.stderr
