"""Guards: what a compiled function depends on beside its tensor arguments.

A graph is made by running a function once, so it is right as long as all that its Python looked at
is the same. Python does not tell what it reads; but its code names it. Guards follow the code of
the user from the function on: globals, closures, defaults, classes, modules and objects, as far as
an attribute of that name is read anywhere in the code that was reached.
"""

from __future__ import annotations

import functools
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from rushlight.graph.epoch import Entries, epoch
from rushlight.graph.reads import (
    REFLECTIVE,
    is_ours,
    is_users_class,
    is_users_file,
    is_users_module,
    names_in,
    reads,
)
from rushlight.graph.watches import (
    PLAIN,
    Change,
    ClassBody,
    Elements,
    Fields,
    Globals,
    Items,
    Members,
    Namespace,
    Pairs,
    Panel,
    Selection,
    Sort,
    Watch,
    attribute,
)
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

DEPTH = 4  # of containers in containers and objects in objects
SMALL = 1 << 20  # elements of a NumPy array that are compared at each call
STREAMS = (Iterator, np.random.Generator, np.random.RandomState, random.Random)
LEAVES = 1000  # elements of containers altogether; of those beyond, only the number is compared
CELL = ("cell_contents",)
DEFAULTS = ("__code__", "__defaults__", "__kwdefaults__")
MAKERS = ("__init__", "__new__", "__post_init__")
PARTS = ("_parameters", "_buffers", "_modules")
HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
INSIDE = ("_hooks", "_hooks_with_kwargs", "_hooks_always_called", "_buffers_set")


class Guards:
    """A snapshot of all that ``function``, and methods of ``objects``, can reach.

    Numbers, strings and the like are compared by value; containers and small NumPy arrays by their
    elements; tensors by identity, shape, dtype and whether they want a gradient; other objects by
    identity and by those of their attributes that the code names.

    >>> sizes = [1, 2]
    >>> guards = Guards(lambda x: x * len(sizes))
    >>> guards.hold()
    True
    >>> sizes.append(3)
    >>> guards.hold(), guards.explain()
    (False, 'sizes[2] was missing, is 3')
    """

    def __init__(self, function: Callable[..., Any], objects: Sequence[Any] = ()) -> None:
        self.epoch = epoch.now
        reach = Reach()
        for value in (function, *objects):
            reach.see(value, getattr(value, "__name__", f"{type(value).__name__}()"))
        reach.explore()
        self.modules = Panel(reach.modules)
        self.others = Panel(reach.others)
        self.asks_types = reach.asks_types  # whether code may call ``type``

    @property
    def watches(self) -> list[Watch]:
        return [*self.modules.watches, *self.others.watches]

    def tensors(self) -> set[int]:
        """The identities of the tensors that the function can reach."""
        return {id(watch.container) for watch in self.watches if isinstance(watch, Sort)}

    def hold(self) -> bool:
        """Whether everything is as it was, so that the graph is right."""
        now = epoch.now
        if now is not self.epoch:
            if not self.modules.hold():
                return False
            self.epoch = now
        return self.others.hold()

    def explain(self) -> str | None:
        """What has changed first, such as ``net.fc.training was True, is False``."""
        for panel in (self.modules, self.others):
            for change in panel.breaches():
                return str(change)
        return None

    def changes(self) -> list[Change]:
        """What a run has changed in all that it can reach, except tensors; before ``restore``."""
        watches = [watch for watch in self.watches if not isinstance(watch, Sort)]
        return [change for watch in watches for change in watch.changes()]

    def restore(self, changes: Iterable[Change]) -> None:
        """Puts back what was there before, and forgets what does not matter to the function."""
        for change in changes:
            change.put(change.before)
        for watch in self.watches:
            watch.trim()

    def release(self, changes: Iterable[Change]) -> None:
        """Guards these entries no longer, since the program writes them itself at each call.

        That is right only for an entry whose old value the function does not read.
        """
        for change in changes:
            change.watch.written.add(change.key)
        self.modules.arrange()
        self.others.arrange()


