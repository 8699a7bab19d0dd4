"""Modules that hold others."""

# ruff: noqa: F401

from rushlight.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
