"""Walks over scalar values: order, free loop variables, substitution."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from rushlight.codegen.values import INDEX, RELATIONS, Builder, Fold, Loop, Value

NOTHING: frozenset[Loop] = frozenset()


def walk(roots: Iterable[Value], known: Container[Value] = ()) -> list[Value]:
    """All values that the roots are made of, operands first, each once; stops at known ones."""
    order: list[Value] = []
    seen: set[Value] = set()
    stack: list[tuple[Value, bool]] = [(root, False) for root in roots][::-1]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif value not in seen and value not in known:
            seen.add(value)
            stack.append((value, True))
            stack.extend([(a, False) for a in value.args if a not in seen])
    return order


class Free:
    """The loop variables a value depends on, of which those of its folds are not."""

    def __init__(self) -> None:
        self.known: dict[Value, frozenset[Loop]] = {}

    def __call__(self, value: Value) -> frozenset[Loop]:
        found = self.known.get(value)
        if found is None:
            for v in walk([value], self.known):
                self.known[v] = self.compute(v)
            found = self.known[value]
        return found

    def compute(self, v: Value) -> frozenset[Loop]:
        if v.op == "var":
            return frozenset((v.data,))
        parts = {self.known[a] for a in v.args}
        union = next(iter(parts)) if len(parts) == 1 else NOTHING.union(*parts)
        if v.op == "scan":
            return union.union(v.data.loops)
        return union.difference(v.data.loops) if v.op == "fold" else union


def rebuild(b: Builder, v: Value, args: tuple[Value, ...]) -> Value:
    """``v`` of other operands, simplified as if it were made anew."""
    op = v.op
    if v.kind == INDEX or (op in RELATIONS and args[0].kind == INDEX):
        match op:
            case "affine":
                factors, offset = v.data
                terms = list(zip(args, factors, strict=True))
                return b.affine([*terms, (b.constant(1, INDEX), offset)])
            case "floor":
                return b.quotient(args[0], v.data)
            case "mod":
                return b.modulus(args[0], v.data)
            case "checked":
                return b.checked(args[0], args[1], v.data)
            case _ if op in RELATIONS or op in ("add", "sub", "mul", "min", "max"):
                return b.binary(op, *args)
    if op in ("and", "or"):
        return b.binary(op, *args)
    if op == "where":
        return b.within(args[0], args[1]) if v.data == "within" else b.where(*args)
    return b.make(op, v.kind, args, v.data)


def unguarded(b: Builder, place: Value) -> tuple[Value, Value | None]:
    """The place that a load is at where the condition of its indices holds, and the condition."""
    terms, offset = b.expand([(place, 1)])
    guards = {atom.args[0] for atom in terms if atom.op == "where" and atom.data == "within"}
    if len(guards) != 1:
        return place, None
    open_terms = [(a.args[1] if a.data == "within" else a, f) for a, f in terms.items()]
    return b.affine([*open_terms, (b.constant(1, INDEX), offset)]), guards.pop()


def substitute(
    b: Builder,
    roots: Sequence[Value],
    values: Mapping[Value, Value],
    loops: Mapping[Loop, tuple[Loop, ...]] | None = None,
) -> list[Value]:
    """The roots with some values replaced, and some loops of folds by others."""
    done: dict[Value, Value] = dict(values)
    for v in walk(roots, values):
        args = tuple([done[a] for a in v.args])
        if v.op in ("fold", "scan") and loops:
            inner = tuple([m for n in v.data.loops for m in loops.get(n, (n,))])
            done[v] = b.make(v.op, v.kind, args, Fold(v.data.how, inner))
        else:
            done[v] = v if args == v.args else rebuild(b, v, args)
    return [done[root] for root in roots]
