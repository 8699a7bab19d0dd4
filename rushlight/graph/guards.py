"""Guards: what a compiled function depends on beside its tensor arguments.

A graph is made by running a function once, so it is right as long as all that its Python looked at
is the same. Python does not tell what it reads; but its code names it. Guards follow the code of
the user from the function on: globals, closures, defaults, classes, modules and objects, as far as
an attribute of that name is read anywhere in the code that was reached.
"""

from __future__ import annotations

import builtins
import functools
import random
import sys
import threading
import time
import types
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import FunctionType
from typing import Any

import numpy as np

from rushlight.autograd.function import Function
from rushlight.graph.epoch import Entries, epoch
from rushlight.graph.reads import (
    REFLECTIVE,
    Whose,
    is_ours,
    names_in,
    reads,
    whose_class,
    whose_file,
    whose_module,
)
from rushlight.graph.watches import (
    PLAIN,
    Attached,
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
from rushlight.graph.world import is_worldly
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor

DEPTH = 4  # steps from what the user's code names into what only libraries or reflection may read
SMALL = 1 << 20  # elements of a NumPy array that are compared at each call
DICE = (np.random.Generator, np.random.RandomState, random.Random)
SHIFTING = (Iterator, *DICE, ContextVar, threading.local)
LEAVES = 10_000  # elements of containers that are compared at each call
DOUBTFUL = 300  # things that perhaps nobody reads; of larger containers, the number is compared
CELL = ("cell_contents",)
DEFAULTS = ("__code__", "__defaults__", "__kwdefaults__")
MAKERS = ("__init__", "__new__", "__post_init__")
PARTS = ("_parameters", "_buffers", "_modules")
HOOKS = (
    "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
RULES = ("forward", "backward", "setup_context", "jvp", "vmap")  # of an autograd.Function
CODE = (FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
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
        for path, value in reach.shifting:
            raise TraceError(
                f"{path} is a {type(value).__name__}, which gives another value each time or in "
                "each thread: draw with rl.rand and the like, or take the value outside and pass "
                "it in."
            )
        self.modules = Panel(reach.modules)
        self.others = Panel([*reach.others, *[Sort(t, path) for path, t in reach.tensors]])
        self.asks_types = reach.asks_types  # the code that may call ``type``
        self.asks_world = reach.asks_world  # or look at clocks, files and the like
        self.known = reach.seen  # what was there before the trace, by identity
        self.codes = reach.codes  # of the user's functions
        self.names = reach.names  # of attributes that code reads
        self.caches = [(cache, cache.cache_info().misses) for cache in reach.caches]

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
        for cache, misses in self.caches:
            if cache.cache_info().misses != misses:  # it may hold tensors of the trace
                cache.cache_clear()
        self.known = {}

    def release(self, changes: Iterable[Change]) -> None:
        """Guards these entries no longer, since the program writes them itself at each call.

        That is right only for an entry whose old value the function does not read.
        """
        for change in changes:
            change.watch.written.add(change.key)
        self.modules.arrange()
        self.others.arrange()


class Reach:
    """What code can reach: a walk over objects that goes on until no new name is found.

    Args:
        leaves: how many elements of containers may be compared.
        elements: how many of one NumPy array.
    """

    def __init__(self, leaves: int = LEAVES, elements: int = SMALL) -> None:
        self.modules: list[Watch] = []  # seen to by the epoch
        self.others: list[Watch] = []
        self.tensors: list[tuple[str, Tensor]] = []
        self.shifting: list[tuple[str, Any]] = []  # what gives another value each time
        self.names: set[str] = set()  # of attributes
        self.queue: deque[tuple[Any, str, int]] = deque()
        self.seen: dict[int, Any] = {}
        self.classes: set[type] = {object}
        self.made: set[type] = set()  # classes that code names: it may make objects of them
        self.globals: dict[int, Globals] = {}
        self.named: list[tuple[Watch, int]] = []  # of which only some attributes matter
        self.codes: list[types.CodeType] = []
        self.caches: list[Any] = []  # functions that remember their results
        self.reflects = self.asks_world = False
        self.asks_types: str | None = None
        self.left, self.elements, self.spare = leaves, elements, DOUBTFUL

    def matters(self, name: Any) -> bool:
        """Whether an attribute may be read."""
        return self.reflects or name in self.names

    def see(self, value: Any, path: str, depth: int = 0) -> None:
        """Puts ``value`` on the list of what to visit, unless it has no inside.

        ``depth`` is 0 for what the user's code names. What only a library may read, or somebody by
        reflection, is followed for a few steps.
        """
        if isinstance(value, PLAIN) or id(value) in self.seen:
            return
        if depth:
            if depth > DEPTH or not self.spare:
                return
            self.spare -= 1
        self.seen[id(value)] = value
        self.queue.append((value, path, depth))

    def see_all(self, watch: Watch, depth: int, named: bool = False) -> None:
        """Visits what is in a container, as far as it matters, or only what code ``named``."""
        for key, value in watch.before.items():
            if id(value) in self.seen or isinstance(value, PLAIN):
                continue
            if (not named or key in self.names) and watch.is_guarded(key):
                self.see(value, watch.label(key), depth)

    def explore(self) -> None:
        """What is named comes first, so that nothing of it is taken for doubtful."""
        while self.queue:
            while self.queue:
                self.visit(*self.queue.popleft())
            for watch, depth in self.named:
                self.see_all(watch, depth, named=not isinstance(watch, ClassBody))
            if not self.queue and self.reflects:
                for watch, depth in self.named:
                    self.see_all(watch, depth + 1)

    def visit(self, value: Any, path: str, depth: int) -> None:
        match value:
            case Tensor():
                self.visit_tensor(value, path, depth)
            case FunctionType():
                self.visit_function(value, path, depth)
            case types.MethodType():
                self.see(value.__self__, "self", depth)
                self.see(value.__func__, path, depth)
            case types.BuiltinFunctionType() | types.MethodWrapperType():
                self.asks_world |= is_worldly(value)
                if not isinstance(value.__self__, DICE):
                    self.see(value.__self__, f"{path}.__self__", depth)
            case functools.partial():
                self.see(value.func, path, depth)
                self.see(value.args, f"{path}.args", depth)
                self.see(value.keywords, f"{path}.keywords", depth)
            case functools._lru_cache_wrapper():
                self.caches.append(value)
                self.see(value.__wrapped__, path, depth)
            case property():
                for function in (value.fget, value.fset, value.fdel):
                    self.see(function, path, depth)
            case staticmethod() | classmethod():
                self.see(value.__func__, path, depth)
            case functools.cached_property() | functools.partialmethod():
                self.see(value.func, path, depth)
            case types.CellType():
                self.others.append(Fields(value, f"closure variable {path!r}", CELL))
                self.see(attribute(value, *CELL), path, depth)
            case types.ModuleType():
                whose = whose_module(value)
                if whose is not Whose.FOUNDATION:
                    depth += whose is Whose.LIBRARY
                    self.name(Library(vars(value), path, self.matters), depth)
            case type():
                if whose_class(value) is not Whose.FOUNDATION:
                    self.made.update(value.__mro__)
                    self.visit_class(value, depth)
            case tuple() | frozenset():
                for i, element in enumerate(value):
                    self.see(element, f"{path}[{i}]", depth)
            case list() | deque() | bytearray() | array():
                self.contain(Items, value, path, depth)
            case set():
                self.contain(Members, value, path, depth)
            case dict() | types.MappingProxyType():
                self.contain(Pairs, value, path, depth)
            case UserDict() | UserList():
                self.see(value.data, path, depth)
            case memoryview():
                self.see(value.obj, path, depth)
            case ChainMap():
                self.see(value.maps, path, depth)
            case np.ndarray():
                self.visit_array(value, path, depth)
            case _ if isinstance(value, SHIFTING):
                if not depth:
                    self.shifting.append((path, value))
            case _:
                self.visit_object(value, path, depth)

    def visit_tensor(self, value: Tensor, path: str, depth: int) -> None:
        """The tensor, and what the user has attached to it."""
        self.tensors.append((path, value))
        self.see(value._base, f"{path}._base", depth)
        attached = Attached(vars(value), path)
        self.others.append(attached)
        self.see_all(attached, depth)

    def visit_array(self, value: np.ndarray, path: str, depth: int) -> None:
        """An array, whose elements are compared at each call."""
        if value.size <= self.elements and not value.dtype.hasobject:
            self.others.append(Elements(value, path))
        elif not depth:
            raise TraceError(
                f"{path} is an array of {value.size} elements: too many to compare at each call. "
                "Make it a tensor, whose elements a program reads anew."
            )

    def contain(self, kind: type[Watch], value: Any, path: str, depth: int) -> None:
        """A container: its elements; if they are many, and it is doubtful, their number."""
        size = len(value)
        exact = size <= (DOUBTFUL if depth else self.left)
        if not exact and not depth:
            raise TraceError(
                f"{path} is a {type(value).__name__} of {size} elements: with what else the "
                f"function can reach, more than the {LEAVES} that are compared at each call. Make "
                "it a tuple, which cannot change, or a tensor, or pass in what is needed of it."
            )
        watch = kind(value, path, exact=exact)
        self.others.append(watch)
        if exact:
            self.left -= 0 if depth else size
            self.see_all(watch, depth + (depth > 0))
        if whose_class(type(value)) is not Whose.FOUNDATION:
            self.visit_object(value, path, depth)

    def name(self, watch: Watch, depth: int, watches: list[Watch] | None = None) -> None:
        """Attributes, of which those matter that code names: more, as more code is found."""
        (self.others if watches is None else watches).append(watch)
        self.named.append((watch, depth))

    def visit_function(self, function: FunctionType, path: str, depth: int) -> None:
        self.see(function.__dict__.get("__wrapped__"), path, depth)
        cells = function.__closure__ or ()
        whose = whose_file(function.__code__.co_filename)
        if whose is Whose.FOUNDATION:
            for cell in cells:  # a decorator: what it decorates
                inner = attribute(cell, *CELL)
                if isinstance(inner, (FunctionType, types.MethodType)):
                    self.see(inner, path, depth)
            return
        depth += whose is Whose.LIBRARY
        if not depth:
            self.others.append(Fields(function, path, DEFAULTS))
        self.see(function.__defaults__, f"{path}.__defaults__", depth)
        self.see(function.__kwdefaults__, f"{path}.__kwdefaults__", depth)
        if function.__dict__:
            self.name(Namespace(function.__dict__, path, self.matters), depth)
        for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
            self.see(cell, name, depth)
        self.visit_code(function, depth)

    def visit_code(self, function: FunctionType, depth: int) -> None:
        """The globals that code names; in libraries, only what is data there."""
        found, space = reads(function.__code__), function.__globals__
        self.names |= found.attributes
        if not depth:
            if function.__name__ not in MAKERS:  # a value that is written again may be another then
                self.names |= found.written
            self.codes.append(function.__code__)
            self.reflects |= not REFLECTIVE.isdisjoint(found.globals | found.attributes)
        if "type" in found.globals and self.asks_types is None:
            code = function.__code__
            self.asks_types = f"{code.co_filename}:{code.co_firstlineno} (type)"
        for name in found.imports & sys.modules.keys():
            self.see(sys.modules[name], name, depth)
        there = {name: space[name] for name in found.globals & space.keys()}
        used = [*there.values(), *[getattr(builtins, name, None) for name in found.globals]]
        used += [sys.modules.get(name, time) for name in found.imports]  # or nobody knows which
        self.asks_world |= any(map(is_worldly, used))
        watch = self.globals.get(id(space))
        if watch is None:
            watch = self.globals[id(space)] = Globals(space, "", set())
            self.others.append(watch)
        data = {name for name, value in there.items() if not isinstance(value, CODE)}
        watch.names |= data if depth else found.globals
        watch.before = watch.read()
        for name, value in there.items():
            self.see(value, name, depth)

    def visit_class(self, cls: type, depth: int = 0) -> None:
        """The bodies of a class and its bases; of those in the foundation, the names they use."""
        if issubclass(cls, Function):
            self.names.update(RULES)
        for base in cls.__mro__:
            if base in self.classes:
                continue
            self.classes.add(base)
            whose = whose_class(base)
            if whose is Whose.FOUNDATION:
                self.names |= names_in(base)
                continue
            body = ClassBody(base, base.__name__, functools.partial(self.matters_in_class, base))
            if whose is Whose.USER:
                self.others.append(body)
            self.named.append((body, depth))

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
        self.see(own.get("__wrapped__"), path, depth)
        self.asks_world |= is_worldly(value)
        if all([part in own for part in (*PARTS, "training")]):
            self.visit_class(cls)
            self.visit_module(value, own, path)
        elif any(map(is_ours, cls.__mro__)):
            self.visit_ours(own, path, cls)
        else:
            if whose_class(cls) is not Whose.FOUNDATION:
                self.visit_class(cls, depth)
                names = ("__class__", *slots(cls))
                self.name(Fields(value, path, names, self.matters), depth)
            if own is found:
                self.name(Namespace(own, path, self.matters), depth)

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
        """An optimizer, a generator …: what it holds, it accounts for itself.

        But if the function sets the numbers of an optimizer, no later call would do that; and if
        the user's code reads them, or how far a schedule is, a program is right for what it read.
        """
        for i, group in enumerate(own.get("param_groups", ())):
            names = set(group) if isinstance(group, dict) else set()
            place = f"{path}.param_groups[{i}]"
            self.others.append(Selection(group, place, names, self.matters_in_group(cls)))
        if "optimizer" in own and "last_epoch" in own:  # a schedule: its own code runs as Python
            plain = {k for k, v in own.items() if isinstance(v, PLAIN) and k[0] != "_"}
            self.others.append(Selection(own, path, plain, lambda name: name in self.names))
            return
        if HOOKS[0] in own:
            self.visit_hooks(own, path, self.others)
        if whose_class(cls) is Whose.USER:
            self.visit_class(cls)
            plain = {k for k, v in own.items() if isinstance(v, PLAIN) and k[0] != "_"}
            self.others.append(Selection(own, path, plain, self.matters))

    def matters_in_group(self, cls: type) -> Callable[[Any], bool]:
        """What the user's code reads of an optimizer; one of the user's own reads it anyway."""
        ours = whose_class(cls) is Whose.FOUNDATION
        return lambda name: ours and name != "params" and "param_groups" in self.names


class ModuleBody(Namespace):
    """The attributes of a network's module, without the note whether it ever had a hook."""

    def read(self) -> dict[Any, Any]:
        return {key: value for key, value in self.container.items() if key != "_hooked"}


class Library(Namespace):
    """The names of a module of Python, which may get more of them at any time."""

    grows = True


def slots(cls: type) -> list[str]:
    """The names of the slots that the user's classes among the bases of ``cls`` have."""
    bodies = [
        vars(base).items() for base in cls.__mro__ if whose_class(base) is not Whose.FOUNDATION
    ]
    kind = types.MemberDescriptorType
    return [name for body in bodies for name, member in body if isinstance(member, kind)]
