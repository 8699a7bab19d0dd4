"""Rules of code generation that the ops which put values to positions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.ops.elements import Index, combining, only, refusal, replaced, same, wide


def scattering(b: Any, how: str, x: Any, src: Any, index: Any, dim: int) -> Any:
    """``src``, an element for each of ``index`` or one for all, put along ``dim`` of ``x``.

    Sums and products of half types are made in float32 and rounded once.
    """
    size = x.shape[dim] if x.ndim else 1
    wrong, element = refusal(RuntimeError, dim, size), same if how == "set" else wide

    def part(k: Index) -> tuple[Index, Any]:
        place = b.checked(index[k], size, wrong)
        value = element(src.broadcast(k))
        if not x.ndim:
            return (), only(b, value, place)
        return replaced(k or (0,), (dim,), (place,)), value

    return b.scatter(
        start=lambda i: element(x[i]), sizes=index.shape, element=part, how=combining(how, x.kind)
    )


def along_dim(
    b: Any,
    how: str,
    x: Any,
    index: Any,
    dim: int,
    checked: Callable[..., Any],
    wrong: Any,
    sizes: Sequence[int],
    value: Callable[[Index], Any],
) -> Any:
    """``value(k)`` for each index below ``sizes``, put where a vector of positions of ``dim`` says.

    ``checked`` and ``wrong`` are how a position is checked, and the error if it is bad.
    """
    element = same if how == "set" else wide
    size = x.shape[dim] if x.ndim else 1

    def part(k: Index) -> tuple[Index, Any]:
        at = k[dim] if k else 0
        place = checked(index[(at,) if index.ndim else ()], size, wrong)
        if not x.ndim:
            return (), only(b, element(value(k)), place)
        return replaced(k or (0,), (dim,), (place,)), element(value(k))

    return b.scatter(
        start=lambda i: element(x[i]), sizes=tuple(sizes), element=part,
        how=combining(how, x.kind),
    )  # fmt: skip
