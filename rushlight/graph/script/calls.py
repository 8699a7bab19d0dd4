"""Conversion of functions: their syntax is rewritten once, their variables stay the live ones.

Calls in converted code ask :func:`called` for what to call, so conversion goes on through the
user's functions, methods and modules.
"""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import math
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import ContextDecorator
from operator import is_
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

from rushlight.autograd.modes import local, no_grad
from rushlight.dims import is_extent
from rushlight.errors import PACKAGE
from rushlight.graph.host import Host
from rushlight.graph.reads import Whose, whose_file
from rushlight.graph.scalars import DTYPES, Scalar, number_of, tensor_of_number
from rushlight.graph.script import flow, rows, says
from rushlight.graph.script.iterators import rest_of
from rushlight.graph.script.matches import matched
from rushlight.graph.script.syntax import HELPERS, Unconvertible, converted
from rushlight.graph.script.variables import journal
from rushlight.symbol import TraceError, Undecided
from rushlight.tensor import Tensor

OURS = (
    "Module.__call__", "call_with_hooks", "Sequential.forward", "Compiled.__call__",
    "Recorder.__call__", "Call.__call__",
)  # fmt: skip
"""Functions of this package that call the user's functions and modules."""
WRAPPERS = (no_grad()(len).__code__, ContextDecorator()(len).__code__)
"""What decorators of ours and of Python's put around a function; they go by its name."""
DEPTH = 16  # branches inside each other in which a function calls itself


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with Python's control flow as a graph can hold it.

    The result is called in a trace, in the place of ``function``: it has the same signature,
    globals and closure, and its lines are those of the user's file. Branches, loops, conditional
    expressions, ``and``, ``or``, ``not``, comparisons, ``assert``, ``raise`` and ``print`` do what
    they always did where values of Python decide; where a tensor of the trace decides, they become
    nodes of the graph. Functions and modules that it calls are converted when they are called.

    A function whose source is not known, and a generator, are given back as they are.

    >>> def sign(x):
    ...     return x if x.sum() > 0 else -x
    >>> rl.graph(convert(sign), rl.ones(2)).outputs[0].type.shape
    (2,)
    """
    match function:
        case FunctionType():
            return twin(function) if is_convertible(function) else derived(function)
        case MethodType():
            inner = convert(function.__func__)
            same = inner is function.__func__
            return function if same else MethodType(inner, function.__self__)
        case functools.partial():
            return functools.partial(convert(function.func), *function.args, **function.keywords)
        case type() | BuiltinFunctionType() | ModuleType():
            return function
        case _:
            method = type(function).__call__
            if isinstance(method, FunctionType) and is_convertible(method):
                return MethodType(convert(method), function)
            return function


def scripted(
    function: Callable[..., Any], error: Undecided | None = None
) -> Callable[..., Any] | None:
    """``function`` converted, for a trace from its beginning on, after one that failed so.

    If it cannot be converted, None where that trace was an attempt, else the error.
    """
    made = convert(function)
    if made is function:
        if error is None or error.optional:
            return None
        name = getattr(function, "__qualname__", type(function).__name__)
        raise TraceError(
            f"{error} (The source of {name} is not known: tensors can decide in those of files.)"
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        journal.lost.clear()
        try:
            return made(*args, **kwargs)
        except NameError as error:
            (name,) = re.findall(r"variable '(\w+)'", str(error)) or ("",)
            if name not in journal.lost:
                raise
            raise TraceError(
                f"{name!r} is used at {line_of(error)}, but has no value on one way through the "
                f"{journal.lost[name]}, which depends on tensors: give it one before"
            ) from error

    return call


def line_of(error: BaseException) -> str:
    """``file:line`` of the user's where an exception was raised."""
    found = "an unknown line"
    for frame, line in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            found = f"{frame.f_code.co_filename}:{line}"
    return found


def is_convertible(function: FunctionType) -> bool:
    """Whether a function is the user's, or calls what is."""
    whose = whose_file(function.__code__.co_filename)
    if whose is Whose.LIBRARY:  # one that is written for this package
        modules = [x for x in function.__globals__.values() if isinstance(x, ModuleType)]
        return any([m.__name__.partition(".")[0] in ("rushlight", "torch") for m in modules])
    if whose is Whose.USER or function.__qualname__ in OURS:
        return True
    return any([function.__code__ is code for code in WRAPPERS])


def twin(function: FunctionType) -> Callable[..., Any]:
    """A function of the converted code, over the same variables."""
    code = code_of(function.__code__, function.__qualname__)
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HELPERS] = CellType(helpers)
    return made_of(function, code, tuple([cells[name] for name in code.co_freevars]))


