"""Watches: what a container held when it was looked at, and what has changed in it since.

A watch keeps what was in one container. A panel compares many watches at once: while nothing
moves, by identity, in a few loops of the interpreter's own; only then, one by one, by value.
References are strong, since the identity of an object that is gone may be given to another one.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, repeat
from operator import is_
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.tensor import Tensor


class Missing(Enum):
    """What is in a place where nothing is."""

    MISSING = "missing"


class Order(Enum):
    """The key of the order that the entries of a dict have."""

    ORDER = "order"

    def __repr__(self) -> str:
        return self.value


MISSING, ORDER = Missing.MISSING, Order.ORDER

END = object()
Matters = Callable[[Any], bool]
INEXACT = (float, complex, np.inexact)
PLAIN = (
    int, str, bytes, type(None), type(...), slice, range, Enum, frozenset,
    np.dtype, np.generic, dtypes.dtype, *INEXACT,
)  # fmt: skip
"""The types whose objects are compared by value; tuples are, too, element by element."""

FIELDS = frozenset([*vars(Tensor), *Tensor.__annotations__, "persistent"])
"""What a tensor itself keeps in its ``__dict__``."""


def same(a: Any, b: Any) -> bool:
    """Whether ``b`` can stand for ``a``: the same object, or an equal value of the same type.

    >>> same(2, 2.0), same(float("nan"), float("nan")), same(0.0, -0.0), same([], [])
    (False, True, False, False)
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, MethodType):
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    if isinstance(a, INEXACT):
        return repr(a) == repr(b)
    return isinstance(a, PLAIN) and a == b


@dataclass(slots=True)
class Change:
    """One entry of a container that was added, removed (``MISSING``) or replaced."""

    container: Any
    key: Any
    before: Any
    after: Any
    watch: Watch = field(repr=False)

    def put(self, value: Any) -> None:
        """Writes ``value`` to the place of the change; ``MISSING`` empties it."""
        self.watch.put(self.key, value)

    def __str__(self) -> str:
        was, now = shown(self.before), shown(self.after)
        now = f"another {type(self.after).__name__}" if was == now else now
        return f"{self.watch.label(self.key)} was {was}, is {now}"


def shown(value: Any) -> str:
    if value is MISSING:
        return "missing"
    if isinstance(value, (*PLAIN, tuple, list, dict, set)) and not isinstance(value, Tensor):
        return reprlib.repr(value)
    if isinstance(value, (type, FunctionType)):
        return value.__qualname__
    return f"a {type(value).__name__}"


class Watch:
    """The contents of ``container``, called ``path`` in messages.

    Args:
        matters: says of a key whether the container is another one when its entry changes.
        exact: whether the elements are looked at, or only their number.
    """

    def __init__(
        self,
        container: Any,
        path: str,
        matters: Matters | None = None,
        exact: bool = True,
    ) -> None:
        self.container, self.path, self.exact = container, path, exact
        self.matters = matters
        self.before = self.read()
        self.size = len(self.before)
        self.written: set[Any] = set()  # keys that the compiled function itself writes

    def read(self) -> dict[Any, Any]:
        """What is in the container now, by key."""
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        """Writes an entry; ``MISSING`` removes it."""
        raise NotImplementedError

    def label(self, key: Any) -> str:
        return f"{self.path}[{key!r}]"

    def enlist(self, panel: Panel) -> None:
        """Says how the panel can see quickly that nothing has moved."""
        if self.exact and self.size:
            panel.views.append(self.container)
        else:
            panel.sized.append(self.container)

    def is_guarded(self, key: Any) -> bool:
        return key not in self.written and (self.matters is None or self.matters(key))

    def changes(self) -> Iterator[Change]:
        """All differences between then and now."""
        now = self.read()
        for key, old in self.before.items():
            new = now.get(key, MISSING)
            if not same(old, new):
                yield Change(self.container, key, old, new, self)
        for key, new in now.items():
            if key not in self.before:
                yield Change(self.container, key, MISSING, new, self)

    def breaches(self) -> Iterator[Change]:
        """The differences that matter."""
        if self.exact:
            yield from [change for change in self.changes() if self.is_guarded(change.key)]
        elif len(self.container) != self.size:
            yield Change(self.container, "length", self.size, len(self.container), self)

    def trim(self) -> None:
        """Lets go of what does not matter."""
        kept = self.before.items() if self.exact else ()
        self.before = {key: value for key, value in kept if self.is_guarded(key)}


