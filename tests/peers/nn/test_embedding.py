"""Embeddings in PyTorch and here: one seed makes one table; gradients, norms and bags agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.scenarios import Scenarios, attempt, compare

pytest.importorskip("torch")

scenarios = Scenarios()


@scenarios
def tables(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    index = lib.tensor([[0, 3, 3], [5, 1, 0]])
    for options in (
        {},
        {"padding_idx": 3},
        {"padding_idx": -6, "scale_grad_by_freq": True},
        {"max_norm": 1.0},
        {"max_norm": 1.5, "norm_type": 1.0},
    ):
        layer = lib.nn.Embedding(6, 4, **options)
        yield repr(layer)
        yield layer.weight.clone()
        y = layer(index)
        yield y
        (y * y).sum().backward()
        yield layer.weight.grad
        yield layer.weight


@scenarios
def second_derivatives(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    w = lib.randn(6, 4, dtype=lib.float64, requires_grad=True)
    index = lib.tensor([0, 3, 3, 1])
    for options in ({}, {"padding_idx": 3}):
        y = lib.nn.functional.embedding(index, w, **options)
        (g,) = lib.autograd.grad((y**3).sum(), w, create_graph=True)
        yield g
        yield lib.autograd.grad((g * g).sum(), w)[0]


@scenarios
def bags(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    index, offsets = lib.tensor([0, 3, 3, 5, 1, 0]), lib.tensor([0, 2, 2, 6])
    for mode in ("sum", "mean", "max"):
        for options in ({}, {"padding_idx": 3}, {"include_last_offset": True}, {"max_norm": 1.0}):
            layer = lib.nn.EmbeddingBag(6, 4, mode=mode, **options)
            yield repr(layer)
            y = layer(index, offsets)
            yield y
            (y * y).sum().backward()
            yield layer.weight.grad
            yield layer(index.view(2, 3)) if "include_last_offset" not in options else 0


@scenarios
def weighted_bags(lib: Any) -> Iterator[Any]:
    lib.manual_seed(0)
    w, factors = lib.randn(6, 4, requires_grad=True), lib.randn(5, requires_grad=True)
    y = lib.nn.functional.embedding_bag(
        *(lib.tensor([0, 3, 3, 5, 1]), w, lib.tensor([0, 2])),
        mode="sum",
        per_sample_weights=factors,
    )
    yield y
    yield list(lib.autograd.grad((y**2).sum(), (w, factors)))


@scenarios
def one_hot_vectors(lib: Any) -> Iterator[Any]:
    one_hot = lib.nn.functional.one_hot
    yield one_hot(lib.tensor([[0, 2], [1, 1]]))
    yield one_hot(lib.tensor(1), 4)
    yield attempt(one_hot, lib.tensor([3]), 3)
    yield attempt(one_hot, lib.tensor([-1]))
    yield attempt(one_hot, lib.tensor([1.0]))


@scenarios
def errors(lib: Any) -> Iterator[Any]:
    functional, w = lib.nn.functional, lib.zeros(4, 3)
    yield attempt(functional.embedding, lib.tensor([4]), w)
    yield attempt(functional.embedding, lib.tensor([-1]), w)
    yield attempt(functional.embedding, lib.tensor([1.0]), w)
    yield attempt(functional.embedding, lib.tensor([1]), w[0])
    yield attempt(functional.embedding, lib.tensor([1]), w, padding_idx=4)
    yield attempt(functional.embedding_bag, lib.tensor([1, 9]), w, lib.tensor([0]))
    yield attempt(functional.embedding_bag, lib.tensor([1]), w)
    yield attempt(functional.embedding_bag, lib.tensor([1]), w, lib.tensor([1]))
    yield attempt(functional.embedding_bag, lib.tensor([[1]]), w, mode="min")
    yield attempt(lib.nn.Embedding, 4, 3, padding_idx=5)
    yield attempt(lib.nn.Embedding.from_pretrained, lib.zeros(3))


@pytest.mark.parametrize("body", scenarios)
def test_scenario(body: Any) -> None:
    compare(body)
