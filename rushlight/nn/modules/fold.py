"""Images as columns, and back."""

# ruff: noqa: F401

from rushlight.nn.folding import Fold, Unfold
