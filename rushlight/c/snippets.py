"""Small C functions that programs are made with; a file holds those that it calls.

Each is what the native kernels of a program do for one element: integers wrap, a division by zero
gives zero, a float beyond the integers becomes the least one, NaNs are handed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import resources

INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)}
FLOATS = {"f32": "float", "f64": "double"}


class Snippets:
    """The functions that a file needs, in an order in which each is known before it is called."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def call(self, name: str, *args: str) -> str:
        """A call of a function, which the file will hold."""
        self.need(name)
        return f"{name}({', '.join([bare(a) for a in args])})"

    def need(self, name: str) -> None:
        if name not in self.texts:
            text = library().get(name) or made(name)
            for other in re.findall(r"\b\w+(?=\()", text):
                if other != name and (other in library() or is_made(other)):
                    self.need(other)
            self.texts[name] = text

    def add(self, name: str, text: str) -> None:
        """A function of the program's own."""
        self.texts[name] = text

    def __str__(self) -> str:
        return "\n\n".join(self.texts.values())


def bare(text: str) -> str:
    """An expression without parentheses around all of it.

    >>> bare("(a + b)"), bare("(a) + (b)")
    ('a + b', '(a) + (b)')
    """
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]


_library: dict[str, str] = {}


def library() -> dict[str, str]:
    """The functions of ``functions.c``, by name."""
    if not _library:
        source = resources.files("rushlight.c").joinpath("functions.c").read_text("utf-8")
        for part in source.split("\n\n"):
            head = re.search(r"^(?:static|typedef)[^\n]*?(\w+)(?:\(|;$| \{$)", part, re.M)
            if head is not None:
                _library[head[1]] = part.strip("\n")
    return _library


def c_type(kind: str) -> str:
    if kind in FLOATS:
        return FLOATS[kind]
    return f"{'u' * (kind[0] == 'u')}int{kind[1:]}_t"


def wide(kind: str) -> str:
    """The unsigned type in which integers are computed."""
    return "uint64_t" if INTEGERS[kind] == 64 else "uint32_t"


def extreme(op: str, kind: str) -> str:
    sign, t = ">" if op == "max" else "<", c_type(kind)
    nan = "a != a || " if kind in FLOATS else ""
    return f"static inline {t} {op}_{kind}({t} a, {t} b) {{ return {nan}a {sign} b ? a : b; }}"


def absolute(op: str, kind: str) -> str:
    t = c_type(kind)
    return (
        f"static inline {t} abs_{kind}({t} a) "
        f"{{ return a < 0 ? ({t})(0 - ({wide(kind)})a) : a; }}"
    )


def shift(op: str, kind: str) -> str:
    t, bits = c_type(kind), INTEGERS[kind]
    inside = f"b < {bits}" if kind[0] == "u" else f"b >= 0 && b < {bits}"
    if op == "shl":
        body = f"{inside} ? ({t})(({wide(kind)})a << b) : 0"
    elif kind[0] == "u":
        body = f"{inside} ? ({t})(a >> b) : 0"
    else:
        body = f"({t})(a >> ({inside} ? b : {bits - 1}))"
    return f"static inline {t} {op}_{kind}({t} a, {t} b) {{ return {body}; }}"


def quotient(op: str, kind: str) -> str:
    t = c_type(kind)
    sign, rest = ("/", "0") if op == "idiv" else ("%", "a")
    lines = [f"    if (b == 0) return {rest};"]
    if kind[0] == "i":
        odd = f"({t})(0 - ({wide(kind)})a)" if op == "idiv" else "0"
        lines.append(f"    if (b == -1) return {odd};")
    lines.append(f"    return ({t})(a {sign} b);")
    return "\n".join([f"static inline {t} {op}_{kind}({t} a, {t} b) {{", *lines, "}"])


def to_integer(source: str, kind: str) -> str:
    """As processors convert: what does not fit is the least integer, of 32 or of 64 bits."""
    s, t, f = c_type(source), c_type(kind), "f" if source == "f32" else ""
    head = f"static inline {t} {source}_to_{kind}({s} x) "
    if kind == "u64":
        top = f"9223372036854775808.0{f}"
        return (
            f"{head}{{\n    if (x >= {top}) return (uint64_t){source}_to_i64(x - {top}) "
            f"^ UINT64_C(0x8000000000000000);\n    return (uint64_t){source}_to_i64(x);\n}}"
        )
    if kind in ("u8", "u32"):
        return f"{head}{{ return ({t}){source}_to_i64(x); }}"
    if INTEGERS[kind] < 32:
        return f"{head}{{ return ({t}){source}_to_i32(x); }}"
    bits = INTEGERS[kind]
    most, least = f"{2.0 ** (bits - 1)!r}{f}", f"INT{bits}_MIN"
    return f"{head}{{ return x >= -{most} && x < {most} ? ({t})x : {least}; }}"


def same_bits(source: str, kind: str) -> str:
    s, t = c_type(source), c_type(kind)
    return (
        f"static inline {t} bits_{source}_{kind}({s} x) {{\n    {t} y;\n"
        "    memcpy(&y, &x, sizeof y);\n    return y;\n}"
    )


NUMBER = "|".join([*INTEGERS, *FLOATS])
FAMILIES: Sequence[tuple[str, Callable[[str, str], str]]] = (
    (rf"(max|min)_({NUMBER})", extreme),
    (r"(abs)_(i\d+)", absolute),
    (rf"(shl|shr)_({'|'.join(INTEGERS)})", shift),
    (rf"(idiv|irem)_({'|'.join(INTEGERS)})", quotient),
    (rf"(f32|f64)_to_({'|'.join(INTEGERS)})", to_integer),
    (rf"bits_({NUMBER})_({NUMBER})", same_bits),
)
"""Functions for all kinds of numbers: names, and what makes them of their parts."""


def is_made(name: str) -> bool:
    return any([re.fullmatch(pattern, name) for pattern, _ in FAMILIES])


def made(name: str) -> str:
    for pattern, make in FAMILIES:
        found = re.fullmatch(pattern, name)
        if found:
            return make(*found.groups())
    raise KeyError(name)
