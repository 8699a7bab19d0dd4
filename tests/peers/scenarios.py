"""Small programs that run in PyTorch and here, and must say the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

Body = Callable[[Any], Iterator[Any]]


class Scenarios(list[Any]):
    """Programs: generator functions of the library, which yield what is to be compared."""

    def __call__(self, body: Body) -> Body:
        self.append(pytest.param(body, id=body.__name__))
        return body


def compare(body: Body, rtol: float = 1e-5, atol: float = 1e-8) -> None:
    """Runs ``body`` in both libraries and compares what it yields."""
    expected, got = said(body, torch), said(body, rl)
    for step, (a, b) in enumerate(zip(expected, got, strict=True)):
        assert same(a, b, rtol, atol), f"step {step}: PyTorch {a!r}, Rushlight {b!r}"


def said(body: Body, library: Any) -> list[Any]:
    with warnings.catch_warnings(), library.enable_grad():
        warnings.simplefilter("ignore")
        return [plain(value) for value in body(library)]


def plain(value: Any) -> Any:
    """What can be compared of a value."""
    if isinstance(value, (torch.Tensor, rl.Tensor)):
        return np.array(value.detach().numpy(), copy=True)
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if isinstance(value, BaseException):
        return type(value).__name__
    return value


def same(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        alike = a.shape == b.shape and a.dtype == b.dtype
        return alike and np.allclose(a, b, rtol, atol, equal_nan=True)
    if isinstance(a, list) and isinstance(b, list):
        pairs = zip(a, b, strict=False)
        return len(a) == len(b) and all(same(x, y, rtol, atol) for x, y in pairs)
    return type(a) is type(b) and a == b


def attempt(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, or its error."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return error
