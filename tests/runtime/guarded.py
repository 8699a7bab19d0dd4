"""Programs whose operands and results lie between pages that nobody may touch.

python -m tests.runtime.guarded

The process ends at once where native code reads or writes beyond an array, by a single byte.
"""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.ops import registry
from rushlight.runtime import executable, recurrent
from rushlight.runtime.products import product

F = rl.nn.functional
PROTECTED = 0  # PROT_NONE
LAYER = rl.nn.LSTM(3, 5)
SIZES = (1, 3, 7, 8, 9, 17, 33)
process = ctypes.CDLL(None)


def guarded(shape: Any, dtype: Any, at_end: bool = True) -> np.ndarray:
    """An array right before or right after a protected page."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    page = mmap.PAGESIZE
    room = -(-max(1, count) // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for place in (begin, begin + page + room):
        if process.mprotect(ctypes.c_void_p(place), page, PROTECTED):
            raise OSError("a page cannot be protected")
    return np.ndarray(shape, kind, memory, page + room - count if at_end else page)


def filled(shape: tuple[int, ...], dtype: Any, at_end: bool) -> np.ndarray:
    array = guarded(shape, dtype, at_end)
    array[...] = np.random.default_rng(0).standard_normal(shape)
    return array


def convolution(x: Any, w: Any) -> Any:
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    y = F.conv2d(x, w, padding=1, stride=2)
    return y.detach(), *rl.autograd.grad(y.square().sum(), (x, w))


def recurrence(x: Any, w: Any) -> Any:
    y, _ = LAYER(x.float())
    return (y @ w.float()).detach()


def attention(q: Any, k: Any) -> Any:
    q, k = q.detach().requires_grad_(), k.detach().requires_grad_()
    y = F.scaled_dot_product_attention(q, k, k, is_causal=True)
    return y.detach(), *rl.autograd.grad(y.square().sum(), (q, k))


Case = tuple[Callable[..., Any], Callable[[int], tuple[tuple[int, ...], tuple[int, ...]]]]
CASES: dict[str, Case] = {
    "elements": (lambda x, y: (x * y).exp() + y, lambda n: ((3, n), (n,))),
    "transposed": (lambda x, y: x.T + y, lambda n: ((n, 5), (5, n))),
    "rows": (lambda x, y: (x.softmax(-1), x.sum(0), x.argmax(1), y), lambda n: ((n, n), (1,))),
    "windows": (
        lambda x, y: (F.max_pool2d(x, 3, 1, 1), F.pad(x, (1, 2)), y),
        lambda n: ((2, 3, n, n), (1,)),
    ),
    "products": (lambda x, y: (x @ y).relu(), lambda n: ((n, 19), (19, n + 1))),
    "halves": (lambda x, y: x.half() @ y.half(), lambda n: ((n, 19), (19, n + 1))),
    "convolutions": (convolution, lambda n: ((2, n, 9, 9), (5, n, 3, 3))),
    "recurrences": (recurrence, lambda n: ((4, n, 3), (5, 2))),
    "attention": (attention, lambda n: ((2, 750, n), (2, 750, n))),
}


def run(at_end: bool) -> None:
    """All cases, compiled, and products and loops over time of dynamic mode."""
    executable.empty = lambda shape, dtype: guarded(shape, dtype, at_end)
    for name, (function, shapes) in CASES.items():
        for n in SIZES if name != "attention" else (5, 16):
            compiled = rl.compile(function, fullgraph=True)
            for dtype in (np.float32, np.float64):
                compiled(*[rl.from_numpy(filled(shape, dtype, at_end)) for shape in shapes(n)])
    for m, n, k in ((1, 40, 9), (3, 5, 70), (9, 33, 17), (70, 50, 40), (129, 5, 300)):
        for left, right in ((("m", "k"), ("k", "n")), (("k", "m"), ("n", "k"))):
            size = {"m": m, "n": n, "k": k}
            a, b = [
                filled(tuple([size[x] for x in letters]), np.float32, at_end)
                for letters in (left, right)
            ]
            product(("".join(left), "".join(right), "mn"), a, b)
    for n in SIZES:
        for dtype in (np.float32, np.float64):
            loops(n, dtype, at_end)


def loops(n: int, dtype: Any, at_end: bool) -> None:
    """Packed sequences of a projected LSTM of ``n`` features, forward and backward."""
    sizes, small = np.array([5, 3, 3, 1]), 1 + n // 2
    narrow, wide = [filled((5, m), dtype, at_end) for m in (small, n)]
    shapes = (4 * n, small), (small, n)
    w_hh, w_hr = [filled(shape, dtype, at_end) for shape in shapes]
    weights = recurrent.Weights(w_hh, None, w_hr)
    z, dy = filled((12, 4 * n), dtype, at_end), filled((12, small), dtype, at_end)
    whole = np.empty
    recurrent.np.empty = lambda shape, dtype: guarded(shape, dtype, at_end)  # type: ignore
    try:
        for reverse in (False, True):
            op, back = registry["lstm_scan"], registry["lstm_scan_gradient"]
            y: Any = recurrent.forward(op, z, (narrow, wide), weights, sizes, reverse, True)
            read = (*y.kept, y.before[1])
            recurrent.backward(back, dy, (narrow, wide), read, weights, sizes, reverse)
    finally:
        recurrent.np.empty = whole


if __name__ == "__main__":
    faulthandler.enable()
    for side in (True, False):
        run(side)
    print("inside")
