"""What an exported program takes and returns, by PyTorch's names."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rushlight.jit.program import Program
from rushlight.jit.structure import Shape


class InputKind(enum.Enum):
    """What a value is that a program takes."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()


class OutputKind(enum.Enum):
    """What a value is that a program gives."""

    USER_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()


@dataclass
class TensorArgument:
    """A tensor, by the name that it has in the program."""

    name: str


@dataclass
class ConstantArgument:
    """A value that is part of the program."""

    name: str
    value: Any


@dataclass
class InputSpec:
    """One value that a program takes; ``target`` is its name in the module."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        kept = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{kept}"


@dataclass
class OutputSpec:
    """One value that a program gives; ``target`` is the buffer that it is written to."""

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportGraphSignature:
    """All values that a program takes and gives."""

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The names of tensors among the arguments, and the other arguments themselves."""
        return tuple([plain(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT])

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        return tuple([plain(s.arg) for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT])

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_buffers.values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        return tuple([str(s.target) for s in self.input_specs if s.persistent is False])

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        return tuple(self.inputs_to_lifted_tensor_constants.values())

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        return self.targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        return self.targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        return self.targets(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        specs = [s for s in self.output_specs if s.kind is OutputKind.BUFFER_MUTATION]
        return {s.arg.name: str(s.target) for s in specs}

    def targets(self, kind: InputKind) -> dict[str, str]:
        return {s.arg.name: str(s.target) for s in self.input_specs if s.kind is kind}

    def __str__(self) -> str:
        inputs, outputs = map(str, self.input_specs), map(str, self.output_specs)
        return "\n".join(["# inputs", *inputs, "", "# outputs", *outputs, ""])


KINDS = {
    "parameter": (InputKind.PARAMETER, "p", None),
    "buffer": (InputKind.BUFFER, "b", True),
    "transient": (InputKind.BUFFER, "b", False),
    "state": (InputKind.CONSTANT_TENSOR, "c", None),
}


def signature_of(program: Program) -> ExportGraphSignature:
    """The signature of a program."""
    border, state = program.border, program.state
    inputs = []
    for target, _, role in state.names:
        kind, letter, persistent = KINDS[role]
        own = TensorArgument(f"{letter}_{target.replace('.', '_')}")
        inputs.append(InputSpec(kind, own, target, persistent))
    inputs += [InputSpec(InputKind.USER_INPUT, x, None) for x in arguments_of(border.arguments)]
    outputs = []
    for name in [state.name_of(number) for kind, number in program.written if kind == "tensor"]:
        new = TensorArgument(f"new_{name.replace('.', '_')}")
        outputs.append(OutputSpec(OutputKind.BUFFER_MUTATION, new, name))
    results = arguments_of([("output", border.result)])
    outputs += [OutputSpec(OutputKind.USER_OUTPUT, x, None) for x in results]
    return ExportGraphSignature(inputs, outputs)


def arguments_of(
    named: Iterable[tuple[str, Shape]],
) -> Iterator[TensorArgument | ConstantArgument]:
    """The tensors and other values in arguments or results, by name."""
    for name, (kind, *content) in named:
        if kind in ("tensor", "scalar"):
            yield TensorArgument(name)
        elif kind in ("number", "plain"):
            yield ConstantArgument(name, content[0] if kind == "plain" else None)
        elif kind == "dict":
            yield from arguments_of([(f"{name}_{key}", inner) for key, inner in content[0]])
        else:
            yield from arguments_of([(f"{name}_{i}", x) for i, x in enumerate(content[-1])])


def plain(arg: TensorArgument | ConstantArgument) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name
