"""Matrix factorisations and solvers that ``numpy.linalg`` lacks, for batches of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

ndarray = np.ndarray
BLOCK = 32  # columns eliminated one by one before a matrix product updates the rest


def stack(a: ndarray) -> ndarray:
    """A copy of the matrices of ``a`` with all batch dimensions as one."""
    return np.array(a).reshape(prod(a.shape[:-2]), *a.shape[-2:])


def magnitude(x: ndarray) -> ndarray:
    """The size by which LAPACK chooses pivots: |x|, or |re| + |im|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def solve_triangular(a: ndarray, b: ndarray, upper: bool, unit: bool = False) -> ndarray:
    """x with a·x = b, reading one triangle of ``a`` (and not its diagonal, if that is ``unit``)."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])))
    substitute(a, x, upper, unit)
    return x


def substitute(a: ndarray, x: ndarray, upper: bool, unit: bool) -> None:
    """Replaces ``x`` by a⁻¹·x: half of the unknowns first, then the others less their share."""
    n = a.shape[-1]
    if n > BLOCK:
        first, last = slice(n // 2), slice(n // 2, n)
        if upper:
            first, last = last, first
        substitute(a[..., first, first], x[..., first, :], upper, unit)
        x[..., last, :] -= a[..., last, first] @ x[..., first, :]
        substitute(a[..., last, last], x[..., last, :], upper, unit)
        return
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(i)
        row = x[..., i : i + 1, :]
        row -= a[..., i : i + 1, known] @ x[..., known, :]
        if not unit:
            row /= a[..., i : i + 1, i : i + 1]


def lu_factor(a: ndarray, pivot: bool = True) -> tuple[ndarray, ndarray, ndarray]:
    """LU decomposition with partial pivoting: (L and U in one matrix, pivots, info).

    As in LAPACK, row i was swapped with row ``pivots[i] - 1``, and ``info`` is 0 or the number of
    the first pivot that is zero.
    """
    (m, n), batch = a.shape[-2:], a.shape[:-2]
    lu = stack(a)
    count = len(lu)
    every = np.arange(count)
    pivots = np.tile(np.arange(1, min(m, n) + 1, dtype=np.int32), (count, 1))
    info = np.zeros(count, np.int32)
    for start in range(0, min(m, n), BLOCK):
        stop = min(start + BLOCK, m, n)
        for j in range(start, stop):
            if pivot:
                best = j + np.argmax(magnitude(lu[:, j:, j]), axis=1)
                pivots[:, j] = best + 1
                row = lu[every, best]
                lu[every, best] = lu[:, j]
                lu[:, j] = row
            top = lu[:, j, j]
            if not top.all():
                info[(info == 0) & (top == 0)] = j + 1
                top = np.where(top == 0, 1, top)
            below = lu[:, j + 1 :, j]
            below /= top[:, None]
            lu[:, j + 1 :, j + 1 : stop] -= below[:, :, None] * lu[:, j, None, j + 1 : stop]
        done, rest = slice(start, stop), slice(stop, None)
        substitute(lu[:, done, done], lu[:, done, rest], upper=False, unit=True)
        lu[:, rest, rest] -= lu[:, rest, done] @ lu[:, done, rest]
    return lu.reshape(a.shape), pivots.reshape(*batch, min(m, n)), info.reshape(batch)


def permutation(pivots: ndarray, size: int) -> ndarray:
    """Where each row went: row i of P·A is row ``permutation[i]`` of A, for LAPACK's pivots."""
    flat = pivots.reshape(prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.tile(np.arange(size), (len(flat), 1))
    every = np.arange(len(flat))
    for i in range(flat.shape[1]):
        other = flat[:, i] - 1
        order[every, other], order[:, i] = order[:, i].copy(), order[every, other]
    return order.reshape(*pivots.shape[:-1], size)


def first_failure(a: ndarray) -> ndarray:
    """For each Hermitian matrix (lower triangles): 0, or the first leading minor that is not
    positive definite."""
    rest = stack(a)
    info = np.zeros(len(rest), np.int32)
    for j in range(rest.shape[-1]):
        top = rest[:, j, j].real
        info[(info == 0) & ~(top > 0)] = j + 1
        column = rest[:, j + 1 :, j] / np.where(top > 0, top, 1)[:, None]
        rest[:, j + 1 :, j + 1 :] -= column[:, :, None] * rest[:, j + 1 :, j].conj()[:, None, :]
    return info.reshape(a.shape[:-2])


PADE = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800),
    *(129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920),
    *(40840800, 960960, 16380, 182, 1),
)
"""Coefficients of the [13/13] Padé approximant of exp, exact to double precision for norms below
PADE_RADIUS."""
PADE_RADIUS = 5.371920351148152


