"""The variables around a branch or loop whose way only the graph knows.

They are found in the closures of its parts, given to each part as it is traced, and set in the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from rushlight.autograd.modes import local, set_grad_enabled
from rushlight.graph.script.forms import Form
from rushlight.graph.script.jumps import VALUE
from rushlight.graph.script.sharing import is_seen, symbols, tie
from rushlight.graph.watches import MISSING
from rushlight.symbol import Symbol, TraceError, root
from rushlight.tensor import LEAF, Tensor

Names = tuple[str, ...]
Values = dict[str, Any]


class Again(Exception):
    """A branch or step has given values of another form: it is traced once more."""


class Failed(BaseException):
    """The branch that is traced ends with an exception, raised at run time."""


class Flow:
    """The variables around a branch or loop whose way only the graph knows.

    Args:
        what: it is called in messages.
        line: its line.
        functions: its parts, in whose closures the variables are.
        assigned: which it assigns; ``live``, which of them matter afterwards; ``written``, whose
            objects it may change in place.
    """

    def __init__(
        self,
        what: str,
        line: int,
        functions: Sequence[Any],
        assigned: Names = (),
        live: Names = (),
        written: Names = (),
    ) -> None:
        self.cells: dict[str, CellType] = {}
        self.place = f"{what} at an unknown line"
        for function in functions:
            if isinstance(function, FunctionType):
                code = function.__code__
                self.place = f"{what} at {code.co_filename}:{line}"
                self.cells |= zip(code.co_freevars, function.__closure__ or (), strict=True)
        values = {name: self.get(name) for name in self.cells}
        self.held = [name for name in written if isinstance(values.get(name), Tensor)]
        self.names = sorted({*live, *self.held})
        self.before = {name: values[name] for name in {*assigned, *self.held} if name in values}
        self.forms: dict[str, Form] = {}
        self.rebound: set[str] = set()  # which of those held are assigned
        self.touched: set[str] = set()  # and which are written to, indeed
        self.recorded: set[str] = set()  # those whose histories know of it
        self.shares: dict[str, dict[Symbol, None]] = {}  # memory of outside that values may be
        self.idle: dict[str, list[Symbol]] = {}  # and memory that they are if no step is run
        self.moved: set[str] = set()  # which other variables are assigned
        self.aliases = self.find_aliases(values)
        self.held = [name for name in self.held if name not in self.aliases]

    length: Any = 0  # steps that are certain

    @property
    def runs(self) -> bool:
        """Whether a first step is certain; of a size that may change, that is decided now."""
        return bool(self.length)

    def find_aliases(self, values: Values) -> dict[str, str]:
        """Other variables of tensors that are changed in place; an error for views of them."""
        found, trace = {}, local.state.trace
        for name in self.held:
            t = values[name]
            for other, x in values.items():
                if isinstance(x, Tensor) and other != name and name not in found:
                    if x is t:
                        found[other] = name
                    elif root(trace.symbol(x)) is root(trace.symbol(t)):
                        raise TraceError(
                            f"{name!r} and {other!r} share memory, and one is written to in the "
                            f"{self.place}, which depends on tensors: clone() one of them"
                        )
        return found

    def add(self, name: str, value: Any) -> CellType:
        """One more variable."""
        cell = self.cells[name] = CellType()
        self.names.append(name)
        self.before[name] = value
        return cell

    def get(self, name: str) -> Any:
        try:
            return self.cells[name].cell_contents
        except ValueError:
            return MISSING

    def put(self, values: Values) -> None:
        for name, value in values.items():
            if value is not MISSING:
                self.cells[name].cell_contents = value
            elif self.get(name) is not MISSING:
                del self.cells[name].cell_contents

    def after(self, run: Callable[[], Any], values: Values) -> Values | None:
        """The variables after ``run()`` with the given ones; None if it raises at run time.

        What is changed in place is a copy, whose elements go to the tensor itself in the end.
        """
        twins = {name: values[name].clone() for name in self.held}
        histories = {name: twins[name]._history for name in self.held}
        twins |= {name: twins[of] for name, of in self.aliases.items()}
        outer = {name: self.get(name) for name in (*self.before, *self.aliases)}
        try:
            self.put({**self.before, **values, **twins})
            run()
            found = {name: self.get(name) for name in self.names}
            self.rebound |= {name for name in self.held if found[name] is not twins[name]}
            self.moved |= {n for n in self.aliases if self.get(n) is not twins[n]}
            self.touched |= {name for name in self.held if root(twins[name]._array).version}
            self.refuse_detours()
            self.recorded |= {n for n, h in histories.items() if twins[n]._history is not h}
            self.refuse_recorded()
            self.note_sharing(found, twins)
            return found
        except Failed:
            return None
        except (TraceError, Again, NameError):
            raise
        except Exception as error:
            raise TraceError(
                f"{type(error).__name__} in the {self.place}, of which tensors decide whether it "
                f"runs: {error}"
            ) from error
        finally:
            self.put(outer)

    def refuse_detours(self) -> None:
        """An error if memory that a variable writes to is used by way of another object, too."""
        trace = local.state.trace
        own = {id(self.before[name]) for name in self.held}
        others = [t for key, t in trace.outsiders.items() if key not in own]
        roots = {root(trace.outer.symbol(t)): None for t in others}
        for name in self.touched:
            if root(trace.outer.symbol(self.before[name])) in roots:
                raise TraceError(
                    f"{name!r} is written in place in the {self.place}, which depends on tensors, "
                    "and another tensor that shares its memory is used there: clone() one of them"
                )

    def refuse_recorded(self) -> None:
        """An error if a leaf is written to out of no_grad."""
        for name in self.recorded:
            if is_leaf(self.before[name]):
                raise TraceError(
                    f"{name!r}, a leaf that requires grad, is written in place in the "
                    f"{self.place}: update it inside `with no_grad():`"
                )

    def note_sharing(self, found: Values, twins: Values) -> None:
        """Remembers the memory of outside that values at the end of a part may be."""
        trace = local.state.trace
        memory = {name: symbols(value) for name, value in found.items()}
        outer = {inside: outside for outside, inside in trace.known.items()}
        for name in self.held:
            outside = trace.outer.symbol(self.before[name])
            outer[root(trace.symbol(twins[name]))] = root(outside)
        for name, inside in memory.items():
            known = [outer[symbol] for symbol in inside if symbol in outer]
            self.shares.setdefault(name, {}).update(dict.fromkeys(known))

    def refuse(self, name: str, a: Any, b: Any, ways: tuple[str, str]) -> TraceError:
        """The error for values that differ in type."""
        what = {VALUE: "the returned value", "": "the value"}.get(name, repr(name))
        if name == VALUE and "None" in (str(a), str(b)):  # at its end, in a branch nobody wrote
            ways = "on one way", "on the other"
        return TraceError(
            f"{what} must have one type after the {self.place}, which depends on tensors: it is "
            f"{a} {ways[0]}, and {b} {ways[1]}"
        )

    def finish(self, tensors: Iterable[Tensor]) -> None:
        """Gives the variables their values after a branch or loop."""
        rest = iter(tensors)
        found = {name: form.value(rest) for name, form in self.forms.items()}
        for name in self.held:
            t = self.before[name]
            if name not in self.rebound:
                found[name] = self.written(name, found[name]) if name in self.touched else t
        kept = {name: of for name, of in self.aliases.items() if name not in self.moved}
        found |= {name: self.before[of] for name, of in kept.items()}
        missing = dict.fromkeys([name for name in self.names if name not in found], MISSING)
        journal.lost.update(dict.fromkeys(missing, self.place))
        self.put({**missing, **found})
        for name in self.rebound & self.touched:
            if any([is_seen(symbol) for symbol in symbols(self.before[name])]):
                raise TraceError(
                    f"{name!r} is both written in place and assigned anew in the {self.place}, "
                    "and another variable, or the caller, has the tensor, too: do either"
                )
        new = {*found} - {*self.held, *kept, VALUE} | self.rebound  # what is returned stays
        for name in new & {*self.shares, *self.idle}:
            own = [s for s in self.idle.get(name, ()) if is_seen(s)]
            others = self.shares.get(name, {})
            if own and not self.runs:
                others |= dict.fromkeys(own)
            tie(found[name], others, name, self.place)

    def written(self, name: str, value: Tensor) -> Tensor:
        """A tensor that a branch or loop may have written to, with its elements after that."""
        t = self.before[name]
        with set_grad_enabled(local.state.grad and name in self.recorded):
            t.copy_(value)
        local.state.trace.rewritten.add(t._counter)
        return t


def is_leaf(t: Tensor) -> bool:
    """Whether a tensor wants a gradient, and nothing made it, also outside of the branch."""
    return t._history is LEAF and local.state.trace.beyond(t) is t


class Journal(threading.local):
    """What is remembered while converted functions run."""

    def __init__(self) -> None:
        self.lost: dict[str, str] = {}  # variables without a value, and where they lost it
        self.catching: list[Any] = []  # in which traces exceptions may be caught, innermost last
        self.running: dict[CodeType, list[Any]] = {}  # in which traces functions are running


journal = Journal()
