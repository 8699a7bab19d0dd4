"""Attention layers: what they see, what they refuse, and their derivatives."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.attention import SDPBackend, sdpa_kernel


def test_causal_attention_does_not_look_ahead() -> None:
    x = rl.randn(2, 5, 4)
    y = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    x[:, -1] += 1
    assert rl.equal(F.scaled_dot_product_attention(x, x, x, is_causal=True)[:, :-1], y[:, :-1])


def test_a_mask_and_causality_together() -> None:
    x = rl.randn(1, 2, 4, 3)
    mask = rl.tensor([True, False, True, True]).expand(4, 4)
    both = F.scaled_dot_product_attention(x, x, x, mask, is_causal=True)
    assert rl.allclose(both, F.scaled_dot_product_attention(x, x, x, mask.tril()))


def test_where_a_mask_and_causality_exclude_each_other() -> None:
    x, mask = rl.randn(1, 2, 4, 3), rl.randn(4, 4)
    learnt = rl.randn(4, 4, requires_grad=True)
    for q, v, m, p in (
        (x[0], x[0], mask, 0.0),
        (x, x[..., :2], mask, 0.0),
        (x, x, mask.expand(2, 4, 4), 0.0),
        (x, x, learnt, 0.0),
        (x, x, mask, 0.5),
    ):
        with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal=True"):
            F.scaled_dot_product_attention(q, q, v, m, p, is_causal=True)


def test_a_mask_may_add_batches() -> None:
    x, masks = rl.randn(3, 2), rl.randn(5, 3, 3)
    y = F.scaled_dot_product_attention(x, x, x, masks)
    assert y.shape == (5, 3, 2)
    assert rl.allclose(y[2], F.scaled_dot_product_attention(x, x, x, masks[2]), atol=1e-6)


def test_one_tensor_as_query_key_and_value() -> None:
    x = rl.randn(2, 3, 2, dtype=rl.float64, requires_grad=True)

    def function(x: Any) -> Any:
        return F.scaled_dot_product_attention(x, x, x)

    assert rl.autograd.gradcheck(function, (x,))
    assert rl.autograd.gradgradcheck(function, (x,))


@pytest.mark.parametrize("dtype", [rl.float16, rl.bfloat16])
def test_half_types_round_once(dtype: Any) -> None:
    x = rl.randn(2, 6, 4).to(dtype).requires_grad_()
    y = F.scaled_dot_product_attention(x, x, x)
    wanted = F.scaled_dot_product_attention(*[x.detach().float()] * 3)
    assert rl.equal(y, wanted.to(dtype))
    y.sum().backward()
    assert x.grad.dtype is dtype


def test_the_result_lies_in_memory_as_the_query_does() -> None:
    x = rl.randn(2, 5, 3, 4).transpose(1, 2)
    y = F.scaled_dot_product_attention(x, x, x)
    assert y.stride() == x.stride()


def test_weights_are_averaged_over_heads_or_not() -> None:
    attention = rl.nn.MultiheadAttention(6, 3, batch_first=True)
    x = rl.randn(2, 4, 6)
    _, mean = attention(x, x, x)
    _, each = attention(x, x, x, average_attn_weights=False)
    assert each.shape == (2, 3, 4, 4)
    assert rl.allclose(each.mean(1), mean)
    assert rl.allclose(mean.sum(-1), rl.ones(2, 4))
    assert attention(x, x, x, need_weights=False)[1] is None


def test_wrong_sizes_of_a_layer() -> None:
    with pytest.raises(AssertionError, match="divisible by num_heads, got embed_dim=10 and num_h"):
        rl.nn.MultiheadAttention(10, 3)
    with pytest.raises(ValueError, match="must be greater than 0, got embed_dim=0"):
        rl.nn.MultiheadAttention(0, 1)
    attention, x = rl.nn.MultiheadAttention(4, 2), rl.zeros(3, 1, 4)
    with pytest.raises(AssertionError, match="embedding dimension of 4, but got 6"):
        attention(*[rl.zeros(3, 1, 6)] * 3)
    with pytest.raises(RuntimeError, match=r"2D attn_mask is .* but should be"):
        attention(x, x, x, attn_mask=rl.zeros(2, 3))
    with pytest.raises(AssertionError, match="only bool and floating types of attn_mask"):
        attention(x, x, x, attn_mask=rl.zeros(3, 3, dtype=rl.int64))


def test_masks_of_two_kinds_warn() -> None:
    attention, x = rl.nn.MultiheadAttention(4, 2), rl.zeros(3, 1, 4)
    padding = rl.zeros(1, 3, dtype=rl.bool)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        attention(x, x, x, padding, attn_mask=rl.zeros(3, 3))


def test_a_choice_of_implementations_is_checked() -> None:
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        pass
    with pytest.raises(AssertionError, match="instance of SDPBackend"), sdpa_kernel("fast"):
        pass
