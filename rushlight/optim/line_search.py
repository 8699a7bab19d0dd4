"""The strong Wolfe line search: how far to go along a direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from rushlight.tensor import Tensor


class Point(NamedTuple):
    """A place on the line: how far, the function, its gradient, and its slope along the line."""

    t: float
    f: float
    g: Tensor
    slope: float


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points, with their slopes, is least within the bounds.

    >>> g = rl.zeros(1)
    >>> cubic_minimum(Point(0.0, 1.0, g, -2.0), Point(2.0, 1.0, g, 2.0))
    1.0
    """
    left, right = (a, b) if a.t <= b.t else (b, a)
    low, high = (left.t, right.t) if bounds is None else bounds
    s = a.slope + b.slope - 3 * (a.f - b.f) / (a.t - b.t)
    root = s * s - a.slope * b.slope
    if not root >= 0:
        return (low + high) / 2
    root = math.sqrt(root)
    fall = right.slope - left.slope + 2 * root
    share = (right.slope + root - s) / fall if fall else math.nan
    t = right.t - (right.t - left.t) * share
    return min(max(t, low), high)


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    t: float,
    scale: float,
    limit: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[Point, int]:
    """A point that is low and flat enough, and how many points were evaluated.

    With f₀ and slope s₀ at the start, low is f ≤ f₀ + c₁·t·s₀ and flat is |s| ≤ −c₂·s₀. First the
    step grows until it has gone too far; then the bracket shrinks around such a point.

    Args:
        evaluate: the point at ``t``.
        start: the point at 0.
        t: the first step to try.
        scale: the largest element of the direction; a bracket of ``tolerance / scale`` is the end.
        limit: how often to try another step.
    """

    def too_high(point: Point) -> bool:
        return point.f > start.f + c1 * point.t * start.slope

    def flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    before, here, tries = start, evaluate(t), 0
    while tries < limit:
        if too_high(here) or (tries > 1 and here.f >= before.f):
            break
        if flat(here):
            return here, tries + 1
        if here.slope >= 0:
            break
        bounds = (here.t + 0.01 * (here.t - before.t), here.t * 10)
        before, here = here, evaluate(cubic_minimum(before, here, bounds))
        tries += 1
    bracket = [before if tries < limit else start, here]
    low = lower(bracket)
    stuck = False
    while tries < limit:
        left, right = sorted((bracket[0].t, bracket[1].t))
        if (right - left) * scale < tolerance:
            break
        t = cubic_minimum(bracket[0], bracket[1])
        margin = 0.1 * (right - left)
        near_end = min(right - t, t - left) < margin
        if near_end and (stuck or t >= right or t <= left):
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            near_end = False
        stuck = near_end
        here = evaluate(t)
        tries += 1
        if too_high(here) or here.f >= bracket[low].f:
            bracket[1 - low] = here
            low = lower(bracket)
            continue
        done = flat(here)
        if not done and here.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = here
        if done:
            break
    return bracket[low], tries + 1


def lower(bracket: list[Point]) -> int:
    """Which of the two points is the lower one."""
    return 0 if bracket[0].f <= bracket[1].f else 1
