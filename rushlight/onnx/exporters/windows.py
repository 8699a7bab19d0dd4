"""Convolutions, and windows laid back."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.codegen.values import FLOATS
from rushlight.graph.ir import Node
from rushlight.kernels.windows import Geometry
from rushlight.onnx.exporters.joining import padded
from rushlight.onnx.writer import Writer, exports, operand


def options(geometry: Geometry, kernel: Any, ends: Any) -> dict[str, Any]:
    """The attributes of a convolution, padded by ``ends`` behind."""
    return {
        "kernel_shape": list(kernel),
        "strides": list(geometry.stride),
        "pads": [*geometry.padding, *ends],
        "dilations": list(geometry.dilation),
        "group": geometry.groups,
    }


def kernel_of(node: Node) -> Any:
    return operand(node, 1).type.shape[2:]


def need_floats(w: Writer, node: Node) -> None:
    if node.type.kind not in FLOATS:
        raise w.refusal("ONNX has convolutions of floats alone")


@exports("convolve")
def convolve(w: Writer, node: Node, x: str, weight: str, bias: str | None) -> str:
    geometry, kernel, count = node.attrs["geometry"], kernel_of(node), node.attrs["count"]
    sizes, ends = operand(node).type.shape[2:], geometry.padding
    if geometry.counts(kernel, sizes) != count:  # there is more, or less, behind than before
        sides = zip(geometry.reach(kernel, count), sizes, geometry.padding, strict=True)
        ends = [reach - n - p for reach, n, p in sides]
        w.need_numbers(ends)
    need_floats(w, node)
    if min((*geometry.padding, *ends), default=0) < 0:  # of the image, less is seen
        cut = [(min(a, 0), min(b, 0)) for a, b in zip(geometry.padding, ends, strict=True)]
        x = padded(w, x, [(0, 0), (0, 0), *cut], "constant")
        geometry = geometry._replace(padding=tuple([max(p, 0) for p in geometry.padding]))
        ends = [max(end, 0) for end in ends]
    given = (x, weight, bias) if bias else (x, weight)
    return w("Conv", *given, **options(geometry, kernel, ends))


@exports("convolve_transposed")
def convolve_transposed(w: Writer, node: Node, y: str, weight: str, bias: str | None) -> str:
    geometry, kernel = node.attrs["geometry"], kernel_of(node)
    reach = geometry.reach(kernel, operand(node).type.shape[2:])
    sides = zip(node.attrs["size"], reach, geometry.padding, strict=True)
    extra = [size - (n - 2 * p) for size, n, p in sides]
    w.need_numbers(extra)
    need_floats(w, node)
    given = (y, weight, bias) if bias else (y, weight)
    ends = list(geometry.padding)
    for d, (n, stride) in enumerate(zip(extra, geometry.stride, strict=True)):
        if stride <= n <= ends[d]:  # more is added than runtimes allow: less is taken away
            ends[d], extra[d] = ends[d] - n, 0
    attrs = options(geometry, kernel, ends)
    return w("ConvTranspose", *given, output_padding=extra, **attrs)


@exports("im2col")
def im2col(w: Writer, node: Node, x: str) -> str:
    """The windows of each channel: where their elements are from, numbers in an image tell."""
    (n, c, *sizes), attrs = operand(node).type.shape, node.attrs
    w.need_numbers(sizes)
    numbers = np.arange(1, prod(sizes) + 1).reshape(1, 1, *sizes)  # 0 is beyond the borders
    places = node.op.compute([numbers], attrs)[0]
    row = w("Pad", w.reshape(x, n, c, prod(sizes)), w.ints(0, 0, 1, 0, 0, 0), w.like(0, node))
    return w.reshape(w("Gather", row, w.constant(places), axis=2), *node.type.shape)


@exports("col2im", since=18)
def col2im(w: Writer, node: Node, columns: str) -> str:
    geometry, kernel = node.attrs["geometry"], node.attrs["kernel"]
    return w(
        "Col2Im",
        columns,
        w.ints(*node.attrs["size"]),
        w.ints(*kernel),
        strides=list(geometry.stride),
        pads=[*geometry.padding, *geometry.padding],
        dilations=list(geometry.dilation),
    )
