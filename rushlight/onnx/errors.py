"""What reading an ONNX file raises."""

from __future__ import annotations


class OnnxError(RuntimeError):
    """A file, node or value that cannot be imported; the message names all three."""


class NodeError(OnnxError):
    """One whose message names the node already."""
