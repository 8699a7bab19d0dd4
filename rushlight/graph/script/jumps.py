"""``break``, ``continue`` and ``return`` without jumps: what they skip is put under conditions.

    while a:            broken = False
        if b:           while not broken and a:
            break   →       if b:
        c                       broken = True
                            else:
                                c

What follows a branch that jumps goes into the other one. Only where both may go on, a variable
says whether the rest is skipped.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence
from enum import Enum

from rushlight.graph.script.names import loaded, nodes

VALUE, RETURNED = "_script_value", "_script_returned"
FLAGS = ("_script_returned", "_script_broken", "_script_skipped")
TRIES = (ast.Try, vars(ast).get("TryStar", ast.Try))
BLOCKS = (ast.If, ast.With, ast.Match, *TRIES)
JUMPS = (ast.Return, ast.Break, ast.Continue)


class Leave(ast.stmt):
    """A ``return`` that was taken in a loop inside, and goes on outwards."""

    _fields = ()


class Until(ast.For):
    """A loop that ends, too, as soon as a variable is true."""

    stop: str


class Falls(Enum):
    """Whether the end of a block is reached."""

    ALWAYS = "always"
    MAYBE = "maybe"
    NEVER = "never"


class Level:
    """What jumps leave, a loop or the function itself: its variables, and how they are used."""

    def __init__(self, number: int) -> None:
        self.is_function = number == 0
        self.broken = f"_script_broken_{number}"
        self.going = f"_script_going_{number}"
        self.skipped = RETURNED if self.is_function else f"_script_skipped_{number}"
        self.breaks = self.returns = False


class Jumps:
    """Takes the jumps out of the body of a function.

    >>> body = ast.parse("if x > 0:\\n    return 1\\nreturn 2").body
    >>> print(ast.unparse(ast.Module(Jumps().function(body), [])))
    if x > 0:
        _script_value = 1
    else:
        _script_value = 2
    return _script_value
    """

    def __init__(self) -> None:
        self.count = 0

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body with one ``return``, at its end, if there are some in branches or loops."""
        inside = body[:-1] if isinstance(body[-1], ast.Return) else body
        every = list(nodes(inside))
        loops = [node for node in every if isinstance(node, (ast.For, ast.While))]
        plain = not any([n.orelse or names_values(n) for n in loops])
        if plain and not any([isinstance(n, JUMPS) for n in every]):
            return body
        lowered, falls = self.block(body, Level(0))
        if has_jump(body, ast.Return):
            nothing = assign(VALUE, ast.Constant(None), body[-1])
            if falls is not Falls.NEVER:
                lowered.append(nothing if falls is Falls.ALWAYS else unless(RETURNED, [nothing]))
            lowered.append(ast.copy_location(ast.Return(name(VALUE)), body[-1]))
        return without_unread([assign(RETURNED, ast.Constant(False), body[0]), *lowered])

    def block(self, body: Sequence[ast.stmt], level: Level) -> tuple[list[ast.stmt], Falls]:
        """A block without jumps, and whether its end was reached with them."""
        done: list[ast.stmt] = []
        for i, statement in enumerate(body):
            rest = body[i + 1 :]
            match statement:
                case ast.Return() | ast.Break() | ast.Continue() | Leave():
                    return [*done, *self.jump(statement, level)], Falls.NEVER
                case ast.Raise():
                    return [*done, statement], Falls.NEVER
                case ast.If() if has_jump(statement):
                    made, falls = self.fork(statement, rest, level)
                    return [*done, *made], falls
                case ast.For() | ast.While():
                    made, rest = self.loop(statement, rest)
                    more, falls = self.block(rest, level)
                    return [*done, *made, *more], falls
                case _ if isinstance(statement, BLOCKS):
                    done.append(self.inside(statement, level))
                    if not has_jump(statement):
                        continue
                    if isinstance(statement, ast.With) and ends([statement]) is Falls.NEVER:
                        return done, Falls.NEVER
                    more, falls = self.block(rest, level)
                    guarded = [unless(level.skipped, more)] if more else []
                    return [*done, *guarded], skipping(falls)
                case _:
                    done.append(statement)
        return done, Falls.ALWAYS

    def jump(self, statement: ast.stmt, level: Level) -> list[ast.stmt]:
        """What a jump says to the code that would be skipped."""
        found: list[ast.stmt] = []
        if isinstance(statement, (ast.Return, Leave)):
            level.returns = True
            if isinstance(statement, ast.Return):
                found.append(assign(VALUE, statement.value or ast.Constant(None), statement))
                found.append(assign(RETURNED, ast.Constant(True), statement))
        if not level.is_function:
            if not isinstance(statement, ast.Continue):
                level.breaks = True
                found.append(assign(level.broken, ast.Constant(True), statement))
            found.append(assign(level.skipped, ast.Constant(True), statement))
        return found

    def fork(
        self, statement: ast.If, rest: Sequence[ast.stmt], level: Level
    ) -> tuple[list[ast.stmt], Falls]:
        """A branch in which there are jumps, with what follows it."""
        body, orelse = ends(statement.body), ends(statement.orelse)
        both = {body, orelse}
        inside = Falls.NEVER in both or not rest
        to_body = [] if body is Falls.NEVER or not inside else rest
        to_orelse = [] if orelse is Falls.NEVER or not inside or to_body else rest
        taken, first = self.block([*statement.body, *to_body], level)
        other, second = self.block([*statement.orelse, *to_orelse], level)
        made = ast.copy_location(ast.If(statement.test, taken, other), statement)
        falls = first if first is second else Falls.MAYBE
        if inside:
            return [made], falls
        more, falls = self.block(rest, level)
        return [made, unless(level.skipped, more)], skipping(falls)

    def loop(
        self, statement: ast.For | ast.While, rest: Sequence[ast.stmt]
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """A loop without jumps, and what follows it."""
        self.count += 1
        level = Level(self.count)
        begin = [assign(level.broken, ast.Constant(False), statement)]
        made = copy.copy(statement)
        if isinstance(made, ast.While) and names_values(made):
            begin.append(assign(level.going, ast.Constant(True), statement))
            made = asked_inside(made, level.going)
        body, _ = self.block(made.body, level)
        if level.breaks:
            made = stopped(made, level.broken)
        unskipped = assign(level.skipped, ast.Constant(False), statement)
        made.body, made.orelse = [unskipped, *body], []
        otherwise = statement.orelse
        if otherwise and level.breaks:
            otherwise = [unless(level.broken, otherwise)]
        after = [*otherwise, *rest]
        endless = isinstance(statement, ast.While) and is_true(statement.test)
        if level.returns and endless and not has_jump(statement.body, ast.Break):
            after = [ast.copy_location(Leave(), statement)]
        elif level.returns:
            leave = ast.If(name(RETURNED), [ast.copy_location(Leave(), statement)], [])
            after.insert(0, ast.copy_location(leave, statement))
        return [*begin, made], after

    def inside(self, statement: ast.stmt, level: Level) -> ast.stmt:
        """A ``with``, ``try`` or ``match`` with its blocks changed."""
        made = copy.copy(statement)
        jumping = statement.body if isinstance(statement, TRIES) else []
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(made, field, self.block(value, level)[0] or [ast.Pass()])
            elif isinstance(value, list) and field in ("handlers", "cases"):
                setattr(made, field, [self.inside(part, level) for part in value])
        if isinstance(made, TRIES) and made.orelse and has_jump(jumping):
            made.orelse = [unless(level.skipped, made.orelse)]
        return made


def has_jump(syntax: ast.AST | Sequence[ast.AST], kinds: type | tuple[type, ...] = JUMPS) -> bool:
    """Whether a jump leaves this piece of syntax: those that loops inside catch do not."""
    for node in [syntax] if isinstance(syntax, ast.AST) else syntax:
        if isinstance(node, (Leave, kinds)):
            return True
        inner: Iterable[ast.AST] = ()
        if isinstance(node, (ast.For, ast.While)):
            inner = node.orelse  # which is no part of the loop
            if ast.Return in (kinds if isinstance(kinds, tuple) else (kinds,)):
                inner = [*inner, *[n for n in nodes(node.body) if isinstance(n, ast.Return)]]
        elif isinstance(node, BLOCKS):
            inner = list(ast.iter_child_nodes(node))
        elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
            inner = node.body
        if has_jump(list(inner), kinds):
            return True
    return False


def ends(block: Sequence[ast.stmt]) -> Falls:
    """Whether the end of a block is reached."""
    found = Falls.ALWAYS
    for statement in block:
        match statement:
            case ast.Return() | ast.Break() | ast.Continue() | ast.Raise() | Leave():
                return Falls.NEVER
            case ast.If():
                first, second = ends(statement.body), ends(statement.orelse)
                inside = first if first is second else Falls.MAYBE
            case ast.While() if is_true(statement.test) and not has_jump(statement.body, ast.Break):
                inside = Falls.NEVER
            case ast.With() if not may_catch(statement):
                inside = ends(statement.body)
            case _:
                inside = Falls.MAYBE if has_jump(statement) else Falls.ALWAYS
        if inside is Falls.NEVER:
            return inside
        found = inside if inside is Falls.MAYBE else found
    return found


def may_catch(statement: ast.With) -> bool:
    """Whether what follows a ``with`` may be reached by an exception inside."""
    managers = list(nodes([item.context_expr for item in statement.items]))
    names = [n.attr for n in managers if isinstance(n, ast.Attribute)]
    names += [n.id for n in managers if isinstance(n, ast.Name)]
    return not {"suppress", "ExitStack"}.isdisjoint(names)


def skipping(rest: Falls) -> Falls:
    """Whether the end is reached if a jump may skip the rest."""
    return Falls.NEVER if rest is Falls.NEVER else Falls.MAYBE


def is_true(test: ast.expr) -> bool:
    return isinstance(test, ast.Constant) and bool(test.value)


def stopped(loop: ast.For | ast.While, flag: str) -> ast.For | ast.While:
    """A loop that ends as soon as a variable is true."""
    if isinstance(loop, ast.While):
        going = ast.UnaryOp(ast.Not(), name(flag))
        loop.test = ast.copy_location(ast.BoolOp(ast.And(), [going, loop.test]), loop.test)
        return loop
    made = ast.copy_location(Until(loop.target, loop.iter, loop.body, []), loop)
    made.stop = flag
    return made


def names_values(loop: ast.For | ast.While) -> bool:
    """Whether the condition of a loop assigns variables: ``while (y := f(x)) > 0``."""
    tests = [loop.test] if isinstance(loop, ast.While) else []
    return any([isinstance(node, ast.NamedExpr) for node in nodes(tests)])


def asked_inside(loop: ast.While, flag: str) -> ast.While:
    """A loop whose condition is part of each step; a variable says whether it has held."""
    ended = assign(flag, ast.Constant(False), loop)
    loop.body = [ast.copy_location(ast.If(loop.test, loop.body, [ended]), loop)]
    loop.test = ast.copy_location(name(flag), loop.test)
    return loop


def name(variable: str) -> ast.Name:
    return ast.Name(variable, ast.Load())


def assign(variable: str, value: ast.expr, where: ast.stmt) -> ast.Assign:
    return ast.copy_location(ast.Assign([ast.Name(variable, ast.Store())], value), where)


def unless(variable: str, body: Sequence[ast.stmt]) -> ast.If:
    made = ast.If(ast.UnaryOp(ast.Not(), name(variable)), list(body), [])
    return ast.copy_location(made, body[0])


def without_unread(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without those that set a flag which nobody reads."""
    read = loaded(body)

    class Prune(ast.NodeTransformer):
        def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
            match node.targets[0]:
                case ast.Name(id=flag) if flag.startswith(FLAGS) and flag not in read:
                    return None
            return node

        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            if isinstance(node, (ast.If, ast.For, ast.While, ast.With)) and not node.body:
                node.body = [ast.Pass()]
            return node

    read |= {node.stop for node in nodes(body) if isinstance(node, Until)}
    return ast.fix_missing_locations(Prune().visit(ast.Module(body, []))).body
