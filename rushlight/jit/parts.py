"""The modules inside a program: they hold its tensors, and what it computes is one graph.

So nothing but a tensor can be exchanged in them: the program would not notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from rushlight.graph.epoch import Entries
from rushlight.nn.hooks import Hook, Hooks
from rushlight.nn.module import Module


class Part(Module):
    """A module inside a program.

    >>> part = Part()
    >>> part.register_forward_hook(print)
    Traceback (most recent call last):
    RuntimeError: a module inside a program cannot have hooks: ...
    """

    def forward(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "a module inside a program cannot be called: it holds tensors of the program, which is "
            "one graph. Call the whole"
        )

    def _add(self, hooks: Hooks, hook: Hook, prepend: bool = False) -> NoReturn:
        raise RuntimeError(
            "a module inside a program cannot have hooks: it holds tensors of the program, which "
            "is one graph. Register them on the whole, or on the module before it is traced or "
            "exported"
        )


class Fixed(Entries[str, Any]):
    """The children of a module that runs as a program: those that it has now are there to stay.

    Args:
        entries: the children.
        cure: what to do instead of changing them, for errors.
        grows: whether there may be others beside them.

    >>> children = Fixed({"fc": Part()}, "change the file")
    >>> children["fc"] = rl.nn.Identity()
    Traceback (most recent call last):
    RuntimeError: 'fc' cannot be replaced: ... change the file
    """

    def __init__(self, entries: Mapping[str, Any], cure: str, grows: bool = False) -> None:
        super().__init__(entries)
        self.names, self.cure, self.grows = frozenset(entries), cure, grows

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self.names:
            if not self.grows:
                raise self.refusal(name, "added")
        elif self.get(name, value) is not value:  # a copy that is being filled has none yet
            raise self.refusal(name, "replaced")
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.pop(name)

    def pop(self, name: str, *default: Any) -> Any:
        if name in self.names:
            raise self.refusal(name, "taken away")
        return super().pop(name, *default)

    def refusal(self, name: str, what: str) -> RuntimeError:
        return RuntimeError(
            f"{name!r} cannot be {what}: a program is one graph, whose modules only hold its "
            f"tensors, and the graph would stay as it is. Instead, {self.cure}"
        )


def fix(module: Module, cure: str, grows: bool = False) -> None:
    """Keeps the modules inside ``module`` as they are."""
    for inner in module.modules():
        inner.__dict__["_modules"] = Fixed(inner._modules, cure, grows)
