"""Compiling a program while it is still being put together.

LLVM takes longest, and needs no interpreter: it compiles the first kernels on other threads while
Python writes the next ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from weakref import WeakValueDictionary

from rushlight.codegen.llvm import module
from rushlight.runtime import natives
from rushlight.runtime.cache import object_code
from rushlight.runtime.jit import load
from rushlight.runtime.program import KernelStep, Program
from rushlight.runtime.tasks import Task, Tasks

ENOUGH = 1 << 16  # characters of kernels that are compiled together


class Module:
    """Kernels in memory, with their object code; programs that are alike share modules."""

    __slots__ = ("__weakref__", "code", "library", "names")

    def __init__(self, names: Sequence[str], code: bytes) -> None:
        self.names, self.code, self.library = names, code, load([code])
        for name in names:
            _known.setdefault(name, self)


_known: WeakValueDictionary[str, Module] = WeakValueDictionary()  # by the names of kernels


class Workshop(Tasks):
    """Compiles kernels, and functions that all programs share, as they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()
        self.texts: dict[str, str] = {}  # of kernels that wait for more of them
        self.found: dict[Module, None] = {}  # of other programs
        self.made: list[tuple[list[str], Task[bytes]]] = []

    def share(self, names: Iterable[str]) -> None:
        """Functions that all programs share will be needed."""
        for name in names:
            if name not in self.asked:
                self.asked.add(name)
                self.add(partial(natives.address, name))

    def kernel(self, name: str, text: str) -> None:
        """A kernel will be needed; its name says what its text is."""
        if name in self.asked:
            return
        self.asked.add(name)
        known = _known.get(name)
        if known is not None:
            self.found[known] = None
            return
        self.texts[name] = text
        if sum(map(len, self.texts.values())) >= ENOUGH:
            self.send()

    def send(self) -> None:
        """Has the kernels that wait compiled."""
        if self.texts:
            text = module(self.texts.values())
            self.made.append(([*self.texts], self.add(partial(object_code, text))))
            self.texts = {}

    def modules(self, program: Program) -> list[Module]:
        """All modules of a program that is ready."""
        for name, text in program.kernels.items():
            self.kernel(name, text)
        self.send()
        steps = [step for step in program.steps if isinstance(step, KernelStep)]
        self.share([step.name for step in steps if step.shared])
        self.share([name for name, shared in program.functions if shared])
        self.finish()
        return [*self.found, *[Module(names, task.result) for names, task in self.made]]
