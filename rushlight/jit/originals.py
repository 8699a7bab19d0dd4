"""What a compiled or scripted function was made of."""

from __future__ import annotations

from typing import Any

from rushlight.compile import Compiled, CompiledModule
from rushlight.jit.functions import RecursiveScriptModule, ScriptFunction


def original(function: Any) -> Any:
    """The function or module behind one that is compiled, scripted or traced, or both.

    Programs of a file have no other form: they stand for themselves.

    >>> model = rl.nn.ReLU()
    >>> original(rl.jit.script(rl.compile(model))) is model
    True
    """
    match function:
        case CompiledModule():
            return original(function._orig_mod)
        case Compiled():
            return original(function.function)
        case ScriptFunction():
            programs = function.programs
        case RecursiveScriptModule():
            programs = function._programs
        case _:
            return function
    return function if programs.function is None else original(programs.function)
