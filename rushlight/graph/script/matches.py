"""``match`` as branches, where patterns ask for values: what tensors decide can be a branch then.

    match a:            subject = a
        case 1 | 2:     if subject == 1 or subject == 2:
            b       →       b
        case x:         else:
            c               x = subject
                            c

Patterns with parts stay Python's. They ask by identity and by type, which numbers of a graph do not
answer as the numbers they stand for do: a subject with such numbers is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from rushlight.errors import user_line
from rushlight.func.trees import flatten
from rushlight.graph.scalars import Scalar
from rushlight.graph.script.jumps import assign, name
from rushlight.graph.script.names import SCOPES
from rushlight.symbol import TraceError

SUBJECT = "_script_subject"


class Matches(ast.NodeTransformer):
    """Puts branches in the place of every ``match`` of one function that asks for values.

    >>> body = ast.parse("match f(x):\\n    case 1 | 2: y = 3\\n    case z: y = z").body
    >>> print(ast.unparse(ast.Module(Matches().function(body), [])))
    _script_subject_1 = f(x)
    if _script_subject_1 == 1 or _script_subject_1 == 2:
        y = 3
    else:
        z = _script_subject_1
        y = z
    """

    def __init__(self) -> None:
        self.count = 0

    def function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return self.visit(ast.Module(list(body), [])).body

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, SCOPES) else super().generic_visit(node)

    def visit_Match(self, node: ast.Match) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        self.count += 1
        subject = f"{SUBJECT}_{self.count}"
        made: list[ast.stmt] = []
        for case in reversed(node.cases):
            tests = self.tests(case.pattern, subject)
            variable = getattr(case.pattern, "name", None)
            if tests is None or (variable and case.guard):  # which may need the variable
                return node
            body = list(case.body)
            if variable:
                body.insert(0, assign(variable, name(subject), body[0]))
            tests += [case.guard] if case.guard else []
            if tests:
                test = ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0]
                body = [ast.copy_location(ast.If(test, body, made), case.pattern)]
            made = body
        return ast.fix_missing_locations(
            ast.Module([assign(subject, node.subject, node), *made], [])
        ).body

    def tests(self, pattern: ast.pattern, subject: str) -> list[ast.expr] | None:
        """What must hold of the subject if it is what a pattern says; None if that has parts."""
        x = name(subject)
        match pattern:
            case ast.MatchAs(None):
                return []
            case ast.MatchValue(value):
                return [ast.Compare(x, [ast.Eq()], [value])]
            case ast.MatchSingleton(value):
                return [ast.Compare(x, [ast.Is()], [ast.Constant(value)])]
            case ast.MatchClass(kind, [], [], []):
                return [ast.Call(name("isinstance"), [x, kind], [])]
            case ast.MatchOr(patterns):
                found = [self.tests(each, subject) or [] for each in patterns]
                if all(found):
                    return [ast.BoolOp(ast.Or(), [test for (test,) in found])]
        return None


def matched(line: int, subject: Any) -> Any:
    """What patterns with parts are compared with, if Python knows all of it."""
    if any([isinstance(leaf, Scalar) for leaf in flatten(subject)[0]]):
        raise TraceError(
            f"the match at {user_line()} has patterns with parts, and is to compare numbers with "
            "them that depend on tensors, which a graph does not know yet: write an if in its place"
        )
    return subject
