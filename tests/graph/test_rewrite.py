"""The notation of rules, matching, and the loop that rewrites."""

from __future__ import annotations

from rushlight.graph.parse import parse
from rushlight.graph.rewrite import equations, numbers, operation, rewrite, rule, variables

x, y, p, q = variables("x y p q")
(c,) = numbers("c")
exp, neg, permute = map(operation, ("exp", "neg", "permute"))

TEXT = """
graph(%0: f32[2,3], %1: f32[3]):
  %2: f32[] = constant(value=array(float32, [], 3.0))
  {lines}
  return %9
"""


def changed(*rules, lines: list[str]) -> list[str]:
    graph = parse(TEXT.format(lines="\n  ".join(lines)))
    return [line.strip() for line in str(rewrite(graph, equations(rules))).splitlines()[1:-1]]


def test_an_equation_is_read_from_left_to_right():
    rules = [rule(exp(x) * exp(y), exp(x + y))]
    lines = ["%3: f32[2,3] = exp(%0)", "%4: f32[3] = exp(%1)", "%9: f32[2,3] = mul(%4, %3)"]
    assert changed(*rules, lines=lines) == ["%2: f32[2,3] = add(%1, %0)", "%3: f32[2,3] = exp(%2)"]


def test_a_variable_stands_for_one_node():
    rules = [rule(x - x, neg(x))]
    assert changed(*rules, lines=["%9: f32[2,3] = sub(%0, %1)"]) == ["%2: f32[2,3] = sub(%0, %1)"]
    assert changed(*rules, lines=["%9: f32[2,3] = sub(%0, %0)"]) == ["%2: f32[2,3] = neg(%0)"]


def test_numbers_on_both_sides():
    rules = [rule(x * c, lambda c: x + c * 2)]
    assert changed(*rules, lines=["%9: f32[2,3] = mul(%2, %0)"]) == [
        "%2: f32[] = constant(value=array(float32, [], 6.0))",
        "%3: f32[2,3] = add(%0, %2)",
    ]


def test_broadcasting_is_kept():
    rules = [rule(x * 3, x)]
    lines = ["%3: f32[2,3] = mul(%0, %2)", "%4: f32[2,3] = expand(%2, size=(2, 3))"]
    lines += ["%9: f32[2,3] = mul(%1, %4)"]
    assert changed(*rules, lines=lines) == ["%2: f32[2,3] = expand(%1, size=(2, 3))"]


def test_a_condition_and_a_right_side_that_declines():
    lines = ["%3: f32[3,2] = permute(%0, dims=(1, 0))", "%9: f32[2,3] = permute(%3, dims=(1, 0))"]
    both = permute(permute(x, dims=p), dims=q)
    never = rule(both, x, when=lambda p, q: p != q)
    declines = rule(both, lambda p: None)
    assert len(changed(never, declines, lines=lines)) == 2
    assert changed(rule(both, x, when=lambda p, q: p == q), lines=lines) == []


def test_equal_nodes_become_one_without_rules():
    lines = ["%3: f32[2,3] = exp(%0)", "%4: f32[2,3] = exp(%0)", "%9: f32[2,3] = add(%3, %4)"]
    assert changed(lines=lines) == ["%2: f32[2,3] = exp(%0)", "%3: f32[2,3] = add(%2, %2)"]
