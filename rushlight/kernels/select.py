"""Choosing between elements, without a branch for each."""

import numpy as np

# Below so many elements the plain way is quicker; the temporaries of one block stay in the cache.
FEW, BLOCK = 1 << 13, 1 << 14
BITS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def choose(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a`` where ``mask`` holds, else ``b``: arrays of one dtype, broadcast to a common shape.

    np.where takes a branch per element, which random masks mispredict. Large arrays are chosen
    bit by bit instead: (a & m) | (b & ~m), with m of all bits set where the mask holds.
    """
    bits = BITS.get(a.itemsize)
    if mask.size < FEW or bits is None or np.broadcast(mask, a, b).shape != mask.shape:
        return np.where(mask, a, b)
    if not a.ndim and not a.view(bits):
        mask, a, b = ~mask, b, a
    y = np.empty(mask.shape, bits)
    flags = np.ascontiguousarray(mask).reshape(-1).view(np.int8)
    first, second = [flat(t, mask.shape).view(bits) for t in (a, b)]
    result = y.reshape(-1)
    for start in range(0, y.size, BLOCK):
        part = slice(start, start + BLOCK)
        m = np.negative(flags[part]).astype(bits)
        chosen = np.bitwise_and(m, first if a.ndim == 0 else first[part], result[part])
        if b.ndim or second[0]:
            np.invert(m, m)
            chosen |= np.bitwise_and(m, second if b.ndim == 0 else second[part], m)
    return y.view(a.dtype)


def masked(mask: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``x`` where ``mask`` holds, else 0: the bits of ``x`` times 1 or 0."""
    bits = BITS.get(x.itemsize)
    if bits is None or mask.shape != x.shape:
        return choose(mask, x, np.zeros((), x.dtype))
    y = np.asarray(mask, bits)
    return np.multiply(y, x.view(bits), y).view(x.dtype)


def flat(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of ``a`` broadcast to ``shape``, in one row; of a 0-d array the one element."""
    return (
        a.reshape(1) if not a.ndim else np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1)
    )


def at_least(x: np.ndarray, low: np.ndarray) -> np.ndarray:
    """np.maximum(x, low); np.clip is the one that is vectorised for a single bound."""
    if x.size > FEW and not low.ndim and x.dtype.kind == "f":
        return np.clip(x, low, np.inf)
    return np.maximum(x, low)


def at_most(x: np.ndarray, high: np.ndarray) -> np.ndarray:
    """np.minimum(x, high); np.clip is the one that is vectorised for a single bound."""
    if x.size > FEW and not high.ndim and x.dtype.kind == "f":
        return np.clip(x, -np.inf, high)
    return np.minimum(x, high)


def between(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """np.clip, without what it takes to begin for small arrays."""
    return np.clip(x, low, high) if x.size > FEW else np.minimum(np.maximum(x, low), high)
