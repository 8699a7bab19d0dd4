"""The epoch of modules: it ends whenever a module of the process changes, so that who looked at
a whole network in this epoch need not look again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Epoch:
    """``now`` is an object of its own in each epoch: two epochs can never be mistaken."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = object()

    def end(self) -> None:
        """To be called after a change, not before it: another thread may look in between."""
        self.now = object()


epoch = Epoch()


class Entries(dict[K, V]):
    """The parameters, buffers or children of a module: a dict whose changes end the epoch.

    >>> before, entries = epoch.now, Entries(weight=1)
    >>> epoch.now is before
    True
    >>> entries["weight"] = 2
    >>> epoch.now is before
    False
    """


def telling(change: Callable[..., Any]) -> Callable[..., Any]:
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return change(self, *args, **kwargs)
        finally:
            epoch.end()

    return changed


for _name in (
    "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
):  # fmt: skip
    setattr(Entries, _name, telling(getattr(dict, _name)))
