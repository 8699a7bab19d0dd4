"""The equations that simplify graphs.

Each is exact for every number, NaN, infinities and −0 included, unless a comment says how its
rounding differs. What is missing here is missing for a reason: ``x * 0`` is NaN for infinite x,
``x + 0.0`` turns −0 into 0, ``exp(log(x))`` is NaN below 0, ``log(exp(x))`` overflows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.dims import at_least as at_least_size
from rushlight.dims import is_known, least
from rushlight.graph.ir import Node
from rushlight.graph.rewrite import Rule, Term, numbers, operation, rule, variables

a, b, d, k, p, q, r, s, x, y = variables("a b d k p q r s x y")
c, e = numbers("c e")

cast, clone, where = map(operation, ("cast", "clone", "where"))
expand, permute, transpose, view = map(operation, ("expand", "permute", "transpose", "view"))
squeeze, unsqueeze, part, total, mean = map(
    operation, ("squeeze", "unsqueeze", "slice", "sum", "mean")
)
reciprocal, rsqrt, sqrt, square, relu = map(
    operation, ("reciprocal", "rsqrt", "sqrt", "square", "relu")
)
maximum, minimum, at_least, at_most = map(
    operation, ("maximum", "minimum", "clamp_min", "clamp_max")
)
amax, amin = map(operation, ("amax", "amin"))
logical_not, bitwise_not, neg = map(operation, ("logical_not", "bitwise_not", "neg"))


def is_integer(x: Node) -> bool:
    return x.type.dtype.category == dtypes.INT


def is_floating(x: Node) -> bool:
    return x.type.dtype.category == dtypes.FLOAT


def is_wide(x: Node) -> bool:
    """Whether what is computed in several steps is not rounded to a half type in between."""
    return is_floating(x) and x.type.dtype.itemsize >= 4


def is_real(x: Node) -> bool:
    return x.type.dtype.category < dtypes.COMPLEX


def has_exact_inverse(x: Node, c: Any) -> bool:
    """Whether c is ±2^n and 1/c a normal number: x/c and x·(1/c) round the same number."""
    limit = 2.0**100 if x.type.dtype.itemsize >= 4 else 2.0**10
    return is_floating(x) and 1 / limit <= abs(c) <= limit and abs(math.frexp(float(c))[0]) == 0.5


def holds(narrow: dtypes.dtype, wide: dtypes.dtype) -> bool:
    """Whether every number of the first type is one of the second.

    >>> holds(dtypes.int16, dtypes.float32), holds(dtypes.int32, dtypes.float32)
    (True, False)
    """
    if narrow is wide:
        return True
    if narrow.category > wide.category or wide is dtypes.bool_:
        return False
    if narrow.category == dtypes.COMPLEX:
        return wide is dtypes.complex128
    if narrow.category == dtypes.FLOAT:
        return holds_float(narrow, wide.to_real())
    return narrow is dtypes.bool_ or holds_integer(narrow, wide.to_real())


def holds_float(narrow: dtypes.dtype, wide: dtypes.dtype) -> bool:
    return wide.itemsize > narrow.itemsize


def holds_integer(narrow: dtypes.dtype, wide: dtypes.dtype) -> bool:
    bits = 8 * narrow.itemsize - narrow.is_signed
    if wide.category == dtypes.FLOAT:
        return bits <= 1 - math.log2(dtypes.finfo(wide).eps)
    return bits <= 8 * wide.itemsize - wide.is_signed and wide.is_signed >= narrow.is_signed


def casts(x: Node, p: dtypes.dtype, q: dtypes.dtype) -> Any:
    """Two casts, the first of which loses nothing, as one.

    From floats to integers the way matters: out of range, each width has its own answer.
    """
    own = x.type.dtype
    if own is q or is_integer(x) or own is dtypes.bool_ or q.category != dtypes.INT:
        return cast(x, dtype=q) if holds(own, p) else None
    return None


def composed(x: Node, p: Sequence[int], q: Sequence[int]) -> Term:
    return permute(x, dims=tuple([p[i] % len(p) for i in q]))


def ordered(x: Node, p: Sequence[int]) -> Any:
    """A permutation that moves nothing but dimensions of size 1, as the view that it is."""
    moved = [i % len(p) for i in p]
    shape = x.type.shape
    if [i for i in moved if shape[i] != 1] == [i for i in range(len(p)) if shape[i] != 1]:
        return view(x, shape=tuple([shape[i] for i in moved]))
    return permute(x, dims=tuple(moved)) if moved != list(p) else None


def swapped(x: Node, p: int, q: int) -> Any:
    order = list(range(len(x.type.shape)))
    if not order:
        return x
    order[p], order[q] = order[q], order[p]
    return permute(x, dims=tuple(order))


def squeezed(x: Node, d: Any) -> Term:
    shape = x.type.shape
    dims = range(len(shape)) if d is None else [d] if isinstance(d, int) else d
    gone = {i % len(shape) for i in dims if shape and shape[i] == 1}
    return view(x, shape=tuple([n for i, n in enumerate(shape) if i not in gone]))


def unsqueezed(x: Node, d: int) -> Term:
    shape = x.type.shape
    at = d % (len(shape) + 1)
    return view(x, shape=(*shape[:at], 1, *shape[at:]))


def sliced(x: Node, d: int, a: int, b: int | None, s: int) -> Any:
    whole = b is None or at_least_size(b, x.type.shape[d])
    return x if (a, s) == (0, 1) and whole else None


def slices(x: Node, d: int, a: Any, b: Any, s: int, p: Any, q: Any, r: int) -> Any:
    """Every r-th from p to q of every s-th from a to b."""
    size = x.type.shape[d]
    if is_known((size, a, b, p, q)):
        places = range(size)[a:b:s][p:q:r]
        return part(x, dim=d, start=places.start, end=places.stop, step=places.step)
    if None in (a, b, p, q):
        return None
    return part(x, dim=d, start=a + s * p, end=least(a + s * q, size), step=s * r)


def folds(x: Any, d: Any, size: Sequence[int]) -> tuple[list[int], int] | None:
    """The dims that a fold of ``expand(x, size)`` goes over and how often it meets an element.

    None if it meets several elements of ``x``.
    """
    lead = len(size) - len(x.type.shape)
    dims = list(range(len(size))) if d is None else [i % len(size) for i in d]
    if any([i >= lead and x.type.shape[i - lead] != 1 for i in dims]):
        return None
    return dims, math.prod([size[i] for i in dims])


def folded(x: Node, d: Any, k: bool, s: Sequence[int]) -> Any:
    """``expand(x, s)`` of which the dims ``d``, all repetitions, are left out (or of size 1)."""
    found = folds(x, d, s)
    if found is None or not at_least_size(found[1], 1):
        return None
    lead = len(s) - len(x.type.shape)
    own = [1] * lead + list(x.type.shape)
    kept = [i for i in range(len(s)) if k or i not in found[0]]
    small = view(x, shape=tuple([own[i] for i in kept]))
    return expand(small, size=tuple([1 if i in found[0] else s[i] for i in kept]))


def sum_of_expanded(x: Node, d: Any, k: bool, s: Sequence[int]) -> Any:
    inner = folded(x, d, k, s) if is_floating(x) else None
    found = folds(x, d, s)
    if inner is None or found is None or not is_known(found[1:]):
        return None
    return inner * found[1] + 0.0


def mean_of_expanded(x: Node, d: Any, k: bool, s: Sequence[int]) -> Any:
    inner = folded(x, d, k, s)
    return None if inner is None else inner + 0.0


def sum_of_one(x: Node, d: Any, k: bool) -> Any:
    inner = fold_of_one(x, d, k) if is_floating(x) else None
    return None if inner is None else inner + 0.0


def fold_of_one(x: Node, d: Any, k: bool) -> Any:
    """A fold over dimensions of size 1."""
    shape = x.type.shape
    dims = range(len(shape)) if d is None else [i % len(shape) for i in d]
    if any([shape[i] != 1 for i in dims]):
        return None
    return view(x, shape=tuple([n for i, n in enumerate(shape) if k or i not in dims]))


def same_shape(x: Node, s: tuple[int, ...]) -> Any:
    return x if x.type.shape == tuple(s) else None


ALGEBRA: tuple[Rule, ...] = (
    rule(x * 1, x, is_real),
    rule(x / 1, x, is_floating),
    rule(x - 0, x, is_real),
    rule(x + -0.0, x, is_floating),
    rule(x + 0, x, is_integer),
    rule(x * 0, lambda: 0, is_integer),
    rule(x - x, lambda: 0, is_integer),
    rule(neg(neg(x)), x),
    rule(x * -1, -x, is_real),
    rule(x / -1, -x, is_floating),
    rule(-x * -y, x * y, is_real),
    rule(x - -y, x + y),
    rule(x + -y, x - y, is_real),
    rule(abs(abs(x)), abs(x), is_real),
    rule(abs(-x), abs(x), is_real),
    rule(square(-x), square(x)),
    rule(square(abs(x)), square(x), is_real),
    rule(relu(relu(x)), relu(x)),
    rule(x**1, x),
    rule(x**2, square(x), is_floating),
    rule(x**3, x * x * x, is_wide),
    rule(x**0.5, sqrt(x), is_floating),
    rule(x**-1, reciprocal(x), is_floating),
    rule(x**-2, reciprocal(x * x), is_wide),
    rule(1 / x, reciprocal(x), is_floating),
    rule(x / c, lambda c: x * (1 / c), has_exact_inverse),
    rule(maximum(x, x), x),
    rule(minimum(x, x), x),
    rule(at_least(at_least(x, c), e), lambda c, e: at_least(x, np.maximum(c, e))),
    rule(at_most(at_most(x, c), e), lambda c, e: at_most(x, np.minimum(c, e))),
    rule(logical_not(logical_not(x)), lambda x: x if x.type.dtype is dtypes.bool_ else None),
    rule(bitwise_not(bitwise_not(x)), x),
    rule(where(True, x, y), x),
    rule(where(False, x, y), y),
    rule(where(a, x, x), x),
    rule(where(logical_not(a), x, y), where(a, y, x), lambda a: a.type.dtype is dtypes.bool_),
)
"""Arithmetic. Powers become what the eager kernel computes for them."""

MOVEMENT: tuple[Rule, ...] = (
    rule(clone(x), x),  # values have no memory of their own that could be shared
    rule(cast(x, dtype=p), lambda x, p: x if x.type.dtype is p else None),
    rule(cast(cast(x, dtype=p), dtype=q), casts),
    rule(transpose(x, dim0=p, dim1=q), swapped),
    rule(permute(permute(x, dims=p), dims=q), composed),
    rule(permute(x, dims=p), ordered),
    rule(squeeze(x, dim=d), squeezed),
    rule(unsqueeze(x, dim=d), unsqueezed),
    rule(view(view(x), shape=s), view(x, shape=s)),
    rule(view(x, shape=s), same_shape),
    rule(expand(expand(x), size=s), expand(x, size=s)),
    rule(expand(x, size=s), same_shape),
    rule(part(x, dim=d, start=a, end=b, step=s), sliced),
    rule(
        part(part(x, dim=d, start=a, end=b, step=s), dim=d, start=p, end=q, step=r),
        slices,
    ),
    # One product instead of a sum of equal terms: rounded once.
    rule(total(expand(x, size=s), dim=d, keepdim=k), sum_of_expanded),
    rule(mean(expand(x, size=s), dim=d, keepdim=k), mean_of_expanded),
    *[rule(fold(x, dim=d, keepdim=k), sum_of_one) for fold in (total, mean)],
    *[rule(fold(expand(x, size=s), dim=d, keepdim=k), folded) for fold in (amax, amin)],
    *[rule(fold(x, dim=d, keepdim=k), fold_of_one) for fold in (amax, amin)],
)
"""Casts, views, and folds of what was repeated. Sums start from 0, to which −0 may be added."""


RULES = (*ALGEBRA, *MOVEMENT)
