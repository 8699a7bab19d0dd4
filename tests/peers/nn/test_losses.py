"""Losses and distances in PyTorch and here: values, gradients, dtypes, warnings and errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from tests.peers.scenarios import Body, Scenarios, compare

torch = pytest.importorskip("torch")
scenarios = Scenarios()
REDUCTIONS = ("mean", "sum", "none")


class Data:
    """The same random tensors in either library."""

    def __init__(self, lib: Any) -> None:
        self.lib, self.random = lib, np.random.default_rng(0)

    def normal(self, *shape: int, dtype: str = "float32") -> Any:
        values = self.random.standard_normal(shape)
        return self.lib.from_numpy(values).to(getattr(self.lib, dtype)).requires_grad_()

    def uniform(self, *shape: int) -> Any:
        return self.lib.from_numpy(self.random.uniform(0.05, 0.95, shape)).requires_grad_()

    def labels(self, classes: int, *shape: int) -> Any:
        return self.lib.from_numpy(self.random.integers(0, classes, shape))

    def signs(self, *shape: int) -> Any:
        return self.lib.from_numpy(self.random.choice([-1.0, 1.0], shape))


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Value and gradients of a call, or its error, and what it warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            y = call(*args, **kwargs)
        except Exception as error:
            return [type(error).__name__]
    told = [[w.category.__name__, common(str(w.message))] for w in seen]
    leaves = [t for t in (*args, *kwargs.values()) if getattr(t, "requires_grad", False)]
    if not leaves or not y.requires_grad:
        return [str(y.dtype).split(".")[-1], y.double(), told]
    lib = torch if isinstance(y, torch.Tensor) else rl
    weights = lib.arange(1, y.numel() + 1).reshape(y.shape)
    grads = lib.autograd.grad((y.double() * weights).sum(), leaves, allow_unused=True)
    grads = [g if g is None else [str(g.dtype).split(".")[-1], g.double()] for g in grads]
    return [str(y.dtype).split(".")[-1], y.double(), grads, told]


def common(text: str) -> str:
    return re.sub(r"torch\.|rushlight\.", "", text)


@scenarios
def regression(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    x, t = data.normal(4, 3), data.normal(4, 3)
    for reduction in REDUCTIONS:
        for loss in (F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss):
            yield outcome(loss, x, t, reduction=reduction)
            yield outcome(loss, x.detach(), t.detach().double(), reduction=reduction)
        yield outcome(F.smooth_l1_loss, x, t, reduction=reduction, beta=0.3)
        yield outcome(F.huber_loss, x, t, reduction=reduction, delta=0.3, weight=t.detach().abs())
        yield outcome(F.mse_loss, x, t, reduction=reduction, weight=t.detach().abs())
        yield outcome(F.l1_loss, x, t, reduction=reduction, weight=t.detach().abs())
        yield outcome(F.poisson_nll_loss, x, t.abs(), full=True, reduction=reduction)
        yield outcome(F.gaussian_nll_loss, x, t, x.abs() / 2, full=True, reduction=reduction)
    for loss in (F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss):
        yield outcome(loss, x, t[0])
        yield outcome(loss, x, t[:, :2])
        yield outcome(loss, x[:0], t[:0])
        yield outcome(loss, x, t, reduction="average")
        yield outcome(loss, x > 0, t > 0)


@scenarios
def reductions_of_the_past(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    x, t = data.normal(4, 3), data.normal(4, 3)
    for old in ({"size_average": False}, {"reduce": False}, {"size_average": True, "reduce": True}):
        yield outcome(F.mse_loss, x, t, **old)
        yield outcome(F.soft_margin_loss, x, t.detach(), **old)
        yield outcome(F.cross_entropy, x, data.labels(3, 4), **old)
    yield outcome(F.mse_loss, x, t, reduction="elementwise_mean")
    yield outcome(F.kl_div, x, t.exp())


@scenarios
def labels(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    for shape in ((6, 4), (2, 4, 3), (2, 4, 2, 3), (2, 4, 1, 2, 2), (4,)):
        x = data.normal(*shape, dtype="float64")
        t = data.labels(4, *shape[:1], *shape[2:]) if len(shape) > 1 else data.labels(4)
        weight = data.uniform(4).detach()
        for reduction in REDUCTIONS:
            for loss in (F.cross_entropy, F.nll_loss):
                yield outcome(loss, x, t, reduction=reduction)
                yield outcome(loss, x, t, weight, reduction=reduction)
                yield outcome(loss, x, t, weight, ignore_index=2, reduction=reduction)
            for w in (None, weight):
                smooth = {"reduction": reduction, "label_smoothing": 0.2, "ignore_index": 1}
                yield outcome(F.cross_entropy, x, t, w, **smooth)
            soft = data.uniform(*shape)
            yield outcome(F.cross_entropy, x, soft, weight, reduction=reduction)
            yield outcome(F.cross_entropy, x, soft, reduction=reduction, label_smoothing=0.2)


@scenarios
def labels_that_do_not_fit(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    x, t, image = data.normal(3, 4), data.labels(4, 3), data.normal(2, 3, 4)
    for loss in (F.cross_entropy, F.nll_loss):
        for bad in ([0, 4, 1], [0, -1, 1], [0, 1], [[0, 1, 2]], 1, [0.0, 1.0, 2.0]):
            yield outcome(loss, x, lib.tensor(bad))
        yield outcome(loss, x, t.int())
        yield outcome(loss, x[0], t)
        yield outcome(loss, x[0, 0], t[0])
        yield outcome(loss, image, lib.zeros(2, 3, dtype=lib.int64))
        yield outcome(loss, x, t, lib.ones(3))
        yield outcome(loss, x, t, lib.ones(4, dtype=lib.float64))
        yield outcome(loss, x, t, lib.ones(4, requires_grad=True))
        yield outcome(loss, t.reshape(1, 3), lib.tensor([0]))
        yield outcome(loss, x[:0], t[:0])
        yield outcome(loss, x, lib.full((3,), -100))
        yield outcome(loss, x, t, ignore_index=0.5)
        yield outcome(loss, x, t.to(lib.uint8))
    yield outcome(F.cross_entropy, x, x.softmax(1), ignore_index=1)
    yield outcome(F.cross_entropy, x, t, label_smoothing=1.5)


@scenarios
def halves(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    for dtype in ("float16", "bfloat16"):
        x, t = data.normal(4, 3, dtype=dtype), data.labels(3, 4)
        probable = data.uniform(4, 3).detach().to(x.dtype)
        for y in (
            F.cross_entropy(x, t),
            F.nll_loss(x, t),
            F.mse_loss(x, probable),
            F.smooth_l1_loss(x, probable),
            F.binary_cross_entropy_with_logits(x, probable),
            F.binary_cross_entropy(x.sigmoid(), probable),
            F.kl_div(x, probable, reduction="batchmean"),
        ):
            (g,) = lib.autograd.grad(y, x)
            yield str(y.dtype).split(".")[-1], str(g.dtype).split(".")[-1]
            yield round(y.item(), 1)


@scenarios
def probabilities(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    x, p, t = data.normal(4, 3, dtype="float64"), data.uniform(4, 3), data.uniform(4, 3)
    weight = data.uniform(3).detach()
    for reduction in REDUCTIONS:
        yield outcome(F.binary_cross_entropy, p, t, reduction=reduction)
        yield outcome(F.binary_cross_entropy, p, t, weight, reduction=reduction)
        logits = F.binary_cross_entropy_with_logits
        yield outcome(logits, x, t, reduction=reduction)
        yield outcome(logits, x, t, weight, pos_weight=weight + 1, reduction=reduction)
        yield outcome(F.kl_div, x, t, reduction=reduction)
        yield outcome(F.kl_div, x, t.log(), reduction=reduction, log_target=True)
    ends = lib.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    yield outcome(F.binary_cross_entropy, ends, lib.tensor([1.0, 0.0, 0.0, 1.0]))
    yield outcome(F.binary_cross_entropy, x, t)
    yield outcome(F.binary_cross_entropy, p, t.float())
    yield outcome(F.binary_cross_entropy, p, t[0])
    yield outcome(F.binary_cross_entropy_with_logits, x, t[0])
    yield outcome(F.binary_cross_entropy_with_logits, x, t.float())
    yield outcome(F.binary_cross_entropy_with_logits, x.float(), t)
    yield outcome(F.binary_cross_entropy_with_logits, x, t > 0.5)


@scenarios
def margins(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    x, y, z = (data.normal(5, 4, dtype="float64") for _ in range(3))
    few, many, one = data.signs(5), data.signs(5, 4), data.labels(4, 5)
    several = lib.tensor(
        [[3, 0, -1, 1], [-1, 0, 1, 2], [0, 1, 2, 3], [1, 1, -1, -1], [2, -1, 2, 0]]
    )
    for reduction in REDUCTIONS:
        how = {"reduction": reduction}
        yield outcome(F.soft_margin_loss, x, many, **how)
        yield outcome(F.multilabel_soft_margin_loss, x, (many + 1) / 2, z[0].detach(), **how)
        yield outcome(F.multi_margin_loss, x, one, p=2, margin=0.7, **how)
        yield outcome(F.multi_margin_loss, x, one, weight=z[0].detach().abs(), **how)
        yield outcome(F.multilabel_margin_loss, x, several, **how)
        yield outcome(F.hinge_embedding_loss, x, many, margin=0.5, **how)
        yield outcome(F.margin_ranking_loss, x, y, many, margin=0.5, **how)
        yield outcome(F.cosine_embedding_loss, x, y, few, margin=0.2, **how)
        yield outcome(F.triplet_margin_loss, x, y, z, swap=True, p=3, **how)
        yield outcome(F.triplet_margin_with_distance_loss, x, y, z, **how)
    yield (
        outcome(F.multi_margin_loss, x[0], one[0]),
        outcome(F.multilabel_margin_loss, x, several + 2),
    )
    yield outcome(F.multi_margin_loss, x, one + 3), outcome(F.multi_margin_loss, x, one[:3])
    yield outcome(F.triplet_margin_loss, x, y, z[0]), outcome(F.margin_ranking_loss, x, y, few)
    yield (
        outcome(F.cosine_embedding_loss, x, y, many),
        outcome(F.cosine_embedding_loss, x[0], y, few),
    )


@scenarios
def sequences(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    log_probs = data.normal(9, 3, 5, dtype="float64").log_softmax(2).detach().requires_grad_()
    targets = lib.tensor([[1, 2, 2, 4], [3, 3, 1, 0], [4, 0, 0, 0]])
    spans, sizes = lib.tensor([9, 7, 2]), lib.tensor([4, 3, 1])
    for reduction in REDUCTIONS:
        for end in (False, True):
            how = {"reduction": reduction, "zero_infinity": end}
            yield outcome(F.ctc_loss, log_probs, targets, spans, sizes, **how)
            joined = lib.tensor([1, 2, 2, 4, 3, 3, 1, 4])
            yield outcome(F.ctc_loss, log_probs, joined, (9, 7, 2), (4, 3, 1), **how)
    short = lib.tensor([9, 3, 2])
    yield outcome(F.ctc_loss, log_probs, targets, short, sizes, reduction="none")
    yield outcome(F.ctc_loss, log_probs, targets, short, sizes, zero_infinity=True)
    yield outcome(F.ctc_loss, log_probs[:, 0], targets[0], lib.tensor(9), lib.tensor(4))
    yield outcome(F.ctc_loss, log_probs, targets, spans, lib.tensor([0, 0, 0]))
    for bad in (lib.tensor([10, 7, 2]), lib.tensor([9, 7]), spans.double(), lib.tensor([9, -1, 2])):
        yield outcome(F.ctc_loss, log_probs, targets, bad, sizes)
    yield outcome(F.ctc_loss, log_probs, targets[:2], spans, sizes)
    yield outcome(F.ctc_loss, log_probs, targets, spans, lib.tensor([5, 3, 1]))


@scenarios
def distances(lib: Any) -> Iterator[Any]:
    F, data = lib.nn.functional, Data(lib)
    x, y = data.normal(5, 4, dtype="float64"), data.normal(5, 4, dtype="float64")
    yield outcome(F.cosine_similarity, x, y), outcome(F.cosine_similarity, x, y, 0, 2.0)
    yield (
        outcome(F.cosine_similarity, x, y[:1]),
        outcome(F.cosine_similarity, x, y.detach().float()),
    )
    yield outcome(F.cosine_similarity, x * 0, y), outcome(F.cosine_similarity, x, y, dim=3)
    for p in (1.0, 2.0, 3.5, 0.5, float("inf"), -1.0):
        yield outcome(F.pairwise_distance, x, y, p), outcome(F.pdist, x, abs(p))
    yield outcome(F.pairwise_distance, x, y[0], keepdim=True), outcome(F.pdist, x[0])


@scenarios
def adaptive_softmax(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    layer = lib.nn.AdaptiveLogSoftmaxWithLoss(8, 30, [5, 10, 20], div_value=2.0, head_bias=True)
    yield [[name, p] for name, p in layer.named_parameters()], repr(layer)
    data = Data(lib)
    x, t = data.normal(30, 8), lib.arange(30)
    output, loss = layer(x, t)
    loss.backward()
    yield output, loss, x.grad, [p.grad for p in layer.parameters()]
    yield layer.log_prob(x), layer.predict(x), layer(x[0], t[0]).output
    lib.manual_seed(1)
    layer.reset_parameters()
    yield list(layer.parameters())


@scenarios
def training(lib: Any) -> Iterator[Any]:
    """A classifier with smoothed labels learns along the same curve."""
    lib.manual_seed(0)
    net = lib.nn.Sequential(lib.nn.Linear(6, 16), lib.nn.Tanh(), lib.nn.Linear(16, 4))
    x, t, loss = (
        lib.randn(40, 6),
        lib.randint(0, 4, (40,)),
        lib.nn.CrossEntropyLoss(weight=lib.tensor([1.0, 2.0, 0.5, 1.0]), label_smoothing=0.1),
    )
    for _ in range(20):
        y = loss(net(x), t)
        net.zero_grad()
        y.backward()
        with lib.no_grad():
            for p in net.parameters():
                p -= 0.5 * p.grad
        yield y


@pytest.mark.parametrize("body", scenarios)
def test_scenario(body: Body) -> None:
    compare(body)
