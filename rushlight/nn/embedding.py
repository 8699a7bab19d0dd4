"""Layers that look rows up in a table that is learnt."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.modes import no_grad
from rushlight.device import device as Device
from rushlight.dtypes import dtype as DType
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops import ops
from rushlight.tensor import Tensor


def _row_from_front(padding_idx: int | None, count: int) -> int | None:
    """``padding_idx`` counted from the first row, or the error if there is none such."""
    if padding_idx is None:
        return None
    if not -count <= padding_idx < max(count, 1):
        raise AssertionError(
            f"Padding_idx must be within num_embeddings, got {padding_idx} of {count}"
        )
    return padding_idx + count if padding_idx < 0 else padding_idx


def _given_weight(weight: Tensor, count: int, width: int) -> Tensor:
    if tuple(weight.shape) != (count, width):
        raise AssertionError(
            "Shape of weight does not match num_embeddings and embedding_dim: got "
            f"{list(weight.shape)}, expected {[count, width]}"
        )
    return weight


class Embedding(Module):
    """A table of vectors, looked up by number: y = weight[x].

    Args:
        num_embeddings: the number of vectors
        embedding_dim: their length
        padding_idx: a number whose vector is zeros to begin with and gets no gradient
        max_norm: vectors looked up whose ``norm_type``-norm is beyond it are scaled down, in place
        scale_grad_by_freq: divides a vector's gradient by how often the input names it
        sparse: accepted for compatibility; gradients are dense

    Shape:
        (*) whole numbers to (*, embedding_dim).

    >>> layer = rl.nn.Embedding(10, 3, padding_idx=0)
    >>> layer(rl.tensor([[0, 2], [9, 0]])).shape
    rushlight.Size([2, 2, 3])
    >>> layer
    Embedding(10, 3, padding_idx=0)
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: Tensor
    freeze: bool
    sparse: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row_from_front(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if _weight is None:
            empty = ops.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            given = _given_weight(_weight, num_embeddings, embedding_dim)
            self.weight = Parameter(given, requires_grad=not _freeze)
        self.sparse = sparse

    def reset_parameters(self) -> None:
        """Draws the vectors from the standard normal distribution; that of the padding is 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        words = [f"{self.num_embeddings}, {self.embedding_dim}"]
        words += [f"{name}={value}" for name, value in self._unusual()]
        return ", ".join(words)

    def _unusual(self) -> list[tuple[str, Any]]:
        """The options that were given a value of their own."""
        options = [("padding_idx", None), ("max_norm", None), ("norm_type", 2)]
        options += [("scale_grad_by_freq", False), ("sparse", False)]
        return [(n, getattr(self, n)) for n, usual in options if getattr(self, n) != usual]

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A layer over the rows of ``embeddings``, which are not trained if ``freeze`` is set.

        >>> layer = rl.nn.Embedding.from_pretrained(rl.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> layer(rl.tensor([1]))
        tensor([[3., 4.]])
        """
        _check_matrix(embeddings)
        rows, cols = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=cols,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


def _check_matrix(embeddings: Tensor) -> None:
    if embeddings.ndim != 2:
        raise AssertionError(
            "Embeddings parameter is expected to be 2-dimensional, got shape "
            f"{list(embeddings.shape)}"
        )


class EmbeddingBag(Module):
    """The sum, mean or maximum of bags of vectors that are looked up by number.

    Args:
        num_embeddings: the number of vectors
        embedding_dim: their length
        max_norm, norm_type, scale_grad_by_freq, sparse: see :class:`Embedding`
        mode: ``"sum"``, ``"mean"`` or ``"max"``
        include_last_offset: the last offset is where the last bag ends
        padding_idx: a number that is left out

    Shape:
        (B, N) whole numbers to (B, embedding_dim); or (N) with offsets (B), where bags begin.

    >>> layer = rl.nn.EmbeddingBag(10, 3, mode="sum")
    >>> layer(rl.tensor([1, 2, 4, 5, 4]), rl.tensor([0, 3])).shape
    rushlight.Size([2, 3])
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]
    num_embeddings: int
    embedding_dim: int
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: Tensor
    mode: str
    sparse: bool
    include_last_offset: bool
    padding_idx: int | None

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device | str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx = _row_from_front(padding_idx, num_embeddings)
        if _weight is None:
            empty = ops.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(empty)
            self.reset_parameters()
        else:
            self.weight = Parameter(_given_weight(_weight, num_embeddings, embedding_dim))
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def reset_parameters(self) -> None:
        """Draws the vectors from the standard normal distribution; that of the padding is 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        words = [f"{self.num_embeddings}, {self.embedding_dim}"]
        words += [f"max_norm={self.max_norm}"] if self.max_norm is not None else []
        words += [f"norm_type={self.norm_type}"] if self.norm_type != 2 else []
        words += ["scale_grad_by_freq=True"] if self.scale_grad_by_freq else []
        words += [f"mode={self.mode!r}"]
        words += [f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []
        return ", ".join(words)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A layer over the rows of ``embeddings``, which are not trained if ``freeze`` is set.

        >>> layer = rl.nn.EmbeddingBag.from_pretrained(rl.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> layer(rl.tensor([[0, 1]]))
        tensor([[2., 3.]])
        """
        _check_matrix(embeddings)
        rows, cols = embeddings.shape
        layer = cls(
            num_embeddings=rows,
            embedding_dim=cols,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        layer.weight.requires_grad_(not freeze)
        return layer
