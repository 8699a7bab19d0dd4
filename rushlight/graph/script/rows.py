"""What a loop of a graph goes through: rows of tensors, and numbers of which the graph knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rushlight.autograd.modes import local
from rushlight.dims import at_least, greatest, is_extent
from rushlight.graph.host import Host
from rushlight.graph.scalars import Scalar, number_of, scalar
from rushlight.ops import ops
from rushlight.tensor import Tensor


class Rows:
    """The rows of some tensors, each as ``make(rows, i)``; perhaps only the graph knows how many.

    >>> list(Rows(2, [rl.tensor([5, 6])], lambda rows, i: (i, rows[0])))
    [(0, tensor(5)), (1, tensor(6))]
    """

    def __init__(
        self,
        length: Any,
        tensors: Sequence[Tensor] = (),
        make: Callable[[Sequence[Tensor], Any], Any] = lambda rows, i: rows[0],
    ) -> None:
        self.length, self.tensors, self.make = length, tensors, make

    @property
    def is_known(self) -> bool:
        return not isinstance(self.length, Host)

    def columns(self) -> list[Tensor]:
        """All that a row is made of: its number, then its tensors."""
        return [ops.arange(self.length), *self.tensors]

    def item(self, row: Sequence[Tensor]) -> Any:
        """What the loop gets for a row of the columns."""
        return self.make(row[1:], Scalar(row[0]))

    def at(self, i: Scalar) -> Any:
        """What the loop gets for the row with this number."""
        return self.make([t[i.tensor] for t in self.tensors], i)

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.length):
            yield self.make([t[i] for t in self.tensors], i)


def rows_of(iterable: Any) -> Rows | None:
    """The rows of a tensor in a trace, or of what was made of some; None for anything else."""
    if isinstance(iterable, Tensor) and local.state.trace is not None and iterable.ndim:
        return Rows(iterable._array.shape[0], [iterable])
    return iterable if isinstance(iterable, Rows) else None


def steps(numbers: range) -> Rows:
    """A range of ints as rows that have no tensors."""
    return Rows(len(numbers), (), lambda rows, i: numbers.start + i * numbers.step)


def counted(*bounds: Any) -> Any:
    """``range``, also of numbers that the graph knows, and of sizes that may change."""
    if local.state.trace is None or not 0 < len(bounds) < 4:
        return range(*bounds)
    numbers: list[Any] = [number_of(x, int) if isinstance(x, Tensor) else x for x in bounds]
    if not any([isinstance(x, Scalar) or is_extent(x) for x in numbers]):
        return range(*bounds)
    start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if isinstance(step, Scalar) or is_extent(step) or not step:
        return range(*numbers)  # which says what is wrong
    away = 1 if step > 0 else -1
    length = (stop - start + step - away) // step if step != 1 else stop - start
    count = scalar(length) if isinstance(length, Host) else at_least_none(length)
    return Rows(count, (), lambda rows, i: start + i * step)


def at_least_none(length: Any) -> Any:
    """How many numbers there are up to one that may lie below the first."""
    if not is_extent(length):
        return max(length, 0)
    sure = at_least(length.dim, 0)
    return length if sure else length.extents.extent(greatest(length.dim, 0))


def length_of(x: Any) -> Any:
    """``len``, also of a tensor with a size that may change."""
    rows = rows_of(x)
    return len(x) if rows is None or not rows.is_known else rows.length


def numbered(iterable: Any, start: Any = 0) -> Any:
    """``enumerate``, also of rows."""
    rows = rows_of(iterable)
    if rows is None:
        return enumerate(iterable, start)
    return Rows(rows.length, rows.tensors, lambda row, i: (start + i, rows.make(row, i)))


def zipped(*iterables: Any, **options: Any) -> Any:
    """``zip``, also of rows whose number is known."""
    several = [rows_of(iterable) for iterable in iterables]
    known = [rows for rows in several if rows is not None and rows.is_known]
    lengths = [rows.length for rows in known]
    uneven = bool(options.get("strict")) and any([n != lengths[0] for n in lengths])
    if len(known) < len(several) or not known or uneven:
        return zip(*iterables, **options)  # noqa: B905
    shortest = min(lengths)
    tensors = [
        t if rows.length == shortest else t[:shortest] for rows in known for t in rows.tensors
    ]

    def make(row: Sequence[Tensor], i: Any) -> Any:
        rest = iter(row)
        return tuple([rows.make([next(rest) for _ in rows.tensors], i) for rows in known])

    return Rows(shortest, tensors, make)


def backwards(sequence: Any) -> Any:
    """``reversed``, also of the rows of a tensor, and of numbers."""
    rows = rows_of(sequence)
    if rows is None:
        return reversed(sequence)
    tensors, last = [t.flip(0) for t in rows.tensors], rows.length - 1
    return Rows(rows.length, tensors, lambda row, i: rows.make(row, last - i))
