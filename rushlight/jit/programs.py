"""The programs of one function or module, by the arguments that they are for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.errors import warn
from rushlight.graph.epoch import epoch
from rushlight.graph.ir import Graph, show_graph
from rushlight.graph.listener import held_back
from rushlight.jit.inline import inlined
from rushlight.jit.program import Mismatch, Program
from rushlight.jit.recording import record
from rushlight.jit.state import State
from rushlight.nn.module import Module
from rushlight.runtime.shapes import AnySize
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

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
        self.any_size = {mode: AnySize(None) for mode in (None, True, False)}
        self.starts_training = False  # the mode in which the programs of a file were saved
        self.methods: dict[str, Programs] = {}  # of a module, beside forward
        self.attributes: dict[str, Any] = {}  # of the module in a file
        self.left_out: dict[str, str] = {}  # what the file has not, and why
        self.looked: object = None  # the epoch in which the modules were looked at
        self.parts: dict[str, Any] = {}  # the modules, with hooks, that were recorded first
        self.others: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inside = local.state.trace is not None
        if self.function is not None and (inside or config.disable_compile):
            return self.function(*args, **kwargs)
        self.look()
        reasons = []
        for program in self.list:
            if self.is_for_mode(program):
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

    def cast(
        self, values: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Arguments as the programs want them: floats of another precision are converted."""
        kinds: dict[int | str, set[dtypes.dtype]] = {}
        for program in self.list:
            for i, (name, shape) in enumerate(program.border.arguments):
                kind = program.graph.inputs[shape[1]].type.dtype if shape[0] == "tensor" else None
                if kind is not None and kind.is_floating_point:
                    for key in (i, name):
                        kinds.setdefault(key, set()).add(kind)

        def converted(key: int | str, x: Any) -> Any:
            wanted = kinds.get(key, ())
            floating = isinstance(x, Tensor) and x.is_floating_point()
            return x.to(*wanted) if floating and len(wanted) == 1 else x

        positional = [converted(i, x) for i, x in enumerate(values)]
        return positional, {name: converted(name, x) for name, x in named.items()}

    def why(self, reasons: list[str]) -> str:
        """Why no program serves a call."""
        if not reasons and self.odd:
            return (
                f"{self.odd[0]} is in another mode than the whole: the file has programs for "
                "training, and for evaluation, of all"
            )
        if not reasons:
            mode = "training" if self.training else "evaluation"
            return f"it was saved without a program for {mode} mode"
        *others, last = dict.fromkeys(reasons)
        return "; or ".join([*others, last])

    @property
    def training(self) -> bool | None:
        return None if self.module is None else self.module.training

    @property
    def odd(self) -> tuple[str, ...]:
        """The modules inside that are in another mode than the whole."""
        self.look()
        return self.others

    def look(self) -> None:
        """Looks at the modules, if one has changed: at their modes, and whether they are the same.

        Raises:
            RuntimeError: if they are not those any more that the programs were recorded of.
        """
        if self.module is None or self.looked is epoch.now:
            return
        now, whole = epoch.now, self.module.training
        if self.function is not None and self.list:
            self.check(parts_of(self.module))
        pairs = self.module.named_modules()
        self.others = tuple([name for name, inner in pairs if inner.training is not whole])
        self.looked = now

    def check(self, parts: dict[str, Any]) -> None:
        """An error if the modules are others than those that were recorded."""
        for name in (*self.parts, *parts):
            if parts.get(name) != self.parts.get(name):
                raise RuntimeError(
                    f"{self.name}{f'.{name}' if name else ''} is another module, or has other "
                    "hooks, than when it was traced, and the program would stay as it is: change "
                    "modules and their hooks before rl.jit.trace or rl.jit.script, or trace again"
                )

    def is_for_mode(self, program: Program) -> bool:
        """Whether a program is for the modes of the modules as they are now."""
        training = program.border.training
        return training is None or (training is self.training and program.odd == self.odd)

    def record(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        """Adds the program for such arguments."""
        assert self.function is not None
        parameters = [] if self.module is None else list(self.module.parameters())
        any_size = self.any_size[self.training]
        program = record(self.function, args, kwargs, self.state, parameters, any_size)
        if self.module is not None and not self.list:
            self.parts = parts_of(self.module)
        program.border.training, program.odd = self.training, self.odd
        self.list.append(program)
        self.examples.append((args, kwargs))
        return program

    def complete(self) -> list[Program]:
        """All programs that a file needs: those for other sizes, and for the other mode, too."""
        if self.function is None:
            return self.list
        if not self.list:
            raise TraceError(
                f"{self.name} has no program yet: call it once with an example, or use "
                "rl.jit.trace(f, example)"
            )
        found = [program for program in self.list if not program.odd]
        for args, kwargs in self.examples:
            for mode in (self.training,) if self.module is None else (True, False):
                found += self.recorded_in(mode, args, kwargs)
        exact = [program for program in found if not program.border.symbols]
        general = [program for program in found if program.border.symbols]
        programs = joined([*exact, *general])
        if self.odd and any([p.border.training is not None for p in programs]):
            raise TraceError(
                f"{self.name}: {self.odd[0]} is in another mode than the whole, but a file has "
                "programs for training, and for evaluation, of all: call train() or eval() first"
            )
        return programs

    def recorded_in(
        self, mode: bool | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> list[Program]:
        """The programs of a call in one mode: for its sizes, and for all."""
        assert self.function is not None
        found = []
        parameters = [] if self.module is None else list(self.module.parameters())
        try:
            with switched(self.module, mode), held_back(shown=False):
                for any_size in (None, True):
                    made = record(self.function, args, kwargs, self.state, parameters, any_size)
                    made.border.training = mode
                    found.append(made)
        except Exception as error:  # batch norm of one sample, say
            if not any([program.border.training is mode for program in (*self.list, *found)]):
                name = "training" if mode else "evaluation"
                warn(f"{self.name} is saved without a program for {name} mode: {error}")
        return found

    def method(self, name: str) -> Programs:
        """The programs of another method of the module."""
        if name not in self.methods:
            function = getattr(self.module, name)
            self.methods[name] = Programs(function, f"{self.name}.{name}", self.state, self.module)
        return self.methods[name]

    def named(self) -> dict[str, list[Program]]:
        """All programs that a file needs, by methods; those that have none are warned of."""
        found = {"forward": self.complete()}
        for name, inner in self.methods.items():
            if inner.list:
                found[name] = inner.complete()
            else:
                self.left_out[name] = "a method that was never called"
                warn(
                    f"{inner.name} is exported, but not saved: it has no program yet. Call it once "
                    "with an example, or use rl.jit.trace_module"
                )
        return found

    @property
    def first(self) -> Program:
        """The program for the present mode that was made first."""
        fitting = [p for p in self.list if self.is_for_mode(p)]
        if not (fitting or self.list):
            raise TraceError(f"{self.name} has no program yet: call it once with an example")
        return (fitting or self.list)[0]

    @property
    def graph(self) -> Graph:
        """The graph of that program, without gradients."""
        return self.first.forward_graph


def parts_of(module: Module) -> dict[str, Any]:
    """The modules inside by name, each with the hooks that it has."""
    return {
        name: (
            inner,
            [*inner._forward_hooks, *inner._forward_pre_hooks],
            [*inner._backward_hooks, *inner._backward_pre_hooks],
        )
        for name, inner in module.named_modules(remove_duplicate=False)
    }


def joined(programs: list[Program]) -> list[Program]:
    """Each program once; one that does the same in both modes is for both."""
    found: dict[Any, Program] = {}
    for program in programs:
        first = found.setdefault(essence(program), program)
        if first.border.training not in (None, program.border.training):
            border = replace(first.border, training=None)
            found[essence(program)] = Program(first.graph, border, first.state)
    return list(found.values())


def essence(program: Program) -> str:
    """What two programs have in common that do the same, whatever their modes are."""
    names = [(name, 0) for name, _ in program.border.symbols]
    border = replace(program.border, training=None, symbols=names)
    return f"{border}\n{show_graph(program.graph, sources=False)}"


@contextmanager
def switched(module: Module | None, training: bool | None) -> Iterator[None]:
    """A block in which a module is in another mode."""
    if module is None or training is module.training:
        yield
        return
    before = [(inner, inner.training) for inner in module.modules()]
    module.train(bool(training))
    try:
        yield
    finally:
        for inner, mode in before:
            inner.training = mode