def matrix_exp(a: ndarray) -> ndarray:
    """exp of each matrix by scaling and squaring: exp(A) = exp(A / 2ˢ)^(2ˢ)."""
    wide = stack(a).astype(np.complex128 if a.dtype.kind == "c" else np.float64)
    n = wide.shape[-1]
    if not wide.size:
        return np.array(a)
    norm = np.abs(wide).sum(axis=1).max(axis=1)
    finite = np.isfinite(norm)
    ratio = np.where(finite, norm, 0) / PADE_RADIUS
    squarings = np.ceil(np.log2(np.maximum(ratio, 1))).astype(int)
    x = np.where(finite[:, None, None], wide, 0) / np.exp2(squarings)[:, None, None]
    powers = [np.broadcast_to(np.eye(n), x.shape), x @ x]
    powers += [powers[1] @ powers[1]]
    powers += [powers[2] @ powers[1]]

    def series(first: int) -> ndarray:
        low = sum(PADE[first + 2 * i] * powers[i] for i in range(4))
        high = sum(PADE[first + 6 + 2 * i] * powers[i] for i in range(1, 4))
        return low + powers[3] @ high

    odd, even = x @ series(1), series(0)
    y = np.linalg.solve(even - odd, even + odd)
    for i in range(squarings.max()):
        more = squarings > i
        y[more] = y[more] @ y[more]
    y[~finite] = np.nan
    return y.reshape(a.shape).astype(a.dtype)


BUNCH_KAUFMAN = (1 + 17**0.5) / 8


def ldl_factor(a: ndarray, hermitian: bool) -> tuple[ndarray, ndarray, ndarray]:
    """A = L·D·Lᵀ (Lᴴ if ``hermitian``) by Bunch and Kaufman's pivoting, from the lower triangles.

    Returns what LAPACK's sytrf does: D's 1×1 and 2×2 blocks and L below them in one matrix,
    pivots (negative for both rows of a 2×2 block), and 0 or the first zero pivot.
    """
    ld = stack(a)
    pivots = np.empty(ld.shape[:-1], np.int32)
    hermitian = hermitian and a.dtype.kind == "c"
    info = np.array([ldl_one(m, p, hermitian) for m, p in zip(ld, pivots, strict=True)], np.int32)
    ld = np.tril(ld).reshape(a.shape)
    return ld, pivots.reshape(a.shape[:-1]), info.reshape(a.shape[:-2])


def ldl_one(a: ndarray, pivots: ndarray, hermitian: bool) -> int:
    """Factorises one matrix in place."""
    n, info, k = len(a), 0, 0
    while k < n:
        size, other = choose_pivot(a, k, hermitian)
        if size == 0:
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        swap_symmetric(a, k, k + size - 1, other, hermitian)
        rest = slice(k + size, n)
        left = a[rest, k : k + size].copy()
        block = a[k : k + size, k : k + size]
        a[rest, k : k + size] = left @ np.linalg.inv(full_block(block, hermitian))
        update = a[rest, k : k + size] @ (left.conj() if hermitian else left).T
        a[rest, rest] -= np.tril(update)
        if hermitian:
            np.einsum("ii->i", a).imag = 0
        pivots[k : k + size] = other + 1 if size == 1 else -(other + 1)
        k += size
    return info


