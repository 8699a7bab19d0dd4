"""Modules that find out the shapes of their parameters."""

# ruff: noqa: F401

from rushlight.nn.lazy import LazyModuleMixin
