"""Transformers: layers of attention and a feed-forward network, stacked."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from rushlight.autograd.modes import local
from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.activation import GELU, ReLU
from rushlight.nn.attention import MultiheadAttention
from rushlight.nn.containers import ModuleList
from rushlight.nn.dropout import Dropout
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.nn.normalization import LayerNorm
from rushlight.ops import ops
from rushlight.ops.multi_head_attention import canonical_mask
from rushlight.tensor import Tensor

Activation = str | Callable[[Tensor], Tensor]


def activation_of(activation: Activation) -> Callable[[Tensor], Tensor]:
    """A function, by its name or as it is."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


def clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself, then a feed-forward network, each added to its input.

    x ← norm1(x + attention(x)), x ← norm2(x + W₂·activation(W₁·x)), with dropout in between.

    Args:
        d_model: the number of features of an element of the sequence.
        nhead: the number of heads.
        dim_feedforward: the number of features inside the feed-forward network.
        dropout: the probability of dropping an element while training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: the ``eps`` of the normalisations.
        batch_first: whether sequences are (batch, length, features) rather than
            (length, batch, features).
        norm_first: whether to normalise what goes into each part rather than the sum after it.
        bias: whether linear layers and normalisations have biases.

    Shape:
        (S, N, d_model) to the same, N perhaps missing.

    >>> layer = rl.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(rl.randn(5, 3, 8)).shape
    rushlight.Size([5, 3, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        kind: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, **kind
        )
        self.linear1 = Linear(d_model, dim_feedforward, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **kind)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **kind)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **kind)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation_of(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """``src`` after attention and the feed-forward network; see :class:`Transformer`."""
        padding = canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", src.dtype, src_mask, "src_mask"
        )
        mask = canonical_mask(src_mask, "src_mask", src.dtype)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        y, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=mask,
            key_padding_mask=padding,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(y)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Attention of a sequence to itself, then to a memory, then a feed-forward network.

    x ← norm1(x + attention(x)), x ← norm2(x + attention(x, memory)),
    x ← norm3(x + W₂·activation(W₁·x)), with dropout in between.

    Args:
        d_model: the number of features of an element of the sequence.
        nhead: the number of heads.
        dim_feedforward: the number of features inside the feed-forward network.
        dropout: the probability of dropping an element while training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: the ``eps`` of the normalisations.
        batch_first: whether sequences are (batch, length, features) rather than
            (length, batch, features).
        norm_first: whether to normalise what goes into each part rather than the sum after it.
        bias: whether linear layers and normalisations have biases.

    Shape:
        tgt (T, N, d_model) and memory (S, N, d_model) to (T, N, d_model), N perhaps missing.

    >>> layer = rl.nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(rl.randn(4, 3, 8), memory=rl.randn(5, 3, 8)).shape
    rushlight.Size([4, 3, 8])
    """

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        kind: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, **kind
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, batch_first=batch_first, **kind
        )
        self.linear1 = Linear(d_model, dim_feedforward, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **kind)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, **kind)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, **kind)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, **kind)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation_of(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """``tgt`` after all three parts; see :class:`Transformer`."""
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, mask: Tensor | None, padding: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        y, _ = self.self_attn(
            x,
            x,
            x,
            attn_mask=mask,
            key_padding_mask=padding,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout1(y)

    def _mha_block(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        padding: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        y, _ = self.multihead_attn(
            x,
            memory,
            memory,
            attn_mask=mask,
            key_padding_mask=padding,
            need_weights=False,
            is_causal=is_causal,
        )
        return self.dropout2(y)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """``num_layers`` copies of an encoder layer, one after the other.

    Args:
        encoder_layer: the layer to copy.
        num_layers: how often.
        norm: a normalisation for the result, or None.
        enable_nested_tensor: whether, where no gradient is recorded, the elements that
            ``src_key_padding_mask`` marks come out as zeros, as in PyTorch.
        mask_check: whether that is so only if all padding is at the ends of sequences.

    Shape:
        (S, N, d_model) to the same, N perhaps missing.

    >>> layer = rl.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> encoder = rl.nn.TransformerEncoder(layer, num_layers=2)
    >>> encoder(rl.randn(5, 3, 8)).shape
    rushlight.Size([5, 3, 8])
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = enable_nested_tensor and can_nest(encoder_layer)
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """``src`` after all layers; see :class:`Transformer`."""
        padding = canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", src.dtype, mask, "mask"
        )
        added = canonical_mask(mask, "mask", src.dtype)
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=added, is_causal=bool(is_causal), src_key_padding_mask=padding)
        if mask is None and padding is not None and self._clears_padding(src):
            there = padding != 0
            if self.mask_check:  # nothing is left out unless all padding is at the ends
                there = there & ~(there[:, :-1] & ~there[:, 1:]).any()
            x = x.masked_fill(there.unsqueeze(-1), 0)
        return x if self.norm is None else self.norm(x)

    def _clears_padding(self, src: Tensor) -> bool:
        """Whether PyTorch would leave out padded elements here, which then come out as zeros."""
        first = self.layers[0]
        if not self.use_nested_tensor or first.training or src.ndim != 3:
            return False
        used = (src, *first.parameters())
        return not (local.state.grad and any([t.requires_grad for t in used]))


def can_nest(layer: Module) -> bool:
    """Whether PyTorch has a quick path without padding for this kind of layer."""
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first:
        return False
    attention, function = layer.self_attn, layer.activation
    simple = function in (F.relu, F.gelu) or isinstance(function, (ReLU, GELU))
    return (
        attention.batch_first
        and attention._qkv_same_embed_dim
        and attention.in_proj_bias is not None
        and attention.num_heads % 2 == 0
        and simple
        and layer.norm1.eps == layer.norm2.eps
    )


class TransformerDecoder(Module):
    """``num_layers`` copies of a decoder layer, one after the other.

    Args:
        decoder_layer: the layer to copy.
        num_layers: how often.
        norm: a normalisation for the result, or None.

    Shape:
        tgt (T, N, d_model) and memory (S, N, d_model) to (T, N, d_model), N perhaps missing.

    >>> layer = rl.nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> decoder = rl.nn.TransformerDecoder(layer, num_layers=2)
    >>> decoder(rl.randn(4, 3, 8), memory=rl.randn(5, 3, 8)).shape
    rushlight.Size([4, 3, 8])
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """``tgt`` after all layers; see :class:`Transformer`."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of a source sequence, and a decoder of a target sequence that attends to it.

    Args:
        d_model: the number of features of an element of a sequence.
        nhead: the number of heads.
        num_encoder_layers: the number of layers of the encoder.
        num_decoder_layers: the number of layers of the decoder.
        dim_feedforward: the number of features inside the feed-forward networks.
        dropout: the probability of dropping an element while training.
        activation: "relu", "gelu" or a function.
        custom_encoder: takes the place of the encoder.
        custom_decoder: takes the place of the decoder.
        layer_norm_eps: the ``eps`` of the normalisations.
        batch_first: whether sequences are (batch, length, features) rather than
            (length, batch, features).
        norm_first: whether to normalise what goes into each part rather than the sum after it.
        bias: whether linear layers and normalisations have biases.

    Shape:
        src (S, N, d_model) and tgt (T, N, d_model) to (T, N, d_model), N perhaps missing.

    >>> model = rl.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(rl.randn(5, 3, 8), rl.randn(4, 3, 8)).shape
    rushlight.Size([4, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        kind: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        order = (batch_first, norm_first)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            layer: Module = TransformerEncoderLayer(*sizes, *order, **kind)
            norm = LayerNorm(d_model, layer_norm_eps, **kind)
            self.encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            layer = TransformerDecoderLayer(*sizes, *order, **kind)
            norm = LayerNorm(d_model, layer_norm_eps, **kind)
            self.decoder = TransformerDecoder(layer, num_decoder_layers, norm)
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The decoded target.

        Masks are True where no attention is to be paid, or numbers to be added to the scores;
        ``src_mask`` is (S, S), ``tgt_mask`` (T, T), ``memory_mask`` (T, S), each perhaps with
        N·nhead in front; padding masks are (N, S) and (N, T). An ``is_causal`` says that the mask
        is the causal one.
        """
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(
                "the batch number of src and tgt must be equal, got "
                f"{src.shape[batch]} and {tgt.shape[batch]}"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                "the feature number of src and tgt must be equal to d_model, got "
                f"{src.shape[-1]} and {tgt.shape[-1]}, expected {self.d_model}"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device | str | None = None, dtype: DType | None = None
    ) -> Tensor:
        """The causal mask: 0 up to the diagonal and -inf after it.

        >>> rl.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return ops.full((sz, sz), -math.inf, dtype=dtype, device=device).triu(1)
