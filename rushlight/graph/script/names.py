"""Which variables a piece of syntax assigns, reads, and needs afterwards."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef)
Syntax = ast.AST | Sequence[ast.AST]


def nodes(syntax: Syntax, into: bool = False) -> Iterator[ast.AST]:
    """The nodes of one scope in order; with ``into``, also those of functions inside."""
    for node in [syntax] if isinstance(syntax, ast.AST) else syntax:
        yield node
        if into or not isinstance(node, SCOPES):
            yield from nodes(list(ast.iter_child_nodes(node)), into)


def stored(syntax: Syntax) -> set[str]:
    """The variables of this scope that are assigned or deleted.

    >>> sorted(stored(ast.parse("a, b[0] = c = 1; [d for d in e]; import f.g")))
    ['a', 'c', 'f']
    """
    found: set[str] = set()
    hidden: set[int] = set()  # nodes of the targets of comprehensions
    for node in nodes(syntax):
        match node:
            case ast.comprehension():
                hidden.update(map(id, ast.walk(node.target)))
            case ast.Name(ctx=ast.Store() | ast.Del()) if id(node) not in hidden:
                found.add(node.id)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.alias():
                found.add((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler() | ast.MatchAs() | ast.MatchStar() if node.name:
                found.add(node.name)
            case ast.MatchMapping() if node.rest:
                found.add(node.rest)
    return found


def loaded(syntax: Syntax) -> set[str]:
    """The variables that are read, also by functions inside.

    >>> sorted(loaded(ast.parse("a = b[c]; d += 1; f = lambda x: x + y")))
    ['b', 'c', 'd', 'x', 'y']
    """
    every = list(nodes(syntax, into=True))
    found = {n.id for n in every if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    updated = {n.target for n in every if isinstance(n, ast.AugAssign)}
    return found | {target.id for target in updated if isinstance(target, ast.Name)}


def written(syntax: Syntax) -> set[str]:
    """The variables whose objects are changed in place: ``x += y``, ``x[i] = y``, ``x.add_(y)``.

    >>> sorted(written(ast.parse("a += 1; b[0][1] = 2; c.t().mul_(d); e.f = g")))
    ['a', 'b', 'c']
    """
    found: set[str] = set()
    for node in nodes(syntax):
        match node:
            case ast.AugAssign(target=target):
                found |= owner(target)
            case ast.Subscript(ctx=ast.Store()):
                found |= owner(node)
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                if name.endswith("_") and not name.endswith(("__", "requires_grad_")):
                    found |= owner(value)
    return found


def owner(node: ast.AST) -> set[str]:
    """The variable that an expression such as ``x[0].t()`` begins with, if any."""
    while True:
        match node:
            case ast.Name():
                return {node.id}
            case ast.Subscript() | ast.Attribute():
                node = node.value
            case ast.Call():
                node = node.func
            case _:
                return set()


def closed_over(syntax: Syntax) -> set[str]:
    """The variables that functions inside read or assign, whenever they are called."""
    inner = [node for node in nodes(syntax) if isinstance(node, SCOPES)]
    return set().union(*[loaded(node) | stored(list(ast.iter_child_nodes(node))) for node in inner])


def live_before(block: Sequence[ast.stmt], after: set[str]) -> set[str]:
    """The variables whose values matter before ``block``, if those of ``after`` do behind it.

    >>> sorted(live_before(ast.parse("a = b; c = a + d").body, {"c", "e"}))
    ['b', 'd', 'e']
    """
    for statement in reversed(block):
        after = before(statement, after)
    return after


def before(statement: ast.stmt, after: set[str]) -> set[str]:
    match statement:
        case ast.If():
            taken = live_before(statement.body, after) | live_before(statement.orelse, after)
            return taken | loaded(statement.test)
        case ast.While():
            return at_head(statement.body, after | loaded(statement.test))
        case ast.For():
            again = at_head(statement.body, after, stored(statement.target))
            return again | loaded([statement.iter, statement.target])
        case ast.With():
            return live_before(statement.body, after) | loaded([*statement.items])
        case ast.Assign() | ast.AnnAssign(value=ast.expr()):
            return (after - simple_targets(statement)) | loaded(statement)
        case ast.FunctionDef():
            return (after - {statement.name}) | loaded(statement)
        case ast.Return():
            return loaded(statement)
        case _:
            return after | loaded(statement)


def at_head(body: Sequence[ast.stmt], after: set[str], targets: Iterable[str] = ()) -> set[str]:
    """The variables whose values matter whenever a loop begins anew, or ends."""
    while True:
        more = after | (live_before(body, after) - set(targets))
        if more == after:
            return after
        after = more


def simple_targets(statement: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return stored(targets)