def derived(function: FunctionType) -> FunctionType:
    """What ``func.grad`` and its kin make of a function of the user's: of that converted.

    Others are given back as they are.
    """
    transforms = function.__globals__["__name__"].startswith("rushlight.func.")
    if not transforms or "__wrapped__" not in function.__dict__:
        return function
    known = [cell.cell_contents for cell in function.__closure__ or ()]
    found = [passed(value) for value in known]
    if all(map(is_, found, known)):
        return function
    return made_of(function, function.__code__, tuple([CellType(value) for value in found]))


def made_of(function: FunctionType, code: CodeType, closure: tuple[CellType, ...]) -> FunctionType:
    """``function`` with other code, or other variables around it."""
    made = FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__dict__.update(function.__dict__)
    return made


@functools.lru_cache(4096)
def code_of(code: CodeType, qualname: str) -> CodeType | None:
    """The code of a function after conversion; None if it stays as it is."""
    syntax = None if HELPERS in code.co_freevars else syntax_of(code)
    if syntax is None:  # or it is converted already
        return None
    owner = qualname.rpartition(".")[0].rpartition(".")[2]
    flags = code.co_flags & __future__.annotations.compiler_flag
    try:
        module = converted(syntax, code.co_freevars, owner if owner[-1:] != ">" else None)
        made = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    except (Unconvertible, SyntaxError):
        return None
    space: dict[str, Any] = {}
    exec(made, space)
    function = space["make"](*[None] * (1 + len(code.co_freevars)))
    return function.__code__.replace(co_name=code.co_name)


