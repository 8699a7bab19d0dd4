"""Instructions of LLVM for operations of scalars or of vectors of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from rushlight.codegen.values import FLOATS, INDEX, SIGNED

TYPES = {
    "b1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "i8", "u16": "i16",
    "u32": "i32", "u64": "i64", INDEX: "i64", "f16": "i16", "bf16": "i16", "f32": "float",
    "f64": "double",
}  # fmt: skip
"""16-bit floats are kept as their bits: they are computed with in 32 bits."""

MANGLED = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}
ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
LOGIC = {"add": "or", "mul": "and", "sub": "xor", "max": "or", "min": "and"}  # of bools
FLOAT_RELATIONS = {
    "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une",
}  # fmt: skip
ROUNDINGS = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven",
    "abs": "fabs",
}  # fmt: skip
SMALL = ("f16", "bf16")


def bits_of(kind: str) -> int:
    return 1 if kind == "b1" else 64 if kind == INDEX else int(kind.lstrip("biuf"))


def width(kind: str) -> int:
    """Bytes of an element in memory."""
    return max(1, bits_of(kind) // 8)


def memory(kind: str) -> str:
    """The type of an element in memory."""
    return "i8" if kind == "b1" else TYPES[kind]


def vector(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def mangled(scalar: str, lanes: int) -> str:
    """How an intrinsic's name spells a type."""
    name = MANGLED.get(scalar, scalar)
    return name if lanes == 1 else f"v{lanes}{name}"


def repeated(scalar: str, literal: str, lanes: int) -> str:
    """A constant in every lane."""
    if lanes == 1:
        return literal
    if literal in ("0", "false"):
        return "zeroinitializer"
    return f"<{', '.join([f'{scalar} {literal}'] * lanes)}>"


def literal(number: Any, kind: str) -> str:
    """A number as LLVM reads it; floats by their bits."""
    if kind == "b1":
        return "true" if number else "false"
    if kind not in FLOATS:
        bits = bits_of(kind)
        wrapped = int(number) & (2**bits - 1)
        return str(wrapped - 2**bits if wrapped >= 2 ** (bits - 1) else wrapped)
    with np.errstate(all="ignore"):
        if kind == "f64":
            exact = float(number)
        elif kind == "f32":
            exact = float(np.float32(number))
        else:
            kind_ = np.float16 if kind == "f16" else ml_dtypes.bfloat16
            return str(int(np.float32(number).astype(kind_).view(np.int16)))
    return "0x7FF8000000000000" if math.isnan(exact) else f"0x{struct.pack('>d', exact).hex()}"


