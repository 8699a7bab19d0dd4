"""Choosing between arrays by a mask, without a branch per element."""

import numpy as np

# Below so many elements np.where is quicker; the temporaries of one block stay in the cache.
FEW, BLOCK = 1 << 13, 1 << 14
BITS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}


def choose(mask: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a`` where ``mask`` holds, else ``b``: arrays of one dtype, broadcast to a common shape.

    np.where takes a branch per element, which random masks mispredict. Large arrays are chosen
    bit by bit instead: (a & m) | (b & ~m), with m of all bits set where the mask holds.
    """
    bits = BITS.get(a.itemsize)
    if mask.size < FEW or bits is None or not mask.flags.c_contiguous:
        return np.where(mask, a, b)
    if not (fits(a, mask.shape) and fits(b, mask.shape)):
        return np.where(mask, a, b)
    y = np.empty(mask.size, bits)
    flags, first, second = mask.reshape(-1).view(np.int8), a.reshape(-1), b.reshape(-1)
    first, second = first.view(bits), second.view(bits)
    for start in range(0, y.size, BLOCK):
        part = slice(start, start + BLOCK)
        m = np.negative(flags[part]).astype(bits)
        chosen = np.bitwise_and(m, first if first.size == 1 else first[part], y[part])
        if b.ndim or second[0]:
            np.invert(m, m)
            chosen |= np.bitwise_and(m, second if second.size == 1 else second[part], m)
    return y.view(a.dtype).reshape(mask.shape)


def fits(a: np.ndarray, shape: tuple[int, ...]) -> bool:
    return not a.ndim or (a.shape == shape and a.flags.c_contiguous)
