"""Derivatives of functions whose arguments and results are tensors or trees of them.

A result is differentiable again if the function depends on a tensor that requires a gradient, as
it does inside another of these transformations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.functional import Call, gradients
from rushlight.autograd.graph import leaves
from rushlight.autograd.modes import enable_grad, local
from rushlight.errors import kind
from rushlight.func.trees import flatten
from rushlight.tensor import Tensor

Tensors = tuple[Tensor, ...]


def grad(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The function that returns the gradient of ``func``, which returns one number.

    Args:
        argnums: which positional argument, or which several, to differentiate by.
        has_aux: ``func`` returns (number, something more), the new function (gradient, something
            more).

    >>> rl.func.grad(rl.func.grad(lambda x: x**3))(rl.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        g, value = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Like :func:`grad`, for (gradient, value of ``func``).

    >>> rl.func.grad_and_value(lambda x: x**3)(rl.tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def gradient_and_value(*args: Any, **kwargs: Any) -> Any:
        linear = Linear("grad", func, args, argnums, has_aux, kwargs)
        y = linear.call.outputs
        if not linear.returns_tensor or y[0].ndim:
            raise RuntimeError(
                "grad: expected func to return a 0-dimensional tensor, got "
                f"{', '.join([f'shape {list(t.shape)}' for t in y]) or 'nothing'}. "
                "Did you mean jacrev?"
            )
        g, value = linear.like_inputs(linear.pull(None)), linear.value()
        return g, (value, linear.aux()) if has_aux else value

    return gradient_and_value


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``func`` and the function that takes v to vᵀJ.

    Args:
        primals: the arguments of ``func``.
        has_aux: ``func`` returns (value, something more), which becomes a third result.

    >>> y, pull = rl.func.vjp(lambda x: x * x, rl.tensor([1.0, 2.0]))
    >>> pull(rl.ones(2))
    (tensor([2., 4.]),)
    """
    linear = Linear("vjp", func, primals, range(len(primals)), has_aux)

    def pull(cotangents: Any) -> Any:
        vectors = linear.call.vector(tuple(flatten(cotangents)[0]), linear.call.outputs, True, "")
        return linear.like_inputs(linear.pull(vectors, retain_graph=True))

    return linear.answer(pull)


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """The value of ``func`` and Jv.

    Args:
        primals: the arguments of ``func``.
        tangents: v, a tuple like ``primals``.
        strict: an error, rather than zeros, if the value does not depend on an argument.
        has_aux: ``func`` returns (value, something more), which becomes a third result.

    >>> rl.func.jvp(lambda x: x * x, (rl.tensor([1.0, 2.0]),), (rl.ones(2),))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    for what, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise RuntimeError(f"jvp: expected {what} to be a tuple, got {kind(value)}")
    given = tuple(flatten(tangents)[0])
    numbers = range(len(primals))
    linear = Linear("jvp", func, primals, numbers, has_aux, tied=given, strict=strict)
    call = linear.call
    vectors = call.vector(given, call.inputs, True, "")
    with enable_grad():
        seeds, pulled = call.pullback()
        found = gradients(pulled, seeds, vectors, call.create_graph)
        products = call.complete(found, call.outputs, "output", "")
    return linear.answer(linear.like_outputs(call.finish(products, True)))


def jacrev(
    func: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function that returns the Jacobian of ``func``, computed by rows.

    Each tensor of the result of ``func`` becomes its derivatives by the chosen arguments, with the
    dimensions of the result followed by those of the argument.

    Args:
        argnums: which positional argument, or which several, to differentiate by.
        has_aux: ``func`` returns (result, something more), and so does the new function.
        chunk_size: accepted; rows are computed one at a time.

    >>> rl.func.jacrev(lambda x: x * x)(rl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    return jacobian_of(func, argnums, has_aux, Call.rows)


def jacfwd(
    func: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """:func:`jacrev` computed by columns: for functions with more results than arguments.

    >>> rl.func.jacfwd(lambda x: rl.stack([x, x * x]))(rl.tensor(3.0))
    tensor([1., 6.])
    """
    return jacobian_of(func, argnums, has_aux, Call.columns)


def hessian(func: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """The function that returns the Hessian of ``func``: the Jacobian of its Jacobian.

    >>> rl.func.hessian(lambda x: x.pow(3).sum())(rl.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacrev(jacrev(func, argnums), argnums)


def jacobian_of(
    func: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    blocks: Callable[[Call], list[Tensors]],
) -> Callable[..., Any]:
    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        linear = Linear("jacobian", func, args, argnums, has_aux, kwargs)
        with enable_grad():
            rows = [linear.call.finish(row, True) for row in blocks(linear.call)]
        answer = linear.like_outputs([linear.like_inputs(row) for row in rows])
        return (answer, linear.aux()) if has_aux else answer

    return jacobian


class Linear:
    """A function called on arguments of which the chosen ones require gradients.

    Derivatives are recorded only if it depends on anything else that requires a gradient, or
    ``tied`` does.
    """

    def __init__(
        self,
        name: str,
        func: Callable[..., Any],
        args: Sequence[Any],
        argnums: int | Sequence[int],
        has_aux: bool,
        kwargs: dict[str, Any] | None = None,
        tied: Tensors = (),
        strict: bool = False,
    ) -> None:
        self.single, self.has_aux = isinstance(argnums, int), has_aux
        numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        chosen = [position(name, n, len(args)) for n in numbers]
        flat, self.rebuild_inputs = flatten(tuple([args[n] for n in chosen]))
        self.more: Any = None
        self.returns_tensor = False

        def of_tensors(*tensors: Tensor) -> Tensors:
            given = list(args)
            for n, value in zip(chosen, self.rebuild_inputs(iter(tensors)), strict=True):
                given[n] = value
            result = func(*given, **(kwargs or {}))
            if has_aux:
                result, self.more = pair(name, result)
            self.returns_tensor = isinstance(result, Tensor)
            outputs, self.rebuild_outputs = flatten(result)
            for y in outputs:
                if not isinstance(y, Tensor):
                    raise RuntimeError(f"{name}: expected func to return tensors, got {kind(y)}")
            return tuple(outputs)

        recording = local.state.grad
        with enable_grad():
            self.call = Call(name, of_tensors, tuple(flat), recording, strict)
        others = leaves((*self.call.outputs, *tied)) - set(self.call.inputs)
        self.call.create_graph = recording and bool(others)

    def pull(self, vectors: Tensors | None, retain_graph: bool | None = None) -> Tensors:
        """vᵀJ."""
        call = self.call
        with enable_grad():
            found = gradients(
                call.outputs, call.inputs, vectors, call.create_graph, retain_graph=retain_graph
            )
        return call.finish(call.complete(found, call.inputs, "output", ""), True)

    def answer(self, derivative: Any) -> tuple[Any, ...]:
        return (self.value(), derivative, *([self.aux()] if self.has_aux else []))

    def value(self) -> Any:
        return self.like_outputs(self.call.finish(self.call.outputs, True))

    def aux(self) -> Any:
        flat, rebuild = flatten(self.more)
        if self.call.create_graph:
            return self.more
        return rebuild(iter([t.detach() if isinstance(t, Tensor) else t for t in flat]))

    def like_inputs(self, values: Sequence[Any]) -> Any:
        chosen = self.rebuild_inputs(iter(values))
        return chosen[0] if self.single else chosen

    def like_outputs(self, values: Sequence[Any]) -> Any:
        return self.rebuild_outputs(iter(values))


def position(name: str, argnum: int, count: int) -> int:
    if not -count <= argnum < count:
        raise RuntimeError(f"{name}: got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def pair(name: str, result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{name}: with has_aux=True func returns a pair, got {kind(result)}")
    return result
