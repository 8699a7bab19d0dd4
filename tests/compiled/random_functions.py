"""Functions of tensors made at random, of everyday ops in all dtypes, with gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import Tensor
from rushlight.graph.ir import Graph
from rushlight.graph.trace import Trace

MOST = 20000  # elements of a tensor: enough for two threads
SHAPES = [(4, 6), (6,), (4, 1), (), (3, 5, 8), (2, 3, 8, 8), (33, 70), (150, 130), (16384,)]
DTYPES = [rl.float32] * 6 + [rl.float64, rl.float16, rl.bfloat16, rl.int64, rl.int32, rl.uint8]


class Draw:
    """One function: everything it does next is drawn from the same numbers."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def __call__(self, choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def index(self, end: int, shape: tuple[int, ...]) -> Tensor:
        return rl.tensor(self.random.integers(0, end, shape))

    def number(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high))

    def next(self, x: Tensor, pool: list[Tensor]) -> Tensor | tuple[Tensor, ...] | None:
        """What an op that fits makes of ``x``; None if the one that was drawn does not."""
        kinds = [self.element, self.element, self.pair, self.pair, self.fold, self.row]
        kind = self([*kinds, self.move, self.move, self.join, self.place, self.window, self.cast])
        return kind(x, pool)

    def element(self, x: Tensor, _: list[Tensor]) -> Tensor | None:
        if not x.is_floating_point():
            return self([lambda: x > 2, lambda: x == 1, lambda: x + 1, lambda: ~x, lambda: x * 2])()
        rules: list[Callable[[], Tensor]] = [
            lambda: x.tanh(), lambda: (-x.abs()).exp(), lambda: x.sigmoid(), lambda: x.relu(),
            lambda: -x, lambda: x * x, lambda: F.gelu(x), lambda: F.silu(x), lambda: x.sin(),
            lambda: (x.abs() + 1).rsqrt(), lambda: x.abs().log1p(), lambda: x.clamp(-0.5, 0.5),
            lambda: x.floor(), lambda: x > 0, lambda: x.isfinite(), lambda: 1 / (2 + x.square()),
        ]  # fmt: skip
        return self(rules)()

    def pair(self, x: Tensor, pool: list[Tensor]) -> Tensor | None:
        y = self(pool)
        try:
            shape = np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        if math.prod(shape) > MOST:
            return None
        truths = x.dtype is rl.bool
        rules = [
            lambda: x + y, lambda: x * y, lambda: rl.maximum(x, y), lambda: rl.minimum(x, y),
            lambda: x < y, lambda: rl.where(x > y, x, y), lambda: x.masked_fill(y > 0, 1),
            lambda: x ^ (y > 0) if truths else x - y.to(x.dtype),
        ]  # fmt: skip
        if math.prod(shape) != x.numel():
            del rules[-2]
        return self(rules)()

    def dims(self, x: Tensor) -> tuple[int, ...]:
        count = self.number(1, x.dim() + 1)
        return tuple(sorted(self.random.permutation(x.dim())[:count].tolist()))

    def fold(self, x: Tensor, _: list[Tensor]) -> Tensor | tuple[Tensor, ...] | None:
        if not x.dim():
            return None
        dims, keep, d = self.dims(x), bool(self.number(0, 2)), self.number(0, x.dim())
        number = x.to(rl.int32) if x.dtype is rl.bool else x
        plain = [
            lambda: x.sum(dims, keepdim=keep), lambda: x.amax(dims, keepdim=keep),
            lambda: x.amin(dims, keepdim=keep), lambda: number.argmax(d, keepdim=keep),
            lambda: x.any(d, keepdim=keep), lambda: x.all(d, keepdim=keep),
            lambda: tuple(x.max(d, keepdim=keep)), lambda: number.argmin(), lambda: x.sum(),
        ]  # fmt: skip
        if not x.is_floating_point():
            return self(plain)()
        several = x.shape[d] > 1
        rules = [
            *plain, lambda: x.mean(dims, keepdim=keep), lambda: x.tanh().prod(d, keepdim=keep),
            lambda: x.logsumexp(dims, keepdim=keep), lambda: x.norm(dim=d, keepdim=keep),
            lambda: rl.var_mean(x, dims, correction=0, keepdim=keep),
            lambda: x.std(d, keepdim=keep) if several else x.mean(),
        ]  # fmt: skip
        return self(rules)()

    def row(self, x: Tensor, _: list[Tensor]) -> Tensor | None:
        if not x.dim() or not x.is_floating_point():
            return None
        d, small = self.number(0, x.dim()), x.tanh()
        rules = [
            lambda: x.softmax(d), lambda: x.log_softmax(d), lambda: small.cumsum(d),
            lambda: F.layer_norm(x, x.shape[d:]), lambda: F.normalize(small + 2, dim=d),
            lambda: x - x.mean(d, keepdim=True), lambda: small / (1 + small.square().sum()),
            lambda: small.cumprod(d),
        ]  # fmt: skip
        return self(rules)()

    def move(self, x: Tensor, _: list[Tensor]) -> Tensor | None:
        rank, size = x.dim(), x.numel()
        if not rank:
            return x.expand(self.number(1, 4), self.number(1, 9))
        d = self.number(0, rank)
        first = self.number(0, x.shape[d])
        last = self.number(first + 1, x.shape[d] + 1)
        part = [slice(None)] * d + [slice(first, last, self.number(1, 3))]
        shapes = [(size,), (1, size), (2, -1), (-1, 3), (4, -1), (2, -1, 2)]
        shapes = [s for s in shapes if size % abs(math.prod(s)) == 0]
        rules = [
            lambda: x.permute(*self.random.permutation(rank).tolist()), lambda: x[tuple(part)],
            lambda: x.transpose(d, -1).contiguous(), lambda: x.reshape(self(shapes)),
            lambda: x.unsqueeze(d) if rank < 4 else x.squeeze(), lambda: x.flip(d),
            lambda: x.roll(self.number(-3, 4), d), lambda: x.select(d, first),
            lambda: F.pad(x, [self.number(0, 3) for _ in range(2 * min(rank, 2))]),
            lambda: x.tril(self.number(-2, 3)) if rank > 1 else x, lambda: x.unfold(d, 1, 1),
            lambda: x.diagonal() if rank > 1 else x.diag_embed() if size < 100 else x,
            lambda: x.expand(2, *x.shape) if rank < 4 else x,
        ]  # fmt: skip
        return self(rules)()

    def join(self, x: Tensor, pool: list[Tensor]) -> Tensor | None:
        if not x.dim():
            return rl.stack([x, x, x + 1 if x.dtype is not rl.bool else x])
        d = self.number(0, x.dim())
        alike = [y for y in pool if y.shape == x.shape]
        y = self(alike) if alike else x
        return self([lambda: rl.cat([x, y], d), lambda: rl.stack([y, x], d)])()

    def place(self, x: Tensor, _: list[Tensor]) -> Tensor | None:
        if not x.dim() or x.dtype is rl.bool:
            return None
        d, shape = self.number(0, x.dim()), tuple(x.shape)
        n, few = shape[d], self.number(1, 5)
        rows = self.index(n, (few,))
        part = x.narrow(d, 0, min(few, n))
        some = self.index(n, tuple(part.shape))
        rules = [
            lambda: x.index_select(d, rows), lambda: x.gather(d, self.index(n, shape)),
            lambda: x.scatter_add(d, some, part), lambda: x.index_fill(d, rows, 1),
            lambda: x.index_add(d, rows[: part.shape[d]], part), lambda: x[rows % shape[0]],
            lambda: F.embedding(rows % shape[0], x) if len(shape) == 2 else x,
        ]  # fmt: skip
        return self(rules)()

    def window(self, x: Tensor, _: list[Tensor]) -> Tensor | None:
        if x.dim() < 2 or not x.is_floating_point() or min(x.shape[-2:]) < 4 or x.dim() > 4:
            return None
        image = x.reshape(1, -1, *x.shape[-2:])
        weight = image.tanh().mean((2, 3)).expand(2, -1).reshape(2, -1, 1, 1)
        rules = [
            lambda: F.max_pool2d(image, 2), lambda: F.avg_pool2d(image, 3, stride=1, padding=1),
            lambda: F.max_pool2d(image, 3, stride=2, padding=1),
            lambda: F.interpolate(image, scale_factor=2) if image.numel() < 5000 else image,
            lambda: F.conv2d(image, weight) if image.dtype is rl.float32 else image,
        ]  # fmt: skip
        return self(rules)()

    def cast(self, x: Tensor, _: list[Tensor]) -> Tensor:
        dtype = self([*DTYPES, rl.bool])
        if x.is_floating_point() and not dtype.is_floating_point:
            x = x.nan_to_num(0, 0, 0).clamp(0 if dtype is rl.uint8 else -100, 100)
        return x.to(dtype)


