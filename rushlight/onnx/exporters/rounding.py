"""Numbers of Python's rounded to decimal digits: exactly, as Python does it, and half to even."""

from __future__ import annotations

from rushlight import dtypes
from rushlight.graph.ir import Node
from rushlight.onnx.writer import Writer, exports

MOST = 22  # digits: ten to this power is a float without rounding
EXACT = 2.0**52  # from here on a float has no fraction
SPLIT = 2.0**27 + 1  # cuts a float into two halves whose products are exact


@exports("script.rounded")
def rounded(w: Writer, node: Node, x: str) -> str:
    digits = node.attrs["digits"]
    if abs(digits) > MOST:
        raise w.refusal(f"it rounds to {digits} digits, and a file to at most {MOST}")
    if node.type.dtype is dtypes.int64:
        return x if digits >= 0 else whole(w, node, x, 10**-digits)
    if digits < 0:
        ten = w.like(10.0**-digits, node)
        steps = w("Div", x, ten)
        middle = w("Add", w("Floor", steps), w.like(0.5, node))
        near = nearest(w, node, steps, w("Sub", x, w("Mul", middle, ten)))
        found = w("Mul", near, ten)
    else:
        ten = w.like(10.0**digits, node)
        steps = w("Mul", x, ten)
        near = nearest(w, node, steps, beyond(w, node, x, 10.0**digits, steps))
        found = w("Div", near, ten)
    return w("Where", w("Less", w("Abs", steps), w.like(EXACT, node)), found, x)


def whole(w: Writer, node: Node, x: str, ten: int) -> str:
    """An integer rounded to a multiple of ``ten``."""
    if ten > 2**62:
        raise w.refusal(f"it rounds to multiples of {ten}, which 64 bits do not hold")
    step, two = w.like(ten, node), w.like(2, node)
    rest = w("Mod", x, step)
    down = w("Sub", x, rest)
    odd = w("Equal", w("Mod", w("Div", down, step), two), w.like(1, node))
    twice = w("Mul", rest, two)
    up = w("Or", w("Greater", twice, step), w("And", w("Equal", twice, step), odd))
    return w("Where", up, w("Add", down, step), down)


def nearest(w: Writer, node: Node, steps: str, rest: str) -> str:
    """The whole number next to ``steps``; half way between two, the sign of ``rest`` decides."""
    down, one = w("Floor", steps), w.like(1.0, node)
    half = w("Equal", w("Sub", steps, down), w.like(0.5, node))
    zero = w.like(0.0, node)
    above = w("Where", w("Greater", rest, zero), w("Add", down, one), down)
    even = w("Round", steps)
    return w("Where", w("And", half, w("Not", w("Equal", rest, zero))), above, even)


def beyond(w: Writer, node: Node, x: str, factor: float, product: str) -> str:
    """What the product of ``x`` and ``factor`` has lost by rounding: of halves it is exact."""
    high = halves(factor)
    own, other = w.like(high, node), w.like(factor - high, node)
    wide = w("Mul", x, w.like(SPLIT, node))
    upper = w("Sub", wide, w("Sub", wide, x))
    lower = w("Sub", x, upper)
    rest = w("Sub", w("Mul", upper, own), product)
    rest = w("Add", rest, w("Mul", upper, other))
    rest = w("Add", rest, w("Mul", lower, own))
    return w("Add", rest, w("Mul", lower, other))


def halves(factor: float) -> float:
    """The upper half of a float's digits.

    >>> halves(100.0)
    100.0
    """
    wide = factor * SPLIT
    return wide - (wide - factor)
