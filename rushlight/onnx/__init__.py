"""ONNX files: models written for other runtimes, and read from them (extra ``onnx``)."""

import importlib
from typing import Any

_HOMES = {
    "ONNXProgram": "saving",
    "OnnxError": "errors",
    "OnnxExporterError": "options",
    "OperatorExportTypes": "options",
    "TrainingMode": "options",
    "_export": "exporting",
    "export": "exporting",
    "is_in_onnx_export": "options",
    "load": "loading",
}
__all__ = [name for name in sorted(_HOMES) if not name.startswith("_")]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
