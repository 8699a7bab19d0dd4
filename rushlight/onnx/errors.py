"""What reading an ONNX file raises."""

from __future__ import annotations


class OnnxError(RuntimeError):
    """A file, node or value that cannot be imported; the message names all three."""


class NodeError(OnnxError):
    """One whose message names the node already."""


class Unholdable(OnnxError):
    """A node that runs in dynamic mode only: while a function is traced, that ends the trace."""
