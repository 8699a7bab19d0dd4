"""Small C functions that programs are made with; a file holds those that it calls.

Each is what the native kernels of a program do for one element: integers wrap, a division by zero
gives zero, a float beyond the integers becomes the least one, NaNs are handed on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import resources

STORED = {
    "b1": "uint8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "f16": "uint16_t",
    "bf16": "uint16_t", "f32": "float", "f64": "double",
}  # fmt: skip
"""The types of elements in memory."""

INTEGERS = {f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)}
FLOATS = ("f32", "f64")


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
            for other in re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", text, flags=re.S)):
                if other != name and other != "fault" and is_known(other):
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
    """The functions and types of the C files beside this one, by name."""
    if not _library:
        for file in sorted(resources.files("rushlight.c").iterdir(), key=lambda file: file.name):
            if file.name.endswith(".c"):
                for part in re.split(r"\n\n(?=static|typedef)", file.read_text("utf-8"))[1:]:
                    head = re.search(r"^\} (\w+);" if part[0] == "t" else r"(\w+)\(", part, re.M)
                    assert head is not None
                    _library[head[1]] = part.strip("\n")
    return _library


def wide(kind: str) -> str:
    """The unsigned type in which integers are computed."""
    return "uint64_t" if INTEGERS[kind] == 64 else "uint32_t"


def extreme(op: str, kind: str) -> str:
    sign, t = ">" if op == "max" else "<", STORED[kind]
    nan = "a != a || " if kind in FLOATS else ""
    return f"static inline {t} {op}_{kind}({t} a, {t} b) {{ return {nan}a {sign} b ? a : b; }}"


def absolute(op: str, kind: str) -> str:
    t = STORED[kind]
    return (
        f"static inline {t} abs_{kind}({t} a) {{ return a < 0 ? ({t})(0 - ({wide(kind)})a) : a; }}"
    )


def shift(op: str, kind: str) -> str:
    t, bits = STORED[kind], INTEGERS[kind]
    inside = f"b < {bits}" if kind[0] == "u" else f"b >= 0 && b < {bits}"
    if op == "shl":
        body = f"{inside} ? ({t})(({wide(kind)})a << b) : 0"
    elif kind[0] == "u":
        body = f"{inside} ? ({t})(a >> b) : 0"
    else:
        body = f"({t})(a >> ({inside} ? b : {bits - 1}))"
    return f"static inline {t} {op}_{kind}({t} a, {t} b) {{ return {body}; }}"


def quotient(op: str, kind: str) -> str:
    t = STORED[kind]
    sign, rest = ("/", "0") if op == "idiv" else ("%", "a")
    lines = [f"    if (b == 0) return {rest};"]
    if kind[0] == "i":
        odd = f"({t})(0 - ({wide(kind)})a)" if op == "idiv" else "0"
        lines.append(f"    if (b == -1) return {odd};")
    lines.append(f"    return ({t})(a {sign} b);")
    return "\n".join([f"static inline {t} {op}_{kind}({t} a, {t} b) {{", *lines, "}"])


def to_integer(source: str, kind: str) -> str:
    """As processors convert: what does not fit is the least integer, of 32 or of 64 bits."""
    s, t, f = STORED[source], STORED[kind], "f" if source == "f32" else ""
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


def less(_: str, kind: str) -> str:
    """The order in which numbers are sorted: NaN is the greatest."""
    t = STORED[kind]
    nan = " || (b != b && a == a)" if kind in FLOATS else ""
    return f"static inline int less_{kind}({t} a, {t} b) {{ return a < b{nan}; }}"


def is_nan(_: str, kind: str) -> str:
    t = STORED[kind]
    body = "return x != x;" if kind in FLOATS else "(void)x; return 0;"
    return f"static inline int is_nan_{kind}({t} x) {{ {body} }}"


def same_bits(source: str, kind: str) -> str:
    s, t = STORED[source], STORED[kind]
    return (
        f"static inline {t} bits_{source}_{kind}({s} x) {{\n    {t} y;\n"
        "    memcpy(&y, &x, sizeof y);\n    return y;\n}"
    )


NUMBER = "|".join([*INTEGERS, *FLOATS])
FAMILIES: Sequence[tuple[str, Callable[[str, str], str]]] = (
    (rf"(max|min)_({NUMBER})", extreme),
    (r"(abs)_(i\d+)", absolute),
    (rf"(less)_({NUMBER}|b1)", less),
    (rf"(is_nan)_({NUMBER}|b1)", is_nan),
    (rf"(shl|shr)_({'|'.join(INTEGERS)})", shift),
    (rf"(idiv|irem)_({'|'.join(INTEGERS)})", quotient),
    (rf"(f32|f64)_to_({'|'.join(INTEGERS)})", to_integer),
    (rf"bits_({NUMBER})_({NUMBER})", same_bits),
)
"""Functions for all kinds of numbers: names, and what makes them of their parts."""


def is_known(name: str) -> bool:
    return name in library() or generic(name) is not None or is_made(name)


def is_made(name: str) -> bool:
    return any([re.fullmatch(pattern, name) for pattern, _ in FAMILIES])


def generic(name: str) -> str | None:
    """A function of the library that is written for any kind of elements, for that of its name."""
    stem, _, kind = name.rpartition("_")
    text = library().get(f"{stem}_KIND")
    if text is None or kind not in STORED:
        return None
    return re.sub(r"\bT\b", STORED[kind], text.replace("KIND", kind))


def made(name: str) -> str:
    text = generic(name)
    if text is not None:
        return text
    for pattern, make in FAMILIES:
        found = re.fullmatch(pattern, name)
        if found:
            return make(*found.groups())
    raise KeyError(name)
