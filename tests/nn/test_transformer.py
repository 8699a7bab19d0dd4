"""Transformers: shapes, masks, custom parts and errors."""

from __future__ import annotations

import pytest

import rushlight as rl

SMALL = {"d_model": 4, "nhead": 2, "dim_feedforward": 8}


def test_layers_of_a_stack_begin_equal_and_stay_apart() -> None:
    layer = rl.nn.TransformerEncoderLayer(**SMALL)
    encoder = rl.nn.TransformerEncoder(layer, 2)
    first, second = encoder.layers
    assert rl.equal(first.linear1.weight, second.linear1.weight)
    assert first.linear1.weight is not second.linear1.weight


def test_a_causal_decoder_does_not_look_ahead() -> None:
    model = rl.nn.Transformer(4, 2, 1, 1, 8, batch_first=True).eval()
    source, target = rl.randn(2, 3, 4), rl.randn(2, 5, 4)
    mask = model.generate_square_subsequent_mask(5)
    y = model(source, target, tgt_mask=mask)
    assert rl.allclose(y, model(source, target, tgt_mask=mask, tgt_is_causal=True), atol=1e-6)
    target[:, -1] += 1
    assert rl.allclose(y[:, :-1], model(source, target, tgt_mask=mask)[:, :-1], atol=1e-6)


def test_padding_is_not_seen() -> None:
    layer = rl.nn.TransformerEncoderLayer(**SMALL, batch_first=True)
    encoder = rl.nn.TransformerEncoder(layer, 2).eval()
    x = rl.randn(1, 3, 4)
    padded = rl.cat([x, rl.randn(1, 2, 4)], 1)
    padding = rl.tensor([[False, False, False, True, True]])
    y = encoder(padded, src_key_padding_mask=padding)
    assert rl.allclose(y[:, :3], encoder(x), atol=1e-6)
    with rl.no_grad():
        y = encoder(padded, src_key_padding_mask=padding)
    assert (y[:, 3:] == 0).all()


def test_an_activation_by_name_as_function_or_as_module() -> None:
    results = []
    for activation in ("gelu", rl.nn.functional.gelu, rl.nn.GELU()):
        rl.manual_seed(0)
        layer = rl.nn.TransformerEncoderLayer(**SMALL, activation=activation).eval()
        results.append(layer(rl.ones(3, 4)))
    assert rl.equal(results[0], results[1])
    assert rl.equal(results[0], results[2])
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not sin"):
        rl.nn.TransformerEncoderLayer(**SMALL, activation="sin")


def test_parts_of_ones_own() -> None:
    model = rl.nn.Transformer(4, 2, custom_encoder=Echo(), custom_decoder=Echo())
    source, target = rl.randn(3, 2, 4), rl.randn(5, 2, 4)
    assert rl.equal(model(source, target), target)


class Echo(rl.nn.Module):
    """Its first input."""

    def forward(self, x: rl.Tensor, *args: object, **kwargs: object) -> rl.Tensor:
        return x


def test_sequences_that_do_not_fit() -> None:
    model = rl.nn.Transformer(4, 2, 1, 1, 8)
    with pytest.raises(RuntimeError, match="batch number of src and tgt must be equal, got 2 and"):
        model(rl.zeros(3, 2, 4), rl.zeros(3, 1, 4))
    with pytest.raises(RuntimeError, match=r"feature number .* got 5 and 4, expected 4"):
        model(rl.zeros(3, 2, 5), rl.zeros(3, 2, 4))
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        model.encoder(rl.zeros(3, 2, 4), is_causal=True)
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        rl.nn.TransformerEncoderLayer(5, 2)