def syntax_of(code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The syntax of a function, in the file where it stands; None if it cannot be told."""
    text = "".join(linecache.getlines(code.co_filename))
    found = functions_in(text).get((code.co_name, code.co_firstlineno), [])
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    fitting = [node for node in found if names == parameters_of(node)]
    if len(fitting) > 1:
        fitting = [node for node in fitting if is_at(node.body, code)]
    return fitting[0] if len(fitting) == 1 else None


def parameters_of(node: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    args = node.args
    return tuple([a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)])


def is_at(body: ast.expr, code: CodeType) -> bool:
    """Whether a lambda's body is the one of ``code``, where several stand on one line."""
    if sys.version_info >= (3, 11):  # which tells columns
        places = [(place[0], place[2]) for place in code.co_positions()]
        return (body.lineno, body.col_offset) in places
    return False


@functools.lru_cache(64)
def functions_in(text: str) -> dict[tuple[str, int], list[Any]]:
    """The functions of a file, by name and first line (that of their first decorator)."""
    found: dict[tuple[str, int], list[Any]] = {}
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            line = min([node.lineno, *[d.lineno for d in node.decorator_list]])
            found.setdefault((node.name, line), []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(("<lambda>", node.lineno), []).append(node)
    return found


def called(function: Any) -> Any:
    """What converted code calls in the place of ``function``."""
    match function:
        case BuiltinFunctionType() | type():
            if isinstance(function, BuiltinFunctionType) and isinstance(function.__self__, list):
                return function
            return BUILTINS.get(function, function)
        case MethodType() if function.__func__ is Tensor.item and local.state.trace is not None:
            t: Any = function.__self__
            return lambda: flow.item(t)
        case FunctionType() if not is_convertible(function):
            return with_functions(derived(function))
        case _:
            found = convert(function)
            own = found is not function and not isinstance(found, functools.partial)
            return followed(found) if own else found


def with_functions(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a library: functions of the user's that it is given are converted."""

    def call(*args: Any, **kwargs: Any) -> Any:
        named = {name: passed(value) for name, value in kwargs.items()}
        return function(*[passed(value) for value in args], **named)

    return call


def passed(value: Any) -> Any:
    return convert(value) if isinstance(value, (FunctionType, MethodType)) else value


def followed(function: Any) -> Callable[..., Any]:
    """A converted function that may call itself, but not in branch after branch without end."""
    code = getattr(function, "__func__", function).__code__

    def call(*args: Any, **kwargs: Any) -> Any:
        traces = journal.running.setdefault(code, [])
        traces.append(local.state.trace)
        try:
            if len(set(map(id, traces))) > DEPTH:
                raise TraceError(
                    f"{code.co_name} ({code.co_filename}:{code.co_firstlineno}) calls itself, and "
                    "how often depends on tensors: a graph holds no recursion. Write a loop"
                )
            return function(*args, **kwargs)
        finally:
            traces.pop()

    return call


def number(kind: type) -> Callable[..., Any]:
    """``int``, ``float`` or ``bool``, also of what only the graph knows."""

    def call(*args: Any) -> Any:
        if len(args) == 1 and local.state.trace is not None:
            (x,) = args
            if is_extent(x) and kind is not bool:
                return x if kind is int else x / 1
            if isinstance(x, Scalar):
                return number_of(x.tensor, kind)
            if isinstance(x, Host) and kind is bool:
                return number_of(tensor_of_number(x), kind)
            if isinstance(x, Tensor) and x.numel() == 1:
                return flow.item(x, kind)
        return kind(*args)

    return call


def is_instance(x: Any, kinds: Any) -> bool:
    """``isinstance``, also of numbers that only the graph knows."""
    return issubclass(x.kind, kinds) if isinstance(x, Scalar) else isinstance(x, kinds)


def type_of(*args: Any, **options: Any) -> Any:
    """``type``, also of numbers that only the graph knows."""
    if len(args) == 1 and isinstance(args[0], Scalar):
        return args[0].kind
    return type(*args, **options)


def extreme(function: Callable[..., Any], relation: str) -> Callable[..., Any]:
    """``min`` or ``max``, also of what only the graph knows."""

    def call(*args: Any, **options: Any) -> Any:
        several = args if len(args) > 1 else args[0]
        if options or not isinstance(several, (tuple, list)) or not several:
            return function(*args, **options)
        best = several[0]
        for x in several[1:]:
            better = functools.partial(lambda x: x, x)
            best = flow.choose(
                0, flow.compare(0, x, relation, best), better, functools.partial(lambda x: x, best)
            )
        return best

    return call


def some(values: Any) -> Any:
    """``any``, also of what only the graph knows."""
    return joined(values, False, flow.either)


def every(values: Any) -> Any:
    """``all``, also of what only the graph knows."""
    return joined(values, True, flow.both)


def joined(values: Any, neutral: bool, join: Callable[..., Any]) -> Any:
    """All values joined, until one has decided."""
    found: Any = neutral
    iterator = iter(values)
    for x in iterator:
        found = join(0, found, functools.partial(number(bool), x))
        if found is not neutral:
            break
    if found is True or found is False:
        return found
    for x in rest_of(iterator):
        found = join(0, found, functools.partial(number(bool), x))
    return found


NAMES = {"fabs": "abs", "degrees": "rad2deg", "radians": "deg2rad"}
"""Functions of ``math`` that tensors have under other names."""


def formula(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ``math``, also of numbers that only the graph knows."""
    name = NAMES.get(function.__name__, function.__name__)

    def call(*args: Any) -> Any:
        if not any([isinstance(x, Scalar) for x in args]):
            return function(*args)
        first, *rest = [tensor_of_number(x, DTYPES[float]) for x in args]
        found = getattr(first, name)(*rest)
        return number_of(found, int) if name in ("floor", "ceil", "trunc") else Scalar(found)

    return call


FORMULAS = (
    "sqrt", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sinh",
    "cosh", "asin", "acos", "atan", "atan2", "erf", "fabs", "pow", "floor", "ceil", "trunc",
    "isnan", "isinf", "isfinite", "hypot", "copysign", "fmod", "degrees", "radians",
)  # fmt: skip
BUILTINS: dict[Any, Any] = {
    range: rows.counted,
    len: rows.length_of,
    enumerate: rows.numbered,
    zip: rows.zipped,
    reversed: rows.backwards,
    print: says.show,
    isinstance: is_instance,
    type: type_of,
    any: some,
    all: every,
    min: extreme(min, "lt"),
    max: extreme(max, "gt"),
    **{kind: number(kind) for kind in (bool, int, float)},
    **{getattr(math, name): formula(getattr(math, name)) for name in FORMULAS},
}
"""What stands for functions of Python's that may be given tensors or numbers of a graph."""

helpers = SimpleNamespace(
    **{f.__name__: f for f in (flow.branch, flow.choose, flow.loop, flow.each, flow.both)},
    **{f.__name__: f for f in (flow.either, flow.negated, flow.compare, flow.chain, flow.key)},
    **{f.__name__: f for f in (flow.last_of, flow.first_of, flow.element, slice)},
    **{f.__name__: f for f in (says.check, says.fail, says.text, says.catching, says.entered)},
    called=called,
    matched=matched,
)
"""What converted code knows as ``__script__``."""
