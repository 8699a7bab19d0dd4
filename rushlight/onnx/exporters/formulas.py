"""Ops whose element is a formula of elements: the formula, written with operators of ONNX.

An op says with ``emit`` what one element of its result is (``docs/design/ops.md``). What a program
makes loops of is here made one node for each operation, over whole tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.codegen.traverse import walk
from rushlight.codegen.values import BOOL, FLOATS, INDEX, RELATIONS, UNSIGNED, Builder, Value
from rushlight.dims import broadcast
from rushlight.graph.attributes import DTYPES, LONG
from rushlight.graph.ir import Node
from rushlight.onnx.writer import Writer, exports, operand

HALF = ("f16", "bf16")  # computed in f32, and rounded once

DIRECT = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "add": "Add", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "div": "Div",
    "eq": "Equal", "erf": "Erf", "exp": "Exp", "floor": "Floor", "ge": "GreaterOrEqual",
    "gt": "Greater", "le": "LessOrEqual", "log": "Log", "lt": "Less", "max": "Max", "min": "Min",
    "mul": "Mul", "neg": "Neg", "pow": "Pow", "rare": "Where", "rint": "Round",
    "sigmoid": "Sigmoid", "sin": "Sin", "sinh": "Sinh", "sqrt": "Sqrt", "sub": "Sub", "tan": "Tan",
    "tanh": "Tanh", "where": "Where",
}  # fmt: skip
OF_BOOLS = {"add": "Or", "and": "And", "max": "Or", "min": "And", "mul": "And", "not": "Not",
            "or": "Or", "xor": "Xor", "where": "Where", "eq": "Equal"}  # fmt: skip
OF_BITS = {"and": "BitwiseAnd", "or": "BitwiseOr", "xor": "BitwiseXor", "not": "BitwiseNot"}


@exports("formula")
def formula(w: Writer, node: Node, *operands: str | None) -> str:
    """Any op with an ``emit`` rule."""
    b = Builder()
    names: dict[Value, str] = {}
    scalars: list[Any] = []
    for number, (source, name) in enumerate(zip(node.inputs, operands, strict=True)):
        if source is None or name is None:
            scalars.append(None)
            continue
        kind = source.type.kind
        if kind.startswith("c"):
            raise w.refusal("operators of ONNX do not take complex numbers")
        if kind in HALF:
            kind, name = "f32", cast(w, name, "f32")
        scalars.append(b.load(number, kind, ()))
        names[scalars[-1]] = name
    result = node.op.emit(b, *scalars, **node.attrs)
    for value in walk([result]):
        if value not in names:
            names[value] = written(w, value, [names[a] for a in value.args])
    found = names[result]
    found = found if result.kind == node.type.kind else cast(w, found, node.type.kind)
    used = [operand(node, v.data).type.shape for v in walk([result]) if v.op == "load"]
    whole = broadcast(*used) == node.type.shape
    return found if whole else w("Expand", found, w.ints(*node.type.shape))


def cast(w: Writer, x: str, kind: str) -> str:
    return w.cast(x, DTYPES[LONG["i64" if kind == INDEX else kind]])


def number(w: Writer, value: Any, kind: str) -> str:
    """A constant of a kind."""
    return w.constant(value, DTYPES[LONG["i64" if kind == INDEX else kind]])


def written(w: Writer, value: Value, args: list[str]) -> str:
    """The name of one value of a formula, from those of its operands."""
    op, kind = value.op, value.kind
    inner = value.args[-1].kind if value.args else kind
    if op == "constant":
        return number(w, value.data, kind)
    if op == "cast":
        return cast(w, args[0], kind)
    if op == "checked":  # a file cannot raise errors about values
        return args[0]
    if op == "ne":
        return w("Not", w("Equal", *args))
    if inner == BOOL and op in OF_BOOLS:
        return w(OF_BOOLS[op], *args)
    if inner == BOOL and op in RELATIONS:
        args = [cast(w, a, "i32") for a in args]
    if inner not in FLOATS and op in OF_BITS:
        if w.opset < 18:
            raise w.refusal("it needs opset_version=18 or later")
        return w(OF_BITS[op], *args)
    if op in ("shl", "shr") and kind in UNSIGNED:
        return w("BitShift", *args, direction="LEFT" if op == "shl" else "RIGHT")
    if op in DIRECT:
        return w(DIRECT[op], *args)
    rule = RULES.get(op)
    if rule is None:
        raise w.refusal(f"ONNX has no operator for its part {op!r}")
    return rule(w, inner, *args)


def near_zero(w: Writer, kind: str, x: str, near: str, far: str) -> str:
    """``near`` where |x| < 1/2, else ``far``."""
    return w("Where", w("Less", w("Abs", x), number(w, 0.5, kind)), near, far)


def log1p(w: Writer, kind: str, x: str) -> str:
    """log(1 + x); near 0, what 1 + x loses of x is made up for."""
    one = number(w, 1, kind)
    u = w("Add", x, one)
    log = w("Log", u)
    lost = w("Div", w("Mul", log, x), w("Sub", u, one))
    return near_zero(w, kind, x, w("Where", w("Equal", u, one), x, lost), log)


def expm1(w: Writer, kind: str, x: str) -> str:
    """exp(x) − 1; near 0, what exp(x) loses of x is made up for."""
    one = number(w, 1, kind)
    u = w("Exp", x)
    far = w("Sub", u, one)
    lost = w("Div", w("Mul", far, x), w("Log", u))
    return near_zero(w, kind, x, w("Where", w("Equal", u, one), x, lost), far)


def trunc(w: Writer, kind: str, x: str) -> str:
    if kind not in FLOATS:
        return x
    return w("Where", w("Less", x, number(w, 0, kind)), w("Ceil", x), w("Floor", x))


def copysign(w: Writer, kind: str, x: str, y: str) -> str:
    """|x| with the sign of y, which 1/y tells of zeros too."""
    zero, size = number(w, 0, kind), w("Abs", x)
    negative = w("Or", w("Less", y, zero), w("Less", w("Reciprocal", y), zero))
    return w("Where", negative, w("Neg", size), size)


def quotient(w: Writer, kind: str, x: str, y: str) -> str:
    """The quotient of integers towards zero, 0 if the divisor is."""
    zero = number(w, 0, kind)
    none = w("Equal", y, zero)
    return w("Where", none, zero, w("Div", x, w("Where", none, number(w, 1, kind), y)))


def atan2(w: Writer, kind: str, y: str, x: str) -> str:
    """The angle of (x, y): that of y/x, turned by half a turn on the left."""
    zero = number(w, 0, kind)
    ratio = w("Atan", w("Div", y, x))
    half = copysign(w, kind, number(w, math.pi, kind), y)
    turned = w("Where", w("Less", x, zero), w("Add", ratio, half), ratio)
    upright = copysign(w, kind, number(w, math.pi / 2, kind), y)
    on_axis = w("Where", w("Equal", y, zero), copysign(w, kind, zero, y), upright)
    return w("Where", w("Equal", x, zero), on_axis, turned)


def scaled_log(base: float) -> Callable[..., str]:
    return lambda w, kind, x: w("Mul", w("Log", x), number(w, 1 / math.log(base), kind))


def hypot(w: Writer, kind: str, x: str, y: str) -> str:
    return w("Sqrt", w("Add", w("Mul", x, x), w("Mul", y, y)))


def fma(w: Writer, kind: str, x: str, y: str, z: str) -> str:
    return w("Add", w("Mul", x, y), z)


RULES: dict[str, Callable[..., str]] = {
    "atan2": atan2,
    "copysign": copysign,
    "erfc": lambda w, kind, x: w("Sub", number(w, 1, kind), w("Erf", x)),
    "exp2": lambda w, kind, x: w("Pow", number(w, 2, kind), x),
    "expm1": expm1,
    "fma": fma,
    "fmod": lambda w, kind, x, y: w("Mod", x, y, fmod=1),
    "hypot": hypot,
    "idiv": quotient,
    "irem": lambda w, kind, x, y: w("Mod", x, y, fmod=1),
    "log10": scaled_log(10),
    "log1p": log1p,
    "log2": scaled_log(2),
    "rsqrt": lambda w, kind, x: w("Reciprocal", w("Sqrt", x)),
    "trunc": trunc,
}
