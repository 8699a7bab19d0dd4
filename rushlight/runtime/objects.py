"""Object code in memory, without LLVM: a linker for what LLVM makes of our kernels on Linux.

Kernels are code and constants that call next to nothing, so few of ELF's features occur. Whatever
else is met (another format, data to write to, other relocations, symbols of elsewhere) is
:class:`Unknown`, and LLVM's own linker is asked. No number in a file is believed before it is seen
to point into the file or into its section.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import struct
import sys
from collections import namedtuple
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

HEADER = struct.Struct("<4s3B9xHHI3QI6H")  # magic, class, order, version, type, machine, …
SECTION = struct.Struct("<2I4Q2I2Q")
SYMBOL = np.dtype(
    [("name", "<u4"), ("kind", "u1"), ("sight", "u1"), ("section", "<u2"), ("value", "<u8"),
     ("size", "<u8")]
)  # fmt: skip
RELOCATION = np.dtype([("at", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])

BITS, SYMBOLS, RELOCATIONS, ZEROS, IMPLICIT = 1, 2, 4, 8, 9  # types of sections
WRITTEN, LOADED, THREAD = 1, 2, 0x400  # flags of sections
LIMIT = 1 << 30  # bytes of an object in memory

IMPORTS = ("memcpy", "memmove", "memset", "fmod", "fmodf", "clock_gettime")
"""Functions of the C library that LLVM puts into code, and that of the driver's clock."""

PLACE, PAGE, LOW = "distance from the place", "distance of pages", "the last twelve bits"


class Patch(NamedTuple):
    """A relocation: which number goes into a word of code, in pieces (shift, bits, where)."""

    what: str
    pieces: tuple[tuple[int, int, int], ...]


class Machine(NamedTuple):
    """A processor in ELF: its number, a jump to the address that follows it, relocations."""

    number: int
    jump: bytes
    patches: Mapping[int, Patch]


DISTANCE = Patch(PLACE, ((0, 32, 0),))
CALL = Patch(PLACE, ((2, 26, 0),))
MACHINES = {
    "x86_64": Machine(62, bytes.fromhex("ff2502000000 6690"), {2: DISTANCE, 4: DISTANCE}),
    "aarch64": Machine(
        183,
        bytes.fromhex("50000058 00021fd6"),
        {
            261: DISTANCE,
            275: Patch(PAGE, ((12, 2, 29), (14, 19, 5))),
            277: Patch(LOW, ((0, 12, 10),)),
            278: Patch(LOW, ((0, 12, 10),)),  # of loads and stores of 1, 2, 4, 8 and 16 bytes
            284: Patch(LOW, ((1, 11, 10),)),
            285: Patch(LOW, ((2, 10, 10),)),
            286: Patch(LOW, ((3, 9, 10),)),
            299: Patch(LOW, ((4, 8, 10),)),
            282: CALL,
            283: CALL,
        },
    ),
}


class Unknown(Exception):
    """Something that only LLVM's linker can do."""


Section = namedtuple("Section", "name type flags address offset size link info alignment entry")


def require(good: Any, what: str) -> None:
    if not good:
        raise RuntimeError(f"cannot load the object code, which is damaged: {what}")


