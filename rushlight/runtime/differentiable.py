"""A call of a compiled function whose result is differentiated outside.

The forward program keeps what the backward program needs; the tape sees one node.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.autograd.backward import grad
from rushlight.autograd.function import Function
from rushlight.autograd.modes import local
from rushlight.autograd.tape import counter
from rushlight.config import config
from rushlight.dims import known
from rushlight.graph import ir
from rushlight.graph.ir import Graph
from rushlight.ops.base import any_tracked
from rushlight.tensor import Tensor, wrap

if TYPE_CHECKING:
    from rushlight.runtime.derivative import Derivative
    from rushlight.runtime.specialization import Specialization

ndarray = np.ndarray
NOTHING = wrap(np.empty(0))


class Call:
    """One call of a program whose result will be differentiated."""

    def __init__(
        self,
        made: Specialization,
        tensors: Sequence[Tensor],
        inputs: list[ndarray],
        captured: list[Any],
        derivative: Derivative | None = None,
        floats: Sequence[float] = (),
    ) -> None:
        self.made, self.inputs, self.captured = made, inputs, captured
        self.derivative, self.floats = derivative, floats
        self.tensors = () if derivative is None else tensors
        self.wanted = [made.find(place, tensors) for place in made.wanted]
        self.needed = [made.find(place, tensors) for place in made.needed]
        self.sizes: Mapping[str, int] = {} if made.shapes is None else made.shapes.sizes.now
        self.rest: Sequence[ndarray] = ()
        self.kept: list[Any] = []

    def run(self) -> list[Tensor]:
        return self.take(self.made.forward.run(self.inputs, self.captured))

    def take(self, arrays: Sequence[ndarray]) -> list[Tensor]:
        """The results among the outputs of the forward program; others are for later."""
        made = self.made
        end = len(arrays) - made.kept.count(None)
        saved = iter(arrays[end:])
        self.kept = [next(saved) if place is None else self.inputs[place] for place in made.kept]
        self.rest = arrays[made.count : end]
        return made.wrapped(arrays[: made.count])

    def remember(self) -> None:
        """Notes the versions of the tensors that backward, or its own derivative, will read."""
        self.versions = [(t, c := counter(t), c.value) for t in self.needed]
        self.sources = [(t, c := counter(t), c.value) for t in self.wanted]

    def check(self, versions: Sequence[tuple[Tensor, Any, int]]) -> None:
        """An error if one of them was written to since."""
        for t, written, expected in versions:
            if written.value != expected:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: [{t.dtype.name} {list(t.shape)}], needed by a compiled "
                    f"function, is at version {written.value}; expected version {expected} instead."
                )

    def gradients(self, tangents: Sequence[ndarray]) -> Any:
        """The outputs of the backward program."""
        if self.made.shapes is not None:
            self.made.shapes.sizes.now = self.sizes
        assert self.made.backward is not None
        return self.made.backward.run([*self.kept, *tangents], self.captured)

    def recorded(self, tangents: Sequence[Tensor]) -> Any:
        """Gradients that can be differentiated again.

        They are those of the function, compiled; or of the graph, run op by op.
        """
        self.check(self.sources)
        if self.derivative is not None and not config.disable_compile:
            return self.derivative(self.tensors, self.floats, tangents)
        made = self.made
        twins = [t.view_as(t) for t in self.wanted]
        leaves = dict(zip(map(made.node_of, made.wanted), twins, strict=True))
        values = {n: wrap(a) for n, a in zip(made.graph.inputs, self.inputs, strict=False)}
        arrays = [a for a in self.captured if isinstance(a, ndarray)]
        nodes = [
            n
            for n, c in zip(made.graph.captured, self.captured, strict=True)
            if isinstance(c, ndarray)
        ]
        values |= {n: wrap(a) for n, a in zip(nodes, arrays, strict=True)}
        outputs = replay(made.graph, values | leaves, made.graph.outputs[: made.count], self.sizes)
        pairs = [(outputs[i], made.axes[i]) for i in made.roots]
        roots = [t if axes is None else t.permute(axes) for t, axes in pairs]
        return grad(roots, twins, tangents, create_graph=True, allow_unused=True)


def replay(
    graph: Graph,
    values: dict[ir.Node, Any],
    outputs: Sequence[ir.Node],
    sizes: Mapping[str, int],
) -> list[Tensor]:
    """A graph run op by op on tensors, so that it is recorded."""
    for node in ir.walk(outputs, list(values)):
        if node.op is ir.CONSTANT:
            values[node] = wrap(node.attrs["value"])
        elif node.op is ir.ITEM:
            values[node] = values[node.inputs[0]][node.attrs["index"]]  # type: ignore[index]
        elif "generator" in node.attrs:
            raise not_twice("that draws random numbers")
        else:
            operands = [None if n is None else values[n] for n in node.inputs]
            if node.op.once and any_tracked(operands):
                raise not_twice(f"that is a program alone, with {node.op.full_name} in it,")
            attrs = {name: known(value, sizes) for name, value in node.attrs.items()}
            values[node] = node.op.apply(operands, attrs)
    return [values[node] for node in outputs]


def not_twice(which: str) -> RuntimeError:
    return RuntimeError(
        f"a compiled function {which} cannot be differentiated twice: compile the function that "
        "computes both derivatives, or run it in dynamic mode"
    )


class Differentiable(Function):
    """The program of a function, with the program of its gradients as the derivative."""

    @staticmethod
    def forward(ctx: Any, call: Call, *wanted: Tensor) -> Any:
        ctx.call = call
        ctx.save_for_backward(NOTHING)  # versions are the call's affair; using it up is the tape's
        outputs = call.run()
        roots = call.made.roots
        ctx.mark_non_differentiable(*[t for i, t in enumerate(outputs) if i not in roots])
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        call, made = ctx.call, ctx.call.made
        _ = ctx.saved_tensors  # an error if the graph was used up
        call.check(call.versions)
        if local.state.grad:
            return (None, *call.recorded([grads[i] for i in made.roots]))
        found = iter(call.gradients([grads[i]._array for i in made.roots]))
        return (None, *[None if unused else wrap(next(found)) for unused in made.unused])


def differentiable(function: Callable[..., Any]) -> type[Differentiable]:
    """:class:`Differentiable` by the name of the function, for pictures, profiles and users."""
    name = getattr(function, "__name__", type(function).__name__)
    module = getattr(function, "__module__", None) or ""  # code of exec() has none
    if isinstance(function, FunctionType) and module.startswith("rushlight."):
        return named(name, "".join([w.capitalize() for w in name.split("_")]) + "Backward0")
    return named(name, "CompiledFunctionBackward")


@functools.lru_cache(maxsize=1 << 10)
def named(name: str, node: str) -> type[Differentiable]:
    """The class whose tape nodes users know as ``node``."""
    made: type[Differentiable] = type(name, (Differentiable,), {})
    made._rule.node.__name__ = node
    return made
