"""Derivatives of functions: products with the Jacobian and the Hessian, and these in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.backward import grad
from rushlight.autograd.modes import enable_grad
from rushlight.autograd.stack import stack
from rushlight.errors import kind
from rushlight.tensor import Tensor, literal

Tensors = tuple[Tensor, ...]


def vjp(
    func: Callable[..., Any],
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of ``func`` and vᵀJ: a vector times its Jacobian.

    Args:
        v: of the shapes of the results; may be left out for a single result of one element.
        create_graph: make the answer differentiable.
        strict: an error, rather than zeros, if a result does not depend on an input.

    >>> rl.autograd.functional.vjp(lambda x: x * x, rl.tensor([1.0, 2.0]), rl.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        call = Call("vjp", func, inputs, create_graph, strict)
        vector = call.vector(
            v, call.outputs, call.several_outputs, "user-provided function returns"
        )
        grads = gradients(call.outputs, call.inputs, vector, create_graph)
        products = call.complete(grads, call.inputs, "output", "jacobian")
    return call.finish(call.outputs, call.several_outputs), call.finish(products, call.several)


def jvp(
    func: Callable[..., Any],
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of ``func`` and Jv: its Jacobian times a vector.

    uᵀJ is linear in u and its derivative is J: backward through backward gives Jv.

    Args:
        v: of the shapes of the inputs; may be left out for a single input of one element.
        create_graph: make the answer differentiable.
        strict: an error, rather than zeros, if a result does not depend on an input.

    >>> rl.autograd.functional.jvp(lambda x: x * x, rl.tensor([1.0, 2.0]), rl.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        call = Call("jvp", func, inputs, create_graph, strict)
        vector = call.vector(v, call.inputs, call.several, "input to the user-provided function is")
        seeds, pulled = call.pullback()
        call.complete(pulled, call.inputs, "output", "")
        grads = gradients(pulled, seeds, vector, create_graph)
        products = call.complete(grads, call.outputs, "gradient", "jacobian")
    return (
        call.finish(call.outputs, call.several_outputs),
        call.finish(products, call.several_outputs),
    )


def jacobian(
    func: Callable[..., Any],
    inputs: Tensor | Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of ``func``: ``jacobian[i][j]`` is ∂outputs[i] / ∂inputs[j].

    It has the dimensions of the output followed by those of the input. The index i is left out if
    ``func`` returns a tensor, j if ``inputs`` is one.

    Args:
        create_graph: make the answer differentiable.
        strict: an error, rather than zeros, if an output does not depend on an input.
        vectorize: accepted; the answer is the same.
        strategy: "reverse-mode" computes it by rows, "forward-mode" by columns.

    >>> rl.autograd.functional.jacobian(lambda x: x * x, rl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    by_rows = is_reverse(strategy)
    with enable_grad():
        call = Call("jacobian", func, inputs, create_graph, strict)
        blocks = call.rows() if by_rows else call.columns()
    answer = [call.finish(row, call.several) for row in blocks]
    return tuple(answer) if call.several_outputs else answer[0]


def hessian(
    func: Callable[..., Any],
    inputs: Tensor | Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of ``func``, which returns one element: its second derivatives.

    ``hessian[i][j]`` is ∂²func / ∂inputs[i] ∂inputs[j]; both indices are left out if ``inputs`` is
    a tensor. The arguments are those of :func:`jacobian`.

    >>> rl.autograd.functional.hessian(lambda x: x.pow(3).sum(), rl.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    is_reverse(outer_jacobian_strategy)

    def slope(*points: Tensor) -> Any:
        call = Call("hessian", func, points, True, strict)
        grads = gradients(call.scalar(), call.inputs, None, True)
        return call.complete(grads, call.inputs, "output", "jacobian")

    points, several = as_tensors(inputs, "inputs", "hessian")
    rows = jacobian(slope, points, create_graph, strict, vectorize, outer_jacobian_strategy)
    return rows if several else rows[0][0]


def vhp(
    func: Callable[..., Any],
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Any]:
    """The value of ``func``, which returns one element, and vᵀH: a vector times its Hessian.

    The arguments are those of :func:`jvp`.

    >>> x, v = rl.tensor([1.0, 2.0]), rl.tensor([1.0, 0.5])
    >>> rl.autograd.functional.vhp(lambda x: x.pow(3).sum(), x, v)
    (tensor(9.), tensor([6., 6.]))
    """
    return hessian_product("vhp", func, inputs, v, create_graph, strict)


def hvp(
    func: Callable[..., Any],
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Tensor, Any]:
    """The value of ``func``, which returns one element, and Hv: its Hessian times a vector.

    The Hessian of a twice continuously differentiable function is symmetric, so this is vᵀH.
    The arguments are those of :func:`jvp`.

    >>> x, v = rl.tensor([1.0, 2.0]), rl.tensor([1.0, 0.5])
    >>> rl.autograd.functional.hvp(lambda x: x.pow(3).sum(), x, v)
    (tensor(9.), tensor([6., 6.]))
    """
    return hessian_product("hvp", func, inputs, v, create_graph, strict)


def hessian_product(
    name: str,
    func: Callable[..., Any],
    inputs: Tensor | Tensors,
    v: Tensor | Tensors | None,
    create_graph: bool,
    strict: bool,
) -> tuple[Tensor, Any]:
    with enable_grad():
        call = Call(name, func, inputs, create_graph, strict)
        vector = call.vector(v, call.inputs, call.several, "input to the user-provided function is")
        slopes = gradients(call.scalar(), call.inputs, None, True)
        if strict:
            call.complete(slopes, call.inputs, "output", "jacobian", differentiable=True)
        grads = gradients(slopes, call.inputs, vector, create_graph)
        products = call.complete(grads, call.inputs, "jacobian", "hessian")
    return call.finish(call.outputs, False), call.finish(products, call.several)


class Call:
    """A function called on copies of its inputs that require gradients."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        inputs: Any,
        create_graph: bool,
        strict: bool,
    ) -> None:
        self.name, self.create_graph, self.strict = name, create_graph, strict
        given, self.several = as_tensors(inputs, "inputs", name)
        self.inputs = tuple([tracked(t, create_graph) for t in given])
        results = func(*self.inputs)
        what = "outputs of the user-provided function"
        self.outputs, self.several_outputs = as_tensors(results, what, name)
        for i, y in enumerate(self.outputs):
            if strict and not y.requires_grad:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The "
                    "outputs must be computed in a differentiable manner from the input when "
                    "running in strict mode."
                )

    def vector(self, v: Any, like: Tensors, several: bool, source: str) -> Tensors | None:
        """``v`` checked to be of the sizes of ``like``; None if that is one number."""
        if v is None:
            if len(like) != 1 or like[0].numel() != 1:
                raise RuntimeError(
                    f"The vector v can only be None if the {source} a single Tensor with a single "
                    f"element, got {', '.join([str(list(t.shape)) for t in like])}"
                )
            return (like[0].new_ones(like[0].shape),)
        vectors, _ = as_tensors(v, "v", self.name)
        if len(vectors) != len(like):
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}."
                if several
                else "The given v should contain a single Tensor."
            )
        for i, (t, other) in enumerate(zip(vectors, like, strict=True)):
            if t.shape != other.shape:
                entry = f"Entry {i} in " if several else ""
                raise RuntimeError(
                    f"{entry}v has invalid size: should be {other.shape} but got {t.shape}."
                )
        return vectors if self.create_graph else tuple([t.detach() for t in vectors])

    def scalar(self) -> Tensors:
        """The outputs of a function that must return one element."""
        if self.several_outputs:
            raise RuntimeError(f"The function given to {self.name} should return a single Tensor")
        if self.outputs[0].numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {self.name} should contain a "
                f"single element, got shape {list(self.outputs[0].shape)}"
            )
        return self.outputs

    def pullback(self) -> tuple[Tensors, tuple[Tensor | None, ...]]:
        """Vectors u, and uᵀJ as a function of them."""
        seeds = tuple([seed_like(y) for y in self.outputs])
        return seeds, gradients(self.outputs, self.inputs, seeds, True)

    def complete(
        self,
        grads: Sequence[Tensor | None],
        like: Tensors,
        source: str,
        derivative: str,
        differentiable: bool = False,
    ) -> Tensors:
        """``grads`` with zeros for None; in strict mode that is an error instead.

        So is a gradient that cannot be differentiated, if it should be.
        """
        for i, g in enumerate(grads) if self.strict else ():
            if g is None:
                raise RuntimeError(
                    f"The {source} of the user-provided function is independent of input {i}. "
                    "This is not allowed in strict mode."
                )
            if derivative and (self.create_graph or differentiable) and not g.requires_grad:
                raise RuntimeError(
                    f"The {derivative} of the user-provided function is independent of input {i}. "
                    "This is not allowed in strict mode when create_graph=True."
                )
        pairs = zip(grads, like, strict=True)
        return tuple([zeros_like(t) if g is None else g for g, t in pairs])

    def rows(self) -> list[Tensors]:
        """The blocks of the Jacobian, one backward for each element of the outputs."""
        blocks = []
        for y in self.outputs:
            found = []
            for unit in basis(y):
                grads = gradients((y,), self.inputs, (unit,), self.create_graph, retain_graph=True)
                found.append(self.complete(grads, self.inputs, "output", "jacobian"))
            blocks.append(
                tuple(
                    [
                        stack([row[j] for row in found], x).reshape((*y.shape, *x.shape))
                        for j, x in enumerate(self.inputs)
                    ]
                )
            )
        return blocks

    def columns(self) -> list[Tensors]:
        """The blocks of the Jacobian, one product Jv for each element of the inputs."""
        seeds, pulled = self.pullback()
        by_input = []
        for x, p in zip(self.inputs, pulled, strict=True):
            found = []
            for unit in basis(x):
                grads = gradients((p,), seeds, (unit,), self.create_graph, retain_graph=True)
                found.append(self.complete(grads, self.outputs, "output", "jacobian"))
            by_input.append(
                [
                    stack([column[i] for column in found], y)
                    .movedim(0, -1)
                    .reshape((*y.shape, *x.shape))
                    for i, y in enumerate(self.outputs)
                ]
            )
        return [tuple(blocks) for blocks in zip(*by_input, strict=True)]

    def finish(self, tensors: Sequence[Tensor], several: bool) -> Any:
        """An answer as the user gets it."""
        answer = tuple(tensors if self.create_graph else [t.detach() for t in tensors])
        return answer if several else answer[0]


