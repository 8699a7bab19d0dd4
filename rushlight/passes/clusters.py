"""Clusters: groups of nodes in the making, and what they can take in.

The loops of a cluster go over its *full* axes. If it has folds, they all go over the same axes, its
columns; the other axes are its rows. A node is computed at full indices or at those of rows; if it
is cheap, anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rushlight.dtypes import COMPLEX
from rushlight.graph.ir import CONSTANT, ITEM, Node
from rushlight.ops.base import Op
from rushlight.ops.families import Elementwise
from rushlight.ops.views import View
from rushlight.passes.spaces import (
    Axes,
    Place,
    atoms,
    axes_of,
    beside,
    flat,
    pulled,
    same,
    split,
    total,
)

MOST_LOADS = 24  # pointers that a loop can hold in registers without spilling too many
MOST_SCALAR_LOADS = 128  # groups of single numbers are no loops
MOST_NODES = 200  # a kernel must stay quick to compile
MOST_COLUMNS = 1 << 20  # elements of a row that is gone through more than once
MOST_STRIDED_COLUMNS = 256  # of rows that lie beside each other: each element fills a cache line
FEW_ROWS, FEW_ELEMENTS = 4, 32768  # too few rows to share, unless all is small
FAR = 32  # nodes that are looked through for a fold
LIGHT_WORK = 6  # operations that are cheaper than to store and load their result

FREE = frozenset(
    ("cast", "expand", "permute", "transpose", "view", "squeeze", "unsqueeze", "clone")
)
LIGHT = frozenset(
    (
        *("add", "sub", "mul", "neg", "abs", "square", "relu", "where", "sign", "masked_fill"),
        *("maximum", "minimum", "fmax", "fmin", "clamp_min", "clamp_max", "between", "addcmul"),
        *("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "isnan", "lerp", "floor"),
        *("ceil", "trunc", "slice", "select", "flip", "tril", "triu", "embed", "constant_pad_nd"),
    )
)
MEDIUM = frozenset(("div", "sqrt", "reciprocal", "addcdiv", "gather", "index_select", "embedding"))
HEAVY = 16


def weight(node: Node) -> int:
    """About how many multiplications one element costs."""
    name = node.op.name
    if node.op is ITEM or name in FREE:
        return 0
    if name in LIGHT:
        return 1
    if name in MEDIUM:
        return 4
    return 1 if isinstance(node.op, View) else HEAVY


def is_leaf(node: Node) -> bool:
    return not isinstance(node.op, Op) and node.op is not ITEM


def types(node: Node) -> Sequence[Any]:
    return node.type if isinstance(node.type, tuple) else (node.type,)


def is_library(node: Node) -> bool:
    """Whether no loops can be made of a node."""
    op = node.op
    if op is ITEM:
        return False
    if op.library or op.dynamic or (op.at is None and op.scatter is None and op.scan is None):
        return True
    if op.emit is None and op.folded is None and isinstance(op, Elementwise):
        return True
    kinds = [*types(node), *[t for n in node.inputs if n is not None for t in types(n)]]
    return any([t.dtype.category == COMPLEX for t in kinds]) or not aligned(node)


def aligned(node: Node) -> bool:
    """Whether several results have one index: the same shape, but for dimensions of size 1."""
    first, *others = types(node)
    return all(
        [
            len(t.shape) == len(first.shape)
            and all([n in (1, m) for n, m in zip(t.shape, first.shape, strict=True)])
            for t in others
        ]
    )


def folded_dims(node: Node) -> tuple[int, ...] | None:
    """The dimensions of the first operand that the folds of a node go over; None if it has none."""
    op = node.op
    if not isinstance(op, Op) or op.folded is None or op.emit is not None:
        return None
    shapes = [None if n is None else n.type.shape for n in node.inputs]
    dims = op.folded(node.attrs, *shapes)
    return None if dims is None else tuple([d % max(len(shapes[0] or ()), 1) for d in dims])


class Fit(NamedTuple):
    """How a node is computed inside a cluster: where its inputs are read, and what is folded.

    Columns (``folds``) without ``full`` axes mean that a fold over them is still to come.
    """

    inputs: list[list[Place | None]]  # for each place of the node, those of its inputs
    folds: Axes | None = None
    full: Axes | None = None
    widths: tuple[int, ...] | None = None


class Cluster:
    """A step in the making: a group that can still take nodes in, or a call that cannot."""

    def __init__(self, position: int, refused: frozenset[Node] = frozenset()) -> None:
        self.position = position
        self.refused = refused  # nodes of rows for which no fold was found before
        self.closed = self.alias = False  # a call
        self.alone = False  # a scatter or a scan: no further outputs, no folds
        self.still = False  # the same at every call: it takes nothing in that is not
        self.updates = False  # writes to captured tensors: many such groups share one kernel
        self.awaited: list[Node] = []  # nodes of rows, for which a fold is still to come
        self.nodes: list[Node] = []
        self.outputs: list[Node] = []
        self.full_axes: Axes = ()
        self.fold_axes: Axes | None = None
        self.widths: tuple[int, ...] | None = None  # the sizes that folds go over, the same for all
        self.reads: dict[Node, list[Place | None]] = {}

    @property
    def full(self) -> Axes:
        return tuple(atoms(self.full_axes))

    @property
    def folds(self) -> Axes:
        return tuple(atoms(self.fold_axes or ()))

    @property
    def rows(self) -> Axes:
        folds = self.folds
        return tuple([axis for axis in self.full if axis not in folds])

    def fit(self, node: Node, places: Sequence[Place | None], effort: int) -> Fit | None:
        """How ``node`` can be computed in this cluster at ``places``, or None if it should not.

        ``effort`` is the work of one element with all that is cheap below it. A view always fits.
        """
        known = [p for p in places if p is not None]
        if self.closed or len(known) != len(places):
            return None
        if not isinstance(node.op, View):
            if node.op.scatter is not None or node.op.scan is not None or not self.has_room(node):
                return None
            dims = folded_dims(node)
            if dims:
                return self.fit_fold(node, known, dims)
            if dims is not None and self.fold_axes is not None:
                return None  # windows would be gone through once for each fold
            if types(node)[0].size == 1 and weight(node) and total(self.full) > 1:
                return None
            if effort > LIGHT_WORK and (len(known) > 1 or self.repeats(node, known[0])):
                folds = self.columns_beside(node, known)
                return None if folds is None else Fit([pulled(node, known[0])], folds)
        return Fit([pulled(node, place) for place in known])

    def has_room(self, node: Node) -> bool:
        more = [n for n in node.inputs if n is not None and n not in self.reads]
        limit = MOST_LOADS if total(self.full) > 1 else MOST_SCALAR_LOADS
        return len(self.nodes) < MOST_NODES and len(self.reads) + len(more) - 1 <= limit

    def repeats(self, node: Node, place: Place) -> bool:
        """Whether a value pulled here would be computed more often than it has elements."""
        axes = flat(place)
        if axes is None:
            return not self.alone
        return axes != self.rows and total(self.full) > types(node)[0].size

    def fit_fold(self, node: Node, places: list[Place], dims: tuple[int, ...]) -> Fit | None:
        """A fold fits if its rows are those of the cluster, and its columns too."""
        if self.alone or len(places) > 1 or node.inputs[0] is None:
            return None
        shape = node.inputs[0].type.shape
        widths = tuple([shape[d] for d in dims])
        if self.widths not in (None, widths):
            return None
        (place,) = places
        full = self.fold_place(node, place, shape, dims)
        if full is None:
            return None
        columns = tuple(atoms([axis for d in dims for axis in full[d] or ()]))
        axes = flat(full)
        assert axes is not None
        if self.fold_axes is not None and (set(columns) != set(self.folds) or axes != self.full):
            return None
        again = len(self.full) == len(axes)  # the row is gone through after the fold
        if not (self.may_repeat_row(axes, columns) if again else not self.updates):
            return None
        return Fit([fold_inputs(node, full, shape, dims)], columns, axes, widths)

    def fold_place(
        self, node: Node, place: Place, shape: Sequence[int], dims: tuple[int, ...]
    ) -> Place | None:
        """Where the folded operand is read: at the rows of ``place`` and in all columns."""
        axes, have = flat(place), types(node)[0].shape
        if axes is None:
            return None
        if tuple(have) == tuple(shape) and any([place[d] for d in dims]):  # as softmax
            return place if axes == self.full else None
        kept = [d for d in range(len(shape)) if d not in dims]
        if len(have) == len(shape):  # keepdim
            if any([place[d] != () for d in dims]) or any([have[d] != shape[d] for d in kept]):
                return None
            row: list[Any] = [place[d] for d in kept]
        elif [shape[d] for d in kept] == list(have):
            row = list(place)
        else:
            return None
        sizes = [shape[d] for d in dims]
        rest = tuple([axis for axis in self.full if axis not in axes])
        if axes != tuple([axis for axis in self.full if axis in axes]):
            return None
        columns = split(rest, sizes) if rest else axes_of(sizes)
        if columns is None:
            return None
        found: list[Any] = [()] * len(shape)
        for d, own in zip((*kept, *dims), (*row, *columns), strict=True):
            found[d] = own
        order = flat(tuple(found))
        return tuple(found) if not rest or order == self.full else None

    def may_repeat_row(self, axes: Axes, columns: Axes) -> bool:
        everything, width = total(axes), total(columns)
        rows = everything // max(width, 1)
        small = width == 1 or everything <= FEW_ELEMENTS
        beside = not columns or axes[-1] in columns
        most = MOST_COLUMNS if beside or small else MOST_STRIDED_COLUMNS
        return width <= most and (rows >= FEW_ROWS or small)

    def stored(self, node: Node, places: Sequence[Place | None], fit: Fit) -> Fit | None:
        """The fit of a node that is to be an output too; None if it cannot be one here."""
        if self.alone or len(places) != 1 or places[0] is None:
            return None
        axes = flat(places[0])
        full = self.full if fit.full is None else tuple(atoms(fit.full))
        folds = self.folds if fit.folds is None else tuple(atoms(fit.folds))
        if axes == tuple([axis for axis in full if axis not in folds]):
            return fit
        if axes == full:
            return fit if self.may_repeat_row(full, folds) else None
        columns = self.columns_beside(node, places)
        return None if columns is None else fit._replace(folds=columns)

    def columns_beside(self, node: Node, places: Sequence[Place | None]) -> Axes | None:
        """The axes over which a fold below ``node`` will go, so that its place will be rows."""
        axes = flat(places[0]) if len(places) == 1 and places[0] is not None else None
        if axes is None or self.fold_axes is not None or self.alone or node in self.refused:
            return None
        full = self.full
        columns = tuple([axis for axis in full if axis not in axes])
        if axes != tuple([axis for axis in full if axis not in columns]):
            return None
        if not self.may_repeat_row(full, columns) or not is_of_fold(node, total(full)):
            return None
        return columns

    @property
    def disappointed(self) -> bool:
        """Whether the fold did not come after all."""
        return bool(self.awaited) and self.widths is None

    def take(self, node: Node, fit: Fit) -> None:
        self.nodes.append(node)
        self.reads.pop(node, None)
        if fit.full is not None:
            self.full_axes, self.fold_axes, self.widths = fit.full, fit.folds, fit.widths
        elif fit.folds is not None:
            self.fold_axes = fit.folds
            self.awaited.append(node)
        for places in fit.inputs:
            for n, place in zip(node.inputs, places, strict=True):
                if n is not None:
                    self.read(n, place)

    def read(self, node: Node, place: Place | None) -> None:
        if node.op is CONSTANT and node.type.size == 1:
            return  # part of the code, not of memory
        places = self.reads.setdefault(node, [])
        if place is None or not any([p is not None and same(p, place) for p in places]):
            places.append(place)


def is_of_fold(node: Node, size: int) -> bool:
    """Whether a node is computed, element by element, from a fold of ``size`` elements."""
    stack, seen = [node], {node}
    while stack and len(seen) < FAR:
        below = stack.pop()
        dims = folded_dims(below)
        if dims:
            if below.inputs[0] is not None and below.inputs[0].type.size == size:
                return True
            continue
        for n in below.inputs:
            if n is not None and n not in seen and not is_leaf(n):
                if n.op is ITEM or below.op is ITEM or types(n)[0].size == types(node)[0].size:
                    seen.add(n)
                    stack.append(n)
    return False


def fold_inputs(
    node: Node, full: Place, shape: Sequence[int], dims: tuple[int, ...]
) -> list[Place | None]:
    """Where the operands of a fold are read, the first one at ``full``."""
    return [
        None if n is None else full if k == 0 else beside(full, n.type.shape, shape, dims)
        for k, n in enumerate(node.inputs)
    ]
