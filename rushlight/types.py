"""Names of types for annotations."""

from __future__ import annotations

from typing import TypeAlias

from rushlight.device import device
from rushlight.storage import TypedStorage as Storage

__all__ = ["Device", "Number", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
