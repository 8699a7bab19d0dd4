"""Numbers of the host program inside a trace: a learning rate that a schedule changes each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.symbol import Symbol
from rushlight.tensor import Tensor

Decide = Callable[[Callable[[], Any], Any], None]


class Host(Tensor):
    """A Python float as a 0-d tensor that is read anew at each call of the compiled function.

    Arithmetic with it is part of the graph. A comparison with a number, or its truth, is answered
    at once, and becomes a condition of the graph: if the answer changes, another graph is made.
    """

    read: Callable[[], float]
    decide: Decide

    __hash__ = Tensor.__hash__


def host(symbol: Symbol, read: Callable[[], float], decide: Decide) -> Host:
    """The number that ``read`` returns, now standing for ``symbol``."""
    t = object.__new__(Host)
    t._array, t.read, t.decide = symbol, read, decide
    return t


def relation(name: str) -> Callable[[Host, Any], Any]:
    compare = getattr(float, name)
    general = getattr(Tensor, name)

    def answer(self: Host, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return general(self, other)
        limit = float(other)
        found = compare(float(self.read()), limit)
        self.decide(lambda: compare(float(self.read()), limit), found)
        return found

    return answer


def truth(self: Host) -> bool:
    found = bool(self.read())
    self.decide(lambda: bool(self.read()), found)
    return found


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Host, _name, relation(_name))
setattr(Host, "__bool__", truth)  # noqa: B010 - the stub of Tensor knows another signature
