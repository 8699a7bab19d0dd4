"""What the current thread is doing: recording gradients or not, looking for anomalies or not."""

from __future__ import annotations

import contextvars
import functools
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


class State:
    """The modes of one thread.

    ``run(kernel, *arrays)`` calls a NumPy kernel in a context where floating-point exceptions
    stay silent, as IEEE arithmetic in a tensor library should, while the user's own NumPy keeps
    its warnings. Kernels are plain NumPy: they never call ops, so ``run`` never nests.
    """

    __slots__ = (
        "anomaly", "anomaly_check", "backward", "grad", "held", "inference", "run", "trace",
    )  # fmt: skip

    def __init__(self) -> None:
        self.grad = True
        self.inference = False
        self.anomaly = False
        self.anomaly_check = True
        self.backward: Any = None  # the backward pass that is running
        self.trace: Any = None  # the trace that writes a graph, see graph/trace.py
        self.held = False  # whether a trace of this thread holds the hottest context
        self.run = quiet_context().run


def quiet_context() -> contextvars.Context:
    """A context in which NumPy's floating-point exceptions stay silent."""
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


run_quietly = quiet_context().run
"""``State.run`` without looking up the thread, for the hottest calls: it raises ``RuntimeError``
if another thread is just inside it, and the caller then takes its own thread's ``run``."""


def enter_quietly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Holds the hottest context for a trace: every op then takes its detour, and sees the trace.

    A kernel of another thread may just be inside: this waits until it is done.
    """
    state = local.state
    if state.held:
        return function(*args, **kwargs)

    def inside() -> Any:
        state.held = True
        try:
            return function(*args, **kwargs)
        finally:
            state.held, entered[0] = False, True

    entered = [False]
    while True:
        try:
            return run_quietly(inside)
        except RuntimeError:
            if entered[0]:
                raise
            time.sleep(1e-5)


class Local(threading.local):
    """``local.state`` is the calling thread's State."""

    def __init__(self) -> None:
        self.state = State()


local = Local()


class Mode:
    """A context manager and decorator that holds some modes for a while."""

    def __init__(self, **modes: bool) -> None:
        self.modes = modes
        self.before: list[Any] = []

    def __enter__(self) -> None:
        state = local.state
        self.before.append({name: getattr(state, name) for name in self.modes})
        for name, value in self.modes.items():
            setattr(state, name, value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        state = local.state
        for name, value in self.before.pop().items():
            setattr(state, name, value)

    def clone(self) -> Any:
        """A context manager of the same modes, for one call of a decorated function."""
        return Mode(**self.modes)

    def __call__(self, function: F) -> F:
        return _decorate(self, function)


class Recording:
    """A context manager and decorator for the one mode that training loops switch all the time."""

    __slots__ = ("before", "grad")

    def __init__(self, grad: bool) -> None:
        self.grad = grad
        self.before: list[bool] = []

    def __enter__(self) -> None:
        state = local.state
        self.before.append(state.grad)
        state.grad = self.grad

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        local.state.grad = self.before.pop()

    def clone(self) -> Recording:
        """A context manager of the same mode, for one call of a decorated function."""
        return Recording(self.grad)

    def __call__(self, function: F) -> F:
        return _decorate(self, function)


def _decorate(mode: Mode | Recording, function: F) -> F:
    """``function`` run inside ``mode``; a generator function gets the mode for each resumption."""
    if _is_generator(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Any:
            body = function(*args, **kwargs)
            answer, method = None, body.send
            while True:
                try:
                    with mode.clone():
                        item = method(answer)
                except StopIteration as stop:
                    return stop.value
                try:
                    answer, method = (yield item), body.send
                except GeneratorExit:
                    with mode.clone():
                        body.close()
                    raise
                except BaseException as error:
                    answer, method = error, body.throw

        return generator  # type: ignore[return-value]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with mode.clone():
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _is_generator(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


class no_grad(Recording):  # noqa: N801 - PyTorch's spelling
    """Inside, nothing is recorded for gradients.

    >>> w = rl.ones(2, requires_grad=True)
    >>> with rl.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return object.__new__(cls) if function is None else _decorate(Recording(False), function)

    def __init__(self, function: None = None) -> None:
        self.grad = False
        self.before = []


class enable_grad(Recording):  # noqa: N801 - PyTorch's spelling
    """Inside, gradients are recorded again, whatever is around it.

    >>> w = rl.ones(2, requires_grad=True)
    >>> with rl.no_grad(), rl.enable_grad():
    ...     y = w * 2
    >>> y.requires_grad
    True
    """

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        return object.__new__(cls) if function is None else _decorate(Recording(True), function)

    def __init__(self, function: None = None) -> None:
        self.grad = True
        self.before = []


class inference_mode(Mode):  # noqa: N801 - PyTorch's spelling
    """Like ``no_grad``, for code whose results never meet autograd again.

    >>> with rl.inference_mode():
    ...     y = rl.ones(2, requires_grad=True) * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        self = object.__new__(cls)
        if isinstance(mode, bool):
            return self
        self.__init__()  # type: ignore[misc]
        return _decorate(self, mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(grad=not mode, inference=mode)


class set_grad_enabled(Recording):  # noqa: N801 - PyTorch's spelling
    """Turns recording on or off, at once and until the end of a ``with`` block if it heads one.

    >>> with rl.set_grad_enabled(False):
    ...     rl.is_grad_enabled()
    False
    """

    __slots__ = ("entered",)

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        state = local.state
        self.entered = state.grad
        state.grad = self.grad

    def __enter__(self) -> None:
        super().__enter__()
        self.before[-1] = self.entered

    def __call__(self, function: F) -> F:
        local.state.grad = self.entered
        return _decorate(self, function)


def is_grad_enabled() -> bool:
    """Whether operations are recorded for gradients in this thread."""
    return local.state.grad


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside ``inference_mode``."""
    return local.state.inference


class set_detect_anomaly(Mode):  # noqa: N801 - PyTorch's spelling
    """Anomaly mode on or off: see :class:`detect_anomaly`."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        state = local.state
        self.entered = {"anomaly": state.anomaly, "anomaly_check": state.anomaly_check}
        super().__init__(anomaly=mode, anomaly_check=check_nan)
        state.anomaly, state.anomaly_check = mode, check_nan

    def __enter__(self) -> None:
        super().__enter__()
        self.before[-1] = self.entered


class detect_anomaly(Mode):  # noqa: N801 - PyTorch's spelling
    """Inside, every op remembers its line, and a NaN in backward names the forward line.

    >>> with rl.autograd.detect_anomaly():
    ...     y = rl.ones(2, requires_grad=True).sum()
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(anomaly=True, anomaly_check=check_nan)


def is_anomaly_enabled() -> bool:
    """Whether this thread is in anomaly mode."""
    return local.state.anomaly
