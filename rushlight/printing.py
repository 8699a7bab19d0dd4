"""How a tensor is written: PyTorch's layout of ``repr``, and the options that shape it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import local
from rushlight.symbol import Symbol
from rushlight.tensor import Tensor, install


@dataclass(slots=True)
class Options:
    """What :func:`set_printoptions` sets."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

options = Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Sets how tensors are printed, for the whole process.

    Args:
        precision: digits after the point (default 4).
        threshold: tensors of more elements are shown in part (default 1000).
        edgeitems: how many elements such a part has at each end of a dimension (default 3).
        linewidth: characters per line (default 80).
        profile: ``"default"``, ``"short"`` or ``"full"``, for the options not given.
        sci_mode: always or never ``1.0000e+00``; None, as it is best.

    >>> rl.set_printoptions(precision=2)
    >>> rl.tensor([1.12345])
    tensor([1.12])
    >>> rl.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in PROFILES:
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}, got {profile!r}")
        for name, value in PROFILES[profile].items():
            setattr(options, name, value)
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


class Reals:
    """The common form of some numbers: fixed, scientific, or whole with a point after them."""

    def __init__(self, array: np.ndarray) -> None:
        self.floating = array.dtype.kind not in "iub"
        self.form = self.point = ""
        values = array.ravel()
        if self.floating:
            values = values.astype(np.float64)
            values = values[np.isfinite(values) & (values != 0)]
            if values.size and scientific(np.abs(values)):
                self.form = f".{options.precision}e"
            elif (values == np.ceil(values)).all():
                self.form, self.point = ".0f", "."
            else:
                self.form = f".{options.precision}f"
        self.width = max([len(self.text(v)) for v in values.tolist()], default=1)

    def text(self, value: Any) -> str:
        if not self.floating:
            return str(value)
        text = format(value, self.form)
        return text + self.point if math.isfinite(value) else text

    def write(self, value: Any) -> str:
        return self.text(value).rjust(self.width)


def scientific(sizes: np.ndarray) -> bool:
    """Whether magnitudes differ too much, or are too large or small, for fixed notation."""
    if options.sci_mode is not None:
        return options.sci_mode
    low, high = float(sizes.min()), float(sizes.max())
    return high / low > 1000 or high > 1e8 or low < 1e-4


class Complexes:
    """The common form of complex numbers: one form for each part."""

    def __init__(self, array: np.ndarray) -> None:
        self.real, self.imaginary = Reals(array.real), Reals(array.imag)
        self.width = self.real.width + self.imaginary.width + 1

    def write(self, value: complex) -> str:
        imaginary = self.imaginary.write(value.imag).lstrip()
        sign = "" if imaginary[0] in "+-" else "+"
        return f"{self.real.write(value.real)}{sign}{imaginary}j"


def body(array: np.ndarray, indent: int) -> str:
    """The elements in nested brackets, continued lines indented by ``indent``."""
    if array.dtype in dtypes.HALF:
        array = array.astype(np.float32)
    summarise = array.size > options.threshold
    shown = corners(array) if summarise else array
    form = Complexes(shown) if array.dtype.kind == "c" else Reals(shown)
    return nested(array, form, indent, summarise)


def corners(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    edge = options.edgeitems
    for dim, size in enumerate(array.shape):
        if size > 2 * edge:
            ends = [*range(edge), *range(size - edge, size)]
            array = array.take(ends, axis=dim)
    return array


def nested(array: np.ndarray, form: Reals | Complexes, indent: int, summarise: bool) -> str:
    if array.ndim == 0:
        return form.write(array.item())
    edge = options.edgeitems
    cut = summarise and len(array) > 2 * edge
    if array.ndim == 1:
        ends = [array[:edge], array[len(array) - edge :]] if cut else [array]
        words = [[form.write(v) for v in end.tolist()] for end in ends]
        return row([*words[0], " ...", *words[1]] if cut else words[0], form.width, indent)
    ends = [array[:edge], array[len(array) - edge :]] if cut else [array]
    parts = [[nested(a, form, indent + 1, summarise) for a in end] for end in ends]
    gap = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + gap.join([*parts[0], "...", *parts[1]] if cut else parts[0]) + "]"


def row(words: Sequence[str], width: int, indent: int) -> str:
    per_line = max(1, (options.linewidth - indent) // (width + 2))
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def suffixes(t: Tensor) -> list[str]:
    """What is said after the elements: size, dtype and history where they are not obvious."""
    words = []
    default = dtypes.get_default_dtype()
    obvious = [default, default.to_complex(), dtypes.int64, dtypes.bool_]
    if not t._array.size:
        obvious = [default]
        if t.ndim != 1:
            words.append(f"size={tuple(t._array.shape)}")
    if t.dtype not in obvious:
        words.append(f"dtype={t.dtype}")
    function = t.grad_fn
    if function is not None:
        words.append(f"grad_fn=<{function.name()}>")
    elif t.requires_grad:
        words.append("requires_grad=True")
    return words


def tensor_repr(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """The tensor as text, as PyTorch writes it."""
    start = "tensor("
    array = self._array
    if type(array) is Symbol:
        array.wait()
        array = self._array
    if type(array) is Symbol:
        if array.trace is local.state.trace:
            array.refuse()
        tensor_contents = "<traced>"
    if tensor_contents is None:
        tensor_contents = body(array, len(start)) if array.size else "[]"
    text = start + tensor_contents
    length = len(text) - text.rfind("\n") + 1
    for word in suffixes(self):
        if length + len(word) + 2 > options.linewidth:
            text += ",\n" + " " * len(start) + word
            length = len(start) + len(word)
        else:
            text += ", " + word
            length += len(word) + 2
    return text + ")"


def tensor_format(self: Tensor, format_spec: str) -> str:
    """``f"{loss:.3f}"``: a 0-d tensor formats as its number."""
    if self._array.ndim == 0 and type(self) is Tensor:
        return format(self.item(), format_spec)
    return object.__format__(self, format_spec)


install(__repr__=tensor_repr, __format__=tensor_format)
