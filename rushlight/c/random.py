"""Draws of random numbers as calls: the state of a generator is part of the program's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.c.file import File
from rushlight.c.invocations import Invocation, Rule, Rules
from rushlight.c.scalars import literal
from rushlight.graph.ir import Node

RULES = Rules()
FLOATS = ("f32", "f64")
EXACT = 2**24  # up to which every integer is a float
MOST = (2**32 - 1) // 20  # numbers that are shuffled with short words


def drawn(
    node: Node, file: File, name: str, *numbers: str, operands: tuple[int, ...] = (0,), **more: Any
) -> Invocation:
    """A call that fills the first result of a node."""
    kind = node.type[0]
    function = f"{name}_{kind.kind}"
    file.snippets.need(function)
    return Invocation(function, operands, (kind,), (str(kind.size), *numbers), **more)


def doubles(*numbers: float) -> tuple[str, ...]:
    return tuple([literal(x, "f64") for x in numbers])


def of_floats(write: Callable[[Node, File], Invocation]) -> Rule:
    """A rule for samples of 32 or 64 bits."""
    return lambda node, file: write(node, file) if node.type[0].kind in FLOATS else None


@RULES.add("uniform_", "rand")
@of_floats
def uniform(node: Node, file: File) -> Invocation:
    kind, low, high = node.type[0].kind, node.attrs.get("low", 0.0), node.attrs.get("high", 1.0)
    return drawn(node, file, "uniform", literal(low, kind), literal(high, kind))


@RULES.add("normal_", "randn", "normal")
def normal(node: Node, file: File) -> Invocation | None:
    kind, mean, std = node.type[0], node.attrs.get("mean", 0.0), node.attrs.get("std", 1.0)
    if kind.kind not in FLOATS or len([n for n in node.inputs if n is not None]) > 2:
        return None
    if node.op.name == "normal" and len(node.inputs) > 1 and any(node.inputs[1:]):
        return None
    if kind.size < 16 or not node.attrs.get("contiguous", True):
        return drawn(node, file, "normal_few", *doubles(mean, std))
    return drawn(node, file, "normal", literal(mean, kind.kind), literal(std, kind.kind))


@RULES.add("log_normal_")
@of_floats
def log_normal(node: Node, file: File) -> Invocation:
    return drawn(node, file, "log_normal", *doubles(node.attrs["mean"], node.attrs["std"]))


@RULES.add("exponential_")
@of_floats
def exponential(node: Node, file: File) -> Invocation:
    return drawn(node, file, "exponential", *doubles(node.attrs["rate"]))


@RULES.add("cauchy_")
@of_floats
def cauchy(node: Node, file: File) -> Invocation:
    return drawn(node, file, "cauchy", *doubles(node.attrs["median"], node.attrs["sigma"]))


@RULES.add("geometric_")
@of_floats
def geometric(node: Node, file: File) -> Invocation:
    return drawn(node, file, "geometric", *doubles(node.attrs["p"]))


@RULES.add("bernoulli_", "bernoulli")
def bernoulli(node: Node, file: File) -> Invocation | None:
    kind, chance = node.type[0].kind, node.attrs.get("chance", node.attrs.get("p"))
    if kind in ("f16", "bf16"):
        return None
    if chance is not None:
        limit = literal(math.ceil(chance * 2.0**53), "u64")
        return drawn(node, file, "bernoulli", limit)
    given = [n for n in node.inputs if n is not None]
    if given[-1].type != node.type[0] or kind not in FLOATS:
        return None
    error = RuntimeError("Expected p_in >= 0 and p_in <= 1 to be true, but got false.")
    place = len(given) - 1
    return drawn(node, file, "bernoulli_each", operands=(0, place), errors=(lambda _: error,))


@RULES.add("randint", "random_")
def integers(node: Node, file: File) -> Invocation | None:
    kind, low, high = node.type[0], node.attrs["low"], node.attrs["high"]
    if kind.kind in ("f16", "bf16", "b1") or low is None or high is None:
        return None
    if kind.kind in FLOATS and max(abs(low), abs(high)) > EXACT:
        return None
    return drawn(node, file, "integers", literal(low, "i64"), literal(high - low, "u64"))


@RULES.add("randperm")
def permutation(node: Node, file: File) -> Invocation | None:
    kind = node.type[0]
    if kind.kind in ("f16", "bf16") or kind.size >= MOST:
        return None
    return drawn(node, file, "permutation")
