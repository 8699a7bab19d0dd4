"""What is in an ONNX file, as text and as a picture: ``rushlight show``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.drawing.picture import LEAF, OP, RESULT, Box, Frame, Part, Picture
from rushlight.drawing.svg import svg
from rushlight.graph.attributes import SHORT
from rushlight.jit.reports import WIDEST, html_page, table
from rushlight.onnx.elements import HELD
from rushlight.onnx.module import Argument, OnnxModule
from rushlight.onnx.program import Body, Step
from rushlight.tensor import Tensor

LARGEST = 2000  # boxes of a picture
LOOPS = ("Loop", "Scan")  # ops whose results are what they are given next
FEW = 8  # numbers of an attribute that are shown
MOST = 4  # weights that are named in a box


class Held(NamedTuple):
    """What a model holds, which is written in the boxes that use it: no arrows lead from it."""

    numbers: dict[str, str]
    weights: dict[str, Tensor]

    def has(self, name: str) -> bool:
        return name in self.numbers or name in self.weights


NOTHING = Held({}, {})


def program_text(module: OnnxModule) -> str:
    """What a model takes and gives, its nodes and its tensors.

    >>> from onnx import parser
    >>> graph = "g (float[N,2] x) => (float[N,2] y) { a = Neg(x) y = Softmax<axis = 1>(a) }"
    >>> file = parser.parse_model('<ir_version: 10, opset_import: ["" : 21]>' + graph)
    >>> print(program_text(rl.onnx.load(file)))
    model(x: f32[*,2]) -> y
      a = Neg(x)
      y = Softmax(a, axis=1)
    <BLANKLINE>
    0 tensors, 0 elements, 0 bytes
    """
    taken = ", ".join([typed(argument) for argument in module._arguments[: module._needed]])
    lines = [f"model({taken}) -> {', '.join(module.output_names)}"]
    lines += [shortened(f"  {line}") for line in body_lines(module._body, {})]
    return "\n".join([*lines, "", *table(list(module.state_dict(keep_vars=True).items()))])


def body_lines(body: Body, outer: Mapping[str, str]) -> Iterator[str]:
    """A line for each node; ``outer`` are the numbers around it, which are shown as they are."""
    known = {**outer, **numbers(body)}
    for step in body.steps:
        operands = [known.get(name, name) or "None" for name in step.inputs]
        operands += [f"{k}={shown(v)}" for k, v in step.attributes.items() if k != "outputs"]
        operands += [f"{name}=graph" for name in step.bodies]
        yield f"{named(step.outputs)} = {step.op}({', '.join(operands)})"
        for name, inner in step.bodies.items():
            yield f"  {name}({', '.join(inner.inputs)}) -> {', '.join(inner.outputs)}"
            yield from [f"    {line}" for line in body_lines(inner, known)]


def numbers(body: Body) -> dict[str, str]:
    """The small constants of a graph, and the numbers among its tensors."""
    found = {name: shown(array) for name, array in body.constants.items() if array.size <= FEW}
    slots = {name: getattr(module, attribute) for name, module, attribute in body.slots}
    return found | {name: f"{t.item():.6g}" for name, t in slots.items() if not t.shape}


def typed(argument: Argument) -> str:
    """An input and what the file says about its elements and sizes."""
    if argument.dtype is None:
        return argument.name
    sizes = argument.shape
    inner = "..." if sizes is None else ",".join(["*" if n is None else str(n) for n in sizes])
    return f"{argument.name}: {element(argument.dtype)}[{inner}]"


def element(kind: np.dtype) -> str:
    return SHORT[dtypes.from_numpy(kind).name] if kind in HELD else str(kind)


def shown(value: Any) -> str:
    """An attribute; of a long one, how long it is."""
    if isinstance(value, np.ndarray) and value.size > FEW:
        return f"{element(value.dtype)}{list(value.shape)}"
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and len(value) > FEW:
        return f"[{len(value)} values]"
    return repr(value)


def shortened(line: str) -> str:
    return line if len(line) <= WIDEST else f"{line[:WIDEST]}…"


def drawing(module: OnnxModule) -> str:
    """The nodes of a model as SVG, with the names of weights in the boxes that use them."""
    if module._body.count > LARGEST:
        count = module._body.count
        raise ValueError(f"the model has {count} nodes; a picture shows at most {LARGEST}")
    heads = {a.name: tuple(typed(a).split(": ")) for a in module._arguments}
    return svg(picture(module._body, heads))


def page(module: OnnxModule) -> str:
    """A page with the picture and the text of a model."""
    name = ", ".join(module.output_names)
    return html_page(name, drawing(module), program_text(module))


def picture(body: Body, heads: Mapping[str, tuple[str, ...]], outer: Held = NOTHING) -> Picture:
    """The nodes of a graph; ``heads`` is what is written on values from outside."""
    slots = {name: getattr(module, attribute) for name, module, attribute in body.slots}
    held = Held(outer.numbers | numbers(body), outer.weights | slots)
    read = {name for step in body.steps for name in step.reads()} | set(body.outputs)
    outside = dict.fromkeys([*body.inputs, *body.captures])
    leaves = [n for n in outside if n in heads or (n in read and not held.has(n))]
    boxes: list[Box | Frame] = [Box(LEAF, heads.get(name, (name,))) for name in leaves]
    place = {name: i for i, name in enumerate(leaves)}
    arrows: dict[tuple[int, int], None] = {}
    for step in body.steps:
        sources = [place[name] for name in sorted(step.reads()) if name in place]
        arrows.update(dict.fromkeys([(source, len(boxes)) for source in sources]))
        place.update({name: len(boxes) for name in step.outputs if name})
        boxes.append(node(step, held))
    for name in body.outputs:
        if name in place:
            arrows[place[name], len(boxes)] = None
        boxes.append(Box(RESULT, (name,)))
    return Picture(boxes, list(arrows))


def node(step: Step, held: Held) -> Box | Frame:
    if step.bodies:
        again = step.op in LOOPS
        parts = [Part(name, picture(body, {}, held), again) for name, body in step.bodies.items()]
        return Frame((step.op, named(step.outputs)), tuple(parts))
    operands = [held.numbers.get(name, "·") for name in step.inputs]
    title = step.op if set(operands) <= {"·"} else f"{step.op}({', '.join(operands)})"
    weights = [(n, held.weights[n]) for n in step.inputs if n in held.weights]
    lines = [f"{name} {list(t.shape)}" for name, t in weights if t.shape]
    return Box(OP, (title, *lines[:MOST]))


def named(outputs: Sequence[str]) -> str:
    return ", ".join([name for name in outputs if name])


def run(module: OnnxModule, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """The outputs by name, or the only one; floats of another precision are converted."""
    given = [converted(a, x) for a, x in zip(module._arguments, values, strict=False)]
    by_name = {a.name: converted(a, named[a.name]) for a in module._arguments if a.name in named}
    result = module(*given, *values[len(given) :], **{**named, **by_name})
    return dict(zip(module.output_names, result, strict=True)) if type(result) is tuple else result


def converted(argument: Argument, value: Any) -> Any:
    if not isinstance(value, Tensor) or argument.dtype not in HELD:
        return value
    wanted = dtypes.from_numpy(argument.dtype)
    floating = value.is_floating_point() and wanted.is_floating_point
    return value.to(wanted) if floating else value
