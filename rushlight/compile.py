"""``compile``: a function becomes a graph, the graph becomes native code, calls go there.

arguments ──key──► specializations ──guards hold──► run
                        └─ none: trace → joint graph → passes → program, then run
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.modes import local
from rushlight.config import config
from rushlight.errors import warn
from rushlight.graph.arguments import Arguments, flatten, ints_of, names_of, shorthand
from rushlight.nn.module import Module
from rushlight.runtime.explain import Explanation, explain
from rushlight.runtime.options import check as check_options
from rushlight.runtime.shapes import AnySize, AtSizes, loosened
from rushlight.runtime.specialization import Specialization, specialize, tracing
from rushlight.runtime.traced import Traced
from rushlight.symbol import TraceError

PUBLIC = ("dynamic", "explain", "fullgraph", "function", "graph", "name", "reset")
SHORT = 4096  # short keys of a function
MANY = 8  # sizes, or values of an int, that are compiled one by one before a warning


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "rushlight",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function or module that runs as one native program.

    The function is run once in Python, for each new combination of dtypes and Python values, to
    write down the graph of all its tensor operations: forward, and if it calls ``backward()`` and
    an optimizer's ``step()``, those too. Later calls run the program made of that graph. Python's
    ``if``, ``while`` and ``for`` are part of it where tensors decide. Results are those of the
    function itself. The first program is for the sizes of the first call; when
    others come, one more is made, for all sizes. In anomaly mode, which looks for the line
    that makes a NaN, the function itself is called.

    Args:
        model: what to compile; without it, a decorator with these options.
        fullgraph: an error if something cannot be part of a graph; else the function then runs
            in dynamic mode, with one warning that says why.
        disable: returns ``model`` as it is.
        dynamic: True makes the first program one for all sizes, False one for each.
        backend, mode, options: as PyTorch has them; there is one backend, which needs no advice.

    >>> @rl.compile
    ... def f(x, y):
    ...     return x.sin() + y.cos()
    >>> f(rl.zeros(2), rl.zeros(2))
    tensor([1., 1.])
    """
    if backend in ("rushlight", "inductor"):  # others may have modes of their own
        check_options(mode, options)
    if dynamic not in (None, True, False):
        raise TypeError(f"compile(): dynamic must be True, False or None, not {dynamic!r}")
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if disable or isinstance(model, (Compiled, CompiledModule)):
        return model
    if isinstance(model, type) or not callable(model):
        raise TypeError(f"compile() takes a function or a module, got {model!r}")
    return (
        CompiledModule(model, fullgraph, dynamic)
        if isinstance(model, Module)
        else Compiled(model, fullgraph, dynamic)
    )


