"""Derivatives checked against finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.backward import as_tuple, grad
from rushlight.autograd.functional import jvp
from rushlight.tensor import Tensor, wrap


class GradcheckError(RuntimeError):
    """What :func:`gradcheck` and :func:`gradgradcheck` raise when a derivative is wrong."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    r"""Whether the gradients of ``func`` are those that finite differences show.

    For each input x that requires a gradient and each result y, the Jacobian from backward is
    compared with :math:`(y(x + εe_i) - y(x - εe_i)) / 2ε`. Complex numbers count as pairs of real
    ones: the Jacobians of the real and of the imaginary part of y are checked apart.

    Args:
        func: takes ``inputs`` and returns a tensor or several.
        inputs: tensors, of double precision where they require a gradient; other values pass.
        eps: the step of the finite differences.
        raise_exception: raise :class:`GradcheckError` with both Jacobians, or return False.
        nondet_tol: how much two runs of one backward may differ.
        check_undefined_grad: leave the gradients of the other results undefined, rather than zero,
            while the Jacobian of one is computed.
        check_grad_dtypes: a gradient must have the dtype of its input.
        check_batched_grad: ``is_grads_batched`` must give what one gradient at a time does.
        check_batched_forward_grad: accepted; products are computed one tangent at a time.
        check_forward_ad: check Jacobian-vector products too.
        check_backward_ad: check backward.
        fast_mode: compare one random projection of each Jacobian.
        masked: accepted; there are no sparse tensors.

    >>> x = rl.tensor([0.5, 2.0], dtype=rl.float64, requires_grad=True)
    >>> rl.autograd.gradcheck(lambda x: x.sin() * x, x)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "Expected at least one of check_forward_ad or check_backward_ad to be True"
        )
    if check_batched_grad and not check_backward_ad:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_backward_ad to be True"
        )
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError(
            "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
        )
    given = as_tuple(inputs)
    check_inputs(given)
    check = Check(func, given, eps, atol, rtol, check_undefined_grad)
    try:
        if not check.outputs:
            check.constant()
            return True
        if check_backward_ad:
            if fast_mode:
                check.projections()
            else:
                check.jacobians()
            check.repeatable(nondet_tol)
            check.proportional(check_grad_dtypes)
            if check_batched_grad:
                check.batched()
        if check_forward_ad:
            check.forward()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of ``func`` are those that finite differences show.

    Checks, as :func:`gradcheck` does, the function that maps inputs and ``grad_outputs`` (random
    ones if None) to the gradients of the inputs.

    Args:
        gen_non_contig_grad_outputs: give the random ``grad_outputs`` odd strides.
        check_fwd_over_rev: check Jacobian-vector products of the gradient.
        check_rev_over_rev: check backward through the gradient.

    >>> x = rl.tensor([0.5, 2.0], dtype=rl.float64, requires_grad=True)
    >>> rl.autograd.gradgradcheck(lambda x: x.sin() * x, x)
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError(
            "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
        )
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_undefined_grad=True requires check_rev_over_rev to be True"
        )
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError(
            "Setting check_batched_grad=True requires check_rev_over_rev to be True"
        )
    given = as_tuple(inputs)
    if grad_outputs is None:
        outputs = differentiable(func(*given))
        seeds = random_like(outputs, np.random.default_rng(0), gen_non_contig_grad_outputs)
    else:
        seeds = as_tuple(grad_outputs)
    tracked = [isinstance(t, Tensor) and t.requires_grad for t in given]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        points, directions = args[: len(given)], args[len(given) :]
        wanted = [t for t, track in zip(points, tracked, strict=True) if track]
        outputs = differentiable(func(*points))
        found = grad(outputs, wanted, directions, create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        gradients,
        (*given, *seeds),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


class Check:
    """One function at one point: its Jacobians by backward and by finite differences.

    A Jacobian has a row per element of the input and a column per element of the real or of the
    imaginary part of the result. The row of a complex element a + ib is ∂y/∂a + i ∂y/∂b, which is
    what backward calls the gradient.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: tuple[Any, ...],
        eps: float,
        atol: float,
        rtol: float,
        undefined: bool,
    ) -> None:
        self.function, self.inputs = function, inputs
        self.eps, self.atol, self.rtol, self.undefined = eps, atol, rtol, undefined
        self.random = np.random.default_rng(0)
        self.outputs = differentiable(function(*inputs))
        self.variables = [
            (i, t) for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad
        ]

    def jacobians(self) -> None:
        """Compares all Jacobians in full."""
        numerical = [list(self.numerical(x)) for _, x in self.variables]
        for o, y in enumerate(self.outputs):
            for part, unit in enumerate(units(y)):
                columns = self.analytical(o, unit)
                for v, (i, _) in enumerate(self.variables):
                    self.compare(columns[v], numerical[v][o][part], o, i, unit)

    def projections(self) -> None:
        """Compares u · J v for random u and v; all of J only if they differ."""
        for o, u in enumerate(random_like(self.outputs, self.random)):
            grads = self.backward(o, u)
            for v, (_, x) in enumerate(self.variables):
                (direction,) = random_like((x,), self.random)
                slope = self.slope(x, direction._array)[o]
                numerical = inner(u._array.ravel(), slope)
                analytical = inner(direction._array, grads[v])
                scale = np.abs(u._array).sum() * np.abs(direction._array).sum()
                if not np.allclose(analytical, numerical, self.rtol, self.atol * scale):
                    self.jacobians()
                    raise GradcheckError(
                        f"Jacobian mismatch for output {o} with respect to input "
                        f"{self.variables[v][0]} in fast mode, though not in slow mode: "
                        f"numerical {numerical}, analytical {analytical}"
                    )

    def constant(self) -> None:
        """Results without a gradient must not depend on the inputs."""
        for _, x in self.variables:
            for parts in self.numerical(x):
                if any([np.any(jacobian) for jacobian in parts]):
                    raise GradcheckError("Numerical gradient for function expected to be zero")

    def repeatable(self, tolerance: float) -> None:
        """One backward run twice gives one result."""
        for o, g in enumerate(random_like(self.outputs, self.random)):
            for a, b in zip(self.backward(o, g), self.backward(o, g), strict=True):
                if not np.allclose(a, b, rtol=0, atol=tolerance, equal_nan=True):
                    raise GradcheckError(
                        "Backward is not reentrant, i.e., running backward with same input and "
                        "grad_output multiple times gives different values, although analytical "
                        "gradient matches numerical gradient. The tolerance for nondeterminism "
                        f"was {tolerance}."
                    )

    def proportional(self, check_dtypes: bool) -> None:
        """The gradient is zero if those of the results are, and is like its input."""
        wanted = [x for _, x in self.variables]
        zeros = [wrap(np.zeros_like(y._array)) for y in self.outputs]
        found = grad(self.outputs, wanted, zeros, retain_graph=True, allow_unused=True)
        for x, g in zip(wanted, found, strict=True):
            if g is None:
                continue
            if np.any(g._array != 0):
                raise GradcheckError("backward not multiplied by grad_output")
            if check_dtypes and g.dtype != x.dtype:
                raise GradcheckError(f"Gradient has dtype mismatch: {g.dtype} for {x.dtype}")
            if g.shape != x.shape:
                raise GradcheckError(f"grad is incorrect size: {g.shape} for {x.shape}")

    def batched(self) -> None:
        """Gradients asked for together are those asked for one by one."""
        wanted = [x for _, x in self.variables]
        for o, y in enumerate(self.outputs):
            pair = [g for _ in range(2) for g in random_like((y,), self.random)]
            together = wrap(np.stack([g._array for g in pair]))
            found = grad(
                y, wanted, together, retain_graph=True, allow_unused=True, is_grads_batched=True
            )
            for row, g in enumerate(pair):
                for one, all_rows in zip(self.backward(o, g), found, strict=True):
                    if all_rows is not None and not np.allclose(one, all_rows._array[row]):
                        raise GradcheckError(f"batched gradients of output {o} differ")

    def forward(self) -> None:
        """Compares J v with finite differences, for each unit vector v of a real input."""
        for i, x in self.variables:

            def along(point: Tensor, position: int = i) -> Any:
                args = [*self.inputs[:position], point, *self.inputs[position + 1 :]]
                return differentiable(self.function(*args))

            for index in np.ndindex(x._array.shape):
                for unit in units(x):
                    v = np.zeros_like(x._array)
                    v[index] = unit
                    products = as_tuple(jvp(along, x, wrap(v))[1])
                    for o, (a, b) in enumerate(zip(products, self.slope(x, v), strict=True)):
                        if not np.allclose(a._array.ravel(), b, self.rtol, self.atol):
                            raise GradcheckError(
                                f"Jacobian-vector product of output {o} with respect to input {i}"
                                f" at {index},\nnumerical:{wrap(b)}\nanalytical:{a}\n"
                            )

    def analytical(self, o: int, unit: complex) -> list[np.ndarray]:
        """The Jacobians of the part ``unit`` (1 or 1j) of output ``o``, one per variable."""
        y = self.outputs[o]._array
        columns: list[list[np.ndarray]] = [[] for _ in self.variables]
        for index in np.ndindex(y.shape):
            g = np.zeros_like(y)
            g[index] = unit
            for column, r in zip(columns, self.backward(o, wrap(g)), strict=True):
                column.append(r.ravel())
        return [
            np.stack(column, 1) if column else np.zeros((x.numel(), 0))
            for column, (_, x) in zip(columns, self.variables, strict=True)
        ]

    def backward(self, o: int, g: Tensor) -> list[np.ndarray]:
        """The gradients of output ``o``, given its own, for the variables."""
        outputs, grads = self.outputs[o : o + 1], [g]
        if not self.undefined:
            outputs = self.outputs
            grads = [g if i == o else wrap(np.zeros_like(y._array)) for i, y in enumerate(outputs)]
        wanted = [x for _, x in self.variables]
        found = grad(outputs, wanted, grads, retain_graph=True, allow_unused=True)
        return [
            np.zeros(x._array.shape) if r is None else wide(r._array)
            for x, r in zip(wanted, found, strict=True)
        ]

    def numerical(self, x: Tensor) -> Iterator[list[np.ndarray]]:
        """For each output the Jacobians of its real and, if complex, its imaginary part."""
        rows = []
        for index in np.ndindex(x._array.shape):
            v = np.zeros_like(x._array)
            row = []
            for unit in units(x):
                v[index] = unit
                row.append((unit, self.slope(x, v)))
            rows.append(row)
        kind = np.complex128 if x._array.dtype.kind == "c" else np.float64
        for o, y in enumerate(self.values()):
            parts = [np.zeros((len(rows), y.size), kind) for _ in range(1 + (y.dtype.kind == "c"))]
            for r, row in enumerate(rows):
                for unit, slopes in row:
                    slope = slopes[o]
                    for jacobian, part in zip(parts, (slope.real, slope.imag), strict=False):
                        jacobian[r] += unit * part
            yield parts

    def slope(self, x: Tensor, v: np.ndarray) -> list[np.ndarray]:
        """The derivative of each output along ``v``, a direction of the input ``x``."""
        array = x._array
        point = array.copy()
        try:
            array[...] = point + self.eps * v
            after = self.values()
            array[...] = point - self.eps * v
            before = self.values()
        finally:
            array[...] = point
        for a, b in zip(after, before, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype:
                raise AssertionError(
                    "Expected `func` to return outputs with the same shape and dtype when inputs "
                    f"are perturbed by {self.eps}, but got {a.shape} {a.dtype} and {b.shape} "
                    f"{b.dtype}"
                )
        return [(a - b) / (2 * self.eps) for a, b in zip(after, before, strict=True)]

    def values(self) -> list[np.ndarray]:
        """The differentiable outputs, or all if none is, as they are now."""
        results = self.function(*self.inputs)
        if self.outputs:
            return [flat_copy(y) for y in differentiable(results)]
        return [flat_copy(y) for y in as_tuple(results) if is_inexact(y)]

    def compare(self, a: np.ndarray, n: np.ndarray, o: int, i: int, unit: complex) -> None:
        if np.allclose(a, n, self.rtol, self.atol):
            return
        part = ""
        if self.outputs[o]._array.dtype.kind == "c":
            name = "real" if unit == 1 else "imaginary"
            part = f"While considering the {name} part of complex outputs only, "
        raise GradcheckError(
            f"{part}Jacobian mismatch for output {o} with respect to input {i},\n"
            f"numerical:{wrap(n)}\nanalytical:{wrap(a)}\n"
        )


def check_inputs(inputs: Sequence[Any]) -> None:
    tracked = [(i, t) for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not tracked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    for i, t in tracked:
        if t._array.dtype not in (np.float64, np.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or "
                f"complex, but {t.dtype}. This check will likely fail if all the inputs are not "
                "of double precision floating point or complex.",
                stacklevel=3,
            )
        overlaps = [s == 0 and n > 1 for s, n in zip(t._array.strides, t._array.shape, strict=True)]
        if t._array.size and any(overlaps):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs "
                "that are non-overlapping to be able to compute the numerical gradients correctly. "
                "You should call .contiguous on the input before passing it to gradcheck."
            )


def differentiable(results: Any) -> tuple[Tensor, ...]:
    return tuple([t for t in as_tuple(results) if isinstance(t, Tensor) and t.requires_grad])


def is_inexact(t: Any) -> bool:
    return isinstance(t, Tensor) and t._array.dtype.kind in "fcV"


def units(t: Tensor) -> tuple[complex, ...]:
    """The directions in which one element of ``t`` can move."""
    return (1, 1j) if t._array.dtype.kind == "c" else (1,)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def flat_copy(t: Tensor) -> np.ndarray:
    return wide(t._array).ravel()


def inner(a: np.ndarray, b: np.ndarray) -> float:
    """The inner product of real vectors, complex numbers counting as pairs."""
    return float((np.conj(a) * b).real.sum())


def random_like(
    tensors: Sequence[Tensor], random: np.random.Generator, strides: bool = False
) -> tuple[Tensor, ...]:
    """Tensors like those given, with elements in [-1, 1), which require gradients."""
    made = []
    for t in tensors:
        shape, kind = t._array.shape, t._array.dtype
        values = random.uniform(-1, 1, (*shape, 2))
        array = values[..., 0] + 1j * values[..., 1] if kind.kind == "c" else values[..., 0]
        if strides and shape:
            array = np.stack([array, array], -1).astype(kind)[..., 0]
        else:
            array = array.astype(kind, order="C")
        made.append(wrap(array).requires_grad_())
    return tuple(made)
