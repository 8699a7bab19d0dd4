"""Messages that many ops share: what was received, what was expected."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

import numpy as np

PACKAGE, NUMPY = [os.path.dirname(os.path.abspath(f)) + os.sep for f in (__file__, np.__file__)]


def user_line() -> str:
    """``file:line`` of the innermost frame that is neither ours nor NumPy's."""
    place = user_place()
    return "" if place is None else f"{place[0]}:{place[1]}"


def user_place() -> tuple[str, int] | None:
    """File and line of the innermost frame that is neither ours nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((PACKAGE, NUMPY)):
            return file, frame.f_lineno
        frame = frame.f_back
    return None


def warn(message: str) -> None:
    """A warning that points at the user's line, however deep inside the package it is given."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def kind(value: object) -> str:
    """How an argument's type is called in a message."""
    return type(value).__name__


def expected_tensor(op: str, argument: str, position: int, value: object) -> TypeError:
    return TypeError(
        f"{op}(): argument '{argument}' (position {position}) must be Tensor, not {kind(value)}"
    )


def axis_range(dim: int, ndim: int) -> IndexError:
    limit = max(ndim, 1)
    return IndexError(
        f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], "
        f"but got {dim})"
    )
