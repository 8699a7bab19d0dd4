"""Histories that a graph cannot follow: those of what a loop gives to its steps, and used up ones.

A step is traced once, on leaves in the places of what is carried, and of rows. If the function
calls ``backward()`` in it, gradients end at these leaves, where those of dynamic mode go on: to
what was computed before the loop, or in another step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.autograd.function import Function
from rushlight.autograd.modes import local
from rushlight.autograd.tape import FREED, NO_ATTRS, below, edge
from rushlight.autograd.tape import Node as TapeNode
from rushlight.graph.inner import Inner, Part, Question
from rushlight.graph.trace import Trace
from rushlight.tensor import Tensor


def refuse_lost(part: Part, given: Sequence[Tensor]) -> None:
    """An error if a gradient inside a step would go on into what made a ``given`` value."""
    questions = part.inner.questions
    if questions:
        made = Makers(part, given)
        for question in questions:
            made.answer(question)


class Makers:
    """What made the values that a loop gives to its steps: nodes and leaves of the tape."""

    def __init__(self, part: Part, given: Sequence[Tensor]) -> None:
        self.part, self.inner = part, part.inner
        beyond = part.inner.beyond
        self.first = [beyond(edge(t)) for t in given]
        last = part.edges[: len(given) - len(part.rows)]
        self.last = [*last, *[None] * len(part.rows)]
        self.at_first = [below([e], beyond) for e in self.first]
        self.in_a_step = [below([e], beyond) for e in self.last]

    def of(self, place: int) -> set[Any]:
        """All that can have made a value, in however many steps."""
        found: set[Any] = set()
        places = {id(leaf): i for i, leaf in enumerate(self.part.leaves)}
        seen, stack = {place}, [place]
        while stack:
            i = stack.pop()
            found.update(*self.at_first[i], *self.in_a_step[i])
            more = {places[id(t)] for t in self.in_a_step[i][1] if id(t) in places} - seen
            seen |= more
            stack += more
        return found

    def answer(self, question: Question) -> None:
        """An error if gradients are lost; those of a loop around this one are asked there."""
        inner, outer = self.inner, self.inner.outer
        place = [id(leaf) for leaf in self.part.leaves].index(id(question.leaf))
        found, targets = self.of(place), question.targets
        outside = {e for e in found if self.is_outside(e)}
        if targets is not None:
            lost = bool(outside.intersection(targets)) or self.made_of_another(place, targets)
        else:
            lost = any([isinstance(e, Tensor) and owner_of(outer, e) is None for e in outside])
        if lost:
            raise question.refusal()
        for e in outside:
            owner = owner_of(outer, e)
            if owner is not None and owner is not inner:
                owner.questions.append(Question(e, targets, question.line))

    def is_outside(self, e: Any) -> bool:
        if isinstance(e, Tensor):
            return not self.inner.made(e)
        return e.sequence < self.inner.begin

    def made_of_another(self, place: int, targets: Any) -> bool:
        """Whether a value is made of another one that the step is given, and asked for."""
        for i, e in enumerate(self.part.starts):
            if i == place or e is None or e not in targets:
                continue
            if self.first[i] is not None and self.first[i] in set().union(*self.at_first[place]):
                return True
            last = self.last[i]
            if last is not None and last in set().union(*self.in_a_step[place]):
                return True
            if last is e and e in self.of(place):
                return True
        return False


def owner_of(trace: Trace, e: Any) -> Inner | None:
    """The trace of the loop that gives a leaf to its steps."""
    return trace.owner_of(e) if isinstance(trace, Inner) else None


def use_up(trace: Trace, parts: Sequence[Part]) -> None:
    """What parts have differentiated outside, and not retained, is used up after them."""
    for part in parts:
        for node, passed in part.inner.passed.items():
            trace.go_through(node, passed.retained)
            if node.plan.keeps and not passed.retained:
                free(trace, node, passed.line)


def free(trace: Trace, node: TapeNode, line: str) -> None:
    node.saved, node.outputs, node.attrs = FREED, None, NO_ATTRS
    trace.spent[node] = line


class Spent(Function):
    """The history of a result whose own one a branch or loop has used up."""

    @staticmethod
    def forward(ctx: Any, results: list[Tensor], *made_of: Tensor) -> Any:
        ctx.save_for_backward(*results)
        return results[0]


def spend(trace: Trace, t: Tensor, made_of: Sequence[Tensor]) -> None:
    """Gives a result the history of one that cannot be differentiated any more."""
    if local.state.grad and t.dtype.is_floating_point:
        Spent.apply([t], *made_of)
        if isinstance(t._history, TapeNode):
            free(trace, t._history, trace.place())
