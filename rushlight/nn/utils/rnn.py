"""Sequences of different lengths as one tensor: padded to one length, or packed without gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.errors import user_line
from rushlight.literals import as_tensor, tensor
from rushlight.ops import ops
from rushlight.symbol import TraceError, Undecided
from rushlight.tensor import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class Packed(NamedTuple):
    """The fields of a packed sequence."""

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def conversion(dtype: dtypes.dtype) -> Callable[[PackedSequence], PackedSequence]:
    def convert(self: PackedSequence) -> PackedSequence:
        return self.to(dtype)

    return convert


class PackedSequence(Packed):
    """Sequences without padding: all first elements, then all second ones, and so on.

    Made by :func:`pack_padded_sequence` and :func:`pack_sequence`; recurrent layers take it and
    give it back.

    Args:
        data: (elements of all sequences, *)
        batch_sizes: how many sequences have a first element, a second one, …
        sorted_indices: which sequence comes first, second, …, if they were sorted by length
        unsorted_indices: the inverse permutation

    >>> from rushlight.nn.utils.rnn import pack_sequence
    >>> pack_sequence([rl.tensor([1, 2, 3]), rl.tensor([4, 5])])[:2]
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with ``data`` converted; itself if there is nothing to convert."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else type(self)(data, *self[1:])

    def cpu(self) -> PackedSequence:
        return self.to("cpu")

    def cuda(self, device: Any = None, **kwargs: Any) -> PackedSequence:
        return self.to("cuda" if device is None else device, **kwargs)

    def pin_memory(self) -> PackedSequence:
        return type(self)(self.data.pin_memory(), *self[1:])

    def is_pinned(self) -> bool:
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        return self.data.is_cuda

    double, float, half = map(conversion, (dtypes.float64, dtypes.float32, dtypes.float16))
    long, int, short = map(conversion, (dtypes.int64, dtypes.int32, dtypes.int16))
    char, byte = map(conversion, (dtypes.int8, dtypes.uint8))


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes ``permutation``; None stays None.

    >>> rl.nn.utils.rnn.invert_permutation(rl.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def numbers(values: Tensor | Sequence[int], function: str) -> np.ndarray:
    """Lengths or the like, on which the shapes in ``function`` depend: a graph must know them."""
    try:
        return np.array(as_tensor(values).tolist(), np.int64)
    except Undecided as error:
        raise TraceError(
            f"{function} at {user_line()} needs the lengths of sequences as numbers, but a traced "
            "tensor has no values while the graph is made: give them as a list (lengths.tolist() "
            "outside the compiled function), and pack the sequences inside it"
        ) from error


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Packs the sequences in a padded tensor (time, batch, *).

    Args:
        lengths: how long each sequence is, the longest first unless ``enforce_sorted`` is False
        batch_first: whether ``input`` is (batch, time, *)
        enforce_sorted: if False, sequences may come in any order and are sorted

    >>> from rushlight.nn.utils.rnn import pack_padded_sequence
    >>> padded = rl.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    >>> packed = pack_padded_sequence(padded, [2, 1, 3], batch_first=True, enforce_sorted=False)
    >>> packed.data, packed.batch_sizes, packed.sorted_indices
    (tensor([4, 1, 3, 5, 2, 6]), tensor([3, 2, 1]), tensor([2, 0, 1]))
    """
    counts = numbers(lengths, "pack_padded_sequence")
    x = input.transpose(0, 1) if batch_first else input
    order = inverse = None
    check_lengths(counts, x)
    if not enforce_sorted:
        places = np.argsort(-counts, kind="stable")
        order, inverse = tensor(places), tensor(np.argsort(places))
        counts, x = counts[places], x.index_select(1, order)
    elif (counts[1:] > counts[:-1]).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            f"sidestep this requirement. Got lengths {counts.tolist()}"
        )
    sizes = (counts > np.arange(counts[0])[:, None]).sum(1)
    data = x.flatten(0, 1).index_select(0, occupied(sizes, len(counts)))
    return PackedSequence(data, tensor(sizes), order, inverse)


def check_lengths(lengths: np.ndarray, x: Tensor) -> None:
    """An error unless ``lengths`` are those of sequences in ``x`` (time, batch, *)."""
    if lengths.ndim != 1:
        raise RuntimeError(f"'lengths' argument should be a 1D tensor, but got {lengths.ndim}D")
    if not x.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    time, batch = x.shape[:2]
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} "
            f"(batch_size={batch})"
        )
    if (lengths <= 0).any():
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            f"that is <= 0: {lengths.tolist()}"
        )
    if (lengths > time).any():
        raise RuntimeError(f"lengths {lengths.tolist()} exceed the length {time} of the input")


def occupied(sizes: np.ndarray, batch: int) -> Tensor:
    """The rows of a flattened (time, batch) that are in sequences, ``sizes`` of them each time."""
    return tensor(np.flatnonzero(np.arange(batch) < sizes[:, None]))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The sequences padded to one length, (time, batch, *), and how long each is.

    Args:
        batch_first: whether the result is (batch, time, *)
        padding_value: what stands after the end of a sequence
        total_length: the length to pad to, at least that of the longest sequence

    >>> from rushlight.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> packed = pack_sequence([rl.tensor([1, 2, 3]), rl.tensor([4, 5])])
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 5, 0]]), tensor([3, 2]))
    """
    data, order = sequence.data, sequence.unsorted_indices
    sizes = numbers(sequence.batch_sizes, "pad_packed_sequence")
    longest, batch = len(sizes), int(sizes[0])
    time = longest if total_length is None else total_length
    if time < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={time} and max sequence length being {longest}"
        )
    padding = ops.full((time * batch, *data.shape[1:]), padding_value, dtype=data.dtype)
    rows = padding.index_copy(0, occupied(sizes, batch), data)
    padded = rows.reshape(time, batch, *data.shape[1:])
    lengths = (sizes[:, None] > np.arange(batch)).sum(0)
    if order is not None:
        places = numbers(order, "pad_packed_sequence")
        padded, lengths = padded.index_select(1, order), lengths[places]
    return padded.transpose(0, 1) if batch_first else padded, tensor(lengths)


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (length, *) padded to one length and side by side: (time, batch, *).

    Args:
        batch_first: whether the result is (batch, time, *)
        padding_value: what is put before or after a sequence
        padding_side: "right" to put it after, "left" before

    >>> from rushlight.nn.utils.rnn import pad_sequence
    >>> pad_sequence([rl.tensor([1, 2, 3]), rl.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    given = tuple(sequences)
    if not given:
        raise RuntimeError("received an empty list of sequences")
    longest = max([len(t) for t in given])
    padded = []
    for t in given:
        missing = longest - len(t)
        pad = [0, missing] if padding_side == "right" else [missing, 0]
        around = [0, 0] * (t.ndim - 1) + pad
        padded.append(ops.constant_pad_nd(t.to(given[0].dtype), around, padding_value))
    return ops.stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The first ``lengths[i]`` elements of each sequence in a padded tensor.

    >>> from rushlight.nn.utils.rnn import unpad_sequence
    >>> unpad_sequence(rl.tensor([[1, 2, 3], [4, 0, 0]]), rl.tensor([3, 1]), batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    batch = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    counts = numbers(lengths, "unpad_sequence").tolist()
    pairs = zip(batch.unbind(0), counts, strict=True)
    return [sequence[:length].clone() for sequence, length in pairs]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences (length, *), the longest first unless ``enforce_sorted`` is False.

    >>> from rushlight.nn.utils.rnn import pack_sequence
    >>> pack_sequence([rl.tensor([1, 2, 3]), rl.tensor([4, 5]), rl.tensor([6])]).data
    tensor([1, 4, 6, 2, 5, 3])
    """
    lengths = [len(t) for t in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed.

    >>> from rushlight.nn.utils.rnn import pack_sequence, unpack_sequence
    >>> unpack_sequence(pack_sequence([rl.tensor([1, 2, 3]), rl.tensor([4])]))
    [tensor([1, 2, 3]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
