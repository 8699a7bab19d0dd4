"""Every op of the registry, compiled: values, gradients and errors are those of dynamic mode."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.ops import registry
from rushlight.ops.base import Op
from rushlight.ops.samples import S
from rushlight.symbol import TraceError
from tests.sampling import Maker, flat, supported

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PUBLIC = {name: op for name, op in registry.items() if op.function or op.method}
KINDS = (rl.float32, rl.float64, rl.int64, rl.bool, rl.bfloat16)
UNDEFINED = {
    *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    *("resize_", "resize_as_"),
}
"""Their elements are whatever is in memory."""

DEFINED = [name for name in PUBLIC if name not in UNDEFINED]

REFUSED = {
    "a value decides what Python does": (
        "allclose", "equal", "apply_", "map_", "map2_", "cov", "istft", "linalg.lstsq",
        "nn.functional.ctc_loss", "ctc_loss", "embedding_bag",
        "rnn_tanh", "rnn_relu", "lstm", "gru", "nn.functional.rrelu", "masked.median",
    ),
    "values decide the shape of the result": (
        "bincount", "nonzero", "argwhere", "nonzero_static", "masked_select", "unique",
        "unique_consecutive", "repeat_interleave", "one_hot", "index_put", "histc", "histogram",
        "histogramdd", "linspace", "logspace", "nn.functional.embedding", "embedding_renorm_",
        "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d",
        "nn.functional.fractional_max_pool2d_with_indices",
        "nn.functional.fractional_max_pool3d_with_indices",
        "nn.functional.multilabel_margin_loss",
    ),
}  # fmt: skip
"""Ops of which some call cannot be part of a graph; it then runs in dynamic mode."""

MAY_REFUSE = {name for names in REFUSED.values() for name in names}

ROUNDED_LESS = (
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.multi_head_attention_forward",
)
"""Programs do not round what lies between two products to 16 bits, as dynamic mode does: both are
compared with float64."""


def calls() -> Iterator[Any]:
    for name in DEFINED:
        op = PUBLIC[name]
        for i, sample in enumerate(op.samples):
            for dtype in list(supported(op))[: None if i < 2 else 1]:
                yield pytest.param(op, sample, dtype, id=f"{name}{sample!r}"[:80] + dtype.name)


def outcome(op: Op, sample: S, dtype: Any, compiled: bool, exact: bool = False) -> list[Any]:
    """The results of a call, the gradients that come of them, and what became of the operands.

    With ``exact``, these are computed in float64, of the same operands.
    """
    maker = Maker(dtype=dtype, grad=True)
    args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
    for t in maker.tensors if exact else ():
        if t.is_floating_point():
            t.data = t.data.double()

    def function(args: Any, kwargs: Any) -> Any:
        y = op.call(*args, **kwargs)
        roots = [t for t in flat(y) if t.requires_grad and t.numel()]
        if roots:
            rl.autograd.backward(roots, [rl.ones_like(t) for t in roots])
        return y

    rl.manual_seed(0)
    run: Callable[..., Any] = rl.compile(function, fullgraph=True) if compiled else function
    results = flat(run(args, kwargs))
    return [*results, *[t.grad for t in maker.tensors], *maker.tensors]


def agree(a: Any, b: Any) -> None:
    """The same up to the rounding of sums and functions."""
    assert (a is None) == (b is None)
    if a is None:
        return
    assert a.dtype is b.dtype
    assert a.shape == b.shape
    x, y = a.detach().numpy(), b.detach().numpy()
    if a.dtype.category < 2:
        np.testing.assert_array_equal(x, y)
        return
    tolerance = {rl.bfloat16: 2e-2, rl.float16: 4e-3}.get(a.dtype, 1e-5)
    wide = np.complex128 if a.is_complex() else np.float64
    x, y = x.astype(wide), y.astype(wide)
    finite = np.abs(x[np.isfinite(x)])
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance * max(scale, 1.0) / 4)


def is_as_near(a: Any, b: Any, right: Any) -> None:
    """``b`` is at most twice as far from what is right as ``a``, or nearly there."""
    assert (a is None) == (b is None)
    if a is None or not a.numel():
        return
    x, y, z = [t.detach().double().numpy() for t in (a, b, right)]
    scale = max(1.0, float(np.abs(z[np.isfinite(z)]).max(initial=0.0)))
    worst = 2 * np.nan_to_num(np.abs(x - z), posinf=0.0).max() + 5e-3 * scale
    np.testing.assert_allclose(y, z, rtol=0, atol=worst)


def check(op: Op, sample: S, dtype: Any) -> None:
    try:
        expected = outcome(op, sample, dtype, compiled=False)
    except OverflowError:  # infinity is no integer
        assert not dtype.is_floating_point
        return
    except (RuntimeError, TypeError, ValueError, LookupError, AssertionError) as error:
        refusal = (TraceError,) if op.full_name in MAY_REFUSE else ()
        with pytest.raises((type(error), *refusal)):
            outcome(op, sample, dtype, compiled=True)
        return
    try:
        found = outcome(op, sample, dtype, compiled=True)
    except TraceError:
        assert op.full_name in MAY_REFUSE, "it cannot be traced, and is not in the table"
        return
    if op.full_name in ROUNDED_LESS and dtype.itemsize == 2:
        right = outcome(op, sample, dtype, compiled=False, exact=True)
        for a, b, c in zip(expected, found, right, strict=True):
            is_as_near(a, b, c)
        return
    for a, b in zip(expected, found, strict=True):
        agree(a, b)


@pytest.mark.parametrize(("op", "sample", "dtype"), list(calls()))
def test_compiled_equals_eager(op: Op, sample: S, dtype: Any) -> None:
    check(op, sample, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFINED)
def test_compiled_equals_eager_in_every_dtype(name: str) -> None:
    for sample, dtype in itertools.product(PUBLIC[name].samples, KINDS):
        check(PUBLIC[name], sample, dtype)


@pytest.mark.parametrize(
    ("op", "sample"),
    [
        pytest.param(op, sample, id=f"{name}{sample!r}"[:90])
        for name, op in PUBLIC.items()
        for sample in op.errors
    ],
)
def test_bad_input_raises_the_same_error(op: Op, sample: Any) -> None:
    maker = Maker(dtype=rl.float32)
    args, kwargs = maker.make(list(sample.args)), maker.make(sample.kwargs)
    compiled = rl.compile(lambda args, kwargs: op.call(*args, **kwargs), fullgraph=True)
    with pytest.raises((sample.error, TraceError)) as caught:
        compiled(args, kwargs)
    if isinstance(caught.value, sample.error) and not isinstance(caught.value, TraceError):
        assert re.search(sample.match, str(caught.value)), str(caught.value)
    else:
        assert op.full_name in MAY_REFUSE, str(caught.value)
