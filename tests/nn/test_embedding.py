"""Embeddings: paddings, norms, frequencies, bags."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn


def test_the_padding_is_zero_and_gets_no_gradient() -> None:
    layer = nn.Embedding(4, 3, padding_idx=-1)
    assert layer.padding_idx == 3
    assert rl.equal(layer.weight[3].detach(), rl.zeros(3))
    layer(rl.tensor([[3, 1], [1, 0]])).sum().backward()
    assert layer.weight.grad.tolist() == [[1] * 3, [2] * 3, [0] * 3, [0] * 3]


def test_gradients_can_be_divided_by_frequency() -> None:
    layer = nn.Embedding(3, 2, scale_grad_by_freq=True)
    layer(rl.tensor([1, 1, 1, 0])).sum().backward()
    assert layer.weight.grad.tolist() == [[1, 1], [1, 1], [0, 0]]


def test_max_norm_scales_the_rows_used_in_place() -> None:
    layer = nn.Embedding.from_pretrained(
        rl.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]), freeze=False, max_norm=1.0
    )
    y = layer(rl.tensor([0, 1, 0]))
    assert rl.allclose(y, rl.tensor([[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]]))
    assert rl.allclose(layer.weight, rl.tensor([[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]]))
    y.sum().backward()
    assert layer.weight.grad.tolist() == [[2, 2], [1, 1], [0, 0]]


def test_a_pretrained_table_is_shared_and_frozen() -> None:
    table = rl.randn(3, 2)
    layer = nn.Embedding.from_pretrained(table)
    assert not layer.weight.requires_grad
    table[0] = 7.0
    assert layer(rl.tensor(0)).tolist() == [7.0, 7.0]
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad
    with pytest.raises(AssertionError, match="expected to be 2-dimensional"):
        nn.Embedding.from_pretrained(rl.ones(3))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_bag_is_the_fold_of_its_rows(mode: str) -> None:
    layer = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=5)
    index = rl.tensor([0, 2, 5, 4, 4, 5])
    y = layer(index, rl.tensor([0, 3, 3, 5]))
    fold = {"sum": rl.sum, "mean": rl.mean, "max": rl.amax}[mode]
    weight = layer.weight
    assert rl.allclose(y[0], fold(weight[rl.tensor([0, 2])], 0))
    assert rl.equal(y[1], rl.zeros(3))
    assert rl.allclose(y[2], fold(weight[rl.tensor([4, 4])], 0))
    assert rl.equal(y[3], rl.zeros(3))


def test_bags_of_equal_length_are_rows() -> None:
    layer = nn.EmbeddingBag(6, 3, mode="sum")
    index = rl.tensor([[0, 1], [5, 5]])
    flat = layer(index.flatten(), rl.tensor([0, 2]))
    assert rl.equal(layer(index), flat)
    last = nn.EmbeddingBag(6, 3, mode="sum", include_last_offset=True, _weight=layer.weight)
    assert rl.equal(last(index.flatten(), rl.tensor([0, 2, 4])), flat)


def test_weights_of_samples_have_gradients() -> None:
    layer = nn.EmbeddingBag(3, 2, mode="sum", _weight=rl.tensor([[1.0, 2], [3, 4], [5, 6]]))
    factors = rl.tensor([[2.0, 10.0]], requires_grad=True)
    y = layer(rl.tensor([[0, 2]]), per_sample_weights=factors)
    assert y.tolist() == [[52.0, 64.0]]
    y.sum().backward()
    assert factors.grad.tolist() == [[3.0, 11.0]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_one_program_has_bags_of_all_lengths(mode: str) -> None:
    layer = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=5, include_last_offset=True)

    def function(index: rl.Tensor, offsets: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor]:
        y = layer(index, offsets)
        return y, rl.autograd.grad(y.square().sum(), layer.weight)[0]

    compiled = rl.compile(function, fullgraph=True)
    for lengths in ([2, 0, 3], [1, 5], [0, 1], [5, 1, 0, 0, 2], [0, 3]):
        offsets = rl.tensor([0, *lengths]).cumsum(0)
        index = rl.randint(0, 6, (sum(lengths) + 1,))  # the last one is in no bag
        for found, wanted in zip(compiled(index, offsets), function(index, offsets), strict=True):
            assert rl.allclose(found, wanted, atol=1e-6)
    assert len(compiled.known) == 1
    with pytest.raises(RuntimeError, match=r"not in the valid range \[0, 6\)"):
        compiled(rl.tensor([0, 6]), rl.tensor([0, 2]))
    for offsets, said in (([1, 2], "has to be 0"), ([0, 3], "length"), ([0, 2, 1], "decrease")):
        with pytest.raises(RuntimeError, match=said):
            compiled(rl.tensor([0, 1]), rl.tensor(offsets))


def test_one_program_has_tables_of_all_sizes() -> None:
    layer = nn.EmbeddingBag(6, 3, padding_idx=0)
    compiled = rl.compile(lambda index: layer(index), fullgraph=True)
    for size in [(3, 4), (2, 5), (7, 1), (1, 2), (4, 0)]:
        index = rl.randint(0, 6, size)
        assert rl.allclose(compiled(index), layer(index), atol=1e-6)
    assert len(compiled.known) == 1


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("starts", [[0, 4, 8], [0, 0, 3, 3, 11], [0, 12], [0]])
def test_bags_of_any_length_are_what_a_loop_makes_of_them(mode: str, starts: list[int]) -> None:
    index, ends = rl.randint(0, 9, (12,)), [*starts[1:], 12]
    table = rl.randn(9, 5, dtype=rl.float64, requires_grad=True)
    fold = {"sum": lambda x: x.sum(0), "mean": lambda x: x.mean(0), "max": lambda x: x.amax(0)}
    for padding in (None, 2):
        y, empty = F.embedding_bag(index, table, rl.tensor(starts), mode=mode), table[:0].sum(0)
        if padding is not None:
            y = F.embedding_bag(index, table, rl.tensor(starts), mode=mode, padding_idx=padding)
        bags = [index[a:b] for a, b in zip(starts, ends, strict=True)]
        rows = [table[bag[bag != (-1 if padding is None else padding)]] for bag in bags]
        expected = rl.stack([fold[mode](r) if len(r) else empty for r in rows])
        g = rl.randn(*y.shape, dtype=rl.float64)
        slopes = [rl.autograd.grad(z, table, g)[0] for z in (y, expected)]
        assert rl.allclose(y, expected)
        assert rl.allclose(*slopes)


def test_equal_maxima_of_a_bag_share_the_gradient_in_all_forms_and_modes() -> None:
    index, starts = rl.tensor([[2, 0]]), rl.tensor([0])
    for run in (F.embedding_bag, rl.compile(F.embedding_bag, fullgraph=True)):
        for bag in ((index, None), (index[0], starts)):
            table = rl.ones(3, 2, requires_grad=True)
            run(bag[0], table, bag[1], mode="max").sum().backward()
            assert table.grad.tolist() == [[0.5, 0.5], [0, 0], [0.5, 0.5]]


def test_rows_without_elements_have_gradients_without_elements() -> None:
    w = rl.zeros(5, 0, requires_grad=True)
    for run in (F.embedding, rl.compile(F.embedding, fullgraph=True)):
        run(rl.tensor([[1, 2, 1]]), w, 0).sum().backward()
        assert w.grad.shape == (5, 0)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings, got 4"):
        nn.Embedding(4, 3, padding_idx=4)
    with pytest.raises(AssertionError, match=r"does not match .* got \[2, 2\], expected \[4, 3\]"):
        nn.Embedding(4, 3, _weight=rl.zeros(2, 2))
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        nn.Embedding(4, 3)(rl.tensor([4]))
    with pytest.raises(IndexError, match="index -1 is out of bounds"):
        nn.Embedding(4, 3)(rl.tensor([-1]))
    with pytest.raises(RuntimeError, match="must not decrease"):
        F.embedding_bag(rl.tensor([0, 1, 2]), rl.ones(3, 2), rl.tensor([0, 2, 1]))


def test_layers_print_what_is_unusual() -> None:
    assert repr(nn.Embedding(4, 3)) == "Embedding(4, 3)"
    text = "Embedding(4, 3, padding_idx=1, max_norm=2.0, norm_type=1.0, sparse=True)"
    assert repr(nn.Embedding(4, 3, 1, 2.0, 1.0, sparse=True)) == text
    assert repr(nn.EmbeddingBag(4, 3)) == "EmbeddingBag(4, 3, mode='mean')"
