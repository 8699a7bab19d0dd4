"""Scalar values as C expressions.

A value of 16 bits is a ``float`` that is rounded after each operation; booleans are 0 or 1. Signed
integers wrap, which C leaves undefined: they are added and multiplied as unsigned ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from rushlight.c.snippets import STORED, Snippets, bare
from rushlight.codegen.instructions import LOGIC, SMALL, bits_of
from rushlight.codegen.values import FLOATS, INDEX, RELATIONS, SIGNED, Builder, Value

COMPUTED = STORED | {"b1": "int", "f16": "float", "bf16": "float", INDEX: "int64_t"}
"""The types of values in expressions."""

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
LIBM = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
    "abs": "fabs", "copysign": "copysign", "fma": "fma",
}  # fmt: skip


def literal(number: Any, kind: str) -> str:
    """A number as C reads it, to the last bit.

    >>> literal(0.1, "f32"), literal(-(2**63), "i64"), literal(float("inf"), "f64")
    ('0.1f', '(-INT64_C(9223372036854775807) - 1)', '(double)INFINITY')
    """
    if kind == "b1":
        return str(int(bool(number)))
    if kind in FLOATS:
        return float_literal(float(number), kind)
    bits = bits_of(kind)
    wrapped = int(number) % 2**bits
    if kind in SIGNED and wrapped >= 2 ** (bits - 1):
        wrapped -= 2**bits
    if kind == "u64":
        return f"UINT64_C({wrapped})"
    if kind == "u32":
        return f"{wrapped}u"
    if wrapped == -(2**63):
        return "(-INT64_C(9223372036854775807) - 1)"
    if wrapped == -(2**31):
        return "(-2147483647 - 1)"
    text = str(wrapped) if abs(wrapped) < 2**31 else f"INT64_C({wrapped})"
    return text if wrapped >= 0 else f"({text})"


def float_literal(number: float, kind: str) -> str:
    if kind in SMALL:
        small = np.float16 if kind == "f16" else ml_dtypes.bfloat16
        with np.errstate(all="ignore"):
            number = float(np.float32(number).astype(small))
    elif kind == "f32":
        with np.errstate(all="ignore"):
            number = float(np.float32(number))
    suffix = "" if kind == "f64" else "f"
    if math.isnan(number):
        return "NAN" if suffix else "(double)NAN"
    if math.isinf(number):
        text = "INFINITY" if suffix else "(double)INFINITY"
        return text if number > 0 else f"(-{text})"
    text = repr(number) if kind == "f64" else shortest(np.float32(number))
    return f"{text}{suffix}" if not text.startswith("-") else f"({text}{suffix})"


def shortest(number: np.float32) -> str:
    text = str(number)
    return text if any([mark in text for mark in ".e"]) else f"{text}.0"


def loaded(text: str, kind: str, snippets: Snippets) -> str:
    """The value of an element in memory."""
    if kind == "b1":
        return f"({text} != 0)"
    return snippets.call(f"widen_{kind}", text) if kind in SMALL else text


def stored(text: str, kind: str, snippets: Snippets) -> str:
    """What is kept in memory of a value."""
    if kind == "b1":
        return f"(uint8_t){text}" if text.isidentifier() else f"(uint8_t)({bare(text)})"
    return snippets.call(f"narrow_{kind}", text) if kind in SMALL else text


def expression(v: Value, args: Sequence[str], snippets: Snippets) -> str:
    """An operation of values that are given as texts; loads, folds and loops excepted."""
    op, kind = v.op, v.kind
    inner = v.args[-1].kind
    if op == "where":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if op in RELATIONS:
        return f"({args[0]} {SIGNS[op]} {args[1]})"
    if op == "cast":
        return converted(args[0], inner, kind, snippets)
    if op == "bits":
        if inner == kind or {inner, kind} == {"i64", INDEX}:
            return args[0]
        return snippets.call(f"bits_{inner}_{kind}", *args)
    if op == "affine":
        return total(v, args)
    if kind == INDEX and op in ("floor", "mod"):
        return whole(v, args[0], snippets)
    if kind == "b1":
        return logical(op, args)
    if kind in FLOATS:
        return rounded(floating(op, kind, args, snippets), kind, snippets)
    return integer(op, kind, args, snippets)


def logical(op: str, args: Sequence[str]) -> str:
    if op == "not":
        return f"(!{args[0]})"
    if len(args) == 1:
        return args[0]
    return f"({args[0]} {SIGNS[LOGIC.get(op, op)]} {args[1]})"


def floating(op: str, kind: str, args: Sequence[str], snippets: Snippets) -> str:
    if op in ("min", "max"):
        return snippets.call(f"{op}_{'f64' if kind == 'f64' else 'f32'}", *args)
    if op == "neg":
        return f"(-{args[0]})"
    if op in LIBM:
        return f"{LIBM[op]}{'' if kind == 'f64' else 'f'}({', '.join(args)})"
    return f"({args[0]} {SIGNS[op]} {args[1]})"


def rounded(text: str, kind: str, snippets: Snippets) -> str:
    return snippets.call(f"round_{kind}", text) if kind in SMALL else text


def integer(op: str, kind: str, args: Sequence[str], snippets: Snippets) -> str:
    if op in ("floor", "ceil", "trunc", "rint") or (op == "abs" and kind not in SIGNED):
        return args[0]
    own = "i64" if kind == INDEX else kind
    if op in ("min", "max", "abs", "shl", "shr", "idiv", "irem"):
        return snippets.call(f"{op}_{own}", *args)
    type_ = STORED[own]
    if op == "not":
        return f"({type_})~{args[0]}"
    if op in ("and", "or", "xor"):
        return f"({type_})({args[0]} {SIGNS[op]} {args[1]})"
    wide = "uint64_t" if bits_of(own) == 64 else "uint32_t"
    if op == "neg":
        return f"({type_})(0 - ({wide}){args[0]})"
    return f"({type_})(({wide}){args[0]} {SIGNS[op]} ({wide}){args[1]})"


def converted(text: str, source: str, kind: str, snippets: Snippets) -> str:
    """A number in another kind, as ``kernels/casting.py`` converts it."""
    if source == kind or {source, kind} == {"i64", INDEX}:
        return text
    if kind == "b1":
        return f"({text} != 0)"
    if kind in SMALL:
        return snippets.call(f"round_{kind}", f"(float){text}" if source == "f64" else text)
    if source in FLOATS and kind not in FLOATS:
        wide = "f64" if source == "f64" else "f32"
        return snippets.call(f"{wide}_to_{'i64' if kind == INDEX else kind}", text)
    return f"({COMPUTED[kind]}){text}"


def total(v: Value, args: Sequence[str]) -> str:
    """A sum of multiples of indices."""
    factors, offset = v.data
    text = ""
    for factor, x in zip((*factors, offset), (*args, ""), strict=True):
        if not factor:
            continue
        size = literal(abs(factor), INDEX)
        term = size if not x else x if abs(factor) == 1 else f"{size} * {x}"
        if not text:
            text = term if factor > 0 else f"-{term}"
        else:
            text += f" {'+' if factor > 0 else '-'} {term}"
    return f"({text})"


def whole(v: Value, x: str, snippets: Snippets) -> str:
    """Quotient or remainder of an index by a positive number."""
    bounds = v.builder.bounds(v.args[0])
    divisor = literal(v.data, INDEX)
    if bounds is None or bounds[0] < 0:
        return snippets.call("floor_div" if v.op == "floor" else "floor_mod", x, divisor)
    return f"({x} {'/' if v.op == 'floor' else '%'} {divisor})"


def parameter(b: Builder, name: str, kind: str) -> Value:
    """A value that is an argument of a C function."""
    return b.make("name", kind, (), name)
