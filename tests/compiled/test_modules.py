"""Every module as a whole compiled training step, beside the same steps in dynamic mode.

The first input is multiplied by a parameter, so that each module passes gradients on, also one that
has no parameters of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from tests.compiled.steps import Step, Values, both, dynamic, programs, values

STEPS = 20
Draw = Callable[[rl.Generator, Any], Any]
"""An input: drawn anew for each step."""


def X(*shape: int) -> Draw:
    """Any numbers."""
    return lambda g, dtype: rl.randn(*shape, dtype=dtype, generator=g)


def P(*shape: int) -> Draw:
    """Probabilities."""
    return lambda g, dtype: 0.1 + 0.8 * rl.rand(*shape, dtype=dtype, generator=g)


def I(high: int, *shape: int) -> Draw:  # noqa: E743 - the integers
    """Integers from 0 on."""
    return lambda g, dtype: rl.randint(high, shape, generator=g)


def Sign(*shape: int) -> Draw:
    """Ones of either sign."""
    return lambda g, dtype: rl.randint(2, shape, generator=g).to(dtype) * 2 - 1


def Pair(*draws: Draw) -> Draw:
    """Several inputs as one argument."""
    return lambda g, dtype: tuple([draw(g, dtype) for draw in draws])


def Given(*values: Any) -> Draw:
    """Numbers that are the same at each step."""
    return lambda g, dtype: rl.tensor(values)


Case = tuple[Callable[[], nn.Module], tuple[Draw, ...]]


def layer(d: int, n: int = 1) -> nn.Module:
    encoder = nn.TransformerEncoderLayer(d, 2, 8, batch_first=True)
    return nn.TransformerEncoder(encoder, n, enable_nested_tensor=False)


def decoder(d: int) -> nn.Module:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(d, 2, 8, batch_first=True), 2)


class Unpooling(nn.Module):
    """A pool that returns where its maxima were, and what brings them back."""

    def __init__(self, pool: nn.Module, unpool: nn.Module) -> None:
        super().__init__()
        self.pool, self.unpool = pool, unpool

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.unpool(*self.pool(x))


def older_loss() -> nn.Module:
    with pytest.warns(FutureWarning, match="NLLLoss2d"):
        return nn.NLLLoss2d()


class Fixed(nn.Module):
    """A module that is always in evaluation."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.inner.eval()(x)


class Probable(nn.BCELoss):
    """A loss of what is made a probability first."""

    def forward(self, input: rl.Tensor, target: rl.Tensor) -> rl.Tensor:
        return super().forward(input.sigmoid(), target)


class Spoken(nn.CTCLoss):
    """A loss of what is made log-probabilities first."""

    def forward(self, log_probs: rl.Tensor, *lengths: rl.Tensor) -> rl.Tensor:
        return super().forward(log_probs.log_softmax(-1), *lengths)


