"""The names of PyTorch's tracer that programs use."""

from rushlight._dynamo import config
from rushlight.compiler import allow_in_graph, disable, is_compiling, list_backends, reset
from rushlight.runtime.shapes import mark_dynamic