class Items(Watch):
    """A list or deque; keys are positions."""

    def read(self) -> dict[Any, Any]:
        return dict(enumerate(self.container))

    def put(self, key: int, value: Any) -> None:
        if value is MISSING:
            while len(self.container) > key:
                self.container.pop()
        elif key < len(self.container):
            self.container[key] = value
        else:
            self.container.append(value)


class Members(Watch):
    """A set; its elements are the keys."""

    def read(self) -> dict[Any, Any]:
        return {element: element for element in self.container}

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            self.container.discard(key)
        else:
            self.container.add(key)


class Pairs(Watch):
    """A dict of data, in which everything matters."""

    def read(self) -> dict[Any, Any]:
        return dict(self.container)

    ordered = True  # whether it is another one if its entries change places

    def changes(self) -> Iterator[Change]:
        yield from super().changes()
        if self.ordered and len(self.before) > 1:
            old = tuple([key for key in self.before if key in self.container])
            new = tuple([key for key in self.container if key in self.before])
            if not same(old, new):
                yield Change(self.container, ORDER, old, new, self)

    def put(self, key: Any, value: Any) -> None:
        entries = self.container
        if key is ORDER:
            for other in value:
                entries[other] = entries.pop(other)
        elif value is MISSING:
            entries.pop(key, None)
        elif key in entries:
            entries[key] = value
        else:
            order = list(self.before)
            later = order[order.index(key) + 1 :] if key in self.before else ()
            entries[key] = value
            for other in later:
                if other in entries:
                    entries[other] = entries.pop(other)

    def enlist(self, panel: Panel) -> None:
        super().enlist(panel)
        if self.exact and self.size:
            panel.views.append(self.container.values())


class Namespace(Pairs):
    """The attributes of an object, of which some matter."""

    ordered = False
    grows = False  # whether new names come all the time

    def label(self, key: str) -> str:
        return f"{self.path}.{key}"

    def guarded_names(self) -> list[str]:
        return [name for name in self.before if self.is_guarded(name)]

    def enlist(self, panel: Panel) -> None:
        names = self.guarded_names()
        panel.keys += names
        panel.dicts += [self.container] * len(names)
        if not self.grows:
            panel.sized.append(self.container)


class Selection(Namespace):
    """Certain names in a dict, whether they are there or not."""

    grows = True

    def __init__(
        self, container: Any, path: str, names: set[str], matters: Matters | None = None
    ) -> None:
        self.names = names
        super().__init__(container, path, matters)

    def read(self) -> dict[Any, Any]:
        return {name: self.container[name] for name in self.names if name in self.container}

    def guarded_names(self) -> list[str]:
        return [name for name in self.names if self.is_guarded(name)]


class Attached(Namespace):
    """What the user has attached to a tensor."""

    grows = True

    def read(self) -> dict[Any, Any]:
        return {name: value for name, value in self.container.items() if name not in FIELDS}


class Globals(Selection):
    """The globals of functions, as far as they are named there."""

    def label(self, key: str) -> str:
        return f"global {key!r}"


class ClassBody(Watch):
    """The attributes of a class, without what Python notes there for itself."""

    def read(self) -> dict[Any, Any]:
        body = vars(self.container).items()
        return {k: v for k, v in body if k[:2] != "__" or isinstance(v, FunctionType)}

    def put(self, key: str, value: Any) -> None:
        put_attribute(self.container, key, value)

    def label(self, key: str) -> str:
        return f"{self.path}.{key}"

    def enlist(self, panel: Panel) -> None:
        panel.views.append(vars(self.container).values())


class Fields(Watch):
    """Attributes that are in no ``__dict__``: slots, what a cell holds, a function's defaults."""

    def __init__(
        self, container: Any, path: str, names: Sequence[str], matters: Matters | None = None
    ) -> None:
        self.names = names
        super().__init__(container, path, matters)

    def read(self) -> dict[Any, Any]:
        pairs = [(name, attribute(self.container, name)) for name in self.names]
        return {name: value for name, value in pairs if value is not MISSING}

    def put(self, key: str, value: Any) -> None:
        put_attribute(self.container, key, value)

    def label(self, key: str) -> str:
        return self.path if key == "cell_contents" else f"{self.path}.{key}"

    def enlist(self, panel: Panel) -> None:
        names = [name for name in self.names if self.is_guarded(name)]
        panel.names += names
        panel.objects += [self.container] * len(names)


