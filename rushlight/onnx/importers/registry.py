"""Which function serves an ONNX op, from which version of its operator set on.

A function's positional parameters are the inputs of the node, its keywords the attributes, both
under ONNX's names. What was an attribute and became an input is one parameter, which takes either.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rushlight.onnx.elements import HELD
from rushlight.onnx.errors import OnnxError
from rushlight.ops import ops
from rushlight.tensor import Tensor, literal

Function = Callable[..., Any]


class Importer:
    """How one op is imported.

    Args:
        function: of tensors (arrays, if they are known; lists, if they are sequences).
        since: the version of the operator set that it serves first.
        known: parameters that are needed as arrays, since shapes or structure depend on them.
        statistics: parameters that training replaces rather than learns.
        host: whether it also works on arrays. Then what follows from shapes and constants alone
            is computed while a function is traced, and can be a shape again.
        raw: whether it takes values as they are, and elements that no tensor holds.
    """

    __slots__ = ("function", "host", "known", "parameters", "raw", "since", "statistics")

    def __init__(
        self,
        function: Function,
        since: int = 1,
        known: Iterable[str] = (),
        statistics: Iterable[str] = (),
        host: bool = False,
        raw: bool = False,
    ) -> None:
        self.function, self.since, self.host, self.raw = function, since, host, raw
        self.known, self.statistics = frozenset(known), frozenset(statistics)
        self.parameters = dict(inspect.signature(function).parameters)

    def names(self, count: int) -> list[str]:
        """The parameters that take so many inputs."""
        found = [p for p in self.parameters.values() if p.kind is not p.KEYWORD_ONLY]
        if found and found[-1].kind is inspect.Parameter.VAR_POSITIONAL:
            found += found[-1:] * (count - len(found))
        if count > len(found):
            raise OnnxError(f"it has {count} inputs where {len(found)} are supported")
        return [p.name for p in found[:count]]

    def __call__(self, values: Sequence[Any], names: Sequence[str], options: Any) -> Any:
        """The results of a node with these inputs, for parameters of these ``names``."""
        if self.raw:
            return self.function(*values, **options)
        if self.host and all([v is None or is_host(v) for v in values]):
            with np.errstate(all="ignore"):  # as tensors have it
                return self.function(*values, **options)
        given = [
            known(v) if name in self.known else tensor_of(v)
            for v, name in zip(values, names, strict=True)
        ]
        return self.function(*given, **options)


REGISTRY: dict[tuple[str, str], list[Importer]] = {}


def op(
    *names: str,
    since: int = 1,
    domain: str = "",
    known: Iterable[str] = (),
    statistics: Iterable[str] = (),
    host: bool = False,
    raw: bool = False,
) -> Callable[[Function], Function]:
    """Makes a function the importer of the ops with these names."""

    def register(function: Function) -> Function:
        how = Importer(function, since, known, statistics, host, raw)
        for name in names:
            REGISTRY.setdefault((domain, name), []).append(how)
        return function

    return register


def find(domain: str, name: str, version: int) -> Importer | None:
    """The importer of an op as the operator set of that version has it; None if there is none."""
    fitting = [how for how in REGISTRY.get((domain, name), ()) if how.since <= version]
    return max(fitting, key=lambda how: how.since, default=None)


def is_host(value: Any) -> bool:
    """Whether a value is known while a function is traced."""
    return isinstance(value, np.ndarray)


def tensor_of(value: Any) -> Any:
    """A tensor in the place of an array; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == object:  # sizes that are symbols
        return ops.stack([ops.tensor(v) for v in value.flat]).reshape(value.shape)
    if value.dtype not in HELD:
        raise OnnxError(f"there are no tensors of {value.dtype.name}")
    return literal(value)


def known(value: Any) -> Any:
    """The elements of a tensor, of which shapes or structure depend; in a trace, an error."""
    return value.detach().numpy() if isinstance(value, Tensor) else value


def integers(value: np.ndarray | Iterable[int]) -> list[int]:
    """Sizes, axes and the like, whether they came as an input or as an attribute."""
    if isinstance(value, np.ndarray):
        return value.reshape(-1).tolist()
    return list(value)


def integer(value: np.ndarray | int) -> int:
    """One such number."""
    (result,) = integers(np.asarray(value))
    return result


def sizes(shape: Iterable[int]) -> np.ndarray:
    """A shape as a value that is known."""
    found = list(shape)
    plain = all([type(size) is int for size in found])
    return np.array(found, np.int64 if plain else object)