def as_tensors(value: Any, what: str, name: str) -> tuple[Tensors, bool]:
    """``value`` as a tuple of tensors, and whether it was one."""
    several = isinstance(value, tuple)
    entries = value if several else (value,)
    for i, t in enumerate(entries):
        if not isinstance(t, Tensor):
            where = f"value at index {i}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but "
                f"the {where} has type {kind(t)}."
            )
    return entries, several


def tracked(t: Tensor, create_graph: bool) -> Tensor:
    """A copy of an input: part of the caller's graph if that is wanted, else a new leaf."""
    return t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_()


def gradients(
    outputs: Sequence[Tensor | None],
    inputs: Tensors,
    vectors: Tensors | None,
    create_graph: bool,
    retain_graph: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """:func:`grad` where outputs without a gradient count as zero."""
    given = (None,) * len(outputs) if vectors is None else vectors
    pairs = [
        (y, v) for y, v in zip(outputs, given, strict=True) if y is not None and y.requires_grad
    ]
    if not pairs:
        return (None,) * len(inputs)
    return grad(
        [y for y, _ in pairs],
        inputs,
        [v for _, v in pairs],
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=True,
    )


def zeros_like(t: Tensor) -> Tensor:
    return t.new_zeros(t.shape)


def seed_like(t: Tensor) -> Tensor:
    """Zeros to differentiate by that are no leaf: what follows from them depends on nobody's."""
    seed = zeros_like(t).requires_grad_().clone()
    seed._history.edges = (None,)
    return seed


def basis(t: Tensor) -> Iterator[Tensor]:
    """The unit vectors of the space of ``t``; in a trace, constants of the graph."""
    for index in np.ndindex(*t.shape):
        unit = np.zeros(t._array.shape, t._array.dtype)
        unit[index] = 1
        yield literal(unit)


def is_reverse(strategy: str) -> bool:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your '
            'function has more outputs than inputs, "forward-mode" tends to be more performant. '
            f'Otherwise, prefer to use "reverse-mode". Got {strategy!r}.'
        )
    return strategy == "reverse-mode"
