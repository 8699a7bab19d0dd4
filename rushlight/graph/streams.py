"""Random numbers in a trace: a generator's state is a value that each draw takes and gives on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes
from rushlight.generator import Generator
from rushlight.graph.ir import CAPTURED, Node, TensorType, item
from rushlight.graph.templates import hollow
from rushlight.ops.base import Op
from rushlight.symbol import Symbol, TraceError

if TYPE_CHECKING:
    from rushlight.graph.trace import Trace

STATE = TensorType((Generator().get_state().size,), dtypes.uint8)
"""The type of a random generator's state in a graph."""


@dataclass(slots=True)
class Stream:
    """A generator that is drawn from: its state in the graph, and what to restore."""

    captured: Node
    node: Node
    latest: Node  # after the draws so far; another one is a state that was set back
    before: np.ndarray


class Streams:
    """The generators that a traced function draws from."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.known: dict[Generator, Stream] = {}

    def of(self, generator: Generator) -> Stream:
        stream = self.known.get(generator)
        if stream is None:
            node, before = Node(CAPTURED, (), {}, STATE), Generator.get_state(generator)
            self.trace.capture_generator(node, generator, before)
            stream = self.known[generator] = Stream(node, node, node, before)
        return stream

    def draw(
        self,
        op: Op,
        nodes: Sequence[Any],
        y: Any,
        kinds: Any,
        attrs: dict[str, Any],
        generator: Generator,
    ) -> Any:
        """The symbols of a random op, whose results look like ``y``."""
        stream = self.of(generator)
        self.check(stream)
        several = y if isinstance(y, tuple) else (y,)
        kinds = (*(kinds if isinstance(kinds, tuple) else (kinds,)), STATE)
        attrs = {**attrs, "generator": list(self.known).index(generator)}
        node = Node(op, (stream.node, *nodes), attrs, kinds, self.trace.source())
        stream.node = stream.latest = item(node, len(several))
        items = [(item(node, i), hollow(part)) for i, part in enumerate(several)]
        symbols = [Symbol(self.trace, *each) for each in items]
        return tuple(symbols) if isinstance(y, tuple) else symbols[0]

    def check(self, stream: Stream) -> None:
        """Draws follow each other: a program has no place for a state of earlier."""
        if stream.node is not stream.latest:
            raise TraceError(
                f"the random generator is set back at {self.trace.place()}, so that numbers would "
                "be drawn twice, which a graph cannot do"
            )

    def state(self, generator: Generator) -> Symbol:
        """The state of a generator, as a value of the graph."""
        return Symbol(self.trace, self.of(generator).node, np.empty(STATE.shape, np.uint8))

    def set_state(self, generator: Generator, state: Any) -> None:
        """The next numbers come from this state, which must be one of this very call."""
        if not isinstance(state, Symbol):
            raise TraceError(
                f"the state of a random generator is set at {self.trace.place()} to one of "
                "outside: set it outside the compiled function"
            )
        self.of(generator).node = self.trace.current(state)

    def ends(self) -> dict[Node, Node]:
        """The states after all draws, by the captured ones that they take the place of."""
        for stream in self.known.values():
            self.check(stream)
        moved = [s for s in self.known.values() if s.node is not s.captured]
        return {stream.captured: stream.node for stream in moved}

    def restore(self) -> None:
        """All generators as they were."""
        for generator, stream in self.known.items():
            Generator.set_state(generator, stream.before)
