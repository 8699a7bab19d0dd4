"""The views again as copies: ``permute_copy`` is ``permute`` in memory of its own."""

from __future__ import annotations

from typing import Any

from rushlight.ops import (  # noqa: F401 - they register the views
    movement,
    shapes,
    slices,
    splitting,
    strides,
)
from rushlight.ops.base import composite, into, need_tensor, registry
from rushlight.ops.samples import Fails, S, T
from rushlight.tensor import Tensor

VIEWS = {  # the arguments of an example, and the shape it gives
    "as_strided": ("rl.arange(6), (2, 2), (1, 2)", [2, 2]),
    "diagonal": ("rl.zeros(3, 4), 1", [3]),
    "expand": ("rl.zeros(3, 1), (3, 4)", [3, 4]),
    "narrow": ("rl.arange(5), 0, 1, 3", [3]),
    "permute": ("rl.zeros(2, 3, 4), (2, 0, 1)", [4, 2, 3]),
    "select": ("rl.zeros(2, 3), 0, 1", [3]),
    "slice": ("rl.arange(5), 0, 1, None, 2", [2]),
    "squeeze": ("rl.zeros(2, 1)", [2]),
    "t": ("rl.zeros(2, 3)", [3, 2]),
    "transpose": ("rl.zeros(2, 3, 4), 0, 2", [4, 3, 2]),
    "unfold": ("rl.arange(5), 0, 2, 1", [4, 2]),
    "unsqueeze": ("rl.zeros(2, 3), 1", [2, 1, 3]),
    "view": ("rl.arange(6), (2, 3)", [2, 3]),
}
SEVERAL = {  # the arguments of an example, and how many pieces it gives
    "split": ("rl.arange(5), 2", 3),
    "split_with_sizes": ("rl.arange(5), [2, 3]", 2),
    "unbind": ("rl.zeros(2, 3)", 2),
}


def copying(name: str, example: str) -> None:
    """Registers the op ``name_copy``: what the view op ``name`` sees, copied."""
    view = registry[name]

    def copy(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        seen = view.call(*args, **kwargs)
        y = seen.clone() if isinstance(seen, Tensor) else tuple([v.clone() for v in seen])
        return y if out is None else into(out, y)

    copy.__name__ = f"{name}_copy"
    copy.__doc__ = f"A copy of what ``{name}`` sees with the same arguments.\n\n{example}"
    copy.__wrapped__ = view.call  # type: ignore[attr-defined]
    composite(method=name == "narrow", samples=view.samples, errors=view.errors)(copy)


for _name, (_arguments, _shape) in VIEWS.items():
    copying(_name, f">>> rl.{_name}_copy({_arguments}).shape\nrushlight.Size({_shape})")
for _name, (_arguments, _count) in SEVERAL.items():
    copying(_name, f">>> len(rl.{_name}_copy({_arguments}))\n{_count}")


@composite(
    method=False,
    samples=[S(T(2, 3)), S(T())],
    errors=[Fails(TypeError, "must be Tensor, not list", [1.0])],
)
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the tensor.

    >>> rl.alias_copy(rl.tensor([1, 2]))
    tensor([1, 2])
    """
    y = need_tensor("alias_copy", input).clone()
    return y if out is None else into(out, y)


@composite(
    method=False,
    samples=[S(T(2, 3)), S(T())],
    errors=[Fails(TypeError, "must be Tensor, not list", [1.0])],
)
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of the tensor without history.

    >>> rl.detach_copy(rl.tensor([1, 2]))
    tensor([1, 2])
    """
    y = need_tensor("detach_copy", input).detach().clone()
    return y if out is None else into(out, y)
