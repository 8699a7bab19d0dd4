"""Branches and loops without what nobody needs: results, carried values, rows, captured values,
and states of generators that nothing draws from again.

What a loop carries is needed if its result is, or if the condition or anything that is needed reads
it at the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from rushlight.graph.attributes import nested, with_nested
from rushlight.graph.control import Control
from rushlight.graph.ir import ITEM, Graph, Node, copy, item, rebuild, walk
from rushlight.graph.replay import SNAPSHOT


class Needs(NamedTuple):
    """What of a node stays: the numbers of results, and the operands of its graphs by numbers."""

    results: Sequence[int]
    operands: Sequence[int]
    attrs: dict[str, Any]


def drop_unused(graph: Graph) -> Graph:
    """The graph whose branches and loops make only what is needed.

    >>> from rushlight.graph.parse import parse
    >>> print(drop_unused(parse('''
    ... graph(%0: i64[], %1: f32[2], %2: f32[2]):
    ...   %3: (f32[2], f32[2]) = control.cond(%0, %1, %2, branches=(graph,), states=())
    ...     graph(%0: f32[2] = captured(''), %1: f32[2] = captured('')):
    ...       %2: f32[2] = neg(%0)
    ...       %3: f32[2] = exp(%1)
    ...       return %2, %3
    ...   %4: f32[2] = item(%3, index=1)
    ...   return %4
    ... ''')))
    graph(%0: i64[], %1: f32[2], %2: f32[2]):
      %3: (f32[2]) = control.cond(%0, %2, branches=(graph,), states=())
        graph(%0: f32[2] = captured('')):
          %1: f32[2] = exp(%0)
          return %1
      %4: f32[2] = item(%3, index=0)
      return %4
    """
    used: dict[Node, set[int]] = {}
    for node in graph.nodes():
        (whole,) = node.inputs if node.op is ITEM else (None,)
        if whole is not None and (isinstance(whole.op, Control) or whole.op is SNAPSHOT):
            used.setdefault(whole, set()).add(node.attrs["index"])
    if not used:
        return graph
    kept: dict[Node, Sequence[int]] = {}

    def change(node: Node, inputs: tuple[Node | None, ...]) -> Node:
        if isinstance(node.op, Control):
            needs = RULES[node.op.name](node, used[node])
            kept[node] = needs.results
            types = tuple([node.type[i] for i in needs.results])
            attrs = with_nested(needs.attrs, map(drop_unused, nested(needs.attrs)))
            given = tuple([inputs[i] for i in needs.operands])
            return Node(node.op, given, attrs, types, node.source)
        (whole,) = node.inputs if node.op is ITEM else (None,)
        if whole is not None and whole.op is SNAPSHOT and used[whole] == {1}:
            return inputs[0].inputs[0]  # type: ignore[union-attr, return-value]
        if whole in kept:
            return item(inputs[0], kept[whole].index(node.attrs["index"]))  # type: ignore[arg-type]
        return copy(node, inputs)

    return rebuild(graph, change)


def branches(node: Node, used: Collection[int]) -> Needs:
    graphs = node.attrs["branches"]
    results = sorted(used)
    reads = sorted({i for graph in graphs for i in reached(graph, results)})
    operands = [0, *[1 + i for i in reads]]
    attrs = {
        "branches": tuple([part(graph, reads, results) for graph in graphs]),
        "states": moved(node, results, operands),
    }
    return Needs(results, operands, attrs)


def repeated(node: Node, used: Collection[int]) -> Needs:
    condition, body = node.attrs["condition"], node.attrs["body"]
    asked = reached(condition, [0])
    carried = closed({*used, *asked}, body, len(body.inputs))
    reads = sorted({*carried, *asked, *reached(body, carried)})
    attrs = {
        "condition": part(condition, reads, [0]),
        "body": part(body, reads, carried),
        "states": moved(node, carried, reads),
    }
    return Needs(carried, reads, attrs)


def rows(node: Node, used: Collection[int]) -> Needs:
    body, count = node.attrs["body"], node.attrs["carried"]
    stacks = sorted([i for i in used if i >= count])
    carried = closed({*used, *reached(body, stacks)}, body, count)
    results = [*carried, *stacks]
    reads = sorted({*carried, *reached(body, results)})
    attrs = {
        **node.attrs,
        "body": part(body, reads, results),
        "carried": len(carried),
        "states": moved(node, results, reads),
    }
    return Needs(results, reads, attrs)


def backwards(node: Node, used: Collection[int]) -> Needs:
    condition, body, back = [node.attrs[name] for name in ("condition", "body", "backward")]
    count, whole = len(body.inputs), len(back.inputs)

    def later(i: int) -> int:
        """The place of an operand of the loop among those of the way back."""
        return i if i < count else i + whole - count

    gradients = closed(used, back, whole - count, count)
    after = reached(back, gradients)
    asked = reached(condition, [0])
    carried = closed({*asked, *[i for i in after if i < count]}, body, count)
    shared = {earlier(i, count, whole) for i in after}
    own = sorted(({*carried, *asked, *reached(body, carried)} | shared) - {-1})
    operands = sorted({*map(later, own), *[count + i for i in gradients]})
    attrs = {
        "condition": part(condition, own, [0]),
        "body": part(body, own, carried),
        "backward": part(back, operands, gradients),
        "states": (),
    }
    return Needs(gradients, operands, attrs)


def earlier(i: int, count: int, whole: int) -> int:
    """The place of an operand of the way back among those of the loop; −1 for a gradient."""
    return i if i < count else i - whole + count if i >= whole else -1


RULES: dict[str, Callable[[Node, Collection[int]], Needs]] = {
    "cond": branches,
    "while_loop": repeated,
    "scan": rows,
    "while_vjp": backwards,
}


def reached(graph: Graph, outputs: Collection[int]) -> set[int]:
    """The numbers of the inputs and captured values that some outputs are made of."""
    below = set(walk([graph.outputs[i] for i in outputs]))
    leaves = (*graph.inputs, *graph.captured)
    return {i for i, leaf in enumerate(leaves) if leaf in below}


def closed(needed: Collection[int], graph: Graph, count: int, first: int = 0) -> list[int]:
    """The carried values that are needed, at once or later: outputs that are inputs again.

    Output ``i`` is input ``first + i`` at the next step; ``count`` of them are carried.
    """
    found = {i for i in needed if i < count}
    while True:
        more = {i - first for i in reached(graph, found) if first <= i < first + count}
        if more <= found:
            return sorted(found)
        found |= more


def part(graph: Graph, leaves: Sequence[int], outputs: Sequence[int]) -> Graph:
    """A graph with some of its inputs, captured values and outputs."""
    count = len(graph.inputs)
    inputs = [graph.inputs[i] for i in leaves if i < count]
    captured = [graph.captured[i - count] for i in leaves if i >= count]
    names = {n: graph.names[n] for n in (*inputs, *captured) if n in graph.names}
    results = tuple([graph.outputs[i] for i in outputs])
    return Graph(tuple(inputs), tuple(captured), results, (), names)


def moved(node: Node, results: Sequence[int], operands: Sequence[int]) -> tuple[Any, ...]:
    """Which results are states of generators, and which operands they were."""
    states = node.attrs["states"]
    return tuple([(results.index(i), operands.index(j)) for i, j in states if i in results])
