"""The handle that a registered hook is taken back by."""

from rushlight.autograd.tape import RemovableHandle

__all__ = ["RemovableHandle"]
