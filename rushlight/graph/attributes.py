"""The attributes of nodes as text, and back: literals that contain no code."""

from __future__ import annotations

import ast
import base64
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import Dim, greatest, least
from rushlight.kernels.pooling import Window
from rushlight.kernels.resampling import Map
from rushlight.kernels.windows import Geometry
from rushlight.ops.base import Op, registry

DTYPES = {kind.name: kind for kind in dtypes.ALL}
SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32",
    "uint64": "u64", "bool": "b1", "complex64": "c64", "complex128": "c128",
}  # fmt: skip
LONG = {short: name for name, short in SHORT.items()}
PLAIN = {int, bool, str, type(None)}  # what most attributes are, or tuples of them
RECORDS: dict[str, Any] = {record.__name__: record for record in (Geometry, Map, Window)}


class Nested:
    """A graph that is an attribute of a node: printed below the line of that node."""

    __slots__ = ()


GRAPH = Nested()
"""Stands for a graph among attributes whose text is read before that of the graph."""


def nested(attrs: Mapping[str, Any]) -> Iterator[Any]:
    """The graphs among the attributes of a node."""
    for value in attrs.values():
        if isinstance(value, Nested):
            yield value
        elif type(value) is tuple:
            yield from [each for each in value if isinstance(each, Nested)]


def with_nested(attrs: Mapping[str, Any], graphs: Iterator[Any]) -> dict[str, Any]:
    """The attributes with other graphs, in the order of :func:`nested`."""
    return {
        name: tuple([next(graphs) if isinstance(each, Nested) else each for each in value])
        if type(value) is tuple
        else next(graphs)
        if isinstance(value, Nested)
        else value
        for name, value in attrs.items()
    }


def literal(value: Any) -> str:
    """``value`` in the notation of graphs.

    >>> literal((1, 2.5, None, slice(0, 3), dtypes.float32))
    '(1, 2.5, None, slice(0, 3, None), dtype(float32))'
    """
    kind = type(value)
    if kind in PLAIN or (kind is tuple and PLAIN.issuperset(map(type, value))):
        return repr(value)
    if isinstance(value, Op):
        return f"op({value.full_name})"
    if isinstance(value, Nested):
        return "graph"
    if isinstance(value, dtypes.dtype):
        return f"dtype({value.name})"
    if isinstance(value, np.dtype):
        return f"kind({dtypes.from_numpy(value).name})"
    if isinstance(value, np.ndarray):
        return show_array(value)
    if isinstance(value, np.generic):
        return literal(value.item())
    if isinstance(value, slice):
        return f"slice({literal(value.start)}, {literal(value.stop)}, {literal(value.step)})"
    if value is ...:
        return "..."
    if type(value).__name__ in RECORDS:
        return f"{type(value).__name__}({', '.join([literal(v) for v in value])})"
    if isinstance(value, tuple):
        inner = ", ".join([literal(v) for v in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join([literal(v) for v in value])}]"
    if isinstance(value, dict):
        return f"{{{', '.join([f'{literal(k)}: {literal(v)}' for k, v in value.items()])}}}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({value})"
    if value is None or isinstance(value, (bool, int, float, complex, str, Dim)):
        return repr(value)
    raise TypeError(f"a graph cannot hold an attribute of type {type(value).__name__}: {value!r}")


def show_array(array: np.ndarray) -> str:
    kind = dtypes.from_numpy(array.dtype).name
    if array.size == 1 and array.dtype.kind in "bifu" and kind != "bfloat16":
        return f"array({kind}, {list(array.shape)}, {literal(array.reshape(()).item())})"
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return f"array({kind}, {list(array.shape)}, '{data}')"


def arguments(text: str) -> tuple[list[str], dict[str, str]]:
    """The operands and the attributes between the parentheses of a call, as texts.

    >>> arguments("%1, None, dim=(0, 1), name='a, b'")
    (['%1', 'None'], {'dim': '(0, 1)', 'name': "'a, b'"})
    """
    operands, attrs = [], {}
    for part in split(text):
        name, equals, value = part.partition("=")
        if equals and name.isidentifier():
            attrs[name] = value
        else:
            operands.append(part)
    return operands, attrs


