"""What a compiled function became: its steps, what they cost, and which lines they come from.

Nothing outside changes: the function is traced without effects, and programs are measured on
copies of all that they write to.
"""

from __future__ import annotations

import functools
import math
import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.codegen import chains, fill
from rushlight.codegen.kernel import Kernel
from rushlight.codegen.listing import listing
from rushlight.codegen.loops import lower
from rushlight.codegen.shared import text_of
from rushlight.errors import PACKAGE
from rushlight.graph.arguments import Arguments
from rushlight.graph.ir import ITEM, Graph, Node, Source
from rushlight.passes.fuse import Group
from rushlight.passes.order import Plan
from rushlight.runtime.assembly import links_of
from rushlight.runtime.control import found_inside, still_inside
from rushlight.runtime.costs import HEADS, Cost, call_cost, kernel_cost, nbytes, table_flops
from rushlight.runtime.executable import Executable
from rushlight.runtime.jit import target
from rushlight.runtime.measure import Spent, measure
from rushlight.runtime.natives import registers
from rushlight.runtime.page import page, step_table
from rushlight.runtime.program import (
    CallStep,
    CopyStep,
    CountStep,
    GrowStep,
    JumpStep,
    KernelStep,
    RowStep,
    Slot,
)
from rushlight.runtime.specialization import Call, Specialization, specialize
from rushlight.runtime.table import text
from rushlight.symbol import TraceError


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a program: a kernel, a library call or a copy.

    ``lines`` are the user's lines that it comes from, with the part that each has in its results.
    """

    number: int
    program: str  # "forward" or "backward"
    kind: str  # "kernel", "call", "copy" or "jump"
    what: str
    space: tuple[int, ...]  # the sizes of its loops, or of its result
    cost: Cost  # of all runs: a step of a loop has many, one of another branch none
    measured: float  # seconds
    share: float  # of the time of all steps
    lines: Mapping[Source | None, float]
    origin: int | None = None  # the step of the plan
    path: tuple[tuple[int, int], ...] = ()  # the graph inside branches and loops that has the plan
    chained: tuple[int, ...] = ()  # the steps of the plan that are done with it, row by row
    function: str = ""  # the native function of a kernel
    loops: str = ""
    code: str = ""  # its LLVM assembly
    early: bool = False  # runs only if what is captured has changed, and counts in no sum

    @property
    def estimated(self) -> float:
        """The least seconds that the machine could need, by what it can do at best.

        What was measured is possible: a machine that did less when its best was measured did not
        do that.
        """
        return min(self.cost.seconds, self.measured or math.inf)

    @property
    def line(self) -> Source | None:
        """The user's line that most of the step comes from."""
        return next((line for line in self.lines if line is not None), None)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all steps, and what compiling took."""

    steps: int = 0
    kernels: int = 0
    functions: int = 0  # kernels that are equal are one native function
    calls: int = 0
    copies: int = 0
    arena: int = 0  # bytes of memory for what lies between steps
    kept: int = 0  # and between calls
    moved: int = 0
    flops: int = 0
    measured: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)  # seconds
    was_kept: bool = False  # in the disk cache, where all programs came from


@dataclass(frozen=True)
class Explanation:
    """The steps of a compiled function; ``print`` shows a table, :meth:`save` makes a page.

    ``refused`` says why there are none, if the function cannot be traced.
    """

    name: str
    steps: tuple[Step, ...] = ()
    totals: Totals = field(default_factory=Totals)
    programs: Mapping[str, Executable] = field(default_factory=dict)
    refused: str = ""

    def __str__(self) -> str:
        return text(self)

    def __repr__(self) -> str:
        return f"<explanation of {self.name}: {self.totals.steps} steps>"

    def _repr_html_(self) -> str:
        return step_table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a page for a browser: the table, the graph, loops and code of each kernel.

        What is called ``*.txt`` is the table alone, as it is printed.
        """
        name = os.fspath(path)
        if name.endswith(".txt"):
            contents = f"{self}\n"
        elif name.endswith((".html", ".htm")):
            contents = page(self)
        else:
            raise ValueError(
                f"save: expected a name that ends with .html (page) or .txt (table), got {name!r}"
            )
        with open(path, "w", encoding="utf-8") as file:
            file.write(contents)

    def by_line(self) -> dict[Source | None, float]:
        """The seconds that come from each line, most first: a step's go by what it makes there."""
        found: Counter[Source | None] = Counter()
        for step in [step for step in self.steps if not step.early]:
            for line, part in step.lines.items():
                found[line] += part * step.measured  # type: ignore[assignment]
        return dict(found.most_common())


def explain(
    name: str, function: Callable[..., Any], arguments: Arguments, lifted: set[int]
) -> Explanation:
    """Compiles a function for these arguments and measures every step."""
    try:
        made = specialize(function, arguments, lifted)
    except TraceError as error:
        return Explanation(name, refused=reason(error))
    programs = {"forward": made.forward}
    if made.backward is not None:
        programs["backward"] = made.backward
    phases: Counter[str] = Counter({"trace": made.seconds})
    for program in programs.values():
        phases.update(program.seconds)
    times = measure_all(made, arguments)
    pairs = zip(programs.values(), times, strict=True)
    late = [t.seconds for one, part in pairs for t in part[one.program.early :]]
    whole = sum(late) or math.inf
    steps = [
        step
        for (label, program), part in zip(programs.items(), times, strict=True)
        for step in Reader(label, program, part, whole).steps()
    ]
    return Explanation(name, tuple(steps), totals(steps, programs.values(), phases), programs)


