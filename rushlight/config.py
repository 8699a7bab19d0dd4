"""Every switch of the framework in one table: name, default, meaning."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any


def _flag(name: str, default: bool) -> Any:
    """A switch that the environment variable ``RUSHLIGHT_<NAME>`` may turn on (1) or off (0)."""
    text = os.environ.get(f"RUSHLIGHT_{name.upper()}", "")
    return field(default=default if text == "" else text not in ("0", "false", "off"))


def _number(name: str, default: int) -> Any:
    """A number that the environment variable ``RUSHLIGHT_<NAME>`` may set."""
    variable = f"RUSHLIGHT_{name.upper()}"
    text = os.environ.get(variable, "")
    if text and not text.isdecimal():
        raise ValueError(f"{variable} must be a whole number from 0 on, but it is {text!r}")
    return field(default=int(text or default))


def _text(name: str, default: str) -> Any:
    """A text that the environment variable ``RUSHLIGHT_<NAME>`` may set."""
    return field(default=os.environ.get(f"RUSHLIGHT_{name.upper()}", "") or default)


@dataclass(slots=True)
class Config:
    """The process-wide switches. ``rl.config.name = value`` changes one."""

    default_dtype: Any = None  # the type of Python floats; None means float32
    deterministic: bool = False  # what use_deterministic_algorithms was told
    deterministic_warn_only: bool = False  # and its warn_only
    float32_matmul_precision: str = "highest"  # what set_float32_matmul_precision was told
    public_name: str = "rushlight"  # what texts call the package: a served program reads torch
    fuse_eager: bool = _flag("fuse_eager", True)  # large softmaxes, norms, … as programs
    winograd: bool = _flag("winograd", True)  # 3 × 3 convolutions by fewer multiplications
    keep_packed: int = _number("keep_packed", 1 << 29)  # bytes of prepared weights in a program
    disable_compile: bool = _flag("disable_compile", False)  # compiled functions run as Python
    programs: int = 64  # kinds of arguments for which a compiled function keeps programs
    programs_per_key: int = 8  # programs for one kind of arguments, by what is around it
    recompiles: int = 32  # programs made for one kind of arguments before it is given up
    keep_memory: bool = _flag("keep_memory", True)  # freed arrays stay with the process
    cache_dir: str = _text("cache_dir", "")  # native code on disk; "" means the user's cache folder
    cache_limit: int = _number("cache_limit", 1 << 30)  # and its bytes at most; 0 keeps none
    vector_bytes: int = _number("vector_bytes", 0)  # 16, 32 or 64; 0 means what suits the machine
    dump: str = _text("dump", "")  # the pass after which the graph is printed, or all


config = Config()
