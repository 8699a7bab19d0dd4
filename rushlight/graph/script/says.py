"""What a graph says while it runs: what is printed, and exceptions that values lead to.

Each is a node that takes and gives a count, kept in a tensor that the graph writes to: so their
order is data flow, in branches and loops too, and none is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.errors import user_line
from rushlight.graph.inner import Inner
from rushlight.graph.scalars import Scalar
from rushlight.graph.script.flow import truth
from rushlight.graph.script.variables import Failed, journal
from rushlight.ops import ops
from rushlight.ops.base import Op, registry
from rushlight.ops.verified import ERRORS
from rushlight.symbol import TraceError
from rushlight.tensor import Tensor, wrap


class Say(Op, abstract=True):
    """Speaks to the user while a program runs; its result is the count after it."""

    namespace = "script"
    function = method = differentiable = tried = False
    library = "it speaks to the user"

    def told(self, count: Any, values: Sequence[Any], attrs: Any) -> np.ndarray:
        """A count, or an error unless ``values`` can be written so: a file may say anything."""
        texts, forms = attrs["texts"], attrs["forms"]
        if not type(texts) is type(forms) is tuple or len(texts) != len(forms) + 1:
            raise TypeError(f"there are no texts around {len(values)} values")
        if not all([type(text) is str for text in (*texts, *forms)]):
            raise TypeError("its texts are none")
        for form, value in zip(forms, values, strict=True):
            if not FORM.fullmatch(form) or (form[0] == "n" and value.size != 1):
                raise TypeError(f"a value {value.shape} cannot be written as {form!r:.40}")
        if count.shape or count.dtype != np.int64:
            raise TypeError("what it counts with is no count")
        return np.zeros((), np.int64)


FORM = re.compile(r"[nt](?!.*\d{5}).{0,40}", re.DOTALL)
"""Of a number or a tensor, then ``!`` or what ``format`` takes: no text is much longer for it."""


class Show(Say):
    """Prints a text with values in it."""

    def infer(self, arrays: Any, attrs: Any) -> np.ndarray:
        return self.told(arrays[0], arrays[1:], attrs)

    def eager(self, count: Any, *values: Any, texts: Any, forms: Any) -> Any:
        print(written(texts, forms, values), end="")
        return count + 1


class Check(Say):
    """Raises an exception unless a condition holds."""

    def infer(self, arrays: Any, attrs: Any) -> np.ndarray:
        if attrs["kind"] not in ERRORS or arrays[1].size != 1:
            raise TypeError(f"{attrs['kind']!r:.40} is no error that a value can lead to")
        return self.told(arrays[0], arrays[2:], attrs)

    def eager(self, count: Any, holds: Any, *values: Any, kind: Any, texts: Any, forms: Any) -> Any:
        if not holds:
            raise ERRORS[kind](*filter(None, [written(texts, forms, values)]))
        return count + 1


COUNT = wrap(np.zeros((), np.int64))
"""How often graphs have spoken, in all."""


def written(texts: Sequence[str], forms: Sequence[str], values: Sequence[Any]) -> str:
    """Texts with values between them, each in its form: ``n`` for a number, then how to write it.

    >>> written(["a = ", "!"], ["n.2f"], [np.float64(0.5)])
    'a = 0.50!'
    """
    shown = []
    for form, value in zip(forms, values, strict=True):
        x = value.item() if form[0] == "n" else wrap(np.asarray(value))
        shown.append(repr(x) if form[1:] == "!" else format(x, form[1:]))
    return "".join([part for pair in zip(texts, [*shown, ""], strict=True) for part in pair])


class Text:
    """A text with values that only the graph knows: texts, and the tensors between them."""

    def __init__(self) -> None:
        self.texts, self.forms, self.tensors = [""], [], []  # type: ignore[var-annotated]

    def add(self, value: Any, form: str = "") -> Text:
        """Appends a value, written as ``format`` does, or as ``repr`` for ``!``."""
        if isinstance(value, Text):
            for i, text in enumerate(value.texts):
                self.texts[-1] += text
                if i < len(value.tensors):
                    self.keep(value.forms[i], value.tensors[i])
        elif isinstance(value, Scalar):
            self.keep("n" + form, value.tensor)
        elif isinstance(value, Tensor) and local.state.trace is not None:
            self.keep("t" + form, value.detach())
        else:
            self.texts[-1] += repr(value) if form == "!" else format(value, form)
        return self

    def keep(self, form: str, tensor: Tensor) -> None:
        self.forms.append(form)
        self.tensors.append(tensor)
        self.texts.append("")

    @property
    def attributes(self) -> dict[str, Any]:
        return {"texts": tuple(self.texts), "forms": tuple(self.forms)}

    def __str__(self) -> str:
        if not self.tensors:
            return self.texts[0]
        raise TraceError(
            f"a text with values of tensors is needed in Python at {user_line()}, where they are "
            "not known yet: print it, or make it outside the compiled function"
        )

    __repr__ = __str__


def text(*parts: Any) -> Any:
    """An f-string: texts, and (value, conversion, how to write it)."""
    known, made = True, Text()
    for part in parts:
        value, conversion, form = part if isinstance(part, tuple) else (part, "", "")
        known &= not is_unknown(value)
        if conversion == "a" or (conversion and form):
            convert: Any = {"a": ascii, "r": repr, "s": str}[conversion]
            value = format(convert(value), form)
        made.add(value, "!" if conversion == "r" else form)
    return made.texts[0] if known else made


def is_unknown(x: Any) -> bool:
    """Whether only the graph knows what there is to write."""
    if isinstance(x, (tuple, list)):
        return any([is_unknown(item) for item in x])
    inside = local.state.trace is not None
    return isinstance(x, (Scalar, Text)) or (isinstance(x, Tensor) and inside)


def show(*values: Any, sep: str | None = " ", end: str | None = "\n", **options: Any) -> None:
    """``print``, when the graph runs; to a file that is said, when it is traced."""
    if local.state.trace is None or options:
        return print(*values, sep=sep, end=end, **options)
    made = Text()
    for i, value in enumerate(values):
        made.add((" " if sep is None else sep) * (i > 0))
        listed(made, value)
    made.add("\n" if end is None else end)
    return speak("script.show", made.tensors, made.attributes)


def listed(made: Text, value: Any) -> None:
    """Adds a value to a text, also one in tuples and lists."""
    if type(value) not in (tuple, list) or not is_unknown(value):
        made.add(value, "!" if isinstance(value, Tensor) else "")  # print is no format
        return
    begin, end = ("[", "]") if type(value) is list else ("(", ")" if len(value) > 1 else ",)")
    made.add(begin)
    for i, item in enumerate(value):
        made.add(", " * (i > 0))
        if isinstance(item, (tuple, list)):
            listed(made, item)
        else:
            made.add(item, "!")
    made.add(end)


def check(line: int, test: Any, message: Callable[[], Any] | None) -> None:
    """``assert test, message()``."""
    answer = truth(test)
    if answer is True:
        return
    made = Text() if message is None else Text().add(message())
    if answer is False and is_plain():
        raise AssertionError(*filter(None, [str(made)]))
    refuse_caught("AssertionError")
    holds = ops.zeros((), dtype=dtypes.bool_) if answer is False else answer
    require(holds, "AssertionError", made)
    if answer is False:
        raise Failed


def fail(line: int, make: Callable[[], Any]) -> None:
    """``raise make()``."""
    error = make()
    error = error() if isinstance(error, type) else error
    if is_plain():
        for part in error.args:
            str(part)  # an error if it is not known yet
        raise error
    kind = type(error).__name__
    refuse_caught(kind)
    if ERRORS.get(kind) is not type(error):
        raise TraceError(
            f"{kind} is raised at {user_line()} if tensors say so; a graph can raise the "
            "errors of Python itself only"
        )
    made = Text()
    for i, part in enumerate(error.args):
        made.add(", " * (i > 0))
        made.add(part)
    require(ops.zeros((), dtype=dtypes.bool_), kind, made)
    raise Failed


def is_plain() -> bool:
    """Whether an exception can be raised now: no tensor decides between here and who catches it."""
    trace = local.state.trace
    return not isinstance(trace, Inner) or trace in journal.catching[-1:]


def refuse_caught(kind: str) -> None:
    if journal.catching:
        raise TraceError(
            f"{kind} is raised at {user_line()} if tensors say so, inside a try or with that may "
            "catch it: a graph catches nothing. Take the other way with a branch"
        )


@contextmanager
def catching(line: int) -> Iterator[None]:
    """Around what may raise exceptions that are caught."""
    journal.catching.append(local.state.trace)
    try:
        yield
    finally:
        journal.catching.pop()


class Guarded:
    """A context manager of the user's, which may catch exceptions."""

    def __init__(self, manager: Any) -> None:
        self.manager, self.around = manager, catching(0)

    def __enter__(self) -> Any:
        entered = self.manager.__enter__()
        self.around.__enter__()
        return entered

    def __exit__(self, *error: Any) -> Any:
        self.around.__exit__(None, None, None)
        return self.manager.__exit__(*error)


def entered(line: int, manager: Any) -> Any:
    """What ``with manager`` enters."""
    made = getattr(manager, "func", type(manager))  # by a generator, or a class
    library = made.__module__.partition(".")[0]
    return manager if library in HARMLESS or made is nullcontext else Guarded(manager)


HARMLESS = ("rushlight", "torch", "_io", "_thread", "threading", "tempfile", "warnings")
"""Packages whose context managers catch no exceptions."""


def require(holds: Any, kind: str, message: Text) -> None:
    """Adds a check to the graph."""
    attributes = {"kind": kind, **message.attributes}
    speak("script.check", [holds, *message.tensors], attributes)


def speak(op: str, tensors: Sequence[Tensor], attributes: dict[str, Any]) -> None:
    COUNT.copy_(registry[op].apply((COUNT, *tensors), attributes))
