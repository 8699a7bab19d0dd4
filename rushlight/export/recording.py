"""A module and example arguments → the one program of an ``ExportedProgram``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rushlight.autograd.modes import enable_grad
from rushlight.dims import Settled
from rushlight.export.changing import Changing
from rushlight.export.dynamic_shapes import Change, changes_in
from rushlight.export.exported_program import ExportedProgram
from rushlight.graph.listener import held_back
from rushlight.graph.multiples import lines_of
from rushlight.graph.results import leaves
from rushlight.jit.originals import original
from rushlight.jit.program import Program, labels_of
from rushlight.jit.programs import Programs
from rushlight.jit.recording import Call, may_want, wanting
from rushlight.jit.state import State
from rushlight.nn.module import Module
from rushlight.runtime.shapes import Shapes
from rushlight.tensor import Tensor


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The program of ``mod(*args, **kwargs)`` in the mode that the module is in; it is not called.

    Branches and loops that depend on values are part of it. The parameters and buffers are those
    of the module, not copies.

    Args:
        mod: the module.
        args: example arguments, a tuple.
        kwargs: those by name.
        dynamic_shapes: which sizes may change, by arguments: ``{"x": {0: Dim("batch")}}`` or
            ``({0: Dim("batch")},)``. All others are part of the program.
        strict, prefer_deferred_runtime_asserts_over_guards: nothing depends on them.
        preserve_module_call_signature: must be left empty.

    Raises:
        TraceError: for what a program cannot hold, such as a size that should change and cannot.

    >>> from rushlight.export import Dim
    >>> program = rl.export.export(rl.nn.ReLU(), (rl.ones(2),), dynamic_shapes=({0: Dim("n")},))
    >>> program.module()(rl.tensor([-1.0, 0.0, 1.0]))
    tensor([0., 0., 1.])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(
            f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}"
        )
    if preserve_module_call_signature:
        raise NotImplementedError("export(): preserve_module_call_signature is not supported")
    mod = original(mod)
    given, rebuild = leaves((args, dict(kwargs or {})), ())
    args, named = rebuild([t.detach() for t in given])
    arguments = inspect.signature(mod.forward).bind(*args, **named).arguments
    changes = {id(t): own for t, own in changes_in(dynamic_shapes, arguments)}
    state, call = State(mod), Call(mod, args, named)
    sizes = Changing(call.tensors, [changes.get(id(t), {}) for t in call.tensors])
    programs = Programs(None, type(mod).__name__, state)
    programs.starts_training = mod.training
    programs.list = [recorded(call, state, list(mod.parameters()), sizes)]
    programs.list[0].border.training = mod.training
    state.homes.clear()  # what the module replaces later is not the program's affair
    return ExportedProgram(programs, (args, named), dynamic_shapes, mod)


def recorded(call: Call, state: State, parameters: Sequence[Tensor], changing: Changing) -> Program:
    """The program, with gradients of its results if it can give them."""

    def attempt(shapes: Shapes | None) -> Program:
        made = call.traced(state, shapes)
        for condition in made.conditions:
            if condition.is_number:
                raise Settled(condition.dims, f"{condition.left} == {condition.right}")
        return made

    program, keys = changing.traced(attempt)
    if not (program.border.gradients or program.border.found):
        try:
            wanted = [t for t in (*call.tensors, *parameters) if may_want(t)]
            with wanting(wanted), enable_grad(), held_back(shown=False):
                program, keys = changing.traced(attempt)
        except Exception:  # it may write to tensors in place, which leaves with gradients forbid
            pass
    lines = lines_of([node.type.shape for node in program.graph.inputs])
    whole = {line.name for line in lines if (line.step, line.rest) == (1, 0)}
    program.border.labels = labels_of(keys, whole)
    return bounded(program, {symbol: changing.like(key) for symbol, key in keys.items()})


def bounded(program: Program, changes: Mapping[str, Sequence[Change]]) -> Program:
    """The program with the bounds of its sizes as conditions; ``changes`` are by symbols."""
    border = program.border
    found: dict[tuple[str, str, str, bool], None] = {}
    for symbol, step, rest in lines_of([node.type.shape for node in program.graph.inputs]):
        for change in changes.get(symbol, ()):
            if change.min is not None:
                found["ge", symbol, str(-((rest - change.min) // step)), True] = None
            if change.max is not None:
                found["le", symbol, str((change.max - rest) // step), True] = None
    conditions = [*border.conditions, *found]
    return Program(program.graph, replace(border, conditions=conditions), program.state)
