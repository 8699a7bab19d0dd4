"""``trace``, ``script``, ``save`` and ``load``: the ways to a program and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rushlight.compile import Compiled, CompiledModule
from rushlight.device import device as Device
from rushlight.device import require
from rushlight.jit import files
from rushlight.jit.functions import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    loaded,
)
from rushlight.jit.names import exported_methods, strict_fusion
from rushlight.jit.programs import Programs
from rushlight.jit.state import State
from rushlight.nn.module import Module


def trace(
    func: Callable[..., Any],
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """A function or module as a program, made by running it once on examples.

    Branches and loops that depend on values are part of the program. Arguments of another kind or
    size than the examples make another program. What cannot be traced is an error, so there is
    nothing that ``check_trace`` and its kin would find.

    Args:
        func: the function or module.
        example_inputs: a tensor, or a tuple of all positional arguments.
        example_kwarg_inputs: arguments by name.

    >>> f = rl.jit.trace(lambda x: x.exp().sum(), rl.zeros(3))
    >>> f(rl.zeros(3))
    tensor(3.)
    """
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("trace(): example_inputs or example_kwarg_inputs must be given")
    made = script(func)
    programs = made._programs if isinstance(made, RecursiveScriptModule) else made.programs
    if not programs.list or programs.function is not None:
        programs.record(positional(example_inputs), dict(example_kwarg_inputs or {}))
    return made


def positional(inputs: Any) -> tuple[Any, ...]:
    """Examples as positional arguments: a tuple or list of them, or a single one."""
    if inputs is None:
        return ()
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def trace_module(mod: Module, inputs: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """:func:`trace` of several methods of a module, with examples for each of them.

    >>> net = rl.jit.trace_module(rl.nn.Linear(2, 3), {"forward": rl.ones(1, 2)})
    >>> net(rl.ones(5, 2)).shape
    rushlight.Size([5, 3])
    """
    made = script(mod)
    for name, example in inputs.items():
        if name == "forward":
            trace(made, example, *args, **kwargs)
        else:
            made._programs.method(name).record(positional(example), {})
    return made


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Sequence[Any] | None = None,
) -> Any:
    """A function or module that runs as a program, made at its first call.

    Python's ``if``, ``while`` and ``for`` on values of tensors, or of arguments that are floats,
    become part of the program.

    Args:
        obj: a function or module; a class is returned as it is.
        example_inputs: a list of tuples of arguments for which programs are made at once.

    >>> @rl.jit.script
    ... def scaled(x, factor: float):
    ...     return x * factor
    >>> scaled(rl.ones(2), 3.0), scaled(rl.ones(2), 4.0)
    (tensor([3., 3.]), tensor([4., 4.]))
    """
    if isinstance(obj, (type, ScriptFunction, ScriptModule)):
        return obj
    if isinstance(obj, CompiledModule):
        obj = obj._orig_mod
    elif isinstance(obj, Compiled):
        obj = obj.function
    if not callable(obj):
        raise TypeError(f"script() takes a function or a module, got {obj!r}")
    made: Any
    if isinstance(obj, Module):
        programs = Programs(obj, type(obj).__name__, State(obj), obj)
        for name in exported_methods(type(obj)):
            programs.method(name)
        made = RecursiveScriptModule(obj, programs)
    else:
        made = ScriptFunction(obj)
    for example in example_inputs or ():
        trace(made, example)
    return made


def save(m: Any, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
    """Saves what :func:`trace`, :func:`script` or ``export`` made, without any code.

    Args:
        m: a script function or module.
        f: a path, or a file opened for writing.
        _extra_files: more texts for the file, by name.
    """
    if not isinstance(m, (ScriptFunction, RecursiveScriptModule)):
        raise TypeError(
            f"save(): expected a program, got {type(m).__name__}: make one with "
            "rl.jit.trace(f, example), or rl.export(f, *example)"
        )
    m.save(f, _extra_files)


def load(
    f: Any,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
    *,
    mmap: bool = False,
) -> RecursiveScriptModule:
    """The program in a file, as a module: no Python of whoever saved it is needed or run.

    Its parameters train with any optimizer. One that was a training step goes on training: each
    call changes its parameters and the state of its optimizer.

    Args:
        f: a path, or a file opened for reading.
        map_location: where the tensors go; there is the CPU.
        _extra_files: a dict whose values become those of the file.
        mmap: leave the tensors in the file and map them into memory, unchecked.
    """
    if isinstance(map_location, (str, Device)):
        require(map_location)
    return loaded(files.load(f, _extra_files, mmap))


def freeze(
    mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True
) -> RecursiveScriptModule:
    """The module, in evaluation mode; weights are packed for calls that only compute anyway."""
    if not isinstance(mod, RecursiveScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. "
            "Please call .eval() on your module before freezing."
        )
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> RecursiveScriptModule:
    """:func:`freeze`, after ``eval()``."""
    return freeze(mod.eval())


def run_frozen_optimizations(mod: Any, *args: Any, **kwargs: Any) -> None:
    """Accepted for PyTorch programs."""


def optimized_execution(should_optimize: bool) -> Any:
    """Accepted for PyTorch programs: a context in which nothing is different."""
    return strict_fusion()
