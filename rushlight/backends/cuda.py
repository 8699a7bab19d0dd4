"""CUDA is not used; its switches can be set all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=True)
_ATTENTION = SimpleNamespace(flash=True, math=True, mem_efficient=True, cudnn=True)


def is_built() -> bool:
    """Whether CUDA is used.

    >>> rl.backends.cuda.is_built()
    False
    """
    return False


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Sets within a ``with`` block which implementations of attention CUDA may use.

    >>> with rl.backends.cuda.sdp_kernel(enable_math=False):
    ...     rl.backends.cuda.math_sdp_enabled()
    False
    """
    before = dict(vars(_ATTENTION))
    enabled = (enable_flash, enable_math, enable_mem_efficient, enable_cudnn)
    vars(_ATTENTION).update(zip(before, enabled, strict=True))
    try:
        yield
    finally:
        vars(_ATTENTION).update(before)


def flash_sdp_enabled() -> bool:
    """Whether CUDA may use flash attention."""
    return _ATTENTION.flash


def enable_flash_sdp(enabled: bool) -> None:
    """Sets whether CUDA may use flash attention."""
    _ATTENTION.flash = enabled


def math_sdp_enabled() -> bool:
    """Whether CUDA may use attention written as three operations."""
    return _ATTENTION.math


def enable_math_sdp(enabled: bool) -> None:
    """Sets whether CUDA may use attention written as three operations."""
    _ATTENTION.math = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Whether CUDA may use memory-efficient attention."""
    return _ATTENTION.mem_efficient


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Sets whether CUDA may use memory-efficient attention."""
    _ATTENTION.mem_efficient = enabled


def cudnn_sdp_enabled() -> bool:
    """Whether CUDA may use cuDNN's attention."""
    return _ATTENTION.cudnn


def enable_cudnn_sdp(enabled: bool) -> None:
    """Sets whether CUDA may use cuDNN's attention."""
    _ATTENTION.cudnn = enabled
