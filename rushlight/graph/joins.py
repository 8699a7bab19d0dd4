"""What results of a branch or loop have to do with each other, which only a run knows.

A way of a branch may hand on one tensor under two names, or make one result of another. After it
they are two results of one node, whose tape does not say so: gradients of one by the other are
those of some ways only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rushlight.autograd.tape import below
from rushlight.errors import user_line
from rushlight.symbol import TraceError

Beyond = Callable[[Any], Any]


class Join:
    """The results of a branch or loop.

    Args:
        ways: the edges of all results at the end of each way, and where gradients go beyond them.
        starts: the edges of what a step of a loop is given.
        first: the edges outside of what the loop begins with.
        once: whether a loop takes at least one step.
    """

    def __init__(
        self,
        ways: Sequence[tuple[Sequence[Any], Beyond]],
        starts: Sequence[Any] = (),
        first: Sequence[Any] = (),
        once: bool = True,
    ) -> None:
        self.ways, self.first, self.once = ways, first, once
        self.places = {id(e): i for i, e in enumerate(starts) if e is not None}

    def may_be(self, i: int) -> set[Any]:
        """The edges outside that result ``i`` can have: those of what is handed on unchanged."""
        found: set[Any] = set()
        seen, stack = {i}, [i]
        while stack:
            place = stack.pop()
            if not self.once:
                found.add(self.first[place])
            for edges, beyond in self.ways:
                given = self.places.get(id(edges[place]))
                if given is None:
                    found.add(beyond(edges[place]))
                    continue
                found.add(self.first[given])
                if given not in seen:
                    seen.add(given)
                    stack.append(given)
        return found - {None}

    @functools.cached_property
    def made_of(self) -> set[tuple[int, int]]:
        """Pairs of results of which the first one may be the second one, or a part of it."""
        found: set[tuple[int, int]] = set()
        reached: list[tuple[Sequence[Any], int, set[int]]] = []
        for edges, beyond in self.ways:
            own = [beyond(e) for e in edges]
            for j, e in enumerate(edges):
                nodes, leaves = below([e], beyond)
                found |= pairs(own, j, {*nodes, *leaves})
                given = {self.places[id(n)] for n in nodes if id(n) in self.places}
                reached.append((edges, j, given))
        if not self.once:
            for j, e in enumerate(self.first):
                nodes, leaves = below([e])
                found |= pairs(self.first, j, {*nodes, *leaves})
        while True:
            more = {
                (i, j)
                for edges, j, given in reached
                for i, e in enumerate(edges)
                if any([(self.places.get(id(e)), q) in found for q in given])
            }
            if more <= found:
                return {(i, j) for i, j in found if i != j}
            found |= more


def pairs(edges: Sequence[Any], j: int, under: Collection[Any]) -> set[tuple[int, int]]:
    return {(i, j) for i, e in enumerate(edges) if e is not None and e in under}


Joins = dict[Any, tuple[Join, int]]
"""Joins and places of results, by their edges."""


def refuse_joined(
    joins: Joins, starts: Sequence[Any], targets: Collection[Any], beyond: Beyond
) -> None:
    """An error if only some ways of a branch or loop make the ``starts`` of one of the targets."""
    for target in targets:
        if target in joins and is_unsure(joins, starts, target, beyond):
            raise TraceError(
                f"grad() at {user_line()} is with respect to a result of a branch or loop that "
                "may be the same tensor as another one, or part of it, on some ways only, which a "
                "graph cannot follow: call it inside the branch or loop"
            )


def is_unsure(joins: Joins, starts: Sequence[Any], target: Any, beyond: Beyond) -> bool:
    """Whether gradients come to a result by another one, or by what it may be itself."""
    join, place = joins[target]

    def past(e: Any) -> Any:
        return None if e in joins and joins[e][0] is join else beyond(e)

    others = [joins[e][1] for e in below(starts, beyond)[0] if e in joins and joins[e][0] is join]
    nodes, leaves = below(starts, past)
    return any([(place, j) in join.made_of for j in others]) or bool(
        join.may_be(place).intersection({*nodes, *leaves})
    )