def random_function(seed: int, count: int) -> tuple[Graph, list[np.ndarray]]:
    """The graph of a function of some tensors, and values for them."""
    draw = Draw(seed)
    shapes = [draw(SHAPES) for _ in range(2)] + [SHAPES[k] for k in (0, 1, 2)]
    inputs = []
    for n, shape in enumerate(shapes):
        dtype = draw(DTYPES) if n else rl.float32
        x = draw.random.normal(size=shape) * (1 if dtype.is_floating_point else 3)
        x = x if dtype is not rl.uint8 else np.abs(x)
        inputs.append(rl.tensor(x).to(dtype).requires_grad_(dtype.is_floating_point))
    trace = Trace()

    def run() -> list[Tensor]:
        pool = [trace.input(t) for t in inputs] and list(inputs)
        while len(pool) < count + len(inputs):
            x = pool[max(0, len(pool) - 1 - int(draw.random.exponential(4)))]
            y = draw.next(x, pool)
            for part in y if isinstance(y, tuple) else (y,):
                if part is not None and 0 < part.numel() <= MOST:
                    pool.append(part)
        chosen = {draw.number(len(inputs), len(pool)) for _ in range(3)} | {len(pool) - 1}
        outputs = [pool[i] for i in sorted(chosen)]
        roots = [y.float().tanh().sum() for y in outputs if y.requires_grad]
        if roots and seed % 3 == 0:
            leaves = [t for t in inputs if t.requires_grad]
            found = rl.autograd.grad(roots, leaves, allow_unused=True)
            outputs += [g for g in found if g is not None]
        return outputs

    graph = trace.finish(trace.call(run))
    return graph, [t.detach().numpy() for t in inputs]