def full_block(block: ndarray, hermitian: bool) -> ndarray:
    """A pivot block with its upper triangle filled in."""
    lower = np.tril(block, -1)
    return np.diag(np.diag(block)) + lower + (lower.conj() if hermitian else lower).T


def choose_pivot(a: ndarray, k: int, hermitian: bool) -> tuple[int, int]:
    """(size of the pivot block at k, row to bring next to it); size 0 for a column of zeros."""
    below = magnitude(a[k + 1 :, k])
    diagonal = magnitude(a[k, k].real if hermitian else a[k, k])
    largest = below.max(initial=0)
    if max(diagonal, largest) == 0:
        return 0, k
    if diagonal >= BUNCH_KAUFMAN * largest:
        return 1, k
    r = k + 1 + int(np.argmax(below))
    row = max(magnitude(a[r, k:r]).max(initial=0), magnitude(a[r + 1 :, r]).max(initial=0))
    if diagonal >= BUNCH_KAUFMAN * largest * (largest / row):
        return 1, k
    if magnitude(a[r, r].real if hermitian else a[r, r]) >= BUNCH_KAUFMAN * row:
        return 1, r
    return 2, r


def swap_symmetric(a: ndarray, k: int, i: int, r: int, hermitian: bool) -> None:
    """Exchanges rows and columns i < r of the part from ``k`` on, in its lower triangle."""
    if i == r:
        return
    a[r + 1 :, i], a[r + 1 :, r] = a[r + 1 :, r].copy(), a[r + 1 :, i].copy()
    between, across = a[i + 1 : r, i].copy(), a[r, i + 1 : r].copy()
    if hermitian:
        between, across = between.conj(), across.conj()
        a[r, i] = a[r, i].conj()
    a[i + 1 : r, i], a[r, i + 1 : r] = across, between
    a[i, i], a[r, r] = a[r, r], a[i, i]
    a[i, k:i], a[r, k:i] = a[r, k:i].copy(), a[i, k:i].copy()


def ldl_solve(ld: ndarray, pivots: ndarray, b: ndarray, hermitian: bool) -> ndarray:
    """x with A·x = b, from what :func:`ldl_factor` returns."""
    batch = np.broadcast_shapes(ld.shape[:-2], b.shape[:-2])
    n, count = ld.shape[-1], prod(batch)
    factors = np.broadcast_to(ld, (*batch, n, n)).reshape(count, n, n)
    swaps = np.broadcast_to(pivots, (*batch, n)).reshape(count, n)
    x = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), order="C")
    for a, p, y in zip(factors, swaps, x.reshape(count, *b.shape[-2:]), strict=True):
        blocks = list(pivot_blocks(p))
        for k, size, r in blocks:
            i = k + size - 1
            y[[i, r]] = y[[r, i]]
            y[k + size :] -= a[k + size :, k : k + size] @ y[k : k + size]
        for k, size, _ in blocks:
            block = full_block(a[k : k + size, k : k + size], hermitian)
            y[k : k + size] = np.linalg.solve(block, y[k : k + size])
        for k, size, r in reversed(blocks):
            below = a[k + size :, k : k + size]
            y[k : k + size] -= (below.conj() if hermitian else below).T @ y[k + size :]
            i = k + size - 1
            y[[i, r]] = y[[r, i]]
    return x


def pivot_blocks(pivots: ndarray) -> Iterator[tuple[int, int, int]]:
    """(first row, size, row swapped with the last) of each diagonal block."""
    k = 0
    while k < len(pivots):
        size = 1 if pivots[k] > 0 else 2
        yield k, size, abs(int(pivots[k])) - 1
        k += size
