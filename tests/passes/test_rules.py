"""Each rule is checked by computing both sides with random numbers, NaN, infinities and −0."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rushlight import dtypes
from rushlight.graph.ir import INPUT, Node, compute, constant, interpret, type_of
from rushlight.graph.rewrite import Applied, Number, Rewriter, Rule, Variable, equations
from rushlight.passes.rules import ALGEBRA, MOVEMENT, RULES, holds
from tests.passes.graphs import Maker

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 3e38]
NUMBERS = {"c": 0.25, "e": 3.0}


def samples(dtype: np.dtype) -> np.ndarray:
    random = np.random.default_rng(7)
    if dtype.kind in "fV":
        with np.errstate(all="ignore"):
            values = np.concatenate([SPECIAL, random.normal(size=55) * 10])
            return values.astype(dtype).reshape(8, 8)
    if dtype.kind == "b":
        return random.random((8, 8)) < 0.5
    return random.integers(-100, 100, (8, 8)).astype(dtype)


def built(term: Any, make: Maker, leaves: dict[str, Node], dtype: np.dtype) -> Node:
    """The left side of a rule as nodes."""
    if isinstance(term, Variable):
        if term.number:
            return make.constant(NUMBERS[term.name], dtype)
        if term.name not in leaves:
            leaves[term.name] = make.leaf(INPUT, samples(dtype))
            make.inputs.append(leaves[term.name])
        return leaves[term.name]
    if isinstance(term, Number):
        kind = bool if isinstance(term.value, bool) else dtype
        return make.constant(term.value, kind)
    assert isinstance(term, Applied)
    first = np.dtype(bool) if term.op.name == "where" else dtype
    inputs = [built(t, make, leaves, first if i == 0 else dtype) for i, t in enumerate(term.inputs)]
    return make(term.op.full_name, *inputs, **term.attrs)


@pytest.mark.parametrize("equation", ALGEBRA, ids=lambda rule: rule.left.op.name)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.int32, np.bool_])
def test_algebra_is_exact(equation: Rule, dtype):
    make, dtype = Maker(), np.dtype(dtype)
    try:
        left = built(equation.left, make, {}, dtype)
    except (NotImplementedError, TypeError, RuntimeError):
        return  # the op does not take this dtype
    right = equation.apply(left, Rewriter([]))
    if right is None:
        assert equation.when is not None or callable(equation.right), "the rule never applies"
        return
    assert right.type == left.type
    values, _ = make.arguments()
    (a,), _ = interpret(make.graph(left), values)
    (b,), _ = interpret(make.graph(right), values)
    assert same_bits(a, b), f"{a} != {b}"


def test_every_rule_applies_to_some_dtype():
    for equation in ALGEBRA:
        found = []
        for dtype in (np.float32, np.int32, np.bool_):
            try:
                left = built(equation.left, Maker(), {}, np.dtype(dtype))
            except (NotImplementedError, TypeError, RuntimeError):
                continue
            found.append(equation.apply(left, Rewriter([])))
        assert any(found), equation.left.op.name


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equality in which NaN is NaN and −0 is not 0."""
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    zeros = (a == 0) & (b == 0)
    return bool(
        np.array_equal(a, b, equal_nan=True)
        and np.array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))
    )


def applied(rewriter_rules: Any, make: Maker, node: Node) -> Node:
    changed = equations(rewriter_rules)(node, Rewriter([equations(rewriter_rules)]))
    assert changed is not None, "no rule applies"
    values, captured = make.arguments()
    (a,), _ = interpret(make.graph(node), values, captured)
    (b,), _ = interpret(make.graph(changed), values, captured)
    assert changed.type == node.type
    np.testing.assert_allclose(a, b, rtol=1e-6)
    return changed