class Reach:
    """What code can reach: a walk over objects that goes on until no new name is found."""

    def __init__(self) -> None:
        self.modules: list[Watch] = []  # seen to by the epoch
        self.others: list[Watch] = []
        self.names: set[str] = set()  # of attributes
        self.queue: deque[tuple[Any, str, int]] = deque()
        self.seen: dict[int, Any] = {}
        self.classes: set[type] = {object}
        self.made: set[type] = set()  # classes that code names: it may make objects of them
        self.globals: dict[int, Globals] = {}
        self.named: list[tuple[Watch, int]] = []  # of which only some attributes matter
        self.reflects = self.asks_types = False
        self.left = LEAVES

    def matters(self, name: Any) -> bool:
        """Whether an attribute may be read."""
        return self.reflects or name in self.names

    def see(self, value: Any, path: str, depth: int = 0) -> None:
        """Puts ``value`` on the list of what to visit, unless it has no inside."""
        if not isinstance(value, PLAIN) and id(value) not in self.seen:
            self.seen[id(value)] = value
            self.queue.append((value, path, depth))

    def see_all(self, watch: Watch, depth: int) -> None:
        """Visits what is in a container, as far as it matters."""
        for key, value in watch.before.items():
            if watch.is_guarded(key):
                self.see(value, watch.label(key), depth)

    def explore(self) -> None:
        while self.queue:
            while self.queue:
                self.visit(*self.queue.popleft())
            for watch, depth in self.named:
                self.see_all(watch, depth)
        self.seen.clear()

    def visit(self, value: Any, path: str, depth: int) -> None:
        match value:
            case Tensor():
                self.others.append(Sort(value, path))
                self.see(value._base, f"{path}._base")
            case FunctionType():
                self.visit_function(value, path)
            case types.MethodType():
                self.see(value.__self__, "self")
                self.see(value.__func__, path)
            case functools.partial():
                self.see(value.func, path)
                self.see(value.args, f"{path}.args")
                self.see(value.keywords, f"{path}.keywords")
            case property():
                for function in (value.fget, value.fset, value.fdel):
                    self.see(function, path)
            case staticmethod() | classmethod():
                self.see(value.__func__, path)
            case functools.cached_property() | functools.partialmethod():
                self.see(value.func, path)
            case types.CellType():
                self.others.append(Fields(value, f"closure variable {path!r}", CELL))
                self.see(attribute(value, *CELL), path)
            case types.ModuleType():
                if is_users_module(value):
                    self.name(Library(vars(value), path, self.matters), 0)
            case type():
                if is_users_class(value):
                    self.made.update(value.__mro__)
                    self.visit_class(value)
            case tuple() | frozenset():
                for i, element in enumerate(value):
                    self.see(element, f"{path}[{i}]", depth)
            case list() | deque():
                self.contain(Items, value, path, depth)
            case set():
                self.contain(Members, value, path, depth)
            case dict():
                self.contain(Pairs, value, path, depth)
            case np.ndarray():
                if value.size > SMALL or value.dtype.hasobject:
                    raise TraceError(
                        f"{path} is a NumPy array of {value.size} elements: too many to compare "
                        "at each call. Make it a tensor, whose elements a program reads anew."
                    )
                self.others.append(Elements(value, path))
            case _ if isinstance(value, STREAMS):
                raise TraceError(
                    f"{path} is a {type(value).__name__}, which gives another value each time: "
                    "draw with rl.rand and the like, or take the value outside and pass it in."
                )
            case _:
                self.visit_object(value, path, depth)

    def contain(self, kind: type[Watch], value: Any, path: str, depth: int) -> None:
        """A container: its elements, if they are not too many or too deep, else their number."""
        exact = depth < DEPTH and len(value) <= self.left
        watch = kind(value, path, exact=exact)
        self.others.append(watch)
        if exact:
            self.left -= len(value)
            self.see_all(watch, depth + 1)

    def name(self, watch: Watch, depth: int, watches: list[Watch] | None = None) -> None:
        """Attributes, of which those matter that code names: more, as more code is found."""
        (self.others if watches is None else watches).append(watch)
        self.named.append((watch, depth))

    def visit_function(self, function: FunctionType, path: str) -> None:
        self.see(function.__dict__.get("__wrapped__"), path)
        cells = function.__closure__ or ()
        if not is_users_file(function.__code__.co_filename):
            for cell in cells:  # a decorator of a library: what it decorates
                inner = attribute(cell, *CELL)
                if isinstance(inner, (FunctionType, types.MethodType)):
                    self.see(inner, path)
            return
        self.others.append(Fields(function, path, DEFAULTS))
        self.see(function.__defaults__, f"{path}.__defaults__")
        self.see(function.__kwdefaults__, f"{path}.__kwdefaults__")
        if function.__dict__:
            self.name(Namespace(function.__dict__, path, self.matters), 0)
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            self.see(cell, name)
        self.visit_code(function)

    def visit_code(self, function: FunctionType) -> None:
        found = reads(function.__code__)
        self.names |= found.attributes
        self.reflects |= not REFLECTIVE.isdisjoint(found.globals | found.attributes)
        self.asks_types |= "type" in found.globals
        for name in found.imports & sys.modules.keys():
            self.see(sys.modules[name], name)
        space = function.__globals__
        watch = self.globals.get(id(space))
        if watch is None:
            watch = self.globals[id(space)] = Globals(space, "", set())
            self.others.append(watch)
        watch.names |= found.globals
        watch.before = watch.read()
        for name in found.globals & space.keys():
            self.see(space[name], name)

    def visit_class(self, cls: type) -> None:
        """The bodies of a class and its bases; of those in libraries, the names they use."""
        for base in cls.__mro__:
            if base in self.classes:
                continue
            self.classes.add(base)
            if is_users_class(base):
                matters = functools.partial(self.matters_in_class, base)
                self.name(ClassBody(base, base.__name__, matters), 0)
            else:
                self.names |= names_in(base)

    def matters_in_class(self, cls: type, name: str) -> bool:
        """Besides what code names: what Python itself calls, and how objects are made."""
        if name in MAKERS:
            return cls in self.made
        special = name[:2] == name[-2:] == "__"
        return self.matters(name) or (special and isinstance(vars(cls).get(name), FunctionType))

    def visit_object(self, value: Any, path: str, depth: int) -> None:
        found = getattr(value, "__dict__", None)
        own: dict[str, Any] = found if isinstance(found, dict) else {}
        cls = type(value)
        self.see(own.get("__wrapped__"), path)
        if all([part in own for part in (*PARTS, "training")]):
            self.visit_class(cls)
            self.visit_module(value, own, path)
        elif any(map(is_ours, cls.__mro__)):
            self.visit_ours(own, path, cls)
        elif depth <= DEPTH:
            if is_users_class(cls):
                self.visit_class(cls)
                names = ("__class__", *slots(cls))
                self.name(Fields(value, path, names, self.matters), depth + 1)
            if own is found:
                self.name(Namespace(own, path, self.matters), depth + 1)

    def visit_module(self, module: Any, own: dict[str, Any], path: str) -> None:
        self.modules.append(Fields(module, path, ("__class__",)))
        for key, value in own.items():
            if key in PARTS or key.endswith(INSIDE):
                self.seen[id(value)] = value
        for part in PARTS:
            watch = Namespace(own[part], path)
            (self.modules if isinstance(own[part], Entries) else self.others).append(watch)
            self.see_all(watch, 0)
        self.visit_hooks(own, path, self.modules)
        self.name(ModuleBody(own, path, self.matters), 0, self.modules)

    def visit_hooks(self, own: dict[str, Any], path: str, watches: list[Watch]) -> None:
        """Registering a module's hook ends the epoch, but removing one does not."""
        for name in HOOKS:
            watch = Pairs(own[name], f"{path}.{name}")
            (self.others if own[name] else watches).append(watch)
            self.see_all(watch, 0)

    def visit_ours(self, own: dict[str, Any], path: str, cls: type) -> None:
        """An optimizer, a generator …: what it holds, it accounts for itself."""
        if HOOKS[0] in own:
            self.visit_hooks(own, path, self.others)
        if is_users_class(cls):
            self.visit_class(cls)
            plain = {k for k, v in own.items() if isinstance(v, PLAIN) and k[0] != "_"}
            self.others.append(Selection(own, path, plain, self.matters))


class ModuleBody(Namespace):
    """The attributes of a network's module, without the note whether it ever had a hook."""

    def read(self) -> dict[Any, Any]:
        return {key: value for key, value in self.container.items() if key != "_hooked"}


class Library(Namespace):
    """The names of a module of Python, which may get more of them at any time."""

    grows = True


def slots(cls: type) -> list[str]:
    """The names of the slots that the user's classes among the bases of ``cls`` have."""
    bodies = [vars(base).items() for base in cls.__mro__ if is_users_class(base)]
    kind = types.MemberDescriptorType
    return [name for body in bodies for name, member in body if isinstance(member, kind)]
