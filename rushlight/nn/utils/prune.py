"""Weights set to zero and kept there: ``weight = weight_mask · weight_orig``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rushlight.nn.module import Module
from rushlight.nn.utils.convert_parameters import parameters_to_vector
from rushlight.ops import ops
from rushlight.tensor import Tensor

M = TypeVar("M", bound=Module)


class BasePruningMethod(ABC):
    """A way to choose what is pruned; :meth:`apply` makes it a hook of a module.

    A subclass says in ``PRUNING_TYPE`` what it prunes ("unstructured": elements, "structured":
    slices along ``dim``, "global": anything) and writes ``compute_mask``.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Ones where ``t`` is kept and zeros elsewhere; ``default_mask`` is the mask before."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor."""
        original = getattr(module, f"{self._tensor_name}_orig")
        return getattr(module, f"{self._tensor_name}_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prunes ``module.<name>``, on top of what was pruned before, and keeps it pruned."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        scores = scored(original, importance_scores, f"parameter {name} of {module}")
        key, before = next(pruning_hooks(module, name), (None, None))
        if before is not None:
            if not isinstance(before, PruningContainer):
                before = PruningContainer(before)
            before.add_pruning_method(method)
            method = before
            mask = getattr(module, f"{name}_mask").detach().clone()
        else:
            mask = ops.ones_like(original)
        mask = method.compute_mask(scores, default_mask=mask)
        if key is None:
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
        else:
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A tensor pruned in this way, apart from any module."""
        mask = ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scored(t, importance_scores, "tensor t"), default_mask=mask)

    def remove(self, module: Module) -> None:
        """Makes the pruned tensor, as it is, a parameter again."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        original: Any = module._parameters.pop(f"{name}_orig")
        delattr(module, name)
        delattr(module, f"{name}_mask")
        original.data = weight.data
        setattr(module, name, original)


def scored(t: Tensor, scores: Tensor | None, what: str) -> Tensor:
    """The importance of the elements: given, or their own values."""
    if scores is None:
        return t
    if scores.shape != t.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs "
            f"{t.shape}"
        )
    return scores


def pruning_hooks(module: Module, name: str | None = None) -> Iterator[tuple[int, Any]]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and name in (None, hook._tensor_name):
            yield key, hook


class PruningContainer(BasePruningMethod):
    """Several ways of pruning one tensor, one after the other."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Adds a way of pruning the same tensor."""
        if method is None:
            return
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask before, changed by the last method in the part that is not pruned yet."""
        method: Any = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            part: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not -t.ndim <= method.dim < t.ndim:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
            dim = method.dim % t.ndim
            left = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
            part = along(t, dim, left)
        elif method.PRUNING_TYPE == "global":
            part = ...
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = mask.clone()
        new[part] = method.compute_mask(t[part], default_mask=mask[part]).to(mask.dtype)
        return new


def along(t: Tensor, dim: int, index: Any) -> tuple[Any, ...]:
    """An index into ``t`` that is ``index`` along ``dim`` and everything elsewhere."""
    places: list[Any] = [slice(None)] * t.ndim
    places[dim] = index
    return tuple(places)


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        self.amount = checked_amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = pruned_count(self.amount, t.numel())
        mask = default_mask.clone().contiguous()
        if count:
            mask.view(-1)[ops.rand_like(t).view(-1).topk(count).indices] = 0
        return mask


class L1Unstructured(BasePruningMethod):
    """Prunes the elements with the smallest absolute values."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        self.amount = checked_amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = pruned_count(self.amount, t.numel())
        mask = default_mask.clone().contiguous()
        if count:
            mask.view(-1)[t.abs().reshape(-1).topk(count, largest=False).indices] = 0
        return mask


class RandomStructured(BasePruningMethod):
    """Prunes slices along a dimension at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount, self.dim = checked_amount(amount), dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        size = slices(t, self.dim)
        count = pruned_count(self.amount, size)
        if not count:
            return default_mask
        chance = ops.rand(size)
        return kept_slices(t, self.dim, chance > chance.kthvalue(count).values, default_mask)


class LnStructured(BasePruningMethod):
    """Prunes the slices along a dimension that have the smallest norms of order ``n``."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float | str, dim: int = -1) -> None:
        self.amount, self.n, self.dim = checked_amount(amount), n, dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        size = slices(t, self.dim)
        count = pruned_count(self.amount, size)
        if not count:
            return default_mask
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        largest = ops.norm(t, p=self.n, dim=others).topk(size - count).indices
        return kept_slices(t, self.dim, largest, default_mask)


