"""The border of a program in a file, checked against its graph before anything is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from rushlight import dtypes
from rushlight.dims import Dim
from rushlight.graph.ir import Graph, TensorType, Type, type_of, walk
from rushlight.graph.multiples import line_of, lines_of
from rushlight.graph.streams import STATE
from rushlight.jit import numbers, structure
from rushlight.jit.program import RELATIONS, Border, condition_of, labels_of, symbol_of, symbols_of
from rushlight.jit.state import State
from rushlight.runtime.shapes import LETTERS

NUMBER = TensorType((), dtypes.float64)


def need(condition: Any, message: str) -> None:
    if not condition:
        raise ValueError(message)


def checked_border(plain: Any, graph: Graph, state: State) -> Border:
    """The border that a file describes; an error unless it fits the graph and the state."""
    names = {each.name for each in fields(Border)}
    need(isinstance(plain, dict) and {"labels", *plain} == names, "a field of a border is missing")
    border = Border(**plain)
    check_counts(border, graph)
    check_sizes(border, graph)
    check_arguments(border, state)
    check_captured(border, graph, state)
    check_gradients(border, graph, state)
    need(border.training in (None, True, False), "its mode is none")
    need(isinstance(border.lost, str), "why it has no gradients is no text")
    return border


def check_counts(border: Border, graph: Graph) -> None:
    for count in (border.tensors, border.floats, border.count):
        need(type(count) is int and count >= 0, f"{count!r:.40} is no number of values")
    for each in (border.arguments, border.returned, border.captured, border.roots, border.wanted):
        need(isinstance(each, list), "a list is missing")
    need(len(graph.inputs) == border.tensors + len(border.roots), "it has other inputs")
    set_gradients = [empty for _, empty in border.gradients].count(False)
    outputs = border.count + len(border.wanted) + set_gradients
    need(len(graph.outputs) == outputs, "it has other outputs")


def checked_symbols(plain: Any) -> dict[str, Dim]:
    """The symbols for sizes that a file describes, by which the text of its graph is read."""
    symbols = plain.get("symbols") if isinstance(plain, dict) else None
    need(isinstance(symbols, list), "it does not have the fields of a border")
    for name, example in symbols:  # type: ignore[union-attr]
        need(isinstance(name, str) and name in {*LETTERS}, f"{name!r:.40} is no symbol for a size")
        need(type(example) is int and 0 <= example < 1 << 40, f"{example!r:.40} is no size")
    need(len(dict(symbols)) == len(symbols), "a size has two symbols")  # type: ignore[arg-type]
    return {name: symbol_of(name, example) for name, example in symbols}  # type: ignore[union-attr]


def check_sizes(border: Border, graph: Graph) -> None:
    """Symbols are sizes of arguments, and what was asked of them was answered rightly."""
    shapes = [node.type.shape for node in graph.inputs[: border.tensors]]
    for size in [n for shape in shapes for n in shape if type(n) is not int]:
        line = line_of(size)
        need(line and line.step > 0, f"no argument can have the size {size}")
    named = {line.name for line in lines_of(shapes)}
    need(named == {name for name, _ in border.symbols}, "a size is that of no argument")
    symbols, examples = symbols_of(border), dict(border.symbols)
    labels = border.labels
    need(isinstance(labels, dict) and labels == labels_of(labels, symbols), "a size has no name")
    for plain in border.conditions:
        relation, _, _, answer = plain
        need(relation in RELATIONS and type(answer) is bool, "a condition is none")
        need(condition_of(plain, symbols).holds(examples), "a condition does not hold")


def check_arguments(border: Border, state: State) -> None:
    """Arguments name each tensor and float of the graph, the result those that are there."""
    found: set[int] = set()
    need(len(dict(border.arguments)) == len(border.arguments), "two arguments have one name")

    def number(place: Any) -> None:
        need(type(place) is int and 0 <= place < border.floats, f"no number is {place!r:.40}")
        found.add(place)

    seen: set[int] = set()
    for name, shape in border.arguments:
        need(isinstance(name, str), f"{name!r:.40} is no name")
        structure.checked(shape, border.tensors, number)
        seen |= structure.tensors_in(shape)
    need(len(seen) == border.tensors, "not all tensors are arguments")
    need(len(found) == border.floats, "not all numbers are arguments")
    for name, value in border.defaults.items():
        need(isinstance(name, str), f"{name!r:.40} is no name")
        need(isinstance(value, (float, *structure.PLAIN)), f"the default of {name} is none")
    for place, value in border.fixed.items():
        number(place)
        need(isinstance(value, float), "a number is none")

    def returned(place: Any) -> None:
        many = len(border.returned)
        need(type(place) is int and 0 <= place < many, f"no number is {place!r:.40}")

    structure.checked(border.result, border.count, returned)
    for formula in border.returned:
        numbers.checked(formula, state.numbers, border.floats, symbols_of(border))


def check_captured(border: Border, graph: Graph, state: State) -> None:
    """What is captured is there, and of the type that the graph says."""
    need(len(border.captured) == len(graph.captured), "it captures other values")
    symbols = symbols_of(border)
    for node, (kind, what) in zip(graph.captured, border.captured, strict=True):
        if kind in ("tensor", "gradient"):
            t = state.tensors[place_in(what, state.tensors)]
            value = t.grad if kind == "gradient" else t
            need(value is not None, f"{state.name_of(what)} has no gradient")
            expected: Type = type_of(value._array)  # type: ignore[union-attr]
        elif kind == "generator":
            place_in(what, state.generators)
            expected = STATE
        else:
            need(kind == "number", f"{kind!r:.40} cannot be captured")
            numbers.checked(what, state.numbers, border.floats, symbols)
            expected = NUMBER
        need(node.type == expected, f"a captured {expected} is {node.type} in the graph")
    own = {tuple(source) for source in border.captured if source[0] != "number"}
    need(
        len(own) == sum([kind != "number" for kind, _ in border.captured]), "one is captured twice"
    )
    targets = [target for target, _ in graph.writes]
    pairs = zip(graph.captured, border.captured, strict=True)
    need(
        not any([n in targets for n, (kind, _) in pairs if kind == "number"]), "a number is written"
    )


def check_gradients(border: Border, graph: Graph, state: State) -> None:
    """Gradients have the types of what they are gradients of."""
    for i in border.roots:
        need(type(i) is int and 0 <= i < border.count, f"there is no result {i!r:.40}")
    need(len({*border.roots}) == len(border.roots), "a result has two gradients")
    tangents = [node.type for node in graph.inputs[border.tensors :]]
    results = [graph.outputs[i].type for i in border.roots]
    need(tangents == results, "gradients of other results")
    late, begin, end = (
        graph.inputs[border.tensors :],
        border.count,
        border.count + len(border.wanted),
    )
    ahead = [*graph.outputs[:begin], *graph.outputs[end:], *[value for _, value in graph.writes]]
    need({*walk(ahead)}.isdisjoint(late), "a result depends on gradients of results")
    places = [(place, empty) for place, empty in border.gradients]
    expected = [*border.wanted, *[place for place, empty in places if empty is False]]
    for place, node in zip(expected, graph.outputs[border.count :], strict=True):
        need(node.type == leaf(place, border, graph, state), "a gradient of another type")
    for place, empty in (*places, *border.found):
        leaf(place, border, graph, state)
        need(isinstance(empty, bool), "a gradient is neither there nor not")
    need(len({*map(tuple, border.wanted)}) == len(border.wanted), "a gradient is wanted twice")


def leaf(place: Any, border: Border, graph: Graph, state: State) -> Type:
    """The type of a tensor that an argument or the state holds."""
    kind, number = place
    if kind == "input":
        need(type(number) is int and 0 <= number < border.tensors, f"no argument {number!r:.40}")
        return graph.inputs[number].type
    need(kind == "tensor", f"{kind!r:.40} has no gradient")
    return type_of(state.tensors[place_in(number, state.tensors)]._array)


def place_in(number: Any, values: Sequence[Any]) -> int:
    need(type(number) is int and 0 <= number < len(values), f"there is no value {number!r:.40}")
    return number