class Image:
    """An object, laid out: ``at`` gives its bytes for the address where they will be.

    Args:
        code: the ELF file.
        symbols: where functions are that it may call, beside :data:`IMPORTS`.
        machine: the name of the processor.
    """

    def __init__(self, code: bytes, symbols: Mapping[str, int], machine: str) -> None:
        self.code = code
        self.machine = MACHINES[machine]
        self.sections = self.read_header()
        self.places: dict[int, int] = {}  # of sections in memory
        end = 0
        for i, section in enumerate(self.sections):
            if section.flags & LOADED and section.type in (BITS, ZEROS):
                if section.flags & (WRITTEN | THREAD):
                    raise Unknown("data that is written to")
                step = max(1, section.alignment)
                require(step & (step - 1) == 0 and step <= mmap.PAGESIZE, "an alignment")
                self.places[i] = end = -(-end // step) * step
                end += section.size
                require(end <= LIMIT, "a size")
        self.read_symbols()
        names = [self.name(i) for i in self.outside]
        addresses = [symbols[n] if n in symbols else address_of_import(n) for n in names]
        self.jumps = -(-end // 16) * 16
        jump = self.machine.jump
        self.tail = b"".join([jump + a.to_bytes(8, "little") for a in addresses])
        self.offsets[self.outside] = self.jumps + 16 * np.arange(len(names))
        self.size = self.jumps + len(self.tail)

    def read_header(self) -> list[Section]:
        code, size = self.code, SECTION.size
        if code[:4] != b"\x7fELF":
            raise Unknown("another format")
        require(len(code) >= HEADER.size, "it is too short")
        _, bits, order, _, kind, machine, _, _, _, start, *_, entry, count, _ = HEADER.unpack_from(
            code
        )
        if (bits, order, kind, machine) != (2, 1, 1, self.machine.number):
            raise Unknown("code for another machine")
        require(entry == size and start + count * size <= len(code), "the table of sections")
        table = code[start : start + count * size]
        sections = [Section(*fields) for fields in SECTION.iter_unpack(table)]
        for s in sections:
            inside = s.type == ZEROS or s.offset + s.size <= len(code)
            require(inside, "a section outside the file")
        return sections

    def table(self, section: Section, kind: np.dtype) -> Any:
        """The entries of a section."""
        require(section.size % kind.itemsize == 0, "half an entry")
        return np.frombuffer(self.code, kind, section.size // kind.itemsize, section.offset)

    def read_symbols(self) -> None:
        """Finds where each symbol is in memory (-1: nowhere), and which are elsewhere."""
        tables = [s for s in self.sections if s.type == SYMBOLS]
        require(len(tables) == 1 and tables[0].link < len(self.sections), "the table of symbols")
        self.names = self.sections[tables[0].link]
        self.symbols = table = self.table(tables[0], SYMBOL)
        within, self.offsets = table["section"], np.full(len(table), -1, np.int64)
        for i, place in self.places.items():
            inside = within == i
            require((table["value"][inside] <= self.sections[i].size).all(), "a symbol")
            self.offsets[inside] = table["value"][inside].astype(np.int64) + place
        self.outside = np.flatnonzero(within == 0)[1:]
        public = np.flatnonzero((table["kind"] >> 4 != 0) & (self.offsets >= 0))
        self.functions = {self.name(i): int(self.offsets[i]) for i in public}

    def name(self, symbol: Any) -> str:
        begin = self.names.offset + int(self.symbols["name"][symbol])
        end = self.code.find(b"\0", begin, self.names.offset + self.names.size)
        require(end >= 0, "the name of a symbol")
        return self.code[begin:end].decode("ascii", "replace")

    def at(self, base: int) -> bytes:
        """The bytes in memory that begins at the address ``base``, a multiple of a page."""
        image = np.zeros(self.size, np.uint8)
        for i, place in self.places.items():
            s = self.sections[i]
            if s.type == BITS:
                image[place : place + s.size] = np.frombuffer(self.code, "u1", s.size, s.offset)
        image[self.jumps :] = np.frombuffer(self.tail, np.uint8)
        for s in self.sections:
            if s.info in self.places and s.type == RELOCATIONS:
                self.relocate(image, base, s)
            elif s.info in self.places and s.type == IMPLICIT:
                raise Unknown("relocations without addends")
        return image.tobytes()

    def relocate(self, image: np.ndarray, base: int, section: Section) -> None:
        """Writes the addresses of symbols into the code of a section."""
        table, size = self.table(section, RELOCATION), self.sections[section.info].size
        require((table["at"] <= max(0, size - 4)).all() and size >= 4, "a relocation's place")
        require((table["symbol"] < len(self.offsets)).all(), "a relocation's symbol")
        targets = self.offsets[table["symbol"]]
        if (targets < 0).any():
            raise Unknown("a symbol that is in no section")
        places = table["at"].astype(np.int64) + self.places[section.info]
        targets = targets + table["addend"] + base
        for kind in np.unique(table["type"]).tolist():
            if kind not in self.machine.patches:
                raise Unknown(f"relocation {kind}")
            some = table["type"] == kind
            patch(image, places[some], targets[some], base, self.machine.patches[kind])


def patch(image: np.ndarray, places: Any, targets: Any, base: int, how: Patch) -> None:
    """Puts numbers of one kind into the words at ``places``."""
    if how.what == PLACE:
        numbers = targets - (places + base)
    elif how.what == PAGE:
        numbers = (targets & -4096) - (places + base & -4096)
    else:
        numbers = targets & 4095
    first, last = how.pieces[0], how.pieces[-1]
    bound = 1 << (last[0] + last[1] - (how.what != LOW))
    require(((numbers < bound) & (numbers >= -bound)).all(), "a target too far away")
    require((numbers % (1 << first[0]) == 0).all(), "a target that is not aligned")
    where = places[:, None] + np.arange(4)
    words = image[where].view("<u4")[:, 0].astype(np.int64)
    for shift, bits, at in how.pieces:
        mask = (1 << bits) - 1
        words = words & ~(mask << at) | (numbers >> shift & mask) << at
    image[where] = words.astype("<u4")[:, None].view(np.uint8)


class Mapped:
    """Object code in memory, there as long as this object is."""

    __slots__ = ("_base", "_functions", "_memory")

    def __init__(self, image: Image) -> None:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, max(1, image.size), flags=private)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._functions = image.functions
        self._memory[: image.size] = image.at(self._base)
        # From here on nobody can write. Linux empties the caches of pages that become executable.
        if libc().mprotect(self._base, len(self._memory), mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unknown(os.strerror(ctypes.get_errno()))

    def address(self, name: str) -> int:
        """Where the function of that name is."""
        try:
            return self._base + self._functions[name]
        except KeyError:
            raise RuntimeError(f"cannot link {name}: it is not defined") from None


def mapped(code: bytes, symbols: Mapping[str, int]) -> Mapped:
    """Object code made callable, or :class:`Unknown`; a damaged one is a RuntimeError."""
    machine = os.uname().machine if sys.platform == "linux" else sys.platform
    if machine not in MACHINES:
        raise Unknown(f"code of {machine}")
    return Mapped(Image(code, symbols, machine))


@functools.cache
def libc() -> ctypes.CDLL:
    """The C library of this process."""
    found = ctypes.CDLL(None, use_errno=True)
    for function in (found.mprotect, found.madvise):
        function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


@functools.cache
def address_of_import(name: str) -> int:
    """Where a function of the C library is."""
    if name not in IMPORTS:
        raise Unknown(f"a call of {name}")
    try:
        return ctypes.cast(getattr(libc(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        raise Unknown(f"a call of {name}") from None