class Compiled:
    """A compiled function. Called inside another one, it becomes part of that one's graph."""

    alive: weakref.WeakSet[Compiled] = weakref.WeakSet()

    def __init__(
        self, function: Callable[..., Any], fullgraph: bool = False, dynamic: bool | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.fullgraph, self.dynamic = fullgraph, dynamic
        self.alive.add(self)
        self.reset()

    def reset(self) -> None:
        """Forgets all programs."""
        self.known: OrderedDict[Any, list[Specialization]] = OrderedDict()
        self.short: dict[Any, Sequence[Any]] = {}  # the same programs, by a shorter key
        self.lifted: set[int] = set()  # positions of floats that were seen to change
        self.floats: dict[int, float] = {}
        self.ints: dict[Any, set[int]] = {}  # values, by keys without one of the ints
        self.made: dict[Any, int] = {}  # how often programs were made for a key
        self.refused: dict[Any, str] = {}  # arguments of these kinds run in dynamic mode, and why
        self.told: set[Any] = set()  # kinds of arguments of which there was a warning
        self.crowded = False  # whether programs were dropped
        self.any_size = AnySize(self.dynamic)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = local.state
        if state.trace is not None or state.anomaly or config.disable_compile:
            return self.function(*args, **kwargs)
        short = None if kwargs else shorthand(args)
        for made in self.short.get(short, ()):
            captured = made.bind(args)
            if captured is not None:
                return made.run(args, captured)
        arguments = flatten(args, kwargs, self.lifted)
        if self.refused and arguments.key in self.refused:
            return self.function(*args, **kwargs)
        for made in self.known.get(arguments.key, ()):
            captured = made.bind(arguments.tensors, arguments.lifted)
            if captured is not None:
                if short is not None:
                    self.short[short] = self.known[arguments.key]
                return made.run(arguments.tensors, captured)
        found = self.any_size.find(arguments)
        if found is not None:
            if short is not None:
                self.recall(short, found[0])
            return found[0].run(arguments.tensors, found[1])
        return self.specialized(args, kwargs)

    def recall(self, short: Any, made: AtSizes) -> None:
        """Finds a program for all sizes by a short key at the next call; of few sizes, in all."""
        if len(self.short) >= SHORT:
            self.short.clear()
        self.short[short] = [made]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: the instance is the first argument."""
        return self if instance is None else Method(self, instance)

    def __reduce__(self) -> Any:
        """What a decorator has put in a function's place goes by its name, as functions do."""
        module = vars(sys.modules.get(getattr(self, "__module__", ""), sys))
        if module.get(self.name) is self:
            return self.name
        return Compiled, (self.function, self.fullgraph, self.dynamic)

    def specialized(self, args: Any, kwargs: Any) -> Any:
        """Makes a program for these arguments, and runs it."""
        try:
            with tracing:
                arguments = self.with_changing_floats(args, kwargs)
                made = self.made_meanwhile(arguments)
                if made is None:
                    make = functools.partial(specialize, self.function, arguments, self.lifted)
                    made = self.any_size.make(arguments, make)
                    if made is None:
                        made = make()
                        self.tell_of_sizes(arguments.key)
                    self.tell_of_ints(arguments)
                    self.count(made, arguments.key)
                    self.remember(arguments.key, made)
        except TraceError as error:
            if self.fullgraph:
                raise
            self.refused[flatten(args, kwargs, self.lifted).key] = str(error)
            if len(self.refused) == 1:
                why = str(error).removesuffix(".")
                again = " What it has printed or written to files is done again." * error.ran
                warn(
                    f"{self.name} runs in dynamic mode: {why}.{again} "
                    "(compile(..., fullgraph=True) makes this an error.)"
                )
            return self.function(*args, **kwargs)
        return made.run(arguments.tensors, made.captured(arguments.tensors))

    def made_meanwhile(self, arguments: Arguments) -> Specialization | None:
        """The program that another thread has made while this one waited."""
        for made in self.known.get(arguments.key, ()):
            if made.bind(arguments.tensors, arguments.lifted) is not None:
                return made
        found = self.any_size.find(arguments)
        return None if found is None else found[0].made

    def tell_of_sizes(self, key: Any) -> None:
        """A warning if each new size costs a program of its own."""
        kind = loosened(key)
        why = self.any_size.refuse(kind)
        if why is not None:
            made = self.made[kind] = self.made.get(kind, 0) + 1
            if made >= MANY and kind not in self.told:
                self.told.add(kind)
                warn(
                    f"{self.name} is compiled anew for each size of its arguments, since {why}. "
                    "Arguments can be filled up to one size."
                )

    def tell_of_ints(self, arguments: Arguments) -> None:
        """A warning if each value of an int costs a program of its own."""
        key = loosened(arguments.key)
        for number, (place, value) in enumerate(ints_of(key)):
            seen = self.ints.setdefault((place, key[:place], key[place + 1 :]), set())
            if value not in seen and len(seen) == MANY - 1:
                names = names_of([int], self.function, arguments.args, arguments.kwargs)
                warn(
                    f"{self.name} is compiled anew for each value of the int {names[number]!r}. "
                    "If it is no size or index, it can be passed as a float or a 0-d tensor."
                )
            seen.add(value)

    def count(self, made: Specialization, key: Any) -> None:
        """An error if something around the function changes at every call."""
        before: Sequence[Any] = self.known.get(key, ())
        if made.shapes is not None:
            key = loosened(key)
            before = self.any_size.known.get(key, ())
        self.made[key] = self.made.get(key, 0) + 1
        if self.made[key] > config.recompiles:
            why = before[0].what_changes() if before else None
            raise TraceError(
                f"it was compiled {config.recompiles} times for the same kind of arguments, since "
                f"what it depends on changes again and again ({why or 'see config.recompiles'}): "
                "pass it as an argument, or keep it in a tensor"
            )

    def with_changing_floats(self, args: Any, kwargs: Any) -> Arguments:
        """Floats that differ from those of an earlier call become numbers of the run."""
        arguments = flatten(args, kwargs, self.lifted)
        changed = {
            i
            for i, x in arguments.floats.items()
            if repr(self.floats.setdefault(i, x)) != repr(x)  # NaN is equal to itself here
        } - self.lifted
        if not changed:
            return arguments
        self.lifted = self.lifted | changed
        return flatten(args, kwargs, self.lifted)

    def remember(self, key: Any, made: Specialization) -> None:
        """Keeps a program; of too many, the one made first is dropped."""
        if made.shapes is not None:
            return self.any_size.remember(loosened(key), made)
        kept = self.known.setdefault(key, [])
        kept.insert(0, made)
        del kept[config.programs_per_key :]
        while len(self.known) > config.programs:
            self.known.popitem(last=False)
            self.short.clear()
            if not self.crowded:
                self.crowded = True
                warn(
                    f"{self.name} was compiled for more than {config.programs} kinds of arguments, "
                    "and each new one takes time: an int that changes at every call can be passed "
                    "as a tensor or a float, batches can be filled up to one size."
                )

    @property
    def name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)

    def graph(self, *args: Any, **kwargs: Any) -> Any:
        """The graph of a call with these arguments, which is not made."""
        return self.traced(*args, **kwargs).graph

    def traced(self, *args: Any, **kwargs: Any) -> Traced:
        """The trace of a call with these arguments, which is not made: a graph and its border."""
        with tracing:
            arguments = flatten(args, kwargs, self.lifted)
            make = functools.partial(specialize, self.function, arguments, self.lifted, True)
            found: Traced = AnySize(self.dynamic).make(arguments, make) or make()
            return found

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What a call with these arguments runs: each step with its cost, time and line.

        The call itself is not made: no tensor, gradient or generator changes.

        >>> report = rl.compile(lambda x: x.exp().sum()).explain(rl.ones(100))
        >>> [(step.kind, step.what) for step in report.steps]
        [('kernel', 'exp, sum')]
        """
        with tracing:
            arguments = flatten(args, kwargs, self.lifted)
            return explain(self.name, self.function, arguments, self.lifted)

    def __dir__(self) -> list[str]:
        """What is of use to callers; the rest is how programs are kept and found."""
        own = [name for name in dir(type(self)) if name.startswith("__")]
        return sorted({*own, *getattr(self.function, "__dict__", ()), *PUBLIC})

    def __repr__(self) -> str:
        return f"<compiled {self.name}>"


class Method:
    """A compiled function with its first argument, the object it is a method of."""

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self.__func__, self.__self__ = compiled, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def graph(self, *args: Any, **kwargs: Any) -> Any:
        """The graph of a call; see :meth:`Compiled.graph`."""
        return self.__func__.graph(self.__self__, *args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What a call runs; see :meth:`Compiled.explain`."""
        return self.__func__.explain(self.__self__, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<compiled method {self.__func__.name} of {self.__self__!r}>"


class CompiledModule(Module):
    """A module whose forward is compiled; parameters, state and modes are those of the module."""

    def __init__(
        self, module: Module, fullgraph: bool = False, dynamic: bool | None = None
    ) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module
        self.__dict__["_compiled"] = Compiled(module, fullgraph, dynamic)

    @property
    def training(self) -> bool:  # type: ignore[override]
        """Whether the module inside is in training mode."""
        return self._orig_mod.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):  # hooks of its own
            self.__dict__[name] = value
        else:
            setattr(self._orig_mod, name, value)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What a call runs; see :meth:`Compiled.explain`."""
        return self.__dict__["_compiled"].explain(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __reduce__(self) -> Any:
        """A copy, or what a file gives back, is the module compiled anew."""
        inner = self.__dict__["_compiled"]
        return CompiledModule, (self._orig_mod, inner.fullgraph, inner.dynamic)

    def train(self, mode: bool = True) -> CompiledModule:
        self._orig_mod.train(mode)
        return self


def graph(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The graph of ``function(*args, **kwargs)``: a printable value; nothing is changed.

    Sizes are those of the arguments; of a function that was compiled with ``dynamic=True``, and in
    dimensions that ``mark_dynamic`` names, they are symbols.

    >>> print(rl.graph(lambda x: x.exp().sum(), rl.ones(3)))  # doctest: +ELLIPSIS
    graph(%0: f32[3]):
      %1: f32[3] = exp(%0)...
      %2: f32[] = sum(%1, dim=None, keepdim=False)...
      return %2
    """
    inner = function if isinstance(function, Compiled) else Compiled(function)
    return inner.graph(*args, **kwargs)