def split(text: str) -> list[str]:
    """The parts between commas that are in no bracket and no string."""
    parts, depth, quote, begin = [], 0, "", 0
    i = 0
    while i < len(text):
        c = text[i]
        if quote:
            i += c == "\\"
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[begin:i].strip())
            begin = i + 1
        i += 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts


def parse_literal(text: str, symbols: Mapping[str, Dim] = MappingProxyType({})) -> Any:
    """The attribute that was printed as ``text``, in which ``symbols`` are sizes.

    >>> parse_literal("(1, slice(0, 3, None), op(exp))")[1:2]
    (slice(0, 3, None),)
    """
    if text.isdecimal() or text in WORDS:  # which most are: no need of syntax
        return WORDS[text] if text in WORDS else int(text)
    return Builder(symbols).build(ast.parse(text, mode="eval").body)


WORDS = {"None": None, "True": True, "False": False}


class Builder:
    """Makes attributes of the syntax of their texts; there is no other syntax than theirs."""

    def __init__(self, symbols: Mapping[str, Dim]) -> None:
        self.symbols = symbols

    def build(self, node: ast.expr) -> Any:
        match node:
            case ast.Tuple():
                return tuple(self.all(node.elts))
            case ast.List():
                return self.all(node.elts)
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                return {self.build(k): self.build(v) for k, v in pairs if k is not None}
            case ast.Call(func=ast.Name(id=name)):
                return self.made(name, node.args)
            case ast.Name(id="graph"):
                return GRAPH
            case ast.Name(id=name) if name in self.symbols:
                return self.symbols[name]
            case ast.BinOp(op=sign) if self.symbols and type(sign) in SIGNS:
                return computed(SIGNS[type(sign)], self.size(node.left), self.size(node.right))
            case ast.UnaryOp(op=ast.USub()) if self.symbols:
                return -self.build(node.operand)
        return ast.literal_eval(node)

    def all(self, nodes: list[ast.expr]) -> list[Any]:
        return [self.build(node) for node in nodes]

    def size(self, node: ast.expr) -> Any:
        """A number or a size; nothing else is computed with."""
        value = self.build(node)
        if type(value) not in (int, Dim):
            raise ValueError(f"not a size: {ast.unparse(node)}")
        return value

    def made(self, name: str, args: list[ast.expr]) -> Any:
        if name in RECORDS:
            return RECORDS[name](*self.all(args))
        match name:
            case "op":
                return registry[ast.unparse(args[0])]
            case "dtype":
                return DTYPES[ast.unparse(args[0])]
            case "kind":
                return DTYPES[ast.unparse(args[0])].numpy
            case "slice":
                return slice(*self.all(args))
            case "float":
                return float(ast.unparse(args[0]))
            case "min" | "max" if self.symbols:
                left, right = [self.size(arg) for arg in args]
                return (least if name == "min" else greatest)(left, right)
            case "array":
                kind, shape, data = DTYPES[ast.unparse(args[0])], *self.all(args[1:])
                if isinstance(data, str):
                    raw = base64.b64decode(data, validate=True)
                    return np.frombuffer(raw, kind.numpy).reshape(shape).copy()
                if math.prod(shape) != 1:
                    raise ValueError(f"an array of shape {shape} has one element")
                return np.full(shape, data, kind.numpy)
        raise ValueError(f"not an attribute of a graph: {name}(…)")


def computed(sign: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Of two sizes. A product of sums may be much longer than its text: files could hold some."""
    if len(str(left)) * len(str(right)) > LONGEST:
        raise ValueError(f"a size is too long: {left!s:.40}… with {right!s:.40}")
    return sign(left, right)


LONGEST = 1 << 14

SIGNS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
