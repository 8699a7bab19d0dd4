"""Names of ``torch.jit`` that programs use around their functions, with the meaning they have here.

What is written for TorchScript's compiler (annotations, marks on methods) is plain Python here.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Generic, NamedTuple, TypeVar

from rushlight.autograd.modes import local

T = TypeVar("T")

Error = RuntimeError


class TracerWarning(Warning):
    """What PyTorch warns of when a trace may be wrong; here such a trace is an error instead."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Accepted for PyTorch programs."""


class Attribute(NamedTuple):
    """A value with its type, for TorchScript."""

    value: Any
    type: Any


class Future(Generic[T]):
    """The result of :func:`fork`, which is there at once."""

    def __init__(self, value: T) -> None:
        self.result = value

    def wait(self) -> T:
        return self.result

    def value(self) -> T:
        return self.result

    def done(self) -> bool:
        return True

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        return Future(callback(self))


def annotate(the_type: Any, the_value: T) -> T:
    """``the_value``, whose type TorchScript would be told."""
    return the_value


def marked(function: Any = None, **options: Any) -> Any:
    """A function as it is, with or without options of the decorator."""
    return function if callable(function) else lambda inner: inner


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Marks a function that TorchScript leaves to Python; here it is traced like any other."""
    return marked(drop, **kwargs)


unused = script_method = interface = _overload = _overload_method = marked
EXPORTED: weakref.WeakSet[FunctionType] = weakref.WeakSet()


def export(fn: FunctionType) -> FunctionType:
    """Marks a method that becomes a program beside ``forward``, once it was called.

    >>> class Net(rl.nn.Module):
    ...     def forward(self, x):
    ...         return x + 1
    ...     @rl.jit.export
    ...     def back(self, y):
    ...         return y - 1
    >>> net = rl.jit.script(Net())
    >>> net.back(net(rl.ones(2)))
    tensor([1., 1.])
    """
    EXPORTED.add(fn)
    return fn


def exported_methods(cls: type) -> list[str]:
    """The names of methods that :func:`export` marks."""
    methods = {name: f for kind in reversed(cls.__mro__) for name, f in vars(kind).items()}
    return [name for name, f in methods.items() if type(f) is FunctionType and f in EXPORTED]


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: branches and loops are part of a trace here."""
    return fn


def is_scripting() -> bool:
    """False: functions run as Python, or are traced."""
    return False


def is_tracing() -> bool:
    """Whether a function is being traced."""
    return local.state.trace is not None


def isinstance(obj: Any, target_type: Any) -> bool:
    """``isinstance`` that also takes types such as ``List[int]``, of which the origin counts."""
    targets = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    kinds: Any = tuple([getattr(t, "__origin__", t) for t in targets])
    return builtins.isinstance(obj, kinds)


def _unwrap_optional(x: T | None) -> T:
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """Runs ``func`` and keeps its result for :func:`wait`; ops use all threads anyway.

    >>> rl.jit.wait(rl.jit.fork(rl.neg, rl.ones(2)))
    tensor([-1., -1.])
    """
    return Future(func(*args, **kwargs))


def wait(future: Future[T]) -> T:
    """The result of :func:`fork`."""
    return future.wait()


@contextmanager
def strict_fusion() -> Iterator[None]:
    """Accepted for PyTorch programs."""
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Accepted for PyTorch programs: fusion does not specialise again and again here."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted for PyTorch programs."""


def onednn_fusion_enabled() -> bool:
    """False: there is one compiler."""
    return False
