"""Settings of the whole process: threads, precision, determinism, the default device."""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

from rushlight.config import config
from rushlight.device import cpu, device, require
from rushlight.tensor import Tensor
from rushlight.typed import name_of_type


@functools.cache
def blas_function(action: str) -> Callable[..., int] | None:
    """OpenBLAS's ``<action>_num_threads``, if that is what NumPy multiplies matrices with."""
    library = ctypes.CDLL(_multiarray_umath.__file__)
    for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads"):
        try:
            return library[name.format(action)]
        except AttributeError:
            continue
    return None


def get_num_threads() -> int:
    """How many threads matrix products, compiled functions and large optimizer steps use.

    >>> rl.get_num_threads() >= 1
    True
    """
    count = blas_function("get")
    return (os.cpu_count() or 1) if count is None else count()


def set_num_threads(int: int, /) -> None:
    """Sets how many threads matrix products, compiled functions and large optimizer steps use.

    It reaches OpenBLAS, which NumPy's own packages bring; with another library it warns that the
    library's environment variables decide.

    >>> rl.set_num_threads(rl.get_num_threads())
    """
    if isinstance(int, bool) or "__index__" not in dir(type(int)):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(int).__name__}")
    if int <= 0:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {int}")
    change = blas_function("set")
    if change is None:
        warnings.warn(
            "set_num_threads has no effect: NumPy's matrix library here is not OpenBLAS. Set "
            "OMP_NUM_THREADS or MKL_NUM_THREADS before the start.",
            UserWarning,
            stacklevel=2,
        )
        return
    change(int.__index__())


def get_num_interop_threads() -> int:
    """How many ops run at the same time: one."""
    return 1


def set_num_interop_threads(int: int, /) -> None:
    """Accepted for PyTorch's sake: ops run one after the other."""
    if int <= 0:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {int}")


def get_float32_matmul_precision() -> str:
    """What :func:`set_float32_matmul_precision` set."""
    return config.float32_matmul_precision


def set_float32_matmul_precision(precision: str) -> None:
    """``"highest"``, ``"high"`` or ``"medium"``: the CPU multiplies in full float32 for all three.

    >>> rl.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the call has no effect.",
            UserWarning,
            stacklevel=2,
        )
        return
    config.float32_matmul_precision = precision


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Remembers the wish; every op is deterministic either way."""
    if not isinstance(mode, bool):
        raise TypeError(f"argument 'mode' must be bool, not {type(mode).__name__}")
    config.deterministic, config.deterministic_warn_only = mode, mode and warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What :func:`use_deterministic_algorithms` was told."""
    return config.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether :func:`use_deterministic_algorithms` was told to warn only."""
    return config.deterministic_warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """:func:`use_deterministic_algorithms` by number or word.

    Args:
        debug_mode: 0 or ``"default"``, off; 1 or ``"warn"``, warn only; 2 or ``"error"``, on.

    >>> rl.set_deterministic_debug_mode("default")
    """
    words = ("default", "warn", "error")
    level = words.index(debug_mode) if debug_mode in words else debug_mode
    if level not in (0, 1, 2):
        raise RuntimeError(f"debug_mode must be 0, 1, 2 or one of {words}, but got {debug_mode!r}")
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """What :func:`set_deterministic_debug_mode` was told: 0, 1 or 2.

    >>> rl.get_deterministic_debug_mode()
    0
    """
    return 2 * config.deterministic - config.deterministic_warn_only


def set_flush_denormal(mode: bool) -> bool:
    """Whether the processor's flush-to-zero mode was set: False, it is left alone."""
    return False


def get_default_device() -> device:
    """Where new tensors are.

    >>> rl.get_default_device()
    device(type='cpu')
    """
    return cpu


def set_default_device(device: device | str | int | None) -> None:
    """Where new tensors shall be: the CPU, or an error that lists the devices."""
    require(device)


def typename(obj: Any, /) -> str:
    """The name of an object's type, with that of its module.

    >>> rl.typename(rl.ones(2))
    'rushlight.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return name_of_type(obj.dtype)
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__qualname__
