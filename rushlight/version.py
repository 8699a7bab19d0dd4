"""The version, in the form that PyTorch has."""

__version__ = "0.1.0"
cuda: str | None = None
hip: str | None = None
debug = False
