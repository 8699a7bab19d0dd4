"""The check after an export: does the file compute what the model does?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.modes import no_grad
from rushlight.config import config
from rushlight.dims import symbols_of
from rushlight.graph.listener import held_back
from rushlight.graph.multiples import line_of, solve
from rushlight.graph.results import leaves
from rushlight.interop import from_numpy
from rushlight.nn.module import Module
from rushlight.onnx.errors import OnnxError
from rushlight.onnx.options import OnnxExporterError
from rushlight.onnx.saving import ONNXProgram
from rushlight.onnx.tracing import Traced, named_leaves, named_tensors
from rushlight.tensor import Tensor

TOLERANCES = {dtypes.float64: 1e-9, dtypes.float16: 2e-2, dtypes.bfloat16: 1e-1}
USUAL = 1e-3


def verify(
    program: ONNXProgram,
    model: Any,
    args: Any,
    kwargs: dict[str, Any],
    traced: Traced,
) -> None:
    """An error unless the program and the model have the same results, on other sizes too.

    Of a model that draws random numbers, only the types of results can be compared.
    """
    random = bool(traced.generators)
    with no_grad(), interpreted(), held_back(shown=False):
        check(program, args, kwargs, called(model, args, kwargs, traced), random)
        tensors, rebuild = leaves((args, kwargs), ())
        shapes = [node.type.shape for node in traced.graph.inputs]
        for change in (1, -1) if symbols_of(shapes) else ():
            others = [resized(t, own, change) for t, own in zip(tensors, shapes, strict=True)]
            if is_refused(others, shapes, traced):
                continue  # by the file, too
            args, kwargs = rebuild(others)
            try:
                expected = called(model, args, kwargs, traced)
            except Exception:
                continue  # the model does not take these sizes
            check(program, args, kwargs, expected, random)


@contextmanager
def interpreted() -> Iterator[None]:
    """No program is made for sizes that come once."""
    before, config.fuse_eager = config.fuse_eager, False
    try:
        yield
    finally:
        config.fuse_eager = before


def resized(t: Tensor, sizes: Sequence[Any], change: int) -> Tensor:
    """A tensor with some more or fewer elements where sizes are symbols, made of those it has."""
    pairs = zip(t.shape, map(line_of, sizes), strict=True)
    steps = [(n, 0 if line is None else change * line.step) for n, line in pairs]
    shape = [n + step if n + step > 0 else n for n, step in steps]
    return from_numpy(np.resize(t._array, shape)) if t._array.size else t


def is_refused(tensors: Sequence[Tensor], shapes: Sequence[Any], traced: Traced) -> bool:
    """Whether the graph is another one for the sizes of some inputs."""
    sizes: dict[str, int] = {}
    for t, shape in zip(tensors, shapes, strict=True):
        for n, size in zip(t.shape, shape, strict=True):
            solve(size, n, sizes)
    return not all([c.holds(sizes) for c in traced.conditions if c.symbols <= set(sizes)])


def called(model: Any, args: Any, kwargs: dict[str, Any], traced: Traced) -> list[Tensor]:
    """What the model returns; the buffers that it writes to are as before."""
    written = model.buffers() if traced.graph.writes and isinstance(model, Module) else ()
    before = [(buffer, buffer.clone()) for buffer in written]
    try:
        return [t.clone() for t in chosen(model(*args, **kwargs), traced.outputs)]
    finally:
        for buffer, old in before:
            buffer.copy_(old)


def chosen(result: Any, outputs: Sequence[str]) -> list[Tensor]:
    """Some of the tensors and numbers in a result, by their names."""
    leaves = [(n, x) for n, x in named_leaves(result, "output") if n in outputs]
    return [x if isinstance(x, Tensor) else from_numpy(np.array(x)) for _, x in leaves]


def check(
    program: ONNXProgram, args: Any, kwargs: Any, expected: Sequence[Tensor], random: bool
) -> None:
    given = [t for _, t in named_tensors((args, kwargs), "")]
    shapes = ", ".join([str(list(t.shape)) for t in given])
    try:
        found = named_tensors(program(*given), "")
    except OnnxError as error:
        raise OnnxExporterError(f"the exported model fails for inputs {shapes}: {error}") from error
    for a, (_, b), (name, _) in zip(expected, found, program.writer.root.outputs, strict=True):
        if a.shape != b.shape or a.dtype is not b.dtype:
            raise OnnxExporterError(
                f"for inputs {shapes}, the exported model gives {name!r} as {b.dtype} "
                f"{list(b.shape)}, the model as {a.dtype} {list(a.shape)}"
            )
        if not random:
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