class Instructions:
    """Writes instructions into blocks; a subclass says where the next one goes."""

    half = True  # the processor converts 16-bit floats

    def __init__(self) -> None:
        self.names = 0
        self.declared: dict[str, str] = {}

    def write(self, line: str) -> None:
        raise NotImplementedError

    def fresh(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def let(self, instruction: str) -> str:
        """Writes an instruction; the name of its result."""
        name = f"%{self.fresh()}"
        self.write(f"{name} = {instruction}")
        return name

    def call(self, name: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """Calls a function, which is declared in the module."""
        types = ", ".join([t for t, _ in arguments])
        self.declared[name] = f"declare {result} @{name}({types})"
        call = f"call {result} @{name}({', '.join([f'{t} {x}' for t, x in arguments])})"
        if result == "void":
            self.write(call)
            return ""
        return self.let(call)

    def intrinsic(self, name: str, scalar: str, lanes: int, *arguments: str) -> str:
        """``llvm.<name>`` whose operands have the type of its result."""
        t = vector(scalar, lanes)
        full = f"llvm.{name}.{mangled(scalar, lanes)}"
        return self.call(full, t, [(t, x) for x in arguments])

    def constant(self, number: Any, kind: str, lanes: int) -> str:
        return repeated(TYPES[kind], literal(number, kind), lanes)

    def select(self, condition: str, kind: str, lanes: int, a: str, b: str) -> str:
        t = vector(TYPES[kind], lanes)
        return self.let(f"select {vector('i1', lanes)} {condition}, {t} {a}, {t} {b}")

    def splat(self, kind: str, lanes: int, x: str) -> str:
        """A scalar in every lane."""
        t, scalar = vector(TYPES[kind], lanes), TYPES[kind]
        first = self.let(f"insertelement {t} poison, {scalar} {x}, i64 0")
        return self.let(f"shufflevector {t} {first}, {t} poison, <{lanes} x i32> zeroinitializer")

    def compare(self, op: str, kind: str, lanes: int, a: str, b: str) -> str:
        if kind in SMALL:
            return self.compare(
                op, "f32", lanes, self.cast(kind, "f32", lanes, a), self.cast(kind, "f32", lanes, b)
            )
        t = vector(TYPES[kind], lanes)
        if kind in FLOATS:
            return self.let(f"fcmp {FLOAT_RELATIONS[op]} {t} {a}, {b}")
        sign = "" if op in ("eq", "ne") else "s" if kind in SIGNED else "u"
        return self.let(f"icmp {sign}{op} {t} {a}, {b}")

    def binary(self, op: str, kind: str, lanes: int, a: str, b: str) -> str:
        """One of ``Builder.binary``'s operations, relations excepted."""
        if kind in SMALL and op not in ("and", "or", "xor"):
            wide = [self.cast(kind, "f32", lanes, x) for x in (a, b)]
            return self.cast("f32", kind, lanes, self.binary(op, "f32", lanes, *wide))
        t = vector(TYPES[kind], lanes)
        if kind == "b1":
            op = LOGIC.get(op, op)
        if op in ("min", "max"):
            return self.extreme(op, kind, lanes, a, b)
        if kind in FLOATS:
            if op in ARITHMETIC:
                return self.let(f"{ARITHMETIC[op]} {t} {a}, {b}")
            assert op == "copysign"
            return self.copysign(kind, lanes, a, b)
        if op in ("shl", "shr"):
            return self.shift(op, kind, lanes, a, b)
        if op in ("idiv", "irem"):
            return self.divide(op, kind, lanes, a, b)
        return self.let(f"{op} {t} {a}, {b}")

    def extreme(self, op: str, kind: str, lanes: int, a: str, b: str) -> str:
        """The greater or smaller one; a NaN of either."""
        chosen = self.select(
            self.compare("gt" if op == "max" else "lt", kind, lanes, a, b), kind, lanes, a, b
        )
        if kind not in FLOATS:
            return chosen
        t = vector(TYPES[kind], lanes)
        return self.select(self.let(f"fcmp uno {t} {a}, {a}"), kind, lanes, a, chosen)

    def copysign(self, kind: str, lanes: int, a: str, b: str) -> str:
        """By bits: of LLVM's own, a cast to a half type makes a call of a missing function."""
        t, same = vector(TYPES[kind], lanes), f"i{bits_of(kind)}"
        i, top = vector(same, lanes), 2 ** (bits_of(kind) - 1)
        parts = [
            self.let(
                f"and {i} {self.let(f'bitcast {t} {x} to {i}')}, {self.constant(m, same, lanes)}"
            )
            for x, m in ((a, top - 1), (b, -top))
        ]
        return self.let(f"bitcast {i} {self.let(f'or {i} {parts[0]}, {parts[1]}')} to {t}")

    def shift(self, op: str, kind: str, lanes: int, a: str, b: str) -> str:
        """Shifts by the width or more leave nothing but the sign."""
        t, bits = vector(TYPES[kind], lanes), bits_of(kind)
        inside = self.let(f"icmp ult {t} {b}, {self.constant(bits, kind, lanes)}")
        if op == "shr" and kind in SIGNED:
            most = self.select(inside, kind, lanes, b, self.constant(bits - 1, kind, lanes))
            return self.let(f"ashr {t} {a}, {most}")
        safe = self.select(inside, kind, lanes, b, self.constant(0, kind, lanes))
        moved = self.let(f"{'shl' if op == 'shl' else 'lshr'} {t} {a}, {safe}")
        return self.select(inside, kind, lanes, moved, self.constant(0, kind, lanes))

    def divide(self, op: str, kind: str, lanes: int, a: str, b: str) -> str:
        """Integer division towards zero and its remainder; by zero it gives 0 and a."""
        t = vector(TYPES[kind], lanes)
        zero, one = self.constant(0, kind, lanes), self.constant(1, kind, lanes)
        none = self.let(f"icmp eq {t} {b}, {zero}")
        odd = none
        if kind in SIGNED:  # the least integer by −1 would trap
            minus = self.let(f"icmp eq {t} {b}, {self.constant(-1, kind, lanes)}")
            odd = self.let(f"or {vector('i1', lanes)} {none}, {minus}")
        safe = self.select(odd, kind, lanes, one, b)
        sign = "s" if kind in SIGNED else "u"
        if op == "irem":
            rest = self.let(f"{sign}rem {t} {a}, {safe}")
            return self.select(none, kind, lanes, a, rest)
        quotient = self.let(f"{sign}div {t} {a}, {safe}")
        if kind in SIGNED:
            negative = self.let(f"sub {t} {zero}, {a}")
            quotient = self.select(minus, kind, lanes, negative, quotient)
        return self.select(none, kind, lanes, zero, quotient)

    def unary(self, op: str, kind: str, lanes: int, x: str) -> str:
        t = vector(TYPES[kind], lanes)
        if kind in SMALL and op != "not":
            wide = self.unary(op, "f32", lanes, self.cast(kind, "f32", lanes, x))
            return self.cast("f32", kind, lanes, wide)
        if op == "not":
            return self.let(f"xor {t} {x}, {self.constant(-1 if kind != 'b1' else 1, kind, lanes)}")
        if kind in FLOATS:
            if op == "neg":
                return self.let(f"fneg {t} {x}")
            return self.intrinsic(ROUNDINGS[op], TYPES[kind], lanes, x)
        if kind == "b1" or op in ("floor", "ceil", "trunc", "rint"):
            return x
        negative = self.let(f"sub {t} {self.constant(0, kind, lanes)}, {x}")
        if op == "neg":
            return negative
        if kind not in SIGNED:
            return x
        below = self.let(f"icmp slt {t} {x}, {self.constant(0, kind, lanes)}")
        return self.select(below, kind, lanes, negative, x)

    def cast(self, source: str, kind: str, lanes: int, x: str) -> str:
        """The number in another kind; as ``kernels/casting.py`` does it."""
        if source == kind or {source, kind} == {"i64", INDEX}:
            return x
        if kind == "b1":
            if source in SMALL:
                source, x = "f32", self.cast(source, "f32", lanes, x)
            return self.compare("ne", source, lanes, x, self.constant(0, source, lanes))
        if source in SMALL:
            return self.cast("f32", kind, lanes, self.widen(source, lanes, x))
        if kind in SMALL:
            return self.narrow(kind, lanes, self.cast(source, "f32", lanes, x))
        if source in FLOATS:
            return self.float_to(source, kind, lanes, x)
        before, after = vector(TYPES[source], lanes), vector(TYPES[kind], lanes)
        signed = source in SIGNED
        if kind in FLOATS:
            return self.let(f"{'si' if signed else 'ui'}tofp {before} {x} to {after}")
        if bits_of(kind) == bits_of(source):
            return x
        word = "trunc" if bits_of(kind) < bits_of(source) else "sext" if signed else "zext"
        return self.let(f"{word} {before} {x} to {after}")

    def float_to(self, source: str, kind: str, lanes: int, x: str) -> str:
        before, after = vector(TYPES[source], lanes), vector(TYPES[kind], lanes)
        if kind in FLOATS:
            word = "fpext" if kind == "f64" else "fptrunc"
            return self.let(f"{word} {before} {x} to {after}")
        if kind == "u64":
            top = self.constant(2.0**63, source, lanes)
            high = self.compare("ge", source, lanes, x, top)
            less = self.select(high, source, lanes, self.binary("sub", source, lanes, x, top), x)
            low = self.float_to(source, "i64", lanes, less)
            flipped = self.let(f"xor {after} {low}, {self.constant(2**63, 'i64', lanes)}")
            return self.select(high, kind, lanes, flipped, low)
        if kind in ("u8", "u32"):
            return self.cast("i64", kind, lanes, self.float_to(source, "i64", lanes, x))
        if bits_of(kind) < 32:
            return self.cast("i32", kind, lanes, self.float_to(source, "i32", lanes, x))
        most = 2.0 ** (bits_of(kind) - 1)
        least = self.constant(-most, source, lanes)
        fits = self.let(
            f"and {vector('i1', lanes)} "
            f"{self.compare('ge', source, lanes, x, least)}, "
            f"{self.compare('lt', source, lanes, x, self.constant(most, source, lanes))}"
        )
        safe = self.select(fits, source, lanes, x, least)
        return self.let(f"fptosi {before} {safe} to {after}")

    def widen(self, kind: str, lanes: int, x: str) -> str:
        """A 16-bit float, given by its bits, in 32 bits."""
        i16, i32, f32 = [vector(scalar, lanes) for scalar in ("i16", "i32", "float")]
        if kind == "f16" and self.half:
            half = vector("half", lanes)
            return self.let(f"fpext {half} {self.let(f'bitcast {i16} {x} to {half}')} to {f32}")
        bits = self.let(f"zext {i16} {x} to {i32}")
        if kind == "bf16":
            shifted = self.word("shl", bits, 16, lanes)
            return self.let(f"bitcast {i32} {shifted} to {f32}")
        sign = self.word("shl", self.word("and", bits, 0x8000, lanes), 16, lanes)
        size = self.word("shl", self.word("and", bits, 0x7FFF, lanes), 13, lanes)
        scale = self.constant(2.0**112, "f32", lanes)  # exponents count from 127 now, not from 15
        number = self.binary("mul", "f32", lanes, self.let(f"bitcast {i32} {size} to {f32}"), scale)
        number = self.let(f"bitcast {f32} {number} to {i32}")
        large = self.let(f"icmp uge {i32} {size}, {self.constant(0xF800000, 'i32', lanes)}")
        infinite = self.word("or", size, 0x7F800000, lanes)
        number = self.select(large, "i32", lanes, infinite, number)
        return self.let(f"bitcast {i32} {self.let(f'or {i32} {number}, {sign}')} to {f32}")

    def narrow(self, kind: str, lanes: int, x: str) -> str:
        """A 32-bit float rounded to 16 bits, to even."""
        i16, i32, f32 = [vector(scalar, lanes) for scalar in ("i16", "i32", "float")]
        if kind == "f16" and self.half:
            half = vector("half", lanes)
            return self.let(f"bitcast {half} {self.let(f'fptrunc {f32} {x} to {half}')} to {i16}")
        bits = self.let(f"bitcast {f32} {x} to {i32}")
        nan = self.let(f"fcmp uno {f32} {x}, {x}")
        if kind == "bf16":
            quiet = self.word("or", self.word("lshr", bits, 16, lanes), 0x40, lanes)
            rounded = self.select(nan, "i32", lanes, quiet, self.rounded(bits, 16, lanes))
            return self.let(f"trunc {i32} {rounded} to {i16}")
        size = self.word("and", bits, 0x7FFFFFFF, lanes)
        sign = self.word("lshr", self.let(f"xor {i32} {bits}, {size}"), 16, lanes)
        usual = self.rounded(self.word("sub", size, 112 << 23, lanes), 13, lanes)
        # Added to 1/2, a number below the least normal one is rounded as a denormal one is.
        near = self.let(f"bitcast {i32} {size} to {f32}")
        near = self.binary("add", "f32", lanes, near, self.constant(0.5, "f32", lanes))
        near = self.word("sub", self.let(f"bitcast {f32} {near} to {i32}"), 0x3F000000, lanes)
        tiny = self.let(f"icmp ult {i32} {size}, {self.constant(113 << 23, 'i32', lanes)}")
        large = self.let(f"icmp uge {i32} {size}, {self.constant(143 << 23, 'i32', lanes)}")
        number = self.select(tiny, "i32", lanes, near, usual)
        number = self.select(large, "i32", lanes, self.constant(0x7C00, "i32", lanes), number)
        number = self.select(nan, "i32", lanes, self.constant(0x7E00, "i32", lanes), number)
        return self.let(f"trunc {i32} {self.let(f'or {i32} {number}, {sign}')} to {i16}")

    def word(self, op: str, x: str, number: int, lanes: int) -> str:
        """An operation of 32-bit integers with a number."""
        return self.let(f"{op} {vector('i32', lanes)} {x}, {self.constant(number, 'i32', lanes)}")

    def rounded(self, x: str, bits: int, lanes: int) -> str:
        """A 32-bit integer without its last bits, rounded to even."""
        odd = self.word("and", self.word("lshr", x, bits, lanes), 1, lanes)
        step = self.word("add", odd, 2 ** (bits - 1) - 1, lanes)
        return self.word("lshr", self.let(f"add {vector('i32', lanes)} {x}, {step}"), bits, lanes)
