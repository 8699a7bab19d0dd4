"""Programs by themselves: functions and modules that are traced, saved, and run without source.

>>> import tempfile
>>> double = rl.jit.trace(lambda x: 2 * x, rl.ones(3))
>>> path = tempfile.mkdtemp() + "/double.pt"
>>> double.save(path)
>>> rl.jit.load(path)(rl.arange(3.0))
tensor([0., 2., 4.])
"""

from typing import Final

from rushlight.jit import reports
from rushlight.jit.functions import RecursiveScriptModule, ScriptFunction, ScriptModule
from rushlight.jit.names import (
    Attribute,
    Error,
    Future,
    TracerWarning,
    _overload,
    _overload_method,
    _unwrap_optional,
    annotate,
    enable_onednn_fusion,
    export,
    fork,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    isinstance,
    onednn_fusion_enabled,
    script_if_tracing,
    script_method,
    set_fusion_strategy,
    strict_fusion,
    unused,
    wait,
)
from rushlight.jit.tracing import (
    freeze,
    load,
    optimize_for_inference,
    optimized_execution,
    run_frozen_optimizations,
    save,
    script,
    trace,
    trace_module,
)

TracedModule = TopLevelTracedModule = RecursiveScriptModule

__all__ = [
    "Attribute", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "TopLevelTracedModule", "TracedModule", "TracerWarning", "_overload",
    "_overload_method", "_unwrap_optional", "annotate", "enable_onednn_fusion", "export", "fork",
    "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
    "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution", "reports",
    "run_frozen_optimizations", "save", "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip
