"""Tensors and whatever holds them, carried from PyTorch to Rushlight and back."""

from __future__ import annotations

from typing import Any

import torch

import rushlight as rl


def to_rushlight(value: Any) -> Any:
    """``value`` with its PyTorch tensors copied to ours."""
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.bfloat16:
            return rl.tensor(value.detach().float().numpy()).bfloat16()
        return rl.tensor(value.detach().numpy().copy())
    return rebuilt(value, to_rushlight)


def to_torch(value: Any) -> Any:
    """``value`` with our tensors copied to PyTorch's."""
    if isinstance(value, rl.Tensor):
        return torch.tensor(value.detach().numpy().copy())
    return rebuilt(value, to_torch)


def rebuilt(value: Any, convert: Any) -> Any:
    if type(value) is dict:
        return {k: convert(v) for k, v in value.items()}
    return type(value)([convert(v) for v in value]) if type(value) in (list, tuple) else value


def largest_error(ours: Any, theirs: Any) -> float:
    """The largest difference of two lists of tensors, in units of 1 or of the value."""
    errors = [0.0]
    for a, b in zip(ours, theirs, strict=True):
        a, b = a.detach(), b.detach()
        if b.dtype == torch.bfloat16:
            a, b = a.float(), b.float()
        a = to_torch(a)
        assert a.shape == b.shape
        if b.numel():
            errors.append(float(((a - b).abs() / (1 + b.abs())).max()))
    return max(errors)
