"""What the programs of a function or module share: tensors by name, numbers, generators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.graph.epoch import epoch
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.random import Generator, default_generator
from rushlight.tensor import Tensor

ROLES = ("parameter", "buffer", "transient", "state")
"""A parameter or buffer of a module, one that ``state_dict`` leaves out, or any other tensor."""

DEEPEST = 100  # modules inside one another
TAKEN = frozenset((*dir(Module), *vars(Module())))  # what no tensor or module inside can be called


class State:
    """Tensors that programs capture, each once, though it may have several names.

    Those of a module are looked up in it, so that one that is replaced there is replaced here.
    """

    def __init__(self, module: Module | None = None) -> None:
        self.tensors: list[Tensor] = []
        self.names: list[tuple[str, int, str]] = []  # name, number of the tensor, role
        self.homes: list[tuple[dict[str, Any], str, int]] = []
        self.numbers: dict[str, float] = {}
        self.readers: dict[str, list[Callable[[], float]]] = {}  # where Python still has them
        self.read: dict[str, float] = {}
        self.generators: list[Generator] = []
        self.seen: object = epoch.now
        if module is not None:
            self.take(module)

    def take(self, module: Module) -> None:
        """Adds all parameters and buffers of a module."""
        for path, inner in module.named_modules(remove_duplicate=False):
            prefix = f"{path}." if path else ""
            transient = inner._non_persistent_buffers_set
            for entries, role in ((inner._parameters, "parameter"), (inner._buffers, "buffer")):
                for name, t in entries.items():
                    if t is not None:
                        own = "transient" if name in transient else role
                        number = self.place(t, prefix + name, own)
                        self.homes.append((entries, name, number))

    def place(self, t: Tensor, name: str, role: str) -> int:
        """The number of a tensor, which gets one more name."""
        number = self.number(t)
        if number is None:
            number = len(self.tensors)
            self.tensors.append(t)
        taken = {known for known, _, _ in self.names}
        self.names.append((free_name(name, taken), number, role))
        return number

    def number(self, t: Tensor) -> int | None:
        return next((i for i, known in enumerate(self.tensors) if known is t), None)

    def captured(self, t: Tensor, name: str) -> int:
        """The number of a tensor that a program captures; a new one gets this name."""
        number = self.number(t)
        return self.place(t, name, "state") if number is None else number

    def generator(self, generator: Any) -> int:
        """The number of a generator that a program draws from."""
        if generator not in self.generators:
            self.generators.append(generator)
        return self.generators.index(generator)

    def follow(self, readers: Mapping[str, list[Callable[[], float]]]) -> None:
        """Numbers of the Python program that was recorded, such as the rate of an optimizer."""
        self.readers.update(readers)
        self.refresh()

    def refresh(self) -> None:
        """Takes over the numbers that Python has changed since it was asked last."""
        for name, readers in self.readers.items():
            value, *others = [float(read()) for read in readers]
            if any([other != value for other in others]):
                raise RuntimeError(
                    f"{name}: two numbers that were equal when the program was recorded have "
                    "become different: record it again"
                )
            if self.read.get(name) != value:
                self.numbers[name] = self.read[name] = value

    def current(self) -> list[Tensor]:
        """All tensors, as they are now."""
        if self.seen is not epoch.now:
            self.seen = epoch.now
            for entries, name, number in self.homes:
                found = entries.get(name)
                if found is None:
                    raise RuntimeError(
                        f"{self.name_of(number)} was taken away, but the program needs it: trace "
                        "the module again"
                    )
                if found is not self.tensors[number]:
                    self.tensors = [*self.tensors]  # others may hold the old list
                    self.tensors[number] = found
        return self.tensors

    def name_of(self, number: int) -> str:
        return next(name for name, own, _ in self.names if own == number)

    def tree(self, kind: Callable[[], Module]) -> Module:
        """Modules in which the tensors have their names; from now on they live there."""
        root = kind()
        for name, number, role in self.names:
            *path, last = name.split(".")
            module = root
            for part in path:
                if module._modules.get(part) is None:
                    module.add_module(part, kind())
                module = module._modules[part]  # type: ignore[assignment]
            t = self.tensors[number]
            if isinstance(t, Parameter):
                module.register_parameter(last, t)
                self.homes.append((module._parameters, last, number))
            else:
                module.register_buffer(last, t, role != "transient")
                self.homes.append((module._buffers, last, number))
        return root


def free_name(name: str, taken: set[str]) -> str:
    """``name``, or one like it: the names of a file are those of a tree, whose leaves differ."""
    free, count = name, 2
    while free.rpartition(".")[2] in TAKEN or any(
        [
            free == other or free.startswith(f"{other}.") or other.startswith(f"{free}.")
            for other in taken
        ]
    ):
        free, count = f"{name}_{count}", count + 1
    return free


def check_names(names: Sequence[str]) -> None:
    """An error unless there can be modules in which tensors have these names."""
    known = set(names)
    for name in names:
        parts = name.split(".")
        inside = {".".join(parts[:i]) for i in range(1, min(len(parts), DEEPEST))}
        wrong = len(parts) > DEEPEST or not all(parts) or not TAKEN.isdisjoint(parts)
        if wrong or not known.isdisjoint(inside):
            raise ValueError(f"{name!r:.40} is no name of a tensor")
    if len(known) != len(names):
        raise ValueError("two tensors have one name")


def is_default(generator: Generator) -> bool:
    return generator is default_generator