def reason(error: TraceError) -> str:
    """Why and where a function cannot be traced."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(PACKAGE)]
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    return str(error) if not place or place in str(error) else f"{place}: {error}"


def totals(
    steps: Sequence[Step], programs: Iterable[Executable], phases: Mapping[str, float]
) -> Totals:
    kinds = Counter([step.kind for step in steps])
    late = [step for step in steps if not step.early]
    return Totals(
        steps=len(steps),
        kernels=kinds["kernel"],
        functions=len({step.function for step in steps if step.function}),
        calls=kinds["call"],
        copies=kinds["copy"],
        arena=sum([program.program.arena for program in programs]),
        kept=sum([program.program.kept for program in programs]),
        moved=sum([step.cost.moved for step in late]),
        flops=sum([step.cost.flops or 0 for step in late]),
        measured=sum([step.measured for step in late]),
        phases=dict(phases),
        was_kept=all([program.was_kept for program in programs]),
    )


def measure_all(made: Specialization, arguments: Arguments) -> list[list[Spent]]:
    """What the steps of forward and, for tangents of ones, of backward take."""
    inputs = [t._array for t in arguments.tensors]
    captured = made.captured(arguments.tensors)
    times, outputs = measure(made.forward, inputs, captured)
    if made.backward is None:
        return [times]
    call = Call(made, arguments.tensors, inputs, captured)
    results = call.take(outputs)
    tangents = [np.ones_like(results[i]._array) for i in made.roots]
    return [times, measure(made.backward, [*call.kept, *tangents], captured)[0]]


class Reader:
    """Puts together what is known about each step of a program."""

    def __init__(
        self, label: str, executable: Executable, times: Sequence[Spent], whole: float
    ) -> None:
        self.label, self.executable, self.times, self.whole = label, executable, times, whole
        self.kernels: dict[Any, list[Kernel]] = {}  # of each step of the plan
        inputs = {node: f"input {i}" for i, node in enumerate(executable.graph.inputs)}
        self.names = {**executable.graph.names, **inputs}

    def steps(self) -> Iterator[Step]:
        for number, step in enumerate(self.executable.program.steps):
            if isinstance(step, KernelStep):
                about = self.shared(step) if step.shared else self.kernel(step)
            elif isinstance(step, CallStep):
                about = self.call(step)
            elif isinstance(step, (CopyStep, RowStep)):
                about = self.copy(step)
            else:
                about = self.control(step)
            seconds, runs = self.times[number]
            early = number < self.executable.program.early
            about["what"] = f"once: {about['what']}" if early else about["what"]
            about["cost"] = about["cost"].times(runs)
            share = 0.0 if early else seconds / self.whole
            yield Step(number, self.label, measured=seconds, share=share, early=early, **about)

    @functools.cache  # noqa: B019
    def inside(self, path: tuple[tuple[int, int], ...]) -> tuple[Graph, Plan]:
        """The graph that a step is of, and its plan."""
        return found_inside(self.executable.graph, self.executable.plan, path)

    def kernel(self, step: KernelStep) -> dict[str, Any]:
        _, plan = self.inside(step.path)
        group: Any = plan.steps[step.origin]
        key = (step.path, step.origin)
        if key not in self.kernels:
            late = [node for node in group.outputs if node in plan.stores]
            self.kernels[key] = lower(group, late)
        kernels = self.kernels[key]
        kernel = kernels[step.number]
        part = f" ({step.number + 1} of {len(kernels)})" if len(kernels) > 1 else ""
        return {
            "kind": "kernel",
            "what": title(group) + part,
            "space": space(kernel),
            "cost": kernel_cost(kernel),
            "lines": lines_of(group.nodes),
            "origin": step.origin,
            "path": step.path,
            "function": step.name,
            "loops": listing(kernel, self.names),
            "code": self.executable.kernel_text(step.name),
        }

    def shared(self, step: KernelStep) -> dict[str, Any]:
        """A function of all programs: a product, or packing for one and zeros, which only move."""
        about, slots = self.call(step), self.executable.program.slots
        what = about["what"]
        if step.name.startswith("pack"):
            about["cost"] = Cost(slots[step.slots[0]].nbytes, slots[step.slots[2]].nbytes, 0)
            what = f"pack for {what}"
        elif step.name.startswith("winograd"):
            about["cost"] = Cost(slots[step.slots[0]].nbytes, slots[step.slots[2]].nbytes, 0)
            what = f"points for {what}"
        elif step.name == fill.NAME:
            numbers = self.executable.program.constants[slots[step.slots[1]].place]
            written = step.parts * int(numbers[fill.FIELDS.index("run")])
            group: Any = self.inside(step.path)[1].steps[step.origin]
            about |= {"cost": Cost(0, written, 0), "lines": lines_of(group.nodes)}
            what = f"zeros for {title(group) if isinstance(group, Group) else what}"
        elif step.name == chains.NAME:
            return self.chain(step, about)
        elif step.name.partition("_")[0] in HEADS:
            a, b, head, y = [slots[i] for i in step.slots[:4]]
            table = self.executable.program.constants[head.place]
            flops = table_flops(step.name, table, step.parts)
            about["cost"] = Cost(a.nbytes + b.nbytes, y.nbytes, flops)
        code = text_of(step.name, registers())
        return {**about, "kind": "kernel", "what": what, "function": step.name, "code": code}

    def chain(self, step: KernelStep, about: dict[str, Any]) -> dict[str, Any]:
        """A product and the kernels that follow it row by row."""
        (_, plan), program = self.inside(step.path), self.executable.program
        links = self.links(step.path)[step.origin]
        names = [name for name, _ in [program.functions[s.place] for s in self.pointers(step)]]
        groups: list[Any] = [plan.steps[n] for n in links]
        kernels = [lower(g, [n for n in g.outputs if n in plan.stores])[0] for g in groups]
        cost = functools.reduce(Cost.plus, map(kernel_cost, kernels), about["cost"])
        lines = lines_of([n for g in (plan.steps[step.origin], *groups) for n in g.nodes])
        return {
            **about,
            "kind": "kernel",
            "what": " → ".join([about["what"], *map(title, groups)]),
            "chained": tuple(links),
            "cost": cost,
            "lines": lines,
            "function": ", ".join(names),
            "loops": "\n\n".join([listing(kernel, self.names) for kernel in kernels]),
            "code": "\n\n".join(map(self.executable.kernel_text, names[1:])),
        }

    @functools.cache  # noqa: B019
    def links(self, path: tuple[tuple[int, int], ...]) -> Mapping[int, Sequence[int]]:
        """The steps of a plan that are chained to a product."""
        graph, plan = self.inside(path)
        still = still_inside(graph) if path else self.executable.still
        return links_of(graph, plan, target(), still)

    def pointers(self, step: KernelStep) -> list[Slot]:
        slots = [self.executable.program.slots[n] for n in step.slots]
        return [slot for slot in slots if slot.where == "function"]

    def call(self, step: CallStep | KernelStep) -> dict[str, Any]:
        node: Any = self.inside(step.path)[1].steps[step.origin].nodes[0]
        first = node.type[0] if isinstance(node.type, tuple) else node.type
        return {
            "kind": "call",
            "what": node.op.name,
            "space": first.shape,
            "cost": call_cost(node),
            "lines": lines_of([node]),
            "origin": step.origin,
            "path": step.path,
        }

    def control(self, step: JumpStep | CountStep | GrowStep) -> dict[str, Any]:
        """A step of a branch or a loop."""
        match step:
            case JumpStep(number=number, to=to):
                what = f"to step {to} unless {number}"
            case CountStep(by=by):
                what = f"count {by:+}"
            case _:
                what = "room on a stack"
        return {
            "kind": "jump",
            "what": what,
            "space": (),
            "cost": Cost(8, 0, 0),
            "lines": {None: 1.0},
        }

    def copy(self, step: CopyStep | RowStep) -> dict[str, Any]:
        source = self.executable.program.slots[step.source]
        return {
            "kind": "copy",
            "what": f"{self.slot(step.source)} → {self.slot(step.target)}",
            "space": source.shape,
            "cost": Cost(source.nbytes, source.nbytes, 0),
            "lines": {None: 1.0},
        }

    def slot(self, number: int) -> str:
        """How the memory of a slot is called."""
        slot, graph = self.executable.program.slots[number], self.executable.graph
        if slot.where == "captured":
            return graph.names.get(graph.captured[slot.place]) or f"captured {slot.place}"
        return "value" if slot.where == "arena" else f"{slot.where} {slot.place}"


def title(group: Group) -> str:
    """What a group computes: its ops, each with how often it is there."""
    names = Counter([node.op.name for node in group.nodes if node.op is not ITEM])
    ops = ", ".join([f"{name} ×{n}" if n > 1 else name for name, n in names.items()])
    return f"{ops} → {len(group.outputs)} outputs" if len(group.outputs) > 1 else ops


def space(kernel: Kernel) -> tuple[int, ...]:
    """The sizes of the rows, and of the longest loops of a row."""
    part = kernel.window.part if kernel.window is not None else None
    inner = max(
        [[loop.size for loop in stage.loops] for stage in kernel.stages], key=math.prod, default=[]
    )
    return (*[loop.size for loop in kernel.rows if loop is not part], *inner)


def lines_of(nodes: Iterable[Node]) -> dict[Source | None, float]:
    """The lines that nodes come from, and the part of each in the bytes they make."""
    found: Counter[Source | None] = Counter()
    for node in nodes:
        if node.op is not ITEM:
            types = node.type if isinstance(node.type, tuple) else (node.type,)
            found[node.source] += max(1, nbytes(types))
    whole = sum(found.values())
    return {line: size / whole for line, size in found.most_common()}
