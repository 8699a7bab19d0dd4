"""``ExportedProgram``: one program of a module, with what it takes, returns and holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from rushlight.export.graph_signature import ExportGraphSignature, signature_of
from rushlight.graph.ir import Graph
from rushlight.jit import files
from rushlight.jit.functions import RecursiveScriptModule, loaded
from rushlight.jit.programs import Programs
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.tensor import Tensor


class ValueRanges(NamedTuple):
    """The least and the largest value of a size."""

    lower: int
    upper: float

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {self.upper}]"


class ExportedProgram:
    """What ``rl.export.export`` gives: ``module()`` runs it, ``rl.export.save`` writes a file.

    Attributes:
        example_inputs: the arguments that it was recorded with; None if it comes from a file.
        dynamic_shapes: which of their sizes may change, as they were given.
        source: the module that it was recorded from.
    """

    def __init__(
        self,
        programs: Programs,
        example_inputs: Any = None,
        dynamic_shapes: Any = None,
        source: Module | None = None,
    ) -> None:
        self.example_inputs, self.dynamic_shapes = example_inputs, dynamic_shapes
        self.source = source
        self._programs, self._module = programs, loaded(programs)

    def module(self) -> RecursiveScriptModule:
        """The program as a module, which has the tensors under their names and trains."""
        return self._module

    graph_module = property(module)

    @property
    def training(self) -> bool:
        """The mode of the module when it was recorded."""
        return self._programs.starts_training

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. "
            "You should use `exported_program.module()` instead."
        )

    @property
    def graph(self) -> Graph:
        """The graph of what a call computes, without gradients of its results."""
        return self._programs.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the program takes and gives."""
        return signature_of(self._programs.first)

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """The bounds of the sizes that may change, by their names in the graph."""
        border = self._programs.first.border
        found = {name: ValueRanges(0, math.inf) for name, _ in border.symbols}
        for relation, left, right, answer in border.conditions:
            if left in found and right.isdecimal() and answer:
                lower, upper = found[left]
                if relation == "ge":
                    found[left] = ValueRanges(max(lower, int(right)), upper)
                elif relation == "le":
                    found[left] = ValueRanges(lower, min(upper, int(right)))
        return {border.labels.get(name, name): bounds for name, bounds in found.items()}

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """The parameters and buffers of the module by name."""
        inner = {name for name, _, role in self._programs.state.names if role == "state"}
        return {name: t for name, t in self._module.state_dict().items() if name not in inner}

    @property
    def constants(self) -> dict[str, Tensor]:
        """The other tensors that the program holds."""
        state = self._programs.state
        return {name: state.tensors[i] for name, i, role in state.names if role == "state"}

    tensor_constants = constants

    def parameters(self) -> Iterator[Parameter]:
        return self._module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        return self._module.named_parameters()

    def buffers(self) -> Iterator[Tensor]:
        return iter([t for _, t in self.named_buffers()])

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        constants = self.constants
        return iter([(n, t) for n, t in self._module.named_buffers() if n not in constants])

    def run_decompositions(self, decomp_table: Any = None, **options: Any) -> ExportedProgram:
        """The program itself: its ops are taken apart when it is compiled."""
        return self

    def save(self, f: Any, extra_files: dict[str, Any] | None = None) -> None:
        """Writes the program to a path or a file, without any code."""
        files.save(self._programs, f, extra_files)

    def __str__(self) -> str:
        return (
            f"ExportedProgram:\n{self.graph}\nGraph signature:\n{self.graph_signature}\n"
            f"Range constraints: {self.range_constraints}\n"
        )

    def __repr__(self) -> str:
        return f"<ExportedProgram {self._programs.name}>"
