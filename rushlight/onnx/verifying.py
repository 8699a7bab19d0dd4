"""The check after an export: does the file compute what the model does?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import no_grad
from rushlight.onnx.options import OnnxExporterError
from rushlight.onnx.saving import ONNXProgram
from rushlight.onnx.tracing import named_tensors

TOLERANCES = {dtypes.float64: 1e-9, dtypes.float16: 2e-2, dtypes.bfloat16: 1e-1}
USUAL = 1e-3


def verify(
    program: ONNXProgram, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """An error unless the program and the model have the same results."""
    with no_grad():
        expected = named_tensors(model(*args, **kwargs), "output")
        found = named_tensors(program(*[t for _, t in named_tensors((args, kwargs), "")]), "")
    for (_, a), (_, b), (name, _) in zip(expected, found, program.writer.root.outputs, strict=True):
        if a.shape != b.shape or a.dtype is not b.dtype:
            raise OnnxExporterError(
                f"the exported model gives {name!r} as {b.dtype} {list(b.shape)}, the model as "
                f"{a.dtype} {list(a.shape)}"
            )
        compare(name, a._array, b._array, TOLERANCES.get(a.dtype, USUAL))


def compare(name: str, expected: np.ndarray, found: np.ndarray, tolerance: float) -> None:
    """An error if two arrays differ by more than rounding."""
    with np.errstate(all="ignore"):
        a, b = expected.astype(np.float64), found.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        size = np.abs(a[np.isfinite(a)]).max(initial=1.0)
        apart = np.where(same, 0, np.abs(a - b))
    if not (apart <= tolerance * size).all():
        place = np.unravel_index(np.argmax(np.nan_to_num(apart, nan=np.inf)), apart.shape)
        where = list(map(int, place))
        raise OnnxExporterError(
            f"the exported model differs from the model: {name}{where} is {b[place]:.6g}, and "
            f"{a[place]:.6g} in the model"
        )
