"""A graph of an ONNX file as a list of steps that call importers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight import dtypes
from rushlight.errors import user_line
from rushlight.nn.module import Module
from rushlight.onnx.errors import NodeError, Unholdable
from rushlight.onnx.importers.registry import Importer
from rushlight.symbol import TraceError


class Slot(NamedTuple):
    """A tensor of the model: what the file calls it, and the attribute that holds it."""

    name: str
    module: Module
    attribute: str


class Step:
    """A node: its importer, with attributes decoded and graphs inside made bodies."""

    __slots__ = (
        *("attributes", "bodies", "dead", "importer", "inputs", "label", "names", "op", "outputs"),
        "trains",
    )

    def __init__(
        self,
        op: str,
        label: str,
        importer: Importer,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
    ) -> None:
        self.op, self.label, self.importer = op, label, importer
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.bodies = {key: v for key, v in attributes.items() if isinstance(v, Body)}
        self.attributes = {key: v for key, v in attributes.items() if key not in self.bodies}
        self.names = importer.names(len(self.inputs))
        self.trains = "training" in importer.parameters
        self.dead: tuple[str, ...] = ()  # names that no later step reads

    def inner(self) -> list[Body]:
        """The graphs inside, and the function that it calls."""
        called = [self.importer.function.body] if isinstance(self.importer.function, Call) else []
        return [*self.bodies.values(), *called]

    def reads(self) -> set[str]:
        """The names that it needs, those of the graphs inside among them."""
        inner = [body.captures for body in self.bodies.values()]
        return {name for name in self.inputs if name}.union(*inner)

    def run(self, values: dict[str, Any], training: bool) -> None:
        """Computes the outputs from the ``values`` so far, and adds them."""
        options = self.attributes
        if self.bodies:
            inner = {key: Closure(body, values, training) for key, body in self.bodies.items()}
            options = {**options, **inner}
        if self.trains:
            options = {**options, "training": training}
        try:
            given = [values[name] if name else None for name in self.inputs]
            results = self.importer(given, self.names, options)
        except (TraceError, NodeError):
            raise
        except Unholdable as error:
            raise TraceError(f"{self.label} at {user_line()}: {error}") from None
        except Exception as error:
            raise NodeError(f"{self.label}: {error}") from error
        if type(results) is not tuple:
            results = (results,)
        if len(results) < len(self.outputs):
            raise NodeError(f"{self.label}: output {len(results)} is not supported")
        for name, result in zip(self.outputs, results, strict=False):
            if name:  # what NumPy makes of an array without dimensions is no array
                values[name] = np.asarray(result) if isinstance(result, np.generic) else result
        for name in self.dead:
            values.pop(name, None)


class Closure:
    """The graph of a branch or loop, in the surroundings that it reads from."""

    __slots__ = ("body", "outer", "training")

    def __init__(self, body: Body, outer: Mapping[str, Any], training: bool) -> None:
        self.body, self.outer, self.training = body, outer, training

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        return self.body.run(self.outer, self.training, *arguments)

    def stated(self) -> Sequence[tuple[dtypes.dtype, list[int]]]:
        """The types that the file states for the outputs; sizes that vary are 0."""
        return self.body.stated

    def endless(self) -> bool:
        """Whether the first output, a loop's condition, is the second input or always true."""
        body, name = self.body, self.body.outputs[0]
        makers = {step.outputs[0]: step for step in body.steps if step.op == "Identity"}
        while name in makers:
            name = makers[name].inputs[0]
        value = body.constants.get(name)
        if value is None and name in body.captures:
            value = self.outer[name]
        return name == body.inputs[1] or (isinstance(value, np.ndarray) and bool(value.all()))


class Call:
    """A function of ONNX as a function; its attributes are part of the body already."""

    __slots__ = ("body",)

    def __init__(self, body: Body) -> None:
        self.body = body

    def __call__(self, *inputs: Any, training: bool) -> tuple[Any, ...]:
        missing = [None] * (len(self.body.inputs) - len(inputs))
        return self.body.run({}, training, *inputs, *missing)


class Body:
    """The steps of a graph, of a branch or loop, or of a function.

    Attributes:
        inputs, outputs: names of values.
        captures: names of values outside that the graph reads.
        constants: values that the file holds and that nothing changes.
        slots: tensors that the module holds.
        count, height: how many steps there are, with those inside, and how deep they are nested.
        stated: the types of the outputs, as far as the file says.
    """

    __slots__ = (
        *("captures", "constants", "count", "height", "inputs", "outputs", "slots", "stated"),
        "steps",
    )

    def __init__(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        steps: Sequence[Step],
        constants: Mapping[str, np.ndarray],
        slots: Sequence[Slot],
        captures: Sequence[str],
    ) -> None:
        self.inputs, self.outputs, self.steps = tuple(inputs), tuple(outputs), tuple(steps)
        self.constants, self.slots, self.captures = dict(constants), tuple(slots), tuple(captures)
        self.stated: Sequence[tuple[dtypes.dtype, list[int]]] = ()
        inner = [body for step in self.steps for body in step.inner()]
        self.count: int = len(self.steps) + sum([body.count for body in inner])
        self.height: int = 1 + max([body.height for body in inner], default=0)
        needed = set(self.outputs)
        for step in reversed(self.steps):
            reads = step.reads()
            made = {name for name in step.outputs if name}
            step.dead = tuple(sorted((reads | made) - needed))
            needed |= reads

    def run(self, outer: Mapping[str, Any], training: bool, *arguments: Any) -> tuple[Any, ...]:
        """The outputs for these inputs, in the surroundings ``outer``."""
        return self.compute(outer, training, dict(zip(self.inputs, arguments, strict=False)))

    def compute(
        self, outer: Mapping[str, Any], training: bool, given: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """The outputs for inputs by name, which come before what the file holds for them."""
        values = {name: outer[name] for name in self.captures}
        values.update(self.constants)
        for name, module, attribute in self.slots:
            values[name] = getattr(module, attribute)
        values.update(given)
        for step in self.steps:
            step.run(values, training)
        return tuple([values[name] for name in self.outputs])
