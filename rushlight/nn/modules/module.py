"""Module, and the hooks of all modules."""

# ruff: noqa: F401

from rushlight.nn.hooks import (
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rushlight.nn.module import Module
from rushlight.nn.state import _IncompatibleKeys
