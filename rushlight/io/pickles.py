"""A reader of pickles that runs nothing: it follows the opcodes that plain data needs.

Names in a pickle are looked up in a table of ours and never imported. A name that is not in the
table means that the file holds code, and it is refused.
"""

from __future__ import annotations

import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rushlight.io.errors import CheckpointError

MARK = object()
SAME = {  # opcodes whose argument is the value
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("BINSTRING", "SHORT_BINSTRING", "STRING"),
}
FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Maker:
    """What a name in a pickle stands for: a function of ours that makes a value of data."""

    def __init__(self, make: Callable[..., Any], built: Callable[[Any, Any], Any] | None = None):
        self.make = make
        self.built = built  # what a later state does to the value


class Value:
    """A name in a pickle that stands for itself, such as a dtype."""

    def __init__(self, value: Any) -> None:
        self.value = value


Names = Mapping[str, Maker | Value]


def read(
    data: Any, start: int, names: Names, persistent: Callable[[Any], Any] | None = None
) -> tuple[Any, int]:
    """The value of the pickle at ``start``, and where it ends."""
    machine = Machine(names, persistent)
    position = start
    for opcode, argument, place in opcodes(data, start):
        position = start + place
        if opcode == "STOP":
            return machine.result(), position + 1
        machine.follow(opcode, argument)
    raise CheckpointError("the pickle ends early")


def opcodes(data: Any, start: int) -> Iterator[tuple[str, Any, int]]:
    try:
        for opcode, argument, place in pickletools.genops(data[start:]):
            yield opcode.name, argument, place or 0
    except (ValueError, UnicodeError) as error:
        raise CheckpointError(f"the pickle is damaged ({error})") from None


