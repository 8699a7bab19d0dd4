"""Siblings: groups that do not need each other but read the same values become one.

So do all groups of single numbers. A group that fills captured memory with one number joins the one
that reads it, which has it at hand. Other groups stay apart, however small: alike, they share one
kernel.

The level of a step is the length of the longest way from it to the end. Steps of one level do not
depend on each other, and if some of them are merged every way still goes from higher levels to
lower ones: so there are no cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.graph.ir import ITEM, Node
from rushlight.passes.clusters import MOST_LOADS, MOST_NODES, MOST_SCALAR_LOADS, Cluster
from rushlight.passes.spaces import flat, total


def merge_siblings(clusters: Sequence[Cluster]) -> list[Cluster]:
    """The clusters, in an order in which they can run, with siblings merged."""
    level = levels(clusters)
    ranked = sorted(clusters, key=lambda cluster: (-level[cluster], cluster.position))
    open_: dict[Any, Cluster] = {}
    found: list[Cluster] = []
    for cluster in ranked:
        key = kind(cluster, level[cluster])
        mate = open_.get(key) if key is not None else None
        if mate is not None and has_room(mate, cluster) and pays(mate, cluster):
            absorb(mate, cluster)
            continue
        found.append(cluster)
        if key is not None:
            open_[key] = cluster
    return found


def merge_fills(clusters: Sequence[Cluster], writes: Sequence[tuple[Node, Node]]) -> list[Cluster]:
    """The clusters, of which one that alone reads a captured tensor also fills it in the end.

    Args:
        clusters: in an order in which they can run.
        writes: captured tensors, and the values that are written to them.
    """
    times = Counter([value for _, value in writes])
    targets = {value: target for target, value in writes if times[value] == 1}
    readers: dict[Node, list[Cluster]] = {}
    for cluster in clusters:
        for node in cluster.reads:
            readers.setdefault(node, []).append(cluster)
    found: list[Cluster] = []
    for cluster in clusters:
        target = filled(cluster, targets)
        mates = readers.get(target, ()) if target is not None else ()
        if len(mates) == 1 and cluster.outputs[0] not in readers and may_fill(mates[0], cluster):
            if target is not None and goes_through(mates[0], target):
                absorb(mates[0], cluster)
                continue
        found.append(cluster)
    return found


def filled(cluster: Cluster, targets: Mapping[Node, Node]) -> Node | None:
    """The captured tensor that a cluster fills, if it reads nothing and does nothing else."""
    if cluster.closed or cluster.alone or cluster.reads or len(cluster.outputs) != 1:
        return None
    return targets.get(cluster.outputs[0])


def may_fill(mate: Cluster, fill: Cluster) -> bool:
    """Whether the loops of one are those of the other."""
    if mate.closed or mate.alone or mate.fold_axes is not None or mate.still != fill.still:
        return False
    return [axis.size for axis in mate.full] == [axis.size for axis in fill.full]


def goes_through(cluster: Cluster, node: Node) -> bool:
    """Whether a cluster reads each element of a value where its loops are, and nowhere else."""
    (place, *others) = cluster.reads[node]
    return not others and place is not None and flat(place) == cluster.full


def levels(clusters: Sequence[Cluster]) -> dict[Cluster, int]:
    """How many steps come at least after each cluster; they are given in order."""
    maker = makers(clusters)
    level = dict.fromkeys(clusters, 0)
    for cluster in reversed(clusters):
        for node in cluster.reads:
            source = maker.get(node)
            if source is not None:
                level[source] = max(level[source], level[cluster] + 1)
    return level


def makers(clusters: Sequence[Cluster]) -> dict[Node, Cluster]:
    """Which cluster brings a value into memory."""
    found = {node: c for c in clusters for node in (c.nodes if c.closed else c.outputs)}
    for cluster in clusters:
        for node in cluster.reads:
            if node.op is ITEM and node not in found:
                source = found.get(node.inputs[0])  # type: ignore[arg-type]
                if source is not None:
                    found[node] = source
    return found


def kind(cluster: Cluster, level: int) -> Any:
    """What clusters have in common that can be merged; None if nothing can be merged with it."""
    if cluster.closed or cluster.alone:
        return None
    folds = set(cluster.folds)
    axes = tuple([(axis.size, axis in folds) for axis in cluster.full])
    return level, cluster.still, cluster.widths, axes


def has_room(a: Cluster, b: Cluster) -> bool:
    limit = MOST_LOADS if total(a.full) > 1 else MOST_SCALAR_LOADS
    loads = len(a.reads.keys() | b.reads.keys())
    return loads <= limit and len(a.nodes) + len(b.nodes) <= MOST_NODES


def pays(a: Cluster, b: Cluster) -> bool:
    """Whether two clusters compute single numbers, or read the same large value."""
    size = total(a.full)
    return size == 1 or any([2 * node.type.size > size for node in a.reads.keys() & b.reads.keys()])


def absorb(a: Cluster, b: Cluster) -> None:
    a.nodes.extend([node for node in b.nodes if node not in set(a.nodes)])
    a.outputs.extend(b.outputs)
    for node, places in b.reads.items():
        a.reads.setdefault(node, []).extend(moved(a, b, places))


def moved(a: Cluster, b: Cluster, places: Sequence[Any]) -> list[Any]:
    """Places in terms of the axes of ``a``, which stand for those of ``b`` one by one."""
    name = dict(zip(b.full, a.full, strict=True))
    return [
        tuple([axes and tuple([name.get(axis, axis) for axis in axes]) for axes in place])
        if place is not None
        else None
        for place in places
    ]
