"""Attention layers, and PyTorch's switches between implementations of attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum

from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import ops
from rushlight.tensor import Tensor

__all__ = ["MultiheadAttention", "SDPBackend", "sdpa_kernel"]


class MultiheadAttention(Module):
    """Attention with several heads: Concat(head₁, …, headₕ)·W_O.

    Head i is softmax(Q·Kᵀ / √head_dim)·V for its own projections Q, K and V of query, key and
    value.

    Args:
        embed_dim: the number of features of queries and results.
        num_heads: the number of heads, a divisor of ``embed_dim``.
        dropout: the probability of dropping a weight while training.
        bias: whether the projections have biases.
        add_bias_kv: whether there is one more, learnt key and value.
        add_zero_attn: whether there is one more key and value of zeros.
        kdim: the number of features of keys, ``embed_dim`` by default.
        vdim: the number of features of values, ``embed_dim`` by default.
        batch_first: whether tensors are (batch, length, features) rather than
            (length, batch, features).

    Shape:
        query (L, N, embed_dim), key (S, N, kdim), value (S, N, vdim), each perhaps without a
        batch N, to (L, N, embed_dim) and weights (N, L, S).

    >>> attention = rl.nn.MultiheadAttention(8, num_heads=2)
    >>> query, memory = rl.randn(3, 1, 8), rl.randn(5, 1, 8)
    >>> output, weights = attention(query, memory, memory)
    >>> output.shape, weights.shape
    (rushlight.Size([3, 1, 8]), rushlight.Size([1, 3, 5]))
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError(
                "embed_dim must be divisible by num_heads, got "
                f"embed_dim={embed_dim} and num_heads={num_heads}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        def weight(*shape: int) -> Parameter:
            return Parameter(ops.empty(shape, device=device, dtype=dtype))

        apart = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = weight(3 * embed_dim, embed_dim)
            for name in apart:
                self.register_parameter(name, None)
        else:
            for name, size in apart.items():
                self.register_parameter(name, weight(embed_dim, size))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", weight(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = weight(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = weight(1, 1, embed_dim) if add_bias_kv else None
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                init.xavier_uniform_(getattr(self, name))
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for added in (self.bias_k, self.bias_v):
            if added is not None:
                init.xavier_normal_(added)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The result, and the weights if they are needed: see
        :func:`rushlight.nn.functional.multi_head_attention_forward`.

        Args:
            key_padding_mask: (N, S), True where a key is to be ignored, or numbers to be added.
            need_weights: without them it is quicker.
            attn_mask: (L, S) or (N·num_heads, L, S), True where no attention is to be paid, or
                numbers to be added to the scores.
            average_attn_weights: whether weights are the mean over the heads.
            is_causal: says that ``attn_mask`` is the causal one.
        """
        swap = self.batch_first and query.ndim == 3
        if swap:
            same_query, same_value = key is query, value is key
            query = query.transpose(0, 1)
            key = query if same_query else key.transpose(0, 1)
            value = key if same_value else value.transpose(0, 1)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return output.transpose(0, 1) if swap else output, weights


class SDPBackend(IntEnum):
    """PyTorch's implementations of attention; there is one here, whichever is chosen."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Accepts a choice of implementations, which changes nothing.

    >>> from rushlight.nn.attention import SDPBackend, sdpa_kernel
    >>> x = rl.ones(1, 2, 2)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     y = rl.nn.functional.scaled_dot_product_attention(x, x, x)
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, (list, tuple, set)) or not all(
        [isinstance(backend, SDPBackend) for backend in chosen]
    ):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend, got {backends!r}"
        )
    yield
