"""The version, in the form that PyTorch has."""

__version__ = "0.1.0"
RELEASE = __version__  # Rushlight's own, also where a served program reads another ``__version__``
cuda: str | None = None
hip: str | None = None
debug = False