class Sort(Watch):
    """The shape, dtype and strides of a tensor, whether it wants a gradient; not its elements."""

    def read(self) -> dict[Any, Any]:
        t = self.container
        array = vars(t)["_array"]  # also of a parameter that has no shape yet
        dtype = dtypes.from_numpy(array.dtype)
        return {
            "shape": array.shape,
            "dtype": dtype,
            "requires_grad": t.requires_grad,
            "strides": array.strides,
        }

    def put(self, key: Any, value: Any) -> None:
        raise TypeError("a tensor is restored by the trace that changed it")

    def label(self, key: str) -> str:
        return f"{self.path}.{key}"

    def enlist(self, panel: Panel) -> None:
        panel.objects += [self.container] * 2
        panel.names += ["_array", "_history"]


class Elements(Watch):
    """The elements of a small NumPy array."""

    def read(self) -> dict[Any, Any]:
        return {"elements": self.container.tobytes()}

    def put(self, key: Any, value: bytes) -> None:
        array = self.container
        array[...] = np.frombuffer(value, array.dtype).reshape(array.shape)

    def label(self, key: str) -> str:
        return f"{self.path}.{key}"

    def enlist(self, panel: Panel) -> None:
        panel.small.append(self.container)


def put_attribute(owner: Any, name: str, value: Any) -> None:
    if value is MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def attribute(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name, MISSING)
    except ValueError:  # an empty cell
        return MISSING


class Panel:
    """Many watches, compared together.

    ``objects`` and ``names``, and ``dicts`` and ``keys``, are places; ``views`` are live iterables,
    whose elements follow each other; ``sized`` are containers that shall keep their lengths;
    ``small`` are arrays that shall keep their elements. A tensor is of another sort only if it has
    another array or history.
    """

    def __init__(self, watches: Iterable[Watch]) -> None:
        self.watches = list(watches)
        self.arrange()

    def arrange(self) -> None:
        self.objects: list[Any] = []
        self.names: list[str] = []
        self.dicts: list[dict[Any, Any]] = []
        self.keys: list[Any] = []
        self.views: list[Iterable[Any]] = []
        self.sized: list[Collection[Any]] = []
        self.small: list[np.ndarray] = []
        for watch in self.watches:
            watch.enlist(self)
        if self.views:
            self.views.append((END,))  # which is in another place when one grows or shrinks
        self.remember()

    def remember(self) -> None:
        """Takes the present for what is to stay, and finds out what there is to look at."""
        self.attributes = list(map(attribute, self.objects, self.names))
        self.entries = list(map(dict.get, self.dicts, self.keys, repeat(MISSING)))
        self.elements = list(chain.from_iterable(self.views))
        self.sizes = list(map(len, self.sized))
        self.bytes = list(map(np.ndarray.tobytes, self.small))
        looks = (
            (self.objects, self.same_attributes),
            (self.dicts, self.same_entries),
            (self.views, self.same_elements),
            (self.sized, self.same_sizes),
            (self.small, self.same_bytes),
        )
        self.looks = [look for places, look in looks if places]

    def same_attributes(self) -> bool:
        now = map(getattr, self.objects, self.names, repeat(MISSING))
        return all(map(is_, now, self.attributes))

    def same_entries(self) -> bool:
        return all(map(is_, map(dict.get, self.dicts, self.keys, repeat(MISSING)), self.entries))

    def same_elements(self) -> bool:
        return all(map(is_, chain.from_iterable(self.views), self.elements))

    def same_sizes(self) -> bool:
        return list(map(len, self.sized)) == self.sizes

    def same_bytes(self) -> bool:
        return list(map(np.ndarray.tobytes, self.small)) == self.bytes

    def hold(self) -> bool:
        """Whether nothing that matters has changed."""
        try:
            for look in self.looks:
                if not look():
                    break
            else:
                return True
        except ValueError:  # an empty cell
            pass
        if next(self.breaches(), None) is not None:
            return False
        self.remember()  # equal values, or what does not matter: the next look is quick again
        return True

    def breaches(self) -> Iterator[Change]:
        for watch in self.watches:
            yield from watch.breaches()
