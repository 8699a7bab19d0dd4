"""Scalar values as C statements: each once, in the outermost loop where it can be computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rushlight.c.scalars import COMPUTED, expression, literal, loaded, parameter
from rushlight.c.snippets import Snippets, bare
from rushlight.codegen.kernel import Accumulation
from rushlight.codegen.math import EXPANSIONS
from rushlight.codegen.pull import Buffer, identity
from rushlight.codegen.traverse import walk
from rushlight.codegen.values import BOOL, FLOATS, INDEX, Builder, Loop, Value

LONGEST = 72  # characters of an expression that is written where it is used
Placed = tuple[str, int]
"""An expression, and how deep the innermost block is that it needs."""


class Block:
    """Statements between braces, and the values that have names in there."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.lines: list[str] = []
        self.known: dict[Value, str] = {}


class Writer:
    """Writes the body of a C function, from scalar values of one builder."""

    def __init__(self, b: Builder, snippets: Snippets) -> None:
        self.b, self.snippets = b, snippets
        self.blocks = [Block("")]
        self.floor = 0  # values are computed no further out than here
        self.depths: dict[Loop, int] = {}
        self.names: dict[Loop, str] = {}
        self.uses: dict[Value, int] = {}
        self.count = 0
        self.buffers: dict[Buffer, str] = {}
        self.bounds: dict[Loop, tuple[str, str]] = {}  # of loops that do not go from 0 to size
        self.errors: list[Callable[[int], Exception]] = []

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def write(self, line: str, depth: int = -1) -> None:
        self.blocks[depth].lines.append(line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Statements inside of braces."""
        self.blocks.append(Block(head))
        yield
        inner = self.blocks.pop()
        self.write(f"{head} {{")
        self.blocks[-1].lines += [f"    {line}" for line in inner.lines]
        self.write("}")

    @contextmanager
    def branch(self, head: str) -> Iterator[None]:
        """A block whose values are not computed before it."""
        outside, self.floor = self.floor, len(self.blocks)
        with self.block(head):
            yield
        self.floor = outside

    @contextmanager
    def loops(self, loops: Sequence[Loop]) -> Iterator[None]:
        """A nest of loops."""
        if not loops:
            yield
            return
        first, *others = loops
        name = self.name(first)
        begin, end = self.bounds.get(first, ("0", literal(first.size, INDEX)))
        self.depths[first] = len(self.blocks)
        head = f"for (int64_t {name} = {begin}; {name} < {end}; {name}++)"
        with self.block(head), self.loops(others):
            yield

    def name(self, loop: Loop) -> str:
        """The name of a loop's variable, unlike all others of the function."""
        if loop not in self.names:
            taken = set(self.names.values())
            self.names[loop] = loop.name if loop.name not in taken else self.fresh("i")
        return self.names[loop]

    def plan(self, roots: Iterable[Value]) -> None:
        """Counts the uses of values: what is used once need not have a name."""
        self.uses = {}
        for v in walk(roots):
            for a in v.args:
                self.uses[a] = self.uses.get(a, 0) + 1
        for v in roots:
            self.uses[v] = self.uses.get(v, 0) + 1

    def text(self, v: Value) -> str:
        """The value as an expression that means something in the current block."""
        return bare(self.get(v)[0])

    def get(self, v: Value) -> Placed:
        """The value, after what it is made of; without recursion, since chains are long."""
        done: dict[Value, Placed] = {}
        stack = [v]
        while stack:
            x = stack[-1]
            missing = [] if x in done else self.missing(x, done)
            if missing:
                stack += missing
                continue
            if x not in done:
                done[x] = self.placed(x, [done[a] for a in x.args])
            stack.pop()
        return done[v]

    def missing(self, v: Value, done: dict[Value, Placed]) -> list[Value]:
        """What must be computed before a value; one that needs nothing is ``done``."""
        found = self.ready(v)
        if found is None:
            return [a for a in v.args if a not in done]
        done[v] = found
        return []

    def ready(self, v: Value) -> Placed | None:
        """A value that has a name, or sees to its operands itself."""
        if v.op == "constant":
            return literal(v.data, v.kind), 0
        if v.op == "var":
            return self.name(v.data), self.depths[v.data]
        if v.op == "name":
            return v.data, 0
        for depth in range(len(self.blocks) - 1, -1, -1):
            if v in self.blocks[depth].known:
                return self.blocks[depth].known[v], depth
        if v.op in ("fold", "rare"):
            return self.fold(v) if v.op == "fold" else self.rare(v), len(self.blocks) - 1
        return None

    def placed(self, v: Value, operands: Sequence[Placed]) -> Placed:
        """A value of others: an expression if it is short and used once, and else a name."""
        depth = max([self.floor, *[d for _, d in operands]])
        text = self.compute(v, [x for x, _ in operands])
        here = depth == len(self.blocks) - 1 or v.kind == INDEX
        # Compilers warn of comparisons with what they see to be a truth value, or a complement.
        odd = v.op == "not" or (v.op == "cast" and v.args[0].kind == BOOL)
        named = v.op == "checked" or (odd and v.kind != BOOL)
        if self.uses.get(v, 0) <= 1 and here and len(text) < LONGEST and not named:
            return text, depth
        return self.let(v, text, depth), depth

    def let(self, v: Value, text: str, depth: int = -1) -> str:
        """Gives a value a name."""
        name = self.fresh("v")
        self.write(f"const {COMPUTED[v.kind]} {name} = {bare(text)};", depth)
        self.blocks[depth].known[v] = name
        return name

    def compute(self, v: Value, args: Sequence[str]) -> str:
        if v.op == "load":
            text = f"{self.buffers[v.data]}[{bare(args[0])}]"
            return text if v.data.local else loaded(text, v.kind, self.snippets)
        if v.op == "checked":
            if v.data not in self.errors:
                self.errors.append(v.data)
            code = f"code + {self.errors.index(v.data)}"
            return self.snippets.call("checked", *args, "first", code)
        if v.op in EXPANSIONS:
            return self.snippets.call(function_of(v, self.snippets), *args)
        return expression(v, args, self.snippets)

    def rare(self, v: Value) -> str:
        """A value one side of which is seldom needed."""
        condition, slow, fast = v.args
        wanted, name = self.text(condition), self.fresh("v")
        self.write(f"{COMPUTED[v.kind]} {name};")
        for head, side in ((f"if ({wanted})", slow), ("else", fast)):
            with self.branch(head):
                self.write(f"{name} = {self.text(side)};")
        self.blocks[-1].known[v] = name
        return name

    def fold(self, v: Value) -> str:
        """A fold over loops of its own, right here."""
        part = Accumulation(v, v.args)
        names = self.begin(part)
        with self.loops(v.data.loops):
            self.combine(part, names)
        self.blocks[-1].known[v] = names[-1]
        return names[-1]

    def begin(self, fold: Accumulation) -> list[str]:
        """The variables of a fold: what is combined; of argmax and argmin the place, too."""
        how, op, names = fold.value.data.how, fold.value.op, []
        for v in fold.body:
            place = len(fold.body) == 2 and v is fold.body[1]
            start = literal(-1 if place else identity(how, v.kind, op), v.kind)
            names.append(self.fresh("a"))
            self.write(f"{COMPUTED[v.kind]} {names[-1]} = {bare(start)};")
        return names

    def combine(self, fold: Accumulation, names: Sequence[str], lane: str = "") -> None:
        """One turn of a fold."""
        how, body = fold.value.data.how, fold.body
        if len(body) == 2:
            (best, place), value, position = names, self.get(body[0])[0], self.text(body[1])
            sign = ">" if how == "argmax" else "<"
            nan = f" || ({value} != {value} && {best} == {best})" if body[0].kind in FLOATS else ""
            with self.block(f"if ({place} < 0 || {value} {sign} {best}{nan})"):
                self.write(f"{best} = {value}, {place} = {position};")
            return
        name = f"{names[0]}{lane}"
        self.write(f"{name} = {self.combined(how, body[0].kind, name, self.get(body[0])[0])};")

    def combined(self, how: str, kind: str, a: str, x: str) -> str:
        """Two values, combined."""
        b = Builder()
        pair = [parameter(b, name, kind) for name in ("a", "x")]
        both = b.binary(how, *pair) if kind != INDEX else b.make(how, kind, tuple(pair))
        return bare(expression(both, [a, x], self.snippets))


def function_of(v: Value, snippets: Snippets) -> str:
    """The name of a function of ``values.MATH`` for these kinds, which the file will hold."""
    name = f"{v.op}_{v.args[0].kind}"
    if name not in snippets.texts:
        b = Builder()
        letters = ["x", "y", "z"][: len(v.args)]
        params = [parameter(b, x, a.kind) for x, a in zip(letters, v.args, strict=True)]
        result = EXPANSIONS[v.op](b, *params)
        inner = Writer(b, snippets)
        inner.plan([result])
        inner.write(f"return {inner.text(result)};")
        types = zip(letters, v.args, strict=True)
        head = ", ".join([f"{COMPUTED[a.kind]} {x}" for x, a in types])
        body = "\n".join([f"    {line}" for line in inner.blocks[0].lines])
        snippets.add(name, f"static {COMPUTED[v.kind]} {name}({head}) {{\n{body}\n}}")
    return name