class Containers(nn.Module):
    """All containers in one."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.scales = nn.ParameterList([rl.ones(4), rl.ones(1)])
        self.shifts = nn.ParameterDict({"a": nn.Parameter(rl.zeros(4))})

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        for layer, name, scale in zip(self.layers, self.named, self.scales, strict=True):
            x = self.named[name](layer(x) * scale + self.shifts["a"])
        return x


ACTIVATIONS: dict[str, Case] = {
    name: (getattr(nn, name), (X(3, 4),))
    for name in (
        *("CELU", "ELU", "GELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "Identity"),
        *("LeakyReLU", "LogSigmoid", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU"),
        *("Sigmoid", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Flatten", "GLU"),
        *("Dropout", "AlphaDropout", "FeatureAlphaDropout"),
    )
}
LOSSES: dict[str, Case] = {
    name: (getattr(nn, name), (X(4, 3), target))
    for name, target in {
        "BCEWithLogitsLoss": P(4, 3),
        "CrossEntropyLoss": I(3, 4),
        "HingeEmbeddingLoss": Sign(4, 3),
        "HuberLoss": X(4, 3),
        "L1Loss": X(4, 3),
        "MSELoss": X(4, 3),
        "MultiLabelSoftMarginLoss": P(4, 3),
        "MultiMarginLoss": I(3, 4),
        "NLLLoss": I(3, 4),
        "PairwiseDistance": X(4, 3),
        "CosineSimilarity": X(4, 3),
        "PoissonNLLLoss": P(4, 3),
        "SmoothL1Loss": X(4, 3),
        "SoftMarginLoss": Sign(4, 3),
    }.items()
}
SHAPES: dict[str, Case] = {
    f"{name}{n}d": (functools.partial(getattr(nn, f"{name}{n}d"), *args), (X(*shape),))
    for n, shape in ((1, (2, 4, 6)), (2, (2, 4, 6, 5)), (3, (2, 4, 4, 5, 4)))
    for name, args in {
        "AdaptiveAvgPool": (3,),
        "AdaptiveMaxPool": (3,),
        "AvgPool": (2,),
        "BatchNorm": (4,),
        "CircularPad": (1,),
        "ConstantPad": (1, 0.5),
        "Conv": (4, 3, 3),
        "ConvTranspose": (4, 3, 3),
        "Dropout": (),
        "InstanceNorm": (4, 1e-5, 0.1, True, True),
        "LPPool": (2, 2),
        "LazyBatchNorm": (),
        "LazyConv": (3, 3),
        "LazyConvTranspose": (3, 3),
        "LazyInstanceNorm": (),
        "MaxPool": (2,),
        "ReflectionPad": (1,),
        "ReplicationPad": (1,),
        "ZeroPad": (1,),
    }.items()
}
CASES: dict[str, Case] = {
    **ACTIVATIONS,
    **LOSSES,
    **SHAPES,
    "BCELoss": (Probable, (X(3, 4), P(3, 4))),
    "BatchNorm1d, cumulative": (lambda: nn.BatchNorm1d(4, momentum=None), (X(6, 4),)),
    "Bilinear": (lambda: nn.Bilinear(3, 4, 2), (X(5, 3), X(5, 4))),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), (X(2, 4, 3, 3),)),
    "Containers": (Containers, (X(3, 4),)),
    "Conv2d, reflecting": (
        lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, padding_mode="reflect"),
        (X(2, 4, 6, 5),),
    ),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, (X(4, 3), X(4, 3), Sign(4))),
    "CrossEntropyLoss, smooth": (
        lambda: nn.CrossEntropyLoss(rl.linspace(1, 2, 3), label_smoothing=0.1),
        (X(4, 3, 2), I(3, 4, 2)),
    ),
    "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(3), (X(2, 4, 3, 3),)),
    "DataParallel": (lambda: nn.DataParallel(nn.Linear(4, 3)), (X(3, 4),)),
    "Embedding": (lambda: nn.Embedding(7, 3, padding_idx=0), (I(7, 2, 5),)),
    "Fold": (lambda: nn.Fold((4, 5), 2), (X(2, 8, 12),)),
    "GRU": (lambda: nn.GRU(4, 3, 2, batch_first=True), (X(2, 5, 4),)),
    "GRUCell": (lambda: nn.GRUCell(4, 3), (X(2, 4), X(2, 3))),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, (X(4, 3), X(4, 3), P(4, 3))),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (X(3, 4, 5),)),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), (X(4, 3), P(4, 3))),
    "LSTM": (lambda: nn.LSTM(4, 3, bidirectional=True), (X(5, 2, 4),)),
    "LSTM, dropout": (lambda: nn.LSTM(4, 3, 2, dropout=0.5, proj_size=2), (X(5, 2, 4),)),
    "LSTMCell": (lambda: nn.LSTMCell(4, 3), (X(2, 4), Pair(X(2, 3), X(2, 3)))),
    "LayerNorm": (lambda: nn.LayerNorm((4, 5)), (X(3, 4, 5),)),
    "LazyLinear": (lambda: nn.LazyLinear(3), (X(3, 4),)),
    "Linear": (lambda: nn.Linear(4, 3), (X(2, 5, 4),)),
    "LinearCrossEntropyLoss": (lambda: nn.LinearCrossEntropyLoss(4, 3), (X(5, 4), I(3, 5))),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3), (X(2, 4, 3),)),
    "LogSoftmax": (lambda: nn.LogSoftmax(-1), (X(3, 4),)),
    "MarginRankingLoss": (nn.MarginRankingLoss, (X(4), X(4), Sign(4))),
    "MaxUnpool1d": (
        lambda: Unpooling(nn.MaxPool1d(2, return_indices=True), nn.MaxUnpool1d(2)), (X(2, 3, 6),),
    ),
    "MaxUnpool2d": (
        lambda: Unpooling(nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)),
        (X(2, 3, 4, 4),),
    ),
    "MaxUnpool3d": (
        lambda: Unpooling(nn.MaxPool3d(2, return_indices=True), nn.MaxUnpool3d(2)),
        (X(1, 2, 4, 4, 2),),
    ),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(4, 2, dropout=0.2, batch_first=True),
        (X(2, 5, 4), X(2, 3, 4), X(2, 3, 4)),
    ),
    "NLLLoss2d": (older_loss, (X(2, 3, 4, 4), I(3, 2, 4, 4))),
    "PReLU, by channel": (lambda: nn.PReLU(4), (X(3, 4, 2),)),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), (X(2, 4, 3, 3),)),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), (X(2, 1, 4, 4),)),
    "RReLU": (lambda: Fixed(nn.RReLU()), (X(3, 4),)),
    "RMSNorm": (lambda: nn.RMSNorm(5), (X(3, 4, 5),)),
    "RNN": (lambda: nn.RNN(4, 3, nonlinearity="relu"), (X(5, 2, 4), X(1, 2, 3))),
    "RNNCell": (lambda: nn.RNNCell(4, 3), (X(2, 4),)),
    "Sequential": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Dropout(), nn.Linear(16, 3), nn.LogSoftmax(-1),
        ),
        (X(3, 1, 6, 6),),
    ),
    "Softmax": (lambda: nn.Softmax(1), (X(3, 4, 2),)),
    "Softmax2d": (nn.Softmax2d, (X(2, 3, 2, 2),)),
    "Softmin": (lambda: nn.Softmin(-1), (X(3, 4),)),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(4), (X(3, 4, 2),)),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), (X(3, 4),)),
    "Transformer": (
        lambda: nn.Transformer(4, 2, 1, 1, 8, batch_first=True), (X(2, 5, 4), X(2, 3, 4)),
    ),
    "TransformerDecoder": (lambda: decoder(4), (X(2, 3, 4), X(2, 5, 4))),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(4, 2, 8, norm_first=True), (X(3, 2, 4), X(5, 2, 4)),
    ),
    "TransformerEncoder": (lambda: layer(4, 2), (X(2, 5, 4),)),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8, activation="gelu"), (X(5, 2, 4),),
    ),
    "TripletMarginLoss": (nn.TripletMarginLoss, (X(4, 3), X(4, 3), X(4, 3))),
    "TripletMarginWithDistanceLoss": (
        nn.TripletMarginWithDistanceLoss, (X(4, 3), X(4, 3), X(4, 3)),
    ),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), (X(3, 4),)),
    "Unfold": (lambda: nn.Unfold(2, padding=1), (X(2, 3, 4, 5),)),
    "Upsample": (lambda: nn.Upsample(scale_factor=2.0, mode="bicubic"), (X(1, 2, 3, 4),)),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), (X(1, 2, 3, 4),)),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), (X(1, 2, 3, 4),)),
    "Upsample, of volumes": (
        lambda: nn.Upsample(size=(3, 4, 5), mode="trilinear"), (X(1, 2, 2, 3, 4),),
    ),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(7, 3, padding_idx=2), (I(7, 5), Given(0, 2))),
    "EmbeddingBag, of a table": (lambda: nn.EmbeddingBag(7, 3), (I(7, 4, 5),)),
}  # fmt: skip
VALUES = "are needed in Python"
# What a graph cannot hold, and what the warning says of it: the second part is the reason.
DYNAMIC: dict[str, tuple[Case, str]] = {
    # how many rows each cluster of classes gets
    "AdaptiveLogSoftmaxWithLoss": (
        (lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 8, [2, 5]), (X(5, 16), I(8, 5))), VALUES,
    ),
    # how long sequences and labels are
    "CTCLoss": (
        (Spoken, (X(6, 2, 4), Given([1, 2], [3, 1]), Given(6, 5), Given(2, 1))), VALUES,
    ),
    # where windows begin
    "FractionalMaxPool2d": ((lambda: nn.FractionalMaxPool2d(2, 3), (X(2, 3, 6, 6),)), VALUES),
    "FractionalMaxPool3d": ((lambda: nn.FractionalMaxPool3d(2, 3), (X(1, 2, 6, 6, 6),)), VALUES),
    # how many labels there are
    "MultiLabelMarginLoss": ((nn.MultiLabelMarginLoss, (X(4, 3), I(3, 4, 3))), VALUES),
    # how many elements are negative, and so draw a slope
    "RReLU, in training": ((nn.RReLU, (X(3, 4),)), VALUES),
}  # fmt: skip
ABSTRACT = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList"}
ABSTRACT |= {"RNNBase", "RNNCellBase"}


def scaled(x: rl.Tensor, scale: rl.Tensor) -> rl.Tensor:
    """The input times a parameter, if it is one of floats."""
    return x * scale if x.is_floating_point() else x


def tensors(result: Any) -> list[rl.Tensor]:
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in tensors(part)]
    return [result] if isinstance(result, rl.Tensor) and result.is_floating_point() else []


def scenario(case: Case, dtype: Any, train: bool) -> Callable[[Callable[[Step], Any]], Values]:
    """Steps of a module as ``both`` and ``dynamic`` want them."""
    make, draws = case

    def run(compiled: Callable[[Step], Any]) -> Values:
        rl.manual_seed(1)
        generator = rl.Generator().manual_seed(2)
        module = make().to(dtype).train(train)
        with rl.no_grad():
            module(*[draw(generator, dtype) for draw in draws])  # shapes of lazy parameters
        module.scale = nn.Parameter(rl.tensor(1.1, dtype=dtype))
        optimizer = rl.optim.SGD(module.parameters(), lr=1e-3)

        def step(*inputs: Any) -> rl.Tensor:
            optimizer.zero_grad()
            results = tensors(module(scaled(inputs[0], module.scale), *inputs[1:]))
            loss = sum([(y * (y + 0.5)).sum() for y in results]) + 0 * module.scale
            loss.backward()
            optimizer.step()
            return loss

        call = compiled(step)
        losses = [call(*[draw(generator, dtype) for draw in draws]).item() for _ in range(STEPS)]
        return {"losses": np.array(losses)} | values(module, optimizer)

    return run


@pytest.mark.parametrize("name", CASES)
def test_every_module(name: str) -> None:
    assert programs(both(scenario(CASES[name], rl.float64, train=True))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_module_in_evaluation(name: str) -> None:
    assert programs(both(scenario(CASES[name], rl.float64, train=False))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_module_in_single_precision(name: str) -> None:
    assert programs(both(scenario(CASES[name], rl.float32, train=True), 1e-4)) == 1


@pytest.mark.parametrize("name", DYNAMIC)
def test_modules_that_a_graph_cannot_hold(name: str) -> None:
    case, why = DYNAMIC[name]
    dynamic(scenario(case, rl.float64, True), why)


def test_all_modules_are_tested() -> None:
    classes = [getattr(nn, name) for name in dir(nn)]
    modules = [c.__name__ for c in classes if isinstance(c, type) and issubclass(c, nn.Module)]
    tested = {name.split(",")[0] for name in (*CASES, *DYNAMIC)}
    assert sorted(set(modules) - tested - ABSTRACT) == []


@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_module_forgets_its_gradients_inside(set_to_none: bool) -> None:
    net = nn.Linear(3, 2)

    def step(x: rl.Tensor) -> None:
        net.zero_grad(set_to_none)
        net(x).square().sum().backward()

    compiled = rl.compile(step, fullgraph=True)
    for scale in (1.0, 2.0, 3.0, 4.0):
        compiled(rl.ones(4, 3) * scale)
        found = net.weight.grad.clone()
        step(rl.ones(4, 3) * scale)
        np.testing.assert_allclose(found, net.weight.grad, rtol=1e-5)
    compiled(rl.ones(4, 3))
    assert sum(map(len, compiled.known.values())) <= 2  # without gradients before, and with them
