"""The programs of one function or module, by the arguments that they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.graph.ir import Graph, show_graph
from rushlight.jit.inline import inlined
from rushlight.jit.program import Mismatch, Program
from rushlight.jit.recording import record
from rushlight.jit.state import State
from rushlight.nn.module import Module
from rushlight.symbol import TraceError

Example = tuple[tuple[Any, ...], Mapping[str, Any]]


class Programs:
    """Programs that share their state; a call runs the one that is for its arguments.

    Args:
        function: what is recorded when arguments come that no program is for; programs of a file
            have none.
        module: whose mode, training or not, decides as well.
    """

    def __init__(
        self,
        function: Callable[..., Any] | None,
        name: str,
        state: State,
        module: Module | None = None,
    ) -> None:
        self.function, self.name, self.state, self.module = function, name, state, module
        self.list: list[Program] = []
        self.examples: list[Example] = []  # arguments that the programs were recorded with
        self.starts_training = False  # the mode in which the programs of a file were saved

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inside = local.state.trace is not None
        if self.function is not None and (inside or config.disable_compile):
            return self.function(*args, **kwargs)
        reasons = []
        for program in self.list:
            if program.border.training in (None, self.training):
                try:
                    given = program.given(args, kwargs)
                except Mismatch as error:
                    reasons.append(str(error))
                    continue
                return inlined(program, given) if inside else program.run(given)
        if self.function is None:
            raise Mismatch(f"{self.name}(): {self.why(reasons)}")
        program = self.record(args, kwargs)
        return program.run(program.given(args, kwargs))

    def why(self, reasons: list[str]) -> str:
        """Why no program serves a call."""
        if not reasons:
            mode = "training" if self.training else "evaluation"
            return f"it was saved without a program for {mode} mode"
        *others, last = dict.fromkeys(reasons)
        return "; or ".join([*others, last])

    @property
    def training(self) -> bool | None:
        return None if self.module is None else self.module.training

    def record(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        """Adds the program for such arguments."""
        assert self.function is not None
        parameters = [] if self.module is None else list(self.module.parameters())
        program = record(self.function, args, kwargs, self.state, parameters)
        program.border.training = self.training
        self.list.append(program)
        self.examples.append((args, kwargs))
        return program

    def both_modes(self) -> list[Program]:
        """The programs, and those of the other mode of the module where they differ."""
        if self.module is None or self.function is None:
            return self.list
        if not self.list:
            raise TraceError(
                f"{self.name} has no program yet: call it once with an example, or use "
                "rl.jit.trace(module, example)"
            )
        found: list[Program] = []
        for program, (args, kwargs) in zip(self.list, self.examples, strict=True):
            found.append(program)
            with switched(self.module, not program.border.training):
                try:
                    other = record(
                        self.function, args, kwargs, self.state, list(self.module.parameters())
                    )
                except Exception:  # batch norm of one sample, say: this mode alone is saved
                    continue
            other.border.training = not program.border.training
            if is_same(program, other):
                found[-1] = Program(program.graph, with_mode(program, None), self.state)
            else:
                found.append(other)
        return unique(found)

    @property
    def first(self) -> Program:
        """The program for the present mode that was made first."""
        fitting = [p for p in self.list if p.border.training in (None, self.training)]
        if not (fitting or self.list):
            raise TraceError(f"{self.name} has no program yet: call it once with an example")
        return (fitting or self.list)[0]

    @property
    def graph(self) -> Graph:
        """The graph of that program, without gradients."""
        return self.first.forward_graph


def with_mode(program: Program, training: bool | None) -> Any:
    border = program.border
    fields = {name: getattr(border, name) for name in type(border).__slots__}
    return type(border)(**{**fields, "training": training})


def is_same(one: Program, other: Program) -> bool:
    """Whether two programs do the same, whatever their modes are."""
    borders = with_mode(one, None) == with_mode(other, None)
    return borders and text(one) == text(other)


def unique(programs: list[Program]) -> list[Program]:
    """The programs without those that do what an earlier one does in the same mode."""
    found: list[Program] = []
    for program in programs:
        mode = program.border.training
        if not any([is_same(program, p) and p.border.training in (None, mode) for p in found]):
            found.append(program)
    return found


def text(program: Program) -> str:
    return show_graph(program.graph, sources=False)


@contextmanager
def switched(module: Module, training: bool) -> Iterator[None]:
    """A block in which a module is in another mode."""
    before = [(inner, inner.training) for inner in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for inner, mode in before:
            inner.training = mode
