"""Python's branches and loops as calls of functions, which decide when they are reached.

    if a:               def taken():
        x = b               nonlocal x
    else:       →           x = b
        x = c           def other():
                            nonlocal x
                            x = c
                        __script__.branch(a, taken, other, assigned, live, written, line)

The functions of ``flow.py`` find the variables in the closures of what they are given. What a value
of Python decides runs as it always did; what a tensor decides becomes control flow of the graph.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Sequence
from typing import Any

from rushlight.graph.script.jumps import Jumps, Until, assign, name
from rushlight.graph.script.matches import Matches
from rushlight.graph.script.names import (
    at_head,
    before,
    closed_over,
    loaded,
    nodes,
    stored,
    written,
)

HELPERS = "__script__"
RELATIONS: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
    ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in_", ast.NotIn: "not_in",
}  # fmt: skip
STAYS = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
"""Expressions that mean something else in a function of their own."""


class Unconvertible(Exception):
    """Syntax that is left as it is: generators and coroutines."""


def converted(
    function: ast.FunctionDef | ast.Lambda, free: Sequence[str], owner: str | None
) -> ast.Module:
    """A module with a function ``make(*free)`` that returns the converted function.

    Args:
        function: its syntax.
        free: the variables of outside that it uses.
        owner: the class that it is a method of, for names with two underscores.
    """
    made = Converter(owner).whole(copy.deepcopy(function))
    made.name = "_script_function"  # its own name may be one of the variables of outside
    parameters = [ast.arg(variable) for variable in (HELPERS, *free)]
    make = ast.FunctionDef(
        name="make",
        args=ast.arguments([], parameters, None, [], [], None, []),
        body=[made, ast.Return(name(made.name))],
        decorator_list=[],
        **NO_TYPES,
    )
    return ast.fix_missing_locations(ast.Module([ast.copy_location(make, made)], []))


NO_TYPES: dict[str, Any] = {"type_params": []} if "type_params" in ast.FunctionDef._fields else {}


class Converter(ast.NodeTransformer):
    """Converts one function, and those inside it."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.after: set[str] = set()  # variables that matter after the present statement
        self.shared: set[str] = set()  # that functions inside use
        self.declared: set[str] = set()  # global ones
        self.first: str | None = None  # parameter

    def whole(self, function: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef:
        """The function that is asked for; its defaults are those of the function object."""
        if is_generator(function):
            raise Unconvertible
        blank = ast.Constant(None)
        args = function.args
        args.defaults = [blank] * len(args.defaults)
        args.kw_defaults = [default and blank for default in args.kw_defaults]
        if isinstance(function, ast.Lambda):
            body: list[ast.stmt] = [ast.copy_location(ast.Return(function.body), function.body)]
            function = ast.copy_location(
                ast.FunctionDef("_lambda", args, body, [], **NO_TYPES), function
            )
        function.decorator_list, function.returns = [], None
        for arg in parameters(args):
            arg.annotation = None
        return self.visit_FunctionDef(function)

    # Functions and blocks.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if is_generator(node):
            return node
        outer = vars(self).copy()
        body = Jumps().function(Matches().function(node.body))
        every = list(nodes(body))
        self.declared = {n for s in every if isinstance(s, ast.Global) for n in s.names}
        foreign = {n for s in every if isinstance(s, ast.Nonlocal) for n in s.names}
        self.shared = closed_over(body) | foreign | self.declared
        own = [arg.arg for arg in parameters(node.args)]
        self.first = own[0] if own else None
        begin: list[ast.stmt] = [s for s in every if isinstance(s, (ast.Global, ast.Nonlocal))]
        found = sorted(stored(body) - self.declared - foreign - set(own))
        if found:  # makes them variables of this function, wherever they are assigned
            none = [assign(variable, ast.Constant(None), node) for variable in found]
            begin.append(ast.If(ast.Constant(False), [*none], []))
        node.body = [*begin, *self.block(body, set())]
        vars(self).update(outer)
        node.decorator_list = [self.visit(decorator) for decorator in node.decorator_list]
        node.args = self.visit(node.args)
        return node

    def visit_ClassDef(self, node: ast.AST) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_AsyncFor = visit_AsyncWith = visit_ClassDef

    def visit_Global(self, node: ast.AST) -> None:
        return None

    visit_Nonlocal = visit_Global

    def block(self, body: Sequence[ast.stmt], after: set[str]) -> list[ast.stmt]:
        """The statements, each converted with what matters after it."""
        made: list[list[ast.stmt]] = []
        for statement in reversed(body):
            self.after, after = after, before(statement, after)
            result = self.visit(statement)
            if result is not None:
                made.append(result if isinstance(result, list) else [result])
        return [statement for part in reversed(made) for statement in part] or [ast.Pass()]

    def visit_With(self, node: ast.With) -> ast.With:
        node.body = self.block(node.body, self.after)
        for item in node.items:
            item.context_expr = self.call("entered", node, self.visit(item.context_expr))
        return node

    def visit_Try(self, node: ast.Try) -> ast.Try:
        everything = self.after | loaded(node)
        for part in (node, *node.handlers):
            for field, value in ast.iter_fields(part):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    setattr(part, field, self.block(value, everything))
        if node.handlers:
            catching = ast.withitem(self.call("catching", node))
            node.body = [ast.copy_location(ast.With([catching], node.body), node)]
        return node

    visit_TryStar = visit_Try

    def visit_Match(self, node: ast.Match) -> ast.Match:
        everything = self.after | loaded(node)
        node.subject = self.call("matched", node, self.visit(node.subject))
        for case in node.cases:
            case.body = self.block(case.body, everything)
        return node

    # Branches and loops.

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        after = self.after
        variables = self.variables([*node.body, *node.orelse], after)
        taken = self.part("_taken", node.body, after)
        other = self.part("_other", node.orelse, after)
        decide = self.call(
            "branch", node, self.test(node.test), name("_taken"), name("_other"), *variables
        )
        return [taken, other, ast.copy_location(ast.Expr(decide), node)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        around = at_head(node.body, self.after | loaded(node.test))
        variables = self.variables(node.body, around)
        body = self.part("_body", node.body, around)
        test = thunk(self.test(node.test))
        repeat = self.call("loop", node, test, name("_body"), *variables)
        return [body, ast.copy_location(ast.Expr(repeat), node)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        stop = node.stop if isinstance(node, Until) else None
        around = at_head(node.body, self.after | ({stop} if stop else set()), stored(node.target))
        row = ast.copy_location(ast.Assign([node.target], name("_row")), node.target)
        variables = self.variables([row, *node.body], around)
        body = self.part("_body", [row, *node.body], around)
        body.args.args.append(ast.arg("_row"))
        stopped = thunk(name(stop)) if stop else ast.Constant(None)
        repeat = self.call("each", node, self.visit(node.iter), name("_body"), stopped, *variables)
        return [body, ast.copy_location(ast.Expr(repeat), node)]

    visit_Until = visit_For

    def part(self, called: str, body: Sequence[ast.stmt], after: set[str]) -> ast.FunctionDef:
        """A block as a function, whose variables are those around it."""
        names = stored(body)
        begin: list[ast.stmt] = []
        if names - self.declared:
            begin.append(ast.Nonlocal(sorted(names - self.declared)))
        if names & self.declared:
            begin.append(ast.Global(sorted(names & self.declared)))
        made = [*begin, *self.block(body, after)]
        nothing = ast.arguments([], [], None, [], [], None, [])
        return ast.FunctionDef(called, nothing, made, [], **NO_TYPES)

    def variables(self, body: Sequence[ast.stmt], after: set[str]) -> list[ast.expr]:
        """What a block does to variables: which it assigns, which of them matter, which it writes.

        Written are those whose objects are changed in place.
        """
        assigned = stored(body) - self.declared
        live = assigned & (after | self.shared)
        return [texts(assigned), texts(live), texts(written(body))]

    def call(self, helper: str, where: ast.AST, *args: ast.expr) -> ast.Call:
        """A call of one of the functions that decide; they are told the line."""
        line = ast.Constant(getattr(where, "lineno", 0))
        made = ast.copy_location(ast.Call(member(helper), [line, *args], []), where)
        if made.end_lineno != made.lineno:
            # Python takes the last line of a member that is called; this is the statement's first.
            made.end_lineno, made.end_col_offset = made.lineno, made.col_offset + 1
        return made

    # Expressions.

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if has_own_meaning([node.body, node.orelse]):
            return self.generic_visit(node)  # type: ignore[return-value]
        test, body, orelse = self.test(node.test), self.visit(node.body), self.visit(node.orelse)
        return self.call("choose", node, test, thunk(body), thunk(orelse))

    def test(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth matters: its parts may have different types."""
        if isinstance(node, ast.BoolOp) and not has_own_meaning(node.values[1:]):
            helper = "both" if isinstance(node.op, ast.And) else "either"
            return self.nested(helper, node, [self.test(value) for value in node.values])
        return self.visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if has_own_meaning(node.values[1:]):
            return self.generic_visit(node)  # type: ignore[return-value]
        match node:
            case ast.BoolOp(ast.Or(), [ast.BoolOp(ast.And(), [*tests, value]), *rest]):
                # `a and b or c` is `(b or c) if a else c`: what `a` is does not matter then.
                test = ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0]
                other = ast.BoolOp(ast.Or(), rest) if len(rest) > 1 else rest[0]
                body = ast.BoolOp(ast.Or(), [value, *copy.deepcopy(rest)])
                made = ast.copy_location(ast.IfExp(test, body, other), node)
                return self.visit(ast.fix_missing_locations(made))
        helper = "last_of" if isinstance(node.op, ast.And) else "first_of"
        return self.nested(helper, node, [self.visit(value) for value in node.values])

    def nested(self, helper: str, where: ast.AST, values: Sequence[ast.expr]) -> ast.expr:
        """``a and b and c`` as calls: each value but the first is computed if it is needed."""
        *values, result = values
        for value in reversed(values):
            result = self.call(helper, where, value, thunk(result))
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, ast.Not):
            return self.generic_visit(node)  # type: ignore[return-value]
        return self.call("negated", node, self.test(node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        names = [RELATIONS.get(type(op)) for op in node.ops]
        lazy = has_own_meaning(node.comparators[1:])
        self.generic_visit(node)
        if lazy or None in names:
            return node
        rights = [node.comparators[0], *[thunk(right) for right in node.comparators[1:]]]
        pairs = [(ast.Constant(n), right) for n, right in zip(names, rights, strict=True)]
        rest = [part for pair in pairs for part in pair]
        return self.call("compare" if len(rights) == 1 else "chain", node, node.left, *rest)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            node.args = [name("__class__"), name(self.first or "self")]
            return node
        if isinstance(node.func, ast.Name) and node.func.id == "print":
            node.args = [spoken(arg) for arg in node.args]
        self.generic_visit(node)
        node.func = ast.copy_location(ast.Call(member("called"), [node.func], []), node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if not any([isinstance(n, (ast.Name, ast.Call)) for n in ast.walk(node.slice)]):
            return self.generic_visit(node)  # type: ignore[return-value]
        owner = copy.deepcopy(node.value)
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            get = ast.Call(member("element"), [node.value, sliced(node.slice)], [])
            return ast.copy_location(get, node)
        calls = any([isinstance(n, ast.Call) for n in ast.walk(owner)])
        of = ast.Constant(None) if calls else self.visit(loading(owner))
        node.slice = ast.copy_location(
            ast.Call(member("key"), [of, sliced(node.slice)], []), node.slice
        )
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = ast.Constant(None) if node.msg is None else thunk(self.visit(spoken(node.msg)))
        check = self.call("check", node, self.test(node.test), message)
        return ast.copy_location(ast.Expr(check), node)

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        if isinstance(node.exc, ast.Call):
            node.exc.args = [spoken(arg) for arg in node.exc.args]
        self.generic_visit(node)
        if node.exc is None or node.cause is not None:
            return node
        return ast.copy_location(ast.Expr(self.call("fail", node, thunk(node.exc))), node)

    # Names with two underscores are the class's own.

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        self.generic_visit(node)
        node.attr = self.private(node.attr)
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.private(node.id)
        return node

    def private(self, text: str) -> str:
        if self.owner is None or text[:2] != "__" or text[-2:] == "__":
            return text
        return f"_{self.owner.lstrip('_')}{text}"


def is_generator(function: ast.FunctionDef | ast.Lambda) -> bool:
    return has_own_meaning(list(ast.iter_child_nodes(function)), STAYS[1:])


def has_own_meaning(syntax: Sequence[ast.AST], kinds: tuple[type, ...] = STAYS) -> bool:
    """Whether something means another thing if it is put into a function."""
    return any([isinstance(node, kinds) for node in nodes(syntax)])


def parameters(args: ast.arguments) -> list[ast.arg]:
    several = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    return [*several, *[arg for arg in (args.vararg, args.kwarg) if arg is not None]]


def thunk(value: ast.expr) -> ast.Lambda:
    """A function without parameters that gives the value of an expression."""
    made = ast.Lambda(ast.arguments([], [], None, [], [], None, []), value)
    return ast.copy_location(made, value)


def spoken(node: ast.expr) -> ast.expr:
    """An f-string as a text with values that a graph may know only when it runs."""
    if not isinstance(node, ast.JoinedStr):
        return node
    parts: list[ast.expr] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            conversion = ast.Constant(chr(part.conversion) if part.conversion > 0 else "")
            form = part.format_spec or ast.Constant("")
            parts.append(ast.Tuple([part.value, conversion, form], ast.Load()))
        else:
            parts.append(part)
    return ast.copy_location(ast.Call(member("text"), parts, []), node)


def sliced(node: ast.expr) -> ast.expr:
    """A subscript as an expression: ``a:b`` is ``slice(a, b, None)``."""
    if isinstance(node, ast.Tuple):
        node.elts = [sliced(part) for part in node.elts]
    if not isinstance(node, ast.Slice):
        return node
    ends = [part or ast.Constant(None) for part in (node.lower, node.upper, node.step)]
    return ast.copy_location(ast.Call(member("slice"), ends, []), node)


def loading(node: ast.expr) -> ast.expr:
    """A target as an expression that is read."""
    for part in ast.walk(node):
        if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript)):
            part.ctx = ast.Load()
    return node


def member(helper: str) -> ast.Attribute:
    return ast.Attribute(name(HELPERS), helper, ast.Load())


def texts(names: Iterable[str]) -> ast.Tuple:
    return ast.Tuple([ast.Constant(variable) for variable in sorted(names)], ast.Load())
