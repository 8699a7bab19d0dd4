"""Fusion: which nodes are computed together, in the same loops, without memory between them.

Nodes are visited from the outputs to the inputs. A node whose users all lie in groups that can
compute it where they need it goes into them; a node that is needed elsewhere too becomes an output
of the group that needs it first; what fits nowhere begins a group of its own. Every step has a
position, and only reads steps of lower positions: that is why there are never cycles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.graph.ir import ITEM, Graph, Node, show
from rushlight.ops.views import View
from rushlight.passes.clusters import (
    HEAVY,
    LIGHT_WORK,
    Cluster,
    Fit,
    fold_inputs,
    folded_dims,
    is_leaf,
    is_library,
    types,
    weight,
)
from rushlight.passes.siblings import merge_fills, merge_siblings
from rushlight.passes.spaces import Place, atoms, axes_of, flat, opaque, pulled, same


@dataclass(frozen=True, eq=False, slots=True)
class Group:
    """Nodes that are computed in the same loops; other steps need their ``outputs``."""

    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]

    def __str__(self) -> str:
        names = " ".join([n.op.full_name for n in self.nodes if n.op is not ITEM])
        return f"group({names}) -> {', '.join([str(n.type) for n in self.outputs])}"

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The values that are read from memory."""
        inside = set(self.nodes)
        found = {n: None for node in self.nodes for n in node.inputs if n is not None}
        return tuple([n for n in found if n not in inside])


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A node whose eager kernel is called; its results are C-contiguous.

    But an ``alias`` is a view that only calls read: it may stay where its operand lies.
    """

    node: Node
    alias: bool = False

    def __str__(self) -> str:
        what = "alias" if self.alias else "call"
        return f"{what}({self.node.op.full_name}) -> {show(self.node.type)}"

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (self.node,)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple([n for n in self.node.inputs if n is not None])


Step = Group | Call


class Fusion:
    """The clusters of a graph, and which of them need which node."""

    def __init__(
        self,
        graph: Graph,
        still: Collection[Node] = (),
        refused: frozenset[Node] = frozenset(),
    ) -> None:
        self.refused = refused  # nodes of rows for which no fold was found
        self.still = still  # nodes that are the same at every call
        self.nodes = [n for n in graph.nodes() if not is_leaf(n)]
        self.number = {node: i for i, node in enumerate(self.nodes)}
        self.roots = set(graph.roots)
        self.written = {value for _, value in graph.writes}
        self.users: dict[Node, list[Cluster]] = {}
        self.items: dict[Node, list[Node]] = {}
        self.clusters: list[Cluster] = []
        self.uses: dict[Node, int] = {}
        self.library = {n for n in self.nodes if is_library(n)}
        self.work = self.efforts()
        self.early = self.early_numbers()
        self.head: Cluster | None = None  # computes them

    def run(self) -> list[Cluster]:
        for node in reversed(self.nodes):
            if node.op is ITEM:
                self.items.setdefault(node.inputs[0], []).append(node)  # type: ignore[arg-type]
            elif node in self.library:
                self.begin_call(node)
            elif node in self.early:
                self.place_number(node)
            elif isinstance(node.op, View) and (node.op.stays or self.is_alias(node)):
                self.place_alias(node)
            else:
                self.place(node)
        return self.clusters

    def efforts(self) -> dict[Node, tuple[int, int]]:
        """For each node the work and the loads of computing an element from what is in memory."""
        found: dict[Node, tuple[int, int]] = {}
        for node in self.nodes:
            work, loads, size = weight(node), 0, types(node)[0].size
            for n in node.inputs:
                if n is None:
                    continue
                self.uses[n] = self.uses.get(n, 0) + 1
                below = found.get(n)
                if below is not None and below[0] <= LIGHT_WORK:
                    work, loads = work + below[0], loads + below[1]
                elif 4 * types(n)[0].size > size:
                    loads += 1
            heavy = node in self.library or folded_dims(node) is not None or node.op is ITEM
            found[node] = (HEAVY if heavy else work, loads)
        return found

    def early_numbers(self) -> set[Node]:
        """The nodes that compute single numbers from captured ones: rates, corrections, counts."""
        early: set[Node] = set()
        free: set[Node] = set()  # leaves in another form, which every group makes by itself
        for node in self.nodes:
            inputs = [n for n in node.inputs if n is not None]
            if node.op is ITEM or not all([n in early or n in free or is_leaf(n) for n in inputs]):
                continue
            if isinstance(node.type, tuple) or node.type.size != 1 or node in self.library:
                continue
            if not weight(node) and not any([n in early for n in inputs]):
                free.add(node)
            elif node.op.emit is not None or not weight(node):
                early.add(node)
        return early

    def place_number(self, node: Node) -> None:
        """Puts a single number into the one group of them, which runs first."""
        if self.head is None:
            self.head = self.begin(-1)
        if node in self.roots or any([c is not self.head for c in self.users.get(node, ())]):
            self.head.outputs.append(node)
        place: Place = ((),) * len(node.type.shape)
        self.join(node, self.head, Fit([pulled(node, place)]))

    def begin(self, position: int) -> Cluster:
        cluster = Cluster(position, self.refused)
        self.clusters.append(cluster)
        return cluster

    def begin_call(self, node: Node, alias: bool = False) -> None:
        call = self.begin(self.number[node])
        call.closed, call.alias = True, alias
        call.nodes.append(node)
        for n in node.inputs:
            if n is not None:
                call.read(n, None)
                self.needed(n, call)

    def needed(self, node: Node, cluster: Cluster) -> None:
        users = self.users.setdefault(node, [])
        if cluster not in users:
            users.append(cluster)

    def join(self, node: Node, cluster: Cluster, fit: Fit) -> None:
        cluster.take(node, fit)
        for n in node.inputs:
            if n is not None:
                self.needed(n, cluster)

    def is_alias(self, node: Node) -> bool:
        """Whether calls should see a view where its operand lies, rather than get a copy."""
        if node in self.roots or not any([c.closed for c in self.users.get(node, ())]):
            return False
        if not is_strided(node):
            return False
        below: Any = node
        while isinstance(below.op, View) and self.uses.get(below, 0) == 1:
            (below,) = below.inputs
        base = below.inputs[0] if below.op is ITEM else below
        stored = below in self.roots or self.uses.get(below, 0) > 1
        return stored or is_leaf(base) or base in self.library

    def place_alias(self, node: Node) -> None:
        users = self.users[node]
        self.begin_call(node, alias=True)
        for cluster in users:
            if not cluster.closed:
                fit = cluster.fit(node, cluster.reads[node], 0)
                assert fit is not None, "a view fits into every group"
                self.join(node, cluster, fit)

    def place(self, node: Node) -> None:
        """Decides which cluster, or clusters, compute a node (with its items, if it has some)."""
        items = self.items.get(node, [])
        results = items or [node]
        users = self.readers(results)
        if node in self.still and weight(node) and not all([c.still for c in users]):
            return self.begin_group(node, results)  # which need not run at every call
        effort = self.work[node][0]
        fits = [cluster.fit(node, self.places(cluster, results), effort) for cluster in users]
        wanted = [n for n in results if n in self.roots]
        if not wanted and fits and all(fits) and self.may_copy(node, users):
            for cluster, fit in zip(users, fits, strict=True):
                assert fit is not None
                self.settle(node, results, cluster, fit)
        elif not fits or fits[0] is None or not self.host(users[0], node, results, fits[0]):
            self.begin_group(node, results)

    def host(self, first: Cluster, node: Node, results: Sequence[Node], fit: Fit | None) -> bool:
        """Lets the first user of a node store what others need of it; False if it cannot."""
        others = [n for n in results if n in self.roots or self.users[n] != [first]]
        for n in others:
            alike = [m for m in results if m in first.reads and m.type.shape == n.type.shape]
            read = n if n in first.reads else alike[0] if alike else None
            fit = first.stored(node, first.reads[read], fit) if read and fit else None
        if fit is None:
            return False
        first.outputs.extend(others)
        first.updates |= node in self.written
        self.settle(node, results, first, fit)
        return True

    def readers(self, results: Iterable[Node]) -> list[Cluster]:
        """The clusters that need one of ``results``, the one that must run first in front."""
        found = {cluster: None for n in results for cluster in self.users.get(n, ())}
        return sorted(found, key=lambda cluster: cluster.position)

    def places(self, cluster: Cluster, results: Sequence[Node]) -> list[Place | None]:
        """Where a cluster reads the results of a node; the largest ones decide."""
        read = [n for n in results if n in cluster.reads]
        largest = max([n.type.size for n in read])
        found: list[Place | None] = []
        for place in [p for n in read if n.type.size == largest for p in cluster.reads[n]]:
            if place is None or not any([p is not None and same(p, place) for p in found]):
                found.append(place)
        return found

    def may_copy(self, node: Node, users: Sequence[Cluster]) -> bool:
        """Whether computing a node in each of its users beats storing and loading it.

        n users load n·k values then; else the first loads k, stores one, and the others load that.
        """
        work, loads = self.work[node]
        return len(users) == 1 or (work <= LIGHT_WORK and loads <= 1)

    def settle(self, node: Node, results: Sequence[Node], cluster: Cluster, fit: Fit) -> None:
        """Puts a node, and those of its items that the cluster needs, into the cluster."""
        if results[0] is not node:
            for n in results:
                if n in cluster.reads or n in cluster.outputs:
                    cluster.nodes.append(n)
                    cluster.reads.pop(n, None)
        self.join(node, cluster, fit)

    def begin_group(self, node: Node, results: Sequence[Node]) -> None:
        cluster = self.begin(self.number[node])
        cluster.outputs.extend(results)
        cluster.still = node in self.still
        cluster.updates = node in self.written
        op, shape = node.op, types(node)[0].shape
        place = axes_of(shape)
        axes = flat(place)
        assert axes is not None
        cluster.full_axes = axes
        if op.scatter is not None or op.scan is not None:
            cluster.alone = True
            fit = Fit([[None if n is None else opaque(n.type.shape) for n in node.inputs]])
        else:
            fit = self.first_fit(cluster, node, place)
        self.settle(node, results, cluster, fit)

    def first_fit(self, cluster: Cluster, node: Node, place: Place) -> Fit:
        """How a node is computed in a cluster that begins with it."""
        dims = folded_dims(node)
        if not dims or node.inputs[0] is None:
            return Fit([pulled(node, place)])
        shape = node.inputs[0].type.shape
        full = cluster.fold_place(node, place, shape, dims)
        if full is None:  # folds that are not over whole rows
            return Fit([[None if n is None else opaque(n.type.shape) for n in node.inputs]])
        columns = tuple(atoms([axis for d in dims for axis in full[d] or ()]))
        widths = tuple([shape[d] for d in dims])
        return Fit([fold_inputs(node, full, shape, dims)], columns, flat(full), widths)


def is_strided(node: Any) -> bool:
    """Whether a view can be seen where its operand lies, which may be such a view itself."""
    views = []
    while isinstance(node.op, View):
        views.append(node)
        (node,) = node.inputs
    operand = seen = np.empty(node.type.shape, node.type.dtype.numpy)
    for view in reversed(views):
        operand, seen = seen, view.op.compute([seen], view.attrs)
    return not seen.size or np.may_share_memory(seen, operand)


def fuse(graph: Graph, still: Collection[Node] = ()) -> list[Step]:
    """The steps that compute a graph, in an order in which they can run.

    Nodes that are ``still`` the same at every call are computed apart from others.

    >>> from rushlight.graph.parse import parse
    >>> steps = fuse(parse('''
    ... graph(%0: f32[8,4]):
    ...   %1: f32[8,4] = exp(%0)
    ...   %2: f32[8] = sum(%1, dim=(1,), keepdim=False, dtype=None)
    ...   %3: f32[8] = log(%2)
    ...   return %3
    ... '''))
    >>> [[node.op.name for node in step.nodes] for step in steps]
    [['exp', 'sum', 'log']]
    """
    fusion = Fusion(graph, still)
    clusters = fusion.run()
    while any([c.disappointed for c in clusters]):
        hopeless = {n for c in clusters if c.disappointed for n in c.awaited}
        fusion = Fusion(graph, still, fusion.refused | hopeless)
        clusters = fusion.run()
    clusters.sort(key=lambda cluster: cluster.position)
    clusters = merge_fills(clusters, graph.writes)
    return [finished(cluster, fusion.number) for cluster in merge_siblings(clusters)]


def finished(cluster: Cluster, number: dict[Node, int]) -> Step:
    if cluster.closed:
        return Call(cluster.nodes[0], cluster.alias)
    nodes = sorted(cluster.nodes, key=number.__getitem__)
    return Group(tuple(nodes), tuple(sorted(cluster.outputs, key=number.__getitem__)))
