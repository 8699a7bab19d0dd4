"""Plain attributes of modules, which files keep beside tensors; and what they leave out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rushlight.jit.state import TAKEN
from rushlight.nn.module import Module

PLAIN = (type(None), bool, int, float, str)
DEEPEST = 20  # containers inside one another


def attributes_of(module: Module, names: Collection[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The attributes of a module, and of those inside, that a file keeps; and what others are.

    Constants of a class count if its ``__constants__`` names them.

    Args:
        names: of tensors, which come first.

    >>> net = rl.nn.Linear(3, 2)
    >>> net.labels, net.activation = ["cat", "dog"], rl.tanh
    >>> attributes_of(net, [])
    ({'in_features': 3, 'out_features': 2, 'labels': ['cat', 'dog']}, {'activation': 'a function'})
    """
    kept: dict[str, Any] = {}
    others: dict[str, str] = {}
    tensors = {*names}
    for path, inner in module.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        constants = getattr(type(inner), "__constants__", ())
        values = {name: getattr(inner, name) for name in constants if name in dir(inner)}
        for name, value in (values | vars(inner)).items():
            whole = prefix + name
            if name.startswith("_") or name in TAKEN or whole in tensors:
                continue
            if is_plain(value) and TAKEN.isdisjoint(path.split(".")):
                kept[whole] = value
            elif name not in inner._modules:
                others[whole] = f"a {type(value).__name__}"
    return kept, others


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is a number, a string, True, False or None, or a container of such values."""
    if type(value) in PLAIN:
        return True
    if depth > DEEPEST:
        return False
    if type(value) is dict:
        return all([type(key) in (str, int) for key in value]) and is_plain(
            [*value.values()], depth + 1
        )
    return type(value) in (tuple, list) and all([is_plain(x, depth + 1) for x in value])


def restore(module: Module, attributes: Mapping[str, Any]) -> None:
    """Gives a module, and those inside, their attributes back."""
    for name, value in attributes.items():
        *path, last = name.split(".")
        inner = module
        for part in path:
            if inner._modules.get(part) is None:
                inner.add_module(part, type(module)())
            inner = inner._modules[part]  # type: ignore[assignment]
        setattr(inner, last, value)