MOVES = {
    "permutes": lambda m, x: m("permute", m("permute", x, dims=(2, 0, 1)), dims=(0, 2, 1)),
    "permute of ones": lambda m, x: m("permute", m("view", x, shape=(24, 1)), dims=(1, 0)),
    "negative dims": lambda m, x: m("permute", x, dims=(-1, 0, 1)),
    "transpose": lambda m, x: m("transpose", x, dim0=-1, dim1=0),
    "squeeze": lambda m, x: m("squeeze", m("view", x, shape=(1, 24, 1)), dim=-1),
    "squeeze all": lambda m, x: m("squeeze", m("view", x, shape=(1, 24, 1)), dim=None),
    "squeeze none": lambda m, x: m("squeeze", x, dim=()),
    "unsqueeze": lambda m, x: m("unsqueeze", x, dim=-2),
    "views": lambda m, x: m("view", m("view", x, shape=(6, 4)), shape=(4, 6)),
    "own shape": lambda m, x: m("view", x, shape=(2, 3, 4)),
    "expand": lambda m, x: m("expand", x, size=(2, 3, 4)),
    "expands": lambda m, x: m("expand", m("expand", x, size=(1, 2, 3, 4)), size=(5, 2, 3, 4)),
    "whole slice": lambda m, x: m("slice", x, dim=2, start=0, end=4, step=1),
    "slices": lambda m, x: m(
        "slice", m("slice", x, dim=2, start=1, end=4, step=2), dim=2, start=1, end=2, step=1
    ),
    "clone": lambda m, x: m("clone", x, order=None),
    "sum of expand": lambda m, x: m(
        "sum", m("expand", x, size=(5, 2, 3, 4)), dim=(0,), keepdim=False
    ),
    "sum of expand, kept": lambda m, x: m(
        "sum", m("expand", m("view", x, shape=(24, 1)), size=(24, 7)), dim=(1,), keepdim=True
    ),
    "mean of expand": lambda m, x: m(
        "mean", m("expand", m("view", x, shape=(24, 1)), size=(24, 7)), dim=(1,), keepdim=False
    ),
    "maximum of expand": lambda m, x: m(
        "amax", m("expand", m("view", x, shape=(24, 1)), size=(2, 24, 7)), dim=(0, 2), keepdim=True
    ),
    "minimum of one": lambda m, x: m("amin", m("view", x, shape=(24, 1)), dim=(-1,), keepdim=True),
    "sum of one": lambda m, x: m("sum", m("view", x, shape=(1, 24)), dim=(0,), keepdim=False),
}


@pytest.mark.parametrize("name", MOVES)
def test_movement(name):
    make = Maker()
    applied(RULES, make, MOVES[name](make, make.input(2, 3, 4)))


@pytest.mark.parametrize("start", [0, 2, 5])
@pytest.mark.parametrize("end", [3, 6, 12])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_slices_of_slices(start, end, step):
    make = Maker()
    x = make.input(12)
    inner = make("slice", x, dim=0, start=start, end=max(start, end), step=step)
    n = inner.type.shape[0]
    for p, q, r in itertools.product(range(n), range(n + 1), (1, 2)):
        outer = make("slice", inner, dim=0, start=p, end=max(p, q), step=r)
        changed = equations(MOVEMENT)(outer, Rewriter([]))
        if changed is not None:
            got = interpret(make.graph(changed), *make.arguments())[0][0]
            np.testing.assert_array_equal(got, make.values[outer])


@pytest.mark.parametrize("wide", dtypes.ALL, ids=lambda d: d.name)
def test_casts_lose_nothing(wide):
    for narrow in dtypes.ALL:
        if narrow.category == dtypes.COMPLEX or not holds(narrow, wide.to_real()):
            continue
        value = samples(narrow.numpy).astype(narrow.numpy)
        if narrow.category == dtypes.INT:
            limits = np.iinfo(narrow.numpy)
            value.flat[:2] = limits.min, limits.max
        with np.errstate(all="ignore"):
            back = value.astype(wide.to_real().numpy).astype(narrow.numpy)
        assert same_bits(value, back), f"{narrow} in {wide}"
    assert holds(wide, wide)


def test_casts_there_and_back():
    make = Maker()
    x = make.input(3)
    wide = make("cast", x, dtype=dtypes.float64)
    assert equations(MOVEMENT)(make("cast", wide, dtype=dtypes.float32), rewriter()) is x
    narrow = make("cast", x, dtype=dtypes.float16)
    assert equations(MOVEMENT)(make("cast", narrow, dtype=dtypes.float32), rewriter()) is None


def rewriter() -> Rewriter:
    return Rewriter([equations(MOVEMENT)])


def test_what_is_no_rule():
    make = Maker()
    x, zero = make.input(3), make.constant(0.0)
    step = equations(RULES)
    for node in (make("mul", x, zero), make("add", x, zero), make("sub", x, x)):
        assert step(node, Rewriter([])) is None
    complex_one = constant(np.asarray(1, np.complex64))
    z = make.leaf(INPUT, np.ones(3, np.complex64))
    product = Node(make("mul", x, x).op, (z, complex_one), {}, z.type)
    assert step(product, Rewriter([])) is None
    assert type_of(compute(product, [np.ones(3, np.complex64), np.complex64(1)])) == z.type