class Machine:
    """The stack and the memory that the opcodes of a pickle work on."""

    def __init__(self, names: Names, persistent: Callable[[Any], Any] | None) -> None:
        self.names, self.persistent = names, persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.makers: dict[int, Maker] = {}  # id of a made value → its maker, for a later state
        self.kept: list[Any] = []

    def result(self) -> Any:
        if len(self.stack) != 1 or self.stack[0] is MARK:
            raise CheckpointError("the pickle is damaged: its stack does not hold one value")
        return plain(self.stack[0])

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise CheckpointError("the pickle is damaged: its stack is empty")
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        """What was put on the stack since the last mark."""
        for i in range(len(self.stack) - 1, -1, -1):
            if self.stack[i] is MARK:
                found = self.stack[i + 1 :]
                del self.stack[i:]
                return found
        raise CheckpointError("the pickle is damaged: a mark is missing")

    def follow(self, opcode: str, argument: Any) -> None:
        stack = self.stack
        if opcode in SAME:
            stack.append(argument)
        elif opcode in FIXED:
            stack.append(FIXED[opcode]())
        elif opcode in TUPLES:
            items = [plain(self.pop()) for _ in range(TUPLES[opcode])]
            stack.append(tuple(reversed(items)))
        elif opcode in ("PROTO", "FRAME"):
            pass
        else:
            method = getattr(self, f"op_{opcode.lower()}", None)
            if method is None:
                raise CheckpointError(
                    f"this file contains code and was not loaded: its pickle uses {opcode}"
                )
            method(argument)

    def op_mark(self, _: None) -> None:
        self.stack.append(MARK)

    def op_pop(self, _: None) -> None:
        self.pop()

    def op_pop_mark(self, _: None) -> None:
        self.since_mark()

    def op_tuple(self, _: None) -> None:
        self.stack.append(tuple([plain(v) for v in self.since_mark()]))

    def op_list(self, _: None) -> None:
        self.stack.append([plain(v) for v in self.since_mark()])

    def op_frozenset(self, _: None) -> None:
        self.stack.append(frozenset(self.since_mark()))

    def op_dict(self, _: None) -> None:
        self.stack.append(dict(pairs(self.since_mark())))

    def op_append(self, _: None) -> None:
        self.extend([self.pop()])

    def op_appends(self, _: None) -> None:
        self.extend(self.since_mark())

    def extend(self, items: list[Any]) -> None:
        target = self.top(list)
        target.extend([plain(v) for v in items])

    def op_additems(self, _: None) -> None:
        items = self.since_mark()
        self.top(set).update(items)

    def op_setitem(self, _: None) -> None:
        value, key = self.pop(), self.pop()
        self.top(dict)[key] = plain(value)

    def op_setitems(self, _: None) -> None:
        items = self.since_mark()
        target = self.top(dict)
        for key, value in pairs(items):
            target[key] = value

    def top(self, kind: type) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise CheckpointError(f"the pickle is damaged: a {kind.__name__} was to be filled")
        return self.stack[-1]

    def op_memoize(self, _: None) -> None:
        self.op_put(len(self.memo))

    def op_put(self, index: Any) -> None:
        if not self.stack:
            raise CheckpointError("the pickle is damaged: nothing to remember")
        self.memo[int(index)] = self.stack[-1]

    op_binput = op_long_binput = op_put

    def op_get(self, index: Any) -> None:
        try:
            self.stack.append(self.memo[int(index)])
        except KeyError:
            raise CheckpointError("the pickle is damaged: it recalls what it never put") from None

    op_binget = op_long_binget = op_get

    def op_dup(self, _: None) -> None:
        value = self.pop()
        self.stack += [value, value]

    def op_global(self, argument: str) -> None:
        self.name(*argument.split(" ", 1))

    def op_stack_global(self, _: None) -> None:
        name, module = self.pop(), self.pop()
        self.name(module, name)

    def name(self, module: Any, name: Any) -> None:
        found = self.names.get(f"{module}.{name}")
        if found is None and module == "torch":
            raise CheckpointError(f"it needs torch.{name}, which Rushlight does not have")
        if found is None:
            raise CheckpointError(
                f"this file contains code and was not loaded: it names {module}.{name}. Where it "
                "was written, save the state alone: torch.save(model.state_dict(), ...)"
            )
        self.stack.append(found)

    def op_reduce(self, _: None) -> None:
        arguments, maker = self.pop(), self.pop()
        if not isinstance(maker, Maker) or not isinstance(arguments, tuple):
            raise CheckpointError("this file contains code and was not loaded: it calls a value")
        value = maker.make(*arguments)
        self.makers[id(value)] = maker
        self.kept.append(value)  # so that no other value takes its id
        self.stack.append(value)

    op_newobj = op_reduce

    def op_build(self, _: None) -> None:
        state = self.pop()
        target = self.stack[-1] if self.stack else None
        maker = self.makers.get(id(target))
        if maker is None or maker.built is None:
            raise CheckpointError(
                "this file contains code and was not loaded: it gives a "
                f"{type(target).__name__} a state"
            )
        self.stack[-1] = maker.built(target, state)

    def op_binpersid(self, _: None) -> None:
        if self.persistent is None:
            raise CheckpointError("the pickle refers to something outside of it")
        self.stack.append(self.persistent(self.pop()))


def plain(value: Any) -> Any:
    """A value as a reader of the file is to see it."""
    return value.value if isinstance(value, Value) else value


def pairs(items: list[Any]) -> Iterator[tuple[Any, Any]]:
    if len(items) % 2:
        raise CheckpointError("the pickle is damaged: a key has no value")
    for i in range(0, len(items), 2):
        yield plain(items[i]), plain(items[i + 1])


def latin_bytes(text: str, encoding: str) -> bytes:
    """How protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding != "latin1":
        raise CheckpointError("this file contains code and was not loaded: it names _codecs.encode")
    return text.encode("latin1")


def with_metadata(target: Any, state: Any) -> Any:
    """The attribute of a ``state_dict`` that holds the versions of its modules."""
    if isinstance(state, dict) and set(state) <= {"_metadata"}:
        target.__dict__.update(state)
    return target


def first(*arguments: Any) -> dict[Any, Any]:
    """A defaultdict without its factory, which would be code."""
    return dict(*arguments[1:])


PYTHON: dict[str, Maker | Value] = {
    "collections.OrderedDict": Maker(OrderedDict, with_metadata),
    "collections.defaultdict": Maker(first),
    "collections.Counter": Maker(Counter),
    "_codecs.encode": Maker(latin_bytes),
}
for builtin in (
    bool,
    bytearray,
    complex,
    dict,
    float,
    frozenset,
    int,
    list,
    range,
    set,
    slice,
    str,
):
    for home in ("builtins", "__builtin__"):
        PYTHON[f"{home}.{builtin.__name__}"] = Maker(builtin)
