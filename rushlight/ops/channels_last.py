"""Convolutions as products of windows: what graphs hold in their place.

With channels last, all that a window of an image holds is a strided view of it, and a convolution
is a product of that view with the weight, summed over window and channels:

    y[n, p, o] = Σₖ Σ_c x[n, p · stride + k · dilation, c] · w[o, c, k]

Both gradients are products of such views too. Nothing is gathered, and what is padded, permuted or
added around them are ordinary ops, which join the loops of their neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rushlight.config import config
from rushlight.dims import is_extent, is_zero, usual
from rushlight.kernels.windows import Geometry, Sizes
from rushlight.ops.base import Op, ops, registry
from rushlight.ops.views import View
from rushlight.tensor import Tensor

KINDS = (np.dtype(np.float32), np.dtype(np.float64))
PLAIN = Geometry((1, 1), (), (1, 1))
LANES = 16  # channels that tiles come in
PHASES = 16  # that a transposed convolution is made of at most: each is a product of its own
LETTERS = "pqr", "hwd"  # of places and of the positions in a window


class Moved(NamedTuple):
    """What it costs to have an element at a point of a tile, in multiply-adds.

    Args:
        image: for an element of an image or of results.
        weight: for one of a weight, by the size of the tiles.
    """

    image: int
    weight: Mapping[int, int]


FORWARD, BACKWARD = Moved(22, {2: 6, 4: 20}), Moved(12, {2: 12, 4: 24})
"""As measured: of the model's choices for the layers of usual networks, few cost over 10 %."""


class Sliding(View):
    """The windows of images (n, *size, …): (n, *count, *kernel, …).

    ``dilation`` is negative where windows are seen from their end to their beginning.
    """

    function = method = False
    stays = True

    def check(self, x: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, count: Sizes) -> Any:
        attrs = {"kernel": kernel, "stride": stride, "dilation": dilation, "count": count}
        return (x,), attrs

    def eager(self, x, *, kernel, stride, dilation, count):
        dims = len(kernel)
        begin = [slice(first(k, d), None) for k, d in zip(kernel, dilation, strict=True)]
        place = (slice(None), *begin)
        seen = x[place]
        own = x.strides[1 : 1 + dims]
        steps = [step * s for step, s in zip(own, stride, strict=True)]
        inner = [step * d for step, d in zip(own, dilation, strict=True)]
        shape = (x.shape[0], *count, *kernel, *x.shape[1 + dims :])
        strides = (x.strides[0], *steps, *inner, *x.strides[1 + dims :])
        return as_strided(seen, shape, strides, writeable=False)

    def vjp(self, g, _y, _x, *, kernel, stride, dilation, count):
        x = ops.zeros(_x.shape, dtype=g.dtype)
        every = (slice(None),) * (1 + len(kernel))
        for k in product(*map(range, kernel)):
            sides = zip(k, kernel, stride, dilation, count, strict=True)
            begins = [(j * d + first(size, d), s, n) for j, size, s, d, n in sides]
            place = (slice(None), *[slice(b, b + (n - 1) * s + 1, s) for b, s, n in begins])
            chosen = (*every, *k)
            x[place] += g[chosen]
        return x

    def origin(self, b, i, shape, *, kernel, stride, dilation, count):
        dims = len(kernel)
        places, positions = i[1 : 1 + dims], i[1 + dims : 1 + 2 * dims]
        sides = zip(places, positions, kernel, stride, dilation, strict=True)
        spots = [b.position(p * s + k * d + first(size, d)) for p, k, size, s, d in sides]
        return (i[0], *spots, *i[1 + 2 * dims :])


def first(kernel: int, dilation: int) -> int:
    """Where the window at 0 begins."""
    return 0 if dilation > 0 else (1 - kernel) * dilation


class Contract(Op):
    """Products of elements, summed over the letters that the result lacks, as in ``einsum``.

    Windows of 3 × 3 elements may be multiplied in tiles, by Winograd's way: ``tile`` is their size.
    """

    function = method = False
    library = "a contraction"

    def check(self, a: Tensor, b: Tensor, letters: tuple[str, str, str], tile: int = 0) -> Any:
        return (a, b), {"letters": letters, "tile": tile}

    def subscripts(self, attrs: Any, a: Sequence[int], b: Sequence[int]) -> tuple[str, str, str]:
        return attrs["letters"]

    def infer(self, arrays, attrs):
        of_a, of_b, of_y = attrs["letters"]
        sizes = dict(zip(of_a + of_b, arrays[0].shape + arrays[1].shape, strict=True))
        return np.empty([sizes[x] for x in of_y], arrays[0].dtype)

    def eager(self, a, b, *, letters, tile):
        y = np.einsum(f"{letters[0]},{letters[1]}->{letters[2]}", a, b, optimize=True)
        return np.ascontiguousarray(y)

    def vjp_a(self, g, _y, _a, b, *, letters, tile):
        return contract(g, b, (letters[2], letters[1], letters[0]))

    def vjp_b(self, g, _y, a, _b, *, letters, tile):
        return contract(a, g, (letters[0], letters[2], letters[1]))


