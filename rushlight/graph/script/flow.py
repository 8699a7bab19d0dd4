"""What converted code calls where a decision is made.

If a value of Python decides, Python's own branches and loops run. If a tensor of a graph does, each
branch is traced, and what it assigns becomes results of a node of control flow.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.dims import is_extent
from rushlight.graph import loops
from rushlight.graph.host import Host
from rushlight.graph.ir import CONSTANT
from rushlight.graph.scalars import Scalar, kind_of, number_of, scalar
from rushlight.graph.script.forms import Form, common, form_of
from rushlight.graph.script.iterators import rest_of
from rushlight.graph.script.jumps import RETURNED, VALUE
from rushlight.graph.script.rows import Rows, rows_of, steps
from rushlight.graph.script.sharing import symbols
from rushlight.graph.script.variables import Again, Flow, Names, Values
from rushlight.graph.watches import MISSING
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

MEMBERSHIP = ("in_", "not_in")
SAMENESS = {"is_": "eq", "is_not": "ne"}
ANSWER = "_script_answer"  # the variable of what a condition has said
ATTEMPTS = 6  # until the types of what a loop carries must agree


def truth(x: Any) -> bool | Tensor:
    """The answer of a condition: a bool, or a 0-d tensor that the graph will know."""
    trace = local.state.trace
    if isinstance(x, Host):
        return number_of(scalar(x).tensor, bool).tensor
    if trace is None or not isinstance(x, Tensor):
        return bool(x)
    if x.numel() != 1:
        many = "more than one value" if x.numel() else "no values"
        shape = list(x.shape)
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous: shape {shape}")
    if trace.current(trace.symbol(x)).op is CONSTANT:
        return bool(x)
    t = x.detach().reshape(())
    return t if t.dtype is dtypes.bool_ else t != 0


class Acts(Exception):
    """A condition writes to a tensor, or draws random numbers."""


class Branch(Flow):
    """One of two ways."""

    def __call__(self, test: Tensor, ways: Sequence[Callable[[], Any]]) -> None:
        """Traces both; ``ways`` are those of False and True."""
        self.seen: list[Values | None] = []
        for _ in range(ATTEMPTS):
            self.seen = []
            follow = [functools.partial(self.follow, way) for way in ways]
            try:
                results = loops.branched(test.to(dtypes.int64), follow)
            except Again:
                continue
            return self.finish(results)
        raise TraceError(f"the {self.place} gives values of other types each time it is traced")

    def follow(self, way: Callable[[], Any], _: Any) -> list[Tensor]:
        held = {name: self.before[name] for name in self.held}
        found = self.after(way, held)
        self.seen.append(found)
        if len(self.seen) == 1 and not self.forms:
            self.forms = self.guess(found or {})
        elif len(self.seen) == 2:
            agreed = self.agreed(*self.seen)
            same = agreed.keys() == self.forms.keys()
            if not same or not all([self.forms[n].holds(f) for n, f in agreed.items()]):
                self.forms = agreed
                raise Again
        values = found or {}
        return [
            t for name, form in self.forms.items() for t in form.tensors(values.get(name, MISSING))
        ]

    def guess(self, values: Values) -> dict[str, Form]:
        """The forms of one way, whose numbers may be others on the other."""
        known = {name: values.get(name, MISSING) for name in self.names}
        return {name: form_of(x).freed() for name, x in known.items() if x is not MISSING}

    def agreed(self, a: Values | None, b: Values | None) -> dict[str, Form]:
        """The forms that serve both ways."""
        found = {}
        for name in self.names:
            x, y = [None if v is None else v.get(name, MISSING) for v in (a, b)]
            if a is None or b is None:  # that way ends with an exception
                other = y if a is None else x
                if other is not None and other is not MISSING:
                    found[name] = form_of(other).freed()
            elif x is MISSING or y is MISSING:
                without = a if x is MISSING else b
                unread = name == VALUE or without.get(RETURNED) is True
                if unread and x is not y:
                    found[name] = form_of(y if x is MISSING else x).freed()
            else:
                p, q = form_of(x), form_of(y)
                form = common(p, q)
                if form is None:
                    raise self.refuse(name, q, p, ("if the condition holds", "else"))
                found[name] = form
        return found


class Repeat(Flow):
    """A loop."""

    def begin(self) -> list[Tensor]:
        """The tensors that the loop carries, as they are before it."""
        if not self.forms:
            given = {name: self.before.get(name, MISSING) for name in self.names}
            self.forms = {n: form_of(x).freed() for n, x in given.items() if x is not MISSING}
        return [
            t
            for name, form in self.forms.items()
            for t in form.tensors(self.before.get(name, MISSING))
        ]

    def labels(self) -> list[str]:
        """What the tensors are called that the loop carries: the variables that they are in."""
        found = []
        for name, form in self.forms.items():
            shown = re.sub(r"^_script_(\w+?)(_\d+)?$", r"\1", name)
            count = len(form.tensors(self.before.get(name, MISSING)))
            shown = shown or "index"  # of rows, which nobody has named
            found += [shown] if count == 1 else [f"{shown}[{i}]" for i in range(count)]
        return found

    def values(self, leaves: Iterable[Tensor]) -> Values:
        """The variables of what is carried."""
        rest = iter(leaves)
        return {name: form.value(rest) for name, form in self.forms.items()}

    def step(self, body: Callable[[], Any], leaves: Iterable[Tensor]) -> list[Tensor]:
        """What is carried after a step."""
        values = self.values(leaves)
        found = self.after(body, values)
        found = values if found is None else found
        agreed = {}
        for name in self.names:
            new, old = found.get(name, MISSING), self.forms.get(name)
            if new is MISSING:
                continue
            if old is None:
                if name == VALUE or self.runs:
                    agreed[name] = form_of(new).freed()
                continue
            form = common(old, form_of(new))
            if form is None:
                ways = ("before it", "after a step")
                raise self.refuse(name, old, form_of(new), ways)
            agreed[name] = form
        same = agreed.keys() == self.forms.keys()
        if not same or not all([self.forms[n].holds(f) for n, f in agreed.items()]):
            self.forms = agreed
            raise Again
        return [t for name, form in self.forms.items() for t in form.tensors(found[name])]

    def settle(self, attempt: Callable[[], list[Tensor]]) -> None:
        """Traces the loop until the types of what it carries agree."""
        for _ in range(ATTEMPTS):
            try:
                results = attempt()
            except Again:
                continue
            for name, value in self.before.items():  # which stay if there is no step
                if value is not MISSING:
                    self.idle[name] = symbols(value)
            return self.finish(results)
        raise TraceError(f"the {self.place} gives values of other types at each step")

    def while_(self, test: Callable[[], Any], body: Callable[[], Any]) -> None:
        """A step as long as ``test()`` holds."""

        def asked(leaves: Sequence[Tensor]) -> Any:
            answer: list[Any] = []
            before = {*self.touched}  # by a step, when this is not the first attempt
            self.after(lambda: answer.append(truth(test())), self.values(leaves))
            if self.touched != before or local.state.trace.changed:
                raise Acts
            return answer[0]

        step = functools.partial(self.step, body)
        self.settle(lambda: loops.repeat(asked, step, self.begin(), self.labels()))

    def answered(self, first: Tensor, test: Callable[[], Any], body: Callable[[], Any]) -> None:
        """:meth:`while_`, of a test that acts: each step carries its answer on to the next."""
        answer = self.add(ANSWER, Scalar(first))

        def step() -> None:
            body()
            said = truth(test())
            answer.cell_contents = scalar(said) if isinstance(said, bool) else Scalar(said)

        self.while_(lambda: answer.cell_contents, step)

    def until(self, rows: Rows, body: Callable[[Any], Any], stop: Any) -> None:
        """A step for each row as long as ``stop()`` does not hold."""
        index = self.add("", scalar(0))

        def test() -> Any:
            going = index.cell_contents < rows.length
            return both(0, going, lambda: negated(0, stop())) if stop else going

        def step() -> None:
            i = index.cell_contents
            body(rows.at(i))
            index.cell_contents = i + 1

        self.while_(test, step)

    def over(self, rows: Rows, body: Callable[[Any], Any], stop: Any) -> None:
        """A step for each of some rows, whose number is known."""
        if stop is not None:
            return self.until(rows, body, stop)
        self.length = rows.length
        xs = rows.columns()

        def step(leaves: Sequence[Tensor], row: Sequence[Tensor]) -> Any:
            return self.step(lambda: body(rows.item(row)), leaves), []

        return self.settle(
            lambda: loops.sweep(step, self.begin(), xs, rows.length, False, self.labels())[0]
        )


def branch(
    line: int, test: Any, taken: Any, other: Any, assigned: Names, live: Names, written: Names
) -> None:
    """``if test: taken() else: other()``."""
    answer = truth(test)
    if isinstance(answer, bool):
        return taken() if answer else other()
    Branch("if", line, [taken, other], assigned, live, written)(answer, (other, taken))


def choose(line: int, test: Any, taken: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """``taken() if test else other()``."""
    answer = truth(test)
    if isinstance(answer, bool):
        return taken() if answer else other()
    return chosen("conditional expression", line, answer, taken, other, [other, taken])


def chosen(
    what: str, line: int, test: Tensor, taken: Any, other: Any, functions: Sequence[Any]
) -> Any:
    """The value of ``taken()`` or ``other()``, which use the variables of ``functions``."""

    def keep(function: Callable[[], Any]) -> None:
        cell.cell_contents = function()

    flow = Branch(what, line, functions)
    cell = flow.add("", MISSING)
    flow(test, (lambda: keep(other), lambda: keep(taken)))
    return cell.cell_contents


def loop(
    line: int, test: Callable[[], Any], body: Any, assigned: Names, live: Names, written: Names
) -> None:
    """``while test(): body()``."""
    while True:
        answer = truth(test())
        if not isinstance(answer, bool):
            break
        if not answer:
            return
        body()
    make = functools.partial(Repeat, "loop", line, [test, body], assigned, live, written)
    try:
        make().while_(test, body)
    except Acts:
        make().answered(answer, test, body)


def each(
    line: int,
    iterable: Any,
    body: Callable[[Any], Any],
    stop: Callable[[], Any] | None,
    assigned: Names,
    live: Names,
    written: Names,
) -> None:
    """``for row in iterable: body(row)``, until ``stop()`` holds.

    Where a loop of the graph cannot do what the body does, since it needs the number of a row in
    Python or changes a list, and the number of rows is known, each row has nodes of its own.
    """
    make = functools.partial(Repeat, "loop", line, [body, stop], assigned, live, written)
    rows = rows_of(iterable)
    if rows is not None:
        if not rows.is_known:
            return make().until(rows, body, stop)
        several = is_extent(rows.length) or rows.length > 1
        if several and attempted(lambda: make().over(rows, body, stop)):
            return None
    iterator = iter(iterable if rows is None else rows)
    for count, row in enumerate(iterator, 1):
        body(row)
        answer = stop is not None and truth(stop())
        if isinstance(answer, bool):
            if answer:
                return None
            continue
        rest = iterable[count:] if isinstance(iterable, range) else ()
        if len(rest) > 1 and attempted(lambda: make().until(steps(rest), body, stop)):  # noqa: B023
            return None
        break
    else:
        return None
    for row in rest_of(iterator):
        answer = truth(stop())  # type: ignore[misc]
        step = functools.partial(body, row)
        if answer is True:
            return None
        if answer is False:
            step()
            continue
        flow = Branch("loop", line, [body, stop], assigned, live, written)
        flow(answer, (step, lambda: None))
    return None


def attempted(trace_loop: Callable[[], None]) -> bool:
    """Whether a loop of the graph could be made; if not, all is as before."""
    trace = local.state.trace
    refusal = trace.refusal
    try:
        trace_loop()
    except Exception:
        trace.refusal = refusal
        return False
    return True


def both(line: int, left: Any, right: Callable[[], Any]) -> Any:
    """Whether ``left and right()`` is true."""
    answer = truth(left)
    if isinstance(answer, bool):
        return right() if answer else left
    return joint(line, left, answer, lambda: truth(right()), lambda: False, right)


def either(line: int, left: Any, right: Callable[[], Any]) -> Any:
    """Whether ``left or right()`` is true."""
    answer = truth(left)
    if isinstance(answer, bool):
        return left if answer else right()
    return joint(line, left, answer, lambda: True, lambda: truth(right()), right)


def joint(line: int, left: Any, answer: Tensor, taken: Any, other: Any, right: Any) -> Any:
    """What both conditions say, as a tensor if the first one was given by one."""
    found = chosen("condition", line, answer, taken, other, [right])
    t = found if isinstance(found, Tensor) else scalar(found).tensor
    return t if isinstance(left, Tensor) else Scalar(t)


def last_of(line: int, left: Any, right: Callable[[], Any]) -> Any:
    """``left and right()``, whose value matters."""
    answer = truth(left)
    if isinstance(answer, bool):
        return right() if answer else left
    return chosen("and", line, answer, right, lambda: left, [right])


def first_of(line: int, left: Any, right: Callable[[], Any]) -> Any:
    """``left or right()``, whose value matters."""
    answer = truth(left)
    if isinstance(answer, bool):
        return left if answer else right()
    return chosen("or", line, answer, lambda: left, right, [right])


def negated(line: int, x: Any) -> Any:
    """``not x``."""
    answer = truth(x)
    return not answer if isinstance(answer, bool) else Scalar(answer.logical_not())


def compare(line: int, left: Any, relation: str, right: Any) -> Any:
    """``left < right`` and its kin: that of a float which changes is known to the graph.

    There is one True and one False, so bools that only the graph knows are compared by value.
    """
    if relation in MEMBERSHIP:
        found = contained(line, left, right)
        return found if relation == "in_" else negated(line, found)
    if relation in SAMENESS:
        unknown = isinstance(left, Scalar) or isinstance(right, Scalar)
        if unknown and kind_of(left) is kind_of(right) is bool:
            relation = SAMENESS[relation]
        return getattr(operator, relation)(left, right)
    if isinstance(left, Host) and kind_of(right) is not None:
        left = scalar(left)
    elif isinstance(right, Host) and kind_of(left) is not None:
        right = scalar(right)
    return getattr(operator, relation)(left, right)


def contained(line: int, left: Any, right: Any) -> Any:
    """``left in right``: in a tuple or list, whether it equals one of the elements."""
    several = type(right) in (tuple, list)
    if not several or not any([isinstance(x, (Tensor, Scalar)) for x in (left, *right)]):
        return left in right
    found: Any = False
    for x in right:
        same = True if left is x else compare(line, left, "eq", x)
        found = either(line, found, functools.partial(lambda answer: answer, truth(same)))
    return found


def chain(line: int, left: Any, relation: str, right: Any, *rest: Any) -> Any:
    """``left < right < ...``; all but the first two operands are functions that give them."""
    found = compare(line, left, relation, right)
    if not rest:
        return found
    after, middle, *others = rest
    return both(line, found, lambda: chain(line, right, after, middle(), *others))


def element(owner: Any, index: Any) -> Any:
    """``owner[index]``."""
    return owner[key(owner, index)]


def key(owner: Any, index: Any) -> Any:
    """The subscript of a tensor: a number that the graph knows is a tensor, too."""
    if not isinstance(owner, Tensor):
        return index
    if type(index) is tuple:
        return tuple([key(owner, part) for part in index])
    return index.tensor if isinstance(index, Scalar) else index


def item(t: Tensor, kind: type | None = None) -> Any:
    """``t.item()``, or ``kind(t)``: a number that the graph knows."""
    trace = local.state.trace
    if t.numel() != 1 or trace.current(trace.symbol(t)).op is CONSTANT:
        return t.item() if kind is None else kind(t)
    return number_of(t, kind)