def slices(t: Tensor, dim: int) -> int:
    """How many slices there are along ``dim``."""
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )
    if dim >= t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return t.shape[dim]


def kept_slices(t: Tensor, dim: int, index: Tensor, default_mask: Tensor) -> Tensor:
    """The mask before, with zeros in all slices but those at ``index``."""
    mask = ops.zeros_like(t)
    mask[along(t, dim, index)] = 1
    return mask * default_mask.to(mask.dtype)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


def checked_amount(amount: Any) -> Any:
    """A fraction in [0, 1] or a whole number of things to prune."""
    if not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )
    return amount


def pruned_count(amount: Any, size: int) -> int:
    """How many of ``size`` things to prune."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return amount


def identity(module: M, name: str) -> M:
    """Gives ``module.<name>`` a mask that prunes nothing."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prunes elements of ``module.<name>`` at random; ``amount`` is a fraction or a number."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: float, importance_scores: Tensor | None = None
) -> M:
    """Prunes the elements of ``module.<name>`` with the smallest absolute values.

    Args:
        module: the module that has the tensor.
        name: its name.
        amount: a fraction, or a number of elements.
        importance_scores: take the smallest of these instead.

    >>> layer = rl.nn.utils.prune.l1_unstructured(rl.nn.Linear(2, 3), "weight", amount=0.5)
    >>> (layer.weight == 0).sum()
    tensor(3)
    >>> sorted(layer.state_dict())
    ['bias', 'weight_mask', 'weight_orig']
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prunes slices of ``module.<name>`` along ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M,
    name: str,
    amount: float,
    n: float | str,
    dim: int,
    importance_scores: Tensor | None = None,
) -> M:
    """Prunes the slices of ``module.<name>`` along ``dim`` with the smallest norms of order ``n``.

    >>> layer = rl.nn.utils.prune.ln_structured(rl.nn.Linear(5, 4), "weight", 0.5, n=2, dim=0)
    >>> (layer.weight.sum(1) == 0).sum()
    tensor(2)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes elements of several tensors as if they were one.

    Args:
        parameters: pairs of a module and the name of a parameter.
        pruning_method: an unstructured method, such as :class:`L1Unstructured`.
        importance_scores: by such pairs, what is compared instead of the elements.
        kwargs: the arguments of the method, such as ``amount``.

    >>> model = rl.nn.Sequential(rl.nn.Linear(10, 4), rl.nn.Linear(4, 1))
    >>> prune = rl.nn.utils.prune
    >>> pairs = [(model[0], "weight"), (model[1], "weight")]
    >>> prune.global_unstructured(pairs, prune.L1Unstructured, amount=10)
    >>> sum((layer.weight == 0).sum() for layer in model)
    tensor(10)
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = list(parameters)
    tensors = [getattr(module, name) for module, name in pairs]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all"
    masks = [
        getattr(module, f"{name}_mask", ops.ones_like(t))
        for (module, name), t in zip(pairs, tensors, strict=True)
    ]
    important = [scores.get(pair, t) for pair, t in zip(pairs, tensors, strict=True)]
    mask = PruningContainer(method).compute_mask(
        parameters_to_vector(important), parameters_to_vector(masks)
    )
    parts = mask.split([t.numel() for t in tensors])
    for (module, name), t, part in zip(pairs, tensors, parts, strict=True):
        custom_from_mask(module, name, part.view_as(t))


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prunes ``module.<name>`` where ``mask`` is zero.

    >>> layer = rl.nn.utils.prune.custom_from_mask(
    ...     rl.nn.Linear(5, 3), "bias", mask=rl.tensor([0, 1, 0])
    ... )
    >>> layer.bias_mask
    tensor([0., 1., 0.])
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: M, name: str) -> M:
    """Makes the pruned ``module.<name>``, as it is, a parameter again."""
    for key, hook in list(pruning_hooks(module, name)):
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether something in the module, or below it, is pruned."""
    return any(next(pruning_hooks(m), None) is not None for m in module.modules())