class Stored(Op):
    """The same elements, in memory of their own."""

    function = method = False

    def check(self, x: Tensor) -> Any:
        return (x,), {}

    def eager(self, x):
        return np.ascontiguousarray(x)

    def vjp_x(self, g, _y, _x):
        return g

    def at(self, b, i, x):
        return x[i]


sliding = registry["sliding"].call
contract = registry["contract"].call
stored = registry["stored"].call
STORED = registry["stored"]


def fits(*operands: Tensor) -> bool:
    """Whether there are products for these operands."""
    return all([t._array.dtype in KINDS and not is_zero(t._array.size) for t in operands])


def last(x: Tensor) -> Tensor:
    """Images with their channels last."""
    return x.permute(0, *range(2, x.ndim), 1)


def channels_second(x: Tensor) -> Tensor:
    """Images with their channels where users have them."""
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def framed(x: Tensor, low: Sizes, size: Sizes, groups: int, windows: bool, apart: bool) -> Tensor:
    """Images, channels last: of this ``size``, beginning ``low`` before them, zeros around.

    If groups are ``apart``, as lanes are, the first channels of all of them come first.
    """
    z = last(x)
    pads: list[int] = [0, 0]
    for n, before, whole in reversed([*zip(z.shape[1:-1], low, size, strict=True)]):
        pads += [before, whole - before - n]
    if not any(pads):
        z = stored(z) if windows else z
    elif all([type(n) is int and n <= 0 for n in pads]):  # a stride leaves the last places out
        z = stored(z) if windows else z
        for dim, (before, n) in enumerate(zip(low, size, strict=True), 1):
            z = z.narrow(dim, -before, n)
    else:
        z = ops.constant_pad_nd(z, pads, 0.0)
    if groups == 1:
        return z
    each = z.shape[-1] // groups
    if not apart:
        return z.view(*z.shape[:-1], groups, each)
    if each == 1:
        return z.unsqueeze(-2)
    return in_order(z.view(*z.shape[:-1], groups, each).transpose(-1, -2))


def in_order(x: Tensor) -> Tensor:
    """``x``, stored as its dimensions are."""
    return stored(x.reshape(-1)).view(x.shape)


