"""Every switch of the framework in one table: name, default, meaning."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any


def _flag(name: str, default: bool) -> Any:
    """A switch that the environment variable ``RUSHLIGHT_<NAME>`` may turn on (1) or off (0)."""
    text = os.environ.get(f"RUSHLIGHT_{name.upper()}", "")
    return field(default=default if text == "" else text not in ("0", "false", "off"))


@dataclass(slots=True)
class Config:
    """The process-wide switches. ``rl.config.name = value`` changes one."""

    default_dtype: Any = None  # the type of Python floats; None means float32
    deterministic: bool = False  # what use_deterministic_algorithms was told
    deterministic_warn_only: bool = False  # and its warn_only
    float32_matmul_precision: str = "highest"  # what set_float32_matmul_precision was told
    public_name: str = "rushlight"  # what texts call the package: a served program reads torch
    keep_memory: bool = _flag("keep_memory", True)  # freed arrays stay with the process


config = Config()
