"""Modules that hold others: in a row, in a list, in a dictionary; and the same for parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar

from rushlight.errors import kind
from rushlight.graph.epoch import Entries
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.settings import typename
from rushlight.tensor import Tensor

Self = TypeVar("Self", bound="Numbered")


def position(index: Any, length: int) -> int:
    """An index counted from the front; ``IndexError`` if there is none such."""
    i = operator.index(index)
    if not -length <= i < length:
        raise IndexError(f"index {i} is out of range")
    return i % length


class Numbered(Module):
    """Modules in an order, called "0", "1", …"""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, list(self._modules)[position(idx, len(self))], module)

    def __delitem__(self, idx: int | slice) -> None:
        left = list(self._modules.values())
        del left[idx if isinstance(idx, slice) else position(idx, len(left))]
        self._renumber(left)

    def _renumber(self, modules: Iterable[Module]) -> None:
        self._modules = Entries({str(i): module for i, module in enumerate(modules)})

    def append(self: Self, module: Module) -> Self:
        """Puts a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Module]) -> Self:
        """Puts modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got "
                f"{kind(modules)}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Any:
        """Takes a module, or a slice of them, away and returns it."""
        module = self[key]
        del self[key]
        return module

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError


class Sequential(Numbered):
    """Modules that are called one after the other, each with the result of the one before.

    Args:
        args: the modules, or one ``OrderedDict`` of them.

    >>> model = rl.nn.Sequential(rl.nn.Linear(4, 3), rl.nn.Linear(3, 2))
    >>> model(rl.zeros(5, 4)).shape
    rushlight.Size([5, 2])
    >>> model[1]
    Linear(in_features=3, out_features=2, bias=True)
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return list(self._modules.values())[position(idx, len(self))]

    def insert(self: Self, index: int, module: Module) -> Self:
        """Puts a module before the one at ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *sequential(other))

    def __iadd__(self, other: Sequential) -> Sequential:
        return self.extend(sequential(other))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * self._times(other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        return self.extend(list(self) * (self._times(other) - 1))

    def _times(self, count: Any) -> int:
        if not isinstance(count, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(count)}")
        if count <= 0:
            raise ValueError(f"Non-positive multiplication factor {count} for {type(self)}")
        return count


def sequential(other: Any) -> Sequential:
    if isinstance(other, Sequential):
        return other
    raise ValueError(
        f"add operator supports only objects of Sequential class, but {type(other)} is given."
    )


class ModuleList(Numbered):
    """A list of modules, which the module that has it counts among its own.

    >>> layers = rl.nn.ModuleList([rl.nn.Linear(2, 2) for _ in range(3)])
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    >>> len(layers[1:])
    2
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[str(position(idx, len(self)))]

    def insert(self, index: int, module: Module) -> None:
        """Puts a module before the one at ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self: Self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        runs: list[list[Any]] = []  # [first, last, text] of neighbours that are written alike
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}"
            if first == last
            else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        ]
        inner = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {inner}\n)"


class ModuleDict(Module):
    """A dictionary of modules, which the module that has it counts among its own.

    >>> heads = rl.nn.ModuleDict({"left": rl.nn.Linear(2, 1), "right": rl.nn.Linear(2, 3)})
    >>> heads["right"].out_features
    3
    """

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes all modules away."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes a module away and returns it."""
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """The pairs of name and module."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Adds the modules of a dictionary, or of an iterable of pairs."""
        for key, module in pairs("ModuleDict", modules):
            self[key] = module


def pairs(name: str, given: Any) -> Iterable[tuple[str, Any]]:
    """The pairs of name and value in a mapping or an iterable of pairs."""
    if isinstance(given, (Mapping, ModuleDict, ParameterDict)):
        return given.items()
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got "
            f"{kind(given)}"
        )
    found = []
    for i, pair in enumerate(given):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{i} should be Iterable; is{kind(pair)}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{name} update sequence element #{i} has length {len(pair)}; 2 is required"
            )
        found.append(pair)
    return found


def as_parameter(value: Any) -> Any:
    """A tensor as a parameter, anything else as it is."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def described(name: Any, value: Any, type_of: str) -> str:
    """The line of a parameter in the ``repr`` of a list or dictionary of them."""
    if not isinstance(value, Tensor):
        return f"  ({name}): Object of type: {kind(value)}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(map(str, value.shape))
    return f"  ({name}): {what} containing: [{type_of} of size {size}]"


class ParameterList(Module):
    """A list of parameters, which the module that has it counts among its own.

    Tensors become parameters; other values stay what they are.

    >>> biases = rl.nn.ParameterList([rl.zeros(2), rl.zeros(3)])
    >>> biases
    ParameterList(
        (0): Parameter containing: [rushlight.float32 of size 2]
        (1): Parameter containing: [rushlight.float32 of size 3]
    )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, str(i)) for i in range(self._size))

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)([self[i] for i in range(*idx.indices(len(self)))])
        return getattr(self, str(position(idx, len(self))))

    def __setitem__(self, idx: int, param: Any) -> None:
        setattr(self, str(position(idx, len(self))), as_parameter(param))

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def append(self, value: Any) -> ParameterList:
        """Puts a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Puts values at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {kind(values)}"
            )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            described(i, p, str(p.dtype) if isinstance(p, Tensor) else "")
            for i, p in enumerate(self)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters, which the module that has it counts among its own.

    Tensors become parameters; other values stay what they are.

    >>> weights = rl.nn.ParameterDict({"left": rl.zeros(2), "right": rl.zeros(3)})
    >>> list(weights.keys())
    ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, text(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[text(key)] = None
        setattr(self, key, as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, text(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Another dictionary with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, which is set to ``default`` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Takes all values away."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Takes a value away and returns it."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Takes the last pair of key and value away and returns it."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``, or ``default`` if there is none."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new dictionary with one value for all keys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The pairs of key and value."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Adds the values of a dictionary (a plain one in sorted order), or of pairs."""
        found = pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            found = sorted(found, key=operator.itemgetter(0))
        for key, value in list(found):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(described(key, p, typename(p)) for key, p in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: ParameterDict) -> ParameterDict:
        both = self.copy()
        both.update(other)
        return both

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        both = other.copy()
        both.update(self)
        return both

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self


def text(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise TypeError(
        "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
        f"'{kind(key)}')."
    )