def windows_of(x: Tensor, kernel: Sizes, geometry: Geometry, count: Sizes, apart: bool) -> Tensor:
    """The windows of a convolution over ``x``."""
    sides = zip(count, geometry.stride, kernel, geometry.dilation, strict=True)
    size = tuple([(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in sides])
    z = framed(x, geometry.padding, size, geometry.groups, prod(kernel) > 1, apart)
    return sliding(z, kernel, geometry.stride, geometry.dilation, count)


def grouped(w: Tensor, groups: int) -> Tensor:
    """A weight (o, c, *kernel), its outputs by groups."""
    return w if groups == 1 else w.view(groups, w.shape[0] // groups, *w.shape[1:])


def letters_of(dims: int, groups: int) -> tuple[str, str, str]:
    """Of places, positions in a window, and groups."""
    places, positions = [letters[:dims] for letters in LETTERS]
    return places, positions, "g" if groups > 1 else ""


def tile_of(v: Tensor, columns: int, geometry: Geometry, cost: Moved) -> int:
    """The size of the tiles in which windows of 3 × 3 elements are quickest multiplied; 0 for none.

    Tiles of m × m results take (m + 2)² products in the place of 9 m², but images, results and
    weight are written and read again at (m + 2)² points.
    """
    if not config.winograd or geometry._replace(padding=()) != PLAIN or v.shape[3:5] != (3, 3):
        return 0
    images, height, width, _, _, channels = [usual(n) for n in v.shape]
    if channels % LANES or columns % LANES:
        return 0
    costs = {0: 9 * images * height * width * channels * columns}
    for m, weight in cost.weight.items():
        tiles, points = images * -(-height // m) * -(-width // m), (m + 2) ** 2
        moved = cost.image * tiles * (channels + columns) + weight * channels * columns
        costs[m] = points * (tiles * channels * columns + moved)
    return min(costs, key=costs.__getitem__)


def are_apart(groups: int, channels: int, results: int) -> bool:
    """Whether groups of so few channels have no sums worth a matrix product, but fill lanes."""
    if groups == 1 or channels == 1:
        return groups > 1
    return groups % LANES == 0 and channels * results <= LANES


def channelwise(a: Tensor, b: Tensor, letters: tuple[str, str, str]) -> Tensor:
    """Products whose sums run over few channels: loops over windows, with groups innermost.

    Sums over images and places are taken line by line: a line is read for all positions of a window
    while it is near.
    """
    of_a, of_b, of_y = letters
    summed = [x for x in dict.fromkeys(of_a + of_b) if x not in of_y]
    own, order = [sorted(of, key="cog".find) for of in (of_b, of_y)]  # groups last
    b = in_order(aligned(b, of_b, own))  # or else each lane is read by itself
    line = summed[-1:]
    sizes = dict(zip(of_a, a.shape, strict=True))
    window = prod([sizes[x] for x in of_a if x in of_y and x not in "ngc"])
    if "n" not in summed or is_extent(window) or window > sizes[line[0]]:
        line = summed
    rest = [x for x in summed if x not in line]
    terms = [aligned(t, of, [*rest, *order, *line]) for t, of in ((a, of_a), (b, "".join(own)))]
    first = len(rest) + len(order)
    y = (terms[0] * terms[1]).sum(tuple(range(first, first + len(line))))
    if rest:
        y = stored(y).sum(tuple(range(len(rest))))
    return aligned(y, "".join(order), of_y)


def aligned(x: Tensor, letters: str, order: Sequence[str]) -> Tensor:
    """``x`` with dimensions in this order, of size 1 where it has none."""
    x = x.permute(*[letters.index(letter) for letter in order if letter in letters])
    for place, letter in enumerate(order):
        x = x if letter in letters else x.unsqueeze(place)
    return x


def biased(y: Tensor, bias: Tensor | None) -> Tensor:
    """Images, channels last, plus a number for each channel.

    Where channels do not fill registers, those of several places are taken together, and stored so:
    windows over the sum would take it apart again.
    """
    if bias is None:
        return y
    channels = y.shape[-1]
    together = LANES // gcd(LANES, channels)
    count = y.numel() // channels
    if together == 1 or channels > LANES or is_extent(count) or count % together:
        return y + bias
    several = stored(bias.repeat(together))
    return stored((y.view(-1, together * channels) + several).view(y.shape))


def convolution(
    x: Tensor, w: Tensor, geometry: Geometry, count: Sizes, bias: Tensor | None = None
) -> Tensor:
    """:class:`rushlight.ops.convolution.Convolve`."""
    dims, groups = len(count), geometry.groups
    p, k, g = letters_of(dims, groups)
    apart = are_apart(groups, w.shape[1], len(w) // groups)
    v = windows_of(x, w.shape[2:], geometry, count, apart)
    letters = f"n{p}{k}{'cg' if apart else g + 'c'}", f"{g}oc{k}", f"n{p}{g}o"
    if apart:
        y = channelwise(v, grouped(w, groups), letters).reshape(x.shape[0], *count, len(w))
        return channels_second(biased(y, bias))
    tile = tile_of(v, len(w), geometry, FORWARD)
    y = contract(v, grouped(w, groups), letters, tile)
    return channels_second(biased(y.view(x.shape[0], *count, len(w)), bias))


def convolution_weight(x: Tensor, y: Tensor, geometry: Geometry, kernel: Sizes) -> Tensor:
    """:class:`rushlight.ops.convolution.ConvolveWeight`."""
    dims, groups = len(kernel), geometry.groups
    p, k, g = letters_of(dims, groups)
    apart = are_apart(groups, x.shape[1] // groups, y.shape[1] // groups)
    v = windows_of(x, kernel, geometry, y.shape[2:], apart)
    r = last(y)
    if groups > 1:
        r = r.reshape(*r.shape[:-1], groups, r.shape[-1] // groups)
    letters = f"n{p}{k}{'cg' if apart else g + 'c'}", f"n{p}{g}o", f"{g}c{k}o"
    if apart:
        w = channelwise(v, r, letters)
    else:
        w = contract(v, r, letters, tile_of(v, y.shape[1], geometry, BACKWARD))
    at = {letter: d for d, letter in enumerate(f"{g}c{k}o")}
    w = w.permute(*[at[letter] for letter in f"{g}oc{k}"])
    return w if groups == 1 else w.reshape(y.shape[1], -1, *kernel)


def convolution_transposed(y: Tensor, w: Tensor, geometry: Geometry, size: Sizes) -> Any:
    """:class:`rushlight.ops.convolution.ConvolveTransposed` without a bias.

    Every ``stride``-th place of x meets the same part of the weight: these phases are convolutions
    of their own, and x is made of them in turn.
    """
    stride, dilation = geometry.stride, geometry.dilation
    if prod(stride) > PHASES or any(
        [s > 1 and d > 1 for s, d in zip(stride, dilation, strict=True)]
    ):
        return NotImplemented
    count = tuple([(n + s - 1) // s for n, s in zip(size, stride, strict=True)])
    offsets = [*product(*map(range, stride))]
    cuts = [[*map(cut_of, w.shape[2:], *geometry[:3], o)] for o in offsets]
    low = tuple([max(c.low for c in side) for side in zip(*cuts, strict=True)])
    whole = []
    for side, first, n in zip(zip(*cuts, strict=True), low, count, strict=True):
        whole.append(max(c.reach(n) + first - c.low for c in side))
    apart = are_apart(geometry.groups, w.shape[1], len(w) // geometry.groups)
    z = framed(y, low, tuple(whole), geometry.groups, prod(w.shape[2:]) > 1, apart)
    phases = [phase(z, low, w, geometry, count, cut) for cut in cuts]
    if len(phases) == 1:
        return channels_second(phases[0])
    sizes = [n * s for n, s in zip(count, stride, strict=True)]
    x = woven(phases, stride).view(y.shape[0], *sizes, phases[0].shape[-1])
    crop = (slice(None), *[slice(n) for n in size])
    return channels_second(x[crop])


def woven(phases: Sequence[Tensor], stride: Sizes) -> Tensor:
    """Phases (n, *count, channels) in turn, one line of channels after the other."""
    parts = [*phases]
    for s in reversed(stride):
        groups = [parts[k : k + s] for k in range(0, len(parts), s)]
        parts = [(ops.cat(group, -1) if s > 1 else group[0]).flatten(-2) for group in groups]
    return parts[0]


class Cut(NamedTuple):
    """The part of a weight that every ``stride``-th place meets, in one dimension.

    Args:
        begin: its first element.
        stride: the distance of its elements.
        kernel: how many they are.
        dilation: the distance of the places of y that they meet.
        low: how far before y the first of these is.
    """

    begin: int
    stride: int
    kernel: int
    dilation: int
    low: int

    def reach(self, count: int) -> int:
        """From the first place of y that is met to the last, for ``count`` places."""
        return count + (self.kernel - 1) * self.dilation


def cut_of(kernel: int, stride: int, padding: int, dilation: int, offset: int) -> Cut:
    """What the places offset, offset + stride, … of x meet."""
    begin = (offset + padding) % stride
    met = max(0, -(-(kernel - begin) // stride))
    low = (met - 1) * dilation - (offset + padding - begin) // stride
    return Cut(begin, stride, met, dilation, low)


def phase(
    z: Tensor, low: Sizes, w: Tensor, geometry: Geometry, count: Sizes, cuts: Sequence[Cut]
) -> Tensor:
    """Every ``stride``-th place of x, channels last; ``z`` is y, which begins at ``low``."""
    dims, groups = len(count), geometry.groups
    places, positions, g = letters_of(dims, groups)
    channels, kernel = w.shape[1] * groups, tuple([c.kernel for c in cuts])
    if 0 in kernel:
        return ops.zeros(z.shape[0], *count, channels, dtype=z.dtype)
    begins = [first - c.low for first, c in zip(low, cuts, strict=True)]
    ends = [b + c.reach(n) for b, c, n in zip(begins, cuts, count, strict=True)]
    if any(begins) or any([n != end for n, end in zip(z.shape[1:], ends, strict=False)]):
        place = (slice(None), *map(slice, begins, ends))
        z = z[place]
    v = sliding(z, kernel, (1,) * dims, tuple([-c.dilation for c in cuts]), count)
    if any([c.stride > 1 for c in cuts]):
        met = (slice(None), slice(None), *[slice(c.begin, None, c.stride) for c in cuts])
        w = w[met]
    apart, w = are_apart(groups, w.shape[1], len(w) // groups), grouped(w, groups)
    lanes = "og" if apart else f"{g}o"
    letters = f"n{places}{positions}{lanes}", f"{g}oc{positions}", f"n{places}{g}c"
    if apart:
        x = channelwise(v, w, letters)
    else:
        x = contract(v, w, letters, tile_of(v, channels, geometry, BACKWARD))
    return x.reshape(z.shape[0], *count, channels)
