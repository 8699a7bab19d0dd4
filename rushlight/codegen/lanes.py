"""Formulas of NumPy as vector instructions.

:class:`Lanes` answers NumPy's operators and functions by writing instructions. What is written
once for arrays is compiled as it stands: the same operations, each rounded as NumPy rounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from rushlight.codegen.instructions import TYPES, Instructions, memory, vector
from rushlight.kernels.box_muller import libm_cos, libm_log, libm_sin

LANES = 8  # numbers that loops compute at once; LLVM cuts them for narrower registers

KINDS = {
    np.dtype(np.bool_): "b1",
    **{np.dtype(f"{letter}{size}"): f"{letter}{8 * size}" for letter in "iu" for size in (4, 8)},
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
}
BINARY = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.divide: "div",
    np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor",
    np.left_shift: "shl", np.right_shift: "shr",
}  # fmt: skip
RELATIONS = {np.less: "lt", np.greater_equal: "ge", np.equal: "eq"}
UNARY = {np.negative: "neg", np.sqrt: "sqrt", np.floor: "floor"}
LIBRARY = {libm_log: "log", libm_cos: "cos", libm_sin: "sin"}


class Code(Instructions):
    """The body of one function."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = ["entry:"]
        self.block = "entry"

    def write(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def begin(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self.block = block

    @contextmanager
    def loop(self, start: str, end: str, step: int) -> Iterator[str]:
        """Counts from ``start``, while a whole step fits below ``end``.

        After the loop the index is the first one that was not taken.
        """
        name, before = self.fresh("loop"), self.block
        self.write(f"br label %{name}")
        self.begin(name)
        index = f"%{name}.index"
        self.write(f"{index} = phi i64 [ {start}, %{before} ], [ %{name}.end, %{name}.next ]")
        self.write(f"%{name}.end = add i64 {index}, {step}")
        self.write(f"%{name}.fits = icmp sle i64 %{name}.end, {end}")
        self.write(f"br i1 %{name}.fits, label %{name}.body, label %{name}.after")
        self.begin(f"{name}.body")
        yield index
        self.write(f"br label %{name}.next")
        self.begin(f"{name}.next")
        self.write(f"br label %{name}")
        self.begin(f"{name}.after")

    def each(self, start: str, end: str, body: Callable[[str, int], None]) -> None:
        """``body(index, lanes)`` for all from ``start`` to ``end``, by vectors and then singly."""
        for lanes in (LANES, 1):
            with self.loop(start, end, lanes) as index:
                body(index, lanes)
            start = index

    def pointer(self, base: str, index: str, dtype: Any) -> str:
        """Where the element of an array is."""
        return self.let(f"getelementptr {memory(KINDS[np.dtype(dtype)])}, ptr {base}, i64 {index}")

    def load(self, base: str, index: str, dtype: Any, lanes: int) -> Lanes:
        """Elements of an array, from one of them on."""
        kind = KINDS[np.dtype(dtype)]
        at = self.pointer(base, index, dtype)
        align = np.dtype(dtype).itemsize
        name = self.let(f"load {vector(memory(kind), lanes)}, ptr {at}, align {align}")
        return Lanes(self, dtype, lanes, name)

    def store(self, value: Lanes, base: str, index: str) -> None:
        """Writes elements of an array, from one of them on."""
        kind, name = value.kind, value.name
        if kind == "b1":
            truth, byte = vector("i1", value.lanes), vector("i8", value.lanes)
            name = self.let(f"zext {truth} {name} to {byte}")
        at = self.pointer(base, index, value.dtype)
        kept = vector(memory(kind), value.lanes)
        self.write(f"store {kept} {name}, ptr {at}, align {value.dtype.itemsize}")

    def everywhere(self, scalar: str, dtype: Any, lanes: int) -> Lanes:
        """A scalar in every lane."""
        name = scalar if lanes == 1 else self.splat(KINDS[np.dtype(dtype)], lanes, scalar)
        return Lanes(self, dtype, lanes, name)


class Lanes(NDArrayOperatorsMixin):
    """Numbers in vector registers, of a type of NumPy.

    >>> code = Code()
    >>> x = code.everywhere("%x", np.float32, 1)
    >>> y = np.sqrt(x * x + 1)
    >>> print(*code.lines, sep="\\n")
    entry:
      %v1 = fmul float %x, %x
      %v2 = fadd float %v1, 0x3ff0000000000000
      %v3 = call float @llvm.sqrt.f32(float %v2)
    """

    __slots__ = ("code", "dtype", "lanes", "name")

    def __init__(self, code: Code, dtype: Any, lanes: int, name: str) -> None:
        self.code, self.dtype, self.lanes, self.name = code, np.dtype(dtype), lanes, name

    @property
    def kind(self) -> str:
        return KINDS[self.dtype]

    @property
    def type(self) -> str:
        return vector(TYPES[self.kind], self.lanes)

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, out: Any = None) -> Lanes:
        """The result as new lanes; an operand that it should overwrite stays as it is."""
        dtype = np.result_type(*[x.dtype if isinstance(x, Lanes) else x for x in operands])
        kind = KINDS[dtype]
        names = [self.taken(x, dtype) for x in operands]
        if ufunc in RELATIONS:
            name = self.code.compare(RELATIONS[ufunc], kind, self.lanes, *names)
            return Lanes(self.code, np.bool_, self.lanes, name)
        if ufunc in UNARY:
            name = self.code.unary(UNARY[ufunc], kind, self.lanes, *names)
        elif ufunc in LIBRARY:
            name = self.code.intrinsic(LIBRARY[ufunc], TYPES[kind], self.lanes, *names)
        else:
            name = self.code.binary(BINARY[ufunc], kind, self.lanes, *names)
        return Lanes(self.code, dtype, self.lanes, name)

    def taken(self, x: Any, dtype: Any) -> str:
        """An operand, lanes or a number, in the type of the operation."""
        if isinstance(x, Lanes):
            return x.astype(dtype).name
        return self.code.constant(x, KINDS[dtype], self.lanes)

    def astype(self, dtype: Any, copy: bool = True) -> Lanes:
        """The numbers in another type, which must be able to hold them."""
        dtype = np.dtype(dtype)
        if self.dtype.kind == "f" and dtype.kind == "i":
            after = vector(TYPES[KINDS[dtype]], self.lanes)
            name = self.code.let(f"fptosi {self.type} {self.name} to {after}")
        else:
            name = self.code.cast(self.kind, KINDS[dtype], self.lanes, self.name)
        return Lanes(self.code, dtype, self.lanes, name)

    def view(self, dtype: Any) -> Lanes:
        """The same bits as another type of the same width."""
        result = Lanes(self.code, dtype, self.lanes, self.name)
        if result.type != self.type:
            result.name = self.code.let(f"bitcast {self.type} {self.name} to {result.type}")
        return result

    def where(self, condition: Lanes, other: Lanes) -> Lanes:
        """These numbers where the condition holds, elsewhere the others."""
        name = self.code.select(condition.name, self.kind, self.lanes, self.name, other.name)
        return Lanes(self.code, self.dtype, self.lanes, name)

    def fma(self, factor: Any, term: Any) -> Lanes:
        """``self * factor + term``, rounded once."""
        names = [self.taken(x, self.dtype) for x in (self, factor, term)]
        name = self.code.intrinsic("fma", TYPES[self.kind], self.lanes, *names)
        return Lanes(self.code, self.dtype, self.lanes, name)
