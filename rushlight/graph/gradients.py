"""The gradients of a trace: which ones are read, made and replaced, and where they may go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from rushlight.autograd.tape import Node as TapeNode
from rushlight.autograd.tape import below
from rushlight.errors import user_line
from rushlight.graph.joins import Joins, refuse_joined
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor


class Gradients:
    """The part of a trace that ``backward()``, ``grad()`` and ``.grad`` ask."""

    def __init__(self) -> None:
        self.begun = False  # whether an op was run
        self.kept: dict[int, tuple[Tensor, dict[str, Any]]] = {}
        self.grads_of: dict[int, Tensor] = {}  # gradient tensors that were there before, by id
        self.grads_read: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.grads_set: set[int] = set()
        self.unsure: set[int] = set()  # tensors that have a gradient on some ways only
        self.grads_dropped: list[Tensor] = []  # whose gradients are replaced before anything else
        self.cut: dict[int, Any] = {}  # edges of tensors whose history lies outside
        self.spent: dict[TapeNode, str] = {}  # what branches have used up, and where
        self.joins: Joins = {}

    def touch(self, t: Tensor) -> None:
        """Remembers a tensor that is about to change."""
        raise NotImplementedError

    def made(self, t: Tensor) -> bool:
        """Whether ``t`` was made by the traced function."""
        raise NotImplementedError

    def place(self) -> str:
        """The user's line."""
        raise NotImplementedError

    def read_gradient(self, t: Tensor) -> Tensor | None:
        """``t._grad``, for the function; an error if only values tell whether there is one."""
        if id(t) in self.unsure:
            raise TraceError(
                f"a gradient is needed at {self.place()} that only one way of a branch has made: "
                "call optimizer.step() inside the branch, after backward()"
            )
        return self.meet_gradient(t)

    def meet_gradient(self, t: Tensor) -> Tensor | None:
        """``t._grad``, which becomes part of what the graph depends on."""
        g = t._grad
        if id(t) not in self.grads_set and not self.made(t):
            self.grads_read[id(t)] = (t, g)
            if g is not None:
                self.grads_of[id(g)] = t
        return g

    def set_gradient(self, t: Tensor) -> None:
        """``t._grad`` is about to be replaced: what it was before no longer matters."""
        if not self.begun:
            self.grads_dropped.append(t)
        self.touch(t)
        self.grads_set.add(id(t))
        self.unsure.discard(id(t))

    def arrive(self, leaf: Tensor) -> bool:
        """The gradient of ``leaf`` is about to be added to: whether it is."""
        if id(leaf) in self.cut:
            raise cut_off()
        self.meet_gradient(leaf)
        self.set_gradient(leaf)
        return True

    def beyond(self, e: Any) -> Any:
        """Where a gradient goes that comes to the edge ``e``: on, if it is one of a branch."""
        return e

    def ask(self, starts: Sequence[Any], targets: Collection[Any]) -> None:
        """Gradients of ``starts`` are asked for; an error if they lie beyond what is traced."""
        _, leaves = below(starts, self.beyond)
        outside = [self.cut[id(leaf)] for leaf in leaves if id(leaf) in self.cut]
        if any([e in targets for several in below(outside) for e in several]):
            raise cut_off()
        refuse_joined(self.joins, starts, targets, self.beyond)

    def refuse_unused(self) -> None:
        """An error if the gradient that was not found may lie beyond what is traced."""

    def go_through(self, node: TapeNode, retained: bool) -> None:
        """A gradient goes through a node of the tape, which is used up unless it is retained."""

    def refuse_spent(self, node: TapeNode) -> TraceError:
        return TraceError(
            f"backward() at {user_line()} goes through what the branch or loop at "
            f"{self.spent[node]} has already differentiated, if it ran, which a graph cannot "
            "follow: call backward(retain_graph=True) there, or compute the loss again"
        )

    def with_gradients(self) -> list[Tensor]:
        """The tensors of outside that have a gradient now."""
        found = [t for t, _ in (*self.kept.values(), *self.grads_read.values())]
        return [t for t in found if t._grad is not None and not self.made(t)]


def cut_off() -> TraceError:
    return TraceError(
        f"backward() or grad() at {user_line()} would go on into a graph made outside the compiled "
        "function: pass a detached tensor, or call it outside"
    )
